"""Canonical algorithms that compute in float32 itself: the ones models call most, within 2 ulp and several times faster.

Written like those of `algorithms.py`, over a builder whose values are float32 and whose patterns
have 32 bits. It has a few operations more: `fma(a, c, d)` is a * c + d rounded once (NumPy's
builder computes the same bits without the instruction), `scale(y, n)` is y * 2^n rounded once,
`at_most` and `limit` bound a value. An algorithm here takes the place of the one of the same name
for float32, and so for the narrower types that are computed as float32.

A NaN goes through arithmetic with its bits, whichever operand the hardware takes it from: in `exp`
and `sigmoid` all of them are the same, in `tanh` they differ in the sign, which is set at the end; in `gelu` and `erf` only one is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from . import coefficients as k
from .algorithm_parts import INF, NAN, Result, nan_through

V = Any  # a builder's value


class SingleBuilder(Protocol):
    """What an algorithm may ask of a back end besides operators."""

    def select(self, mask: V, yes: V, no: V) -> V: ...
    def bits(self, x: V) -> V: ...
    def from_bits(self, i: V) -> V: ...
    def absolute(self, x: V) -> V: ...
    def fma(self, a: V, c: V, d: V) -> V: ...
    def scale(self, y: V, n: V) -> V: ...  # |n| < 300, a whole number
    def at_most(self, x: V, bound: float) -> V: ...  # NaN stays
    def at_least(self, x: V, bound: float) -> V: ...  # NaN stays


SingleAlgorithm = Callable[[SingleBuilder, V], Result]

MAGIC: Final = 12582912.0  # 1.5 * 2^23: adding it rounds to a whole number
TINY: Final = 1.1754943508222875e-38
SIGN: Final = 1 << 31
ONE: Final = 127 << 23  # the bits of 1.0
SQRT_HALF: Final = 0x3F3504F3  # the bits of sqrt(1/2)
MANTISSA: Final = (1 << 23) - 1
TWO23: Final = 0x4B000000  # the bits of 2^23


def horner(b: SingleBuilder, c: tuple[float, ...], x: V) -> V:
    """A polynomial, low order first, by fused steps."""
    y = b.fma(x, c[-1], c[-2])
    for a in reversed(c[:-2]):
        y = b.fma(y, x, a)
    return y


def copysign(b: SingleBuilder, magnitude: V, sign: V) -> V:
    """`magnitude` (without a sign) with the sign of `sign`."""
    return b.from_bits(b.bits(magnitude) | (b.bits(sign) & SIGN))


class Reduced(NamedTuple):
    """x = n log(2) + r, and (exp(r) - 1 - r) / r^2."""

    n: V
    r: V
    q: V


def reduced(b: SingleBuilder, x: V) -> Reduced:
    """For |x| < 120."""
    n = b.fma(x, k.LOG2E, MAGIC) - MAGIC
    r = b.fma(n, -k.LN2_LO32, b.fma(n, -k.LN2_HI32, x))
    return Reduced(n, r, horner(b, k.FIT32["EXP"], r))


def exp_of(b: SingleBuilder, x: V) -> V:
    """exp(x) for -120 < x < 90."""
    n, r, q = reduced(b, x)
    return b.scale(b.fma(r, b.fma(r, q, 1.0), 1.0), n)


def _tiny(b: SingleBuilder, y: V) -> V:
    return b.absolute(y) < TINY


def exp(b: SingleBuilder, x: V) -> Result:
    y = exp_of(b, b.at_most(b.at_least(x, -104.5), 89.5))
    flags = {"overflow": (y == INF) & (x < INF), "underflow": _tiny(b, y) & (x > -INF)}
    return Result(y, flags)


def log(b: SingleBuilder, x: V) -> Result:
    small = x < TINY
    u = b.select(small, x * 8388608.0, x)
    j = b.bits(u) + (ONE - SQRT_HALF)
    e = b.from_bits((j >> 23) | TWO23) - b.select(small, 8388608.0 + 150.0, 8388608.0 + 127.0)
    f = b.from_bits((j & MANTISSA) + SQRT_HALF) - 1.0
    z = f * f
    tail = b.fma(f * z, horner(b, k.FIT32["LOG"], f), e * k.LN2_LO32)
    y = b.fma(e, k.LN2_HI32, f + b.fma(z, -0.5, tail))
    y = b.select(x == 0.0, -INF, y)
    y = b.select(x < 0.0, NAN, y)
    y = b.select(x == INF, INF, y)
    return Result(nan_through(b, x, y), {"divide": x == 0.0, "invalid": x < 0.0})  # type: ignore[arg-type]


_EXP_NEGATED: Final = tuple((-1.0) ** i * c for i, c in enumerate(k.FIT32["EXP"]))  # of -r


def exp_of_negated(b: SingleBuilder, a: V) -> V:
    """exp(-a) for 0 <= a < 120, without a step for the sign, which a NaN would take along."""
    n = b.fma(a, -k.LOG2E, MAGIC) - MAGIC
    r = b.fma(n, k.LN2_LO32, b.fma(n, k.LN2_HI32, a))
    return b.scale(b.fma(r, b.fma(r, horner(b, _EXP_NEGATED, r), -1.0), 1.0), n)


def sigmoid(b: SingleBuilder, x: V) -> Result:
    # e / (1 + e) = e - e q and 1 / (1 + e) = 1 - q with q = e / (1 + e): the quotient's error counts less
    e = exp_of_negated(b, b.at_most(b.absolute(x), 104.5))
    side = b.select(x < 0.0, e, 1.0)
    y = b.fma(side, e / (-1.0 - e), side)
    return Result(y, {"underflow": _tiny(b, y) & (x > -INF)})


def silu(b: SingleBuilder, x: V) -> Result:
    # as sigmoid, times x: the rounding of exp and of the product are carried on, the power of two comes last
    below = x < 0.0
    limited = b.at_least(x, -110.0)
    n, r, q = reduced(b, -b.at_most(b.absolute(x), 110.0))
    rest = b.fma(r * r, q, r)
    high = rest + 1.0
    low = rest - (high - 1.0)
    e = b.scale(high, n)
    quotient = e / (e + 1.0)
    side = b.select(below, high, 1.0)
    c = limited * side
    c_low = b.fma(limited, b.select(below, low, 0.0), b.fma(limited, side, -c))
    y = c + b.fma(-c, quotient, b.fma(-c_low, quotient, c_low))
    y = b.scale(y, b.select(below, n, 0.0))
    y = b.select(x == -INF, -0.0, y)
    y = b.select((x == INF) | (x == 0.0), x, y)
    return Result(nan_through(b, x, y), {"underflow": _tiny(b, y) & (x < -1.0) & (x > -INF)})  # type: ignore[arg-type]


_EXPM1_2R: Final = tuple(2.0 ** (i + 1) * c for i, c in enumerate(k.FIT32["EXP"]))  # (exp(2r) - 1 - 2r) / 2r^2


def tanh(b: SingleBuilder, x: V) -> Result:
    # p = (exp(2a) - 1) / 2, a = |x| = n log(2)/2 + r (n is small where that matters, so one step does);
    # p / (p + 1) as p - p * p / (p + 1) up to p = 1, from there on as 1 - 1 / (p + 1)
    a = b.at_most(b.absolute(x), 9.1)
    n = b.fma(a, 2.0 * k.LOG2E, MAGIC) - MAGIC
    r = b.fma(n, -0.5 * k.LN2_HI32, a)
    power = b.scale(1.0, n)
    p = b.fma(power, b.fma(r * r, horner(b, _EXPM1_2R, r), r), b.fma(power, 0.5, -0.5))
    side = b.at_most(p, 1.0)
    return Result(copysign(b, b.absolute(b.fma(-side, side / (p + 1.0), side)), x), {})


def erf(b: SingleBuilder, x: V) -> Result:
    # x times a polynomial; beyond 0.9 as 1 - exp(-a q(a)), where the error of the exponential counts a fifth
    a = b.absolute(x)
    limited = b.select(a < 3.95, a, 3.95)
    far = 1.0 - exp_of_negated(b, limited * horner(b, k.FIT32["ERFC"], limited))
    near = b.fma(x, horner(b, k.FIT32["ERF"], x * x), x)
    return Result(b.select(a > 0.9, copysign(b, far, x), near), {})


class Tail(NamedTuple):
    """exp(-h) = (high + low) 2^n for h from 0 to 120; `low` is what rounding dropped."""

    high: V
    low: V
    n: V


def exp_tail(b: SingleBuilder, h: V, low: V) -> Tail:
    """exp(-h - low), `low` far smaller than h."""
    n = b.fma(h, -k.LOG2E, MAGIC) - MAGIC
    r = b.fma(n, k.LN2_LO32, b.fma(n, k.LN2_HI32, h)) + low
    rest = b.fma(r * r, horner(b, _EXP_NEGATED, r), -r)
    high = rest + 1.0
    return Tail(high, rest - (high - 1.0), n)


_CLOSED: Final = 6.0  # from here on gates are open: what they take away is less than half a last place


def _through(b: SingleBuilder, x: V, c: V, c_low: V, gate: V, gate_low: V, n: V) -> Result:
    """-t below 0 and x - t from there on, where t is (c + c_low)(gate + gate_low) 2^n; the power of two comes last."""
    t = b.scale(b.fma(c, gate, b.fma(c, gate_low, c_low * gate)), n)
    y = b.select(x < 0.0, -t, x - t)
    return Result(y, {"underflow": _tiny(b, y) & (x < -1.0) & (x > -INF)})


def _limited(b: SingleBuilder, x: V, low: float) -> V:
    """|x|, as far as it matters to a gate; something finite for a NaN."""
    return b.absolute(b.at_least(b.select(x < _CLOSED, x, _CLOSED), low))


def gelu(b: SingleBuilder, x: V) -> Result:
    # t = a (1 - Phi(a)) = exp(-a^2/2) p a / (a + 2); what rounding drops of the factors is carried on
    a = _limited(b, x, -14.75)
    half = 0.5 * a
    square = half * a
    e = exp_tail(b, square, b.fma(half, a, -square))
    sum_ = a + 2.0
    w = 1.0 / sum_
    error = b.fma(-w, a - (sum_ - 2.0), b.fma(-sum_, w, 1.0))  # relative, of w
    t = b.fma(w, -4.0, 1.0)
    first, *others = k.FIT32["TAIL"]
    inner = horner(b, tuple(others), t)
    p = b.fma(t, inner, first)
    p_low = b.fma(t, inner, first - p) + k.TAIL_LO32
    gate = p * e.high
    gate_low = b.fma(p, e.low, b.fma(p_low, e.high, b.fma(p, e.high, -gate)))
    c = a * w
    return _through(b, x, c, b.fma(c, error, b.fma(a, w, -c)), gate, gate_low, e.n)


def gelu_tanh(b: SingleBuilder, x: V) -> Result:
    # t = a / (1 + exp(h)), h = a (linear + cubic a^2) in two numbers, since it goes up to 108
    a = _limited(b, x, -10.85)
    square = a * a
    cubic = square * k.GELU_CUBIC32
    factor = cubic + k.GELU_LINEAR32
    d = factor - cubic
    dropped = (cubic - (factor - d)) + (k.GELU_LINEAR32 - d)
    cubic_low = b.fma(square, k.GELU_CUBIC_LO32, b.fma(square, k.GELU_CUBIC32, -cubic))
    cubic_low = b.fma(b.fma(a, a, -square), k.GELU_CUBIC32, cubic_low) + k.GELU_LINEAR_LO32
    h = a * factor
    e = exp_tail(b, h, b.fma(a, dropped + cubic_low, b.fma(a, factor, -h)))
    power = b.scale(e.high, e.n)
    sum_ = power + 1.0
    w = 1.0 / sum_
    sum_low = b.fma(b.scale(1.0, e.n), e.low, power - (sum_ - 1.0))
    error = b.fma(-w, sum_low, b.fma(-sum_, w, 1.0))
    c = a * w
    return _through(b, x, c, b.fma(c, error, b.fma(a, w, -c)), e.high, e.low, e.n)


def exp2(b: SingleBuilder, x: V) -> Result:
    limited = b.at_most(b.at_least(x, -151.0), 129.0)
    n = (limited + MAGIC) - MAGIC
    r = limited - n
    y = b.scale(b.fma(r, horner(b, k.FIT32["EXP2"], r), 1.0), n)
    exact = (r == 0.0) & (y != 0.0)
    return Result(y, {"overflow": (y == INF) & (x < INF), "underflow": _tiny(b, y) & (x > -INF) & ~exact})


def _softplus(b: SingleBuilder, x: V) -> V:
    # max(x, 0) + log(1 + e), e = exp(-|x|); e matters up to x = 30
    e = exp_of_negated(b, b.absolute(b.at_least(b.select(x < 30.0, x, 30.0), -104.5)))
    open_ = b.at_least(x, 0.0)
    sum_ = open_ + e
    d = sum_ - open_
    dropped = (open_ - (sum_ - d)) + (e - d)
    return sum_ + b.fma(e, e * horner(b, k.FIT32["LOG1P"], e), b.select(x < 30.0, dropped, 0.0))


def softplus(b: SingleBuilder, x: V) -> Result:
    y = _softplus(b, x)
    return Result(y, {"underflow": _tiny(b, y) & (x > -INF)})


def logsigmoid(b: SingleBuilder, x: V) -> Result:
    y = -_softplus(b, -x)
    return Result(y, {"underflow": _tiny(b, y) & (x < INF)})


SINGLE: Final[dict[str, SingleAlgorithm]] = {
    function.__name__: function for function in (exp, log, sigmoid, silu, tanh, erf, gelu, gelu_tanh, exp2, softplus, logsigmoid)
}
