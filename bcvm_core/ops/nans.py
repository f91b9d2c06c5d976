"""Reductions that pass over NaN, and the median.

Totals follow the tree (`reduce.py`) over the elements that are numbers. Where NumPy's Python code
warns (a slice without a number) they raise Decline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Decline
from . import trees
from ._rows import AXIS, DTYPE, KEEPDIMS, NUMPY_2, UNSET, numpy, reduction
from .chosen import given
from .registry import OpInfo, Param

INITIAL = Param("initial", default=UNSET)
WHERE = Param("where", "tensor", UNSET)
_TAIL = "keepdims=False, initial=0, where=True"


def _numbers(array: Any, where: Any) -> Any:
    """The mask of the elements that are numbers, within `where`."""
    mask = ~np.isnan(array)
    return mask if where is UNSET else mask & where


def over_numbers(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` (mean, var, std by the tree) over the elements that are no NaN, as NumPy's function `name`."""
    own_way = getattr(np, name)

    def definition(x: Any, *, where: Any = UNSET, **attrs: Any) -> Any:
        array = trees.tensor(x)
        if trees.accumulator(array.dtype) is None or array.dtype.kind == "c" or array.ndim == 0 or attrs.get("dtype") is not None:
            raise Decline(f"{name} of these elements is NumPy's")
        if trees.axes_of(attrs.get("axis"), array) == ():
            return own_way(x, **attrs, **given(where=where))
        return function(x, where=_numbers(array, where), **attrs)

    definition.__name__ = definition.__qualname__ = name
    return definition


def nan_product(function: Callable[..., Any]) -> Callable[..., Any]:
    """prod by the tree with NaN counted as 1."""

    def nanprod(x: Any, **attrs: Any) -> Any:
        array = trees.tensor(x)
        if trees.accumulator(array.dtype) is None or array.ndim == 0:
            return np.nanprod(x, **attrs)
        return function(np.where(np.isnan(array), array.dtype.type(1), array), **attrs)

    return nanprod


def _extreme(name: str) -> Callable[..., Any]:
    own_way = getattr(np, name)

    def definition(x: Any, **attrs: Any) -> Any:
        array = trees.tensor(x)
        if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and np.isnan(array).any() and _all_nan(array, attrs.get("axis"))):
            raise Decline("NumPy warns about a slice without a number")
        return own_way(x, **attrs)

    definition.__name__ = definition.__qualname__ = name
    return definition


def _all_nan(array: Any, axis: Any) -> bool:
    return bool(np.any(np.all(np.isnan(array), axis=axis)))


def _median(x: Any, *, axis: Any = None, keepdims: Any = False) -> Any:
    array = trees.tensor(x)
    if array.size == 0 or array.dtype.kind not in "biuf":
        raise Decline("NumPy warns about the median of nothing")
    return np.median(x, axis=axis, keepdims=keepdims)


def rows(mean: Callable[..., Any], var: Callable[..., Any], std: Callable[..., Any], prod: Callable[..., Any]) -> tuple[OpInfo, ...]:
    """The rows, over the tree's own functions."""
    spread = f"axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True{_MEAN}"
    every = (AXIS, DTYPE, KEEPDIMS, WHERE)
    spread_of = (AXIS, DTYPE, Param("ddof", default=0), KEEPDIMS, WHERE)
    return (
        _row("nanmean", over_numbers("nanmean", mean), "Mean without the NaN.", every, _NANMEAN, dtype_rule="float"),
        _row("nanvar", over_numbers("nanvar", var), "Variance without the NaN.", spread_of, spread, dtype_rule="float"),
        _row("nanstd", over_numbers("nanstd", std), "Standard deviation without the NaN.", spread_of, spread, dtype_rule="float"),
        _row(
            "nanprod", nan_product(prod), "Product over axes with NaN counted as 1.", (AXIS, DTYPE, KEEPDIMS, INITIAL, WHERE),
            f"axis=None, dtype=None, out=None, {_TAIL}", dtype_rule="other",
        ),
        *(
            _row(
                f"nan{word}", _extreme(f"nan{word}"), f"{kind} element that is no NaN.", (AXIS, KEEPDIMS, INITIAL, WHERE),
                f"axis=None, out=None, {_TAIL}", dtype_rule="same", exact=True,
            )
            for word, kind in (("max", "Largest"), ("min", "Smallest"))
        ),
        _row(
            "median", _median, "Median over axes: the mean of the middle two of an even number.",
            (AXIS, KEEPDIMS), "axis=None, out=None, overwrite_input=False, keepdims=False",
            dtype_rule="float", exact=True,
        ),
    )  # fmt: skip


_NANMEAN = "axis=None, dtype=None, out=None, keepdims=False, *, where=True"
_MEAN = ", mean=0, correction=0" if NUMPY_2 else ""
_CORRECTION = {"correction": "ddof"} if NUMPY_2 else {}


def _row(name: str, definition: Callable[..., Any], doc: str, params: tuple[Param, ...], tail: str, **rest: Any) -> OpInfo:
    fields = {"exact": False, "fuse": "none", "cost": 3.0, **rest}
    return reduction(
        name, definition, doc, params, (numpy(name, f"a, {tail}", a="x", **(_CORRECTION if "ddof" in tail else {})),), **fields
    )
