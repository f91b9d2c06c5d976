"""The encoder as a plain function over arrays, in NumPy's and `bcvm.ops`' words, and as a formula in any float type."""

from __future__ import annotations

import math
from typing import Any

import network_data as data
import numpy as np

from bcvm_core import ops


def heads(x: Any, count: int) -> Any:
    """(batch, length, width) to (batch, heads, length, width of a head)."""
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(0, 2, 1, 3)


def layer(x: Any, mask: Any, w: Any) -> Any:
    """One layer of the encoder."""
    q, k, v = (heads(ops.linear(x, w[f"{n}.w"], bias=w[f"{n}.b"]), data.HEADS) for n in "qkv")
    seen = ops.attention(q, k, v, mask=mask).transpose(0, 2, 1, 3).reshape(x.shape)
    x = ops.layer_norm(x + ops.linear(seen, w["o.w"], bias=w["o.b"]), weight=w["norm1.w"], bias=w["norm1.b"], eps=data.EPS)
    wide = ops.gelu(ops.linear(x, w["up.w"], bias=w["up.b"]))
    return ops.layer_norm(x + ops.linear(wide, w["down.w"], bias=w["down.b"]), weight=w["norm2.w"], bias=w["norm2.b"], eps=data.EPS)


def encoder(ids: Any, mask: Any, weights: Any, layers: Any) -> Any:
    """The whole encoder; `layers`: the weights of each."""
    x = ops.embedding(ids, weights["words"]) + weights["places"][: ids.shape[1]]
    x = ops.layer_norm(x, weight=weights["norm.w"], bias=weights["norm.b"], eps=data.EPS)
    for w in layers:
        x = layer(x, mask, w)
    return x


def by_layer(weights: data.Arrays, layers: int) -> list[data.Arrays]:
    """The weights of each layer, without its number."""
    return [{n.partition(".")[2]: a for n, a in weights.items() if n.startswith(f"{k}.")} for k in range(layers)]


def _norm(x: Any, w: Any, b: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + data.EPS) * w + b


def reference(ids: Any, mask: Any, weights: data.Arrays, layers: int, count: int = data.HEADS) -> Any:
    """The encoder's formula in float64."""
    erf = np.vectorize(math.erf)
    w64 = {name: array.astype(np.float64) for name, array in weights.items()}
    x = _norm(w64["words"][ids] + w64["places"][: ids.shape[1]], w64["norm.w"], w64["norm.b"])
    for w in by_layer(w64, layers):
        q, k, v = (heads(x @ w[f"{n}.w"].T + w[f"{n}.b"], count) for n in "qkv")
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + mask
        exps = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (exps / exps.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = _norm(x + seen @ w["o.w"].T + w["o.b"], w["norm1.w"], w["norm1.b"])
        wide = x @ w["up.w"].T + w["up.b"]
        x = _norm(x + wide * 0.5 * (1 + erf(wide / math.sqrt(2))) @ w["down.w"].T + w["down.b"], w["norm2.w"], w["norm2.b"])
    return x
