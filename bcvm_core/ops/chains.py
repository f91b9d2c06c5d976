"""Chained products (see `products.py`) in NumPy: the same bits as the machine code, where there is none. Slow, and meant to be.

A fused multiply-add rounds once. Here it is computed wider, rounded to odd, which no second rounding can spoil, and then rounded.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .. import fpstatus
from . import trees

_Array = np.ndarray[Any, Any]
DEPTH: Final = 256  # terms of a partial sum
_SPLITTER: Final = 134217729.0  # 2**27 + 1: halves of a double
_LARGE, _SMALL = 2.0**900, 2.0**-900


def multiply(a: _Array, b: _Array) -> _Array:
    """The product of (..., m, k) and (..., k, n), both float32 or both float64, k > 0."""
    single = a.dtype == trees.F32
    fused = _fused32 if single else _fused64
    with np.errstate(all="ignore"):
        total: Any = None
        for start in range(0, a.shape[-1], DEPTH):
            part: Any = np.zeros((), a.dtype)
            for k in range(start, min(start + DEPTH, a.shape[-1])):
                part = fused(a[..., :, k, None], b[..., k, None, :], part)
            total = part if total is None else total + part
    made = np.asarray(total)
    _report(a, b, made)
    return made


def _report(a: _Array, b: _Array, made: _Array) -> None:
    """What NumPy warns about: infinities out of finite numbers, and NaNs out of others."""
    for kind, found, given in (("overflow", np.isinf, np.isinf), ("invalid", np.isnan, np.isnan)):
        if (found(made) & ~given(a).any(-1)[..., :, None] & ~given(b).any(-2)[..., None, :]).any():
            fpstatus.note(kind, "matmul", 4)


def _fused32(a: _Array, b: _Array, c: _Array) -> _Array:
    """a * b + c of float32, rounded once: the product is exact in float64."""
    return odd_sum(a.astype(trees.F64) * b.astype(trees.F64), np.asarray(c, trees.F64)).astype(trees.F32)


def odd_sum(x: _Array, y: _Array) -> _Array:
    """x + y of float64; where it is not exact, the neighbour of it whose last bit is set."""
    total, rest = _two_sum(x, y)
    bits = np.ascontiguousarray(total).view(np.int64)
    inexact = (rest != 0) & np.isfinite(total) & np.isfinite(rest) & ((bits & 1) == 0)
    away = np.where((rest > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + away, bits).view(trees.F64)


def _two_sum(x: _Array, y: _Array) -> tuple[_Array, _Array]:
    """The rounded sum, and what rounding left out."""
    total = np.asarray(x + y)
    part: _Array = total - x
    return total, np.asarray((x - (total - part)) + (y - part))


def _halves(x: _Array) -> tuple[_Array, _Array]:
    wide = x * _SPLITTER
    high = wide - (wide - x)
    return high, x - high


def _fused64(a: _Array, b: _Array, c: Any) -> _Array:
    """a * b + c of float64, rounded once (Boldo and Melquiond, 2008); where parts of it may over- or underflow, in fractions."""
    product = a * b
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    rest = ((ah * bh - product) + ah * bl + al * bh) + al * bl
    low, lower = _two_sum(c, rest)
    high, middle = _two_sum(product, low)
    made = high + odd_sum(lower, middle)
    plain = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, product + c)
    nothing = (a == 0) | (b == 0) | ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    made = np.asarray(np.where(nothing, plain, made))
    sizes = [np.abs(v) for v in (a, b, product, c)]
    hard = ~nothing & ((np.maximum(np.maximum(sizes[0], sizes[1]), np.maximum(sizes[2], sizes[3])) > _LARGE) | (sizes[2] < _SMALL))
    if hard.any():
        wide = [np.broadcast_to(v, made.shape) for v in (a, b, c)]
        for at in zip(*np.nonzero(hard), strict=True):
            made[at] = _exactly(*(float(v[at]) for v in wide))
    return made


def _exactly(a: float, b: float, c: float) -> float:
    """a * b + c of finite numbers, a and b not 0."""
    from fractions import Fraction  # rarely needed, and slow to import

    found = Fraction(a) * Fraction(b) + Fraction(c)
    if not found:
        return 0.0
    try:
        made = float(found)
    except OverflowError:
        made = float("inf")
    return float(np.copysign(made, float(found > 0) - 0.5))
