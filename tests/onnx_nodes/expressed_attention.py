"""Attention in its forms, and rotary positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core import ops
from tests.onnx_nodes.element_types import numpy_type
from tests.onnx_nodes.table import op, part


@part
def by_heads(x: Any, heads: int | None) -> Any:
    """(batch, length, heads * width) as (batch, heads, length, width)."""
    return x if heads is None or x.ndim == 4 else x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


@op("Attention")
def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    nonpad: Any = None,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    left_window_size: int = -1,
    right_window_size: int = -1,
    outputs: int = 1,
) -> Any:
    packed = q.ndim == 3
    q, k, v = by_heads(q, q_num_heads), by_heads(k, kv_num_heads), by_heads(v, kv_num_heads)
    past = 0
    if past_key is not None:
        past = past_key.shape[2]
        k, v = np.concatenate([past_key, k], axis=2), np.concatenate([past_value, v], axis=2)
    windows = left_window_size >= 0 or right_window_size >= 0
    special = windows or bool(softcap) or nonpad is not None or softmax_precision is not None or outputs == 4 or bool(is_causal and past)
    if mask is not None and mask.dtype == np.bool_:  # a row that sees nothing is 0 in ONNX, NaN in `ops.attention`
        special = special or bool(is_causal) or not mask.any(axis=-1).all()
    if not special and q.dtype == np.float32 and (mask is None or mask.shape[-1] == k.shape[2]):
        y, scores = ops.attention(q, k, v, mask=mask, causal=bool(is_causal), scale=scale), None
    else:
        offset = np.reshape(nonpad, (-1, 1, 1, 1)) - q.shape[2] if nonpad is not None else past
        bias = bias_of(q, k, mask, nonpad, offset, is_causal, left_window_size, right_window_size)
        precision = None if softmax_precision is None else numpy_type(softmax_precision)
        y, scores = attended(q, k, v, bias, scale, softcap, precision, qk_matmul_output_mode)
    if packed:
        y = y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)
    return y, k, v, scores


@part
def bias_of(q: Any, k: Any, mask: Any, nonpad: Any, offset: Any, causal: int, left: int, right: int) -> Any:
    """What is added to the scores: 0 or the mask where a query sees a key, -inf elsewhere."""
    rows, columns = q.shape[2], k.shape[2]
    bias = np.zeros((rows, columns), q.dtype)
    if mask is not None:
        if mask.dtype == np.bool_:
            mask = np.where(mask, 0.0, -np.inf).astype(q.dtype)
        short = columns - mask.shape[-1]
        bias = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, short)], constant_values=-np.inf) if short else mask
    behind = np.arange(rows)[:, None] + offset - np.arange(columns)  # how far a key lies behind a query
    hidden = np.zeros(behind.shape, bool)
    if causal:
        hidden = hidden | (behind < 0)
    if left >= 0:
        hidden = hidden | (behind > left)
    if right >= 0:
        hidden = hidden | (-behind > right)
    if nonpad is not None:
        hidden = hidden | (np.arange(columns) >= nonpad.reshape(-1, 1, 1, 1))
    shape = np.broadcast_shapes(hidden.shape, bias.shape)
    return ops.masked_fill(np.broadcast_to(bias, shape), hidden, -np.inf)


@part
def softmax(x: Any) -> Any:
    """Over the last axis; 16 bits are rounded at every step, as ONNX has it, where `ops.softmax` rounds once."""
    if x.dtype.itemsize > 2:
        return ops.softmax(x)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@part
def attended(q: Any, k: Any, v: Any, bias: Any, scale: float | None, softcap: float, precision: Any, mode: int) -> Any:
    """(the attention, what `mode` shows of the scores), in the steps in which ONNX rounds."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
    root = np.sqrt(1 / np.sqrt(q.shape[-1]) if scale is None else scale).astype(q.dtype)
    scores = ((q * root) @ (np.swapaxes(k, 2, 3) * root)).astype(q.dtype)  # NumPy multiplies bfloat16 as float32
    shown = scores
    if softcap:
        scores = ops.tanh(scores / softcap) * softcap
        shown = scores if mode == 1 else shown
    scores = scores + bias
    shown = scores if mode == 2 else shown
    masked = np.isneginf(bias).all(axis=-1, keepdims=True)
    if precision is not None:
        scores = scores.astype(precision)
    shares = ops.masked_fill(softmax(scores), masked, 0).astype(q.dtype)
    return (shares @ v).astype(q.dtype), shares if mode == 3 else shown.astype(q.dtype)


