"""Tensors in another size: interpolation along the last axes.

Positions and weights are computed in float64 and rounded to the accumulation type once. Linear
and cubic interpolation go axis by axis, first axis first, neighbours added from the lowest up.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._rows import X, elements, own
from .numerics import open_up, quiet
from .pooling_more import adaptive_avg_pool
from .registry import OpInfo, Param
from .sampling import ROWS as _SAMPLING
from .sampling import cubic_weights

_Array = np.ndarray[Any, Any]
_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


def _sizes(array: _Array, size: Any, scale_factor: Any) -> tuple[list[int], list[float | None]]:
    """New lengths of the axes from 2 on, and the factors that were given for them."""
    old = array.shape[2:]
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate needs either size or scale_factor")
    if size is not None:
        wanted = (size,) * len(old) if hasattr(size, "__index__") else tuple(size)
        new, factors = [operator.index(n) for n in wanted], [None] * len(wanted)
    else:
        given = (scale_factor,) * len(old) if isinstance(scale_factor, int | float) else tuple(scale_factor)
        factors = [float(f) for f in given]  # type: ignore[misc]
        new = [math.floor(n * f) for n, f in zip(old, factors, strict=False)]  # type: ignore[operator]
    if len(new) != len(old) or min(*new, *old) < 1:
        raise ValueError(f"interpolate: cannot turn {old} into {size if size is not None else scale_factor!r}")
    return new, list(factors)


def _positions(old: int, new: int, factor: float | None, align_corners: bool, clamp: bool) -> _Array:
    """Where the new elements lie among the old ones."""
    if align_corners:
        return np.arange(new) * ((old - 1) / (new - 1) if new > 1 else 0.0)
    found = (np.arange(new) + 0.5) * (old / new if factor is None else 1.0 / factor) - 0.5
    return np.maximum(found, 0.0) if clamp else found


def _nearest(array: _Array, new: list[int], factors: list[float | None], exact: bool) -> Any:
    for axis, (n, factor) in enumerate(zip(new, factors, strict=True), 2):
        old = array.shape[axis]
        if exact:
            index = np.floor((np.arange(n) + 0.5) * (old / n if factor is None else 1.0 / factor)).astype(np.int64)
        elif factor is None:
            index = np.arange(n) * old // n
        else:
            index = np.floor(np.arange(n) * (1.0 / factor)).astype(np.int64)
        array = np.take(array, np.minimum(index, old - 1), axis)
    return array


def _weighted(values: _Array, axis: int, places: list[_Array], weights: list[_Array]) -> _Array:
    shape = [-1 if a == axis else 1 for a in range(values.ndim)]
    last = values.shape[axis] - 1
    parts = zip(places, weights, strict=True)
    terms = [np.take(values, np.clip(p, 0, last), axis) * w.astype(values.dtype).reshape(shape) for p, w in parts]
    result: _Array = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def _linear(values: _Array, axis: int, position: _Array) -> _Array:
    low = np.minimum(position.astype(np.int64), values.shape[axis] - 1)
    part = (position - low).astype(values.dtype)
    return _weighted(values, axis, [low, low + 1], [values.dtype.type(1) - part, part])


def _cubic(values: _Array, axis: int, position: _Array) -> _Array:
    low = np.floor(position).astype(np.int64)
    return _weighted(values, axis, [low + i for i in (-1, 0, 1, 2)], cubic_weights(position - low))


@quiet
def _interpolate(x: Any, size: Any = None, *, mode: Any = "nearest", align_corners: Any = False, scale_factor: Any = None) -> Any:
    """modes: nearest, nearest-exact, linear, bilinear, trilinear, bicubic, area."""
    array, values = open_up(x)
    if array.ndim not in (3, 4, 5):
        raise ValueError(f"interpolate needs (n, c, ...) with 1 to 3 more axes, not {array.shape}")
    new, factors = _sizes(array, size, scale_factor)
    if mode in ("nearest", "nearest-exact"):
        return _nearest(array, new, factors, mode == "nearest-exact")
    if mode == "area":
        return adaptive_avg_pool(array, array.ndim - 2, tuple(new))
    if _RANKS.get(mode) != array.ndim - 2:
        raise ValueError(f"interpolate: mode {mode!r} for a tensor of shape {array.shape}")
    resize = _cubic if mode == "bicubic" else _linear
    for axis, (n, factor) in enumerate(zip(new, factors, strict=True), 2):
        position = _positions(values.shape[axis], n, factor, bool(align_corners), mode != "bicubic")
        values = resize(values, axis, position)
    return values.astype(array.dtype, copy=False)


def _flops(*shapes: tuple[int, ...], size: Any = None, scale_factor: Any = None, **_attrs: Any) -> float:
    return 8.0 * elements(shapes[0]) * (4.0 if size is None and scale_factor is None else 1.0)


def _row(name: str, definition: Callable[..., Any], doc: str, signature: str, params: Sequence[Param], gradient: str) -> OpInfo:
    return OpInfo(
        name=name,
        family="nn",
        params=(X, *params),
        definition=definition,
        doc=doc,
        spellings=(own(name, signature),),
        shape_rule="other",
        dtype_rule="same",
        flops=_flops,
        gradient=gradient,
        exact=False,
        fp_name=name,
    )


_INTERPOLATION: tuple[OpInfo, ...] = (
    _row(
        "interpolate",
        _interpolate,
        "Tensors (n, c, ...) in another size: nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area.",
        "x, size=None, mode='nearest', align_corners=False, scale_factor=None",
        (
            Param("size", default=None),
            Param("mode", default="nearest"),
            Param("align_corners", default=False),
            Param("scale_factor", default=None),
        ),
        "interpolate_grad(g, x.shape)",
    ),
)

ROWS: tuple[OpInfo, ...] = _INTERPOLATION + _SAMPLING
