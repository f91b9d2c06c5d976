"""Building blocks of the canonical algorithms: constants, exact sums and products, reduced exponentials and logarithms.

Written over a `Builder` like the algorithms themselves; see `algorithms.py` for what that means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from . import coefficients as k

F32: Final = 0
F64: Final = 1

V = Any  # a builder's value


class Builder(Protocol):
    """What an algorithm may ask of a back end besides operators."""

    def select(self, mask: V, yes: V, no: V) -> V: ...
    def bits(self, x: V) -> V: ...
    def from_bits(self, i: V) -> V: ...
    def absolute(self, x: V) -> V: ...
    def is_normal_power(self, n: V) -> bool: ...  # whether 2^n is known to be a normal number in every lane


class Result(NamedTuple):
    """`flags`: kind -> mask; the kind "large" asks for the exact reduction of `large.py` on those elements."""

    value: V
    flags: dict[str, V]


Algorithm = Callable[[Builder, V, int], Result]

INF: Final = math.inf
NAN: Final = math.nan
MAGIC: Final = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits
TWO52: Final = 0x4330000000000000  # the bits of 2^52
MANTISSA: Final = (1 << 52) - 1
ONE: Final = 1023 << 52  # the bits of 1.0
SQRT_HALF: Final = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
SIGN: Final = 1 << 63
HIGH: Final = ((1 << 64) - 1) ^ ((1 << 27) - 1)  # keeps 26 significant bits, whose products are exact
HIGH21: Final = ((1 << 64) - 1) ^ ((1 << 32) - 1)  # keeps 21 significant bits
TINY: Final = (1.1754943508222875e-38, 2.2250738585072014e-308)  # smallest normal numbers
HUGE: Final = (float.fromhex("0x1.ffffffp127"), INF)  # what rounds to infinity, from here on
NEAR: Final = 0.75  # below this the complementary error function is 1 minus a polynomial (F64)
LARGE: Final = 1048576.0  # sine and cosine reduce larger arguments with `large.py`


def poly(c: tuple[float, ...], x: V) -> V:
    """Horner's rule, low order first."""
    y = x * c[-1] + c[-2]
    for a in reversed(c[:-2]):
        y = y * x + a
    return y


def poly_wide(c: tuple[float, ...], x: V) -> V:
    """The same polynomial by even and odd parts: chains that processors run side by side."""
    if len(c) <= 6:
        return poly(c, x)
    z = x * x
    return poly_wide(c[0::2], z) + x * poly_wide(c[1::2], z)


def nearest(b: Builder, x: V) -> tuple[V, V]:
    """The nearest integer of x (|x| < 2^31), as a double and in the low bits of a pattern."""
    s = x + MAGIC
    return s - MAGIC, b.bits(s)


def power_of_two(b: Builder, pattern: V) -> V:
    """2^n for the n in the low bits of a pattern (|n| < 1023)."""
    return b.from_bits((pattern << 52) + ONE)


def scale(b: Builder, y: V, n: V, pattern: V, p: int) -> V:
    """y * 2^n. Doubles take two steps: 2^n itself may not exist though the product does."""
    if p == F32:
        return y * power_of_two(b, pattern)
    if b.is_normal_power(n):
        return y * power_of_two(b, nearest(b, n)[1])
    half, half_pattern = nearest(b, n * 0.5)
    _, rest_pattern = nearest(b, n - half)
    return y * power_of_two(b, half_pattern) * power_of_two(b, rest_pattern)


def two_sum(a: V, c: V) -> tuple[V, V]:
    """a + c and what its rounding dropped."""
    s = a + c
    d = s - a
    return s, (a - (s - d)) + (c - d)


def two_product(b: Builder, a: V, c: V) -> tuple[V, V]:
    """a * c and what its rounding dropped."""
    product = a * c
    a1, c1 = high(b, a), high(b, c)
    a2, c2 = a - a1, c - c1
    return product, ((a1 * c1 - product) + a1 * c2 + a2 * c1) + a2 * c2


def high(b: Builder, x: V) -> V:
    """x cut to 26 significant bits."""
    return b.from_bits(b.bits(x) & HIGH)


def copysign(b: Builder, magnitude: V, sign: V) -> V:
    """`magnitude` (not negative) with the sign of `sign`."""
    return b.from_bits(b.bits(magnitude) | (b.bits(sign) & SIGN))


def clamp(b: Builder, x: V, lo: float, hi: float) -> V:
    """x limited to [lo, hi]; NaN stays."""
    x = b.select(x < lo, lo, x)
    return b.select(x > hi, hi, x)


def nan_through(b: Builder, x: V, y: V) -> V:
    """y, but x itself (made quiet) where x is NaN."""
    return b.select(x != x, x + x, y)


def tiny(b: Builder, y: V, p: int) -> V:
    return b.absolute(y) < TINY[p]


class Exp(NamedTuple):
    """exp of a reduced argument is (hi + lo) * 2^n; hi is its rounding."""

    hi: V
    lo: V
    n: V
    pattern: V


