"""A convolution and what follows it in one call of the library, with the bits of one op after the other.

What may follow are steps with a number per channel, the addition of a residual, and relu.

Each step of the library rounds once, as the op does, but its relu turns NaN into 0 where ours keeps it. The instruction that does so raises
the processor's flag "invalid" when it meets NaN: where the flag stays down nothing was lost (those of other threads become this one's, see
`stencils/crew_code.py`). Where it is up relu is a pass of its own over the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..loops import address
from ..stencils import threads
from ..stencils.recycle import empty
from . import threadpool
from .convolution import followed, is_dense, run, told
from .library import Library
from .primitives import Convolution, tells_invalid
from .weights import Packed

_Array = np.ndarray[Any, Any]
_F32: Final = np.dtype(np.float32)
_PIECE: Final = 1 << 18  # elements for which another thread is worth waking

_telling: dict[tuple[int, str], bool] = {}  # (library, implementation) -> whether its relu raises the flag for NaN


class Following:
    """One convolution with what follows it, for one set of shapes."""

    __slots__ = ("library", "plain", "apart", "at_once", "swapped", "relu", "usual")

    def __init__(self, library: Library, plain: Convolution, steps: tuple[str, ...], residual: str, relu: bool) -> None:
        """`steps`: per channel. `residual`: "" for none, else whether it is the "first" or "second" operand of its addition."""
        self.library, self.plain, self.relu = library, plain, relu
        self.swapped = residual == "first"  # of two NaNs an addition keeps the first: the library's is not asked where that shows
        self.apart: tuple[str, ...] = (*steps, "residual") if residual == "second" else steps
        self.at_once: tuple[str, ...] = (*steps, *(("residual",) if residual else ()), "relu") if relu else ()
        self.usual: Convolution | None = None  # what does all of it, unless relu meets NaN; known from the first call on

    def __call__(
        self,
        images: _Array,
        weight: _Array,
        numbers: Sequence[_Array],
        residual: _Array | None,
        packed: Packed | None = None,
        places: tuple[int, ...] | None = None,
    ) -> _Array | None:
        """Of images (n, height, width, channels); `residual` lies like the result. `packed`: the weight, in an order that may be right.
        `places`: where the numbers are, if the library can read them there.

        None where the library computes it in another way. Raises OneDNNError.
        """
        usual = self.usual
        ready = usual is not None and packed is not None and places is not None and packed.order == usual.format
        if ready and is_dense(images) and (residual is None or is_dense(residual)):
            assert usual is not None and packed is not None and places is not None
            result: _Array = empty(usual.out_shape, _F32)
            given = (address(images), packed.address, address(result), *places)
            last = () if residual is None else (address(residual),)
            raised = threadpool.run(self.library, usual.run, (*given, *last), usual.flops)
            return self._apart(images, weight, numbers, residual, packed) if self.relu and raised is not False else result
        everything = numbers if residual is None else (*numbers, residual)
        whole = followed(self.library, self.plain, self.at_once) if self.at_once and tells_invalid() else None
        if whole is not None and self._tells(whole, images, weight, everything):
            result, raised = told(self.library, whole, images, weight, None, everything, None, packed)
            if raised is False:
                self.usual = whole
                return result
        return self._apart(images, weight, numbers, residual, packed)

    def make(self) -> None:
        """Have the primitive made that a call will want. Raises OneDNNError."""
        steps = self.at_once if self.at_once and tells_invalid() else self.apart
        made = followed(self.library, self.plain, steps) if steps else self.plain
        if made is not None:
            made.run.make()

    def _apart(
        self, images: _Array, weight: _Array, numbers: Sequence[_Array], residual: _Array | None, packed: Packed | None
    ) -> _Array | None:
        """With what the library can't be trusted with in passes of its own; None where it computes the rest in another way."""
        made = followed(self.library, self.plain, self.apart) if self.apart else self.plain
        if made is None:
            return None
        everything = numbers if residual is None or self.swapped else (*numbers, residual)
        result = run(self.library, made, images, weight, None, everything, None, packed)
        if not (self.relu or self.swapped):
            self.usual = made
        self._finish(result, residual if self.swapped else None)
        return result

    def _tells(self, made: Convolution, images: _Array, weight: _Array, more: Sequence[_Array]) -> bool:
        """Whether the flag goes up where all images are NaN; tried once for each of the library's implementations."""
        key = id(self.library), made.implementation
        if key not in _telling:
            _, raised = told(self.library, made, np.full(images.shape, np.nan, images.dtype), weight, None, more)
            _telling[key] = bool(raised)
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
