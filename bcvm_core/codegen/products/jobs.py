"""What native code is told of a product: the layout of operands, the memory it works in, the weight as it is kept."""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import Any, Final

import numpy as np

from ... import config, fpstatus
from ..loops import address, made
from ..scratch import ALIGNMENT, Scratch
from ..stencils import offsets
from . import amx
from . import amx_memory_code as amx_memory
from . import job_code as c
from .loop import OP, ProductLoop
from .weights import Kept, weights

_Array = np.ndarray[Any, Any]
SEVERAL: Final = 1e7  # operations from which on a product may run on several threads,
_RATE: Final = 600.0  # and bytes times operations per nanosecond by which that is foreseen,
_AMX_RATE: Final = 1600.0  # by the matrix unit,
_READ: Final = 10.0  # with bytes of the right operand that are read in one
SHORT: Final = 4e6  # operations up to which the interpreter's lock is kept
ROWS_MAX: Final = 4096  # of one piece
_AHEAD_ROWS: Final = 128  # up to so many rows the left operand is packed once and for all,
_AHEAD_BYTES: Final = 3 << 19  # if it is not larger than this (the matrix unit: its parts)
_TILES: Final = 24  # of columns that are packed at a time otherwise: the wider the registers, the larger the caches near them
_HOT: Final = 1 << 18  # elements, about, of blocks that something else follows
KEPT_ROWS: Final = 256  # up to so many rows packing a weight counts
_PIECES: Final = 2  # per thread,
_SMALL_PIECES: Final = 4  # or so many of products with few rows, for which packing them again costs little and waiting for a piece much
_INVALID, _DIVIDE, _OVERFLOW, _UNDERFLOW = 1, 4, 8, 16
_EVENTS: Final = ((_DIVIDE, "divide"), (_OVERFLOW, "overflow"), (_UNDERFLOW, "underflow"), (_INVALID, "invalid"))
MAX_PLANS: Final = 512
AMX_ROWS: Final = 48  # rows,
AMX_DEPTH: Final = 32  # terms of a sum,
AMX_LEAST: Final = 1 << 17  # and elements of the right operand from which on the matrix unit multiplies
JOB: Final = struct.Struct("<31q")
_pack: Final = JOB.pack
SCRATCH: Final = 17  # the words of a job that name its memory are three from this one on,
MODE: Final = 24  # this is the floating-point mode,
KEPT: Final = 26  # this the packed right operand,
BIAS, ACTIVATION = 27, 29  # and these are what follows the product

scratch = Scratch()
_codes: dict[str, ProductLoop | None] = {}


def code(dtype: str) -> ProductLoop | None:
    """The code for an element type, made within this call if it is not there: which kernel runs must not depend on what was warm."""
    if dtype not in _codes:
        loop = made(OP, dtype)
        assert isinstance(loop, ProductLoop)
        _codes.setdefault(dtype, loop if loop.ready else None)
    return _codes[dtype]


_units: list[amx.AmxLoop | None] = []


def unit(rows: int, b: _Array) -> int:
    """The matrix unit's functions, where it multiplies so many rows by a right operand like this one; 0: multiply-adds of vectors do.

    It follows from shapes, settings and the machine alone. Few rows wait for memory, not for sums. Under `reproducible` rows have no say,
    and the definition of all machines holds.
    """
    depth, columns = b.shape[-2:]
    if rows < AMX_ROWS or depth < AMX_DEPTH or depth * columns < AMX_LEAST or b.dtype.char != "f" or b.ndim != 2:
        return 0
    if config.current.reproducible or not config.current.amx:
        return 0
    if not _units:
        found = made(amx.OP, "float32")
        assert isinstance(found, amx.AmxLoop)
        _units.append(found if found.ready else None)
    return 0 if _units[0] is None else ctypes.addressof(_units[0].functions)


def takes(flops: float, b: _Array, by_unit: int = 0) -> float:
    """About how many nanoseconds one thread takes."""
    return flops * b.itemsize / (_AMX_RATE if by_unit else _RATE) + b.nbytes / _READ


def known_kept(w: _Array) -> Kept | None:
    """A weight (out, in) as it is kept already and was left unwritten since."""
    return weights.known(w.T)


def kept_weight(found: ProductLoop, rows: int, b: _Array, by_unit: int = 0) -> Kept | None:
    """The right operand of a product of so many rows as it is kept, if it is a weight that is."""
    form, (step, column) = found.form, b.strides[-2:]
    if (rows > KEPT_ROWS and not by_unit) or b.ndim != 2 or step != b.itemsize or column != step * b.shape[0] or form is None:
        return None

    def pack(at: int) -> None:
        job = Layout(found, 1, b.shape[1], b.shape[0], 0, steps(b), 0, step, 0).packing(address(b), at)
        found.pack(bytes_at(job))

    return weights.packed(b, rounded(b.shape[1], form.columns) * column, pack)


