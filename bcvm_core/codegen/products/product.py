"""Products by machine jobs.code: what `ops.products` asks first."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ... import config
from ..loops import address
from ..stencils import crew as crews
from ..stencils import offsets, threads
from ..stencils.driver import driver
from ..stencils.kernel import Blocks
from ..stencils.recycle import empty
from . import job_code as c
from . import jobs, matrices
from .loop import ProductLoop
from .tiles import ELEMENTS

_Array = np.ndarray[Any, Any]
_HOT_ROWS: Final = 512  # of blocks that something else follows
_tail: Final = struct.Struct("<11q").pack
_met: Final = struct.Struct("<2q").unpack_from

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
    if a.dtype.name not in ELEMENTS or jobs.code(a.dtype.name) is None:
        return None
    plan = matrices.plan_of(a, b)
    if plan is None:
        return _in_pieces(a, b)
    (result,), events = matrices.together(((plan, a, b, matrices.NOTHING),))
    if events & offsets.EVENTS:
        jobs.report(events)
    return result


def layer(x: _Array, weight: _Array, bias: _Array) -> _Array | None:
    """As `ops.products.layer_by_kernel`."""
    if not config.current.use_llvm or not bias.flags.c_contiguous:
        return None
    columns = weight.T
    plan = matrices.plan_of(x, columns)
    if plan is None:
        return None
    (result,), events = matrices.together(((plan, x, columns, matrices.More(bias)),))
    return None if events & offsets.EVENTS else result


def _with_tail(a: _Array, b: _Array, after: After) -> _Array | None:
    found = jobs.code(a.dtype.name) if a.dtype.name in ELEMENTS else None
    if found is None:
        return None
    result: _Array = empty((a.shape[0], b.shape[1]), a.dtype)
    if result.size:
        _run(found, jobs.left(a), jobs.right(b), result, after(result))
    return result


def _in_pieces(a: _Array, b: _Array) -> _Array | None:
    """Stacks, products on several threads, and operands that are copied first."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.ndim > 2 and math.prod(b.shape[:-2]) == 1 and a.shape[:-2] == lead and a.size:  # many rows against one matrix
        made = multiply(a.reshape(-1, a.shape[-1]), b.reshape(b.shape[-2:]))
        return None if made is None else made.reshape(*lead, a.shape[-2], b.shape[-1])
    result: _Array = empty((*lead, a.shape[-2], b.shape[-1]), a.dtype)
    found = jobs.code(a.dtype.name)
    if result.size and found is not None:
        _run(found, jobs.left(a), jobs.right(b), result)
    return result


def _run(found: ProductLoop, a: _Array, b: _Array, result: _Array, tail: Blocks | None = None) -> None:
    rows, columns, depth = result.shape[-2], result.shape[-1], a.shape[-1]
    stacks = _stacks(a, b, result)
    flops = 2.0 * result.size * depth
    by_unit = jobs.unit(rows, b)
    takes = jobs.takes(flops, b, by_unit)
    shared = flops >= jobs.SEVERAL and crews.crew.worth(takes)
    workers = threads.cores() if shared else 1
    tall, wide, deep = jobs.cut(found, len(stacks), rows, columns, workers, by_unit)
    if tail is not None:  # blocks that stay near
        tall = min(tall, _HOT_ROWS)
    run = _Run(found, a, b, result, stacks, deep, flops < jobs.SHORT, by_unit, tail)
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
        jobs.report(run.events)


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
        self,
        found: ProductLoop,
        a: _Array,
        b: _Array,
        result: _Array,
        stacks: Any,
        deep: int,
        short: bool,
        by_unit: int,
        tail: Blocks | None,
    ) -> None:
        self.code, self.stacks, self.deep = found, stacks, deep
        self.size, self.depth = a.itemsize, a.shape[-1]
        self.a_row, self.c_row = a.strides[-2], result.strides[-2]
        self.b_row, self.b_column = jobs.steps(b)
        self.mode = found.mode()  # pieces run in that of the caller
        self.call = found.at_once if short else found.multiply
        self.events = 0
        self.tail = tail
        self.by_unit = by_unit
        self.kept = jobs.kept_weight(found, result.shape[-2], b, self.by_unit) if len(stacks) == 1 else None

    def __call__(self, piece: Piece) -> None:
        """One piece, by this thread."""
        layout, table = self._layout(piece), self._table(piece)
        follow, _kept = self._follow(piece, layout)
        job = layout.job(self.mode, jobs.bytes_at(follow), self._kept_at(piece))
        self.events |= self.call(job, address(table), len(table))  # others run meanwhile
        self._followed(follow)

    def together(self, pieces: list[Piece], ns: float) -> None:
        """All pieces, by all threads. `ns`: about how long this one would take alone."""
        crew, rows = crews.crew, crews.table(len(pieces))
        layouts = [self._layout(piece) for piece in pieces]
        tables = [self._table(piece) for piece in pieces]
        follows = [self._follow(piece, layout) for piece, layout in zip(pieces, layouts, strict=True)]
        step = crews.apart(max([layout.size for layout in layouts]))
        memory = jobs.scratch.at(step * crew.members)
        words = [
            layout.job(self.mode, jobs.bytes_at(follow[0]), self._kept_at(piece), memory)
            for piece, layout, follow in zip(pieces, layouts, follows, strict=True)
        ]
        rows[:, :3] = [(jobs.bytes_at(job), address(table), len(table)) for job, table in zip(words, tables, strict=True)]
        crew.run(self.code.entry, rows, crews.Moved(8 * jobs.SCRATCH, 3, step, True), ns)
        self.events |= int(np.bitwise_or.reduce(rows[:, crews.RETURNED]))
        for follow, _kept in follows:
            self._followed(follow)

    def _kept_at(self, piece: Piece) -> int:
        """Where the right operand of a piece is, packed; 0: it is not."""
        return 0 if self.kept is None else jobs.kept_word(self.kept, self.by_unit) + piece[3] * self.depth * self.size

    def _layout(self, piece: Piece) -> jobs.Layout:
        _, row, end, column, last = piece
        steps = (self.b_row, self.b_column)
        return jobs.layout(self.code, end - row, last - column, self.depth, self.a_row, steps, self.c_row, self.size, self.by_unit)

    def _table(self, piece: Piece) -> _Array:
        stack, row, _, column, _ = piece
        table: _Array = self.stacks[stack : stack + self.deep]
        if row or column:
            table = table + np.array((row * self.a_row, column * self.b_column, row * self.c_row + column * self.size))
        return table

    def _follow(self, piece: Piece, layout: jobs.Layout) -> tuple[bytes, Any]:
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
