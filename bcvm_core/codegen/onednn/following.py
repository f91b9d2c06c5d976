"""A convolution and what follows it in one call of the library, with the bits of one op after the other.

What may follow are steps with a number per channel, the addition of a residual, and relu.

Each step of the library rounds once, as the op does, but its relu turns NaN into 0 where ours keeps it. The instruction that does so raises
the processor's flag "invalid" when it meets NaN: where the flag stays down nothing was lost (those of other threads become this one's, see
`stencils/crew_code.py`). Where it is up relu is a pass of its own over the result.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..stencils import threads
from .convolution import followed, run
from .library import Library
from .primitives import Convolution
from .weights import Packed

_Array = np.ndarray[Any, Any]
_INVALID: Final = 1  # of <fenv.h> on x86, for which alone the library is loaded
_Flags = tuple[Callable[[int], int], Callable[[int], int]]
_PIECE: Final = 1 << 18  # elements for which another thread is worth waking


@functools.cache
def _flags() -> _Flags | None:
    """What clears and what reads this thread's floating-point flags."""
    try:
        library = ctypes.PyDLL("libm.so.6")
        return library.feclearexcept, library.fetestexcept
    except (OSError, AttributeError):
        return None


_telling: dict[tuple[int, str], bool] = {}  # (library, implementation) -> whether its relu raises the flag for NaN


class Following:
    """One convolution with what follows it, for one set of shapes."""

    __slots__ = ("library", "plain", "apart", "at_once", "swapped", "relu")

    def __init__(self, library: Library, plain: Convolution, steps: tuple[str, ...], residual: str, relu: bool) -> None:
        """`steps`: per channel. `residual`: "" for none, else whether it is the "first" or "second" operand of its addition."""
        self.library, self.plain, self.relu = library, plain, relu
        self.swapped = residual == "first"  # of two NaNs an addition keeps the first: the library's is not asked where that shows
        self.apart: tuple[str, ...] = (*steps, "residual") if residual == "second" else steps
        self.at_once: tuple[str, ...] = (*steps, *(("residual",) if residual else ()), "relu") if relu else ()

    def __call__(
        self, images: _Array, weight: _Array, numbers: Sequence[_Array], residual: _Array | None, packed: Packed | None = None
    ) -> _Array | None:
        """Of images (n, height, width, channels); `residual` lies like the result. `packed`: the weight, in an order that may be right.

        None where the library computes it in another way. Raises OneDNNError.
        """
        everything = numbers if residual is None else (*numbers, residual)
        flags = _flags() if self.at_once else None
        whole = None if flags is None else followed(self.library, self.plain, self.at_once)
        if flags is not None and whole is not None and self._tells(whole, flags, images, weight, everything):
            flags[0](_INVALID)
            result = run(self.library, whole, images, weight, None, everything, None, packed)
            if not flags[1](_INVALID):
                return result
            flags[0](_INVALID)
        made = followed(self.library, self.plain, self.apart) if self.apart else self.plain
        if made is None:
            return None
        result = run(self.library, made, images, weight, None, numbers if self.swapped else everything, None, packed)
        self._finish(result, residual if self.swapped else None)
        return result

    def _tells(self, made: Convolution, flags: _Flags, images: _Array, weight: _Array, more: Sequence[_Array]) -> bool:
        """Whether the flag goes up where all images are NaN; tried once for each of the library's implementations."""
        key = id(self.library), made.implementation
        if key not in _telling:
            flags[0](_INVALID)
            run(self.library, made, np.full(images.shape, np.nan, images.dtype), weight, None, more)
            _telling[key] = bool(flags[1](_INVALID))
        return _telling[key]

    def _finish(self, result: _Array, residual: _Array | None) -> None:
        """What the library has not done, in place."""
        if residual is None and not self.relu:
            return
        flat, other = result.reshape(-1), None if residual is None else np.ascontiguousarray(residual).reshape(-1)

        def part(start: int) -> None:
            piece = flat[start : start + _PIECE]
            with np.errstate(all="ignore"):
                if other is not None:
                    np.add(other[start : start + _PIECE], piece, out=piece)
                if self.relu:
                    np.maximum(piece, piece.dtype.type(0), out=piece)

        threads.workers.run(part, range(0, flat.size, _PIECE), threads.cores())
