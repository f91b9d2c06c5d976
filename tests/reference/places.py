"""Gathering, scattering, order and shapes: one element after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

_COMBINE: dict[Any, Any] = {
    **dict.fromkeys((None, "none", "update"), lambda old, new: new),
    **dict.fromkeys(("add", "sum"), lambda old, new: old + new),
    **dict.fromkeys(("mul", "multiply", "prod"), lambda old, new: old * new),
    "sub": lambda old, new: old - new,
    "div": lambda old, new: old / new,
    "max": np.maximum,
    "min": np.minimum,
}


def gather_elements(x: Any, index: Any, axis: int) -> Any:
    result = np.empty(index.shape, x.dtype)
    for place in np.ndindex(index.shape):
        there = list(place)
        there[axis] = index[place]
        result[place] = x[tuple(there)]
    return result


def scatter(x: Any, index: Any, src: Any, axis: int, reduce: Any = None) -> Any:
    result = x.copy()
    for place in np.ndindex(index.shape):
        there = list(place)
        there[axis] = index[place]
        result[tuple(there)] = _COMBINE[reduce](result[tuple(there)], src[place] if np.ndim(src) else src)
    return result


def gather_nd(x: Any, indices: Any) -> Any:
    rows = indices.reshape(-1, indices.shape[-1])
    found = [x[tuple(row)] for row in rows]
    return np.array(found, x.dtype).reshape(indices.shape[:-1] + x.shape[indices.shape[-1] :])


def tensor_scatter(x: Any, indices: Any, updates: Any, mode: str = "update") -> Any:
    result = x.copy()
    for place in np.ndindex(indices.shape[:-1]):
        there = tuple(indices[place])
        result[there] = _COMBINE[mode](result[there], updates[place])
    return result


def index_add(x: Any, index: Any, source: Any, axis: int, alpha: float = 1) -> Any:
    result = np.moveaxis(x.copy(), axis, 0)
    for i, k in enumerate(np.atleast_1d(index)):
        result[k] = result[k] + alpha * np.moveaxis(source, axis, 0)[i]
    return np.moveaxis(result, 0, axis)


def index_fill(x: Any, index: Any, value: Any, axis: int) -> Any:
    result = np.moveaxis(x.copy(), axis, 0)
    for k in np.atleast_1d(index):
        result[k] = value
    return np.moveaxis(result, 0, axis)


def unsorted_segment(x: Any, index: Any, count: int, mode: str = "sum") -> Any:
    result = np.zeros((count, *x.shape[index.ndim :]))
    seen = np.zeros(count, bool)
    for place in np.ndindex(index.shape):
        k = index[place]
        if k >= 0:
            result[k] = _COMBINE[mode](result[k], x[place]) if seen[k] else x[place]
            seen[k] = True
    empty = {"sum": 0, "prod": 1, "max": np.finfo(np.float32).min, "min": np.finfo(np.float32).max}[mode]
    result[~seen] = empty
    return result


def embedding_lookup(x: Any, index: Any, offset: int = 0) -> Any:
    result = np.zeros(index.shape + x.shape[1:])
    for place in np.ndindex(index.shape):
        if 0 <= index[place] - offset < len(x):
            result[place] = x[index[place] - offset]
    return result


def reverse_sequence(x: Any, lengths: Any, axis: int, batch: int = 0) -> Any:
    result = x.copy()
    for place in np.ndindex(x.shape):
        n = lengths[place[batch]]
        if place[axis] < n:
            there = list(place)
            there[axis] = n - 1 - place[axis]
            result[place] = x[tuple(there)]
    return result


# --- order ----------------------------------------------------------------------------------------------


def _ranked(x: Any, axis: int, descending: bool) -> Any:
    """Indices along the last axis; NaN is the largest, equal elements in order."""
    rows = np.moveaxis(x, axis, -1)
    result = np.empty(rows.shape, np.int64)
    for place in np.ndindex(rows.shape[:-1]):
        row = rows[place].tolist()
        key = [(value != value, 0 if value != value else value) for value in row]
        order = sorted(range(len(row)), key=lambda i: key[i])
        if descending:
            order = sorted(range(len(row)), key=lambda i: (-key[i][0], -key[i][1]))
        result[place] = order
    return result


def _along(x: Any, order: Any, axis: int) -> Any:
    return np.take_along_axis(x, np.moveaxis(order, -1, axis), axis), np.moveaxis(order, -1, axis)


def sort_pairs(x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    return _along(x, _ranked(x, axis, descending), axis)


def topk(x: Any, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> Any:  # noqa: A002
    return _along(x, _ranked(x, axis, largest)[..., :k], axis)


def kthvalue(x: Any, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    found = _along(x, _ranked(x, axis, False)[..., k - 1 : k], axis)
    return found if keepdims else tuple(part.squeeze(axis) for part in found)


def lower_median(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    if axis is None:
        return np.nan if np.isnan(x).any() else np.sort(x, axis=None)[(x.size - 1) // 2]
    rows = np.moveaxis(x, axis, -1)
    order = _ranked(x, axis, False)[..., (x.shape[axis] - 1) // 2, None]
    for place in np.ndindex(rows.shape[:-1]):
        if np.isnan(rows[place]).any():
            order[place] = np.isnan(rows[place]).argmax()
    found = _along(x, order, axis)
    return found if keepdims else tuple(part.squeeze(axis) for part in found)


def extreme_pairs(find: Any) -> Any:
    def function(x: Any, axis: int, keepdims: bool = False) -> Any:
        index = find(x, axis=axis)
        values = np.take_along_axis(x, np.expand_dims(index, axis), axis).squeeze(axis)
        return (np.expand_dims(values, axis), np.expand_dims(index, axis)) if keepdims else (values, index)

    return function


def running(better: Any) -> Any:
    def function(x: Any, axis: int) -> Any:
        rows = np.moveaxis(x, axis, -1)
        values, index = np.empty_like(rows), np.empty(rows.shape, np.int64)
        for place in np.ndindex(rows.shape[:-1]):
            best, at = rows[place][0], 0
            for i, value in enumerate(rows[place]):
                if value != value or (best == best and (better(value, best) or value == best)):
                    best, at = value, i
                values[place][i], index[place][i] = best, at
        return np.moveaxis(values, -1, axis), np.moveaxis(index, -1, axis)

    return function


def unique_consecutive(x: Any, return_inverse: bool = False, return_counts: bool = False, axis: Any = None) -> Any:
    found: list[Any] = []
    inverse, counts = [], []
    for value in x.ravel() if axis is None else np.moveaxis(x, axis, 0):
        if not found or not np.array_equal(found[-1], value):
            found.append(value)
            counts.append(0)
        inverse.append(len(found) - 1)
        counts[-1] += 1
    values = np.array(found, x.dtype) if axis is None else np.stack(found, axis)
    shape = x.shape if axis is None else -1
    result = [values, *([np.reshape(inverse, shape)] if return_inverse else []), *([np.array(counts)] if return_counts else [])]
    return result[0] if len(result) == 1 else tuple(result)


def search_rows(x: Any, values: Any, right: bool = False, sorter: Any = None) -> Any:
    x = x if sorter is None else np.take_along_axis(x, sorter, -1)
    if x.ndim == 1:
        return np.searchsorted(x, values, "right" if right else "left")
    return np.stack([search_rows(row, value, right) for row, value in zip(x, values, strict=True)])


# --- shapes ---------------------------------------------------------------------------------------------


def cut(x: Any, axis: int, start: int, length: int) -> Any:
    return np.take(x, range(start, start + length), axis)


def chunk(x: Any, chunks: int, axis: int = 0) -> Any:
    size = -(-x.shape[axis] // chunks)
    return tuple(cut(x, axis, i, min(size, x.shape[axis] - i)) for i in range(0, x.shape[axis], size))


def flatten_axes(x: Any, start: int = 0, end: int = -1) -> Any:
    return x.reshape(x.shape[: start % x.ndim] + (-1,) + x.shape[end % x.ndim + 1 :]) if x.ndim else x.reshape(1)


def crop(x: Any, begin: Any, size: Any) -> Any:
    return x[tuple(slice(b, None if s == -1 else b + s) for b, s in zip(begin, size, strict=True))]


def strided_slice(x: Any, begin: Any, end: Any, strides: Any, **masks: int) -> Any:
    key: list[Any] = []
    for i, part in enumerate(zip(begin, end, strides, strict=True)):
        has = {name: mask >> i & 1 for name, mask in masks.items()}
        if has.get("ellipsis_mask"):
            key.append(...)
        elif has.get("new_axis_mask"):
            key.append(None)
        elif has.get("shrink_axis_mask"):
            key.append(part[0])
        else:
            key.append(slice(None if has.get("begin_mask") else part[0], None if has.get("end_mask") else part[1], part[2]))
    return x[tuple(key)]


def blocks(x: Any, block: int, there: bool) -> Any:
    """Pixels to channels, and back."""
    n, c, h, w = x.shape
    if there:
        return np.concatenate([x[:, :, i::block, j::block] for i in range(block) for j in range(block)], 1)
    few = c // block**2
    result = np.zeros((n, few, h * block, w * block))
    for i in range(block):
        for j in range(block):
            result[:, :, i::block, j::block] = x[:, (i * block + j) * few : (i * block + j + 1) * few]
    return result


def pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    r = upscale_factor
    result = np.zeros((*x.shape[:-3], x.shape[-3] // r**2, x.shape[-2] * r, x.shape[-1] * r))
    for k in range(x.shape[-3]):
        result[..., k // r**2, k % r**2 // r :: r, k % r :: r] = x[..., k, :, :]
    return result


def pixel_unshuffle(x: Any, downscale_factor: int) -> Any:
    r = downscale_factor
    parts = [x[..., c, i::r, j::r] for c in range(x.shape[-3]) for i in range(r) for j in range(r)]
    return np.stack(parts, -3)


def one_hot(x: Any, depth: int, on_value: Any = 1.0, off_value: Any = 0.0, dtype: Any = np.float32) -> Any:
    result = np.full((*x.shape, depth), off_value, dtype)
    for place in np.ndindex(x.shape):
        if 0 <= x[place] < depth:
            result[(*place, x[place])] = on_value
    return result


def setitem(x: Any, key: Any, value: Any) -> None:
    x[key] = value


PLACES: dict[str, Any] = {
    "setitem": setitem,
    "gather": lambda x, index, axis=0: np.take(x, index, axis),
    "index_select": lambda x, index, axis: np.take(x, np.atleast_1d(index), axis),
    "masked_select": lambda x, mask: np.array([v for v, m in zip(*map(np.ravel, np.broadcast_arrays(x, mask)), strict=True) if m], x.dtype),
    "scatter_add": lambda x, index, src, axis: scatter(x, index, src, axis, "add"),
    "scatter_nd": lambda indices, updates, shape: tensor_scatter(np.zeros(shape), indices, updates, "add"),
    "permute": lambda x, dims: np.transpose(x, dims),
    "narrow": lambda x, axis, start, length: cut(x, axis, start % x.shape[axis] if length else start, length),
    "select": lambda x, axis, index: np.take(x, index, axis),
    "unbind": lambda x, axis=0: tuple(np.take(x, i, axis) for i in range(x.shape[axis])),
    "channel_shuffle": lambda x, groups: x[:, np.arange(x.shape[1]).reshape(groups, -1).T.ravel()],
    "cummax": running(lambda a, b: a > b),
    "cummin": running(lambda a, b: a < b),
    "max_pairs": extreme_pairs(np.argmax),
    "min_pairs": extreme_pairs(np.argmin),
    "histc": lambda x, bins=100, min=0, max=0: np.histogram(x, bins, (min, max) if min != max else (x.min(), x.max()))[0],  # noqa: A006
    "bucketize": lambda x, boundaries, right=False: np.searchsorted(boundaries, x, "right" if right else "left"),
    "steps": lambda start=0, end=None, step=1, dtype=None: np.arange(*((0, start) if end is None else (start, end)), step, dtype),
    "embedding": lambda x, weight, padding_idx=None: np.take(weight, x, 0),
    "depth_to_space": lambda x, block: blocks(x, block, False),
    "space_to_depth": lambda x, block: blocks(x, block, True),
    **{
        function.__name__: function
        for function in (
            gather_elements, scatter, gather_nd, tensor_scatter, index_add, index_fill, unsorted_segment, embedding_lookup,
            reverse_sequence, sort_pairs, topk, kthvalue, lower_median, unique_consecutive, search_rows, chunk, flatten_axes, crop,
            strided_slice, pixel_shuffle, pixel_unshuffle, one_hot,
        )
    },
}  # fmt: skip
