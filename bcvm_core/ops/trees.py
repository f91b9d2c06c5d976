"""The one order in which floating-point numbers are reduced, whatever kernel, layout or machine.

The tree over n numbers e[0], ..., e[n-1] (the reduced elements in logical C order of the reduced axes):

1. They are cut into blocks of 1,024; the last block may be shorter.
2. A block of m numbers has min(m, 64) partial results. Partial j starts as the block's element j and
   takes in elements j + 64, j + 128, ... one after the other.
3. Partials are folded in halves: for h = 32, 16, 8, 4, 2, 1, partial j takes in partial j + h where
   that exists (j < h). Partial 0 is the block's result.
4. Block results are combined in neighbouring pairs, level by level; an odd last one moves up as it is.
5. A sum ends with ``+ 0.0``, so that it is never -0.0 (as NumPy's); a product does not.

No identity element takes part, except that nothing at all gives 0.0 or 1.0. Because of step 5 a kernel
may fill a short block of a sum with zeros without changing a bit. "Takes in" is one rounded operation
in the accumulation type: float32 for float16, bfloat16 and float32, else the type itself; complex
numbers are added and multiplied by parts. Sixteen lanes times four accumulators hold the 64 partials.
"""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import Decline

BLOCK = 1024
PARTIALS = 64
_STEPS = BLOCK // PARTIALS

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
C64, C128 = np.dtype(np.complex64), np.dtype(np.complex128)
BF16 = np.dtype(ml_dtypes.bfloat16)

_ACCUMULATORS: dict[np.dtype[Any], np.dtype[Any]] = {F16: F32, BF16: F32, F32: F32, F64: F64, C64: C64, C128: C128}


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type in which numbers of `dtype` are accumulated; None when they are not reduced by the tree (integers, others)."""
    return _ACCUMULATORS.get(dtype)


def array(x: Any) -> np.ndarray[Any, Any]:
    """`x` itself when it is an array of any kind, else an array made of it."""
    return x if isinstance(x, np.ndarray) else np.asarray(x)


def tensor(x: Any) -> np.ndarray[Any, Any]:
    """`x` as a plain array. Raises Decline for subclasses, whose own methods must run (those made for tracing pass)."""
    if type(x) is np.ndarray:
        return x
    if isinstance(x, np.ndarray):
        if hasattr(x, "apply_algorithm"):
            return x
        raise Decline("an ndarray subclass")
    array = np.asarray(x)
    if type(array) is not np.ndarray:
        raise Decline("an ndarray subclass")
    return array


def axes_of(axis: Any, x: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """`axis` (None, an int or a tuple) as sorted non-negative axes. Raises what NumPy raises."""
    ndim = x.ndim
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis + ndim if axis < 0 else axis,)
    if isinstance(axis, tuple) and all(type(a) is int and -ndim <= a < ndim for a in axis):
        axes = sorted(a + ndim if a < 0 else a for a in axis)
        if len(set(axes)) == len(axes):
            return tuple(axes)
    elif not isinstance(axis, tuple) and hasattr(axis, "__index__"):
        return _checked((int(axis.__index__()),), axis, x)
    np.add.reduce(np.empty((0,) * ndim), axis=axis)  # raises NumPy's own error for what is wrong
    return _checked(tuple(int(a) for a in axis), axis, x)


def axis_of(axis: Any, x: np.ndarray[Any, Any]) -> int:
    """The one axis that an integer names, counted from the front. Raises NumPy's AxisError for one that is not there."""
    return axes_of(operator.index(axis), x)[0] if x.ndim else _checked((0,), operator.index(axis), x)[0]


def _checked(axes: tuple[int, ...], axis: Any, x: np.ndarray[Any, Any]) -> tuple[int, ...]:
    np.add.reduce(np.empty((0,) * x.ndim), axis=axis)
    return tuple(sorted(a + x.ndim if a < 0 else a for a in axes)) if x.ndim else ()


def count(x: np.ndarray[Any, Any], axes: tuple[int, ...]) -> int:
    """How many numbers each result is made of."""
    n = 1
    for a in axes:
        n *= x.shape[a]
    return n