def kept_word(kept: Kept | None, by_unit: int) -> int:
    """What a job says of a kept operand: where it is, and whether the matrix unit takes all its numbers."""
    if kept is None:
        return 0
    if kept.plain is None and by_unit and _units[0] is not None:
        kept.plain = not _units[0].outside(kept.size // 4, kept.address)
    return kept.address | bool(by_unit and kept.plain)


class Layout:
    """All that a job says of operands beside where they lie."""

    __slots__ = ("head", "tail", "packed_a", "packed_b", "size", "block", "added", "by_unit")
    head: tuple[int, ...]

    def __init__(
        self,
        found: ProductLoop,
        rows: int,
        columns: int,
        depth: int,
        a_row: int,
        b_steps: tuple[int, int],
        c_row: int,
        size: int,
        by_unit: int,
    ) -> None:
        form = found.form
        assert form is not None
        panels = -(-rows // form.rows)
        low, more = divmod(rows, panels)
        self.size = rows * form.columns * size
        if by_unit:
            ahead, direct = self._of_unit(rows, depth), b_steps[0] != size
            block = form.columns * (1 if ahead and rows <= amx_memory.TALL else _TILES)
        else:
            ahead = rows <= _AHEAD_ROWS and rows * depth * size <= _AHEAD_BYTES
            direct = panels == 1 and b_steps[0] != size
            block = form.columns * (1 if ahead else _TILES)
            self.packed_a = rounded(((rows * depth if ahead else form.rows * c.DEPTH) + form.lanes) * size, ALIGNMENT)
            self.packed_b = rounded(min(block, rounded(columns, form.columns)) * c.DEPTH * size, ALIGNMENT)
        self.size += self.packed_a + self.packed_b
        self.block = max(1, _HOT // (rows * form.columns)) * form.columns
        self.head = (rows, columns, depth, 0, a_row, 0, *b_steps, 0, c_row, ctypes.addressof(found.tiles), panels, low, more, block)
        self.head += (ahead, direct)
        self.tail = (form.columns, form.lanes, size, found.copied)
        self.added, self.by_unit = found.added, by_unit

    def _of_unit(self, rows: int, depth: int) -> bool:
        """The memory that the matrix unit's parts take; whether rows are split over all the depth."""
        bands, chunks, pieces = -(-min(rows, amx_memory.TALL) // amx_memory.BAND), -(-depth // amx_memory.TERMS), -(-depth // c.DEPTH)
        ahead = bands * chunks * amx_memory.CHUNK <= _AHEAD_BYTES
        if not ahead:
            chunks, pieces = c.DEPTH // amx_memory.TERMS, 1
        self.packed_a = rounded(bands * (chunks * amx_memory.CHUNK + pieces * amx_memory.BAND_MARKS), ALIGNMENT)
        self.packed_b = rounded(amx_memory.B_BYTES, ALIGNMENT)
        return ahead

    def job(self, mode: int, tail: int = 0, kept: int = 0, memory: int = 0, bias: int = 0, activation: int = 0) -> bytes:
        """A job of its own, in which native code writes.

        `kept`: where b is, packed; 0: it is not. `memory`: at least `size` bytes, 0: this thread's. `bias`, `activation`: their addresses.
        """
        at = memory or scratch.at(self.size)
        b = at + self.packed_a
        return _pack(*self.head, at, b, b + self.packed_b, *self.tail, mode, tail, kept, bias, self.added, activation, self.by_unit)

    def packing(self, b: int, to: int) -> bytes:
        """A job that packs all of b, at the address `b`, to another one."""
        head = (*self.head[:5], b, *self.head[6:-1], False)
        return _pack(*head, 0, to, 0, *self.tail, 0, 0, 0, 0, 0, 0, 0)


layout: Final = functools.lru_cache(MAX_PLANS)(Layout)


def report(events: int) -> None:
    for bit, kind in _EVENTS:
        if events & bit:
            fpstatus.note(kind, "matmul", 6)


def left(a: _Array) -> _Array:
    """The left operand with the elements of its rows in order."""
    return a if a.strides[-1] == a.itemsize or a.shape[-1] == 1 else np.ascontiguousarray(a)


def right(b: _Array) -> _Array:
    """The right operand with rows or columns in order."""
    return b if b.itemsize in b.strides[-2:] or 1 in b.shape[-2:] else np.ascontiguousarray(b)


def cut(found: ProductLoop, stacks: int, rows: int, columns: int, workers: int, by_unit: int = 0) -> tuple[int, int, int]:
    """(rows, columns, matrices of a stack) of a piece; bits don't depend on them."""
    assert found.form is not None
    if by_unit and workers > 1 and stacks == 1:
        return *_cut_for_unit(rows, columns, workers), 1
    tall, wide, deep = ROWS_MAX, columns, stacks
    if workers > 1:
        wanted = workers * (_SMALL_PIECES if rows <= _AHEAD_ROWS else _PIECES)
        if stacks >= workers:
            deep = -(-stacks // wanted)
        elif columns >= 2 * workers * found.form.columns:
            wide = rounded(-(-columns // wanted), found.form.columns)
        else:
            tall = min(tall, rounded(-(-rows // wanted), found.form.rows))
    return tall, wide, deep


def _cut_for_unit(rows: int, columns: int, workers: int) -> tuple[int, int]:
    """As few pieces as keep all threads busy, since each splits its rows and columns anew."""
    down = -(-rows // amx_memory.TALL)
    across = -(-workers // down)
    return rounded(-(-rows // down), 2 * amx_memory.BAND), rounded(-(-columns // across), amx_memory.PANEL)


def rounded(count: int, step: int) -> int:
    return -(-count // step) * step


def bytes_at(x: bytes) -> int:
    """Where the bytes of an object are; 0 where there are none."""
    return id(x) + offsets.BYTES_HEAD if x else 0


def steps(b: _Array) -> tuple[int, int]:
    """Bytes to the next row and to the next column; one of them is an element, also where there is no next one."""
    row, column, size = *b.strides[-2:], b.itemsize
    if size in (row, column):
        return row, column
    return (row, size) if b.shape[-1] == 1 else (size, column)
