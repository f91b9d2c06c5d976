"""Which instructions of a straight line become one chain: runs of elementwise ops with reductions and norms among them.

A chain says nothing of element types, shapes, or of which axes its reductions run over in the end: those are looked at when the
tensors arrive (`tiers/chains.py`). Where it does not run, the segments of elementwise ops in it do as they would without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..isa.program import Instruction, Program
from .segments import MIN_OPS, Segment, SegmentOp, last_reads, op_of, runs_of, segment_of

_REDUCING: Final = frozenset(("axis", "keepdims"))


@dataclass(frozen=True, slots=True)
class RowOp:
    """An op over rows: attributes that a chain understands, and names of the operands that have the length of a row."""

    attrs: frozenset[str]
    parameters: tuple[str, ...] = ()
    axis: Any = None  # where a call does not say
    fills: bool = False  # the result is like the operand, not a number per row
    quiet: bool = True  # sets no floating-point flags
    truth: bool = False  # of truth values, and a truth value


ROW_OPS: Final = {
    "softmax": RowOp(frozenset(("axis",)), axis=-1, fills=True),
    "log_softmax": RowOp(frozenset(("axis",)), axis=-1, fills=True),
    "layer_norm": RowOp(frozenset(("normalized_shape", "eps")), ("weight", "bias"), fills=True),
    "rms_norm": RowOp(frozenset(("normalized_shape", "eps")), ("weight",), fills=True),
    "logsumexp": RowOp(_REDUCING),
    **{name: RowOp(_REDUCING, quiet=False) for name in ("sum", "prod", "mean", "max", "min")},
    **{name: RowOp(_REDUCING, truth=True) for name in ("any", "all")},
    **{name: RowOp(_REDUCING | {"ddof"}, quiet=False) for name in ("var", "std")},
}


def find(program: Program, barred: frozenset[int] = frozenset()) -> list[Segment]:
    """The chains of a straight-line program, in order, each with a reduction or a norm in it. Instructions in `barred` belong to none."""
    reads_after = last_reads(program.instructions)

    def find_op(pc: int, instruction: Instruction) -> SegmentOp | None:
        return op_of(pc, instruction, program.consts) or _row_op(pc, instruction, program.consts)

    runs = runs_of(program, barred, find_op, _joins)
    found = [segment_of(run, reads_after) for run in runs if len(run) >= MIN_OPS and any(op.op in ROW_OPS for op in run)]
    return [s for s in found if s.inputs and s.outputs]


def around(program: Program, barred: frozenset[int], segments: Sequence[Segment]) -> list[Segment]:
    """The chains in which each of some segments lies as a whole, or not at all."""

    def encloses(chain: Segment) -> bool:
        inside = set(chain.pcs)
        return all(inside.isdisjoint(s.pcs) or inside.issuperset(s.pcs) for s in segments)

    return [chain for chain in find(program, barred) if encloses(chain)]


def _joins(op: SegmentOp, run: list[SegmentOp]) -> bool:
    """Numbers without axes are promoted by rules of their own: an op of nothing else follows no chain."""
    whole = {o.dest for o in run if is_whole(o)}
    return not any(isinstance(p, int) for p in op.operands) or any(isinstance(p, int) and p not in whole for p in op.operands)


def is_whole(op: SegmentOp) -> bool:
    """Whether an op reduces all there is to one number without axes."""
    row, attrs = ROW_OPS.get(op.op), dict(op.attrs)
    return row is not None and not row.fills and attrs.get("axis", row.axis) is None and attrs.get("keepdims", False) is False


def _row_op(pc: int, instruction: Instruction, consts: Sequence[Any]) -> SegmentOp | None:
    """A reduction or norm whose attributes are known beforehand."""
    if instruction.opcode != "CALL_OP":
        return None
    dest, name, _, args = instruction.operands
    row = ROW_OPS.get(name)
    if row is None or not args or args[0].is_const or args[0].name is not None:
        return None
    given = {arg.name: arg for arg in args[1:]}
    if None in given:
        return None
    attrs: list[tuple[str, Any]] = []
    named: dict[str, int] = {}
    for key, arg in given.items():
        value = consts[arg.index] if arg.is_const else None
        if key in row.parameters:
            if not arg.is_const:
                named[key] = arg.index
            elif value is not None:
                return None
        elif key in row.attrs and arg.is_const and _is_plain(value):
            attrs.append((key, value))
        elif not (key == "dtype" and arg.is_const and value is None):
            return None
    order = tuple(p for p in row.parameters if p in named)
    if order != row.parameters[: len(order)]:  # a bias without a weight
        return None
    operands = (args[0].index, *(named[p] for p in order))
    return SegmentOp(pc, name, operands, tuple(sorted(attrs, key=lambda item: item[0])), dest, order)


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (int, float, bool) or (type(value) in (tuple, list) and all(type(v) is int for v in value))
