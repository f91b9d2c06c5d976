"""From a graph of ops to typed steps: ops expanded into primitives, constants collected, dead values left out where nobody can tell."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from .graph import Const, FusedGraph, NotFusable
from .ir import SIZE
from .loops import COMPUTE, constant_bits
from .primitives import table
from .trace import Ready, expansion

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
    """Values as they are met, equal ones once."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.constants: list[int] = []
        self.seen: dict[Value, int] = {}
        self._constant_of: dict[int, int] = {}

    def add(self, value: Value) -> int:
        found = self.seen.get(value)
        if found is None:
            found = self.seen[value] = len(self.values)
            self.values.append(value)
        return found

    def constant_index(self, bits: int) -> int:
        found = self._constant_of.get(bits)
        if found is None:
            found = self._constant_of[bits] = len(self.constants)
            self.constants.append(bits)
        return found

    def filled(self, step: Ready, operands: tuple[Any, ...], local: list[int]) -> Computed:
        """A step with constants."""
        arguments = [local[k] for k in step.places]
        constant = -1
        for fill in step.fills:
            bits = fill.bits if fill.operand < 0 else constant_bits(operands[fill.operand].value, fill.dtype)
            number = self.constant_index(bits)
            if fill.position < 0:
                constant = number
            else:
                arguments[fill.position] = self.add(Constant(number, fill.type))
        return Computed(step.primitive, tuple(arguments), constant)


def lower(graph: FusedGraph) -> Lowered:
    """The steps of a graph. Raises NotFusable."""
    b = _Builder()
    refs: list[int] = []
    dtypes: list[str] = []
    for index, given in enumerate(graph.inputs):
        if given.dtype not in COMPUTE:
            raise NotFusable(f"no stencils for the type {given.dtype}")
        refs.append(b.add(Loaded(index, memory_type(given.dtype))))
        dtypes.append(given.dtype)
    add = b.add
    for node in graph.nodes:
        operands = node.operands
        described: list[Any] = []
        local: list[int] = []
        for x in operands:
            if type(x) is Const:
                described.append(x)
                local.append(-1)
            else:
                described.append(dtypes[x])  # type: ignore[index]
                local.append(refs[x])  # type: ignore[index]
        found = expansion(node.op, tuple(described), node.attrs)
        for step in found.steps:
            primitive, places, fills = step
            if fills:
                local.append(add(b.filled(step, operands, local)))
            elif len(places) == 1:
                local.append(add(Computed(primitive, (local[places[0]],))))
            else:
                local.append(add(Computed(primitive, tuple([local[k] for k in places]))))
        refs.append(local[found.result])
        dtypes.append(found.dtype)
    return _finished(b, [refs[k] for k in graph.outputs], tuple([dtypes[k] for k in graph.outputs]))


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
