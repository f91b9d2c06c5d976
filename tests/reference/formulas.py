"""Elementwise ops, reductions and losses as formulas in float64, one function for each op that NumPy does not spell.

Nothing here comes from the op table. Floating-point operands are float64; parameters have the op's own names.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

erf = np.vectorize(math.erf, otypes=[float])
erfc = np.vectorize(math.erfc, otypes=[float])


def sigmoid(x: Any) -> Any:
    return np.where(x >= 0, 1 / (1 + np.exp(-abs(x))), np.exp(-abs(x)) / (1 + np.exp(-abs(x))))


def softplus_of(x: Any) -> Any:
    """log(1 + exp(x))"""
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


def erfinv(x: Any) -> Any:
    """By bisection."""
    low, high = np.full(np.shape(x), -6.5), np.full(np.shape(x), 6.5)
    for _ in range(120):
        middle = (low + high) / 2
        below = erf(middle) < x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    result = np.where(abs(x) == 1, np.inf * np.sign(x), (low + high) / 2)
    return np.where(abs(x) > 1, np.nan, np.where(np.isnan(x), np.nan, np.where(x == 0, x, result)))


def gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return np.where(x == -np.inf, -0.0, x * 0.5 * erfc(-x / math.sqrt(2)))


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return np.where(x * beta > threshold, x, softplus_of(x * beta) / beta)


def divide_rounded(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    """Integers divided by zero give 0, rounded either way."""
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    if rounding_mode == "trunc" and np.asarray(x).dtype.kind in "iu":
        return np.trunc(np.where(y == 0, 0, x / np.where(y == 0, 1, y)))
    return np.trunc(x / y) if rounding_mode == "trunc" else x / y


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return np.where(mask, value, x)


def xlogy(x: Any, y: Any) -> Any:
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


def logit(x: Any, eps: float | None = None) -> Any:
    p = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(p / (1 - p))


def prelu(x: Any, weight: Any) -> Any:
    if np.ndim(weight) and np.size(weight) > 1:
        weight = np.reshape(weight, [-1 if axis == 1 else 1 for axis in range(x.ndim)])
    return np.where(x > 0, x, x * weight) + np.where(np.isnan(x), x, 0)


def glu(x: Any, axis: int = -1) -> Any:
    a, b = np.split(x, 2, axis)
    return a * sigmoid(b)


def softshrink(x: Any, lambd: float = 0.5) -> Any:
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, np.where(np.isnan(x), x, 0.0)))


def selu(x: Any) -> Any:
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))


def is_close(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    near = (abs(x - y) <= atol + rtol * abs(y)) & np.isfinite(x) & np.isfinite(y) | (x == y)
    return near | (equal_nan and np.isnan(x) & np.isnan(y))


# --- reductions -----------------------------------------------------------------------------------------


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    safe = np.where(np.isfinite(top), top, 0)
    result = np.log(np.sum(np.exp(x - safe), axis=axis, keepdims=True)) + safe
    return result if keepdims else result.reshape(np.sum(x, axis=axis).shape)


def vector_norm(x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    return (abs(x) ** ord).sum(axis, keepdims=keepdims) ** (1 / ord)


def moments(of: Any) -> Any:
    def function(x: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        return of(x, axis=axis, ddof=ddof, keepdims=keepdims), x.mean(axis, keepdims=keepdims)

    return function


def softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x: Any, axis: int = -1) -> Any:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


# --- losses ---------------------------------------------------------------------------------------------


def reduced(losses: Any, reduction: str, divisor: Any = None) -> Any:
    if reduction == "none":
        return losses
    return losses.sum() / (1 if reduction == "sum" else losses.size if divisor is None else divisor)


def smooth_l1_loss(x: Any, target: Any, beta: float = 1.0, reduction: str = "mean") -> Any:
    d = abs(x - target)
    return reduced(np.where(d < beta, d * d / 2 / max(beta, 1e-300), d - beta / 2), reduction)


def binary_cross_entropy(x: Any, target: Any, weight: Any = 1.0, reduction: str = "mean") -> Any:
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(x), -100), np.maximum(np.log(1 - x), -100)
    return reduced(-(target * logs[0] + (1 - target) * logs[1]) * weight, reduction)


def bce_with_logits(x: Any, target: Any, weight: Any = 1.0, pos_weight: Any = 1.0, reduction: str = "mean") -> Any:
    return reduced(((1 - target) * x + (1 + (pos_weight - 1) * target) * softplus_of(-x)) * weight, reduction)


def nll_loss(x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", smoothing: float = 0.0) -> Any:
    """Over the class axis, one position after the other."""
    axis = 0 if x.ndim == 1 else 1
    rows = np.moveaxis(x, axis, -1)
    weight = np.ones(rows.shape[-1]) if weight is None else weight
    losses, shares = np.zeros(np.shape(target)), np.zeros(np.shape(target))
    for place in np.ndindex(np.shape(target)):
        goal = int(np.asarray(target)[place])
        if goal == ignore_index:
            continue
        shares[place] = weight[goal]
        losses[place] = -rows[place][goal] * weight[goal] * (1 - smoothing)
        losses[place] -= (rows[place] * weight).sum() * smoothing / rows.shape[-1] if smoothing else 0
    return reduced(losses, reduction, shares.sum())


def cross_entropy(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Any:
    return nll_loss(log_softmax(x, 0 if x.ndim == 1 else 1), target, weight, ignore_index, reduction, label_smoothing)


def kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    if log_target:
        losses = np.exp(target) * (target - x)
    else:
        losses = np.where(target == 0, 0.0, target * (np.log(np.where(target == 0, 1, target)) - x))
    return losses.sum() / (len(losses) if np.ndim(losses) else 1) if reduction == "batchmean" else reduced(losses, reduction)


def huber_loss(x: Any, target: Any, delta: float = 1.0, reduction: str = "mean") -> Any:
    d = abs(x - target)
    return reduced(np.where(d <= delta, d * d / 2, delta * (d - delta / 2)), reduction)


def hinge_embedding_loss(x: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    return reduced(np.where(target == 1, x, np.where(target == -1, np.maximum(margin - x, 0), 0)), reduction)


def cosine_similarity(x: Any, y: Any, axis: int = 1, eps: float = 1e-8) -> Any:
    x, y = np.broadcast_arrays(x, y)
    lengths = np.maximum(np.sqrt((x * x).sum(axis)), eps) * np.maximum(np.sqrt((y * y).sum(axis)), eps)
    return (x * y).sum(axis) / lengths


def cosine_embedding_loss(x: Any, y: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    c = cosine_similarity(x, y, np.ndim(x) - 1)
    return reduced(np.where(target == 1, 1 - c, np.where(target == -1, np.maximum(c - margin, 0), 0)), reduction)


def pairwise_distance(x: Any, y: Any, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> Any:
    return (abs(x - y + eps) ** p).sum(-1, keepdims=keepdims) ** (1 / p)


def triplet_margin_loss(
    x: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    far = pairwise_distance(x, negative, p, eps)
    far = np.minimum(far, pairwise_distance(positive, negative, p, eps)) if swap else far
    return reduced(np.maximum(margin + pairwise_distance(x, positive, p, eps) - far, 0), reduction)


def normalize(x: Any, p: float = 2.0, axis: Any = 1, eps: float = 1e-12) -> Any:
    return x / np.maximum((abs(x) ** p).sum(axis, keepdims=True) ** (1 / p), eps)


def poisson_nll_loss(x: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> Any:
    losses = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
    safe = np.maximum(target, 1)
    stirling = np.where(target > 1, safe * np.log(safe) - safe + np.log(2 * math.pi * safe) / 2, 0)
    return reduced(losses + stirling if full else losses, reduction)


def gaussian_nll_loss(x: Any, target: Any, variance: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Any:
    v = np.maximum(variance, eps)
    return reduced((np.log(v) + (x - target) ** 2 / v) / 2 + (math.log(2 * math.pi) / 2 if full else 0), reduction)


def softmax_cross_entropy(x: Any, target: Any) -> Any:
    return -(target * log_softmax(x)).sum(-1), softmax(x) - target


FORMULAS: dict[str, Any] = {
    "cast": lambda x, dtype: x.astype(dtype),
    "lerp": lambda x, end, weight: np.where(abs(weight) < 0.5, x + weight * (end - x), end - (end - x) * (1 - weight)),
    "addcmul": lambda x, tensor1, tensor2, value=1: x + value * tensor1 * tensor2,
    "addcdiv": lambda x, tensor1, tensor2, value=1: x + value * tensor1 / tensor2,
    "frac": lambda x: x - np.trunc(x),
    "sinc": np.sinc,
    "polar": lambda x, angle: np.stack([x * np.cos(angle), x * np.sin(angle)], -1).view(np.complex128)[..., 0],
    "all_close": lambda x, y, **more: bool(np.all(is_close(x, y, **more))),
    "add_scaled": lambda x, y, alpha=1: x + alpha * y,
    "subtract_scaled": lambda x, y, alpha=1: x - alpha * y,
    "is_neg_inf": lambda x: x == -np.inf,
    "is_pos_inf": lambda x: x == np.inf,
    "squared_difference": lambda x, y: (x - y) ** 2,
    "divide_no_nan": lambda x, y: np.where(y == 0, 0.0, x / np.where(y == 0, 1, y)),
    "bias_add": lambda x, bias, axis=1: x + np.reshape(bias, [-1 if a == axis % x.ndim else 1 for a in range(x.ndim)]),
    "add_all": lambda arrays: sum(arrays[1:], arrays[0]),
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
    "elu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "celu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardtanh": lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
    "softsign": lambda x: x / (1 + abs(x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "silu": lambda x: np.where(x == -np.inf, -0.0, x * sigmoid(x)),
    "logsigmoid": lambda x: -softplus_of(-x),
    "mish": lambda x: np.where(x == -np.inf, -0.0, x * np.tanh(softplus_of(x))),
    "fast_gelu": lambda x: x * sigmoid(1.702 * x),
    "hardshrink": lambda x, lambd=0.5: np.where((x >= -lambd) & (x <= lambd), 0.0, x),
    "tanhshrink": lambda x: x - np.tanh(x),
    "threshold": lambda x, threshold, value: np.where(x <= threshold, value, x),
    "var_mean": moments(np.var),
    "std_mean": moments(np.std),
    "l2_loss": lambda x: (x * x).sum() / 2,
    "l2_normalize": lambda x, axis=0, eps=1e-4: x / np.sqrt(np.maximum((x * x).sum(axis, keepdims=True), eps)),
    "mse_loss": lambda x, target, reduction="mean": reduced((x - target) ** 2, reduction),
    "l1_loss": lambda x, target, reduction="mean": reduced(abs(x - target), reduction),
    "soft_margin_loss": lambda x, target, reduction="mean": reduced(softplus_of(-target * x), reduction),
    "margin_ranking_loss": lambda x, y, target, margin=0.0, reduction="mean": reduced(
        np.maximum(-target * (x - y) + margin, 0), reduction
    ),
    "cdist": lambda x, y, p=2.0: (abs(x[..., :, None, :] - y[..., None, :, :]) ** p).sum(-1) ** (1 / p),
    **{
        function.__name__: function
        for function in (
            erfinv, gelu, softplus, divide_rounded, masked_fill, xlogy, logit, prelu, glu, softshrink, selu, is_close, sigmoid, logsumexp,
            vector_norm, softmax, log_softmax, smooth_l1_loss, binary_cross_entropy, bce_with_logits, nll_loss, cross_entropy, kl_div,
            huber_loss, hinge_embedding_loss, cosine_similarity, cosine_embedding_loss, pairwise_distance, triplet_margin_loss, normalize,
            poisson_nll_loss, gaussian_nll_loss, softmax_cross_entropy,
        )
    },
    "erf": erf,
    "erfc": erfc,
}  # fmt: skip
