"""Products by machine code: what `ops.products` asks first."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ... import config, fpstatus
from ..loops import address, made
from ..scratch import ALIGNMENT, Scratch
from ..stencils import crew as crews
from ..stencils import offsets, threads
from ..stencils.driver import driver
from ..stencils.kernel import Blocks
from ..stencils.recycle import empty
from . import multiply_code as c
from .loop import OP, ProductLoop
from .tiles import ELEMENTS
from .weights import Kept, weights

_Array = np.ndarray[Any, Any]
SEVERAL: Final = 1e7  # operations from which on a product may run on several threads,
_RATE: Final = 600.0  # and bytes times operations per nanosecond by which that is foreseen,
_READ: Final = 10.0  # with bytes of the right operand that are read in one
_SHORT: Final = 4e6  # operations up to which the interpreter's lock is kept
_ROWS_MAX: Final = 4096  # of one piece
_AHEAD_ROWS: Final = 128  # up to so many rows the left operand is packed once and for all,
_AHEAD_BYTES: Final = 3 << 19  # if it is not larger than this
_TILES: Final = 24  # of columns that are packed at a time otherwise: the wider the registers, the larger the caches near them
_HOT_ROWS: Final = 512  # of blocks that something else follows,
_HOT: Final = 1 << 18  # and about their elements
_KEPT_ROWS: Final = 256  # up to so many rows packing a weight counts
_PIECES: Final = 2  # per thread
_INVALID, _DIVIDE, _OVERFLOW, _UNDERFLOW = 1, 4, 8, 16
_EVENTS: Final = ((_DIVIDE, "divide"), (_OVERFLOW, "overflow"), (_UNDERFLOW, "underflow"), (_INVALID, "invalid"))
_MAX_PLANS: Final = 512
_pack: Final = struct.Struct("<27q").pack
_SCRATCH: Final = 8 * 17  # where a job names its memory, in three words
_MODE: Final = 24  # the floating-point mode, in this word,
_KEPT: Final = 26  # and the packed right operand, in this one
_places: Final = struct.Struct("<3q").pack
_tail: Final = struct.Struct("<11q").pack
_met: Final = struct.Struct("<2q").unpack_from


_scratch = Scratch()
_codes: dict[str, ProductLoop | None] = {}


def code(dtype: str) -> ProductLoop | None:
    """The code for an element type, made within this call if it is not there: which kernel runs must not depend on what was warm."""
    if dtype not in _codes:
        loop = made(OP, dtype)
        assert isinstance(loop, ProductLoop)
        _codes.setdefault(dtype, loop if loop.ready else None)
    return _codes[dtype]


_plans: dict[Any, _Matrices | None] = {}  # by layout of both operands; None: stacks, many rows, or copies


After = Callable[[_Array], Blocks | None]
Piece = tuple[int, int, int, int, int]  # first matrix of the stack, first row, end, first column, end


def multiply(a: _Array, b: _Array, after: After | None = None) -> _Array | None:
    """As `ops.products.by_kernel`.

    `after(result)`, for matrices, is asked for what runs over the blocks of the result, in place, each right after it was computed and by
    the thread that did; None: nothing.
    """
    if not config.current.use_llvm:
        return None
    if after is not None:
        return _with_tail(a, b, after)
    key = (a.shape, a.strides, b.shape, b.strides, a.dtype.char)
    try:
        plan = _plans[key]
    except KeyError:
        dtype = a.dtype.name
        found = code(dtype) if dtype in ELEMENTS else None
        if found is None:
            return None
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        plan = _plans[key] = _planned(found, a, b)
    if plan is None:
        return _in_pieces(a, b)
    return plan.shared(a, b) if plan.flops >= SEVERAL and crews.crew.worth(plan.ns) else plan(a, b)


def _planned(found: ProductLoop, a: _Array, b: _Array) -> _Matrices | None:
    simple = a.ndim == b.ndim == 2 and a.size and b.size and a.shape[0] <= _ROWS_MAX and _left(a) is a and _right(b) is b
    return _Matrices(found, a, b) if simple else None


class _Matrices:
    """Products of matrices of one layout, in one piece or shared out, with as little between as Python allows."""

    __slots__ = ("found", "call", "shape", "dtype", "layout", "flops", "ns", "pieces", "steps")

    def __init__(self, found: ProductLoop, a: _Array, b: _Array) -> None:
        self.found = found
        self.shape, self.dtype = (a.shape[0], b.shape[1]), a.dtype
        self.flops = 2.0 * a.shape[0] * a.shape[1] * b.shape[1]
        self.ns = _takes(self.flops, b)
        self.steps: Any = (a.shape[1], a.strides[0], _steps(b), b.shape[1] * a.itemsize, a.itemsize)
        self.pieces: _Pieces | None = None
        self.layout = _layout(found, *self.shape, *self.steps)
        self.call = found.at_once if self.flops < _SHORT else found.multiply

    def __call__(self, a: _Array, b: _Array) -> _Array:
        result: _Array = empty(self.shape, self.dtype)
        kept = _kept(self.found, self.shape[0], b)  # it lives as long as the call
        events = self.call(
            self.layout.job(0, kept=0 if kept is None else kept.address), _places(address(a), address(b), address(result)), 1
        )
        if events & offsets.EVENTS:
            _report(events)
        return result

    def shared(self, a: _Array, b: _Array) -> _Array:
        """The product by all threads."""
        result: _Array = empty(self.shape, self.dtype)
        pieces = self.pieces
        if pieces is None or pieces.members != crews.crew.members:
            pieces = self.pieces = _Pieces(self)
        events = pieces.run(_kept(self.found, self.shape[0], b), address(a), address(b), address(result))
        if events & offsets.EVENTS:
            _report(events)
        return result


class _Pieces:
    """The pieces of a product: all that does not depend on where operands lie."""

    __slots__ = ("members", "found", "jobs", "places", "rows", "columns", "moved", "ns", "memory")

    def __init__(self, plan: _Matrices) -> None:
        (rows, columns), found = plan.shape, plan.found
        depth, a_row, (b_row, b_column), c_row, size = plan.steps
        self.found, self.members, self.ns = found, crews.crew.members, plan.ns
        tall, wide, _ = _cut(found, 1, rows, columns, self.members)
        cut = [(row, column) for row in range(0, rows, tall) for column in range(0, columns, wide)]
        layouts = [_layout(found, min(tall, rows - row), min(wide, columns - column), *plan.steps) for row, column in cut]
        self.moved = crews.Moved(_SCRATCH, 3, crews.apart(max([layout.size for layout in layouts])), True)
        self.memory = self.moved.step * self.members
        self.jobs = np.array([struct.unpack("<27q", layout.job(0, memory=ALIGNMENT)) for layout in layouts], np.int64)
        self.jobs[:, _SCRATCH // 8 : _SCRATCH // 8 + 3] -= ALIGNMENT
        self.places = np.array([(row * a_row, column * b_column, row * c_row + column * size) for row, column in cut], np.int64)
        self.columns = np.array([column * depth * size for _, column in cut], np.int64)  # where they begin in a packed operand
        self.rows = crews.table(len(cut))
        self.rows[:, 0] = np.arange(len(cut)) * self.jobs.strides[0]
        self.rows[:, 1] = np.arange(len(cut)) * self.places.strides[0]
        self.rows[:, 2] = 1

    def run(self, kept: Kept | None, *places: int) -> int:
        """Run them: the flags that they raise. `kept`: the right operand, packed. `places`: addresses of operands and result."""
        crew = crews.crew
        jobs, table = self.jobs.copy(), self.places + places
        jobs[:, _SCRATCH // 8 : _SCRATCH // 8 + 3] += _scratch.at(self.memory)
        jobs[:, _MODE] = self.found.mode()  # pieces run in that of the caller
        if kept is not None:
            jobs[:, _KEPT] = self.columns + kept.address
        rows = self.rows + (address(jobs), address(table), 0, 0, 0, 0, 0, 0)
        crew.run(self.found.entry, rows, self.moved, self.ns)
        return int(np.bitwise_or.reduce(rows[:, crews.RETURNED]))


def _takes(flops: float, b: _Array) -> float:
    """About how many nanoseconds one thread takes."""
    return flops * b.itemsize / _RATE + b.nbytes / _READ


def _kept(found: ProductLoop, rows: int, b: _Array) -> Kept | None:
    """The right operand of a product of so many rows as it is kept, if it is a weight that is."""
    form, (step, column) = found.form, b.strides[-2:]
    if rows > _KEPT_ROWS or b.ndim != 2 or step != b.itemsize or column != step * b.shape[0] or form is None:
        return None

    def pack(at: int) -> None:
        job = _Layout(found, 1, b.shape[1], b.shape[0], 0, _steps(b), 0, step).packing(address(b), at)
        found.pack(_bytes_at(job))

    return weights.packed(b, _rounded(b.shape[1], form.columns) * column, pack)


class _Layout:
    """All that a job says of operands beside where they lie."""

    __slots__ = ("head", "tail", "packed_a", "packed_b", "size", "block")
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
        self.packed_a = _rounded(((rows * depth if ahead else form.rows * c.DEPTH) + form.lanes) * size, ALIGNMENT)
        self.packed_b = _rounded(min(block, _rounded(columns, form.columns)) * c.DEPTH * size, ALIGNMENT)
        self.size = self.packed_a + self.packed_b + rows * form.columns * size
        self.block = max(1, _HOT // (rows * form.columns)) * form.columns
        self.head = (rows, columns, depth, 0, a_row, 0, *b_steps, 0, c_row, ctypes.addressof(found.tiles), panels, low, more, block)
        self.head += (ahead, direct)
        self.tail = (form.columns, form.lanes, size, found.copied)

    def job(self, mode: int, tail: int = 0, kept: int = 0, memory: int = 0) -> bytes:
        """A job of its own, in which native code writes.

        `kept`: where b is, packed; 0: it is not. `memory`: at least `size` bytes, 0: this thread's.
        """
        at = memory or _scratch.at(self.size)
        b = at + self.packed_a
        return _pack(*self.head, at, b, b + self.packed_b, *self.tail, mode, tail, kept)

    def packing(self, b: int, to: int) -> bytes:
        """A job that packs all of b, at the address `b`, to another one."""
        head = (*self.head[:5], b, *self.head[6:-1], False)
        return _pack(*head, 0, to, 0, *self.tail, 0, 0, 0)


_layout: Final = functools.lru_cache(_MAX_PLANS)(_Layout)


def _report(events: int) -> None:
    for bit, kind in _EVENTS:
        if events & bit:
            fpstatus.note(kind, "matmul", 6)


def _with_tail(a: _Array, b: _Array, after: After) -> _Array | None:
    found = code(a.dtype.name) if a.dtype.name in ELEMENTS else None
    if found is None:
        return None
    result: _Array = empty((a.shape[0], b.shape[1]), a.dtype)
    if result.size:
        _run(found, _left(a), _right(b), result, after(result))
    return result


def _in_pieces(a: _Array, b: _Array) -> _Array | None:
    """Stacks, products on several threads, and operands that are copied first."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.ndim > 2 and math.prod(b.shape[:-2]) == 1 and a.shape[:-2] == lead and a.size:  # many rows against one matrix
        made = multiply(a.reshape(-1, a.shape[-1]), b.reshape(b.shape[-2:]))
        return None if made is None else made.reshape(*lead, a.shape[-2], b.shape[-1])
    result: _Array = empty((*lead, a.shape[-2], b.shape[-1]), a.dtype)
    found = code(a.dtype.name)
    if result.size and found is not None:
        _run(found, _left(a), _right(b), result)
    return result


