"""More losses, distances and similarities; as in `losses.py`, sums follow the reduction tree and results are rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import trees
from ._rows import X, own, per_input
from .elementwise_more import wide_operands
from .losses import REDUCTION, TARGET, WEIGHT, _both, _reduced
from .numerics import canonical, open_up, quiet, total
from .registry import OpInfo, Param

_Array = np.ndarray[Any, Any]


@quiet
def _kl_div(x: Any, target: Any, *, reduction: Any = "mean", log_target: Any = False) -> Any:
    """x holds logarithms; "batchmean" divides the sum by the length of axis 0."""
    result, a, t = _both(x, target)
    kind = a.dtype.type
    if log_target:
        losses = canonical("exp", t) * (t - a)
    else:
        logs = canonical("log", np.where(t > 0, t, kind(1)))
        losses = np.where(t > 0, t * (logs - a), np.where(t == 0, kind(0), t * kind(np.nan)))
    if reduction == "batchmean":
        return _reduced(losses, "mean", result, kind(losses.shape[0] if losses.ndim else 1))
    return _reduced(losses, reduction, result)


@quiet
def _nll_loss(x: Any, target: Any, *, weight: Any = None, ignore_index: Any = -100, reduction: Any = "mean") -> Any:
    """-x[target] over the class axis (1, or 0 of a vector); the mean is weighted."""
    array, logs = open_up(x)
    axis = 0 if array.ndim == 1 else 1
    goal = trees.tensor(target)
    if array.ndim == 0 or goal.dtype.kind not in "iu" or goal.shape != array.shape[:axis] + array.shape[axis + 1 :]:
        raise ValueError(f"nll_loss: classes {goal.shape} of {goal.dtype} do not fit to {array.shape}")
    kind = logs.dtype.type
    w = np.ones(array.shape[axis], logs.dtype) if weight is None else trees.tensor(weight).astype(logs.dtype, copy=False)
    if w.shape != (array.shape[axis],):
        raise ValueError(f"nll_loss: one weight per class ({array.shape[axis]}) was expected, not {w.shape}")
    counted = goal != ignore_index
    index = np.where(counted, goal, 0)
    if index.size and (index.min() < 0 or index.max() >= array.shape[axis]):
        raise IndexError(f"nll_loss: a target is outside the {array.shape[axis]} classes")
    shares = np.where(counted, w[index], kind(0))
    picked = np.take_along_axis(logs, np.expand_dims(index, axis), axis).reshape(goal.shape)
    losses = np.where(counted, -picked * w[index], kind(0))
    return _reduced(losses, reduction, array.dtype, total(shares, tuple(range(shares.ndim))))


@quiet
def _huber_loss(x: Any, target: Any, *, delta: Any = 1.0, reduction: Any = "mean") -> Any:
    if delta <= 0:
        raise ValueError(f"delta must be positive: {delta}")
    result, a, b = _both(x, target)
    distance = np.absolute(a - b)
    half, edge = distance.dtype.type(0.5), distance.dtype.type(delta)
    losses = np.where(distance <= edge, half * distance * distance, edge * (distance - half * edge))
    return _reduced(losses, reduction, result)


def _softplus_negative(values: _Array) -> _Array:
    """log(1 + exp(-x)) without overflow."""
    zero = values.dtype.type(0)
    result: _Array = np.maximum(-values, zero) + canonical("log1p", canonical("exp", -np.absolute(values)))
    return result


@quiet
def _soft_margin_loss(x: Any, target: Any, *, reduction: Any = "mean") -> Any:
    result, a, t = _both(x, target)
    return _reduced(_softplus_negative(a * t), reduction, result)


@quiet
def _hinge_embedding_loss(x: Any, target: Any, *, margin: Any = 1.0, reduction: Any = "mean") -> Any:
    result, a, t = _both(x, target)
    kind = a.dtype.type
    losses = np.where(t == 1, a, np.where(t == -1, np.maximum(kind(margin) - a, kind(0)), kind(0)))
    return _reduced(losses, reduction, result)


@quiet
def _margin_ranking_loss(x: Any, y: Any, target: Any, *, margin: Any = 0.0, reduction: Any = "mean") -> Any:
    result, (a, b, t) = wide_operands(x, y, target)
    kind = a.dtype.type
    return _reduced(np.maximum(-t * (a - b) + kind(margin), kind(0)), reduction, result)


def _similarity(a: _Array, b: _Array, axis: int, eps: float) -> _Array:
    """Cosine of the angle; each length is at least eps."""
    a, b = np.broadcast_arrays(a, b)
    axes = trees.axes_of(axis, a)
    least = a.dtype.type(eps)
    lengths = np.maximum(np.sqrt(total(a * a, axes)), least) * np.maximum(np.sqrt(total(b * b, axes)), least)
    return np.asarray(total(a * b, axes) / lengths)


@quiet
def _cosine_similarity(x: Any, y: Any, *, axis: Any = 1, eps: Any = 1e-8) -> Any:
    result, (a, b) = wide_operands(x, y)
    return _similarity(a, b, axis, eps).astype(result, copy=False)


@quiet
def _cosine_embedding_loss(x: Any, y: Any, target: Any, *, margin: Any = 0.0, reduction: Any = "mean") -> Any:
    """1 - cosine where the target is 1, what exceeds the margin where it is -1."""
    result, (a, b, t) = wide_operands(x, y, target)
    kind = a.dtype.type
    cosine = _similarity(a, b, a.ndim - 1, 1e-8)
    losses = np.where(t == 1, kind(1) - cosine, np.where(t == -1, np.maximum(cosine - kind(margin), kind(0)), kind(0)))
    return _reduced(losses, reduction, result)


def power_sum(distance: _Array, p: float, axes: tuple[int, ...]) -> Any:
    """The p-norm of what is not negative, over axes."""
    kind = distance.dtype.type
    if p == math.inf:
        return distance.max(axis=axes, initial=0)
    if p == -math.inf:
        return distance.min(axis=axes)
    if p == 0:
        return total((distance != 0).astype(distance.dtype), axes)
    if p == 1:
        return total(distance, axes)
    if p == 2:
        return np.sqrt(total(distance * distance, axes))
    return np.power(total(np.power(distance, kind(p)), axes), kind(1.0 / p))


@quiet
def _pairwise_distance(x: Any, y: Any, *, p: Any = 2.0, eps: Any = 1e-6, keepdims: Any = False) -> Any:
    result, (a, b) = wide_operands(x, y)
    difference = np.absolute(a - b + a.dtype.type(eps))
    found = np.asarray(power_sum(difference, float(p), (difference.ndim - 1,))).astype(result, copy=False)
    return found[..., None] if keepdims else found


@quiet
def _cdist(x: Any, y: Any, *, p: Any = 2.0) -> Any:
    """Distances between all rows of x and all rows of y."""
    result, (a, b) = wide_operands(x, y)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1] or p < 0:
        raise ValueError(f"cdist: rows of shapes {a.shape} and {b.shape}, p={p}")
    difference = np.absolute(a[..., :, None, :] - b[..., None, :, :])
    return np.asarray(power_sum(difference, float(p), (difference.ndim - 1,))).astype(result, copy=False)


@quiet
def _triplet_margin_loss(
    x: Any, positive: Any, negative: Any, *, margin: Any = 1.0, p: Any = 2.0, eps: Any = 1e-6, swap: Any = False, reduction: Any = "mean"
) -> Any:
    result, (a, b, c) = wide_operands(x, positive, negative)
    kind = a.dtype.type
    near, far = (_pairwise_distance(a, other, p=p, eps=eps) for other in (b, c))
    if swap:
        far = np.minimum(far, _pairwise_distance(b, c, p=p, eps=eps))
    return _reduced(np.maximum(kind(margin) + near - far, kind(0)), reduction, result)


@quiet
def _normalize(x: Any, *, p: Any = 2.0, axis: Any = 1, eps: Any = 1e-12) -> Any:
    array, values = open_up(x)
    axes = trees.axes_of(tuple(axis) if isinstance(axis, list) else axis, array)
    length = np.asarray(power_sum(np.absolute(values), float(p), axes))
    shape = [1 if a in axes else d for a, d in enumerate(array.shape)]
    return (values / np.maximum(length, values.dtype.type(eps)).reshape(shape)).astype(array.dtype, copy=False)


@quiet
def _poisson_nll_loss(x: Any, target: Any, *, log_input: Any = True, full: Any = False, eps: Any = 1e-8, reduction: Any = "mean") -> Any:
    """`full` adds Stirling's approximation of the logarithm of the factorial for targets above 1."""
    result, a, t = _both(x, target)
    kind = a.dtype.type
    losses: _Array = canonical("exp", a) - t * a if log_input else a - t * canonical("log", a + kind(eps))
    if full:
        safe = np.where(t > 1, t, kind(1))
        stirling = safe * canonical("log", safe) - safe + kind(0.5) * canonical("log", kind(2 * math.pi) * safe)
        losses = losses + np.where(t > 1, stirling, kind(0))
    return _reduced(losses, reduction, result)


