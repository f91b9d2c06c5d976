"""Exact reduction of large arguments by pi / 2 (the method of Payne and Hanek), with NumPy.

A double x = m 2^e is multiplied by the 192 bits of 2 / pi that matter: those above them change
the product by multiples of 4, those below by less than 2^-137 quarter turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import coefficients as k

_PAD = 1  # one zero word in front, for exponents at which the first bits of 2 / pi are all needed
_WORDS = np.array((0,) * _PAD + k.TWO_OVER_PI, np.uint64)
_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def quarter_turns(x: Any) -> tuple[Any, Any, Any]:
    """x = n pi/2 + r + low for finite |x| >= 2^20 (float64, 1-D): r, low, and n modulo 4 as uint64."""
    bits = x.view(np.uint64)
    exponent = ((bits >> np.uint64(52)) & np.uint64(0x7FF)).astype(np.int64) - 1075
    mantissa = (bits & np.uint64((1 << 52) - 1)) | np.uint64(1 << 52)
    product = _multiply(mantissa, _window(exponent - 2))
    quadrant = product[0] >> np.uint64(30)
    fraction, negative = _signed_fraction(product)
    quadrant = quadrant + negative.astype(np.uint64)
    hi, lo = _double_double(fraction)
    r, low = _times_half_pi(hi, lo)
    flip = negative ^ (x < 0)
    quadrant = np.where(x < 0, np.uint64(4) - (quadrant & np.uint64(3)), quadrant) & np.uint64(3)
    return np.where(flip, -r, r), np.where(flip, -low, low), quadrant


def _window(offset: Any) -> list[Any]:
    """192 bits of 2 / pi from bit `offset` after the point, as six 32-bit limbs, most significant first."""
    position = offset + 64 * _PAD
    word, shift = position >> 6, (position & 63).astype(np.uint64)
    limbs = []
    for i in range(3):
        high = _WORDS[word + i] << shift
        # in two steps: a shift by 64 is undefined
        low = (_WORDS[word + i + 1] >> np.uint64(1)) >> (np.uint64(63) - shift)
        whole = high | low
        limbs += [whole >> _32, whole & _LOW32]
    return limbs


def _multiply(m: Any, window: list[Any]) -> list[Any]:
    """m times the window, modulo 2^192, as 32-bit limbs, most significant first."""
    m0, m1 = m & _LOW32, m >> _32
    out: list[Any] = [None] * 6
    carry = np.zeros_like(m)
    for i in range(5, -1, -1):
        a = m0 * window[i]
        b = m1 * window[i + 1] if i < 5 else np.zeros_like(m)
        total = carry + (a & _LOW32) + (b & _LOW32)
        out[i] = total & _LOW32
        carry = (total >> _32) + (a >> _32) + (b >> _32)
    return out


def _signed_fraction(product: list[Any]) -> tuple[list[Any], Any]:
    """The magnitude of the distance to the nearest integer in units of 2^-192 and whether it is below it."""
    shifted = [((product[i] << np.uint64(2)) & _LOW32) | (product[i + 1] >> np.uint64(30) if i < 5 else np.uint64(0)) for i in range(6)]
    negative = (shifted[0] >> np.uint64(31)) != 0
    carry = negative.astype(np.uint64)
    mask = np.where(negative, _LOW32, np.uint64(0))
    out: list[Any] = [None] * 6
    for i in range(5, -1, -1):
        total = (shifted[i] ^ mask) + carry
        out[i], carry = total & _LOW32, total >> _32
    return out, negative


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    s = a + b
    d = s - a
    return s, (a - (s - d)) + (b - d)


def _double_double(limbs: list[Any]) -> tuple[Any, Any]:
    hi = limbs[0].astype(np.float64) * 2.0**-32
    lo = np.zeros_like(hi)
    for i in range(1, 6):
        hi, dropped = _two_sum(hi, limbs[i].astype(np.float64) * 2.0 ** (-32 * (i + 1)))
        lo = lo + dropped
    return _two_sum(hi, lo)


def _times_half_pi(hi: Any, lo: Any) -> tuple[Any, Any]:
    """(hi + lo) pi / 2 in two doubles."""
    keep = np.uint64(((1 << 64) - 1) ^ ((1 << 27) - 1))
    p1 = float(np.float64(k.PIO2_HI).view(np.uint64).__and__(keep).view(np.float64))
    p2 = k.PIO2_HI - p1
    h1 = (hi.view(np.uint64) & keep).view(np.float64)
    h2 = hi - h1
    product = hi * k.PIO2_HI
    dropped = ((h1 * p1 - product) + h1 * p2 + h2 * p1) + h2 * p2
    return _two_sum(product, dropped + (hi * k.PIO2_LO + lo * k.PIO2_HI))
