"""Images whose channels lie innermost behind the axes (n, channels, height, width).

Convolutions compute them so. Where the results of an op stay with whoever runs several in a row, they need not be copied into plain
order in between: ops in `KEEPING` then give and take them as they lie, those in `FOLLOWING` and elementwise ops compute each element the
same way wherever it lies and so keep the order of what they get. All others must be given plain arrays, for what they compute may
follow the order.
"""

from __future__ import annotations

import contextvars
from typing import Any, Final

import numpy as np

_Array = np.ndarray[Any, Any]

LAST: Final = (0, 2, 3, 1)
"""Axes (n, channels, height, width) to (n, height, width, channels)."""
FIRST: Final = (0, 3, 1, 2)
"""The way back."""

KEEPING: Final = frozenset({"conv2d", "max_pool2d", "avg_pool2d"})
FOLLOWING: Final = frozenset({"batch_norm", "batch_norm_parts", "bias_add", "concatenate"})


_kept: contextvars.ContextVar[bool] = contextvars.ContextVar("kept", default=False)


class kept:  # noqa: N801 (a context manager, used as a function)
    """An op of `KEEPING` runs for somebody who takes its result in any order."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _kept.set(True)

    def __exit__(self, *error: object) -> None:
        _kept.reset(self.before)


def is_kept() -> bool:
    """Whether the op that runs may leave its result with the channels innermost."""
    return _kept.get()


def channels_innermost(x: _Array) -> bool:
    """Whether the channels of images (n, channels, height, width) lie innermost, densely, and not also in plain order."""
    return x.ndim == 4 and not x.flags.c_contiguous and x.transpose(LAST).flags.c_contiguous