@op("FlexAttention")
def flex_attention(
    q: Any, k: Any, v: Any, graph: Any, scale: float | None = None, score_mod: Any = None, prob_mod: Any = None, softmax_precision: int = 0
) -> Any:
    groups = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
    precision = numpy_type(softmax_precision) if softmax_precision else np.promote_types(q.dtype, np.float32)
    scores = (q @ np.swapaxes(k, 2, 3)).astype(precision) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores.astype(precision)
    if score_mod is not None:
        (scores,) = graph(score_mod, scores)
    shares = ops.softmax(scores)
    if prob_mod is not None:
        (shares,) = graph(prob_mod, shares)
    return (shares.astype(q.dtype) @ v).astype(q.dtype)


@op("LinearAttention")
def linear_attention(
    q: Any,
    k: Any,
    v: Any,
    state: Any = None,
    decay: Any = None,
    beta: Any = None,
    chunk_size: int = 64,
    kv_num_heads: int = 1,
    q_num_heads: int = 1,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> Any:
    kind = np.promote_types(q.dtype, np.float32)
    q4, k4, v4 = (by_heads(x, n).astype(kind) for x, n in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads)))
    factor = scale or 1 / np.sqrt(q4.shape[-1])
    memory = np.zeros((*k4.shape[:2], k4.shape[3], v4.shape[3]), kind) if state is None else state.astype(kind)
    found = []
    for t in range(q4.shape[2]):
        key, value = k4[:, :, t], v4[:, :, t]
        if "gated" in update_rule:
            gate = np.exp(decay[:, t].astype(kind)).reshape(len(decay), kv_num_heads, -1, 1)
            memory = gate * memory
        if "delta" in update_rule:
            rate = beta[:, t].astype(kind).reshape(len(beta), -1, 1)
            value = rate * (value - np.einsum("bhkv,bhk->bhv", memory, key))
        memory = memory + key[..., None] * value[:, :, None]
        shared = np.repeat(memory, q_num_heads // kv_num_heads, axis=1)
        found.append(factor * np.einsum("bhk,bhkv->bhv", q4[:, :, t], shared))
    y = np.stack(found, axis=1)
    return y.reshape(*y.shape[:2], -1).astype(q.dtype), memory.astype(q.dtype if state is None else state.dtype)


@op("CausalConvWithState")
def causal_conv(x: Any, w: Any, bias: Any = None, past: Any = None, activation: str = "none") -> Any:
    before = w.shape[2] - 1
    past = np.zeros((*x.shape[:2], before), x.dtype) if past is None else past
    wide = np.concatenate([past, x], axis=2)
    y = ops.conv1d(wide, w, bias=bias, groups=x.shape[1])
    return ops.silu(y) if activation in ("silu", "swish") else y, wide[:, :, wide.shape[2] - before :]


@op("RotaryEmbedding")
def rotary_embedding(
    x: Any, cosines: Any, sines: Any, places: Any = None, interleaved: int = 0, rotary_embedding_dim: int = 0, num_heads: int = 0
) -> Any:
    rows = x.transpose(0, 2, 1, 3) if x.ndim == 4 else x.reshape(*x.shape[:2], num_heads, -1)
    width = rotary_embedding_dim or rows.shape[-1]
    turned, rest = rows[..., :width], rows[..., width:]
    if places is not None:
        cosines, sines = cosines[places], sines[places]
    cosines, sines = np.expand_dims(cosines, 2), np.expand_dims(sines, 2)
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else np.split(turned, 2, axis=-1)
    real, imaginary = cosines * a - sines * b, sines * a + cosines * b
    if interleaved:
        turned = np.stack([real, imaginary], axis=-1).reshape(turned.shape)
    else:
        turned = np.concatenate([real, imaginary], axis=-1)
    y = np.concatenate([turned, rest], axis=-1)
    return y.transpose(0, 2, 1, 3) if x.ndim == 4 else y.reshape(x.shape)
