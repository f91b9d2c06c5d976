"""Reductions, scans and orderings, with MindSpore's element types and its reading of `axis` and `keepdims`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import Decline
from . import promotion
from .conversion import BFLOAT16, INT64, Handler, Kernel, numpy_dtype, only, scalar, tensor, wide, wrap
from .memory import Array


def all_axes(attrs: dict[str, Any]) -> dict[str, Any]:
    """`axis` as NumPy takes it: MindSpore reads an empty tuple as all axes."""
    axis = attrs.get("axis")
    if type(axis) is list:
        axis = tuple(axis)
    attrs["axis"] = None if axis == () else axis
    return attrs


def _total(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """sum and prod: small integers accumulate in int64, `dtype` converts first, `initial` is a term."""
    array = tensor(operands[0])
    dtype, initial = attrs.pop("dtype", None), attrs.pop("initial", None)
    own = dtypes.BY_NAME[promotion.sum_type(dtypes.BY_NUMPY[array.dtype].name)].numpy
    wanted = own if dtype is None else numpy_dtype(dtype)
    values = wide(array.astype(wanted, copy=False))
    if initial is not None:
        if type(initial) not in (bool, int, float) or values.dtype.kind not in "fiu":
            raise Decline("left to MindSpore")
        attrs["initial"] = scalar(initial, values.dtype)
    return wrap(kernel(values, **all_axes(attrs)), wanted)


def _empty(array: Array, axis: Any) -> bool:
    axes = range(array.ndim) if axis is None else (axis if type(axis) is tuple else (axis,))
    return any(array.shape[a] == 0 for a in axes)


def quietly(function: Callable[..., Any], array: Array, attrs: dict[str, Any]) -> Any:
    """NumPy's result where it would warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(array, **attrs)


def _mean(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Integers give the mean rounded towards zero in their own type; the mean of nothing is NaN."""
    array = tensor(operands[0])
    dtype = attrs.pop("dtype", None)
    if dtype is not None:
        array = array.astype(numpy_dtype(dtype), copy=False)
    attrs = all_axes(attrs)
    if array.dtype.kind in "bc" or (array.dtype.kind in "iu" and _empty(array, attrs["axis"])):
        raise Decline("left to MindSpore")
    if _empty(array, attrs["axis"]):
        return wrap(quietly(np.mean, wide(array), attrs), array.dtype)
    return wrap(kernel(wide(array), **attrs), array.dtype)


def _spread(name: str) -> Handler:
    """var and std: integers become float32."""
    function = getattr(np, name)

    def handler(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
        array = tensor(operands[0])
        if array.dtype.kind in "bc" or attrs.get("dtype") is not None:
            raise Decline("left to MindSpore")
        attrs.pop("dtype", None)
        kept = array.dtype if array.dtype.kind not in "iu" else np.dtype(np.float32)
        array, attrs = wide(array.astype(kept, copy=False)), all_axes(attrs)
        try:
            return wrap(kernel(array, **attrs), kept)
        except Decline:  # too few elements: NumPy warns, MindSpore does not
            return wrap(quietly(function, array, attrs), kept)

    return handler


def _without_idle_keepdims(attrs: dict[str, Any]) -> dict[str, Any]:
    return attrs if attrs.get("axis") is not None else {name: value for name, value in attrs.items() if name != "keepdims"}


def _arg_extreme(index: str, mint_index: str) -> Handler:
    """argmax and argmin; MindSpore's index types differ between `ops` and `mint`."""

    def handler(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
        array = tensor(operands[0])
        if array.dtype.kind in "bc":
            raise Decline("left to MindSpore")
        attrs = _without_idle_keepdims(only(attrs, "axis", "keepdims"))
        return wrap(kernel(wide(array), **attrs), np.dtype(mint_index if dialect == "mint" else index))

    return handler


def _running(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """cumsum: `ops` keeps the type, Tensor's widens small integers to int32, `mint` to int64."""
    array = tensor(operands[0])
    dtype = attrs.pop("dtype", None)
    wanted = array.dtype if dtype is None else numpy_dtype(dtype)
    if dtype is None and (array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.dtype.itemsize < 4)):
        if array.dtype == np.uint16:
            raise Decline("left to MindSpore")
        wanted = {"ops": array.dtype, "mint": INT64}.get(dialect, np.dtype(np.int32))
    elif dtype is None and dialect == "mint" and array.dtype.kind == "i":
        wanted = INT64
    if wanted == BFLOAT16 or wanted.kind == "b":
        raise Decline("left to MindSpore")
    return wrap(kernel(array.astype(wanted, copy=False), dtype=wanted, **only(attrs, "axis")), wanted)


def _running_product(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    dtype = attrs.pop("dtype", None)
    wanted = numpy_dtype(dtype) if dtype is not None else (INT64 if array.dtype.kind in "biu" else array.dtype)
    if wanted == BFLOAT16:
        raise Decline("left to MindSpore")
    return wrap(kernel(array.astype(wanted, copy=False), dtype=wanted, **only(attrs, "axis")), wanted)


def _truth(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    if array.dtype == np.uint8:
        raise Decline("left to MindSpore, whose answer for uint8 is uint8")
    return wrap(kernel(wide(array), **all_axes(only(attrs, "axis", "keepdims"))), np.dtype(np.bool_))


HANDLERS: dict[str, Handler] = {
    "sum": _total,
    "prod": _total,
    "mean": _mean,
    "var": _spread("var"),
    "std": _spread("std"),
    "argmax": _arg_extreme("int64", "int64"),
    "argmin": _arg_extreme("int32", "int64"),
    "cumsum": _running,
    "cumprod": _running_product,
    "any": _truth,
    "all": _truth,
}