def _left(a: _Array) -> _Array:
    """The left operand with the elements of its rows in order."""
    return a if a.strides[-1] == a.itemsize or a.shape[-1] == 1 else np.ascontiguousarray(a)


def _right(b: _Array) -> _Array:
    """The right operand with rows or columns in order."""
    return b if b.itemsize in b.strides[-2:] or 1 in b.shape[-2:] else np.ascontiguousarray(b)


def _run(found: ProductLoop, a: _Array, b: _Array, result: _Array, tail: Blocks | None = None) -> None:
    rows, columns, depth = result.shape[-2], result.shape[-1], a.shape[-1]
    stacks = _stacks(a, b, result)
    flops = 2.0 * result.size * depth
    takes = _takes(flops, b)
    shared = flops >= SEVERAL and crews.crew.worth(takes)
    workers = threads.cores() if shared else 1
    tall, wide, deep = _cut(found, len(stacks), rows, columns, workers)
    if tail is not None:  # blocks that stay near
        tall = min(tall, _HOT_ROWS)
    run = _Run(found, a, b, result, stacks, deep, flops < _SHORT, tail)
    pieces = [
        (stack, row, min(row + tall, rows), column, min(column + wide, columns))
        for stack in range(0, len(stacks), deep)
        for row in range(0, rows, tall)
        for column in range(0, columns, wide)
    ]
    if workers == 1 or len(pieces) == 1:
        for piece in pieces:
            run(piece)
    else:
        run.together(pieces, takes)
    if run.events & offsets.EVENTS:
        _report(run.events)


