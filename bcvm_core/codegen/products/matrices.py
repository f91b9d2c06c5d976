"""Products of two matrices, each by a plan that is made once for a layout: alone, or several at once by all threads.

A product may be given a bias and an activation, which are computed of its columns while they are near.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ... import config
from ..loops import address
from ..scratch import ALIGNMENT
from ..stencils import crew as crews
from ..stencils.recycle import empty
from . import job_code as c
from . import jobs
from .loop import ProductLoop
from .tiles import ELEMENTS
from .weights import Kept

_Array = np.ndarray[Any, Any]
_places: Final = struct.Struct("<3q").pack
_plans: dict[Any, Matrices | None] = {}  # by layout of both operands
_pieces: dict[tuple[Matrices, ...], Pieces] = {}


def plan_of(a: _Array, b: _Array) -> Matrices | None:
    """What multiplies matrices like these two; None for stacks, many rows, operands that are copied first, and where there is no code."""
    key = (a.shape, a.strides, b.shape, b.strides, a.dtype.char, config.current.reproducible, config.current.amx)
    try:
        return _plans[key]
    except KeyError:
        found = jobs.code(a.dtype.name) if a.dtype.name in ELEMENTS else None
        if len(_plans) >= jobs.MAX_PLANS:
            _plans.clear()
        simple = a.ndim == b.ndim == 2 and a.size and b.size and a.shape[0] <= jobs.ROWS_MAX and jobs.left(a) is a and jobs.right(b) is b
        made = _plans[key] = Matrices(found, a, b) if found is not None and simple else None
        return made


@dataclass(frozen=True, slots=True)
class More:
    """What a product is given beside its operands. `kept`: the right one as it is kept, where somebody knows already.

    `bias`: a number for each column, side by side, which is added to complete sums. `activation`: the address of the loop of an algorithm
    that is computed of them then, 0 for none.
    """

    bias: _Array | None = None
    activation: int = 0
    kept: Kept | None = None


NOTHING: Final = More()
Task = tuple["Matrices", _Array, _Array, More]


def together(tasks: Sequence[Task]) -> tuple[list[_Array], int]:
    """Several products of one element type at once, and the floating-point events that they met, for the caller to report.

    `job_code.MET` among them: an activation met some.
    """
    ns, flops, events = 0.0, 0.0, 0
    for plan, *_ in tasks:
        ns += plan.ns
        flops += plan.flops
    results: list[_Array] = [empty(plan.shape, plan.dtype) for plan, *_ in tasks]
    if flops >= jobs.SEVERAL and crews.crew.worth(ns):
        events = _by_all(tasks, results, ns)
    else:
        for task, result in zip(tasks, results, strict=True):
            events |= task[0].into(task, result)
    return results, events


def _by_all(tasks: Sequence[Task], results: Sequence[_Array], ns: float) -> int:
    """Work off the pieces of all products by all threads: the events they met.

    The weights push everything else out of the caches near the cores, so each step of Python between two calls costs several times what
    it does elsewhere: all that does not depend on where operands lie is in the plan, and native code does the rest.
    """
    plans = tuple([task[0] for task in tasks])
    pieces = _pieces.get(plans)
    if pieces is None or pieces.members != crews.crew.members:
        if len(_pieces) >= jobs.MAX_PLANS:
            _pieces.clear()
        pieces = _pieces[plans] = Pieces(plans)
    words: list[int] = []
    alive = []
    for (plan, a, b, more), result in zip(tasks, results, strict=True):
        kept = more.kept or jobs.kept_weight(plan.found, plan.shape[0], b, plan.by_unit)
        alive.append(kept)  # it lives as long as the call
        words += (address(a), address(b), address(result), jobs.kept_word(kept, plan.by_unit))
        words += (0 if more.bias is None else address(more.bias), more.activation)
    call = pieces.pack(pieces.address, pieces.found.mode(), *words, *pieces.nothing)  # pieces run in the mode of the caller
    moved = (jobs.bytes_at(call), jobs.scratch.at(pieces.moved.step * pieces.members))
    crews.crew.sweep(pieces.found.pieces, moved, pieces.moved, (0, 1, pieces.count), ns)
    return pieces.events(call)


class Matrices:
    """Products of matrices of one layout, in one piece or shared out, with as little between as Python allows."""

    __slots__ = ("found", "call", "shape", "dtype", "layout", "flops", "ns", "steps", "by_unit")

    def __init__(self, found: ProductLoop, a: _Array, b: _Array) -> None:
        self.found = found
        self.shape, self.dtype = (a.shape[0], b.shape[1]), a.dtype
        self.flops = 2.0 * a.shape[0] * a.shape[1] * b.shape[1]
        self.by_unit = jobs.unit(a.shape[0], b)
        self.ns = jobs.takes(self.flops, b, self.by_unit)
        self.steps: Any = (a.shape[1], a.strides[0], jobs.steps(b), b.shape[1] * a.itemsize, a.itemsize)
        self.layout = jobs.layout(found, *self.shape, *self.steps, self.by_unit)
        self.call = found.at_once if self.flops < jobs.SHORT else found.multiply

    def into(self, task: Task, result: _Array) -> int:
        """The product by this thread; the events met."""
        _, a, b, more = task
        kept = more.kept or jobs.kept_weight(self.found, self.shape[0], b, self.by_unit)  # it lives as long as the call
        bias = 0 if more.bias is None else address(more.bias)
        job = self.layout.job(0, kept=jobs.kept_word(kept, self.by_unit), bias=bias, activation=more.activation)
        events: int = self.call(job, _places(address(a), address(b), address(result)), 1)
        return events

    def cut(self, members: int) -> list[tuple[jobs.Layout, tuple[int, ...]]]:
        """Its pieces: the layout of each, and how far into a, b, the result, b as it is kept, and the bias it begins."""
        (rows, columns), found = self.shape, self.found
        depth, a_row, (_b_row, b_column), c_row, size = self.steps
        tall, wide, _ = jobs.cut(found, 1, rows, columns, members, self.by_unit)
        pieces: list[tuple[jobs.Layout, tuple[int, ...]]] = []
        for row in range(0, rows, tall):
            for column in range(0, columns, wide):
                layout = jobs.layout(found, min(tall, rows - row), min(wide, columns - column), *self.steps, self.by_unit)
                far = row * a_row, column * b_column, row * c_row + column * size, column * depth * size, column * size
                pieces.append((layout, far))
        return pieces


class Pieces:
    """The pieces of several products: all that does not depend on where operands lie. `address`: of what native code reads of it."""

    __slots__ = ("found", "members", "count", "moved", "pack", "nothing", "address", "_events", "_alive")

    def __init__(self, plans: Sequence[Matrices]) -> None:
        self.found, self.members = plans[0].found, crews.crew.members
        cut = [(k, *piece) for k, plan in enumerate(plans) for piece in plan.cut(self.members)]
        self.count = len(cut)
        self.moved = crews.Moved(8, 1, crews.apart(max([layout.size for _, layout, _ in cut])), False)
        words = np.array([jobs.JOB.unpack(layout.job(0, memory=ALIGNMENT)) for _, layout, _ in cut], np.int64)
        words[:, jobs.SCRATCH : jobs.SCRATCH + 3] -= ALIGNMENT
        places = np.array([(k, *far) for k, _, far in cut], np.int64)
        events = c.C_TASKS + c.TASK_SIZE * len(plans)
        head = np.array([address(words), address(places), events], np.int64)
        self._alive = words, places, head
        self.address = address(head)
        self.pack = struct.Struct(f"<{events // 8 + self.count}q").pack
        self.nothing = (0,) * self.count
        self._events = struct.Struct(f"<{self.count}q"), events

    def events(self, call: bytes) -> int:
        """What the pieces of a call met."""
        form, at = self._events
        met: int = functools.reduce(operator.or_, form.unpack_from(call, at))
        return met
