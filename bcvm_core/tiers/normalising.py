"""batch_norm by given statistics as one kernel: what `ops.nn.by_kernel` asks.

Each step is an elementwise op with a number per channel and is rounded by itself, so the bits are those of NumPy's four passes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..fusion.segments import Segment, SegmentOp
from ..ops.order import FIRST, LAST, channels_innermost
from .fuse import FusedSite

_Array = np.ndarray[Any, Any]
_OPS: Final = {"sub": "subtract", "div": "divide", "mul": "multiply", "add": "add"}


@functools.cache
def site(names: tuple[str, ...]) -> FusedSite:
    """The kernel of these steps: register 0 is x, 1 and so on are the numbers."""
    count = len(names)
    made = [0, *range(count + 1, 2 * count + 1)]
    ops = [SegmentOp(k, _OPS[name], (made[k], k + 1), (), made[k + 1]) for k, name in enumerate(names)]
    return FusedSite(Segment(tuple(ops), tuple(range(count + 1)), (made[-1],)), uniform=True)


def normalise(x: _Array, steps: Sequence[tuple[str, _Array]]) -> _Array | None:
    """As `ops.nn.by_kernel`."""
    kernel = site(tuple([name for name, _ in steps]))
    numbers = [number for _, number in steps]
    if channels_innermost(x):
        made = kernel(x.transpose(LAST), *numbers)
        return None if made is None else made.transpose(FIRST)
    if not x.flags.c_contiguous:
        return None
    shape = (-1, *[1] * (x.ndim - 2))
    return kernel(x, *[number.reshape(shape) for number in numbers])  # type: ignore[no-any-return]