def _cut(found: ProductLoop, stacks: int, rows: int, columns: int, workers: int) -> tuple[int, int, int]:
    """(rows, columns, matrices of a stack) of a piece; bits don't depend on them."""
    assert found.form is not None
    tall, wide, deep = _ROWS_MAX, columns, stacks
    if workers > 1:
        wanted = workers * _PIECES
        if stacks >= workers:
            deep = -(-stacks // wanted)
        elif columns >= 2 * workers * found.form.columns:
            wide = _rounded(-(-columns // wanted), found.form.columns)
        else:
            tall = min(tall, _rounded(-(-rows // wanted), found.form.rows))
    return tall, wide, deep


def _rounded(count: int, step: int) -> int:
    return -(-count // step) * step


def _stacks(a: _Array, b: _Array, result: _Array) -> Any:
    """Addresses of all pairs of matrices and of their products, a row each."""
    lead = result.shape[:-2]
    arrays = (a, b, result)
    if not lead:
        return np.array([[address(x) for x in arrays]], np.int64)
    found = np.empty((*lead, 3), np.int64)
    for k, x in enumerate(arrays):
        wide = np.broadcast_to(x, (*lead, *x.shape[-2:]))
        places = np.full(lead, address(x), np.int64)
        for axis, stride in enumerate(wide.strides[:-2]):
            steps = np.arange(lead[axis], dtype=np.int64) * stride
            places += steps.reshape([-1] + [1] * (len(lead) - axis - 1))
        found[..., k] = places
    return found.reshape(-1, 3)


class _Run:
    """One product: works off pieces, and collects the flags that they raise."""

    def __init__(
        self, found: ProductLoop, a: _Array, b: _Array, result: _Array, stacks: Any, deep: int, short: bool, tail: Blocks | None
    ) -> None:
        self.code, self.stacks, self.deep = found, stacks, deep
        self.size, self.depth = a.itemsize, a.shape[-1]
        self.a_row, self.c_row = a.strides[-2], result.strides[-2]
        self.b_row, self.b_column = _steps(b)
        self.mode = found.mode()  # pieces run in that of the caller
        self.call = found.at_once if short else found.multiply
        self.events = 0
        self.tail = tail
        self.kept = _kept(found, result.shape[-2], b) if len(stacks) == 1 else None

    def __call__(self, piece: Piece) -> None:
        """One piece, by this thread."""
        layout, table = self._layout(piece), self._table(piece)
        follow, _kept = self._follow(piece, layout)
        job = layout.job(self.mode, _bytes_at(follow), self._kept_at(piece))
        self.events |= self.call(job, address(table), len(table))  # others run meanwhile
        self._followed(follow)

    def together(self, pieces: list[Piece], ns: float) -> None:
        """All pieces, by all threads. `ns`: about how long this one would take alone."""
        crew, rows = crews.crew, crews.table(len(pieces))
        layouts = [self._layout(piece) for piece in pieces]
        tables = [self._table(piece) for piece in pieces]
        follows = [self._follow(piece, layout) for piece, layout in zip(pieces, layouts, strict=True)]
        step = crews.apart(max([layout.size for layout in layouts]))
        memory = _scratch.at(step * crew.members)
        jobs = [
            layout.job(self.mode, _bytes_at(follow[0]), self._kept_at(piece), memory)
            for piece, layout, follow in zip(pieces, layouts, follows, strict=True)
        ]
        rows[:, :3] = [(_bytes_at(job), address(table), len(table)) for job, table in zip(jobs, tables, strict=True)]
        crew.run(self.code.entry, rows, crews.Moved(_SCRATCH, 3, step, True), ns)
        self.events |= int(np.bitwise_or.reduce(rows[:, crews.RETURNED]))
        for follow, _kept in follows:
            self._followed(follow)

    def _kept_at(self, piece: Piece) -> int:
        """Where the right operand of a piece is, packed; 0: it is not."""
        return 0 if self.kept is None else self.kept.address + piece[3] * self.depth * self.size

    def _layout(self, piece: Piece) -> _Layout:
        _, row, end, column, last = piece
        steps = (self.b_row, self.b_column)
        return _layout(self.code, end - row, last - column, self.depth, self.a_row, steps, self.c_row, self.size)

    def _table(self, piece: Piece) -> _Array:
        stack, row, _, column, _ = piece
        table: _Array = self.stacks[stack : stack + self.deep]
        if row or column:
            table = table + np.array((row * self.a_row, column * self.b_column, row * self.c_row + column * self.size))
        return table

    def _follow(self, piece: Piece, layout: _Layout) -> tuple[bytes, Any]:
        return (b"", None) if self.tail is None else _followed(self.tail, piece, layout.block)

    def _followed(self, follow: bytes) -> None:
        if self.tail is not None:
            self.tail.note(*_met(follow, c.T_WORD))


def _followed(tail: Blocks, piece: Piece, block: int) -> tuple[bytes, Any]:
    """What a job says of its tail, in which native code writes, and what must live as long."""
    starts, job, kept = tail.block(*piece[1:])
    begins = (ctypes.c_int64 * len(starts))(*starts)
    dims, pointers, strides, *_ = kept[0]
    found = _tail(
        *(driver().addresses["drive"], ctypes.addressof(job), len(starts), ctypes.addressof(begins), ctypes.addressof(pointers)),
        *(ctypes.addressof(strides), 8 * offsets.MAX_DIMS, ctypes.addressof(dims), block, 0, 0),
    )
    return found, (job, kept, begins)


def _bytes_at(x: bytes) -> int:
    """Where the bytes of an object are; 0 where there are none."""
    return id(x) + offsets.BYTES_HEAD if x else 0


def _steps(b: _Array) -> tuple[int, int]:
    """Bytes to the next row and to the next column; one of them is an element, also where there is no next one."""
    row, column, size = *b.strides[-2:], b.itemsize
    if size in (row, column):
        return row, column
    return (row, size) if b.shape[-1] == 1 else (size, column)
