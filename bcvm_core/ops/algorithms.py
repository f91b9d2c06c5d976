"""The canonical algorithms: one description per op, over exact primitives, for every back end.

An algorithm is a function `(b, x, p)`: `b` is a builder, `x` a value in double precision (a
float32 argument widened, which is exact) and `p` the precision wanted: `F32` or `F64`. It returns
`Result(value, flags)`: the value in double precision, which the caller rounds once to the element
type, and the masks of elements that raise a floating-point event.

A builder's values support + - * / and comparisons on doubles, + - & | ^ << >> (logical) and
`!= 0` on 64-bit patterns, & | ~ on masks; `select`, `bits`, `from_bits` and `absolute` are its
methods. Every one of these has exactly one right answer, so every builder gives the same bits.
There is no fused multiply-add, and nothing may be reassociated.

Constants come from `tools/polynomials.py`. Errors are in tests/ops/test_elementwise_ulp.py: below 2 ulp.
"""

from __future__ import annotations

from typing import Final

from . import coefficients as k
from . import gates
from .algorithm_parts import (
    F32,
    F64,
    HIGH21,
    HUGE,
    INF,
    LARGE,
    NAN,
    Algorithm,
    Builder,
    Result,
    V,
    clamp,
    exp_parts,
    expm1_parts,
    log1p_of,
    log_of,
    log_parts,
    nan_through,
    nearest,
    normalised,
    poly,
    scale,
    tiny,
    two_sum,
)

# -- exponentials --------------------------------------------------------------------------------


def _exp_result(b: Builder, x: V, y: V, p: int) -> Result:
    flags = {
        "overflow": (y >= HUGE[p]) & (x < INF),
        "underflow": tiny(b, y, p) & (x > -INF),
    }
    return Result(nan_through(b, x, y), flags)


def exp(b: Builder, x: V, p: int) -> Result:
    e = exp_parts(b, clamp(b, x, *((-200.0, 200.0), (-746.0, 710.0))[p]), p)
    return _exp_result(b, x, scale(b, e.hi, e.n, e.pattern, p), p)


def exp2(b: Builder, x: V, p: int) -> Result:
    limited = clamp(b, x, *((-300.0, 300.0), (-1080.0, 1025.0))[p])
    n, pattern = nearest(b, limited)
    r = limited - n
    y = scale(b, 1.0 + r * poly(k.FIT["EXP2"][p], r), n, pattern, p)
    exact = (r == 0.0) & (y != 0.0)
    result = _exp_result(b, x, y, p)
    result.flags["underflow"] = result.flags["underflow"] & ~exact
    return result


def expm1(b: Builder, x: V, p: int) -> Result:
    e = expm1_parts(b, clamp(b, x, -40.0, (200.0, 710.0)[p]), p)
    y = scale(b, e.hi, e.n, e.pattern, p)
    y = b.select(x == 0.0, x, y)
    return Result(nan_through(b, x, y), {"overflow": (y >= HUGE[p]) & (x < INF)})


# -- logarithms ----------------------------------------------------------------------------------


def _log_specials(b: Builder, x: V, y: V, at: float) -> Result:
    """Pole and domain of a logarithm whose pole is at `at`."""
    y = b.select(x == at, -INF, y)
    y = b.select(x < at, NAN, y)
    y = b.select(x == INF, INF, y)
    return Result(nan_through(b, x, y), {"divide": x == at, "invalid": x < at})


def log(b: Builder, x: V, p: int) -> Result:
    return _log_specials(b, x, log_of(b, x, p), 0.0)


def log2(b: Builder, x: V, p: int) -> Result:
    u, extra = normalised(b, x, p)
    g = log_parts(b, u, p)
    e = g.e if extra is None else g.e + extra
    if p == F32:
        return _log_specials(b, x, e + (g.f - (g.half_square - g.tail)) * k.LOG2E, 0.0)
    hi = b.from_bits(b.bits(g.f - g.half_square) & HIGH21)
    lo = ((g.f - hi) - g.half_square) + g.tail
    y, dropped = two_sum(e, hi * k.INV_LN2_HI)
    return _log_specials(b, x, y + (dropped + ((lo + hi) * k.INV_LN2_LO + lo * k.INV_LN2_HI)), 0.0)


def log10(b: Builder, x: V, p: int) -> Result:
    u, extra = normalised(b, x, p)
    g = log_parts(b, u, p)
    e = g.e if extra is None else g.e + extra
    if p == F32:
        y = e * (k.LOG10_2_HI + k.LOG10_2_LO) + (g.f - (g.half_square - g.tail)) * (k.INV_LN10_HI + k.INV_LN10_LO)
        return _log_specials(b, x, y, 0.0)
    hi = b.from_bits(b.bits(g.f - g.half_square) & HIGH21)
    lo = ((g.f - hi) - g.half_square) + g.tail
    y, dropped = two_sum(e * k.LOG10_2_HI, hi * k.INV_LN10_HI)
    small = e * k.LOG10_2_LO + ((lo + hi) * k.INV_LN10_LO + lo * k.INV_LN10_HI)
    return _log_specials(b, x, y + (dropped + small), 0.0)


