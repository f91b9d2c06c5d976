"""What softmax, attention, losses and other composed ops share."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import fpstatus
from . import registry, trees
from ._rows import NUMPY_2

_Array = np.ndarray[Any, Any]

FAST: dict[str, Callable[[Any], Any]] = {}
"""Compiled forms of canonical algorithms (same bits), by op name; filled by the code generator."""


COMPILED_SUMS: list[Callable[[_Array, tuple[int, ...]], Any]] = []
"""Compiled forms of `trees.total` (same bits), tried in order; each returns None for what it does not take."""


COMPILED_DEVIATIONS: list[Callable[[_Array, tuple[int, ...], Any], Any]] = []
"""Compiled forms of `deviations` (same bits), as above."""


def deviations(x: _Array, axes: tuple[int, ...], mean: Any) -> Any:
    """Tree sums of (x - mean) squared over `axes`, for real numbers; `mean` has the axes that are left."""
    for compiled in COMPILED_DEVIATIONS:
        result = compiled(x, axes, mean)
        if result is not None:
            return result
    difference = named(np.subtract, x, spread(mean, x.shape, axes))
    squares = named(np.square, difference, out=difference) if _squares() else named(np.multiply, difference, difference, out=difference)
    return trees.total(squares, axes)


@functools.cache
def _squares() -> bool:
    """Whether the installed NumPy's variance calls `square`, and not `multiply` (the same bits, another name in warnings)."""
    return "square" in numpy_methods()._var.__code__.co_names


def numpy_methods() -> Any:
    """NumPy's module of reductions written in Python."""
    return importlib.import_module("numpy._core._methods" if NUMPY_2 else "numpy.core._methods")


def named(ufunc: np.ufunc, *operands: Any, **attrs: Any) -> Any:
    """Run one step of a composed op so that its events carry its own name, as those of NumPy's composed functions do."""
    with fpstatus.recording() as seen:
        result = ufunc(*operands, **attrs)
    for kind in seen.kinds:
        fpstatus.note(kind, ufunc.__name__, stacklevel=4)
    return result


def total(x: _Array, axes: tuple[int, ...]) -> Any:
    """Sums by the tree, as `trees.total`."""
    for compiled in COMPILED_SUMS:
        result = compiled(x, axes)
        if result is not None:
            return result
    return trees.total(x, axes)


def canonical(name: str, x: Any) -> _Array:
    """The canonical algorithm of the op `name` on `x`, as an array."""
    return trees.array((FAST.get(name) or registry.row(name).definition)(x))


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run so that no floating-point event reaches NumPy's error state or an open recording."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with fpstatus.recording():
            return function(*args, **kwargs)

    return run


def float_tensor(x: Any) -> _Array:
    """`x` as a real floating-point array (integers become float64). Raises TypeError for other element types."""
    array = trees.tensor(x)
    if array.dtype.kind in "biu":
        return array.astype(trees.F64)
    if trees.accumulator(array.dtype) is None or array.dtype.kind == "c":
        raise TypeError(f"a real tensor is needed, not one of {array.dtype}")
    return array


def open_up(x: Any) -> tuple[_Array, _Array]:
    """(x as a real floating-point array, the same in its accumulation type)."""
    array = float_tensor(x)
    kind = trees.accumulator(array.dtype)
    assert kind is not None
    return array, array if array.dtype is kind else array.astype(kind, copy=False)


def spread(value: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> _Array:
    """A reduction's result with the reduced axes put back as length 1."""
    spread_out: _Array = np.reshape(value, [1 if a in axes else d for a, d in enumerate(shape)])
    return spread_out


def softmax_parts(values: _Array, axes: tuple[int, ...]) -> tuple[_Array, _Array]:
    """(exp(values - max), its tree sums with kept axes); the first is a fresh array. No element: empty sums."""
    if not values.size:
        return values.copy(), np.zeros([1 if a in axes else d for a, d in enumerate(values.shape)], values.dtype)
    exps = canonical("exp", values - values.max(axis=axes, keepdims=True))
    return exps, spread(total(exps, axes), values.shape, axes)
