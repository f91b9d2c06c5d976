"""Sampling of images and volumes at any positions, and the positions that an affine map gives.

Positions and weights are computed in float64 and rounded to the accumulation type once; neighbours
are added from the lowest up, the last axis fastest.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import trees
from ._rows import X, elements, own
from .numerics import open_up, quiet
from .registry import OpInfo, Param

_Array = np.ndarray[Any, Any]
_CUBIC = -0.75
_MODES = ("nearest", "bilinear", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def cubic_weights(t: _Array) -> list[_Array]:
    """Of the four neighbours, for a distance t from the second."""

    def near(d: _Array) -> _Array:
        return ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1

    def far(d: _Array) -> _Array:
        return ((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _reflected(position: _Array, low: float, high: float) -> _Array:
    """Positions mirrored at both ends as often as it takes."""
    span = high - low
    if span <= 0:
        return np.zeros_like(position)
    away = np.absolute(position - low)
    turns = np.floor(away / span)
    rest = away - turns * span
    return np.where(turns % 2 == 0, rest + low, high - rest)


def _position(grid: _Array, size: int, align_corners: bool) -> _Array:
    """A coordinate from -1 to 1 as a position among `size` elements."""
    return (grid + 1) * ((size - 1) / 2) if align_corners else ((grid + 1) * size - 1) / 2


def _padded(position: _Array, size: int, padding_mode: str, align_corners: bool) -> _Array:
    """Positions brought inside, unless what lies outside is zero; what is no number lies far outside."""
    if padding_mode == "reflection":
        ends = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        position = np.clip(_reflected(position, *ends), 0, size - 1)
    elif padding_mode == "border":
        position = np.clip(position, 0, size - 1)
    return np.where(np.isfinite(position), position, -1e6)


def _at(values: _Array, places: list[_Array]) -> _Array:
    """Elements of all channels at integer places, one array for each spatial axis, zeros outside: (n, c, ...)."""
    sizes = values.shape[2:]
    inside = np.logical_and.reduce([(p >= 0) & (p < n) for p, n in zip(places, sizes, strict=True)])
    batch = np.arange(values.shape[0]).reshape(-1, *[1] * len(sizes))
    key: Any = (batch, slice(None), *(np.clip(p, 0, n - 1) for p, n in zip(places, sizes, strict=True)))
    found = values[key]  # n, ..., c
    return np.moveaxis(np.where(inside[..., None], found, values.dtype.type(0)), -1, 1)


@quiet
def _grid_sample(x: Any, grid: Any, *, mode: Any = "bilinear", padding_mode: Any = "zeros", align_corners: Any = False) -> Any:
    """The last axis of the grid holds (column, row) or (column, row, slice) from -1 to 1."""
    array, values = open_up(x)
    places, rank = trees.tensor(grid), array.ndim - 2
    if rank not in (2, 3) or places.ndim != array.ndim or places.shape[-1] != rank or places.shape[0] != array.shape[0]:
        wanted = "images (n, c, h, w) and a grid (n, h, w, 2), or volumes and a grid (n, d, h, w, 3)"
        raise ValueError(f"grid_sample: {wanted} were expected, not {array.shape} and {places.shape}")
    if mode not in _MODES[: 5 - rank] or padding_mode not in _PADDING:
        raise ValueError(f"grid_sample: mode {mode!r}, padding_mode {padding_mode!r} for {rank} axes")
    wide, sizes, align = places.astype(np.float64), array.shape[2:], bool(align_corners)
    positions = [_position(wide[..., rank - 1 - i], n, align) for i, n in enumerate(sizes)]
    if mode != "bicubic":
        positions = [_padded(p, n, padding_mode, align) for p, n in zip(positions, sizes, strict=True)]
        if mode == "nearest":
            return _at(values, [np.rint(p).astype(np.int64) for p in positions]).astype(array.dtype, copy=False)
        neighbours = [_two(p) for p in positions]
    else:
        neighbours = [_four(p, n, padding_mode, align) for p, n in zip(positions, sizes, strict=True)]
    result: Any = 0
    for chosen in itertools.product(*neighbours):
        weight = math.prod(w for _, w in chosen).astype(values.dtype)[:, None]
        result = result + _at(values, [p for p, _ in chosen]) * weight
    return np.ascontiguousarray(result).astype(array.dtype, copy=False)


Neighbours = list[tuple[_Array, Any]]  # places along an axis with their weights


def _two(position: _Array) -> Neighbours:
    low = np.floor(position).astype(np.int64)
    part = position - low
    return [(low, 1 - part), (low + 1, part)]


def _four(position: _Array, size: int, padding_mode: str, align_corners: bool) -> Neighbours:
    """Each neighbour is brought inside by itself: the curve goes through what the padding shows."""
    position = np.where(np.isfinite(position), position, -1e6)
    low = np.floor(position)
    around = (_padded(low + i, size, padding_mode, align_corners).astype(np.int64) for i in (-1, 0, 1, 2))
    return list(zip(around, cubic_weights(position - low), strict=True))


@quiet
def _affine_grid(theta: Any, *, size: Any, align_corners: Any = False) -> Any:
    """Where the pixels of an output of `size` (n, c, ...) lie in the input, by matrices (n, 2, 3) or (n, 3, 4)."""
    array, values = open_up(theta)
    wanted = tuple(operator.index(n) for n in size)
    rank = len(wanted) - 2
    if rank not in (2, 3) or array.shape != (wanted[0], rank, rank + 1) or min(wanted) < 1:
        raise ValueError(f"affine_grid: matrices of shape {array.shape} for an output of {wanted}")
    result: Any = values[:, :, rank].reshape(wanted[0], *[1] * rank, rank)
    for i in range(rank):  # the columns of the matrices belong to x, y, z: the last axis first
        along = _coordinates(wanted[-1 - i], bool(align_corners)).astype(values.dtype)
        place = along.reshape([-1 if a == rank - i else 1 for a in range(rank + 2)])
        result = result + values[:, :, i].reshape(wanted[0], *[1] * rank, rank) * place
    return np.ascontiguousarray(np.broadcast_to(result, (wanted[0], *wanted[2:], rank))).astype(array.dtype, copy=False)


def _coordinates(count: int, align_corners: bool) -> _Array:
    """The centres of `count` elements between -1 and 1, or with align_corners from -1 to 1."""
    if align_corners:
        return np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1)
    return (2 * np.arange(count) + 1) / count - 1


def _sample_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    return 32.0 * elements(shapes[0])


def _grid_flops(*_shapes: tuple[int, ...], size: Any = (), **_attrs: Any) -> float:
    return 6.0 * elements(size)


def _row(name: str, definition: Callable[..., Any], doc: str, signature: str, *params: Param, **rest: Any) -> OpInfo:
    return OpInfo(
        name=name,
        family="nn",
        params=params,
        definition=definition,
        doc=doc,
        spellings=(own(name, signature),),
        shape_rule="other",
        dtype_rule="same",
        exact=False,
        fp_name=name,
        **rest,
    )


ROWS: tuple[OpInfo, ...] = (
    _row(
        "grid_sample",
        _grid_sample,
        "Images sampled at positions (column, row) from -1 to 1; volumes at (column, row, slice), not bicubic.",
        "x, grid, mode='bilinear', padding_mode='zeros', align_corners=False",
        X,
        Param("grid", "tensor"),
        Param("mode", default="bilinear"),
        Param("padding_mode", default="zeros"),
        Param("align_corners", default=False),
        flops=_sample_flops,
        gradient="grid_sample_grad(g, x, grid)",
    ),
    _row(
        "affine_grid",
        _affine_grid,
        "Positions for grid_sample by affine matrices (n, 2, 3) or (n, 3, 4), for an output of a size (n, c, ...).",
        "theta, size, align_corners=False",
        Param("theta", "tensor"),
        Param("size"),
        Param("align_corners", default=False),
        flops=_grid_flops,
        gradient="the sums of g times the positions",
    ),
)
