"""Convolutions followed by what is computed with them: `policy_002` for images.

A *group* is a convolution, the normalisation by given statistics or the bias after it, the addition of a residual and `relu`, as far
as they are there and nobody else reads what lies between. It runs where the convolution stands, so a residual must be there by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..isa.program import Arg, Instruction, Program, read_by, written_by
from .segments import Segment

ASKING: Final = frozenset({"shape", "ndim", "size", "dtype"})  # look at no element


@dataclass(frozen=True, slots=True)
class Group:
    """Instructions `pcs` from a convolution to its last step. Registers: `images`, `weight`, those of the norm or bias, `residual`.

    `norm`: its `eps`, None for none. `bias`: attributes of a `bias_add`. `first`: the residual is the first operand of its addition.
    `between`: registers that hold what lies between.
    """

    pcs: tuple[int, ...]
    images: int
    weight: int
    numbers: tuple[int, ...]
    norm: float | None
    bias: Mapping[str, Any]
    residual: int | None
    first: bool
    relu: bool
    result: int
    between: tuple[int, ...]
    attrs: Mapping[str, Any]

    @property
    def operands(self) -> tuple[int, ...]:
        """Registers that it is called with."""
        return (self.images,) if self.residual is None else (self.images, self.residual)

    @property
    def constants(self) -> tuple[int, ...]:
        """Registers that are looked at when a program begins, where they are there then."""
        return (self.weight, *self.numbers)


@dataclass(frozen=True, slots=True)
class Pool:
    """Maxima of windows of a group's result or of another pool's, with attributes that are always the same. Registers."""

    source: int
    result: int
    attrs: Mapping[str, Any]


class Reads:
    """Who reads and writes the registers of a program; asking for a shape reads nothing."""

    def __init__(self, program: Program) -> None:
        self.code = program.instructions
        self.consts = program.consts
        self.readers: dict[int, list[int]] = {}
        self.made = {register: pc for pc, instruction in enumerate(self.code) for register in written_by(instruction)}
        for pc, instruction in enumerate(self.code):
            if name_of(instruction) not in ASKING:
                for register in read_by(instruction):
                    self.readers.setdefault(register, []).append(pc)

    def next(self, register: int, *names: str) -> tuple[int, Instruction] | None:
        """The one instruction that reads a register, once, if it is one of these."""
        pcs = self.readers.get(register, ())
        if len(pcs) != 1 or name_of(self.code[pcs[0]]) not in names:
            return None
        return pcs[0], self.code[pcs[0]]


def name_of(instruction: Instruction) -> str:
    return str(instruction.operands[1]) if instruction.opcode == "CALL_OP" else instruction.opcode


def find(program: Program, barred: frozenset[int], alone: frozenset[int], segments: Sequence[Segment]) -> list[Group]:
    """The groups of a straight-line program. `alone`: norms (pc) of which only the first result is read; no segment is cut in two."""
    reads = Reads(program)
    found = []
    for pc, instruction in enumerate(program.instructions):
        group = None if pc in barred or name_of(instruction) != "conv2d" else _group(reads, pc, alone, segments)
        if group is not None and barred.isdisjoint(group.pcs):
            found.append(group)
    return found


def pools(program: Program) -> list[Pool]:
    """The maxima of windows in a program."""
    found = []
    for instruction in program.instructions:
        if name_of(instruction) == "max_pool2d":
            result, _, _, args = instruction.operands
            plain = [a.index for a in args if a.name is None and not a.is_const]
            named = [a for a in args if a.name is not None]
            if len(plain) == 1 and len(args) == 1 + len(named) and all(a.is_const for a in named):
                found.append(Pool(plain[0], result, {str(a.name): program.consts[a.index] for a in named}))
    return found


def _group(reads: Reads, pc: int, alone: frozenset[int], segments: Sequence[Segment]) -> Group | None:
    result, _, _, args = reads.code[pc].operands
    plain = [a for a in args if a.name is None]
    named = [a for a in args if a.name is not None]
    if len(plain) != 2 or any(a.is_const for a in plain) or not all(a.is_const for a in named):
        return None
    attrs = {a.name: reads.consts[a.index] for a in named}
    pcs, between = [pc], [result]
    numbers, given, value = _per_channel(reads, result, alone, pcs, between)
    norm, bias = given.get("eps"), {} if "eps" in given else given
    base = Group(tuple(pcs), plain[0].index, plain[1].index, numbers, norm, bias, None, False, False, value, tuple(between[:-1]), attrs)
    possible = [base] if numbers else []
    for group in reversed([*possible, *_with_more(reads, base)]):  # the longest first
        inside = set(group.pcs)
        whole = all(inside.isdisjoint(s.pcs) or inside.issuperset(s.pcs) for s in segments)
        if whole and all(reads.made.get(r, -1) < pc for r in (*group.operands, *group.constants)):
            return group
    return None


def _per_channel(
    reads: Reads, value: int, alone: frozenset[int], pcs: list[int], between: list[int]
) -> tuple[tuple[int, ...], dict[Any, Any], int]:
    """(registers of numbers per channel, attributes, the register of the result), of a norm or bias that follows; added to the lists."""
    after = reads.next(value, "batch_norm_parts", "bias_add")
    args: Sequence[Arg] = after[1].operands[3] if after is not None else ()
    plain = [a.index for a in args if a.name is None and not a.is_const]
    if after is None or not plain or plain[0] != value or plain.count(value) != 1:
        return (), {}, value
    rest = {a.name: reads.consts[a.index] for a in args if a.is_const}
    if name_of(after[1]) == "bias_add":
        if len(plain) != 2 or any(a.name is not None and not a.is_const for a in args) or rest not in ({}, {"axis": 1}):
            return (), {}, value
        pcs.append(after[0])
        between.append(after[1].operands[0])
        return (plain[1],), rest, after[1].operands[0]
    taken = reads.next(after[1].operands[0], "getitem", "UNPACK") if after[0] in alone else None
    if taken is None or len(plain) != 5 or len(args) != 6 or set(rest) != {"eps"} or type(rest["eps"]) is not float:
        return (), {}, value
    normal = taken[1].operands[0] if name_of(taken[1]) == "getitem" else taken[1].operands[0][0]
    pcs += [after[0], taken[0]]
    between.append(normal)
    return tuple(plain[1:]), rest, normal


def _with_more(reads: Reads, group: Group) -> list[Group]:
    """The group with a residual, with `relu`, with both: longer ones later."""
    found: list[Group] = []
    value, pcs, between, residual, first = group.result, group.pcs, group.between, None, False
    added = reads.next(value, "add")
    if added is not None:
        args = added[1].operands[3]
        registers = [a.index for a in args if a.name is None and not a.is_const]
        if len(args) == len(registers) == 2 and registers.count(value) == 1:
            first = registers[1] == value
            residual = registers[0 if first else 1]
            pcs, between, value = (*pcs, added[0]), (*between, value), added[1].operands[0]
            if not first:
                found.append(replace(group, pcs=pcs, between=between, residual=residual, first=first, result=value))
    last = reads.next(value, "relu")
    if last is not None and len(last[1].operands[3]) == 1:
        pcs, between, value = (*pcs, last[0]), (*between, value), last[1].operands[0]
        found.append(replace(group, pcs=pcs, between=between, residual=residual, first=first, relu=True, result=value))
    return found
