"""Canonical algorithms of saturating functions: tanh, the logistic family, the error function, GELU.

See `algorithms.py` for the rules they are written by.
"""

from __future__ import annotations

from typing import NamedTuple

from . import coefficients as k
from .algorithm_parts import (
    F32,
    F64,
    INF,
    NEAR,
    Builder,
    Result,
    V,
    copysign,
    exp_negative,
    exp_tail,
    expm1_parts,
    high,
    log1p_of,
    nan_through,
    poly_wide,
    power_of_two,
    scale,
    tiny,
    two_product,
    two_sum,
)

# -- hyperbolic tangent, logistic functions ------------------------------------------------------


def tanh(b: Builder, x: V, p: int) -> Result:
    a = b.absolute(x)
    parts = expm1_parts(b, 2.0 * b.select(a > 22.0, 22.0, a), p)
    power = power_of_two(b, parts.pattern)
    t = parts.hi * power
    # t / (t + 2); from 1/2 on as 1 - 2 / (t + 2), where the quotient's error counts less
    near_one = a > 0.55
    denominator = 2.0 + t
    quotient = b.select(near_one, 2.0, t) / denominator
    small = quotient
    if p == F64:
        low = parts.lo * power
        dropped = ((2.0 - denominator) + t) + low
        small = quotient + (low - quotient * dropped) * (0.5 - 0.5 * quotient)
    y = copysign(b, b.select(near_one, 1.0 - quotient, small), x)
    return Result(nan_through(b, x, b.select(x == 0.0, x, y)), {})


class _Gate(NamedTuple):
    """(y + low) 2^n; `low` and `n` are None for F32, where they are 0."""

    y: V
    low: V
    n: V


def _logistic(b: Builder, x: V, a: V, p: int, low: V = None) -> _Gate:
    """1 / (1 + exp(-a)) where x >= 0, 1 / (1 + exp(a)) where x < 0; a >= 0."""
    below = x < 0.0
    if p == F32:
        e = exp_negative(b, a, p)
        return _Gate(b.select(below, e, 1.0) / (1.0 + e), None, None)
    tail = exp_tail(b, a, low)
    e = tail.value
    denominator = 1.0 + e
    dropped = ((1.0 - denominator) + e) + tail.lo * tail.power
    q = b.select(below, tail.hi, 1.0) / denominator
    inverse = b.select(below, 1.0 - q * tail.power, q)
    return _Gate(q, (b.select(below, tail.lo, 0.0) - q * dropped) * inverse, b.select(below, tail.n, 0.0))


def _through(b: Builder, x: V, gate: _Gate) -> V:
    """x times the gate; the power of two comes last, so that no digit is lost among the subnormals."""
    if gate.n is None:
        return x * gate.y
    x = b.select(x < -1400.0, -1400.0, x)  # the product is 0 from there on
    return scale(b, x * gate.y + x * gate.low, gate.n, None, F64)


def _gate_result(b: Builder, x: V, y: V, p: int) -> Result:
    """The end of x times a gate that opens towards inf and closes towards -inf, where the product is a zero."""
    y = b.select(x == -INF, -0.0, y)
    y = b.select(x == INF, INF, y)
    return Result(nan_through(b, x, y), {"underflow": tiny(b, y, p) & (x < -1.0) & (x > -INF)})


def sigmoid(b: Builder, x: V, p: int) -> Result:
    gate = _logistic(b, x, b.absolute(x), p)
    y = gate.y if gate.n is None else scale(b, gate.y + gate.low, gate.n, None, p)
    return Result(nan_through(b, x, y), {"underflow": tiny(b, y, p) & (x > -INF)})


def silu(b: Builder, x: V, p: int) -> Result:
    return _gate_result(b, x, _through(b, x, _logistic(b, x, b.absolute(x), p)), p)


