"""Geometry of windows over images: pairs, padding, output sizes, and views that need no copy."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from . import trees

_Array = np.ndarray[Any, Any]
Pair = tuple[int, int]
Border = tuple[Pair, Pair]


def pair(value: Any, what: str) -> Pair:
    """One int for both axes, or two. Raises ValueError for anything else, TypeError for non-integers."""
    if hasattr(value, "__index__"):
        return operator.index(value), operator.index(value)
    values = tuple(operator.index(v) for v in value)
    if len(values) != 2:
        raise ValueError(f"{what} must be one or two integers, not {value!r}")
    return values[0], values[1]


def border(padding: Any, size: Pair, kernel: Pair, stride: Pair, dilation: Pair) -> Border:
    """`padding` as ((top, bottom), (left, right)).

    An int, a pair (rows, columns), a pair of pairs, "valid" (none), or "same" (the output has
    ceil(size / stride) rows and columns; an odd one more goes to the end).
    """
    if isinstance(padding, str):
        if padding.lower() == "valid":
            return (0, 0), (0, 0)
        if padding.lower() != "same":
            raise ValueError(f'padding must be numbers, "same" or "valid", not {padding!r}')
        sides = []
        for n, k, s, d in zip(size, kernel, stride, dilation, strict=True):
            missing = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            sides.append((missing // 2, missing - missing // 2))
        return sides[0], sides[1]
    if not hasattr(padding, "__index__") and any(not hasattr(p, "__index__") for p in padding):
        rows, columns = (pair(p, "padding") for p in padding)
        found = rows, columns
    else:
        vertical, horizontal = pair(padding, "padding")
        found = (vertical, vertical), (horizontal, horizontal)
    if min(min(side) for side in found) < 0:
        raise ValueError(f"padding must not be negative: {padding!r}")
    return found


def output_size(size: Pair, edges: Border, kernel: Pair, stride: Pair, dilation: Pair = (1, 1)) -> Pair:
    """Rows and columns of the output. Raises ValueError when the kernel does not fit."""
    if min(stride) < 1 or min(dilation) < 1 or min(kernel) < 1:
        raise ValueError(f"stride, dilation and kernel must be positive: {stride}, {dilation}, {kernel}")
    found = []
    for n, (before, after), k, s, d in zip(size, edges, kernel, stride, dilation, strict=True):
        room = n + before + after - d * (k - 1) - 1
        if room < 0:
            raise ValueError(f"a kernel of {kernel} with dilation {dilation} does not fit into {size} with padding {edges}")
        found.append(room // s + 1)
    return found[0], found[1]


def padded(x: _Array, edges: Border, axis: int, value: Any = 0) -> _Array:
    """`x` with a border around `axis` and `axis + 1`; `x` itself when there is none."""
    if edges == ((0, 0), (0, 0)):
        return x
    (top, bottom), (left, right) = edges
    shape = list(x.shape)
    shape[axis] += top + bottom
    shape[axis + 1] += left + right
    wide = np.full(shape, value, x.dtype)
    inner = (slice(None),) * axis + (slice(top, top + x.shape[axis]), slice(left, left + x.shape[axis + 1]))
    wide[inner] = x
    return wide


def windows(x: _Array, axis: int, kernel: Pair, stride: Pair, dilation: Pair, out: Pair) -> _Array:
    """A read-only view in which `axis` and `axis + 1` are output positions and two last axes run over the kernel."""
    sh, sw = x.strides[axis : axis + 2]
    shape = (*x.shape[:axis], *out, *x.shape[axis + 2 :], *kernel)
    strides = (
        *x.strides[:axis],
        sh * stride[0],
        sw * stride[1],
        *x.strides[axis + 2 :],
        sh * dilation[0],
        sw * dilation[1],
    )
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


class Axis(NamedTuple):
    """Windows along one axis: where their elements lie beside `step` times their number, in the order in which maxima are taken."""

    out: int
    step: int
    taps: tuple[int, ...]
    reach: tuple[tuple[int, int], ...]  # first window that has this element, and the one after the last
    whole: int  # so many of them are in all windows


def axis_of(size: int, kernel: int, step: int, spread: int, before: int, out: int) -> Axis:
    """The windows over `size` elements, which `before` elements of padding precede: those come first that reach all windows."""
    parts = []
    for tap in range(kernel):
        offset = tap * spread - before  # window k has element k * step + offset
        first, last = max(0, -(offset // step)), min(out - 1, (size - 1 - offset) // step)
        if first <= last:
            parts.append((offset, (first, last + 1)))
    parts.sort(key=lambda part: part[1] != (0, out))
    offsets, reach = tuple([o for o, _ in parts]), tuple([r for _, r in parts])
    return Axis(out, step, offsets, reach, reach.count((0, out)))


def running_max(x: _Array, axis: int, windows: Axis) -> _Array:
    """The largest element of each window along one axis; padding is never the largest."""
    out, step = windows.out, windows.step
    ahead = (slice(None),) * axis
    taken = []
    for offset, (first, end) in zip(windows.taps, windows.reach, strict=True):
        start = first * step + offset
        taken.append(x[(*ahead, slice(start, start + (end - first - 1) * step + 1, step))])
    shape = (*x.shape[:axis], out, *x.shape[axis + 1 :])
    if windows.whole < 2:
        result = np.full(shape, lowest(x.dtype), x.dtype) if not windows.whole else taken[0].copy()
        done = windows.whole
    else:
        result, done = np.maximum(taken[0], taken[1], out=np.empty(shape, x.dtype)), 2
    for (first, end), values in zip(windows.reach[done:], taken[done:], strict=True):
        place = result[(*ahead, slice(first, end))]
        np.maximum(place, values, out=place)
    return result


def lowest(dtype: np.dtype[Any]) -> Any:
    """What padding is for maxima: nothing is below it."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -np.inf


def float_types(array: _Array) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """(accumulation type, result type) of an average."""
    result = array.dtype if trees.accumulator(array.dtype) else trees.F64
    accumulator = trees.accumulator(result)
    assert accumulator is not None
    return accumulator, result
