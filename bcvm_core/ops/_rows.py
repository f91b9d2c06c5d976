"""Small helpers with which the family files write their rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import OpInfo, Param, Spelling

UNSET = np._NoValue  # type: ignore[attr-defined]  # NumPy's own mark for "not passed"

NUMPY_2 = int(np.__version__.split(".")[0]) >= 2

X = Param("x", "tensor")
AXIS = Param("axis", default=None)
DTYPE = Param("dtype", default=None)
KEEPDIMS = Param("keepdims", default=False)


def numpy(name: str, signature: str, **rename: str) -> Spelling:
    """The function `numpy.<name>`; `rename` maps its parameters to canonical ones."""
    return Spelling(f"numpy.{name}", signature, rename)


def method(name: str, signature: str = "", **rename: str) -> tuple[Spelling, ...]:
    """The ndarray method `name`, when the installed NumPy has it."""
    return (Spelling(f"numpy.ndarray.{name}", signature, rename, kind="method"),) if hasattr(np.ndarray, name) else ()


def attribute(name: str) -> Spelling:
    """The ndarray attribute `name`."""
    return Spelling(f"numpy.ndarray.{name}", kind="attribute")


def own(name: str, signature: str, **rename: str) -> Spelling:
    """The function `bcvm_core.ops.<name>`."""
    return Spelling(f"bcvm_core.ops.{name}", signature, rename)


def builtin(name: str, signature: str, **rename: str) -> Spelling:
    """The builtin `name`."""
    return Spelling(f"builtins.{name}", signature, rename)


def elements(shape: Any) -> int:
    """How many elements a shape has."""
    return math.prod(shape)


def per_input(cost: float) -> Callable[..., float]:
    """FLOPs: `cost` for each element of the first operand."""

    def flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
        return cost * elements(shapes[0]) if shapes else 0.0

    return flops


def moves_only(*_shapes: tuple[int, ...], **_attrs: Any) -> float:
    """FLOPs of an op that only moves or describes data: none."""
    return 0.0


def numpy_call(function: Callable[..., Any], *required: str) -> Callable[..., Any]:
    """A definition that passes `required` attributes by position and the others that were given by keyword."""

    def definition(*operands: Any, **attrs: Any) -> Any:
        positional = [attrs.pop(name) for name in required if name in attrs]
        return function(*operands, *positional, **attrs)

    definition.__name__ = definition.__qualname__ = function.__name__
    return definition


def optional(**defaults: Any) -> tuple[Param, ...]:
    """Attributes with NumPy's defaults; only those that a call gives are passed on."""
    return tuple(Param(name, default=value) for name, value in defaults.items())


def own_method(name: str) -> Callable[..., Any]:
    """A definition that calls the first operand's own method."""

    def definition(x: Any, /, **attrs: Any) -> Any:
        return getattr(x, name)(**attrs)

    definition.__name__ = definition.__qualname__ = name
    return definition


def reduction(
    name: str, definition: Callable[..., Any], doc: str, params: tuple[Param, ...], spellings: tuple[Spelling, ...], **rest: Any
) -> OpInfo:
    """A row of the reduction family; `cost`: FLOPs per element."""
    cost = rest.pop("cost", 1.0)
    fields: dict[str, Any] = {"shape_rule": "reduce", "fuse": "reduce", "policy": 4, "fp_name": "reduce", **rest}
    return OpInfo(
        name=name,
        family="reduce",
        params=(X, *params),
        definition=definition,
        doc=doc,
        spellings=spellings,
        flops=per_input(cost),
        **fields,
    )


def shape_row(
    name: str, definition: Callable[..., Any], doc: str, params: tuple[Param, ...], spellings: tuple[Spelling, ...], **rest: Any
) -> OpInfo:
    """A row of the shape family: moves elements, computes nothing."""
    fields: dict[str, Any] = {"shape_rule": "other", "dtype_rule": "same", "flops": moves_only, **rest}
    return OpInfo(name=name, family="shape", params=params, definition=definition, doc=doc, spellings=spellings, **fields)


def view_row(
    name: str, definition: Callable[..., Any], doc: str, params: tuple[Param, ...], spellings: tuple[Spelling, ...], **rest: Any
) -> OpInfo:
    """A row of the shape family whose result is a view where strides allow it."""
    return shape_row(name, definition, doc, params, spellings, **{"shape_rule": "view", "fuse": "view", **rest})


ARRAYS = Param("arrays", "tensors")
