"""Marks where fusion may happen: FUSE_START / FUSE_END around maximal runs of ops with a common policy.

A run lies within one basic block. What decides its policy is the strongest op in it: attention,
then softmax and normalisation, then conv and matmul (with what follows them), then a chain of
activations, then any elementwise ops. The marks say where fusion *may* happen, not which ops fuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..isa.opcodes import BY_NAME
from ..ops import registry
from ..ops.registry import OpInfo
from .codebuilder import Emitted, Label

ACTIVATION, PRODUCT, ELEMENTWISE, NORMALISATION, ATTENTION = 1, 2, 3, 4, 5
_COMPOSITE = (NORMALISATION, ATTENTION)  # one such op has stages of its own, so it is worth a mark alone
_CARRIED = ("LOAD_CONST", "MOVE", "NOP")  # may stand inside a run without belonging to it

Movable = Callable[[Emitted], bool]


@dataclass(slots=True)
class _Run:
    """A run under way: positions of its first and last member, and what its ops are."""

    first: int
    last: int
    ops: list[OpInfo]
    scalars: list[bool]  # per op: a tensor with a Python scalar
    product: bool
    loads: list[int] = field(default_factory=list)  # loads inside, which move before the run

    @property
    def policy(self) -> int:
        if any(op.policy == ATTENTION for op in self.ops):
            return ATTENTION
        if self.product:
            return PRODUCT
        if any(op.policy == NORMALISATION or op.fuse == "reduce" for op in self.ops):
            return NORMALISATION
        chain = all(op.policy == ACTIVATION or scalar for op, scalar in zip(self.ops, self.scalars, strict=True))
        return ACTIVATION if chain and any(op.policy == ACTIVATION for op in self.ops) else ELEMENTWISE

    @property
    def worth_a_mark(self) -> bool:
        return len(self.ops) > 1 or (self.ops[0].policy in _COMPOSITE and self.ops[0].fuse != "reduce")


def op_of(item: Emitted) -> OpInfo | None:
    """The op an instruction runs, None for others, for Python's arithmetic, and for in-place ops (a write ends a run)."""
    if item.plain:
        return None
    if item.opcode == "CALL_OP":
        if any(a.name == "out" for a in item.operands[3]):
            return None
        return registry.row(item.operands[1])
    const_op = BY_NAME[item.opcode].const_op
    return registry.row(const_op) if const_op is not None else None


def mark(items: Sequence[Emitted | Label], movable: Movable) -> list[Emitted | Label]:
    """`items` with the marks put in. `movable`: may this load be done before the run it stands in?"""
    runs: list[_Run] = []
    current: _Run | None = None
    waiting: list[int] = []  # loads since the last member
    for position, item in enumerate(items):
        op = op_of(item) if isinstance(item, Emitted) else None
        if isinstance(item, Label) or (op is None and not _passes(item, movable)):
            current, waiting = None, []
            continue
        if op is None:
            if item.opcode not in _CARRIED:
                waiting.append(position)
            continue
        current = _extended(current, op, item, position, waiting, runs)
        waiting = []
    return _with_marks(items, [r for r in runs if r.worth_a_mark])


def _passes(item: Emitted, movable: Movable) -> bool:
    return item.opcode in _CARRIED or movable(item)


def _is_product(op: OpInfo) -> bool:
    return op.fuse in ("matmul", "conv")


def _fusable(op: OpInfo) -> bool:
    return _is_product(op) or op.fuse in ("elementwise", "reduce") or op.policy in _COMPOSITE


def _extended(current: _Run | None, op: OpInfo, item: Emitted, position: int, waiting: list[int], runs: list[_Run]) -> _Run | None:
    """The run after an op: the current one with it, a new one, or none."""
    if not _fusable(op):
        return None
    scalar = item.opcode != "CALL_OP" or sum(not a.is_const for a in item.operands[3]) == 1
    joins = current is not None and not _is_product(op) and not (current.product and op.fuse != "elementwise") and op.policy != ATTENTION
    if current is not None and joins:
        current.last = position
        current.ops.append(op)
        current.scalars.append(scalar)
        current.loads += waiting
        return current
    new = _Run(position, position, [op], [scalar], _is_product(op))
    runs.append(new)
    return new


def _with_marks(items: Sequence[Emitted | Label], runs: Sequence[_Run]) -> list[Emitted | Label]:
    starts = {run.first: run for run in runs}
    ends = {run.last for run in runs}
    moved = {position for run in runs for position in run.loads}
    out: list[Emitted | Label] = []
    for position, item in enumerate(items):
        run = starts.get(position)
        if run is not None:
            out += [items[p] for p in run.loads]
            loc = item.loc if isinstance(item, Emitted) else None
            out.append(Emitted("FUSE_START", (run.policy,), loc))
        if position not in moved:
            out.append(item)
        if position in ends:
            out.append(Emitted("FUSE_END", (), item.loc if isinstance(item, Emitted) else None))
    return out
