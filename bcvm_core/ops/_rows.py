"""Small helpers with which the family files write their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .registry import Param, Spelling

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


def given(attrs: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of `names` whose value is not None."""
    return {name: attrs[name] for name in names if attrs[name] is not None}
