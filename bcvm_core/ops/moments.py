"""Variance and mean over the same axes, with the bits of `var`, `std` and `mean`; without floating-point events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Decline
from . import trees
from ._rows import AXIS, KEEPDIMS, own, reduction
from .numerics import open_up, quiet
from .outcome import finish
from .reduce import DDOF, mean_of, var_of
from .registry import OpInfo


def _pair(root: bool) -> Callable[..., tuple[Any, Any]]:
    @quiet
    def definition(x: Any, *, axis: Any = None, ddof: Any = 0, keepdims: Any = False) -> tuple[Any, Any]:
        array, values = open_up(x)
        axes = trees.axes_of(tuple(axis) if isinstance(axis, list) else axis, array)
        if array.ndim == 0:
            array, values, axes, keepdims = array.reshape(1), values.reshape(1), (0,), False
        n = trees.count(values, axes)
        if n - ddof <= 0:
            raise Decline("a variance of too few numbers")
        mean = mean_of(values, axes)
        spread = var_of(values, axes, n - ddof, mean)
        spread = np.sqrt(spread) if root else spread
        return finish(spread, array, axes, array.dtype, keepdims), finish(mean, array, axes, array.dtype, keepdims)

    return definition


ROWS: tuple[OpInfo, ...] = tuple(
    reduction(
        name,
        _pair(root),
        f"({what}, mean) over axes.",
        (AXIS, DDOF, KEEPDIMS),
        (own(name, "x, axis=None, ddof=0, keepdims=False"),),
        dtype_rule="float",
        exact=False,
        cost=5.0,
        result="any",
        fuse="none",
        policy=0,
        gradient="var_grad(g[0], x) + broadcast(g[1]) / n",
    )
    for name, root, what in (("var_mean", False, "variance"), ("std_mean", True, "standard deviation"))
)