def total(x: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Any:
    """Sums of `x` over `axes` by the tree, in the type of `x`, which must be its own accumulation type.

    A fresh array over the axes that are left; a NumPy scalar when none is.
    """
    result = reduce(np.add, x, axes)
    zero = x.dtype.type(0)
    return np.add(result, zero, out=result) if result.ndim else result + zero  # no result is -0.0


def product(x: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Any:
    """Products of `x` over `axes` by the tree: as `total`."""
    return reduce(_COMPLEX_MULTIPLY if x.dtype.kind == "c" else np.multiply, x, axes)


class _ComplexMultiply:
    """Stands in for `np.multiply`, whose vector loops may fuse multiply and add where its scalar loops do not."""

    identity = 1

    def __call__(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        real = a.real * b.real - a.imag * b.imag
        imag = a.real * b.imag + a.imag * b.real
        if out is None:
            out = np.empty(real.shape, a.dtype)
        out.real, out.imag = real, imag
        return out

    def reduce(self, x: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
        lines = np.moveaxis(x, axis, 0)
        result: np.ndarray[Any, Any] = lines[0].copy()
        for line in lines[1:]:
            self(result, line, out=result)
        return result


_COMPLEX_MULTIPLY = _ComplexMultiply()
_Combine = np.ufunc | _ComplexMultiply


def reduce(ufunc: _Combine, x: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Any:
    """Steps 1 to 4 of the tree with addition or multiplication; results as `total` gives them."""
    if len(axes) == x.ndim and x.size:
        return _whole(ufunc, np.ascontiguousarray(x).ravel() if x.flags.aligned else x.ravel().copy())
    kept = tuple(d for a, d in enumerate(x.shape) if a not in axes)
    n = count(x, axes)
    if n == 0:
        return np.full(kept, ufunc.identity, x.dtype)[()]
    if x.size == 0:
        return np.empty(kept, x.dtype)
    arranged = _arrange(x, axes, n)
    result = _reduce_middle(ufunc, arranged)
    return (result.copy() if result.base is not None and np.may_share_memory(result, x) else result).reshape(kept)


def _arrange(x: np.ndarray[Any, Any], axes: tuple[int, ...], n: int) -> np.ndarray[Any, Any]:
    """`x` as a C-contiguous array (outer, n, inner) whose middle axis holds the reduced elements in logical order."""
    together = not axes or axes[-1] - axes[0] + 1 == len(axes)
    if not (together and x.flags.c_contiguous):
        moved = x.transpose([a for a in range(x.ndim) if a not in axes] + list(axes))
        if moved.flags.c_contiguous or not together:
            x, axes = np.ascontiguousarray(moved), tuple(range(x.ndim - len(axes), x.ndim))
        else:
            x = np.ascontiguousarray(x)
    if not x.flags.aligned:
        x = x.copy()  # NumPy would go through buffers and might order the additions by them
    first = axes[0] if axes else x.ndim
    outer = 1
    for d in x.shape[:first]:
        outer *= d
    return x.reshape(outer, n, x.size // (outer * n))


def _reduce_middle(ufunc: _Combine, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(outer, n, inner) -> (outer, inner); the result may be a view of `x` when n is 1."""
    outer, n, inner = x.shape
    blocks, rest = divmod(n, BLOCK)
    if not blocks:
        return _short_block(ufunc, x)
    partials = ufunc.reduce(x[:, : blocks * BLOCK].reshape(outer, blocks, _STEPS, PARTIALS * inner), axis=2)
    results = np.empty((outer, blocks + (rest > 0), inner), x.dtype)
    results[:, :blocks] = _fold(ufunc, partials.reshape(outer * blocks, PARTIALS, inner)).reshape(outer, blocks, inner)
    if rest:
        results[:, blocks] = _short_block(ufunc, x[:, blocks * BLOCK :])
    return _pairs(ufunc, results)


def _whole(ufunc: _Combine, x: np.ndarray[Any, Any]) -> Any:
    """All of a contiguous vector, which is not empty: the same tree as `_reduce_middle`, with fewer steps in between."""
    n = x.size
    if n > BLOCK:
        return _reduce_middle(ufunc, x.reshape(1, n, 1))[0, 0]
    if n > PARTIALS:
        return (
            _short_block(ufunc, x.reshape(1, n, 1))[0, 0] if n % PARTIALS else _halves(ufunc, ufunc.reduce(x.reshape(-1, PARTIALS), axis=0))
        )
    half = PARTIALS
    while half >= n:
        half >>= 1
    if n & (n - 1) and half:
        folded = x[:half].copy()
        head = folded[: n - half]
        ufunc(head, x[half:], out=head)
        x = folded
    return _halves(ufunc, x)


def _halves(ufunc: _Combine, x: np.ndarray[Any, Any]) -> Any:
    """A vector whose length is a power of two, folded until one number is left."""
    half = x.size >> 1
    while half:
        x = ufunc(x[:half], x[half:])
        half >>= 1
    return x[0]


def _short_block(ufunc: _Combine, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The result of one block of fewer than 1,024: (outer, m, inner) -> (outer, inner)."""
    outer, m, inner = x.shape
    if m <= PARTIALS:
        return _fold(ufunc, x)
    steps, rest = divmod(m, PARTIALS)
    partials = ufunc.reduce(x[:, : steps * PARTIALS].reshape(outer, steps, PARTIALS * inner), axis=1).reshape(outer, PARTIALS, inner)
    if rest:
        head = partials[:, :rest]
        ufunc(head, x[:, steps * PARTIALS :], out=head)
    return _fold(ufunc, partials)


def _fold(ufunc: _Combine, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Step 3: (outer, p, inner) with p <= 64 -> (outer, inner)."""
    p = x.shape[1]
    if p == 1:
        return x[:, 0]
    half = 1 << ((p - 1).bit_length() - 1)  # the largest of 32, ..., 1 below p
    if p == 2 * half:
        x = ufunc(x[:, :half], x[:, half:])
    else:
        folded = np.empty((x.shape[0], half, x.shape[2]), x.dtype)
        folded[:, p - half :] = x[:, p - half : half]
        ufunc(x[:, : p - half], x[:, half:], out=folded[:, : p - half])
        x = folded
    while half > 1:
        half >>= 1
        x = ufunc(x[:, :half], x[:, half:])
    return x[:, 0]


def _pairs(ufunc: _Combine, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Step 4: (outer, blocks, inner) -> (outer, inner)."""
    n = x.shape[1]
    while n > 1:
        even, odd = divmod(n, 2)
        combined = np.empty((x.shape[0], even + odd, x.shape[2]), x.dtype)
        ufunc(x[:, 0 : 2 * even : 2], x[:, 1 : 2 * even : 2], out=combined[:, :even])
        if odd:
            combined[:, even] = x[:, n - 1]
        x, n = combined, even + odd
    return x[:, 0]
