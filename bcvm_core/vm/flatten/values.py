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


Value = Known | Traced | Items | Table | Method | MethodOf | Local


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
    return types.MethodType if isinstance(value, Method) else types.FunctionType


def actual_of(value: Value) -> Any:
    """What the value is in this run."""
    if isinstance(value, Known):
        return value.value
    if isinstance(value, Traced):
        return value.actual
    if isinstance(value, Items):
        return value.kind(actual_of(v) for v in value.values)
    if isinstance(value, Table):
        return {key: actual_of(v) for key, v in value.values.items()}
    raise UnflattenableError("a function as a value")


def is_known(value: Value) -> bool:
    """Whether nothing in the value depends on the operands."""
    if isinstance(value, Items):
        return all(map(is_known, value.values))
    if isinstance(value, Table):
        return all(map(is_known, value.values.values()))
    return isinstance(value, Known)
