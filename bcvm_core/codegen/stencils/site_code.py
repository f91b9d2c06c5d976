"""The function in the place of a region, in the language of `native.py`.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .entry_code import entry
from .native import call, load32, load64, store64
from .offsets import (
    BYTES_HEAD,
    DIMS,
    NDIM,
    R_DECREF,
    R_NDARRAY,
    R_NONE,
    R_TUPLE,
    R_TUPLE_SET,
    R_VECTORCALL,
    S_GUARD,
    S_GUARDS,
    S_HITS,
    S_INPUTS,
    S_KERNEL,
    S_LOOKS,
    S_PLAIN,
    S_REGION,
    S_RUNTIME,
    S_SHAPES,
    S_THREAD,
    S_TRACE,
    S_TUPLE,
    SHAPE_DIMS,
    SHAPE_SIZE,
    TYPE,
)


def site(self: int, args: int, nargs: int) -> int:
    """A METH_FASTCALL function in the place of a region: guards, then the kernel's entry; whatever differs is the region's."""
    s = self + BYTES_HEAD
    inputs = load64(s + S_INPUTS)
    guards = load64(s + S_GUARDS)
    if nargs != inputs + guards:
        return ask(s, args, nargs)
    if load64(load64(s + S_PLAIN)):
        return ask(s, args, nargs)
    thread = call(load64(s + S_THREAD))
    if load64(thread + load64(s + S_TRACE)):
        return ask(s, args, nargs)
    k = 0
    while k < guards:
        if load64(args + 8 * (inputs + k)) != load64(s + S_GUARD + 8 * k):
            return ask(s, args, nargs)
        k = k + 1
    if load64(s + S_LOOKS) > 0 and known_shapes(s, args, inputs) == 0:
        store64(s + S_LOOKS, load64(s + S_LOOKS) - 1)
        return ask(s, args, nargs)
    result = entry(load64(s + S_KERNEL), args, inputs)
    if result == 0:
        return 0
    runtime = load64(s + S_RUNTIME)
    if result == load64(runtime + R_NONE):
        call(load64(runtime + R_DECREF), result)
        return ask(s, args, nargs)
    store64(s + S_HITS, load64(s + S_HITS) + 1)
    if load64(s + S_TUPLE) == 0:
        return result
    made = call(load64(runtime + R_TUPLE), 1)
    if made == 0:
        call(load64(runtime + R_DECREF), result)
        return 0
    call(load64(runtime + R_TUPLE_SET), made, 0, result)
    return made


def ask(s: int, args: int, nargs: int) -> int:
    """Let the region do the call."""
    runtime = load64(s + S_RUNTIME)
    return call(load64(runtime + R_VECTORCALL), load64(s + S_REGION), args, nargs, 0)


def known_shapes(s: int, args: int, inputs: int) -> int:
    """1 when the arrays have the shapes they had when the region was asked last; they are noted."""
    runtime = load64(s + S_RUNTIME)
    ndarray = load64(runtime + R_NDARRAY)
    same = 1
    k = 0
    while k < inputs:
        x = load64(args + 8 * k)
        if load64(x + TYPE) != ndarray:
            return 0
        at = s + S_SHAPES + SHAPE_SIZE * k
        ndim = load32(x + NDIM)
        if load64(at) != ndim:
            same = 0
        store64(at, ndim)
        d = 0
        while d < ndim and d < SHAPE_DIMS:
            dim = load64(load64(x + DIMS) + 8 * d)
            if load64(at + 8 + 8 * d) != dim:
                same = 0
            store64(at + 8 + 8 * d, dim)
            d = d + 1
        k = k + 1
    return same
