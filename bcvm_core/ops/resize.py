"""Tensors in another size: interpolation along the last axes, and sampling at any positions.

Positions and weights are computed in float64 and rounded to the accumulation type once. Linear
and cubic interpolation go axis by axis, first axis first, neighbours added from the lowest up.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import trees
from ._rows import X, elements, own
from .numerics import open_up, quiet
from .pooling_more import adaptive_avg_pool
from .registry import OpInfo, Param

_Array = np.ndarray[Any, Any]
_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
_CUBIC = -0.75


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


def _cubic_weights(t: _Array) -> list[_Array]:
    """Of the four neighbours, for a distance t from the second."""

    def near(d: _Array) -> _Array:
        return ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1

    def far(d: _Array) -> _Array:
        return ((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic(values: _Array, axis: int, position: _Array) -> _Array:
    low = np.floor(position).astype(np.int64)
    return _weighted(values, axis, [low + i for i in (-1, 0, 1, 2)], _cubic_weights(position - low))


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


# --- sampling --------------------------------------------------------------------------------------


def _reflected(position: _Array, low: float, high: float) -> _Array:
    """Positions mirrored at both ends as often as it takes."""
    span = high - low
    if span <= 0:
        return np.zeros_like(position)
    away = np.absolute(position - low)
    turns = np.floor(away / span)
    rest = away - turns * span
    return np.where(turns % 2 == 0, rest + low, high - rest)


def _source(grid: _Array, size: int, padding_mode: str, align_corners: bool) -> _Array:
    """A coordinate from -1 to 1 as a position among `size` elements."""
    position = (grid + 1) * ((size - 1) / 2) if align_corners else ((grid + 1) * size - 1) / 2
    if padding_mode == "reflection":
        ends = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        position = np.clip(_reflected(position, *ends), 0, size - 1)
    elif padding_mode == "border":
        position = np.clip(position, 0, size - 1)
    return np.where(np.isfinite(position), position, -1e6)


def _at(values: _Array, row: _Array, column: _Array) -> _Array:
    """Pixels of all channels, zeros outside: (n, c, rows, columns)."""
    height, width = values.shape[2:]
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    batch = np.arange(values.shape[0]).reshape(-1, 1, 1)
    found = values[batch, :, np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]  # n, rows, columns, c
    return np.moveaxis(np.where(inside[..., None], found, values.dtype.type(0)), 3, 1)


@quiet
def _grid_sample(x: Any, grid: Any, *, mode: Any = "bilinear", padding_mode: Any = "zeros", align_corners: Any = False) -> Any:
    """The last axis of the grid holds (column, row) from -1 to 1."""
    array, values = open_up(x)
    places = trees.tensor(grid)
    if array.ndim != 4 or places.ndim != 4 or places.shape[3] != 2 or places.shape[0] != array.shape[0]:
        raise ValueError(f"grid_sample: images (n, c, h, w) and a grid (n, h, w, 2) were expected, not {array.shape} and {places.shape}")
    if mode not in ("nearest", "bilinear", "bicubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample: mode {mode!r}, padding_mode {padding_mode!r}")
    wide = places.astype(np.float64)
    column, row = (_source(wide[..., i], array.shape[3 - i], padding_mode, bool(align_corners)) for i in (0, 1))
    if mode == "nearest":
        return _at(values, np.rint(row).astype(np.int64), np.rint(column).astype(np.int64)).astype(array.dtype, copy=False)
    top, left = np.floor(row).astype(np.int64), np.floor(column).astype(np.int64)
    down, right = row - top, column - left
    if mode == "bilinear":
        steps, across, along = (0, 1), [1 - right, right], [1 - down, down]
    else:
        steps, across, along = (-1, 0, 1, 2), _cubic_weights(right), _cubic_weights(down)  # type: ignore[assignment]
    result: Any = 0
    for i, vertical in zip(steps, along, strict=True):
        for j, horizontal in zip(steps, across, strict=True):
            weight = (vertical * horizontal).astype(values.dtype)[:, None]
            result = result + _at(values, top + i, left + j) * weight
    return np.ascontiguousarray(result).astype(array.dtype, copy=False)


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


ROWS: tuple[OpInfo, ...] = (
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
    _row(
        "grid_sample",
        _grid_sample,
        "Images sampled at positions (column, row) from -1 to 1.",
        "x, grid, mode='bilinear', padding_mode='zeros', align_corners=False",
        (
            Param("grid", "tensor"),
            Param("mode", default="bilinear"),
            Param("padding_mode", default="zeros"),
            Param("align_corners", default=False),
        ),
        "grid_sample_grad(g, x, grid)",
    ),
)