def _softplus_of(b: Builder, x: V, p: int) -> V:
    e = exp_negative(b, b.absolute(x), p)
    tail = b.select(e < 1e-300, e, log1p_of(b, e, p)) if p == F64 else log1p_of(b, e, p)
    return b.select(x > 0.0, x, 0.0) + tail


def softplus(b: Builder, x: V, p: int) -> Result:
    y = _softplus_of(b, x, p)
    return Result(nan_through(b, x, y), {"underflow": tiny(b, y, p) & (x > -INF)})


def logsigmoid(b: Builder, x: V, p: int) -> Result:
    y = -_softplus_of(b, -x, p)
    return Result(nan_through(b, x, y), {"underflow": tiny(b, y, p) & (x < INF)})


def mish(b: Builder, x: V, p: int) -> Result:
    # tanh(log(1 + e)) is rational in e = exp(x); above 0 written in exp(-x)
    below = x < 0.0
    if p == F32:
        e = exp_negative(b, b.absolute(x), p)
        w = e * (e + 2.0)
        ratio = b.select(below, w / (w + 2.0), 1.0 - 2.0 * e * e / (1.0 + 2.0 * e * (1.0 + e)))
        return _gate_result(b, x, x * ratio, p)
    # numerator and denominator in two doubles each: w and 2 + w below, 1 + 2e and 1 + 2e + 2e^2 above
    tail = exp_tail(b, b.absolute(x))
    e, e_low = tail.value, tail.lo * tail.power
    s = 2.0 + e
    w, w_low = two_product(b, tail.hi, s)
    w_low = w_low + (tail.hi * (((2.0 - s) + e) + e_low) + tail.lo * s)
    v, v_low = two_sum(1.0, 2.0 * e)
    v_low = v_low + 2.0 * e_low
    square, square_low = two_product(b, e, e)
    square_low = square_low + 2.0 * e * e_low
    numerator, numerator_low = b.select(below, w, v), b.select(below, w_low, v_low)
    denominator, dropped = two_sum(b.select(below, 2.0, v), b.select(below, w * tail.power, 2.0 * square))
    dropped = dropped + b.select(below, w_low * tail.power, v_low + 2.0 * square_low)
    q = numerator / denominator
    gate = _Gate(q, (numerator_low - q * dropped) / denominator, b.select(below, tail.n, 0.0))
    return _gate_result(b, x, _through(b, x, gate), p)


# -- error function and GELU ---------------------------------------------------------------------


def _erfc_rest(b: Builder, x: V, p: int) -> V:
    """erf(x) - x for |x| <= 1."""
    return x * poly_wide(k.FIT["ERF"][p], x * x)


def _erfcx(b: Builder, a: V, p: int, low: V = 0.0) -> tuple[V, V]:
    """exp(a a) erfc(a + low) as a sum; a >= 0 for F32 (where the second part is None), a >= NEAR for F64."""
    c = k.FIT["ERFCX"][p]
    if p == F32:  # one division instead of two; there are digits to spare
        sum_, denominator = a + 4.0, 1.0 + 2.0 * a
        inverse = 1.0 / (sum_ * denominator)
        return poly_wide(c, (a - 4.0) * denominator * inverse) * (sum_ * inverse), None
    t = (a - 2.0) / (a + 2.0)
    rest = t * poly_wide(c[1:], t)
    numerator = rest + c[0]
    denominator, dropped = two_sum(2.0 * a, 1.0)
    q = numerator / denominator
    # the numerator is about 1.2, near enough to 1 / 0.83 to divide a correction by the denominator
    numerator_low = ((c[0] - numerator) + rest) + k.ERFCX_LO
    return q, (numerator_low - q * (dropped + 2.0 * low)) * (q * 0.83)


