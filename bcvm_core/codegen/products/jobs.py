"""What native code is told of a product: the layout of operands, the memory it works in, the weight as it is kept."""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import Any, Final

import numpy as np

from ... import fpstatus
from ..loops import address, made
from ..scratch import ALIGNMENT, Scratch
from ..stencils import offsets
from . import multiply_code as c
from .loop import OP, ProductLoop
from .weights import Kept, weights

_Array = np.ndarray[Any, Any]
SEVERAL: Final = 1e7  # operations from which on a product may run on several threads,
_RATE: Final = 600.0  # and bytes times operations per nanosecond by which that is foreseen,
_READ: Final = 10.0  # with bytes of the right operand that are read in one
SHORT: Final = 4e6  # operations up to which the interpreter's lock is kept
ROWS_MAX: Final = 4096  # of one piece
_AHEAD_ROWS: Final = 128  # up to so many rows the left operand is packed once and for all,
_AHEAD_BYTES: Final = 3 << 19  # if it is not larger than this
_TILES: Final = 24  # of columns that are packed at a time otherwise: the wider the registers, the larger the caches near them
_HOT: Final = 1 << 18  # elements, about, of blocks that something else follows
KEPT_ROWS: Final = 256  # up to so many rows packing a weight counts
_PIECES: Final = 2  # per thread,
_SMALL_PIECES: Final = 4  # or so many of products with few rows, for which packing them again costs little and waiting for a piece much
_INVALID, _DIVIDE, _OVERFLOW, _UNDERFLOW = 1, 4, 8, 16
_EVENTS: Final = ((_DIVIDE, "divide"), (_OVERFLOW, "overflow"), (_UNDERFLOW, "underflow"), (_INVALID, "invalid"))
MAX_PLANS: Final = 512
JOB: Final = struct.Struct("<30q")
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


def takes(flops: float, b: _Array) -> float:
    """About how many nanoseconds one thread takes."""
    return flops * b.itemsize / _RATE + b.nbytes / _READ


def known_kept(w: _Array) -> Kept | None:
    """A weight (out, in) as it is kept already and was left unwritten since."""
    return weights.known(w.T)


def kept_weight(found: ProductLoop, rows: int, b: _Array) -> Kept | None:
    """The right operand of a product of so many rows as it is kept, if it is a weight that is."""
    form, (step, column) = found.form, b.strides[-2:]
    if rows > KEPT_ROWS or b.ndim != 2 or step != b.itemsize or column != step * b.shape[0] or form is None:
        return None

    def pack(at: int) -> None:
        job = Layout(found, 1, b.shape[1], b.shape[0], 0, steps(b), 0, step).packing(address(b), at)
        found.pack(bytes_at(job))

    return weights.packed(b, rounded(b.shape[1], form.columns) * column, pack)


class Layout:
    """All that a job says of operands beside where they lie."""

    __slots__ = ("head", "tail", "packed_a", "packed_b", "size", "block", "added")
    head: tuple[int, ...]

    def __init__(
        self, found: ProductLoop, rows: int, columns: int, depth: int, a_row: int, b_steps: tuple[int, int], c_row: int, size: int
    ) -> None:
        form = found.form
        assert form is not None
        panels = -(-rows // form.rows)
        low, more = divmod(rows, panels)
        ahead = rows <= _AHEAD_ROWS and rows * depth * size <= _AHEAD_BYTES
        block = form.columns * (1 if ahead else _TILES)
        direct = panels == 1 and b_steps[0] != size
        self.packed_a = rounded(((rows * depth if ahead else form.rows * c.DEPTH) + form.lanes) * size, ALIGNMENT)
        self.packed_b = rounded(min(block, rounded(columns, form.columns)) * c.DEPTH * size, ALIGNMENT)
        self.size = self.packed_a + self.packed_b + rows * form.columns * size
        self.block = max(1, _HOT // (rows * form.columns)) * form.columns
        self.head = (rows, columns, depth, 0, a_row, 0, *b_steps, 0, c_row, ctypes.addressof(found.tiles), panels, low, more, block)
        self.head += (ahead, direct)
        self.tail = (form.columns, form.lanes, size, found.copied)
        self.added = found.added

    def job(self, mode: int, tail: int = 0, kept: int = 0, memory: int = 0, bias: int = 0, activation: int = 0) -> bytes:
        """A job of its own, in which native code writes.

        `kept`: where b is, packed; 0: it is not. `memory`: at least `size` bytes, 0: this thread's. `bias`, `activation`: their addresses.
        """
        at = memory or scratch.at(self.size)
        b = at + self.packed_a
        return _pack(*self.head, at, b, b + self.packed_b, *self.tail, mode, tail, kept, bias, self.added, activation)

    def packing(self, b: int, to: int) -> bytes:
        """A job that packs all of b, at the address `b`, to another one."""
        head = (*self.head[:5], b, *self.head[6:-1], False)
        return _pack(*head, 0, to, 0, *self.tail, 0, 0, 0, 0, 0, 0)


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


def cut(found: ProductLoop, stacks: int, rows: int, columns: int, workers: int) -> tuple[int, int, int]:
    """(rows, columns, matrices of a stack) of a piece; bits don't depend on them."""
    assert found.form is not None
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
