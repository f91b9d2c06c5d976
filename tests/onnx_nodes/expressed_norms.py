"""Normalisation, losses, and quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core import ops
from tests.onnx_nodes.element_types import numpy_type
from tests.onnx_nodes.geometry import limits
from tests.onnx_nodes.table import op, part, simple


@op("BatchNormalization")
def batch_norm(
    x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0
) -> Any:
    if not training_mode:
        return ops.batch_norm(x, mean, var, weight=scale, bias=bias, eps=epsilon)
    axes = (0, *range(2, x.ndim))
    own_mean, own_var = x.mean(axis=axes), x.var(axis=axes)
    y, _, _ = ops.batch_norm_train(x, weight=scale, bias=bias, eps=epsilon)
    return y, mean * momentum + own_mean * (1 - momentum), var * momentum + own_var * (1 - momentum)


@op("LayerNormalization")
def layer_norm(x: Any, scale: Any, bias: Any = None, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    deviation = 1 / np.sqrt(x.var(axis=axes, keepdims=True) + epsilon)
    return ops.layer_norm(x, x.shape[axis:], weight=scale, bias=bias, eps=epsilon), mean, deviation


simple(
    {
        "LRN": lambda x, size, alpha=1e-4, beta=0.75, bias=1.0: ops.local_response_norm(x, (size - 1) // 2, bias, alpha / size, beta),
        "GroupNormalization": lambda x, scale, bias, num_groups, epsilon=1e-5: ops.group_norm(x, num_groups, scale, bias, epsilon),
        "InstanceNormalization": lambda x, scale, bias, epsilon=1e-5: ops.instance_norm(x, weight=scale, bias=bias, eps=epsilon),
        "RMSNormalization": lambda x, scale, axis=-1, epsilon=1e-5, stash_type=1: ops.rms_norm(x, x.shape[axis:], scale, epsilon),
        "LpNormalization": lambda x, axis=-1, p=2: ops.normalize(x, p=p, axis=axis),
    }
)


@op("MeanVarianceNormalization")
def mean_variance_norm(x: Any, axes: Any = (0, 2, 3)) -> Any:
    return (x - x.mean(axis=tuple(axes), keepdims=True)) / (np.std(x, axis=tuple(axes), keepdims=True) + 1e-9)


@op("NegativeLogLikelihoodLoss")
def nll_loss(x: Any, target: Any, weight: Any = None, reduction: str = "mean", ignore_index: int = -100) -> Any:
    return ops.nll_loss(x, target, weight=weight, ignore_index=ignore_index, reduction=reduction)


@op("SoftmaxCrossEntropyLoss")
def cross_entropy(x: Any, target: Any, weight: Any = None, reduction: str = "mean", ignore_index: int = -100, outputs: int = 1) -> Any:
    loss = ops.cross_entropy(x, target, weight=weight, ignore_index=ignore_index, reduction=reduction)
    return (loss, ops.log_softmax(x, axis=1)) if outputs == 2 else loss


@op("Dropout")
def dropout(x: Any, ratio: Any = None, training: Any = None, seed: int = 0, outputs: int = 1) -> Any:
    rate = 0.5 if ratio is None else float(ratio)
    y = ops.dropout(x, p=rate, training=training is not None and bool(training), key=seed)
    return (y.copy(), np.ones(x.shape, bool) if rate == 0 or training is None or not bool(training) else y != 0)


# --- quantisation ------------------------------------------------------------------------------


@part
def along(values: Any, x: Any, axis: int, block_size: int = 0) -> Any:
    """Scales or zero points in a shape that broadcasts with `x`."""
    if values.ndim == 0:
        return values
    if block_size:
        return np.repeat(values, block_size, axis=axis)
    return values.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])


@part
def saturated(x: Any, dtype: Any) -> Any:
    """Rounded to the nearest number that an integer type has, ties to even."""
    low, high = limits(dtype)
    return np.clip(np.round(x), low, high).astype(dtype)


@op("QuantizeLinear")
def quantize(
    x: Any,
    scale: Any,
    zero: Any = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    saturate: int = 1,
    precision: int = 0,
) -> Any:
    dtype = zero.dtype if zero is not None else numpy_type(output_dtype) if output_dtype else np.dtype(np.uint8)
    y = np.round(x / along(scale, x, axis, block_size))
    return saturated(y if zero is None else y + along(zero, x, axis, block_size), dtype)


@op("DequantizeLinear")
def dequantize(x: Any, scale: Any, zero: Any = None, axis: int = 1, block_size: int = 0, output_dtype: int = 0) -> Any:
    y = x.astype(scale.dtype)
    if zero is not None:
        y = y - along(zero, x, axis, block_size).astype(scale.dtype)
    return y * along(scale, x, axis, block_size)


@op("DynamicQuantizeLinear")
def dynamic_quantize(x: Any) -> Any:
    low, high = np.minimum(x.min(), 0), np.maximum(x.max(), 0)
    scale = ((high - low) / 255).astype(x.dtype)
    zero = saturated(-low / scale, np.uint8)
    return saturated(np.round(x / scale) + zero, np.uint8), scale, zero


@op("MatMulInteger")
def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    a, b = a.astype(np.int32), b.astype(np.int32)
    return (a if a_zero is None else a - a_zero) @ (b if b_zero is None else b - b_zero)


@op("QLinearMatMul")
def quantized_matmul(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any) -> Any:
    sums = (a.astype(np.int32) - a_zero) @ (b.astype(np.int32) - b_zero)
    return saturated(np.round(sums * (a_scale * b_scale / y_scale)) + y_zero, y_zero.dtype)


@op("QLinearConv")
def quantized_conv(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any, bias: Any = None
) -> Any:
    images = x.astype(np.int32) - x_zero
    sums = ops.conv2d(images, w.astype(np.int32) - w_zero.reshape(-1, 1, 1, 1), bias=bias)
    return saturated(np.round(sums * (x_scale * w_scale / y_scale).reshape(-1, 1, 1)) + y_zero, y_zero.dtype)