def log1p(b: Builder, x: V, p: int) -> Result:
    y = b.select(x == 0.0, x, log1p_of(b, x, p))
    return _log_specials(b, x, y, -1.0)


# -- circular functions --------------------------------------------------------------------------


def _quarter_turns(b: Builder, x: V, p: int) -> tuple[V, V, V]:
    """x = n pi/2 + r + low for |x| <= LARGE, as (r, low, pattern of n); low is None for F32."""
    n, pattern = nearest(b, x * k.INV_PIO2)
    r = x - n * k.PIO2_1  # exact, as are the next two products
    if p == F32:
        return r - n * (k.PIO2_2 + k.PIO2_3), None, pattern
    r, dropped2 = two_sum(r, -(n * k.PIO2_2))
    r, dropped3 = two_sum(r, -(n * k.PIO2_3))
    low = (dropped2 + dropped3) - n * k.PIO2_4
    s = r + low
    return s, (r - s) + low, pattern


def circular(b: Builder, r: V, low: V, pattern: V, p: int, shift: int) -> V:
    """sin (`shift` 0) or cos (`shift` 1) of n pi/2 + r + low, n in the low bits of `pattern`."""
    z = r * r
    if p == F32:
        sine = r + r * z * poly(k.FIT["SIN"][p], z)
        cosine = 1.0 - (0.5 * z - z * z * poly(k.FIT["COS"][p], z))
    else:
        cube = z * r
        sine = r + (cube * poly(k.FIT["SIN"][p], z) + (low - 0.5 * z * low))
        half = 0.5 * z
        w = 1.0 - half
        cosine = w + (((1.0 - w) - half) + (z * z * poly(k.FIT["COS"][p], z) - r * low))
    quadrant = pattern + shift if shift else pattern
    y = b.select((quadrant & 1) != 0, cosine, sine)
    return b.from_bits(b.bits(y) ^ ((quadrant & 2) << 62))


def _circular(b: Builder, x: V, p: int, shift: int) -> Result:
    a = b.absolute(x)
    large = a > LARGE
    r, low, pattern = _quarter_turns(b, b.select(large, 1.0, x), p)
    y = circular(b, r, low, pattern, p, shift)
    if shift == 0:
        y = b.select(x == 0.0, x, y)
    y = b.select(a == INF, NAN, y)
    return Result(nan_through(b, x, y), {"invalid": a == INF, "large": large & (a < INF)})


def sin(b: Builder, x: V, p: int) -> Result:
    return _circular(b, x, p, 0)


def cos(b: Builder, x: V, p: int) -> Result:
    return _circular(b, x, p, 1)


ALGORITHMS: Final[dict[str, Algorithm]] = {
    function.__name__: function
    for function in (
        exp,
        exp2,
        expm1,
        log,
        log2,
        log10,
        log1p,
        sin,
        cos,
        gates.tanh,
        gates.sigmoid,
        gates.silu,
        gates.softplus,
        gates.logsigmoid,
        gates.mish,
        gates.erf,
        gates.erfc,
        gates.gelu,
        gates.gelu_tanh,
    )
}

_MAX: Final = (3.4e38, 1.79e308)
Interval = tuple[float, float]
ORDINARY: Final[dict[str, tuple[Interval, Interval]]] = {
    # arguments (for F32, for F64) that need no limiting and raise no event: back ends may leave both out for them
    "exp": ((-87.0, 88.0), (-708.0, 709.0)),
    "exp2": ((-126.0, 127.0), (-1022.0, 1023.0)),
    "expm1": ((-40.0, 88.0), (-40.0, 709.0)),
    "log": ((1.2e-38, _MAX[F32]), (2.3e-308, _MAX[F64])),
    "log2": ((1.2e-38, _MAX[F32]), (2.3e-308, _MAX[F64])),
    "log10": ((1.2e-38, _MAX[F32]), (2.3e-308, _MAX[F64])),
    "log1p": ((-0.999, _MAX[F32]), (-0.999, _MAX[F64])),
    "sin": ((-LARGE, LARGE), (-LARGE, LARGE)),
    "cos": ((-LARGE, LARGE), (-LARGE, LARGE)),
    "tanh": ((-22.0, 22.0), (-22.0, 22.0)),
    "sigmoid": ((-87.0, 87.0), (-700.0, 700.0)),
    "silu": ((-80.0, 80.0), (-700.0, 700.0)),
    "softplus": ((-80.0, 80.0), (-700.0, 700.0)),
    "logsigmoid": ((-80.0, 80.0), (-700.0, 700.0)),
    "mish": ((-80.0, 80.0), (-700.0, 700.0)),
    "erf": ((-8.0, 8.0), (-26.0, 26.0)),
    "erfc": ((-9.0, 9.0), (-26.0, 26.0)),
    "gelu": ((-12.0, 12.0), (-36.0, 36.0)),
    "gelu_tanh": ((-10.0, 10.0), (-20.0, 20.0)),
}
