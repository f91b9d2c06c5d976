"""Coefficients of the canonical algorithms (`bcvm_core/ops/coefficients.py`), computed with mpmath.

Run `python tools/polynomials.py` and it rewrites that file. Every polynomial is a Remez exchange
on the weighted error named in its row; the last figure of a row is log2 of the largest error left.
Where a series starts with terms that must be exact (the 1 of cosine, the x of sine) only the rest is fitted.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path

import mpmath as mp

mp.mp.dps = 110
Function = Callable[[mp.mpf], mp.mpf]
TARGET = Path(__file__).parent.parent / "bcvm_core" / "ops" / "coefficients.py"


def _solve(f: Function, w: Function, degree: int, points: list[mp.mpf]) -> tuple[list[mp.mpf], mp.mpf]:
    """The polynomial whose weighted error alternates with equal size at `points`."""
    n = degree + 2
    a, b = mp.matrix(n, n), mp.matrix(n, 1)
    for i, x in enumerate(points):
        for j in range(degree + 1):
            a[i, j] = x**j
        a[i, degree + 1] = (-1) ** i / w(x)
        b[i] = f(x)
    solution = mp.lu_solve(a, b)
    return [solution[j] for j in range(degree + 1)], abs(solution[degree + 1])


def remez(f: Function, w: Function, degree: int, lo: float, hi: float, rounds: int = 6) -> tuple[list[mp.mpf], mp.mpf]:
    """Minimise max |w (p - f)| over [lo, hi] among polynomials of `degree`; returns p (low order first) and the error."""
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    n = degree + 2
    points = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * i / (n - 1)) for i in range(n)]
    samples = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * i / (24 * n)) for i in range(24 * n + 1)]
    values = [(f(x), w(x)) for x in samples]
    best: tuple[list[mp.mpf], mp.mpf] = ([], mp.inf)
    for _ in range(rounds):
        p, _level = _solve(f, w, degree, points)
        errors = [wx * (mp.polyval(p[::-1], x) - fx) for x, (fx, wx) in zip(samples, values, strict=True)]
        worst = max(abs(e) for e in errors)
        if worst < best[1]:
            best = (p, worst)
        points = _extrema(samples, errors, n) or points
    return best


def _extrema(samples: list[mp.mpf], errors: list[mp.mpf], n: int) -> list[mp.mpf] | None:
    """The n alternating extrema of largest size, or None when there are fewer."""
    found: list[tuple[mp.mpf, mp.mpf]] = []
    for x, e in zip(samples, errors, strict=True):
        if not found or (e > 0) != (found[-1][1] > 0):
            found.append((x, e))
        elif abs(e) > abs(found[-1][1]):
            found[-1] = (x, e)
    while len(found) > n:
        found.pop(0 if abs(found[0][1]) < abs(found[-1][1]) else -1)
    return [x for x, _ in found] if len(found) == n else None


def _safe(f: Function) -> Function:
    """f with a point near 0 replaced by a nearby one, where the formula is 0 / 0."""
    tiny = mp.mpf(10) ** -25
    return lambda x: f(x if abs(x) > tiny else tiny)


LN2 = mp.log(2)
GELU_LINEAR = 2 * mp.sqrt(2 / mp.pi)
GELU_CUBIC = GELU_LINEAR * mp.mpf("0.044715")


def _erfcx(shift: int) -> Function:
    """exp(a a) erfc(a) (1 + 2 a) where t = (a - shift) / (a + shift)."""

    def function(t: mp.mpf) -> mp.mpf:
        if t >= 1 - mp.mpf(10) ** -30:
            return 2 / mp.sqrt(mp.pi)
        a = shift * (1 + t) / (1 - t)
        if a < 100:
            return mp.exp(a * a) * mp.erfc(a) * (1 + 2 * a)
        total, term = mp.mpf(1), mp.mpf(1)  # asymptotic series
        for k in range(1, 40):
            term *= -(2 * k - 1) / (2 * a * a)
            total += term
        return total / (a * mp.sqrt(mp.pi)) * (1 + 2 * a)

    return function


def _log_rest(z: mp.mpf) -> mp.mpf:
    """(log((1 + s) / (1 - s)) - 2 s) / s^3 where z = s s."""
    s = mp.sqrt(z)
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / s**3


Fit = tuple[str, Function, Function, int, float, float]  # meaning, function, weight, degree, interval


def rows() -> list[tuple[str, Fit, Fit]]:
    """(name, fit for float32 results, fit for float64 results)."""
    half = float(LN2 / 2) * 1.0001
    smax = float(((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2) * 1.0001
    quarter = float(mp.pi / 4) ** 2 * 1.0001

    def both(meaning: str, f: Function, w: Function, degrees: tuple[int, int], lo: float, hi: float) -> tuple[Fit, Fit]:
        return (meaning, _safe(f), w, degrees[0], lo, hi), (meaning, _safe(f), w, degrees[1], lo, hi)

    def one(_: mp.mpf) -> mp.mpf:
        return mp.mpf(1)

    def linear(x: mp.mpf) -> mp.mpf:
        return abs(x) + mp.mpf("1e-9")

    def square(x: mp.mpf) -> mp.mpf:
        return x * x + mp.mpf("1e-9")

    root = mp.sqrt
    return [
        ("EXP", *both("(exp(r) - 1 - r) / r^2", lambda r: (mp.exp(r) - 1 - r) / r**2, square, (5, 9), -half, half)),
        ("EXP2", *both("(2^r - 1) / r", lambda r: (mp.mpf(2) ** r - 1) / r, linear, (6, 10), -0.5001, 0.5001)),
        ("LOG", *both("(log((1+s)/(1-s)) - 2s) / s^3 in s^2", _log_rest, linear, (3, 6), 0.0, smax)),
        ("SIN", *both("(sin(r)/r - 1) / r^2 in r^2", lambda z: (mp.sin(root(z)) / root(z) - 1) / z, linear, (3, 5), 0.0, quarter)),
        ("COS", *both("(cos(r) - 1 + r^2/2) / r^4 in r^2", lambda z: (mp.cos(root(z)) - 1 + z / 2) / z**2, square, (3, 5), 0.0, quarter)),
        ("ERF", *both("erf(x)/x - 1 in x^2", lambda z: mp.erf(root(z)) / root(z) - 1, one, (7, 12), 0.0, 1.0001)),
        (
            "ERFCX",
            ("exp(a^2) erfc(a) (1 + 2a) in (a-4)/(a+4)", _erfcx(4), one, 15, -1.0, 1.0),
            ("exp(a^2) erfc(a) (1 + 2a) in (a-2)/(a+2)", _erfcx(2), one, 25, -0.455, 1.0),
        ),
    ]


def _normal_tail(a: mp.mpf) -> mp.mpf:
    """exp(a^2 / 2) times the part of the normal distribution beyond a, times a + 2."""
    return mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2 * (a + 2)


def single_rows() -> list[tuple[str, Fit]]:
    """Fits for the algorithms that compute in float32 itself; coefficients are rounded to it."""
    half = float(LN2 / 2) * 1.0005
    root = mp.sqrt
    farthest = (14.75 - 2) / (14.75 + 2)  # from there on the product is zero
    low, high = float(mp.sqrt(mp.mpf(1) / 2)) - 1 - 1e-6, float(mp.sqrt(2)) - 1 + 1e-6

    def square(x: mp.mpf) -> mp.mpf:
        return x * x + mp.mpf("1e-9")

    return [
        ("EXP", ("(exp(r) - 1 - r) / r^2", _safe(lambda r: (mp.exp(r) - 1 - r) / r**2), square, 4, -half, half)),
        ("LOG", ("(log(1+f) - f + f^2/2) / f^3", _safe(lambda f: (mp.log(1 + f) - f + f * f / 2) / f**3), square, 7, low, high)),
        ("EXP2", ("(2^r - 1) / r", _safe(lambda r: (mp.mpf(2) ** r - 1) / r), lambda r: abs(r) + mp.mpf("1e-9"), 5, -0.5001, 0.5001)),
        (
            "LOG1P",
            (
                "(log(1+e) - e) / e^2",
                _safe(lambda e: (mp.log(1 + e) - e) / e**2),
                lambda e: (e * e + mp.mpf("1e-9")) / (mp.log(1 + e) + mp.mpf("1e-9")),
                *(9, 0.0, 1.0),
            ),
        ),
        ("ERF", ("erf(x)/x - 1 in x^2", _safe(lambda z: mp.erf(root(z)) / root(z) - 1), lambda _: mp.mpf(1), 5, 0.0, 0.81)),
        ("ERFC", ("-log(erfc(a))/a", lambda a: -mp.log(mp.erfc(a)) / a, lambda a: a * mp.erfc(a) / mp.erf(a), 6, 0.9, 3.95)),
        (
            "TAIL",
            (
                "exp(a^2/2) (1 - Phi(a)) (a + 2) in (a-2)/(a+2)",
                lambda t: _normal_tail(2 * (1 + t) / (1 - t)),
                lambda t: 1 / _normal_tail(2 * (1 + t) / (1 - t)),
                *(11, -1.0, farthest),
            ),
        ),
    ]


def _single(value: mp.mpf) -> float:
    """A number rounded to float32."""
    rounded: float = struct.unpack("<f", struct.pack("<f", float(value)))[0]
    return rounded


def split(value: mp.mpf, bits: int) -> tuple[float, float]:
    """value = hi + lo with hi of `bits` significant bits."""
    exponent = int(mp.floor(mp.log(abs(value), 2)))
    scale = mp.mpf(2) ** (bits - 1 - exponent)
    hi = mp.nint(value * scale) / scale
    return float(hi), float(value - hi)


def constants() -> list[tuple[str, float, str]]:
    """Split constants and thresholds: (name, value, comment)."""
    found: list[tuple[str, float, str]] = []

    def pair(name: str, value: mp.mpf, bits: int, what: str) -> None:
        hi, lo = split(value, bits)
        found.extend([(f"{name}_HI", hi, f"{what}, first {bits} bits"), (f"{name}_LO", lo, "the rest")])

    pair("LN2", LN2, 32, "log(2)")
    pair("INV_LN2", 1 / LN2, 22, "1 / log(2)")
    pair("INV_LN10", 1 / mp.log(10), 22, "1 / log(10)")
    pair("LOG10_2", mp.log10(2), 40, "log10(2)")
    found.append(("LOG2E", float(1 / LN2), "1 / log(2)"))
    found.append(("LN2_HI32", _single(LN2), "log(2) in float32"))
    found.append(("LN2_LO32", _single(LN2 - mp.mpf(_single(LN2))), "the rest"))
    rest = mp.pi / 2
    for part in (1, 2, 3):
        hi, _ = split(rest, 32)
        found.append((f"PIO2_{part}", hi, f"pi / 2, bits {32 * part - 31} to {32 * part} or so"))
        rest -= mp.mpf(hi)
    found.append(("PIO2_4", float(rest), "the rest"))
    found.append(("INV_PIO2", float(2 / mp.pi), "2 / pi"))
    found.append(("PIO2_HI", float(mp.pi / 2), "pi / 2 rounded"))
    found.append(("PIO2_LO", float(mp.pi / 2 - mp.mpf(float(mp.pi / 2))), "what rounding dropped"))
    pair("SQRT_2_OVER_PI", mp.sqrt(2 / mp.pi), 26, "sqrt(2 / pi)")
    pair("GELU_CUBIC", mp.sqrt(2 / mp.pi) * mp.mpf("0.044715"), 26, "0.044715 sqrt(2 / pi)")
    root_half = mp.sqrt(mp.mpf(1) / 2)
    found.append(("SQRT_HALF", float(root_half), "sqrt(1 / 2)"))
    first, rest_of_root = split(root_half, 26)
    found.append(("SQRT_HALF_1", first, "its first 26 bits"))
    found.append(("SQRT_HALF_2", rest_of_root, "the rest"))
    found.append(("INV_SQRT_PI", float(1 / mp.sqrt(mp.pi)), "1 / sqrt(pi)"))
    return found


def two_over_pi_words(count: int = 20) -> list[int]:
    """2 / pi in 64-bit words after the point, most significant first."""
    with mp.workdps(500):
        value = mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * count))
        bits = int(value)
    return [(bits >> (64 * (count - 1 - i))) & (2**64 - 1) for i in range(count)]


def main() -> None:
    out = [
        '"""Constants of the canonical algorithms; written by `tools/polynomials.py`, not by hand.',
        "",
        "Coefficients are low order first. FIT holds (for float32, for float64) pairs, computed in doubles;",
        "FIT32 is for what is computed in float32.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
    ]
    for name, value, comment in constants():
        out.append(f"{name}: Final = {value!r}  # {comment}")
    out += ["", "FIT: Final[dict[str, tuple[tuple[float, ...], tuple[float, ...]]]] = {"]
    for name, *fits in rows():
        out.append(f'    "{name}": (')
        for meaning, f, w, degree, lo, hi in fits:
            p, error = remez(f, w, degree, lo, hi)
            print(f"{name} degree {degree}: 2^{float(mp.log(error, 2)):.1f}", file=sys.stderr)
            out.append(f"        # {meaning} on [{lo:.4g}, {hi:.4g}], degree {degree}, error 2^{float(mp.log(error, 2)):.1f}")
            out.append("        (")
            out += [f"            {float(c)!r}," for c in p]
            out.append("        ),")
        out.append("    ),")
        if name == "ERFCX":
            low = float(p[0] - mp.mpf(float(p[0])))
    out += ["}", "", "FIT32: Final[dict[str, tuple[float, ...]]] = {"]
    for name, (meaning, f, w, degree, lo, hi) in single_rows():
        p, error = remez(f, w, degree, lo, hi)
        out.append(f"    # {meaning} on [{lo:.4g}, {hi:.4g}], degree {degree}, error 2^{float(mp.log(error, 2)):.1f}")
        out += [f'    "{name}": (', *(f"        {_single(c)!r}," for c in p), "    ),"]
        if name == "TAIL":
            tail_low = _single(p[0] - mp.mpf(_single(p[0])))
    out += ["}", "", f"TAIL_LO32: Final = {tail_low!r}  # what rounding dropped of the first coefficient of TAIL"]
    out += [f"GELU_CUBIC32: Final = {_single(GELU_CUBIC)!r}  # 2 * 0.044715 sqrt(2 / pi) in float32"]
    out += [f"GELU_CUBIC_LO32: Final = {_single(GELU_CUBIC - mp.mpf(_single(GELU_CUBIC)))!r}  # the rest"]
    out += [f"GELU_LINEAR32: Final = {_single(GELU_LINEAR)!r}  # 2 sqrt(2 / pi) in float32"]
    out += [f"GELU_LINEAR_LO32: Final = {_single(GELU_LINEAR - mp.mpf(_single(GELU_LINEAR)))!r}  # the rest"]
    out += ["", f"ERFCX_LO: Final = {low!r}  # what rounding dropped of the first coefficient for float64"]
    out += ["", "# 2 / pi in 64-bit words after the point", "TWO_OVER_PI: Final = ("]
    out += [f"    0x{word:016X}," for word in two_over_pi_words()]
    out += [")", ""]
    TARGET.write_text("\n".join(out))


if __name__ == "__main__":
    main()
