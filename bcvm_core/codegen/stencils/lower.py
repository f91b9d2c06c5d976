"""From a graph of ops to typed steps over stencils: ops expanded into primitives, constants collected, dead values left out where nobody can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .graph import Const, FusedGraph, NotFusable
from .ir import SIZE
from .loops import COMPUTE, Literal, Operand, Step, Temp, constant_bits
from .primitives import table
from .trace import expansion

MEMORY_TYPE = {"float16": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A value from an input. `memory`: how it lies there."""

    input: int
    memory: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is the same everywhere: constant number `index`, of a register type."""

    index: int
    type: str


@dataclass(frozen=True, slots=True)
class Computed:
    """The result of a primitive. `constant`: number of the constant that is one of its operands (-1: none)."""

    primitive: str
    operands: tuple[int, ...]
    constant: int = -1


Value = Loaded | Constant | Computed


@dataclass(frozen=True, slots=True)
class Lowered:
    """Values in order of computation; `stores` are (value, memory type) per output; `constants` are bit patterns.

    `width`: bytes of the widest type, 4 or 8. `dtypes`: NumPy types of the outputs.
    """

    values: tuple[Value, ...]
    stores: tuple[tuple[int, str], ...]
    constants: tuple[int, ...]
    width: int
    dtypes: tuple[str, ...]


def memory_type(dtype: str) -> str:
    """How a dtype is loaded and stored: signed and unsigned alike."""
    found = MEMORY_TYPE.get(dtype) or COMPUTE[dtype]
    return found.replace("u", "i")


class _Builder:
    """Values as they are met, equal ones once."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.constants: list[int] = []
        self._seen: dict[Any, int] = {}
        self._constant_of: dict[int, int] = {}
        self.width = 4

    def add(self, key: Any, make: type, *fields: Any) -> int:
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = len(self.values)
            self.values.append(make(*fields))
        return found

    def constant_index(self, bits: int) -> int:
        found = self._constant_of.get(bits)
        if found is None:
            found = self._constant_of[bits] = len(self.constants)
            self.constants.append(bits)
        return found


def lower(graph: FusedGraph) -> Lowered:
    """The steps of a graph. Raises NotFusable."""
    b = _Builder()
    refs: list[int] = []
    dtypes: list[str] = []
    for index, given in enumerate(graph.inputs):
        if given.dtype not in COMPUTE:
            raise NotFusable(f"no stencils for the type {given.dtype}")
        memory = memory_type(given.dtype)
        refs.append(b.add(("in", index), Loaded, index, memory))
        dtypes.append(given.dtype)
    for node in graph.nodes:
        described = tuple(x if isinstance(x, Const) else dtypes[x] for x in node.operands)
        found = expansion(node.op, described, node.attrs)
        temps: list[int] = []
        for step in found.steps:
            temps.append(_step(b, step, node.operands, refs, temps))
        refs.append(_reference(found.result, node.operands, refs, temps))
        dtypes.append(found.dtype)
    outputs = [refs[k] for k in graph.outputs]
    results = tuple(dtypes[k] for k in graph.outputs)
    return _finished(b, outputs, results)


def _reference(ref: Any, operands: tuple[Any, ...], refs: list[int], temps: list[int]) -> int:
    if type(ref) is Temp:
        return temps[ref.index]
    if type(ref) is Operand:
        place = operands[ref.index]
        if not isinstance(place, Const):
            return refs[place]
    raise NotFusable("a result that is a constant")


def _step(b: _Builder, step: Step, operands: tuple[Any, ...], refs: list[int], temps: list[int]) -> int:
    primitive = table()[step.primitive]
    inside, constant = [], -1
    for position, ref in enumerate(step.operands):
        if type(ref) is Temp:
            inside.append(temps[ref.index])
            continue
        place = operands[ref.index] if type(ref) is Operand else None
        if place is not None and not isinstance(place, Const):
            inside.append(refs[place])
            continue
        bits = ref.bits if isinstance(ref, Literal) else constant_bits(place.value, step.dtype)  # type: ignore[union-attr]
        number = b.constant_index(bits)
        if position == primitive.const:
            constant = number
        else:
            t = "i" + str(8 * SIZE[primitive.operands[position]])
            inside.append(b.add(("k", number, t), Constant, number, t))
    arguments = tuple(inside)
    return b.add((step.primitive, arguments, constant), Computed, step.primitive, arguments, constant)


def _finished(b: _Builder, outputs: list[int], dtypes: tuple[str, ...]) -> Lowered:
    """What the outputs need, renumbered, and what else may raise an event."""
    primitives = table()
    needed = set(outputs)
    needed.update(k for k, value in enumerate(b.values) if type(value) is Computed and not primitives[value.primitive].quiet)
    for at in range(len(b.values) - 1, -1, -1):
        value = b.values[at]
        if at in needed and type(value) is Computed:
            needed.update(value.operands)
    order = sorted(needed)
    number = {old: new for new, old in enumerate(order)}
    values: list[Value] = []
    width = 4
    for old in order:
        value = b.values[old]
        if type(value) is Computed:
            values.append(Computed(value.primitive, tuple(number[k] for k in value.operands), value.constant))
            p = primitives[value.primitive]
            width = max(width, SIZE[p.result], *(SIZE[t] for t in p.operands))
        else:
            values.append(value)
            width = max(width, SIZE[value.memory] if type(value) is Loaded else SIZE[value.type])  # type: ignore[union-attr]
    stores = tuple((number[k], memory_type(dtype)) for k, dtype in zip(outputs, dtypes, strict=True))
    return Lowered(tuple(values), stores, tuple(b.constants), width, dtypes)
