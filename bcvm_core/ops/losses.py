"""Losses. `reduction` is "mean", "sum" or "none"; sums follow the reduction tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import trees
from ._rows import X, own, per_input
from .linalg import product_type
from .numerics import canonical, open_up, quiet, total
from .registry import OpInfo, Param

_Array = np.ndarray[Any, Any]
TARGET = Param("target", "tensor")
REDUCTION = Param("reduction", default="mean")
WEIGHT = Param("weight", "tensor", None)


def _reduced(losses: _Array, reduction: Any, result: np.dtype[Any], divisor: Any = None) -> Any:
    """Losses in the accumulation type, reduced and rounded once; an empty mean is NaN."""
    if reduction == "none":
        return losses.astype(result, copy=False)
    if reduction not in ("mean", "sum"):
        raise ValueError(f'reduction must be "mean", "sum" or "none", not {reduction!r}')
    sums = total(losses, tuple(range(losses.ndim)))
    if reduction == "mean":
        sums = np.true_divide(sums, losses.dtype.type(losses.size) if divisor is None else divisor)
    return sums.astype(result)


def _both(x: Any, target: Any) -> tuple[np.dtype[Any], _Array, _Array]:
    """The result's type, and both operands in one accumulation type."""
    (a, wide_a), (b, wide_b) = open_up(x), open_up(target)
    result = product_type(a, b)
    first, second = np.broadcast_arrays(wide_a, wide_b)
    return result, first, second


@quiet
def _mse_loss(x: Any, target: Any, *, reduction: Any = "mean") -> Any:
    result, a, b = _both(x, target)
    difference = a - b
    return _reduced(difference * difference, reduction, result)


@quiet
def _l1_loss(x: Any, target: Any, *, reduction: Any = "mean") -> Any:
    result, a, b = _both(x, target)
    return _reduced(np.absolute(a - b), reduction, result)


@quiet
def _smooth_l1_loss(x: Any, target: Any, *, beta: Any = 1.0, reduction: Any = "mean") -> Any:
    if beta < 0:
        raise ValueError(f"beta must not be negative: {beta}")
    result, a, b = _both(x, target)
    distance = np.absolute(a - b)
    kind = distance.dtype.type
    if beta > 0:
        distance = np.where(distance < kind(beta), kind(0.5) * distance * distance / kind(beta), distance - kind(0.5) * kind(beta))
    return _reduced(distance, reduction, result)


@quiet
def _binary_cross_entropy(x: Any, target: Any, *, weight: Any = None, reduction: Any = "mean") -> Any:
    """Logarithms are limited to -100 from below, so that certain wrong answers cost a finite amount."""
    result, p, t = _both(x, target)
    kind = p.dtype.type
    floor = kind(-100.0)
    losses = -(t * np.maximum(canonical("log", p), floor) + (kind(1) - t) * np.maximum(canonical("log", kind(1) - p), floor))
    return _reduced(losses if weight is None else losses * trees.tensor(weight), reduction, result)


@quiet
def _bce_with_logits(x: Any, target: Any, *, weight: Any = None, pos_weight: Any = None, reduction: Any = "mean") -> Any:
    result, z, t = _both(x, target)
    kind = z.dtype.type
    softplus = np.maximum(-z, kind(0)) + canonical("log1p", canonical("exp", -np.absolute(z)))
    if pos_weight is not None:
        softplus = (kind(1) + (trees.tensor(pos_weight) - kind(1)) * t) * softplus
    losses = (kind(1) - t) * z + softplus
    return _reduced(losses if weight is None else losses * trees.tensor(weight), reduction, result)


def _log_probabilities(values: _Array, axis: int) -> _Array:
    if not values.size:
        return values
    shifted = values - values.max(axis=axis, keepdims=True)
    totals = total(canonical("exp", shifted), (axis,))
    logs: _Array = shifted - np.expand_dims(canonical("log", totals), axis)
    return logs


@quiet
def _cross_entropy(
    x: Any, target: Any, *, weight: Any = None, ignore_index: Any = -100, label_smoothing: Any = 0.0, reduction: Any = "mean"
) -> Any:
    array, values = open_up(x)
    if array.ndim == 0:
        raise ValueError("cross_entropy needs a class axis")
    logs = _log_probabilities(values, class_axis(array))
    return cross_entropy_of(logs, array, target, weight, ignore_index, label_smoothing, reduction)


def class_axis(array: _Array) -> int:
    """The axis of the classes."""
    return 0 if array.ndim == 1 else 1


