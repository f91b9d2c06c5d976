"""Shapes and places: what moves elements and computes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core import ops
from tests.onnx_nodes.element_types import numpy_type
from tests.onnx_nodes.table import op, simple

ZERO = np.zeros(1, np.float32)

simple(
    {
        "Concat": lambda *arrays, axis: np.concatenate(arrays, axis=axis),
        "ConstantOfShape": lambda shape, value=ZERO: np.full(shape.tolist(), value[0], value.dtype),
        "Constant": lambda **values: np.array(next(iter(values.values()))),
        "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist()))),
        "Flatten": lambda x, axis=1: x.reshape(int(np.prod(x.shape[:axis])), -1),
        "Gather": lambda x, indices, axis=0: np.take(x, indices, axis=axis),
        "GatherElements": lambda x, indices, axis=0: np.take_along_axis(x, indices, axis=axis),
        "NonZero": lambda x: np.stack(np.nonzero(x)),
        "Range": lambda start, limit, delta: np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype),
        "Size": lambda x: np.asarray(x.size),
        "Tile": lambda x, repeats: np.tile(x, repeats.tolist()),
        "Transpose": lambda x, perm=None: np.transpose(x, perm),
        "Trilu": lambda x, k=0, upper=1: np.triu(x, int(k)) if upper else np.tril(x, int(k)),
    }
)


@op("Reshape")
def reshape(x: Any, shape: Any, allowzero: int = 0) -> Any:
    new = shape.tolist()
    if not allowzero:
        new = [x.shape[i] if n == 0 else n for i, n in enumerate(new)]
    return x.reshape(new)


@op("Shape")
def shape_of(x: Any, start: int = 0, end: int | None = None) -> Any:
    return np.array(x.shape[start:end], dtype=np.int64)


@op("Squeeze")
def squeeze(x: Any, axes: Any = None) -> Any:
    return np.squeeze(x) if axes is None else np.squeeze(x, axis=tuple(int(a) for a in axes))


@op("Unsqueeze")
def unsqueeze(x: Any, axes: Any) -> Any:
    return np.expand_dims(x, tuple(np.reshape(axes, -1).tolist()))


@op("Slice")
def slices(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    begin, end, strides, open_ends = [0] * x.ndim, list(x.shape), [1] * x.ndim, 0
    for i, axis in enumerate(range(len(starts)) if axes is None else axes.tolist()):
        begin[axis], end[axis] = int(starts[i]), int(ends[i])
        strides[axis] = 1 if steps is None else int(steps[i])
        if strides[axis] < 0 and end[axis] < -x.shape[axis]:
            open_ends |= 1 << axis % x.ndim  # before the first element
    return ops.strided_slice(x, begin, end, strides, end_mask=open_ends)


@op("Split")
def split(x: Any, sizes: Any = None, axis: int = 0, num_outputs: int | None = None, split: Any = None, outputs: int = 1) -> Any:
    sizes = split if sizes is None else sizes
    if sizes is not None:
        return tuple(np.split(x, np.cumsum(np.asarray(sizes))[:-1], axis=axis))
    return tuple(ops.chunk(x, outputs, axis=axis))


@op("Pad")
def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, mode: str = "constant") -> Any:
    width = [(0, 0)] * x.ndim
    half = len(pads) // 2
    for i, axis in enumerate(range(x.ndim) if axes is None else axes.tolist()):
        width[axis] = (int(pads[i]), int(pads[i + half]))
    if mode == "constant":
        return np.pad(x, width, constant_values=0 if value is None else value.item())
    return np.pad(x, width, mode=mode)


@op("OneHot")
def one_hot(indices: Any, depth: Any, values: Any, axis: int = -1) -> Any:
    depth = int(depth)
    places = np.where(indices < 0, indices + depth, indices).astype(np.int64)
    rows = ops.one_hot(places, depth, on_value=values[1], off_value=values[0], dtype=values.dtype)
    return np.moveaxis(rows, -1, axis)


@op("EyeLike")
def eye_like(x: Any, k: int = 0, dtype: int | None = None) -> Any:
    return np.eye(x.shape[0], x.shape[1], k=k, dtype=x.dtype if dtype is None else numpy_type(dtype))


@op("Compress")
def compress(x: Any, condition: Any, axis: int | None = None) -> Any:
    chosen = np.flatnonzero(condition)
    return np.take(x, chosen) if axis is None else np.take(x, chosen, axis=axis)


@op("TopK")
def topk(x: Any, k: Any, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    return ops.topk(x, int(k[0]), axis=axis, largest=bool(largest), sorted=bool(sorted))
