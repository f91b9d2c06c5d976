"""Shapes of arrays, in the language of `native.py`.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .native import load32, load64, store64
from .offsets import DIMS, NDIM


def has_shape(x: int, ndim: int, dims: int) -> int:
    """1 when an array has these dims."""
    if load32(x + NDIM) != ndim:
        return 0
    own = load64(x + DIMS)
    k = 0
    while k < ndim:
        if load64(own + 8 * k) != load64(dims + 8 * k):
            return 0
        k = k + 1
    return 1


def product(dims: int, start: int, end: int) -> int:
    """The product of some dims."""
    n = 1
    k = start
    while k < end:
        n = n * load64(dims + 8 * k)
        k = k + 1
    return n


def zeros(at: int, count: int) -> int:
    """Write `count` zeros; gives `at`."""
    k = 0
    while k < count:
        store64(at + 8 * k, 0)
        k = k + 1
    return at
