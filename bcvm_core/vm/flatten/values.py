"""What expressions evaluate to while a call is flattened."""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass, field
from typing import Any

from ...errors import Decline
from ...ops import registry


class UnflattenableError(Decline):
    """The call stays with Python; the text says why."""


@dataclass(frozen=True, slots=True)
class Known:
    """A Python object that does not depend on the operands. `path` names it in listings, where it has a name."""

    value: Any
    path: str = ""


@dataclass(frozen=True, slots=True)
class Traced:
    """A value computed from the operands: its register, and what it is in this very run."""

    register: int
    actual: Any

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, in every run: the kind of a result follows from the kinds of the operands."""
        return registry.personality_of(type(self.actual)) is not None


@dataclass(slots=True)
class Items:
    """A tuple or list built from other values. Lists are mutable: they are local to the call."""

    kind: type
    values: list[Value] = field(default_factory=list)


@dataclass(slots=True)
class Table:
    """A dict with known keys, local to the call."""

    values: dict[Any, Value] = field(default_factory=dict)


@dataclass(slots=True)
class Stream:
    """What iterators and views of dicts give, in order. They read what they iterate over late, so that must stay as it is until then.

    `sources`: (list or dict under construction, what it was made of when the iterator was, whether it is gone through from the front).
    """

    values: list[Value]
    sources: list[tuple[Items | Table, list[Any], bool]] = field(default_factory=list)
    used: bool = False


@dataclass(frozen=True, slots=True)
class Method:
    """A function of a known object, bound to it."""

    receiver: Known
    function: types.FunctionType


@dataclass(frozen=True, slots=True)
class MethodOf:
    """A method, by name, of a value that is being built or computed."""

    receiver: Traced | Items | Table
    name: str


@dataclass(frozen=True, slots=True)
class Local:
    """A function or lambda defined during the call, with the frame it sees."""

    node: ast.FunctionDef | ast.Lambda
    frame: Any
    defaults: tuple[Value, ...] = ()


Value = Known | Traced | Items | Table | Stream | Method | MethodOf | Local


def type_of(value: Value) -> type:
    """The Python type a value has."""
    if isinstance(value, Known):
        return type(value.value)
    if isinstance(value, Traced):
        return type(value.actual)
    if isinstance(value, Items):
        return value.kind
    if isinstance(value, Table):
        return dict
    if isinstance(value, Stream):
        raise UnflattenableError("an iterator as a value")
    return types.MethodType if isinstance(value, Method) else types.FunctionType


def actual_of(value: Value, made: dict[int, Any] | None = None) -> Any:
    """What the value is in this run. A list or dict that stands in two places is one object in both."""
    if isinstance(value, Known):
        return value.value
    if isinstance(value, Traced):
        return value.actual
    made = {} if made is None else made
    if id(value) in made:
        return made[id(value)]
    found: Any
    if isinstance(value, Items):
        found = value.kind([actual_of(v, made) for v in value.values])
    elif isinstance(value, Table):
        found = {key: actual_of(v, made) for key, v in value.values.items()}
    else:
        raise UnflattenableError("a function or an iterator as a value")
    made[id(value)] = found
    return found


def fresh(found: Any) -> Value:
    """A list, tuple or dict that was made just now, as one under construction."""
    if type(found) is list:
        return Items(list, [Known(v) for v in found])
    if type(found) is dict:
        return Table({key: Known(v) for key, v in found.items()})
    return Known(found)


def is_watched(value: Value) -> bool:
    """Whether the value is a list or dict that may still change."""
    return isinstance(value, Table) or (isinstance(value, Items) and value.kind is list)


def sources_of(value: Value, forwards: bool = True) -> list[tuple[Items | Table, list[Any], bool]]:
    """What an iterable value reads late."""
    if isinstance(value, Stream):
        return value.sources
    return [(value, current(value), forwards)] if isinstance(value, Items | Table) and is_watched(value) else []


def current(source: Items | Table) -> list[Any]:
    """What a list or dict consists of now; of a dict keys and values in turn."""
    return list(source.values) if isinstance(source, Items) else [part for pair in source.values.items() for part in pair]


def is_known(value: Value) -> bool:
    """Whether nothing in the value depends on the operands."""
    if isinstance(value, Items):
        return all(map(is_known, value.values))
    if isinstance(value, Table):
        return all(map(is_known, value.values.values()))
    return isinstance(value, Known)
