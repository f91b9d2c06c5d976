"""Order: largest elements, running extremes, medians, counts and bins.

NaN counts as the largest number everywhere. Equal elements keep their order: the first index wins,
except in running extremes, where it is the latest.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import trees
from ._rows import X, numpy, own, per_input
from .registry import OpInfo, Param, Spelling

_Array = np.ndarray[Any, Any]


def descending_order(array: _Array, axis: int) -> _Array:
    """Indices that sort an axis from the largest to the smallest, equal elements in order; NaN first."""
    backwards = np.flip(array, axis)
    order: _Array = array.shape[axis] - 1 - np.flip(np.argsort(backwards, axis=axis, kind="stable"), axis)
    return order


def _ordered(array: _Array) -> _Array:
    """The elements in a type whose NaN NumPy sorts behind all numbers: bfloat16's does not."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _order(array: _Array, axis: int, descending: bool) -> _Array:
    array = _ordered(array)
    return descending_order(array, axis) if descending else np.argsort(array, axis=axis, kind="stable")


def _sort_pairs(x: Any, *, axis: Any = -1, descending: Any = False, stable: Any = True) -> tuple[Any, Any]:
    """Always stable: `stable=False` allows any order of equal elements, so it allows this one."""
    array = trees.tensor(x)
    if array.ndim == 0:
        return array.copy(), np.zeros((), np.int64)
    order = _order(array, operator.index(axis), bool(descending))
    return np.take_along_axis(array, order, axis), order


def _topk(x: Any, *, k: Any, axis: Any = -1, largest: Any = True, sorted: Any = True) -> tuple[Any, Any]:  # noqa: A002
    """Always sorted: `sorted=False` allows any order, so it allows this one."""
    array, count = trees.tensor(x), operator.index(k)
    if array.ndim == 0:
        if count > 1:
            raise ValueError(f"topk: {count} elements of one")
        return (array.copy(), np.zeros((), np.int64)) if count == 1 else (array[None][:0], np.zeros(0, np.int64))
    size = array.shape[trees.axis_of(axis, array)]
    if not 0 <= count <= size:
        raise ValueError(f"topk: {count} elements of {size}")
    order = _order(array, operator.index(axis), bool(largest))
    index = np.ascontiguousarray(np.take(order, np.arange(count), axis))
    return np.take_along_axis(array, index, axis), index


def _at_rank(array: _Array, rank: int, axis: int, keepdims: Any) -> tuple[Any, Any]:
    order = np.argsort(_ordered(array), axis=axis, kind="stable")
    index = np.take(order, [rank], axis)
    values = np.take_along_axis(array, index, axis)
    return (values, index) if keepdims else (values.squeeze(axis), index.squeeze(axis))


def _kthvalue(x: Any, *, k: Any, axis: Any = -1, keepdims: Any = False) -> tuple[Any, Any]:
    array, rank = trees.tensor(x), operator.index(k)
    if array.ndim == 0:
        array = array[None]
    size = array.shape[trees.axis_of(axis, array)]
    if not 1 <= rank <= size:
        raise ValueError(f"kthvalue: number {rank} of {size}")
    return _at_rank(array, rank - 1, operator.index(axis), keepdims)


