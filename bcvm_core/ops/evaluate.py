"""Canonical algorithms evaluated with NumPy: the slow truth, and the fallback where no code may be made.

`definition(name)` gives an op's definition. Types follow NumPy's float functions: int8 gives
float16, int16 float32, wider integers float64; float16 and bfloat16 are computed as float32 and
rounded once. Complex and extended arguments go to the NumPy function of the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np

from .. import fpstatus
from .algorithm_parts import F32, F64, LARGE, TINY
from .algorithms import ALGORITHMS, circular
from .algorithms_f32 import SINGLE
from .large import quarter_turns

FLAG_BITS: Final = {"divide": fpstatus.DIVIDE, "overflow": fpstatus.OVERFLOW, "underflow": fpstatus.UNDERFLOW, "invalid": fpstatus.INVALID}
LARGE_BIT: Final = 16
CIRCULAR: Final = {"sin": 0, "cos": 1}
_BLOCK: Final = 8192  # temporaries stay in the cache
_FLOAT32: Final = np.dtype(np.float32)
_FLOAT64: Final = np.dtype(np.float64)
_FLOAT16: Final = np.dtype(np.float16)
BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)

Loop = Callable[[Any, Any], int]  # (input, output), both 1-D, contiguous, one type; returns flags


class NumpyBuilder:
    """Values are arrays: float64, uint64 for bit patterns, bool for masks."""

    def select(self, mask: Any, yes: Any, no: Any) -> Any:
        return np.where(mask, yes, no)

    def bits(self, x: Any) -> Any:
        return x.view(np.uint64)

    def from_bits(self, i: Any) -> Any:
        return i.view(np.float64)

    def absolute(self, x: Any) -> Any:
        return np.absolute(x)

    def is_normal_power(self, n: Any) -> bool:
        return False


_BUILDER: Final = NumpyBuilder()
_HALF: Final = 1 << 28  # the bit of a double that is half of a float32's last place
_BEYOND: Final = (1 << 29) - 1  # all bits beyond that place


class NumpySingleBuilder:
    """Values are float32 arrays, uint32 for bit patterns, bool for masks."""

    def select(self, mask: Any, yes: Any, no: Any) -> Any:
        return np.where(mask, _single(yes), _single(no))

    def bits(self, x: Any) -> Any:
        return x.view(np.uint32)

    def from_bits(self, i: Any) -> Any:
        return i.view(np.float32)

    def absolute(self, x: Any) -> Any:
        return np.absolute(x)

    def fma(self, a: Any, c: Any, d: Any) -> Any:
        """Products are exact in doubles, and so is the sum but for one rounding: only where that ends half-way does a second one matter."""
        product = _double(a) * _double(c)
        d = _double(d)
        total = product + d
        beyond = total.view(np.uint64) & _BEYOND
        beyond ^= _HALF
        y = total.astype(np.float32)
        if not beyond.min(initial=1):
            _round_again(product, d, total, y, beyond == 0)
        if np.absolute(y).min(initial=1.0) < TINY[F32]:  # subnormal numbers have another last place
            _round_again(product, d, total, y, (np.absolute(total) < TINY[F32]) & (total != 0))
        return y

    def scale(self, y: Any, n: Any) -> Any:
        return np.ldexp(_single(y), np.where(np.absolute(n) < 400, n, np.float32(0)).astype(np.int32))

    def at_most(self, x: Any, bound: float) -> Any:
        return np.minimum(x, _single(bound))

    def at_least(self, x: Any, bound: float) -> Any:
        return np.maximum(x, _single(bound))


def _single(x: Any) -> Any:
    return np.float32(x) if isinstance(x, float) else x


def _double(x: Any) -> Any:
    """A float32 value as float64; constants are rounded to float32 first."""
    return np.float64(np.float32(x)) if isinstance(x, float) else x.astype(np.float64)


def _round_again(a: Any, c: Any, total: Any, y: Any, where: Any) -> None:
    """Round a + c to float32 where its rounding to a double (`total`) may have spoilt that: by way of the last bit."""
    places = np.flatnonzero(where)
    if places.size:
        a, c = (v[places] if np.ndim(v) else v for v in (a, c))
        y[places] = _rounded_to_odd(a, c, total[places]).astype(np.float32)


def _rounded_to_odd(a: Any, c: Any, total: Any) -> Any:
    """a + c with the last bit set where anything was dropped."""
    d = total - a
    dropped = (a - (total - d)) + (c - d)
    bits = total.view(np.int64)
    away = (dropped < 0) == (total > 0)  # the sum was rounded away from zero
    cut = np.where(away, bits - 1, bits) | 1
    return np.where((dropped != 0) & np.isfinite(total), cut, bits).view(np.float64)


_SINGLE_BUILDER: Final = NumpySingleBuilder()


def numpy_loop(name: str) -> Loop:
    """The loop of an algorithm over float32 or float64 data."""
    algorithm, single = ALGORITHMS[name], SINGLE.get(name)

    def loop(x: Any, y: Any) -> int:
        p = F32 if x.dtype == _FLOAT32 else F64
        word = 0
        with np.errstate(all="ignore"):
            for start in range(0, x.size, _BLOCK):
                block = slice(start, start + _BLOCK)
                if p == F32 and single is not None:
                    result = single(_SINGLE_BUILDER, x[block])
                else:
                    result = algorithm(_BUILDER, x[block].astype(np.float64), p)
                y[block] = result.value
                for kind, mask in result.flags.items():
                    if mask.any():
                        word |= FLAG_BITS.get(kind, LARGE_BIT)
        if word & LARGE_BIT:
            patch_large(name, x, y)
        return word & ~LARGE_BIT

    return loop


def patch_large(name: str, x: Any, y: Any) -> None:
    """Write the elements of a sine or cosine whose argument needs the exact reduction."""
    with np.errstate(all="ignore"):
        where = np.flatnonzero((np.absolute(x) > LARGE) & (np.absolute(x) < np.inf))
        r, low, pattern = quarter_turns(x[where].astype(np.float64))
        p = F32 if x.dtype == _FLOAT32 else F64
        y[where] = circular(_BUILDER, r, low, pattern, p, CIRCULAR[name])


def float_type(dtype: Any) -> Any:
    """The float type in which NumPy's float functions compute `dtype`; itself for floats."""
    return np.result_type(np.float16, dtype) if dtype.kind in "biu" else dtype


