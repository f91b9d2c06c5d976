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
from .algorithm_parts import F32, F64, LARGE
from .algorithms import ALGORITHMS, circular
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


def numpy_loop(name: str) -> Loop:
    """The loop of an algorithm over float32 or float64 data."""
    algorithm = ALGORITHMS[name]

    def loop(x: Any, y: Any) -> int:
        p = F32 if x.dtype == _FLOAT32 else F64
        word = 0
        with np.errstate(all="ignore"):
            for start in range(0, x.size, _BLOCK):
                block = slice(start, start + _BLOCK)
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
