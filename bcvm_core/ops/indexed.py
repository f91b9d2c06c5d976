"""Reading and writing by index tensors, and cutting along an axis.

Nothing here writes to its operands: a scatter gives a copy. Indices below 0 count from the end;
those outside raise NumPy's IndexError. Where an index comes twice, `scatter` keeps the last value in
logical order, and sums add up in that order, in the accumulation type, rounded once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import trees
from ._rows import X, moves_only, own, per_input
from .registry import OpInfo, Param

_Array = np.ndarray[Any, Any]


def _axis_of(axis: Any, array: _Array) -> int:
    return trees.axes_of(operator.index(axis), array)[0] if array.ndim else 0


def _in_order(array: _Array) -> _Array:
    """In C order: NumPy stores by an index in the order of the strides, and where a place comes twice the last value stays."""
    return array if array.flags.c_contiguous else array.copy()


def _index(index: Any) -> _Array:
    found = trees.tensor(index)
    if found.dtype.kind not in "iu":
        raise IndexError(f"an index of integers was expected, not of {found.dtype}")
    return _in_order(found)


def _places(array: _Array, index: _Array, axis: int) -> tuple[_Array, ...]:
    """The key that reads or writes `array` at `index` along `axis`: elsewhere each element stays in its place."""
    if index.ndim != array.ndim:
        raise ValueError(f"an index with {array.ndim} axes was expected, not of shape {index.shape}")
    if any(i > n for a, (i, n) in enumerate(zip(index.shape, array.shape, strict=True)) if a != axis):
        raise ValueError(f"an index of shape {index.shape} does not fit into {array.shape}")
    grid = np.ogrid[tuple(slice(n) for n in index.shape)]
    return tuple(index if a == axis else part for a, part in enumerate(grid))


def _part(src: Any, shape: tuple[int, ...]) -> Any:
    """The corner of `src` that an index of this shape takes values from; a number serves for all."""
    values = trees.tensor(src)
    if values.ndim == 0:
        return values
    if values.ndim != len(shape) or any(have < want for have, want in zip(values.shape, shape, strict=True)):
        raise ValueError(f"values of shape {values.shape} do not cover an index of shape {shape}")
    return values[tuple(slice(n) for n in shape)]


def _take_along(array: _Array, index: _Array, axis: int) -> _Array:
    taken: _Array = array[_places(array, index, axis)]
    return taken


def _gather_elements(x: Any, index: Any, *, axis: Any) -> Any:
    """As take_along_axis, but the index may be smaller than x in the other axes, and nothing is broadcast."""
    array, found = trees.tensor(x), _index(index)
    if array.ndim == 0:
        return np.where(found == 0, array, array)
    return _take_along(array, found, _axis_of(axis, array))


def _gather_nd(x: Any, indices: Any) -> Any:
    """The last axis of the indices holds positions along the first axes of x."""
    array, index = trees.tensor(x), _index(indices)
    if index.ndim == 0 or index.shape[-1] > array.ndim:
        raise ValueError(f"gather_nd: indices of shape {index.shape} into a tensor of shape {array.shape}")
    return array[tuple(np.moveaxis(index, -1, 0))]


def _index_select(x: Any, index: Any, *, axis: Any) -> Any:
    array, found = trees.tensor(x), _index(index)
    if found.ndim > 1:
        raise ValueError(f"index_select: an index with one axis was expected, not of shape {found.shape}")
    return np.take(array, np.atleast_1d(found), axis=_axis_of(axis, array))


def _masked_select(x: Any, mask: Any) -> Any:
    array, chosen = np.broadcast_arrays(trees.tensor(x), trees.tensor(mask))
    if chosen.dtype != np.bool_:
        raise TypeError(f"a mask of bool was expected, not of {chosen.dtype}")
    return array[chosen]


_REDUCTIONS: dict[str, np.ufunc] = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter(x: Any, index: Any, src: Any, *, axis: Any, reduce: Any = None) -> Any:
    """reduce: None (the last value wins), "add", "multiply", "max" or "min"."""
    if reduce == "add":
        return _scatter_add(x, index, src, axis=axis)
    array, found = trees.tensor(x), _index(index)
    result = array.copy()
    key = _places(array, found, _axis_of(axis, array))
    values = _part(src, found.shape).astype(array.dtype, copy=False)
    if reduce is not None:
        if reduce not in _REDUCTIONS:
            raise ValueError(f"reduce must be None, {', '.join(_REDUCTIONS)}, not {reduce!r}")
        return _accumulated(_REDUCTIONS[reduce], array, key, values)
    result[key] = _in_order(values)
    return result


def _accumulated(ufunc: np.ufunc, array: _Array, key: Any, values: _Array) -> _Array:
    """`ufunc.at` in the accumulation type, one value after the other in logical order."""
    kind = trees.accumulator(array.dtype) or array.dtype
    result = array.astype(kind)
    with np.errstate(all="ignore"):
        ufunc.at(result, key, values.astype(kind, copy=False))
        return result.astype(array.dtype, copy=False)


def _scatter_add(x: Any, index: Any, src: Any, *, axis: Any) -> Any:
    array, found = trees.tensor(x), _index(index)
    return _accumulated(np.add, array, _places(array, found, _axis_of(axis, array)), _part(src, found.shape))


def _along_slices(x: Any, index: Any, axis: Any) -> tuple[_Array, tuple[Any, ...]]:
    array, found = trees.tensor(x), _index(index)
    if found.ndim > 1:
        raise ValueError(f"an index with one axis was expected, not of shape {found.shape}")
    return array, (slice(None),) * _axis_of(axis, array) + (np.atleast_1d(found),)


def _index_add(x: Any, index: Any, source: Any, *, axis: Any, alpha: Any = 1) -> Any:
    """Slices of `source` times alpha added to the slices of x that the index names."""
    array, key = _along_slices(x, index, axis)
    values = trees.tensor(source)
    kind = trees.accumulator(array.dtype) or array.dtype
    if isinstance(alpha, float) and array.dtype.kind in "biu":
        raise TypeError("an alpha that is no integer needs floating-point tensors")
    scaled = values if alpha == 1 else values.astype(kind, copy=False) * kind.type(alpha)
    return _accumulated(np.add, array, key, scaled)


def _index_fill(x: Any, index: Any, value: Any, *, axis: Any) -> Any:
    array, key = _along_slices(x, index, axis)
    result = array.copy()
    result[key] = value
    return result


def _scatter_nd(indices: Any, updates: Any, *, shape: Any) -> Any:
    values = trees.tensor(updates)
    return _tensor_scatter(np.zeros(shape, values.dtype), indices, values, mode="add")


_MODES: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "max": np.maximum,
    "min": np.minimum,
}


def _tensor_scatter(x: Any, indices: Any, updates: Any, *, mode: Any = "update") -> Any:
    array, index, values = trees.tensor(x), _index(indices), trees.tensor(updates)
    if index.ndim == 0 or index.shape[-1] > array.ndim:
        raise ValueError(f"scatter: indices of shape {index.shape} into a tensor of shape {array.shape}")
    key = tuple(np.moveaxis(index, -1, 0))
    if mode != "update":
        if mode not in _MODES:
            raise ValueError(f"mode must be one of update, {', '.join(_MODES)}, not {mode!r}")
        return _accumulated(_MODES[mode], array, key, values)
    result = array.copy()
    result[key] = _in_order(values)
    return result


def _narrow(x: Any, *, axis: Any, start: Any, length: Any) -> Any:
    array = trees.tensor(x)
    place, first, count = _axis_of(axis, array), operator.index(start), operator.index(length)
    size = array.shape[place]
    first = first + size if first < 0 else first
    if first < 0 or count < 0 or first + count > size:
        raise ValueError(f"narrow: {count} elements from {start} on do not fit into {size}")
    return array[(slice(None),) * place + (slice(first, first + count),)]


def _select(x: Any, *, axis: Any, index: Any) -> Any:
    """One slice, as a view."""
    array = trees.tensor(x)
    return array[(slice(None),) * _axis_of(axis, array) + (operator.index(index), ...)]


def _unbind(x: Any, *, axis: Any = 0) -> tuple[Any, ...]:
    array = trees.tensor(x)
    place = trees.axis_of(axis, array)
    return tuple(np.moveaxis(array, place, 0)[i, ...] for i in range(array.shape[place]))


def _chunk(x: Any, *, chunks: Any, axis: Any = 0) -> tuple[Any, ...]:
    """Parts of equal length, rounded up; the last may be shorter, and there may be fewer."""
    array, count = trees.tensor(x), operator.index(chunks)
    if count < 1:
        raise ValueError(f"chunks must be positive, not {count}")
    size = array.shape[trees.axis_of(axis, array)]
    step = max(-(-size // count), 1)
    return tuple(np.split(array, list(range(step, size, step)), axis=axis))


def _flatten_axes(x: Any, *, start: Any = 0, end: Any = -1) -> Any:
    array = trees.tensor(x)
    if array.ndim == 0:
        return array.reshape(1)
    first, last = _axis_of(start, array), _axis_of(end, array)
    if first > last:
        raise ValueError(f"flatten_axes: axis {start} does not come before {end}")
    return array.reshape(*array.shape[:first], math.prod(array.shape[first : last + 1]), *array.shape[last + 1 :])


def _row(name: str, definition: Callable[..., Any], doc: str, signature: str, *params: Param, **rest: Any) -> OpInfo:
    fields: dict[str, Any] = {"shape_rule": "other", "dtype_rule": "same", "flops": moves_only, "fp_name": name, **rest}
    return OpInfo(name=name, family="shape", params=params, definition=definition, doc=doc, spellings=(own(name, signature),), **fields)


def _view(name: str, definition: Callable[..., Any], doc: str, signature: str, *params: Param, **rest: Any) -> OpInfo:
    return _row(name, definition, doc, signature, *params, shape_rule="view", fuse="view", **rest)


_INDEX = Param("index", "tensor")
_INDICES = Param("indices", "tensor")
_SRC = Param("src", "tensor")
_AXIS = Param("axis")
_UPDATES = Param("updates", "tensor")
_SUMS: dict[str, Any] = {"exact": False, "flops": per_input(1.0)}

ROWS: tuple[OpInfo, ...] = (
    _row(
        "gather_elements",
        _gather_elements,
        "Entries along an axis by an index of the same rank, which may be smaller elsewhere.",
        "x, index, axis",
        X,
        _INDEX,
        _AXIS,
        gradient="scatter_add(zeros_like(x), index, g, axis)",
    ),
    _row(
        "gather_nd",
        _gather_nd,
        "Slices at positions along the first axes, which the last axis of the indices holds.",
        "x, indices",
        X,
        _INDICES,
        gradient="scatter_nd(indices, g, x.shape)",
    ),
    _row(
        "index_select",
        _index_select,
        "Slices along an axis by an index with one axis.",
        "x, index, axis",
        X,
        _INDEX,
        _AXIS,
        gradient="index_add(zeros_like(x), index, g, axis)",
    ),
    _row(
        "masked_select",
        _masked_select,
        "The elements where a mask is True, in order, as a vector.",
        "x, mask",
        X,
        Param("mask", "tensor"),
        gradient="zeros_like(x) with g where mask",
    ),
    _row(
        "scatter",
        _scatter,
        "A copy of x with values of src at positions along an axis.",
        "x, index, src, axis, reduce=None",
        X,
        _INDEX,
        _SRC,
        _AXIS,
        Param("reduce", default=None),
        gradient="g with zeros at index; ; gather_elements(g, index, axis)",
    ),
    _row(
        "scatter_add",
        _scatter_add,
        "A copy of x with values of src added at positions along an axis.",
        "x, index, src, axis",
        X,
        _INDEX,
        _SRC,
        _AXIS,
        gradient="g; ; gather_elements(g, index, axis)",
        **_SUMS,
    ),
    _row(
        "index_add",
        _index_add,
        "A copy of x with slices of `source`, times alpha, added to the slices that the index names.",
        "x, index, source, axis, alpha=1",
        X,
        _INDEX,
        Param("source", "tensor"),
        _AXIS,
        Param("alpha", default=1),
        gradient="g; ; index_select(g, index, axis) * alpha",
        **_SUMS,
    ),
    _row(
        "index_fill",
        _index_fill,
        "A copy of x with one value in the slices that the index names.",
        "x, index, value, axis",
        X,
        _INDEX,
        Param("value", "tensor"),
        _AXIS,
        gradient="g with zeros at index",
    ),
    _row(
        "scatter_nd",
        _scatter_nd,
        "Zeros of a shape with updates added at positions along the first axes.",
        "indices, updates, shape",
        _INDICES,
        _UPDATES,
        Param("shape"),
        gradient="; gather_nd(g, indices)",
        **_SUMS,
    ),
    _row(
        "tensor_scatter",
        _tensor_scatter,
        'A copy of x with updates at positions along the first axes; mode "update", "add", "sub", "mul", "div", "max" or "min".',
        "x, indices, updates, mode='update'",
        X,
        _INDICES,
        _UPDATES,
        Param("mode", default="update"),
        gradient="g; ; gather_nd(g, indices)",
        **_SUMS,
    ),
    _view(
        "narrow",
        _narrow,
        "A part of an axis, as a view.",
        "x, axis, start, length",
        X,
        _AXIS,
        Param("start"),
        Param("length"),
        gradient="zeros_like(x) with g in the part",
    ),
    _view(
        "select", _select, "One slice of an axis, as a view.", "x, axis, index", X, _AXIS, Param("index"), gradient="zeros_like(x) with g"
    ),
    _view(
        "unbind",
        _unbind,
        "All slices of an axis, as views.",
        "x, axis=0",
        X,
        Param("axis", default=0),
        result="any",
        gradient="stack(g, axis)",
    ),
    _view(
        "chunk",
        _chunk,
        "An axis cut into a number of parts, as views; the last may be shorter.",
        "x, chunks, axis=0",
        X,
        Param("chunks"),
        Param("axis", default=0),
        result="any",
        gradient="concatenate(g, axis)",
    ),
    _view(
        "flatten_axes",
        _flatten_axes,
        "Neighbouring axes made into one; a view where strides allow it.",
        "x, start=0, end=-1",
        X,
        Param("start", default=0),
        Param("end", default=-1),
        gradient="reshape(g, x.shape)",
    ),
)
