"""Control flow and data flow of a Program's instructions: where each may go, loops, and what registers hold.

All functions take programs whose opcodes, operand kinds and jump targets were checked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .opcodes import Kind
from .program import Instruction, read_by, written_by


def target_of(instruction: Instruction) -> int | None:
    """The pc that the instruction may jump to; None when it cannot (a while's LOOP_START only marks the head)."""
    if not instruction.row.jumps or (instruction.opcode == "LOOP_START" and instruction.operand("iter") is None):
        return None
    return label_of(instruction)


def label_of(instruction: Instruction) -> int | None:
    """The value of the LABEL operand, whether or not control goes there."""
    for (_, kind), value in zip(instruction.row.operands, instruction.operands, strict=True):
        if kind is Kind.LABEL:
            return int(value)
    return None


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: `head` is its LOOP_START, `end` its last LOOP_END, `exit` where it leaves to."""

    head: int
    end: int
    exit: int


def loops_of(code: Sequence[Instruction]) -> dict[int, Loop]:
    """Loops by head; a LOOP_START without a LOOP_END behind it has no entry."""
    ends: dict[int, int] = {}
    for pc, instruction in enumerate(code):
        head = label_of(instruction) if instruction.opcode == "LOOP_END" else None
        if head is not None and head < pc and code[head].opcode == "LOOP_START":
            ends[head] = pc
    return {head: Loop(head, end, int(code[head].operand("exit"))) for head, end in ends.items()}


@dataclass(frozen=True, slots=True)
class Registers:
    """What is known of the registers at one place, as bit sets: set on every path, holding an iterator."""

    assigned: int = 0
    iterators: int = 0

    def met(self, other: Registers) -> Registers:
        """Where two paths join. A register that is an iterator on one path only counts as not set."""
        mixed = self.iterators ^ other.iterators
        return Registers(self.assigned & other.assigned & ~mixed, self.iterators & other.iterators)

    def has(self, register: int) -> bool:
        return bool(self.assigned >> register & 1)

    def is_iterator(self, register: int) -> bool:
        return bool(self.iterators >> register & 1)


def _after(instruction: Instruction, before: Registers) -> Registers:
    """The registers once the instruction is done and control falls through."""
    bits = 0
    for register in written_by(instruction):
        bits |= 1 << register
    opcode = instruction.opcode
    gives_iterator = opcode == "GET_ITER" or (opcode == "MOVE" and before.is_iterator(read_by(instruction)[0]))
    iterators = before.iterators | bits if gives_iterator else before.iterators & ~bits
    return Registers(before.assigned | bits, iterators)


def registers_before(code: Sequence[Instruction]) -> list[Registers | None]:
    """The registers before each instruction; None for instructions that no path reaches.

    Backward edges lead to loop heads only, so sweeps in program order settle after about as many
    rounds as loops are nested.
    """
    states: list[Registers | None] = [None] * len(code)
    if code:
        states[0] = Registers()
    changed = True
    while changed:
        changed = False
        for pc, instruction in enumerate(code):
            before = states[pc]
            if before is None:
                continue
            after = _after(instruction, before)
            target = target_of(instruction)
            # an exhausted iterator leaves the loop without an item
            leaving = before if instruction.opcode == "LOOP_START" else after
            if target is not None:
                changed |= _join(states, target, leaving) and target <= pc
            if instruction.row.falls_through and pc + 1 < len(code):
                _join(states, pc + 1, after)
    return states


def _join(states: list[Registers | None], pc: int, new: Registers) -> bool:
    """Let `new` flow into `pc`; whether that changed what is known there."""
    old = states[pc]
    met = new if old is None else old.met(new)
    states[pc] = met
    return met != old