def _lower_median(x: Any, *, axis: Any = None, keepdims: Any = False) -> Any:
    """Without an axis one number; with one (values, indices). NaN wins."""
    array = trees.tensor(x)
    if axis is None:
        if not array.size:
            return np.full((), np.nan, array.dtype)[()]
        flat = np.sort(_ordered(array), axis=None, kind="stable").astype(array.dtype)
        return flat[-1] if flat[-1] != flat[-1] else flat[(array.size - 1) // 2]
    if array.ndim == 0:
        return array.copy(), np.zeros((), np.int64)
    place = trees.axis_of(axis, array)
    values, index = _at_rank(array, (array.shape[place] - 1) // 2, place, True)
    if array.dtype.kind not in "biu":
        missing = np.isnan(array)
        spoiled = missing.any(axis=place, keepdims=True)
        index = np.where(spoiled, missing.argmax(axis=place, keepdims=True), index)
        values = np.take_along_axis(array, index, place)
    return (values, index) if keepdims else (values.squeeze(place), index.squeeze(place))


def _extreme_pairs(find: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    def definition(x: Any, *, axis: Any, keepdims: Any = False) -> tuple[Any, Any]:
        array = trees.tensor(x)
        if array.ndim == 0:
            return array.copy(), np.zeros((), np.int64)
        index = np.asarray(find(array, axis=operator.index(axis), keepdims=True))
        values = np.take_along_axis(array, index, axis)
        return (values, index) if keepdims else (values.squeeze(axis), index.squeeze(axis))

    return definition


def _running(ufunc: np.ufunc, beats: np.ufunc) -> Callable[..., tuple[Any, Any]]:
    def definition(x: Any, *, axis: Any) -> tuple[Any, Any]:
        array = trees.tensor(x)
        if array.ndim == 0:
            return array.copy(), np.zeros((), np.int64)
        place = operator.index(axis)
        with np.errstate(all="ignore"):
            values = ufunc.accumulate(array, axis=place)
            # an element is the extreme so far where it equals the running one, or where both are NaN
            leads = beats(array, values) | ((array != array) & (values != values))
        shape = [-1 if a == place % array.ndim else 1 for a in range(array.ndim)]
        own_places = np.arange(array.shape[place], dtype=np.int64).reshape(shape)
        return values, np.maximum.accumulate(np.where(leads, own_places, 0), axis=place)

    return definition


def _unique_consecutive(x: Any, *, return_inverse: Any = False, return_counts: Any = False, axis: Any = None) -> Any:
    array = trees.tensor(x)
    flat = array.ravel() if axis is None else np.moveaxis(array, axis, 0)
    n = len(flat)
    if n == 0:
        starts = np.zeros(0, np.bool_)
    else:
        changes = (flat[1:] != flat[:-1]).reshape(n - 1, -1).any(axis=1) if n > 1 else np.zeros(0, np.bool_)
        starts = np.concatenate([np.ones(1, np.bool_), changes])
    found = [flat[starts] if axis is None else np.moveaxis(flat[starts], 0, axis)]
    if return_inverse:
        inverse = np.cumsum(starts) - 1
        found.append(inverse.reshape(array.shape) if axis is None else inverse)
    if return_counts:
        found.append(np.diff(np.append(np.flatnonzero(starts), n)))
    return found[0] if len(found) == 1 else tuple(found)


def _bincount(x: Any, *, weights: Any = None, minlength: Any = 0) -> Any:
    return np.bincount(x, weights, minlength)


def _histc(x: Any, *, bins: Any = 100, min: Any = 0, max: Any = 0) -> Any:  # noqa: A002
    """Counts in the type of x. Equal limits mean those of the data; elements outside, and NaN, are not counted."""
    array = trees.tensor(x)
    count = operator.index(bins)
    if count < 1:
        raise ValueError(f"histc: bins must be positive, not {count}")
    wide = array.astype(np.float64, copy=False).ravel()
    low, high = float(min), float(max)
    if low == high and wide.size:
        low, high = float(wide.min()), float(wide.max())
    if low == high:
        low, high = low - 1, high + 1
    if not np.isfinite(low) or not np.isfinite(high) or low > high:
        raise ValueError(f"histc: a range from {low} to {high}")
    inside = wide[(wide >= low) & (wide <= high)]
    place = np.minimum(((inside - low) * (count / (high - low))).astype(np.int64), count - 1)
    return np.bincount(place, minlength=count).astype(array.dtype)


def _bucketize(x: Any, boundaries: Any, *, right: Any = False) -> Any:
    """right: whether a number that equals a boundary goes behind it."""
    edges, numbers = _ordered(trees.tensor(boundaries)), _ordered(trees.tensor(x))
    return np.searchsorted(edges, numbers, side="right" if right else "left")


def _search_rows(x: Any, values: Any, *, right: Any = False, sorter: Any = None) -> Any:
    """searchsorted, row by row where the sorted sequence has more than one axis."""
    rows, wanted = _ordered(trees.tensor(x)), _ordered(trees.tensor(values))
    side: Any = "right" if right else "left"
    if sorter is not None:
        rows = np.take_along_axis(rows, trees.tensor(sorter), -1)
    if rows.ndim == 1:
        return np.searchsorted(rows, wanted, side)
    if rows.shape[:-1] != wanted.shape[:-1]:
        raise ValueError(f"searchsorted: rows of shapes {rows.shape} and {wanted.shape}")
    flat, asked = rows.reshape(-1, rows.shape[-1]), wanted.reshape(-1, wanted.shape[-1])
    result = np.empty(asked.shape, np.int64)
    for i in range(len(flat)):
        result[i] = np.searchsorted(flat[i], asked[i], side)
    return result.reshape(wanted.shape)


def _row(
    name: str, definition: Callable[..., Any], doc: str, signature: str, *params: Param, spelling: Spelling | None = None, **rest: Any
) -> OpInfo:
    fields: dict[str, Any] = {"shape_rule": "other", "dtype_rule": "other", "result": "any", "flops": per_input(20.0), **rest}
    return OpInfo(
        name=name,
        family="shape",
        params=(X, *params),
        definition=definition,
        doc=doc,
        spellings=(spelling or own(name, signature),),
        **fields,
    )


_LAST = Param("axis", default=-1)
_KEEP = Param("keepdims", default=False)
_RIGHT = Param("right", default=False)
_PUT = "put_along_axis(zeros_like(x), indices, g, axis)"

ROWS: tuple[OpInfo, ...] = (
    _row(
        "sort_pairs",
        _sort_pairs,
        "(sorted values, their indices) along an axis; equal elements keep their order.",
        "x, axis=-1, descending=False, stable=True",
        _LAST,
        Param("descending", default=False),
        Param("stable", default=True),
        gradient=_PUT,
    ),
    _row(
        "topk",
        _topk,
        "(values, indices) of the k largest or smallest elements along an axis, in order.",
        "x, k, axis=-1, largest=True, sorted=True",
        Param("k"),
        _LAST,
        Param("largest", default=True),
        Param("sorted", default=True),
        gradient=_PUT,
    ),
    _row(
        "kthvalue",
        _kthvalue,
        "(values, indices) of the k-th smallest elements along an axis, counted from 1.",
        "x, k, axis=-1, keepdims=False",
        Param("k"),
        _LAST,
        _KEEP,
        gradient=_PUT,
    ),
    _row(
        "lower_median",
        _lower_median,
        "The middle element, the lower of two; with an axis (values, indices).",
        "x, axis=None, keepdims=False",
        Param("axis", default=None),
        _KEEP,
        gradient=_PUT,
    ),
    *(
        _row(
            name,
            _running(ufunc, beats),
            f"(running {what}, where it was found last) along an axis.",
            "x, axis",
            Param("axis"),
            flops=per_input(2.0),
            gradient="scatter_add(zeros_like(x), indices, g, axis)",
        )
        for name, ufunc, beats, what in (
            ("cummax", np.maximum, np.greater_equal, "maxima"),
            ("cummin", np.minimum, np.less_equal, "minima"),
        )
    ),
    *(
        _row(
            name,
            _extreme_pairs(find),
            f"({what} elements along an axis, where they are found first); NaN wins.",
            "x, axis, keepdims=False",
            Param("axis"),
            _KEEP,
            flops=per_input(1.0),
            gradient=_PUT,
        )
        for name, find, what in (("max_pairs", np.argmax, "largest"), ("min_pairs", np.argmin, "smallest"))
    ),
    _row(
        "unique_consecutive",
        _unique_consecutive,
        "Runs of equal elements, one of each, with places and lengths on request.",
        "x, return_inverse=False, return_counts=False, axis=None",
        Param("return_inverse", default=False),
        Param("return_counts", default=False),
        Param("axis", default=None),
        flops=per_input(2.0),
    ),
    _row(
        "bincount",
        _bincount,
        "How often each small integer comes up, or the sums of their weights.",
        "",
        Param("weights", "tensor", None),
        Param("minlength", default=0),
        spelling=numpy("bincount", "x, /, weights=None, minlength=0"),
        result="tensor",
        flops=per_input(1.0),
    ),
    _row(
        "histc",
        _histc,
        "Counts in equal bins between min and max; equal limits mean those of the data.",
        "x, bins=100, min=0, max=0",
        Param("bins", default=100),
        Param("min", default=0),
        Param("max", default=0),
        result="tensor",
        dtype_rule="same",
        flops=per_input(4.0),
    ),
    _row(
        "bucketize",
        _bucketize,
        "The numbers of the bins between sorted boundaries.",
        "x, boundaries, right=False",
        Param("boundaries", "tensor"),
        _RIGHT,
        dtype_rule="index",
        flops=per_input(10.0),
    ),
    _row(
        "search_rows",
        _search_rows,
        "Where values would be inserted into sorted rows.",
        "x, values, right=False, sorter=None",
        Param("values", "tensor"),
        _RIGHT,
        Param("sorter", "tensor", None),
        dtype_rule="index",
        flops=per_input(10.0),
    ),
)