@quiet
def cross_entropy_of(
    logs: _Array,
    array: _Array,
    target: Any,
    weight: Any = None,
    ignore_index: Any = -100,
    label_smoothing: Any = 0.0,
    reduction: Any = "mean",
) -> Any:
    """cross_entropy of `array`, whose log-probabilities are known."""
    axis = class_axis(array)
    goal = trees.tensor(target)
    kind = logs.dtype.type
    w = np.ones(array.shape[axis], logs.dtype) if weight is None else trees.tensor(weight).astype(logs.dtype, copy=False)
    if w.shape != (array.shape[axis],):
        raise ValueError(f"cross_entropy: one weight per class ({array.shape[axis]}) was expected, not {w.shape}")
    per_class = w.reshape([-1 if a == axis else 1 for a in range(array.ndim)])
    if goal.dtype.kind == "f":
        if goal.shape != array.shape:
            raise ValueError(f"cross_entropy: probabilities of shape {array.shape} were expected, not {goal.shape}")
        share = goal.astype(logs.dtype, copy=False) * kind(1 - label_smoothing) + kind(label_smoothing / array.shape[axis])
        losses = total(-share * per_class * logs, (axis,))
        return _reduced(losses, reduction, array.dtype)
    if goal.shape != array.shape[:axis] + array.shape[axis + 1 :] or goal.dtype.kind not in "iu":
        raise ValueError(
            f"cross_entropy: integer classes of shape {array.shape[:axis] + array.shape[axis + 1 :]} were expected, not {goal.shape}"
        )
    counted = goal != ignore_index
    index = np.where(counted, goal, 0)
    if index.size and (index.min() < 0 or index.max() >= array.shape[axis]):
        raise IndexError(f"cross_entropy: a target is outside the {array.shape[axis]} classes")
    shares = np.where(counted, w[index], kind(0))
    picked = np.take_along_axis(logs, np.expand_dims(index, axis), axis).reshape(goal.shape)
    losses = np.where(counted, -picked * w[index], kind(0))
    if label_smoothing:
        smooth = np.where(counted, total(-per_class * logs, (axis,)), kind(0)) / kind(array.shape[axis])
        losses = losses * kind(1 - label_smoothing) + smooth * kind(label_smoothing)
    return _reduced(losses, reduction, array.dtype, total(shares, tuple(range(shares.ndim))))


def _row(
    name: str, definition: Callable[..., Any], doc: str, signature: str, params: tuple[Param, ...], gradient: str, cost: float
) -> OpInfo:
    return OpInfo(
        name=name,
        family="nn",
        params=params,
        definition=definition,
        doc=doc,
        spellings=(own(name, signature),),
        shape_rule="other",
        dtype_rule="float",
        flops=per_input(cost),
        gradient=gradient,
        exact=False,
        fp_name=name,
    )


ROWS: tuple[OpInfo, ...] = (
    _row(
        "mse_loss",
        _mse_loss,
        "Squared differences.",
        "x, target, reduction='mean'",
        (X, TARGET, REDUCTION),
        "2 * g * (x - target) / n",
        3.0,
    ),
    _row(
        "l1_loss", _l1_loss, "Absolute differences.", "x, target, reduction='mean'", (X, TARGET, REDUCTION), "g * sign(x - target) / n", 3.0
    ),
    _row(
        "smooth_l1_loss",
        _smooth_l1_loss,
        "Absolute differences, squared below beta.",
        "x, target, beta=1.0, reduction='mean'",
        (X, TARGET, Param("beta", default=1.0), REDUCTION),
        "g * clip((x - target) / beta, -1, 1) / n",
        6.0,
    ),
    _row(
        "binary_cross_entropy",
        _binary_cross_entropy,
        "-(t log p + (1 - t) log(1 - p)) for probabilities p.",
        "x, target, weight=None, reduction='mean'",
        (X, TARGET, WEIGHT, REDUCTION),
        "g * (x - target) / (x * (1 - x)) / n",
        45.0,
    ),
    _row(
        "bce_with_logits",
        _bce_with_logits,
        "Binary cross entropy of sigmoid(x), without loss of digits.",
        "x, target, weight=None, pos_weight=None, reduction='mean'",
        (X, TARGET, WEIGHT, Param("pos_weight", "tensor", None), REDUCTION),
        "g * (sigmoid(x) - target) / n",
        45.0,
    ),
    _row(
        "cross_entropy",
        _cross_entropy,
        "-log softmax(x)[target] over the class axis (1, or 0 of a vector); targets are classes or probabilities.",
        "x, target, weight=None, ignore_index=-100, label_smoothing=0.0, reduction='mean'",
        (X, TARGET, WEIGHT, Param("ignore_index", default=-100), Param("label_smoothing", default=0.0), REDUCTION),
        "g * (softmax(x) - one_hot(target)) / n",
        27.0,
    ),
)
