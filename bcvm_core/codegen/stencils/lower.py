"""From a graph of ops to typed steps: ops expanded into primitives, constants collected, dead values left out where nobody can tell."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from .graph import Const, FusedGraph, NotFusable
from .ir import SIZE
from .loops import COMPUTE, Literal, Operand, Step, Temp, constant_bits
from .primitives import table
from .trace import expansion

MEMORY_TYPE = {"float16": "f16", "bfloat16": "bf16"}


class Loaded(NamedTuple):
    """A value from an input. `memory`: how it lies there."""

    input: int
    memory: str


class Constant(NamedTuple):
    """A value that is the same everywhere: constant `number`, of a register type."""

    number: int
    type: str
    kind: str = "constant"  # tuples are equal when their items are, and this is never a `Loaded`


class Computed(NamedTuple):
    """The result of a primitive. `constant`: number of the constant that is one of its operands (-1: none)."""

    primitive: str
    operands: tuple[int, ...]
    constant: int = -1


Value = Loaded | Constant | Computed


class Lowered(NamedTuple):
    """Values in order of computation; `stores` are (value, memory type) per output; `constants` are bit patterns.

    `width`: bytes of the widest type, 4 or 8. `dtypes`: NumPy types of the outputs.
    """

    values: tuple[Value, ...]
    stores: tuple[tuple[int, str], ...]
    constants: tuple[int, ...]
    width: int
    dtypes: tuple[str, ...]


class Facts(NamedTuple):
    """What lowering and allocation ask of a primitive."""

    quiet: bool
    hot: bool
    width: int
    const: int
    types: tuple[str, ...]


@cache
def facts() -> dict[str, Facts]:
    """The facts of every primitive by name."""
    return {p.name: Facts(p.quiet, p.hot, max(SIZE[t] for t in (*p.operands, p.result)), p.const, p.operands) for p in table().values()}


@cache
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
        described = tuple([x if type(x) is Const else dtypes[x] for x in node.operands])  # type: ignore[index]
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
        if type(place) is not Const:
            found: int = refs[place]
            return found
    raise NotFusable("a result that is a constant")


def _step(b: _Builder, step: Step, operands: tuple[Any, ...], refs: list[int], temps: list[int]) -> int:
    known = facts()[step.primitive]
    inside, constant = [], -1
    for position, ref in enumerate(step.operands):
        if type(ref) is Temp:
            inside.append(temps[ref.index])
            continue
        place = operands[ref.index] if type(ref) is Operand else None
        if place is not None and type(place) is not Const:
            inside.append(refs[place])
            continue
        bits = ref.bits if type(ref) is Literal else constant_bits(place.value, step.dtype)  # type: ignore[union-attr]
        number = b.constant_index(bits)
        if position == known.const:
            constant = number
        else:
            t = "i" + str(8 * SIZE[known.types[position]])
            inside.append(b.add(("k", number, t), Constant, number, t))
    arguments = tuple(inside)
    return b.add((step.primitive, arguments, constant), Computed, step.primitive, arguments, constant)


def _finished(b: _Builder, outputs: list[int], dtypes: tuple[str, ...]) -> Lowered:
    """What the outputs need, renumbered, and what else may raise an event."""
    known = facts()
    values = b.values
    needed = set(outputs)
    for at in range(len(values) - 1, -1, -1):
        value = values[at]
        if type(value) is Computed and (at in needed or not known[value.primitive].quiet):
            needed.add(at)
            needed.update(value.operands)
    if len(needed) != len(values):
        values, outputs = _renumbered(values, sorted(needed), outputs)
    width = 4
    for value in values:
        if type(value) is Computed:
            size = known[value.primitive].width
        else:
            size = SIZE[value.memory] if type(value) is Loaded else SIZE[value.type]  # type: ignore[union-attr]
        if size > width:
            width = size
    stores = tuple([(k, memory_type(dtype)) for k, dtype in zip(outputs, dtypes, strict=True)])
    return Lowered(tuple(values), stores, tuple(b.constants), width, dtypes)


def _renumbered(values: list[Value], kept: list[int], outputs: list[int]) -> tuple[list[Value], list[int]]:
    number = {old: new for new, old in enumerate(kept)}
    out: list[Value] = []
    for old in kept:
        value = values[old]
        if type(value) is Computed:
            value = Computed(value.primitive, tuple([number[k] for k in value.operands]), value.constant)
        out.append(value)
    return out, [number[k] for k in outputs]
