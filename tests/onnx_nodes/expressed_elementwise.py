"""Elementwise ops, activations and casts of ONNX in NumPy and `bcvm.ops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core import ops
from tests.onnx_nodes.element_types import numpy_type
from tests.onnx_nodes.table import op, simple

simple(
    {
        "Abs": lambda x: np.abs(x),
        "Acos": lambda x: np.arccos(x),
        "Acosh": lambda x: np.arccosh(x),
        "Add": lambda x, y: x + y,
        "And": lambda x, y: np.logical_and(x, y),
        "Asin": lambda x: np.arcsin(x),
        "Asinh": lambda x: np.arcsinh(x),
        "Atan": lambda x: np.arctan(x),
        "Atanh": lambda x: np.arctanh(x),
        "BitwiseAnd": lambda x, y: x & y,
        "BitwiseNot": lambda x: ~x,
        "BitwiseOr": lambda x, y: x | y,
        "BitwiseXor": lambda x, y: x ^ y,
        "Ceil": lambda x: np.ceil(x),
        "Cos": lambda x: np.cos(x),
        "Cosh": lambda x: np.cosh(x),
        "Equal": lambda x, y: x == y,
        "Erf": lambda x: ops.erf(x),
        "Exp": lambda x: np.exp(x),
        "Floor": lambda x: np.floor(x),
        "Greater": lambda x, y: x > y,
        "GreaterOrEqual": lambda x, y: x >= y,
        "HardSwish": lambda x: ops.hardswish(x),
        "Identity": lambda x: np.copy(x),
        "IsNaN": lambda x: np.isnan(x),
        "Less": lambda x, y: x < y,
        "LessOrEqual": lambda x, y: x <= y,
        "Log": lambda x: np.log(x),
        "Mish": lambda x: ops.mish(x),
        "Mul": lambda x, y: x * y,
        "Neg": lambda x: -x,
        "Not": lambda x: np.logical_not(x),
        "Or": lambda x, y: np.logical_or(x, y),
        "Pow": lambda x, y: np.power(x, y).astype(x.dtype),
        "PRelu": lambda x, slope: np.where(x < 0, slope * x, x),
        "Reciprocal": lambda x: np.reciprocal(x),
        "Relu": lambda x: ops.relu(x),
        "Round": lambda x: np.round(x),
        "Sigmoid": lambda x: ops.sigmoid(x),
        "Sign": lambda x: np.sign(x),
        "Sin": lambda x: np.sin(x),
        "Sinh": lambda x: np.sinh(x),
        "Softplus": lambda x: ops.softplus(x),
        "Softsign": lambda x: ops.softsign(x),
        "Sqrt": lambda x: np.sqrt(x),
        "Sub": lambda x, y: x - y,
        "Tan": lambda x: np.tan(x),
        "Tanh": lambda x: np.tanh(x),
        "Where": lambda condition, x, y: np.where(condition, x, y),
        "Xor": lambda x, y: np.logical_xor(x, y),
        "BitCast": lambda x, to: x.view(numpy_type(to)),
        "BitShift": lambda x, y, direction: x << y if direction == "LEFT" else x >> y,
        "Cast": lambda x, to, saturate=1, round_mode="up": x.astype(numpy_type(to)),
        "CastLike": lambda x, like, saturate=1, round_mode="up": x.astype(like.dtype),
        "Celu": lambda x, alpha=1.0: ops.celu(x, alpha=alpha),
        "Div": lambda x, y: ops.divide_rounded(x, y, rounding_mode="trunc") if x.dtype.kind in "iu" else x / y,
        "Elu": lambda x, alpha=1.0: ops.elu(x, alpha=alpha),
        "Gelu": lambda x, approximate="none": ops.gelu(x, approximate=approximate),
        "HardSigmoid": lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
        "LeakyRelu": lambda x, alpha=0.01: ops.leaky_relu(x, negative_slope=alpha),
        "Mod": lambda x, y, fmod=0: np.fmod(x, y) if fmod else x % y,
        "Swish": lambda x, alpha=1.0: ops.silu(x) if alpha == 1 else x * ops.sigmoid(alpha * x),
        "SwiGLU": lambda a, b, alpha=1.0: a * ops.sigmoid(alpha * a) * b,
        "ThresholdedRelu": lambda x, alpha=1.0: ops.threshold(x, alpha, 0.0),
    }
)


@op("Selu")
def selu(x: Any, alpha: float | None = None, gamma: float | None = None) -> Any:
    if alpha is None or gamma is None:
        return ops.selu(x)
    return gamma * ops.elu(x, alpha=alpha)


@op("Shrink")
def shrink(x: Any, lambd: float = 0.5, bias: float = 0.0) -> Any:
    if bias == 0:
        return ops.hardshrink(x, lambd=lambd)
    if bias == lambd:
        return ops.softshrink(x, lambd=lambd)
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


@op("Clip")
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is None and high is None:
        return np.copy(x)
    return np.clip(x, low, high)


@op("IsInf")
def isinf(x: Any, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    if detect_negative and detect_positive:
        return np.isinf(x)
    return np.isneginf(x) if detect_negative else np.isposinf(x)


@op("Max")
def largest(x: Any, *others: Any) -> Any:
    for other in others:
        x = np.maximum(x, other)
    return x.copy()


@op("Min")
def smallest(x: Any, *others: Any) -> Any:
    for other in others:
        x = np.minimum(x, other)
    return x.copy()


@op("Sum")
def total(x: Any, *others: Any) -> Any:
    for other in others:
        x = x + other
    return x.copy()


@op("Mean")
def average(x: Any, *others: Any) -> Any:
    count = 1 + len(others)
    for other in others:
        x = x + other
    return x / count
