"""Softmax, normalisation, losses and what else networks need beyond NumPy.

All of them compute in the accumulation type of their input (float32 for 16-bit floats) and round
once at the end; sums follow the reduction tree; integers become float64. They set no floating-point
flags: what overflows or is undefined shows as inf or NaN in the result, and nowhere else.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import pending, trees
from ._rows import X, own, per_input
from .heads import ROWS as _ATTENTION
from .linalg import product_type
from .losses import ROWS as _LOSSES
from .losses_more import ROWS as _MORE_LOSSES
from .numerics import canonical, open_up, quiet, softmax_parts, spread, total
from .reduce import mean_of, var_of
from .registry import OpInfo, Param
from .resize import ROWS as _RESIZING

_Array = np.ndarray[Any, Any]


@quiet
def _softmax(x: Any, *, axis: Any = -1) -> Any:
    array, values = open_up(x)
    exps, totals = softmax_parts(values, trees.axes_of(axis, array))
    return np.true_divide(exps, totals, out=exps).astype(array.dtype, copy=False)


@quiet
def _log_softmax(x: Any, *, axis: Any = -1) -> Any:
    array, values = open_up(x)
    axes = trees.axes_of(axis, array)
    if not values.size:
        return values.astype(array.dtype)
    shifted = values - values.max(axis=axes, keepdims=True)
    totals = total(canonical("exp", shifted), axes)
    logs = spread(canonical("log", totals), values.shape, axes)
    return (shifted - logs).astype(array.dtype, copy=False)


def _normalized_axes(x: _Array, normalized_shape: Any) -> tuple[int, ...]:
    """The last axes that `normalized_shape` names; the last one when it is None."""
    if normalized_shape is None:
        lengths: tuple[int, ...] = x.shape[-1:]
    elif hasattr(normalized_shape, "__index__"):
        lengths = (operator.index(normalized_shape),)
    else:
        lengths = tuple(operator.index(n) for n in normalized_shape)
    if not lengths or x.shape[x.ndim - len(lengths) :] != lengths:
        raise ValueError(f"normalized_shape {normalized_shape!r} does not match the end of shape {x.shape}")
    return tuple(range(x.ndim - len(lengths), x.ndim))


def affine(values: _Array, weight: Any, bias: Any, shape: Sequence[int] | None, result: np.dtype[Any]) -> Any:
    """values * weight + bias in the accumulation type; per-channel parameters are put in `shape` first."""
    for parameter, apply in ((weight, np.multiply), (bias, np.add)):
        if parameter is not None:
            p = trees.tensor(parameter)
            result = product_type(np.empty(0, result), p)
            wide = p.astype(trees.accumulator(p.dtype) or trees.F64, copy=False)
            values = apply(values, wide if shape is None else wide.reshape(shape))
    return values.astype(result, copy=False)


def standardize(values: _Array, axes: tuple[int, ...], eps: Any) -> _Array:
    """(x - mean) / sqrt(var + eps), variance in two passes."""
    mean = mean_of(values, axes)
    variance = var_of(values, axes, trees.count(values, axes), mean)
    return over_root(values - spread(mean, values.shape, axes), variance, axes, eps)


def over_root(values: _Array, variance: Any, axes: tuple[int, ...], eps: Any) -> _Array:
    """values / sqrt(variance + eps), fresh; float32 is multiplied by the reciprocal, which is computed in float64 and rounded once."""
    if values.dtype == trees.F32:
        reciprocal = 1.0 / np.sqrt(np.asarray(variance, trees.F64) + float(eps))
        return np.multiply(values, spread(reciprocal.astype(trees.F32), values.shape, axes))
    return np.true_divide(values, spread(np.sqrt(variance + values.dtype.type(eps)), values.shape, axes))


@quiet
def _layer_norm(x: Any, *, normalized_shape: Any = None, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    array, values = open_up(x)
    return affine(standardize(values, _normalized_axes(array, normalized_shape), eps), weight, bias, None, array.dtype)


@quiet
def _rms_norm(x: Any, *, normalized_shape: Any = None, weight: Any = None, eps: Any = 1e-6) -> Any:
    array, values = open_up(x)
    axes = _normalized_axes(array, normalized_shape)
    return affine(over_root(values, mean_of(values * values, axes), axes, eps), weight, None, None, array.dtype)


def _channel_shape(ndim: int) -> list[int]:
    return [1, -1] + [1] * (ndim - 2)


@quiet
def _group_norm(x: Any, num_groups: Any, *, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    array, values = open_up(x)
    groups = operator.index(num_groups)
    if array.ndim < 2 or groups < 1 or array.shape[1] % groups:
        raise ValueError(f"group_norm: {groups} groups do not divide the channels of shape {array.shape}")
    grouped = values.reshape(array.shape[0], groups, -1) if array.size else values.reshape(array.shape[0], groups, 0)
    normal = standardize(grouped, (2,), eps).reshape(array.shape) if array.size else values.copy()
    return affine(normal, weight, bias, _channel_shape(array.ndim), array.dtype)


def _no_kernel(_x: _Array, _steps: Sequence[tuple[str, _Array]]) -> _Array | None:
    return None


by_kernel: Callable[[_Array, Sequence[tuple[str, _Array]]], _Array | None] = _no_kernel
"""Float32 numbers after steps ("sub", "div", "mul", "add") with one number for each entry of axis 1; None where there is no kernel. Put in
when the package is imported."""


@quiet
def batch_norm(x: Any, running_mean: Any, running_var: Any, *, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    array, values = open_up(x)
    if array.ndim < 2:
        raise ValueError(f"batch_norm needs channels on axis 1, not shape {array.shape}")
    shape = _channel_shape(array.ndim)
    mean, variance = (trees.tensor(v).astype(values.dtype, copy=False) for v in (running_mean, running_var))
    if mean.shape != (array.shape[1],) or variance.shape != (array.shape[1],):
        raise ValueError(f"batch_norm: statistics of shape ({array.shape[1]},) were expected, not {mean.shape} and {variance.shape}")
    scale = np.sqrt(variance + values.dtype.type(eps))
    parameters = [(step, trees.tensor(v)) for step, v in (("mul", weight), ("add", bias)) if v is not None]
    steps = (("sub", mean), ("div", scale), *parameters)
    if pending.finish(array, steps):
        return array
    if array.size and array.dtype == trees.F32 and all(v.dtype == trees.F32 and v.shape == mean.shape for _, v in steps):
        made = by_kernel(array, steps)
        if made is not None:
            return made
    normal = (values - mean.reshape(shape)) / scale.reshape(shape)
    return affine(normal, weight, bias, shape, array.dtype)


@quiet
def _batch_norm_train(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    *,
    weight: Any = None,
    bias: Any = None,
    momentum: Any = 0.1,
    eps: Any = 1e-5,
) -> tuple[Any, Any, Any]:
    """(normalised x, new running mean, new running variance); the new variance is that of a sample (n - 1)."""
    array, values = open_up(x)
    if array.ndim < 2:
        raise ValueError(f"batch_norm needs channels on axis 1, not shape {array.shape}")
    axes = tuple(a for a in range(array.ndim) if a != 1)
    n = trees.count(values, axes)
    mean = mean_of(values, axes)
    variance = var_of(values, axes, n, mean)
    shape, kind = _channel_shape(array.ndim), values.dtype.type
    normal = (values - mean.reshape(shape)) / np.sqrt(variance + kind(eps)).reshape(shape)
    sample = variance * (kind(n) / kind(max(n - 1, 1)))
    result = affine(normal, weight, bias, shape, array.dtype)
    return result, _moved(running_mean, mean, momentum), _moved(running_var, sample, momentum)


def _moved(running: Any, now: _Array, momentum: Any) -> Any:
    """A running statistic after one more batch, in its own type; None where none is kept."""
    if running is None:
        return None
    old = trees.tensor(running)
    share = now.dtype.type(momentum)
    return (old.astype(now.dtype, copy=False) * (now.dtype.type(1) - share) + now * share).astype(old.dtype, copy=False)


@quiet
def _instance_norm(x: Any, *, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    array, values = open_up(x)
    if array.ndim < 3:
        raise ValueError(f"instance_norm needs axes behind the channels, not shape {array.shape}")
    normal = standardize(values, tuple(range(2, array.ndim)), eps) if array.size else values.copy()
    return affine(normal, weight, bias, _channel_shape(array.ndim), array.dtype)


def _embedding(x: Any, weight: Any, *, padding_idx: Any = None) -> Any:
    """`padding_idx` only matters for gradients; it must name an entry."""
    index, table = trees.tensor(x), trees.tensor(weight)
    if index.dtype.kind not in "iu" or table.ndim != 2:
        raise TypeError(f"embedding needs integer indices and a weight (entries, width), not {index.dtype} and {table.shape}")
    if padding_idx is not None and not -len(table) <= padding_idx < len(table):
        raise IndexError(f"padding_idx {padding_idx} of {len(table)} entries")
    return np.take(table, index, axis=0)


def _row(name: str, definition: Callable[..., Any], doc: str, signature: str, params: tuple[Param, ...], **rest: Any) -> OpInfo:
    fields: dict[str, Any] = {"shape_rule": "same", "dtype_rule": "float", "policy": 4, "flops": per_input(8.0), "fp_name": name, **rest}
    fields.setdefault("exact", False)
    return OpInfo(name=name, family="nn", params=params, definition=definition, doc=doc, spellings=(own(name, signature),), **fields)


_WEIGHT = Param("weight", "tensor", None)
_BIAS = Param("bias", "tensor", None)
_NORMALIZED = Param("normalized_shape", default=None)
_AXIS = Param("axis", default=-1)

_NETWORK = (
    _row(
        "softmax",
        _softmax,
        "exp(x) / sum(exp(x)) along an axis, without overflow.",
        "x, axis=-1",
        (X, _AXIS),
        fuse="reduce",
        flops=per_input(25.0),
        gradient="out * (g - sum(g * out, axis))",
    ),
    _row(
        "log_softmax",
        _log_softmax,
        "log(softmax(x)) along an axis, without loss of digits.",
        "x, axis=-1",
        (X, _AXIS),
        fuse="reduce",
        flops=per_input(25.0),
        gradient="g - exp(out) * sum(g, axis)",
    ),
    _row(
        "layer_norm",
        _layer_norm,
        "(x - mean) / sqrt(var + eps) * weight + bias over the last axes that normalized_shape names (None: the last one).",
        "x, normalized_shape=None, weight=None, bias=None, eps=1e-5",
        (X, _NORMALIZED, _WEIGHT, _BIAS, Param("eps", default=1e-5)),
        fuse="reduce",
        gradient="layer_norm_grad(g, x, weight); sum(g * normalised); sum(g)",
    ),
    _row(
        "rms_norm",
        _rms_norm,
        "x / sqrt(mean(x * x) + eps) * weight over the last axes that normalized_shape names (None: the last one).",
        "x, normalized_shape=None, weight=None, eps=1e-6",
        (X, _NORMALIZED, _WEIGHT, Param("eps", default=1e-6)),
        fuse="reduce",
        gradient="rms_norm_grad(g, x, weight); sum(g * normalised)",
    ),
    _row(
        "group_norm",
        _group_norm,
        "Each sample's channels normalised in groups.",
        "x, num_groups, weight=None, bias=None, eps=1e-5",
        (X, Param("num_groups"), _WEIGHT, _BIAS, Param("eps", default=1e-5)),
        fuse="reduce",
        gradient="group_norm_grad(g, x, weight); sum(g * normalised); sum(g)",
    ),
    _row(
        "batch_norm",
        batch_norm,
        "Channels (axis 1) normalised with given statistics, as in inference.",
        "x, running_mean, running_var, weight=None, bias=None, eps=1e-5",
        (X, Param("running_mean", "tensor"), Param("running_var", "tensor"), _WEIGHT, _BIAS, Param("eps", default=1e-5)),
        gradient="g * weight / sqrt(running_var + eps); ; ; sum(g * normalised); sum(g)",
    ),
    _row(
        "batch_norm_train",
        _batch_norm_train,
        "(x normalised by its own statistics per channel, new running mean, new running variance), as in training; nothing is written.",
        "x, running_mean=None, running_var=None, weight=None, bias=None, momentum=0.1, eps=1e-5",
        (
            X,
            Param("running_mean", "tensor", None),
            Param("running_var", "tensor", None),
            _WEIGHT,
            _BIAS,
            Param("momentum", default=0.1),
            Param("eps", default=1e-5),
        ),
        result="any",
        shape_rule="other",
        gradient="batch_norm_grad(g, x, weight); ; ; sum(g * normalised); sum(g)",
    ),
    _row(
        "instance_norm",
        _instance_norm,
        "Each channel of each sample normalised by itself.",
        "x, weight=None, bias=None, eps=1e-5",
        (X, _WEIGHT, _BIAS, Param("eps", default=1e-5)),
        fuse="reduce",
        gradient="instance_norm_grad(g, x, weight); sum(g * normalised); sum(g)",
    ),
    _row(
        "embedding",
        _embedding,
        "Rows of a weight (entries, width) by index; the row padding_idx gets no gradient.",
        "x, weight, padding_idx=None",
        (X, Param("weight", "tensor"), Param("padding_idx", default=None)),
        shape_rule="other",
        dtype_rule="other",
        policy=0,
        exact=True,
        flops=per_input(0.0),
        gradient="; scatter_add(zeros_like(weight), x, g)",
    ),
)

ROWS: tuple[OpInfo, ...] = _NETWORK + _ATTENTION + _LOSSES + _MORE_LOSSES + _RESIZING
