"""Large calls of a fused kernel: in one go, in blocks on several cores, or small results first, as the machine model predicts.

Small calls never come here: their kernel runs natively and at once. Large ones are handed to Python anyway, which cuts them into
pieces; there the decision is looked up by the sizes of the operands (powers of two), and taken when a size class is met first. Whatever
is chosen, the bits are the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from .. import dtypes
from ..codegen.stencils import threads
from ..codegen.stencils.graph import Input, NotFusable
from ..codegen.stencils.kernel import LARGE_NS, FusedKernel, fitting_shape
from ..fusion import decisions, splits
from ..fusion.groups import Group, Value, of_segment
from ..fusion.machines import InForce, usable
from ..fusion.segments import Segment
from .graphs import graph_of, layout_of, type_name

HANDOVERS: Final = 10  # a call is large when it takes as many times what handing it over costs
_MAX_CLASSES: Final = 64
Described = tuple[tuple[tuple[int, ...], str, bool], ...]  # shape, type and order of each operand
Run = Callable[[FusedKernel, Sequence[Any]], Any]


def describe(values: Sequence[Any]) -> Described:
    """What a decision needs to know of operands."""
    return tuple([(v.shape, dtypes.name_of(v.dtype) or "float32", v.flags.forc) for v in values])


def group_of(segment: Segment, described: Described) -> Group:
    """The group of a segment for such operands. Raises MismatchError."""
    return of_segment(segment, [Value(shape, dtype, in_order) for shape, dtype, in_order in described])


def small_call(segment: Segment, described: Described, figures: InForce, limit: int) -> decisions.Decision:
    """The decision for operands whose calls are not looked at."""
    return splits.decide(group_of(segment, described), figures, same_bits=True, at_once=limit, runs=True)


class LargeCalls:
    """The `director` of one kernel of a segment."""

    __slots__ = ("segment", "figures", "plans", "records")

    def __init__(self, segment: Segment, figures: InForce) -> None:
        self.segment = segment
        self.figures = figures
        self.plans: dict[tuple[int, ...], tuple[Run, decisions.Measured]] = {}
        self.records: list[decisions.Record] = []

    def __call__(self, kernel: FusedKernel, arrays: Sequence[Any]) -> Any:
        shape = fitting_shape(arrays, kernel.inputs)
        elements = 0 if shape is None else math.prod(shape)
        if elements <= kernel.limit:
            return kernel(arrays)
        key = (elements.bit_length(), *[x.size.bit_length() for x in arrays])
        run, measured = self.plans.get(key) or self._decide(key, arrays, kernel)
        started = time.perf_counter_ns()
        result = run(kernel, arrays)
        if result is not None:
            measured.note(time.perf_counter_ns() - started)
        return result

    def _decide(self, key: tuple[int, ...], arrays: Sequence[Any], kernel: FusedKernel) -> tuple[Run, decisions.Measured]:
        decide = partial(splits.decide, group_of(self.segment, describe(arrays)), self.figures, same_bits=True, runs=True)
        decision = decide()
        try:
            run = carry_out(self.segment, decision.chosen, arrays)
        except NotFusable as error:
            decision = decide(refused={splits.SMALL_FIRST: str(error)})
            run = carry_out(self.segment, decision.chosen, arrays)
        if len(self.plans) >= _MAX_CLASSES:
            self.plans.clear()
            self.records.clear()
        record = decisions.keep(lambda: decision)
        self.records.append(record)
        found = self.plans[key] = (run, record.measured)
        return found


def carry_out(segment: Segment, candidate: decisions.Candidate | None, arrays: Sequence[Any]) -> Run:
    """What runs a candidate of an elementwise segment on such operands. Raises NotFusable where a part has no kernel.

    Op by op is never predicted to be the fastest; were it, one kernel would do.
    """
    if candidate is not None and candidate.name == splits.SMALL_FIRST:
        return _small_first(segment, candidate, arrays)
    return _in_blocks if candidate is not None and candidate.name == splits.BLOCKED else _at_once


def _at_once(kernel: FusedKernel, arrays: Sequence[Any]) -> Any:
    return kernel(arrays, cores=1)


def _in_blocks(kernel: FusedKernel, arrays: Sequence[Any]) -> Any:
    return kernel(arrays)


def _small_first(segment: Segment, candidate: decisions.Candidate, arrays: Sequence[Any]) -> Run:
    """A kernel per part, the last of which takes what the others have made."""
    known = dict(zip(segment.inputs, map(_input_of(arrays), arrays), strict=True))
    parts: list[tuple[FusedKernel, tuple[int, ...], int, int]] = []
    for part in candidate.parts:
        last = segment.ops[part.steps[-1]].dest
        piece = segment.part(part.steps, segment.outputs if part is candidate.parts[-1] else (last,))
        made = FusedKernel(graph_of(piece, [known[r] for r in piece.inputs]))
        known[last] = Input(made.lowered.dtypes[0], "strided")
        parts.append((made, piece.inputs, last, part.threads))

    def run(_kernel: FusedKernel, given: Sequence[Any]) -> Any:
        values = dict(zip(segment.inputs, given, strict=True))
        result = None
        for made, inputs, dest, cores in parts:
            result = made([values[r] for r in inputs], cores=cores)
            if result is None:
                return None
            values[dest] = result
        return result

    return run


def _input_of(arrays: Sequence[Any]) -> Callable[[Any], Input]:
    shape = fitting_shape(arrays, [x.dtype for x in arrays]) or ()

    def describe_one(value: Any) -> Input:
        return Input(type_name(value), layout_of(value, shape))

    return describe_one


def direct(kernel: FusedKernel, segment: Segment) -> tuple[LargeCalls | None, InForce]:
    """Let large calls of a kernel, those of more than its `limit` of elements, be decided by what is returned; and by which figures.

    Where nothing can be gained, on one core with results that are all of one size, nothing is changed.
    """
    figures = usable()
    if threads.cores() == 1 and not segment.has_partial:
        return None, figures
    kernel.limit = limit_of(kernel, segment, figures)
    director = kernel.director = LargeCalls(segment, figures)
    return director, figures


def limit_of(kernel: FusedKernel, segment: Segment, figures: InForce) -> int:
    """How many elements a call may have that is not looked at. Blocks are left to calls that surely gain."""
    large_ns = HANDOVERS * figures.machine.handover_ns
    if not segment.has_partial:
        large_ns = max(large_ns, LARGE_NS)
    return int(large_ns / kernel.ns_per_element)
