"""Norms and logsumexp: reductions of what an elementwise op gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import Decline
from . import trees
from ._rows import AXIS, KEEPDIMS, numpy, own, reduction
from .numerics import canonical, open_up, quiet, total
from .outcome import accumulated, finish, reduction_types
from .registry import OpInfo, Param


@quiet
def _logsumexp(x: Any, *, axis: Any = None, keepdims: Any = False) -> Any:
    array, values = open_up(x)
    axes = trees.axes_of(axis, array)
    largest = values.max(axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, largest.dtype.type(0))
    sums = total(canonical("exp", values - shift), axes)
    return finish(canonical("log", sums) + shift.reshape(sums.shape), array, axes, array.dtype, keepdims)


def _norm(x: Any, *, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:  # noqa: A002
    array = trees.tensor(x)
    if array.dtype not in (trees.F16, trees.F32, trees.F64, trees.C64, trees.C128):
        array = array.astype(float)
    axes = trees.axes_of(axis, array) if array.ndim else ()
    real = np.empty(0, array.dtype).real.dtype
    flat = axis is None and (ord is None or (ord == 2 and array.ndim == 1) or (ord in ("f", "fro") and array.ndim == 2))
    one = ord in (None, 2) and len(axes) == 1 and array.ndim > 0
    two = ord in (None, "f", "fro") and len(axes) == 2
    if array.ndim == 0 or not (flat or one or two):
        if len(axes) == 1 and ord == 1 and (axis is not None or array.ndim == 1):
            sums = total(accumulated(np.absolute(array), trees.accumulator(real) or trees.F64, real), axes)
            return finish(sums, array, axes, real, keepdims)
        if len(axes) == 1 and isinstance(ord, float) and abs(ord) == np.inf and (axis is not None or array.ndim == 1):
            return (np.max if ord > 0 else np.min)(np.absolute(array), axis=axes, keepdims=keepdims)
        raise Decline("a norm that NumPy computes in its own way")
    types = reduction_types(array.dtype, None)
    assert types is not None
    values = accumulated(array, *types)
    squares = values.real * values.real + values.imag * values.imag if values.dtype.kind == "c" else values * values
    return finish(np.sqrt(total(squares, axes)), array, axes, real, keepdims)


ROWS: tuple[OpInfo, ...] = (
    reduction(
        "norm",
        _norm,
        "Vector and Frobenius norms of numpy.linalg; matrix norms that need singular values are left to NumPy.",
        (Param("ord", default=None), AXIS, KEEPDIMS),
        (numpy("linalg.norm", "x, ord=None, axis=None, keepdims=False"),),
        dtype_rule="float",
        gradient="broadcast(g / out) * x",
        exact=False,
        cost=2.0,
    ),
    reduction(
        "logsumexp",
        _logsumexp,
        "log(sum(exp(x))) over axes without overflow.",
        (AXIS, KEEPDIMS),
        (own("logsumexp", "x, axis=None, keepdims=False"),),
        dtype_rule="float",
        gradient="broadcast(g) * exp(x - broadcast(out))",
        exact=False,
        cost=22.0,
        fp_name="logsumexp",
    ),
)