@quiet
def _gaussian_nll_loss(x: Any, target: Any, variance: Any, *, full: Any = False, eps: Any = 1e-6, reduction: Any = "mean") -> Any:
    result, (a, t, v) = wide_operands(x, target, variance)
    kind = a.dtype.type
    v = np.maximum(v if v.ndim in (0, a.ndim) else v[..., None], kind(eps))
    losses = kind(0.5) * (canonical("log", v) + (a - t) * (a - t) / v)
    if full:
        losses = losses + kind(0.5 * math.log(2 * math.pi))
    return _reduced(losses, reduction, result)


def _row(name: str, definition: Callable[..., Any], doc: str, gradient: str, cost: float, *params: Param) -> OpInfo:
    shown = (p.name if p.role == "tensor" and p.default is not None else f"{p.name}={p.default!r}" for p in params)
    return OpInfo(
        name=name,
        family="nn",
        params=(X, *params),
        definition=definition,
        doc=doc,
        spellings=(own(name, ", ".join(("x", *shown))),),
        shape_rule="other",
        dtype_rule="float",
        flops=per_input(cost),
        gradient=gradient,
        exact=False,
        fp_name=name,
    )


def _attr(name: str, default: Any) -> Param:
    return Param(name, default=default)


_Y = Param("y", "tensor")
_P = _attr("p", 2.0)

