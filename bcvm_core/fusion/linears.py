"""Products by weights followed by their bias and an activation: `policy_002` for layers.

A *linear* is a product of rows by a weight, the bias after it and an activation of both, as far as they are there and nobody else reads
what lies between; a `reshape` may stand before the activation, which is computed before it then. Linears of the same rows with nothing
between them but views and linears are computed with the first of them: their weights stream through the caches in one sweep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..isa.program import Arg, Program
from .convolutions import Reads, name_of
from .segments import Segment

ACTIVATIONS: Final = frozenset({"gelu", "silu", "sigmoid", "tanh"})
_PRODUCT: Final = {"transpose_x": False, "transpose_y": True}
_VIEWS: Final = frozenset({"reshape", "transpose", "swapaxes"})
_HARMLESS: Final = frozenset({"CHECK", "UNPACK", "BUILD_TUPLE", "BUILD_LIST", "LOAD_CONST", "NOP", "FUSE_START", "FUSE_END"})
_LAST: Final[tuple[dict[str, Any], ...]] = ({}, {"axis": 1}, {"axis": -1})  # a bias along the last axis of a matrix


@dataclass(frozen=True, slots=True)
class Linear:
    """Instructions `pcs` from a product on. Registers: `rows`, `weight`, `bias`, `result`, and those `between`.

    `attrs`, `axis`: attributes of the product and of the `bias_add`. `activation`: (op, attributes). `forwarded`: of an activation behind
    a view, its register and the view's, which holds the same. `beside`: those that are computed with this one. `leader`: the first
    instruction of the one that this is computed with, and its place among them.
    """

    pcs: tuple[int, ...]
    rows: int
    weight: int
    attrs: dict[str, Any]
    bias: int | None
    axis: dict[str, Any]
    activation: tuple[str, dict[str, Any]] | None
    result: int
    between: tuple[int, ...]
    forwarded: tuple[int, int] | None = None
    beside: tuple[Linear, ...] = ()
    leader: tuple[int, int] | None = None

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.rows,)

    @property
    def constants(self) -> tuple[int, ...]:
        """Registers that are looked at when a program begins."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)


def find(program: Program, barred: frozenset[int], kept: frozenset[int], segments: Sequence[Segment]) -> list[Linear]:
    """The linears of a straight-line program.

    `barred`: instructions that compute with Python's values; `kept`: registers that are there when it begins. No segment is cut in two.
    """
    reads = Reads(program)
    found = [made for pc in range(len(program.instructions)) if (made := _linear(reads, pc, barred, segments)) is not None]
    return list(_joined(program, found, barred, kept))


def _linear(reads: Reads, pc: int, barred: frozenset[int], segments: Sequence[Segment]) -> Linear | None:
    instruction = reads.code[pc]
    if pc in barred or name_of(instruction) != "matmul_transposed":
        return None
    plain, named = _arguments(instruction.operands[3], reads.consts)
    if plain is None or len(plain) != 2 or _plain(named) != _PRODUCT:
        return None
    made = Linear((pc,), plain[0], plain[1], named, None, {}, None, instruction.operands[0], ())
    made = _with_bias(reads, made)
    active = _with_activation(reads, made)
    for linear in (active, made):
        inside = set(linear.pcs)
        whole = all(inside.isdisjoint(s.pcs) or inside.issuperset(s.pcs) for s in segments)
        if whole and barred.isdisjoint(linear.pcs) and (linear.bias is None or reads.made.get(linear.bias, -1) < pc):
            return linear
    return None


def _with_bias(reads: Reads, linear: Linear) -> Linear:
    after = reads.next(linear.result, "bias_add")
    plain, axis = _arguments(after[1].operands[3], reads.consts) if after is not None else (None, {})
    if (
        after is None
        or plain is None
        or len(plain) != 2
        or plain[0] != linear.result
        or plain[1] == linear.result
        or _plain(axis) not in _LAST
    ):
        return linear
    return replace(
        linear, pcs=(*linear.pcs, after[0]), bias=plain[1], axis=axis, result=after[1].operands[0], between=(*linear.between, linear.result)
    )


def _with_activation(reads: Reads, linear: Linear) -> Linear:
    """The linear with an activation right after it, or after a view of it."""
    value, view = linear.result, reads.next(linear.result, "reshape")
    if view is not None:
        args = view[1].operands[3]
        value = view[1].operands[0] if args and not args[0].is_const and args[0].index == linear.result else value
    after = reads.next(value, *ACTIVATIONS)
    plain, attrs = _arguments(after[1].operands[3], reads.consts) if after is not None else (None, {})
    if after is None or plain != [value]:
        return linear
    dest, pcs, activation = after[1].operands[0], (*linear.pcs, after[0]), (name_of(after[1]), attrs)
    if value == linear.result:
        return replace(linear, pcs=pcs, activation=activation, result=dest, between=(*linear.between, linear.result))
    return replace(linear, pcs=pcs, activation=activation, forwarded=(dest, value))


def _arguments(args: Sequence[Arg], consts: Sequence[Any]) -> tuple[list[int] | None, dict[str, Any]]:
    """(registers given by position, constants given by name); None where there are others."""
    if any(a.is_const == (a.name is None) for a in args):
        return None, {}
    return [a.index for a in args if a.name is None], {a.name: consts[a.index] for a in args if a.name is not None}


def _plain(attrs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attrs.items() if name != "dialect"}


def _joined(program: Program, found: Sequence[Linear], barred: frozenset[int], kept: frozenset[int]) -> Iterator[Linear]:
    """The linears, those of the same rows with their leader."""
    origin = _origins(program)
    at = 0
    while at < len(found):
        group = [found[at]]
        while at + len(group) < len(found):
            other = found[at + len(group)]
            same = origin.get(other.rows, other.rows) == origin.get(group[0].rows, group[0].rows)
            if not same or not kept.issuperset((*group[0].constants, *other.constants)) or not _is_open(program, group, other, barred):
                break
            group.append(other)
        first, *others = group
        if others:
            leader = first.pcs[0]
            yield replace(first, beside=tuple(others), leader=(leader, 0))
            yield from (replace(linear, leader=(leader, k)) for k, linear in enumerate(others, 1))
        else:
            yield first
        at += len(group)


def _is_open(program: Program, group: Sequence[Linear], other: Linear, barred: frozenset[int]) -> bool:
    """Whether nothing stands between some linears and another one but views, and what computes with shapes."""
    own = {pc for linear in (*group, other) for pc in linear.pcs}
    for pc in range(group[0].pcs[0], other.pcs[0]):
        instruction = program.instructions[pc]
        if pc not in own and pc not in barred and instruction.opcode not in _HARMLESS and name_of(instruction) not in _VIEWS:
            return False
    return True


def _origins(program: Program) -> dict[int, int]:
    """What each register is a reshaped form of."""
    found: dict[int, int] = {}
    for instruction in program.instructions:
        if name_of(instruction) == "reshape":
            args = instruction.operands[3]
            if args and not args[0].is_const:
                found[instruction.operands[0]] = found.get(args[0].index, args[0].index)
    return found