def exp_parts(b: Builder, x: V, p: int, low: V = None) -> Exp:
    """exp(x + low), |x| < 1100; `low` is far smaller than x."""
    n, pattern = nearest(b, x * k.LOG2E)
    q = k.FIT["EXP"][p]
    if p == F32:
        r = x - n * (k.LN2_HI + k.LN2_LO)
        return Exp(1.0 + (r + r * r * poly(q, r)), None, n, pattern)
    r_high = x - n * k.LN2_HI  # exact: n * LN2_HI fits, and so does the difference
    r_low = n * k.LN2_LO if low is None else n * k.LN2_LO - low
    r = r_high - r_low
    c = (r_high - r) - r_low
    s = r + (c + r * r * poly(q, r))
    hi = 1.0 + s
    return Exp(hi, (1.0 - hi) + s, n, pattern)


def exp_negative(b: Builder, a: V, p: int, low: V = None) -> V:
    """exp(-a - low) for a >= 0, rounded (0 when it is too small)."""
    x = -a
    x = b.select(x < (-200.0, -746.0)[p], (-200.0, -746.0)[p], x)
    e = exp_parts(b, x, p, None if low is None else -low)
    return scale(b, e.hi, e.n, e.pattern, p)


def expm1_parts(b: Builder, x: V, p: int) -> Exp:
    """expm1(x) = (hi + lo) * 2^n for -60 < x < 1100; lo is None for F32."""
    n, pattern = nearest(b, x * k.LOG2E)
    # 2^n (e^r) - 1 = 2^n ((1 - 2^-n) + (e^r - 1))
    capped = b.select(n > 60.0, 60.0, n)
    _, negated = nearest(b, -capped)
    t = 1.0 - power_of_two(b, negated)
    q = k.FIT["EXP"][p]
    if p == F32:
        r = x - n * (k.LN2_HI + k.LN2_LO)
        return Exp(t + (r + r * r * poly(q, r)), None, n, pattern)
    r_high = x - n * k.LN2_HI
    r_low = n * k.LN2_LO
    r = r_high - r_low
    c = (r_high - r) - r_low
    s, dropped = two_sum(t, r)
    rest = dropped + (c + r * r * poly(q, r))
    hi = s + rest
    return Exp(hi, (s - hi) + rest, n, pattern)


class Log(NamedTuple):
    """log(u) = e * log(2) + f - (half_square - s * (half_square + rest))."""

    e: V
    f: V
    half_square: V
    tail: V  # s * (half_square + rest)


def log_parts(b: Builder, u: V, p: int) -> Log:
    """The parts of log(u) for normal u > 0; anything for other u."""
    j = b.bits(u) + (ONE - SQRT_HALF)
    e = b.from_bits((j >> 52) | TWO52) - (4503599627370496.0 + 1023.0)
    z = b.from_bits((j & MANTISSA) + SQRT_HALF)
    f = z - 1.0
    s = f / (2.0 + f)
    square = s * s
    half_square = 0.5 * f * f
    rest = square * poly(k.FIT["LOG"][p], square)
    return Log(e, f, half_square, s * (half_square + rest))


def normalised(b: Builder, x: V, p: int) -> tuple[V, V]:
    """x scaled into the normal numbers, and the exponent to add (None: nothing to add)."""
    if p == F32:
        return x, None  # a float32 is always normal as a double
    small = x < TINY[F64]
    return b.select(small, x * 18014398509481984.0, x), b.select(small, -54.0, 0.0)


def log_of(b: Builder, x: V, p: int) -> V:
    u, extra = normalised(b, x, p)
    g = log_parts(b, u, p)
    e = g.e if extra is None else g.e + extra
    return e * k.LN2_HI - ((g.half_square - (g.tail + e * k.LN2_LO)) - g.f)


def log1p_of(b: Builder, x: V, p: int) -> V:
    u = 1.0 + x
    g = log_parts(b, u, p)
    # what 1 + x dropped, carried on as a first-order term
    c = b.select(x >= 1.0, 1.0 - (u - x), x - (u - 1.0)) / u
    return g.e * k.LN2_HI - ((g.half_square - (g.tail + (g.e * k.LN2_LO + c))) - g.f)


class Tail(NamedTuple):
    """exp(-a) = (hi + lo) 2^n, and the same with n raised to -100 so that 2^n can be formed at once."""

    hi: V
    lo: V
    n: V
    power: V

    @property
    def value(self) -> V:
        return self.hi * self.power


def exp_tail(b: Builder, a: V, low: V = None) -> Tail:
    """exp(-a - low) for a >= 0 in parts (F64 only); far below the smallest number, for the sake of products."""
    x = -a
    e = exp_parts(b, b.select(x < -1400.0, -1400.0, x), F64, None if low is None else -low)
    _, pattern = nearest(b, b.select(e.n < -100.0, -100.0, e.n))
    return Tail(e.hi, e.lo, e.n, power_of_two(b, pattern))
