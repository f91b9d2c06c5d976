"""Attention: softmax(q k^T scale + mask) v, with masks, causal or not, and with fewer key heads than query heads.

Where the process has machine code for it (`by_kernel`) that computes every call of real floating elements, of whatever sizes; elsewhere
the scores are computed whole, in NumPy. 16-bit floats are accumulated in float32 and rounded once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import trees
from ._rows import elements, own
from .linalg import product_type
from .numerics import float_tensor, quiet, softmax_parts
from .registry import OpInfo, Param

_Array = np.ndarray[Any, Any]


def _no_kernel(_q: _Array, _k: _Array, _v: _Array, _mask: _Array | None, _causal: bool, _scale: float) -> _Array | None:
    return None


by_kernel: Callable[[_Array, _Array, _Array, _Array | None, bool, float], _Array | None] = _no_kernel
"""Attention of three arrays of one floating element type by machine code; None where there is none, or shapes do not fit. The mask is bool
or of the type of accumulation and has two axes or more. Put in when the package is imported, so that the same calls have the same bits
throughout a process."""


def _repeat_heads(keys: _Array, heads: int, what: str) -> _Array:
    """Grouped-query attention: each key head serves heads / key heads query heads in a row."""
    if keys.ndim < 3 or keys.shape[-3] == heads or keys.shape[-3] == 1:
        return keys
    if heads % keys.shape[-3]:
        raise ValueError(f"attention: {heads} query heads are no multiple of {keys.shape[-3]} {what} heads")
    return np.repeat(keys, heads // keys.shape[-3], axis=-3)


def _masked(scores: _Array, mask: _Array | None, causal: bool) -> _Array:
    """What a causal mask hides stays hidden whatever the other one adds."""
    if mask is not None:
        scores = np.where(mask, scores, scores.dtype.type(-np.inf)) if mask.dtype == np.bool_ else scores + mask
    if causal:
        allowed = np.tri(scores.shape[-2], scores.shape[-1], dtype=np.bool_)
        scores = np.where(allowed, scores, scores.dtype.type(-np.inf))
    return scores


def _whole(q: _Array, k: _Array, v: _Array, mask: _Array | None, causal: bool, scale: Any) -> _Array:
    """The formula in NumPy, in the operands' type."""
    if q.ndim >= 3:
        k, v = _repeat_heads(k, q.shape[-3], "key"), _repeat_heads(v, q.shape[-3], "value")
    scores = _masked(np.matmul(q, np.swapaxes(k, -1, -2)) * scale, mask, causal)
    exps, totals = softmax_parts(scores, (scores.ndim - 1,))
    result: _Array = np.true_divide(np.matmul(exps, v), totals)
    return result


@functools.lru_cache(maxsize=64)
def usual_scale(kind: np.dtype[Any], size: int) -> Any:
    """1 / sqrt(size), in the type of computation."""
    with np.errstate(divide="ignore"):
        return kind.type(1.0 / np.sqrt(size))


def attention(q: Any, k: Any, v: Any, *, mask: Any = None, causal: Any = False, scale: Any = None) -> Any:
    """A row whose keys are all masked out is NaN, as its softmax is."""
    found = _as_they_are(q, k, v, mask, causal, scale)
    return _converted(q, k, v, mask, causal, scale) if found is None else found


def _as_they_are(q: Any, k: Any, v: Any, mask: Any, causal: Any, scale: Any) -> _Array | None:
    """Attention of arrays that the machine code takes as they are; None for others, and for wrong shapes."""
    if not (type(q) is type(k) is type(v) is np.ndarray and q.ndim > 1 and q.dtype == k.dtype == v.dtype):
        return None
    kind = trees.accumulator(q.dtype)
    if kind is None or kind.kind != "f":
        return None
    if mask is not None and not (type(mask) is np.ndarray and mask.ndim > 1 and mask.dtype in (np.bool_, kind)):
        return None
    if scale is None:
        return by_kernel(q, k, v, mask, bool(causal), float(usual_scale(kind, q.shape[-1])))
    if type(scale) is float and 1e-30 < abs(scale) < 1e30:
        return by_kernel(q, k, v, mask, bool(causal), float(kind.type(scale)))
    return None


@quiet
def _converted(q: Any, k: Any, v: Any, mask: Any, causal: Any, scale: Any) -> Any:
    """The same of anything that is a tensor. Raises ValueError where shapes do not fit."""
    arrays = queries, keys, values = float_tensor(q), float_tensor(k), float_tensor(v)
    if min(queries.ndim, keys.ndim, values.ndim) < 2 or queries.shape[-1] != keys.shape[-1] or keys.shape[-2] != values.shape[-2]:
        raise ValueError(f"attention: shapes {queries.shape}, {keys.shape}, {values.shape} are not (.., n, d), (.., m, d), (.., m, e)")
    result = product_type(*arrays)
    kind = trees.accumulator(result)
    assert kind is not None
    factor = usual_scale(kind, queries.shape[-1]) if scale is None else kind.type(scale)
    added = None if mask is None else trees.tensor(mask)
    if added is not None and added.dtype != np.bool_:
        added = added.astype(kind, copy=False)
    wide_q, wide_k, wide_v = wide = tuple(t.astype(kind, copy=False) for t in arrays)
    if factor.ndim == 0:
        first, second, third = arrays if {t.dtype for t in arrays} == {result} else wide
        plane = added.reshape(1, -1) if added is not None and added.ndim < 2 else added
        found = by_kernel(first, second, third, plane, bool(causal), float(factor))
        if found is not None:
            return found.astype(result, copy=False)
    return _whole(wide_q, wide_k, wide_v, added, bool(causal), factor).astype(result, copy=False)


def _attention_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    q, k, v = shapes[:3]
    scores = elements(q[:-1]) * k[-2]
    return 2.0 * scores * (q[-1] + v[-1]) + 25.0 * scores


ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        name="attention",
        family="nn",
        params=(
            Param("q", "tensor"),
            Param("k", "tensor"),
            Param("v", "tensor"),
            Param("mask", "tensor", None),
            Param("causal", default=False),
            Param("scale", default=None),
        ),
        definition=attention,
        doc="softmax(q @ k.T * scale + mask) @ v; a bool mask keeps where True; fewer key than query heads are shared in groups.",
        spellings=(own("attention", "q, k, v, mask=None, causal=False, scale=None"),),
        shape_rule="other",
        dtype_rule="float",
        policy=5,
        exact=False,
        flops=_attention_flops,
        gradient="attention_grad(g, q, k, v, mask)",
        fp_name="attention",
    ),
)