def dense(x: Any) -> Any:
    """x, or a copy of it, whose elements fill one block of memory in some order of the axes."""
    flags = x.flags
    if flags.c_contiguous or flags.f_contiguous:
        return x
    expected = x.itemsize
    for stride, dim in sorted(zip(x.strides, x.shape, strict=True)):
        if dim != 1:
            if stride != expected:
                return np.positive(x)  # a copy in the layout that NumPy gives results of functions
            expected *= dim
    return x


def apply(name: str, loop: Loop, x: Any, out: Any = None) -> Any:
    """Run `loop` over a tensor of any type and layout; events are reported under the name of the op.

    A tensor with a method `apply_algorithm` is asked to do it itself (tracing).
    """
    if type(x) is not np.ndarray:
        own = getattr(x, "apply_algorithm", None)
        if own is not None:
            return own(name)
        if not isinstance(x, np.ndarray):
            x = np.asarray(x)
    dtype = x.dtype
    if dtype in (_FLOAT32, _FLOAT64):
        y, word = _same(loop, x)
    elif dtype in (_FLOAT16, BFLOAT16):
        y, word = _narrow(loop, x)
    elif dtype.kind in "biu":
        return apply(name, loop, x.astype(float_type(dtype)), out)
    else:
        function = getattr(np, name, None)
        if function is None:
            raise TypeError(f"{name} does not support the type {dtype}")
        return function(x) if out is None else function(x, out=out)
    if word:
        fpstatus.note_word(word, name)
    if out is None:
        return y if y.ndim else y[()]
    if not np.can_cast(y.dtype, out.dtype, "same_kind"):
        raise TypeError(f"cannot cast the result of {name} from {y.dtype} to {out.dtype} with casting rule 'same_kind'")
    out[...] = y
    return out


def _same(loop: Loop, x: Any) -> tuple[Any, int]:
    x = dense(x)
    y = np.empty_like(x, subok=False)
    return y, loop(x.ravel(order="K"), y.ravel(order="K"))


def _narrow(loop: Loop, x: Any) -> tuple[Any, int]:
    """float16 and bfloat16: in float32, rounded once, with the events of the rounding."""
    with np.errstate(all="ignore"):
        wide, word = _same(loop, x.astype(np.float32))
        y = wide.astype(x.dtype)
        if x.dtype == _FLOAT16:
            if (np.isinf(y) & np.isfinite(wide)).any():
                word |= fpstatus.OVERFLOW
            if ((np.absolute(wide) < 6.103515625e-05) & (y.astype(np.float32) != wide)).any():
                word |= fpstatus.UNDERFLOW
    return y, word


def run(name: str, x: Any, *, out: Any = None) -> Any:
    """Evaluate an algorithm with NumPy; `out`: where the result goes (and what is returned)."""
    return apply(name, _loops[name], x, out)


_loops: Final[dict[str, Loop]] = {name: numpy_loop(name) for name in ALGORITHMS}


def definition(name: str) -> Callable[..., Any]:
    """The slow truth of `name` by the registry's calling convention."""
    loop = _loops[name]

    def evaluate(x: Any, /, *, out: Any = None) -> Any:
        return apply(name, loop, x, out)

    evaluate.__name__ = evaluate.__qualname__ = name
    return evaluate
