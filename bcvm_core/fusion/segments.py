"""Which instructions of a straight line become one fused kernel: maximal runs of elementwise ops.

A segment says nothing of element types or shapes: those are decided when the tensors arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..isa.constants import SCALAR_TYPES
from ..isa.program import Arg, Instruction, Program, read_by
from ..ops import registry

Joins = Callable[["SegmentOp", "list[SegmentOp]"], bool]
MIN_OPS = 2  # one op is a kernel of its own already
_NEUTRAL = frozenset({"FUSE_START", "FUSE_END", "NOP"})  # may stand inside without belonging to it


@dataclass(frozen=True, slots=True)
class Scalar:
    """A Python number among the operands of an op."""

    value: Any


@dataclass(frozen=True, slots=True)
class SegmentOp:
    """One op of a segment; operands are registers or `Scalar`s."""

    pc: int
    op: str
    operands: tuple[int | Scalar, ...]
    attrs: tuple[tuple[str, Any], ...]
    dest: int
    named: tuple[str, ...] = ()  # what the last operands are called, where they are passed by name


@dataclass(frozen=True, slots=True)
class Segment:
    """Instructions `pcs` as one kernel: `inputs` are the registers it reads, `outputs` those that are read after it."""

    ops: tuple[SegmentOp, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    is_joined: bool = field(init=False, compare=False)
    """Whether every output depends on every input: then all outputs have one shape, whatever the inputs' shapes."""
    has_partial: bool = field(init=False, compare=False)
    """Whether an op depends on some inputs only: its result may be smaller than the others."""

    def __post_init__(self) -> None:
        needs = {register: 1 << k for k, register in enumerate(self.inputs)}  # register -> the inputs it depends on, a bit each
        every, partial = (1 << len(self.inputs)) - 1, False
        for op in self.ops:
            found = 0
            for place in op.operands:
                if type(place) is int:
                    found |= needs[place]
            needs[op.dest] = found
            partial = partial or found != every
        object.__setattr__(self, "is_joined", all(needs[register] == every for register in self.outputs))
        object.__setattr__(self, "has_partial", partial)

    def part(self, positions: Sequence[int], outputs: tuple[int, ...]) -> Segment:
        """Some of the ops, in order, as a segment with those outputs."""
        ops = tuple(self.ops[k] for k in positions)
        inside = {op.dest for op in ops}
        inputs = dict.fromkeys(p for op in ops for p in op.operands if isinstance(p, int) and p not in inside)
        return Segment(ops, tuple(inputs), outputs)

    def components(self) -> list[Segment]:
        """The parts that pass no value to each other, in the order of their first ops."""
        component = list(range(len(self.ops)))  # by position, the number of the component
        made: dict[int, int] = {}
        for k, op in enumerate(self.ops):
            for place in op.operands:
                if type(place) is int and place in made:
                    old, new = sorted((component[made[place]], component[k]), reverse=True)
                    component = [new if c == old else c for c in component]
            made[op.dest] = k
        kinds = dict.fromkeys(component)
        return [self._component([k for k, c in enumerate(component) if c == kind]) for kind in kinds]

    def _component(self, positions: Sequence[int]) -> Segment:
        inside = {self.ops[k].dest for k in positions}
        return self.part(positions, tuple(register for register in self.outputs if register in inside))

    @property
    def first(self) -> int:
        return self.ops[0].pc

    @property
    def pcs(self) -> tuple[int, ...]:
        return tuple(op.pc for op in self.ops)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(op.op for op in self.ops)


def find(program: Program, barred: frozenset[int] = frozenset()) -> list[Segment]:
    """The segments of a straight-line program, in order. Instructions in `barred` belong to none."""
    code = program.instructions
    reads_after = last_reads(code)
    runs = runs_of(program, barred, lambda pc, instruction: op_of(pc, instruction, program.consts))
    found = [segment_of(run, reads_after) for run in runs if len(run) >= MIN_OPS]
    return [s for s in found if s.inputs and s.outputs]


def runs_of(
    program: Program, barred: frozenset[int], find_op: Callable[[int, Instruction], SegmentOp | None], joins: Joins | None = None
) -> Iterator[list[SegmentOp]]:
    """Ops that follow each other; what lies between must not depend on a run it interrupts. `joins(op, run)`: may it follow the run?"""
    run: list[SegmentOp] = []
    for pc, instruction in enumerate(program.instructions):
        op = None if pc in barred else find_op(pc, instruction)
        if op is not None:
            if run and joins is not None and not joins(op, run):
                yield run
                run = []
            run.append(op)
        elif run and not is_neutral(instruction):
            yield run
            run = []
    if run:
        yield run


def is_neutral(instruction: Instruction) -> bool:
    """Whether an instruction may stand within a segment without belonging to it."""
    return instruction.opcode in _NEUTRAL


def op_of(pc: int, instruction: Instruction, consts: Sequence[Any]) -> SegmentOp | None:
    """An elementwise instruction as an op of a segment; None for others."""
    row = instruction.row
    if row.const_op is not None:
        dest, source, value = instruction.operands
        operands: tuple[int | Scalar, ...] = (Scalar(value), source) if row.reversed else (source, Scalar(value))
        return SegmentOp(pc, row.const_op, operands, (), dest) if _is_elementwise(row.const_op) else None
    if instruction.opcode != "CALL_OP":
        return None
    dest, name, _, args = instruction.operands
    if not _is_elementwise(name):
        return None
    places: list[int | Scalar] = []
    attrs: list[tuple[str, Any]] = []
    for arg in args:
        if arg.name is not None:
            if not arg.is_const:
                return None
            attrs.append((arg.name, consts[arg.index]))
            continue
        place = _place(arg, consts)
        if place is None:
            return None
        places.append(place)
    return SegmentOp(pc, name, tuple(places), tuple(sorted(attrs, key=lambda item: item[0])), dest)


def _place(arg: Arg, consts: Sequence[Any]) -> int | Scalar | None:
    if not arg.is_const:
        return arg.index
    value = consts[arg.index]
    return Scalar(value) if type(value) in SCALAR_TYPES else None


def _is_elementwise(name: str) -> bool:
    row = registry.row(name)
    return row.fuse == "elementwise" and row.shape_rule == "elementwise" and not row.writes and row.family != "random"


def last_reads(code: Sequence[Instruction]) -> dict[int, int]:
    """register -> pc of its last read."""
    last: dict[int, int] = {}
    for pc, instruction in enumerate(code):
        for register in read_by(instruction):
            last[register] = pc
    return last


def segment_of(run: list[SegmentOp], last_read: dict[int, int]) -> Segment:
    """A run as a segment: what it reads, and what is read after it."""
    inside = {op.dest for op in run}
    members = {op.pc for op in run}
    end = run[-1].pc
    inputs: dict[int, None] = {}
    for op in run:
        for place in op.operands:
            if isinstance(place, int) and place not in inside:
                inputs[place] = None
    outputs = tuple(op.dest for op in run if last_read.get(op.dest, -1) > end and op.pc in members)
    return Segment(tuple(run), tuple(inputs), outputs)
