"""What a part of a group costs as one kernel, by the machine model, and the rules that refuse to make it one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..ops import registry
from . import policies
from .chains import ROW_OPS
from .groups import Group, Shape, Step, Value, broadcast
from .machine import Machine, Prediction

MIN_DENSITY: Final = 0.8  # operations per byte under which a product is not joined to a large broadcast
MIN_SATURATION: Final = 0.5  # share of the cores that must have a block
GROWTH: Final = 4  # times as large is what counts as large
_LINE: Final = 64  # bytes that memory gives at once
_ROWS: Final = 128  # of queries in a block of attention
_TILE: Final = 64  # rows and columns in a block of a product
_BLOCK: Final = 1 << 16  # elements in a block of anything else
_RECYCLED: Final = 64 << 20  # bytes of results up to which they lie where earlier ones did; of whatever setting, as decisions are


@dataclass(frozen=True, slots=True)
class Part:
    """Some steps of a group as one kernel: positions of the steps, threads that run it, and the numbers that its time is predicted by."""

    steps: tuple[int, ...]
    threads: int
    operations: float
    nbytes: float
    blocks: int
    prediction: Prediction

    @property
    def density(self) -> float:
        """Operations per byte."""
        return self.operations / max(1.0, self.nbytes)


def part_of(
    group: Group, steps: Sequence[int], machine: Machine, threads: int | None = None, *, alone: bool = False, handed: bool = False
) -> Part:
    """The cost of steps as one kernel; `threads` None: as many as are best.

    `alone`: an op run by itself, outside of any fused kernel. `handed`: the call comes to Python first, as those on several cores do.
    """
    if threads is None:
        choices = [part_of(group, steps, machine, count, alone=alone, handed=handed) for count in (1, machine.cores)]
        return min(choices, key=lambda part: (part.prediction.total_ns, part.threads))
    chosen = [group.steps[k] for k in steps]
    count = blocks_of(group, chosen)
    threads = min(threads, machine.cores, count)
    work = _work(group, chosen)
    operations = sum(work.values())
    if threads > 1:  # the last round may leave cores without a block
        work = {kind: amount * math.ceil(count / threads) * threads / count for kind, amount in work.items()}
    written = sum(group.values[k].nbytes for k in group.writes_of(chosen))
    apart = _read_apart(group, chosen)
    nbytes = float(sum(_traffic(group.values[k], k in apart) for k in group.reads_of(chosen)) + written)
    prediction = machine.roofline(
        work,
        nbytes,
        fresh=written if written > _RECYCLED else 0,
        dtype=group.values[chosen[-1].result].dtype,
        threads=threads,
        overhead_ns=_overhead(machine, threads, alone, handed),
    )
    return Part(tuple(steps), threads, operations, nbytes, count, prediction)


def _work(group: Group, steps: Sequence[Step]) -> dict[str, float]:
    """Operations by kind."""
    out: dict[str, float] = {}
    by_rows = any(step.op in ROW_OPS for step in steps)  # what is small, a number per row, is worked out once there
    shape = () if by_rows else full_shape(group, steps)
    for step in steps:
        kind, amount = group.work_at(step, group.values[step.result].shape if by_rows else shape)
        out[kind] = out.get(kind, 0.0) + amount
    return out


def _overhead(machine: Machine, threads: int, alone: bool, handed: bool) -> float:
    call = machine.op_ns if alone else machine.call_ns
    return call + (machine.handover_ns if handed or threads > 1 else 0.0) + (machine.wake_ns if threads > 1 else 0.0)


def full_shape(group: Group, steps: Sequence[Step]) -> Shape:
    """What the elementwise ops among steps are computed for: in one kernel all of them run for every element of the largest."""
    shapes = [group.values[step.result].shape for step in steps if step.kind == "elementwise"]
    return broadcast(*shapes) if shapes else ()


def blocks_of(group: Group, steps: Sequence[Step]) -> int:
    """Pieces that cores can take one by one when steps are one kernel."""
    products = [step for step in steps if step.kind in ("matmul", "conv")]
    last = group.values[steps[-1].result]
    if not products:
        return max(1, math.ceil(last.elements / _BLOCK))
    out = group.values[products[0].result].shape if len(products) == 1 else last.shape
    *stack, rows, columns = (1, 1, *out)[-max(2, len(out)) :]
    if any(step.kind == "reduce" for step in steps):  # whole rows stay together
        per = _ROWS if len(products) > 1 else _TILE // 2
        return max(1, math.prod(stack) * math.ceil(rows / per))
    return max(1, math.prod(stack) * math.ceil(rows / _TILE) * math.ceil(columns / _TILE))


def _read_apart(group: Group, steps: Sequence[Step]) -> set[int]:
    """Values whose neighbours lie apart in the order in which steps read them; results of other parts are in order, being fresh."""
    made = {step.result for step in group.steps}
    given = {k for k, value in enumerate(group.values) if k not in made and not value.in_order}
    return given | {k for step in steps if step.kind == "view" and not group.values[step.result].in_order for k in step.operands}


def _traffic(value: Value, apart: bool) -> float:
    """Bytes that reading a value moves: a line per element where neighbours lie apart."""
    return float(value.elements * _LINE if apart else value.nbytes)


# -- rules ----------------------------------------------------------------------------------------


def refusal(group: Group, part: Part, cores: int) -> str:
    """Why these steps are not to be one kernel; "" where nothing is against it."""
    steps = [group.steps[k] for k in part.steps]
    if len(steps) < 2:
        return ""
    return _out_of_order(group, steps) or _no_policy(group, steps) or _thin(group, steps, part) or _unsaturated(group, steps, part, cores)


def _out_of_order(group: Group, steps: Sequence[Step]) -> str:
    """Memory locality: what follows a view would read neighbours that lie apart."""
    views = {step.result: step for step in steps if step.kind == "view" and not group.values[step.result].in_order}
    for step in steps:
        view = next((views[k] for k in step.operands if k in views), None)
        if view is not None and step.kind != "matmul":  # BLAS takes either order
            return f"memory locality: {view.name} leaves neighbours apart that {step.name} reads side by side"
    return ""


def _no_policy(group: Group, steps: Sequence[Step]) -> str:
    """Neither these steps nor, as a part of it, the whole group is of a kind that is fused."""
    if any(policies.choose([registry.row(step.op) for step in some]) for some in (steps, group.steps)):
        return ""
    return f"no policy covers {', '.join(step.name for step in steps)}"


def _thin(group: Group, steps: Sequence[Step], part: Part) -> str:
    """Compute density: a small product joined to a large broadcast."""
    largest = max((group.values[s.result].elements for s in steps if s.kind == "elementwise"), default=0)
    smallest = min((group.values[s.result].elements for s in steps if s.kind in ("matmul", "conv")), default=largest)
    if largest < GROWTH * smallest or part.density >= MIN_DENSITY:
        return ""
    return f"compute density: {part.density:.2g} operations per byte, under {MIN_DENSITY}"


def _unsaturated(group: Group, steps: Sequence[Step], part: Part, cores: int) -> str:
    """Saturation: too few blocks for the cores, where the steps by themselves have more."""
    if part.blocks >= MIN_SATURATION * cores or all(step.kind == "elementwise" for step in steps):
        return ""
    if max(blocks_of(group, [step]) for step in steps) <= part.blocks:
        return ""
    return f"saturation: {part.blocks} blocks for {cores} cores, {part.blocks / cores:.0%}, under {MIN_SATURATION:.0%}"