ROWS: tuple[OpInfo, ...] = (
    _row(
        "kl_div",
        _kl_div,
        "Divergence t (log t - x) of logarithms x from probabilities t.",
        "-g * target / n",
        25.0,
        TARGET,
        REDUCTION,
        _attr("log_target", False),
    ),
    _row(
        "nll_loss",
        _nll_loss,
        "-x[target] for logarithms of probabilities over the class axis.",
        "-g * one_hot(target) / n",
        2.0,
        TARGET,
        WEIGHT,
        _attr("ignore_index", -100),
        REDUCTION,
    ),
    _row(
        "huber_loss",
        _huber_loss,
        "Half the square up to delta, linear beyond.",
        "g * clip(x - target, -delta, delta) / n",
        6.0,
        TARGET,
        _attr("delta", 1.0),
        REDUCTION,
    ),
    _row(
        "soft_margin_loss",
        _soft_margin_loss,
        "log(1 + exp(-target * x)).",
        "-g * target * sigmoid(-target * x) / n",
        45.0,
        TARGET,
        REDUCTION,
    ),
    _row(
        "hinge_embedding_loss",
        _hinge_embedding_loss,
        "x where the target is 1, max(0, margin - x) where it is -1.",
        "g * where(target == 1, 1, -(x < margin)) / n",
        4.0,
        TARGET,
        _attr("margin", 1.0),
        REDUCTION,
    ),
    _row(
        "margin_ranking_loss",
        _margin_ranking_loss,
        "max(0, -target * (x - y) + margin).",
        "-g * target * (out > 0) / n; g * target * (out > 0) / n",
        5.0,
        _Y,
        TARGET,
        _attr("margin", 0.0),
        REDUCTION,
    ),
    _row(
        "cosine_similarity",
        _cosine_similarity,
        "Cosine of the angle between vectors along an axis.",
        "g * (y / (|x| |y|) - out * x / |x|^2)",
        8.0,
        _Y,
        _attr("axis", 1),
        _attr("eps", 1e-8),
    ),
    _row(
        "cosine_embedding_loss",
        _cosine_embedding_loss,
        "1 - cosine(x, y) where the target is 1, max(0, cosine - margin) where it is -1.",
        "cosine_similarity_grad(g, x, y)",
        10.0,
        _Y,
        TARGET,
        _attr("margin", 0.0),
        REDUCTION,
    ),
    _row(
        "pairwise_distance",
        _pairwise_distance,
        "The p-norm of x - y + eps over the last axis.",
        "g * (x - y) / out",
        5.0,
        _Y,
        _P,
        _attr("eps", 1e-6),
        _attr("keepdims", False),
    ),
    _row("cdist", _cdist, "The p-norms of the differences of all rows of x and of y.", "g * (x - y) / out", 5.0, _Y, _P),
    _row(
        "triplet_margin_loss",
        _triplet_margin_loss,
        "max(0, margin + distance to the positive - distance to the negative).",
        "pairwise_distance_grad(g)",
        12.0,
        Param("positive", "tensor"),
        Param("negative", "tensor"),
        _attr("margin", 1.0),
        _P,
        _attr("eps", 1e-6),
        _attr("swap", False),
        REDUCTION,
    ),
    _row(
        "normalize",
        _normalize,
        "x divided by its p-norm over axes, which is at least eps.",
        "(g - out * sum(g * out)) / norm",
        5.0,
        _P,
        _attr("axis", 1),
        _attr("eps", 1e-12),
    ),
    _row(
        "poisson_nll_loss",
        _poisson_nll_loss,
        "exp(x) - target * x for logarithms of rates.",
        "g * (exp(x) - target) / n",
        25.0,
        TARGET,
        _attr("log_input", True),
        _attr("full", False),
        _attr("eps", 1e-8),
        REDUCTION,
    ),
    _row(
        "gaussian_nll_loss",
        _gaussian_nll_loss,
        "(log variance + (x - target)^2 / variance) / 2.",
        "g * (x - target) / variance / n",
        30.0,
        TARGET,
        Param("variance", "tensor"),
        _attr("full", False),
        _attr("eps", 1e-6),
        REDUCTION,
    ),
)
