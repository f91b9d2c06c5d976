"""Reductions, running sums and products, softmax and its kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core import ops
from tests.onnx_nodes.geometry import limits
from tests.onnx_nodes.table import op, part


@part
def axes_of(x: Any, axes: Any, noop: int) -> Any:
    """Axes as NumPy takes them; () reduces over none."""
    if axes is None or len(axes) == 0:
        return () if noop else None
    return tuple(int(a) for a in axes)


@op("ReduceSum")
def reduce_sum(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return np.sum(x, axis=axes_of(x, axes, noop_with_empty_axes), keepdims=bool(keepdims))


@op("ReduceMean")
def reduce_mean(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return x.mean(axis=axes_of(x, axes, noop_with_empty_axes), keepdims=bool(keepdims))


@op("ReduceProd")
def reduce_prod(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return np.prod(x, axis=axes_of(x, axes, noop_with_empty_axes), keepdims=bool(keepdims))


@op("ReduceMax")
def reduce_max(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    axis = axes_of(x, axes, noop_with_empty_axes)
    if x.size == 0:
        return np.max(x, axis=axis, keepdims=bool(keepdims), initial=limits(x.dtype)[0])
    return np.max(x, axis=axis, keepdims=bool(keepdims))


@op("ReduceMin")
def reduce_min(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    axis = axes_of(x, axes, noop_with_empty_axes)
    if x.size == 0:
        return np.min(x, axis=axis, keepdims=bool(keepdims), initial=limits(x.dtype)[1])
    return x.min(axis=axis, keepdims=bool(keepdims))


@op("ReduceL1")
def reduce_l1(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return ops.vector_norm(x, ord=1, axis=axes_of(x, axes, noop_with_empty_axes), keepdims=bool(keepdims))


@op("ReduceL2")
def reduce_l2(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return ops.vector_norm(x, axis=axes_of(x, axes, noop_with_empty_axes), keepdims=bool(keepdims))


@op("ReduceSumSquare")
def reduce_sum_square(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return np.square(x).sum(axis=axes_of(x, axes, noop_with_empty_axes), keepdims=bool(keepdims))


@op("ReduceLogSum")
def reduce_log_sum(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return np.log(np.sum(x, axis=axes_of(x, axes, noop_with_empty_axes), keepdims=bool(keepdims)))


@op("ReduceLogSumExp")
def reduce_log_sum_exp(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return ops.logsumexp(x, axis=axes_of(x, axes, noop_with_empty_axes), keepdims=bool(keepdims))


@op("ArgMax")
def argmax(x: Any, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    if select_last_index:
        return x.shape[axis] - 1 - np.argmax(np.flip(x, axis), axis=axis, keepdims=bool(keepdims))
    return np.argmax(x, axis=axis, keepdims=bool(keepdims))


@op("ArgMin")
def argmin(x: Any, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    if select_last_index:
        return x.shape[axis] - 1 - np.argmin(np.flip(x, axis), axis=axis, keepdims=bool(keepdims))
    return x.argmin(axis=axis, keepdims=bool(keepdims))


@part
def before(x: Any, axis: int, first: int) -> Any:
    """Elements moved one place along an axis, the last one dropped: an exclusive scan from an inclusive one."""
    edge = np.full_like(x.take([0], axis=axis), first)
    return np.concatenate([edge, np.take(x, range(x.shape[axis] - 1), axis=axis)], axis=axis)


@op("CumSum")
def cumsum(x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
    axis = int(axis)
    y = np.flip(x, axis) if reverse else x
    y = np.cumsum(y, axis=axis, dtype=x.dtype)
    if exclusive:
        y = before(y, axis, 0)
    return np.flip(y, axis) if reverse else y


@op("CumProd")
def cumprod(x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
    axis = int(axis)
    y = np.flip(x, axis) if reverse else x
    y = np.cumprod(y, axis=axis, dtype=x.dtype)
    if exclusive:
        y = before(y, axis, 1)
    return np.flip(y, axis) if reverse else y


@op("Softmax")
def softmax(x: Any, axis: int = -1) -> Any:
    return ops.softmax(x, axis=axis)


@op("LogSoftmax")
def log_softmax(x: Any, axis: int = -1) -> Any:
    return ops.log_softmax(x, axis=axis)


@op("Hardmax")
def hardmax(x: Any, axis: int = -1) -> Any:
    rows = ops.one_hot(np.argmax(x, axis=axis), x.shape[axis], dtype=x.dtype)
    return np.moveaxis(rows, -1, axis)
