"""Products of matrices, normalisation and attention as formulas in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .formulas import softmax


def triangular_solve(x: Any, b: Any, upper: bool = True, transpose: bool = False, unit: bool = False) -> Any:
    """By substitution, one row after the other."""
    a = np.triu(x) if upper else np.tril(x)
    a, last_first = (a.T, not upper) if transpose else (a, upper)
    result = np.array(b, float)
    for i in reversed(range(len(a))) if last_first else range(len(a)):
        known = range(i + 1, len(a)) if last_first else range(i)
        for k in known:
            result[i] = result[i] - a[i, k] * result[k]
        result[i] = result[i] / (1 if unit else a[i, i])
    return result


def _over(x: Any, axes: Any, eps: float) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def _channels(v: Any, x: Any) -> Any:
    return np.reshape(v, [1, -1] + [1] * (x.ndim - 2))


def _affine(x: Any, weight: Any, bias: Any, channels: bool) -> Any:
    if weight is not None:
        x = x * (_channels(weight, x) if channels else weight)
    return x if bias is None else x + (_channels(bias, x) if channels else bias)


def _last(normalized_shape: Any) -> tuple[int, ...]:
    count = 1 if normalized_shape is None or isinstance(normalized_shape, int) else len(normalized_shape)
    return tuple(range(-count, 0))


def layer_norm(x: Any, normalized_shape: Any = None, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return _affine(_over(x, _last(normalized_shape), eps), weight, bias, False)


def rms_norm(x: Any, normalized_shape: Any = None, weight: Any = None, eps: float = 1e-6) -> Any:
    return _affine(x / np.sqrt((x * x).mean(_last(normalized_shape), keepdims=True) + eps), weight, None, False)


def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    grouped = x.reshape(len(x), num_groups, -1)
    return _affine(_over(grouped, 2, eps).reshape(x.shape), weight, bias, True)


def batch_norm(x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return _affine((x - _channels(running_mean, x)) / np.sqrt(_channels(running_var, x) + eps), weight, bias, True)


def batch_norm_train(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    axes = tuple(a for a in range(x.ndim) if a != 1)
    mean, variance = x.mean(axes), x.var(axes, ddof=int(x.size > x.shape[1]))
    moved = [None if old is None else (1 - momentum) * old + momentum * new for old, new in ((running_mean, mean), (running_var, variance))]
    return _affine(_over(x, axes, eps), weight, bias, True), *moved


def batch_norm_parts(x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float = 1e-5) -> Any:
    return batch_norm(x, running_mean, running_var, weight, bias, eps), *(np.zeros(x.shape[1]) for _ in range(4))


def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return _affine(_over(x, tuple(range(2, x.ndim)), eps), weight, bias, True)


def layer_norm_parts(x: Any, weight: Any, bias: Any, axis: int = -1, eps: float = 1e-7) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    return _over(x, axes, eps) * weight + bias, x.mean(axes, keepdims=True), x.var(axes, keepdims=True)


def local_response_norm(x: Any, radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5) -> Any:
    sums = np.stack([(x[:, max(0, c - radius) : c + radius + 1] ** 2).sum(1) for c in range(x.shape[1])], 1)
    return x / (bias + alpha * sums) ** beta


def attention(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: Any = None) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return softmax(scores) @ v


def _matrix(x: Any, turned: bool) -> Any:
    return np.swapaxes(x, -1, -2) if turned else x


NETWORKS: dict[str, Any] = {
    "bmm": np.matmul,
    "linear": lambda x, weight, bias=0.0: x @ weight.T + bias,
    "matmul_transposed": lambda x, y, transpose_x=False, transpose_y=False: _matrix(x, transpose_x) @ _matrix(y, transpose_y),
    "addmm": lambda x, mat1, mat2, beta=1, alpha=1: beta * x + alpha * (mat1 @ mat2),
    "addmv": lambda x, mat, vec, beta=1, alpha=1: beta * x + alpha * (mat @ vec),
    "addr": lambda x, vec1, vec2, beta=1, alpha=1: beta * x + alpha * np.outer(vec1, vec2),
    "addbmm": lambda x, batch1, batch2, beta=1, alpha=1: beta * x + alpha * (batch1 @ batch2).sum(0),
    "baddbmm": lambda x, batch1, batch2, beta=1, alpha=1: (beta * x if beta else 0) + alpha * (batch1 @ batch2),
    "cross": lambda x, y, axis=-1: np.cross(x, y, axis=axis),
    **{
        function.__name__: function
        for function in (
            triangular_solve, layer_norm, rms_norm, group_norm, batch_norm, batch_norm_train, batch_norm_parts, instance_norm,
            layer_norm_parts, local_response_norm, attention,
        )
    },
}  # fmt: skip