def _erfc_positive(b: Builder, a: V, p: int) -> V:
    """erfc(a) for a >= 0."""
    limit = (12.0, 28.0)[p]
    a = b.select(a > limit, limit, a)
    q, q_low = _erfcx(b, a, p)
    if p == F32:
        return q * exp_negative(b, a * a, p)
    head = high(b, a)  # head * head is exact, so the exponent loses nothing
    e = exp_tail(b, head * head, (a - head) * (a + head))
    tail = scale(b, q * e.hi + (q * e.lo + q_low * e.hi), e.n, None, p)
    return b.select(a < NEAR, (1.0 - a) - _erfc_rest(b, a, p), tail)


def erf(b: Builder, x: V, p: int) -> Result:
    a = b.absolute(x)
    small = x + _erfc_rest(b, x, p)
    y = b.select(a < 1.0, small, copysign(b, 1.0 - _erfc_positive(b, a, p), x))
    return Result(nan_through(b, x, b.select(x == 0.0, x, y)), {})


def erfc(b: Builder, x: V, p: int) -> Result:
    y = _erfc_positive(b, b.absolute(x), p)
    y = b.select(x < 0.0, 2.0 - y, y)
    return Result(nan_through(b, x, y), {"underflow": tiny(b, y, p) & (x < INF)})


def gelu(b: Builder, x: V, p: int) -> Result:
    # x Phi(x); below 0 Phi is the tail, so it is built from erfcx and loses no digits
    below = x < 0.0
    a = b.absolute(x)
    limit = (20.0, 40.0)[p]
    a = b.select(a > limit, limit, a)
    root = a * k.SQRT_HALF
    if p == F32:
        q, _ = _erfcx(b, root, p)
        tail = 0.5 * q * exp_negative(b, 0.5 * a * a, p)
        return _gate_result(b, x, x * b.select(below, tail, 1.0 - tail), p)
    head = high(b, a)
    e = exp_tail(b, 0.5 * head * head, 0.5 * (a - head) * (a + head))
    root_low = ((head * k.SQRT_HALF_1 - root) + (a - head) * k.SQRT_HALF_1) + a * k.SQRT_HALF_2
    q, q_low = _erfcx(b, root, p, root_low)
    density = e.hi * e.power * k.INV_SQRT_PI
    side = b.select(below, -1.0, 1.0)
    near, dropped = two_sum(0.5, side * (0.5 * root))
    near = near + (dropped + side * (0.5 * _erfc_rest(b, root, p) + density * root_low))
    is_near = root < NEAR
    # x times the tail with the product in two doubles, the power of two last
    product, product_low = two_product(b, -0.5 * a, e.hi)
    product_low = product_low - 0.5 * a * e.lo
    far = scale(b, q * product + (q * product_low + q_low * product), e.n, None, p)
    y = b.select(below & ~is_near, far, x * b.select(is_near, near, 1.0 - 0.5 * q * e.value))
    return _gate_result(b, x, y, p)


def gelu_tanh(b: Builder, x: V, p: int) -> Result:
    # x (1 + tanh(u)) / 2 = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
    a = b.absolute(x)
    limit = (20.0, 30.0)[p]
    a = b.select(a > limit, limit, a)
    if p == F32:
        cubic = (k.GELU_CUBIC_HI + k.GELU_CUBIC_LO) * (a * a)
        gate = _logistic(b, x, 2.0 * a * (k.SQRT_2_OVER_PI_HI + k.SQRT_2_OVER_PI_LO + cubic), p)
    else:  # the exponent reaches -746, so u is carried in two doubles
        square, square_low = two_product(b, a, a)
        head = high(b, square)
        factor, low = two_sum(head * k.GELU_CUBIC_HI, k.SQRT_2_OVER_PI_HI)
        low = low + ((square - head) * k.GELU_CUBIC_HI + (square * k.GELU_CUBIC_LO + square_low * k.GELU_CUBIC_HI) + k.SQRT_2_OVER_PI_LO)
        factor, low = two_sum(factor, low)
        u, u_low = two_product(b, a, factor)
        gate = _logistic(b, x, 2.0 * u, p, 2.0 * (u_low + a * low))
    return _gate_result(b, x, _through(b, x, gate), p)
