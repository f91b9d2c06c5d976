"""From a graph of ops to typed steps: ops expanded into primitives, constants collected, dead values left out where nobody can tell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from .graph import FusedGraph, NotFusable
from .ir import SIZE
from .loops import COMPUTE, constant_bits
from .primitives import table
from .trace import Ready, by_value, describe_number, expansion

MEMORY_TYPE = {"float16": "f16", "bfloat16": "bf16"}


class Loaded(NamedTuple):
    """A value from an input. `memory`: how it lies there."""

    input: int
    memory: str


class Constant(NamedTuple):
    """A value that is the same everywhere: constant `number`, of a register type."""

    number: int
    type: str
    kind: str = "constant"  # tuples compare by their items: this one never equals a `Loaded`


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


@cache
def facts() -> dict[str, Facts]:
    """The facts of every primitive by name."""
    return {p.name: Facts(p.quiet, p.hot, max(SIZE[t] for t in (*p.operands, p.result))) for p in table().values()}


@cache
def memory_type(dtype: str) -> str:
    """How a dtype is loaded and stored: signed and unsigned alike."""
    found = MEMORY_TYPE.get(dtype) or COMPUTE[dtype]
    return found.replace("u", "i")


class _Builder:
    """Values as they are met, equal ones once. `used`: those that others are made of; `width`: bytes of the widest type."""

    __slots__ = ("values", "constants", "seen", "used", "width", "_constant_of")

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.constants: list[int] = []
        self.seen: dict[Value, int] = {}
        self.used: set[int] = set()
        self.width = 4
        self._constant_of: dict[int, int] = {}

    def add(self, value: Value, width: int) -> int:
        found = self.seen.get(value)
        if found is None:
            found = self.seen[value] = len(self.values)
            self.values.append(value)
            if width > self.width:
                self.width = width
        return found

    def step(self, step: Ready, local: list[int], operands: tuple[Any, ...]) -> int:
        """The number of a step's value. `local`: numbers of values by place."""
        primitive, places, fills, width = step
        arguments = [local[k] for k in places]
        constant = -1
        for operand, bits, dtype, position, type_ in fills:
            if operand >= 0:
                bits = constant_bits(operands[operand].value, dtype)
            number = self._constant_of.get(bits, -1)
            if number < 0:
                number = self._constant_of[bits] = len(self.constants)
                self.constants.append(bits)
            if position < 0:
                constant = number
            else:
                arguments[position] = self.add(Constant(number, type_), SIZE[type_])
        self.used.update(arguments)
        return self.add(Computed(primitive, tuple(arguments), constant), width)


def lower(graph: FusedGraph) -> Lowered:
    """The steps of a graph. Raises NotFusable."""
    b, outputs, dtypes, _ = _built(graph)
    return _finished(b, outputs, dtypes)


def makers(graph: FusedGraph) -> list[int]:
    """Per value of `lower(graph)` the node that it was made for first, -1 for inputs. Raises NotFusable."""
    b, outputs, _, ends = _built(graph)
    owners = [-1] * len(graph.inputs)
    for node, end in enumerate(ends):
        owners += [node] * (end - len(owners))
    return [owners[k] for k in _kept(b, outputs)]


def _built(graph: FusedGraph) -> tuple[_Builder, list[int], tuple[str, ...], list[int]]:
    """All steps, the numbers and NumPy types of the outputs, and how many values there were after each node."""
    b = _Builder()
    ends: list[int] = []
    refs: list[int] = []
    dtypes: list[str] = []
    for index, (dtype, _) in enumerate(graph.inputs):
        if dtype not in COMPUTE:
            raise NotFusable(f"no stencils for the type {dtype}")
        memory = memory_type(dtype)
        refs.append(b.add(Loaded(index, memory), SIZE[memory]))
        dtypes.append(dtype)
    for op, operands, attrs in graph.nodes:
        known: list[Any] = []
        local: list[int] = []
        for x in operands:
            if type(x) is int:
                known.append(dtypes[x])
                local.append(refs[x])
            else:
                known.append(describe_number(x.value, by_value(op)))  # type: ignore[union-attr]
                local.append(-1)
        found = expansion(op, tuple(known), operands, attrs)
        for step in found.steps:
            local.append(b.step(step, local, operands))
        refs.append(local[found.result])
        dtypes.append(found.dtype)
        ends.append(len(b.values))
    return b, [refs[k] for k in graph.outputs], tuple([dtypes[k] for k in graph.outputs]), ends


def _finished(b: _Builder, outputs: list[int], dtypes: tuple[str, ...]) -> Lowered:
    """What the outputs need, renumbered, and what else may raise an event."""
    values, width = b.values, b.width
    kept = _kept(b, outputs)
    if len(kept) != len(values):
        values, outputs = _renumbered(values, kept, outputs)
        width = max([4, *map(_width, values)])
    stores = tuple([(k, memory_type(dtype)) for k, dtype in zip(outputs, dtypes, strict=True)])
    return Lowered(tuple(values), stores, tuple(b.constants), width, dtypes)


def _kept(b: _Builder, outputs: list[int]) -> Sequence[int]:
    """The values that stay, by their numbers: all of them where each is read."""
    if len(b.used.union(outputs)) == len(b.values):
        return range(len(b.values))
    return sorted(_needed(b.values, outputs))


def _needed(values: list[Value], outputs: list[int]) -> set[int]:
    """Values that outputs are made of, or that may raise an event, and what those are made of."""
    known = facts()
    needed = set(outputs)
    for at in range(len(values) - 1, -1, -1):
        value = values[at]
        if type(value) is Computed and (at in needed or not known[value.primitive].quiet):
            needed.add(at)
            needed.update(value.operands)
    return needed


def _width(value: Value) -> int:
    if type(value) is Computed:
        return facts()[value.primitive].width
    return SIZE[value.memory] if type(value) is Loaded else SIZE[value.type]  # type: ignore[union-attr]


def _renumbered(values: list[Value], kept: Sequence[int], outputs: list[int]) -> tuple[list[Value], list[int]]:
    number = {old: new for new, old in enumerate(kept)}
    out: list[Value] = []
    for old in kept:
        value = values[old]
        if type(value) is Computed:
            value = Computed(value.primitive, tuple([number[k] for k in value.operands]), value.constant)
        out.append(value)
    return out, [number[k] for k in outputs]
