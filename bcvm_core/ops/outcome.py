"""What a floating-point reduction accumulates in and returns: types, and results as NumPy shapes and lays them out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import Decline
from . import trees

_Array = np.ndarray[Any, Any]


def reduction_types(dtype: np.dtype[Any], wanted: Any) -> tuple[np.dtype[Any], np.dtype[Any]] | None:
    """(accumulation type, result type) when the tree reduces numbers of `dtype` with `dtype=wanted`, else None."""
    result = dtype if wanted is None else np.dtype(wanted)
    accumulator = trees.accumulator(result)
    if accumulator is None or (wanted is not None and dtype.kind in "OSU"):
        return None
    if dtype.kind == "c" and result.kind != "c":
        raise Decline("NumPy warns that imaginary parts are dropped")
    return accumulator, result


def accumulated(x: _Array, accumulator: np.dtype[Any], result: np.dtype[Any]) -> _Array:
    """The elements as NumPy would see them (rounded to the result's type), in the accumulation type."""
    if x.dtype is not result:
        x = x.astype(result, copy=False)
    return x if result is accumulator else x.astype(accumulator, copy=False)


def _memory_order(x: _Array) -> list[int]:
    """The axes of `x`, slowest first, in the order in which NumPy's iterator lays out a new result."""
    strides = [abs(s) for s in x.strides]
    fastest_first = list(range(x.ndim))[::-1]
    for i in range(1, x.ndim):
        place = i
        for j in range(i - 1, -1, -1):
            ours, theirs = strides[fastest_first[i]], strides[fastest_first[j]]
            if ours and theirs:  # a stride of 0 decides nothing
                if theirs <= ours:
                    break
                place = j
        fastest_first.insert(place, fastest_first.pop(i))
    return fastest_first[::-1]


def _laid_out(value: _Array, x: _Array, axes: tuple[int, ...]) -> _Array:
    """`value` in the memory layout of NumPy's result: whether a later reshape is a view depends on it."""
    kept = [a for a in range(x.ndim) if a not in axes]
    order = [kept.index(a) for a in _memory_order(x) if a in kept]
    if order == sorted(order):
        return value
    result = np.empty([value.shape[i] for i in order], value.dtype).transpose(np.argsort(order))
    result[...] = value
    return result


def finish(value: Any, x: _Array, axes: tuple[int, ...], result: np.dtype[Any], keepdims: Any) -> Any:
    """A reduction's result as NumPy returns it: rounded once, kept dimensions in place, a scalar when 0-d."""
    if value.dtype is not result:
        value = value.astype(result)
    if value.ndim > 1 and not x.flags.c_contiguous:
        value = _laid_out(value, x, axes)
    if keepdims:
        return value.reshape([1 if a in axes else d for a, d in enumerate(x.shape)])
    return value if value.ndim else value[()]
