"""Elementwise ops with reductions and norms among them, as NumPy, BCVM and torch spell them: functions of (x, y, w, b).

`x` and `y` are of the shape that is measured, `w` and `b` of the length of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Form = Callable[[Any, Any, Any, Any], Any]
FORMS = (
    *("scaled_softmax", "squared_distance", "relu_mean", "residual_norm", "norm_written_out", "less_logsumexp"),
    *("softmax_written_out", "masked_log_softmax"),
)


def squared_distance(x: Any, y: Any, w: Any, b: Any) -> Any:
    return np.sum((x - y) ** 2)


def relu_mean(x: Any, y: Any, w: Any, b: Any) -> Any:
    return np.mean(np.maximum(x + b, 0), axis=-1)


def norm_written_out(x: Any, y: Any, w: Any, b: Any) -> Any:
    return (x - np.mean(x, -1, keepdims=True)) / np.sqrt(np.var(x, -1, keepdims=True) + 1e-5) * w + b


def softmax_written_out(x: Any, y: Any, w: Any, b: Any) -> Any:
    return np.exp(x - x.max(-1, keepdims=True)) / np.sum(np.exp(x - x.max(-1, keepdims=True)), -1, keepdims=True)


_SHARED = (squared_distance, relu_mean, norm_written_out, softmax_written_out)


def in_numpy() -> dict[str, Form]:
    """NumPy alone."""

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def logsumexp(x: Any) -> Any:
        m = x.max(-1, keepdims=True)
        return np.log(np.exp(x - m).sum(-1, keepdims=True)) + m

    def masked_log_softmax(x: Any, y: Any, w: Any, b: Any) -> Any:
        z = np.where(y > 0, x, -1e9)
        return z - logsumexp(z)

    return {
        "scaled_softmax": lambda x, y, w, b: softmax(x * w + b),
        "residual_norm": lambda x, y, w, b: norm_written_out(x + y, y, w, b),
        "less_logsumexp": lambda x, y, w, b: x - logsumexp(x),
        "masked_log_softmax": masked_log_softmax,
        **{f.__name__: f for f in _SHARED},
    }


def in_bcvm() -> dict[str, Form]:
    """NumPy and `bcvm.ops`, jitted."""
    import bcvm_core as bcvm
    from bcvm_core import ops

    def scaled_softmax(x: Any, y: Any, w: Any, b: Any) -> Any:
        return ops.softmax(x * w + b)

    def residual_norm(x: Any, y: Any, w: Any, b: Any) -> Any:
        return ops.layer_norm(x + y, weight=w, bias=b)

    def less_logsumexp(x: Any, y: Any, w: Any, b: Any) -> Any:
        return x - ops.logsumexp(x, axis=-1, keepdims=True)

    def masked_log_softmax(x: Any, y: Any, w: Any, b: Any) -> Any:
        return ops.log_softmax(np.where(y > 0, x, -1e9))

    return {f.__name__: bcvm.jit(f) for f in (scaled_softmax, residual_norm, less_logsumexp, masked_log_softmax, *_SHARED)}


def in_torch(compiled: bool) -> dict[str, Form]:
    """torch, eager or by `torch.compile`."""
    import torch
    from torch.nn import functional

    def norm(x: Any, y: Any, w: Any, b: Any) -> Any:
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, correction=0) + 1e-5) * w + b

    def softmax(x: Any, y: Any, w: Any, b: Any) -> Any:
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)

    found: dict[str, Form] = {
        "scaled_softmax": lambda x, y, w, b: torch.softmax(x * w + b, -1),
        "squared_distance": lambda x, y, w, b: torch.sum((x - y) ** 2),
        "relu_mean": lambda x, y, w, b: torch.relu(x + b).mean(-1),
        "residual_norm": lambda x, y, w, b: functional.layer_norm(x + y, x.shape[-1:], w, b),
        "norm_written_out": norm,
        "less_logsumexp": lambda x, y, w, b: x - torch.logsumexp(x, -1, keepdim=True),
        "softmax_written_out": softmax,
        "masked_log_softmax": lambda x, y, w, b: torch.log_softmax(torch.where(y > 0, x, -1e9), -1),
    }
    return {name: torch.compile(f) for name, f in found.items()} if compiled else found
