"""Ops whose MindSpore meaning is not just "convert, run, convert back": reading attributes, indexing, casts, reductions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import mindspore as ms
import numpy as np

from .. import dtypes
from ..errors import Decline
from . import memory, promotion
from .memory import Array, DType

Kernel = Callable[..., Any]
Handler = Callable[[Kernel, Sequence[Any], dict[str, Any], str], Any]

_INT64 = np.dtype(np.int64)
_INDEX_TYPES = frozenset(np.dtype(t) for t in (np.int32, np.int64, np.bool_))
_LIMITS = {row.numpy: (int(np.iinfo(row.numpy).min), int(np.iinfo(row.numpy).max)) for row in dtypes.TABLE if row.kind in ("int", "uint")}
_BFLOAT16 = dtypes.BY_NAME["bfloat16"].numpy


def wrap(result: Any, dtype: DType | None = None) -> Any:
    """What a kernel returned, as MindSpore values; arrays are converted to `dtype` first when it is given."""
    if isinstance(result, tuple | list):
        return tuple(wrap(item, dtype) for item in result)
    if isinstance(result, np.generic):
        result = np.asarray(result)
    if not isinstance(result, np.ndarray):
        return result
    if dtype is not None and result.dtype != dtype:
        result = result.astype(dtype)
    return memory.wrap(result)


def numpy_dtype(dtype: Any) -> DType:
    """The NumPy type of a dtype argument (MindSpore's, NumPy's, a name, a Python type). Raises Decline for others."""
    found = memory.TO_NUMPY.get(dtype) if isinstance(dtype, ms.Type) else None
    if found is None:
        try:
            found = np.dtype(dtype)
        except TypeError:
            raise Decline(f"the type {dtype!r} is left to MindSpore") from None
    if found not in memory.FROM_NUMPY:
        raise Decline(f"the type {dtype!r} is left to MindSpore")
    return found


def scalar(value: bool | int | float, dtype: DType) -> Any:
    """A Python number as MindSpore sees it: a float is a float32 number. Raises Decline for integers that do not fit."""
    if type(value) is float:
        return np.float32(value).astype(dtype)
    limits = _LIMITS.get(dtype, _LIMITS[_INT64])
    if not limits[0] <= value <= limits[1]:
        raise Decline("an integer beyond the range of the tensor's type is left to MindSpore")
    return np.array(value, np.int64 if type(value) is int else np.bool_).astype(dtype)[()]


def _tensor(value: Any) -> Array:
    if not isinstance(value, ms.Tensor):
        raise Decline("the first operand is no MindSpore tensor")
    return memory.view(value)


def _only(attrs: dict[str, Any], *names: str) -> dict[str, Any]:
    """The attributes called `names`; raises Decline when others were given a value."""
    if any(name not in names for name in attrs):
        raise Decline("an argument that is left to MindSpore")
    return attrs


# --- looking at tensors --------------------------------------------------------------------------


def _read(name: str) -> Handler:
    def handler(_kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
        return getattr(operands[0], name)

    return handler


def _to_python(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    if attrs.get("args"):
        raise Decline("an index is left to MindSpore")
    array = _tensor(operands[0])
    return kernel(array[...] if array.dtype != _BFLOAT16 else array.astype(np.float32), **attrs)


def _number(kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
    array = _tensor(operands[0])
    if array.shape not in ((), (1,)):
        raise Decline("more than one element")
    return kernel(array.reshape(()) if array.dtype != _BFLOAT16 else array.reshape(()).astype(np.float32))


# --- indexing --------------------------------------------------------------------------------------


def _key(key: Any) -> tuple[Any, bool]:
    """An index with tensors unwrapped, and whether it is basic. Raises Decline for what MindSpore reads in its own way."""
    if isinstance(key, ms.Tensor):
        array = memory.view(key)
        if array.dtype not in _INDEX_TYPES:
            raise Decline("an index tensor of this type is left to MindSpore")
        return array, False
    if key is None or key is Ellipsis or type(key) is int:
        return key, True
    if type(key) is slice:
        if any(isinstance(part, ms.Tensor | np.ndarray) for part in (key.start, key.stop, key.step)):
            raise Decline("slices bounded by tensors are left to MindSpore")
        return key, True
    if type(key) is tuple:
        parts = [_key(part) for part in key]
        return tuple(part for part, _ in parts), all(basic for _, basic in parts)
    if type(key) is list and key and all(type(item) is int for item in key):
        return np.array(key), False
    raise Decline("an index that is left to MindSpore")


def _getitem(kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
    array = _tensor(operands[0])
    key, basic = _key(operands[1])
    if basic:  # a trailing `...` makes the result a view also where NumPy would copy a scalar out
        parts = key if type(key) is tuple else (key,)
        key = parts if any(part is Ellipsis for part in parts) else (*parts, Ellipsis)
    return wrap(kernel(array, key))


def _setitem(kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
    target, key, value = operands
    array = _tensor(target)
    key, _ = _key(key)
    if isinstance(value, ms.Tensor):
        value = memory.view(value)
    elif type(value) is float:
        value = np.float32(value)
    elif type(value) not in (bool, int):
        raise Decline("a value that is left to MindSpore")
    with np.errstate(all="ignore"):
        kernel(array, key, np.asarray(value).astype(array.dtype))
    return None


# --- casts ------------------------------------------------------------------------------------------


def _cast(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    attrs.pop("copy", None)
    dtype = numpy_dtype(_only(attrs, "dtype").get("dtype", operands[1] if len(operands) > 1 else None))
    array = _tensor(operands[0])
    if array.dtype == dtype:
        return wrap(array)  # MindSpore's casts to the same type share the memory
    return wrap(kernel(array, dtype=dtype))


# --- reductions -------------------------------------------------------------------------------------


def _axes(attrs: dict[str, Any]) -> dict[str, Any]:
    """`axis` as NumPy takes it: MindSpore reads an empty tuple as all axes."""
    axis = attrs.get("axis")
    if type(axis) is list:
        axis = tuple(axis)
    attrs["axis"] = None if axis == () else axis
    return attrs


def _wide(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == _BFLOAT16 else array


def _total(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """sum and prod: small integers accumulate in int64, `dtype` converts first."""
    array = _tensor(operands[0])
    dtype = attrs.pop("dtype", None)
    own = dtypes.BY_NAME[promotion.sum_type(dtypes.BY_NUMPY[array.dtype].name)].numpy
    wanted = own if dtype is None else numpy_dtype(dtype)
    array = array.astype(wanted, copy=False)
    return wrap(kernel(_wide(array), **_axes(attrs)), wanted)


def _empty(array: Array, axis: Any) -> bool:
    axes = range(array.ndim) if axis is None else (axis if type(axis) is tuple else (axis,))
    return any(array.shape[a] == 0 for a in axes)


def _nan_for_empty(function: Callable[..., Any], array: Array, attrs: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(array, **attrs)


def _mean(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Integers give the mean rounded towards zero in their own type; the mean of nothing is NaN."""
    array = _tensor(operands[0])
    dtype = attrs.pop("dtype", None)
    if dtype is not None:
        array = array.astype(numpy_dtype(dtype), copy=False)
    attrs = _axes(attrs)
    if array.dtype.kind in "bc" or (array.dtype.kind in "iu" and _empty(array, attrs["axis"])):
        raise Decline("left to MindSpore")
    if _empty(array, attrs["axis"]):
        return wrap(_nan_for_empty(np.mean, _wide(array), attrs), array.dtype)
    return wrap(kernel(_wide(array), **attrs), array.dtype)


def _spread(name: str) -> Handler:
    """var and std: integers become float32."""
    function = getattr(np, name)

    def handler(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
        array = _tensor(operands[0])
        if array.dtype.kind in "bc" or attrs.get("dtype") is not None:
            raise Decline("left to MindSpore")
        attrs.pop("dtype", None)
        kept = array.dtype if array.dtype.kind not in "iu" else np.dtype(np.float32)
        array, attrs = _wide(array.astype(kept, copy=False)), _axes(attrs)
        try:
            return wrap(kernel(array, **attrs), kept)
        except Decline:  # too few elements: NumPy warns, MindSpore does not
            return wrap(_nan_for_empty(function, array, attrs), kept)

    return handler


def _extreme(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = _tensor(operands[0])
    if array.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    return wrap(kernel(_wide(array), **_axes(_only(attrs, "axis", "keepdims"))), array.dtype)


def _extreme_method(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """Tensor.max and min look at `keepdims` only when an axis is given."""
    return _extreme(kernel, operands, _without_idle_keepdims(attrs), dialect)


def _without_idle_keepdims(attrs: dict[str, Any]) -> dict[str, Any]:
    return attrs if attrs.get("axis") is not None else {name: value for name, value in attrs.items() if name != "keepdims"}


def _arg_extreme(index: str, mint_index: str) -> Handler:
    """argmax and argmin; MindSpore's index types differ between `ops` and `mint`."""

    def handler(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
        array = _tensor(operands[0])
        if array.dtype.kind in "bc":
            raise Decline("left to MindSpore")
        attrs = _without_idle_keepdims(_only(attrs, "axis", "keepdims"))
        return wrap(kernel(_wide(array), **attrs), np.dtype(mint_index if dialect == "mint" else index))

    return handler


def _argsort(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """argsort, and sort with its (values, indices); equal elements keep their order."""
    array = _tensor(operands[0])
    if array.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    index = kernel(_wide(array), kind="stable", **_only(attrs, "axis"))
    indices = wrap(index, _INT64 if dialect.startswith("mint") else np.dtype(np.int32))
    if not dialect.endswith("sort"):
        return indices
    return wrap(np.take_along_axis(array, index, attrs.get("axis", -1))), indices


def _count(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    count = np.asarray(kernel(_tensor(operands[0]), **_axes(_only(attrs, "axis", "keepdims"))))
    return wrap(count, _INT64 if dialect == "mint" else np.dtype(np.int32))


def _running(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """cumsum: `ops` keeps the type, Tensor's widens small integers to int32, `mint` to int64."""
    array = _tensor(operands[0])
    dtype = attrs.pop("dtype", None)
    wanted = array.dtype if dtype is None else numpy_dtype(dtype)
    if dtype is None and (array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.dtype.itemsize < 4)):
        if array.dtype == np.uint16:
            raise Decline("left to MindSpore")
        wanted = {"ops": array.dtype, "mint": _INT64}.get(dialect, np.dtype(np.int32))
    elif dtype is None and dialect == "mint" and array.dtype.kind == "i":
        wanted = _INT64
    if wanted == _BFLOAT16 or wanted.kind == "b":
        raise Decline("left to MindSpore")
    return wrap(kernel(array.astype(wanted, copy=False), dtype=wanted, **_only(attrs, "axis")), wanted)


def _running_product(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = _tensor(operands[0])
    dtype = attrs.pop("dtype", None)
    wanted = numpy_dtype(dtype) if dtype is not None else (_INT64 if array.dtype.kind in "biu" else array.dtype)
    if wanted == _BFLOAT16:
        raise Decline("left to MindSpore")
    return wrap(kernel(array.astype(wanted, copy=False), dtype=wanted, **_only(attrs, "axis")), wanted)


def _invert(kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], dialect: str) -> Any:
    """`~x` is logical in MindSpore; only `ops` functions flip bits of integers."""
    array = _tensor(operands[0])
    if array.dtype.kind != "b" and dialect == "tensor":
        raise Decline("`~` of integers is left to MindSpore")
    return wrap(kernel(array), array.dtype)


def _truth(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = _tensor(operands[0])
    if array.dtype == np.uint8:
        raise Decline("left to MindSpore, whose answer for uint8 is uint8")
    return wrap(kernel(_wide(array), **_axes(_only(attrs, "axis", "keepdims"))), np.dtype(np.bool_))


def _pick(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Elements by index tensor. Indices outside raise in the kernel and are left to MindSpore."""
    array, index = _tensor(operands[0]), _tensor(operands[1])
    if index.dtype.kind != "i":
        raise Decline("an index tensor of this type is left to MindSpore")
    return wrap(kernel(array, index, **_only(attrs, "axis")))


# --- cutting, padding, filling -----------------------------------------------------------------------


def _split(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """split by sizes, chunk by a number of parts, unbind into slices."""
    array = _tensor(operands[0])
    axis = attrs.get("axis", 0)
    parts = attrs["indices_or_sections"] if "indices_or_sections" in attrs else operands[1]
    length = array.shape[axis]
    if dialect == "chunk" and type(parts) is int and parts > 0:
        parts = max(-(-length // parts), 1)  # the size of a part, rounded up
    if dialect == "unbind":
        cut = kernel(array, length, axis=axis)
        return wrap(tuple(part.reshape(part.shape[: axis % array.ndim] + part.shape[axis % array.ndim + 1 :]) for part in cut))
    if type(parts) is int and parts > 0:
        bounds = list(range(parts, length, parts))
    elif type(parts) in (list, tuple) and sum(parts) == length:
        bounds = [int(end) for end in np.cumsum(parts)[:-1]]
    else:
        raise Decline("parts that do not add up: the error is MindSpore's")
    return wrap(tuple(kernel(array, bounds, axis=axis)))


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def _pad(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Pairs (before, after) from the last axis on."""
    array = _tensor(operands[0])
    widths = attrs["pad_width"] if "pad_width" in attrs else operands[1]
    mode = _PAD_MODES.get(attrs.get("mode", "constant"))
    if type(widths) not in (list, tuple) or len(widths) % 2 or mode is None or any(type(w) is not int or w < 0 for w in widths):
        raise Decline("a way of padding that is left to MindSpore")
    pairs = [(widths[i], widths[i + 1]) for i in range(0, len(widths), 2)]
    pad_width = [(0, 0)] * (array.ndim - len(pairs)) + pairs[::-1]
    if mode != "constant":
        return wrap(kernel(array, pad_width=pad_width, mode=mode))
    value = attrs.get("constant_values")
    if value is not None and type(value) not in (bool, int, float):
        raise Decline("a fill value that is left to MindSpore")
    value = np.asarray(np.float32(value) if type(value) is float else value or 0).astype(array.dtype)[()]
    return wrap(kernel(array, pad_width=pad_width, mode="constant", constant_values=value))


def _einsum(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    equation, *tensors = operands[0]
    arrays = [_tensor(value) for value in tensors]
    if type(equation) is not str or attrs or len({array.dtype for array in arrays}) != 1 or arrays[0].dtype.kind in "bc":
        raise Decline("left to MindSpore")
    return wrap(kernel((equation, *map(_wide, arrays))), arrays[0].dtype)


def _alike(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """zeros_like, ones_like, full_like."""
    array = _tensor(operands[0])
    dtype = attrs.pop("dtype", None)
    wanted = array.dtype if dtype is None else numpy_dtype(dtype)
    if "fill_value" in attrs and type(attrs["fill_value"]) not in (bool, int):
        if type(attrs["fill_value"]) is not float or wanted.kind != "f":
            raise Decline("a fill value that is left to MindSpore")
        attrs["fill_value"] = np.float32(attrs["fill_value"])
    return wrap(np.ascontiguousarray(kernel(array, dtype=wanted, **attrs)))


def _masked_fill(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`where` in the type of the tensor that is filled."""
    mask, value, array = _tensor(operands[0]), operands[1], _tensor(operands[2])
    if mask.dtype.kind != "b" or type(value) not in (bool, int, float) or (type(value) is float and array.dtype.kind not in "fV"):
        raise Decline("left to MindSpore")
    return wrap(kernel(mask, scalar(value, array.dtype), array, **attrs), array.dtype)


def _fill(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = _tensor(operands[0])
    value: Any = attrs.get("value", operands[1] if len(operands) > 1 else None)
    if type(value) not in (bool, int, float) or (type(value) is float and array.dtype.kind not in "fV"):
        raise Decline("left to MindSpore")
    kernel(array, value=scalar(value, array.dtype))
    return operands[0]


def _embedding(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    index, weight = _tensor(operands[0]), _tensor(operands[1])
    if index.dtype.kind != "i" or attrs:
        raise Decline("left to MindSpore")
    return wrap(kernel(index, weight))


def _cross_entropy(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    logits, target = _tensor(operands[0]), _tensor(operands[1])
    weight = attrs.pop("weight", None)
    if weight is not None:
        attrs["weight"] = _wide(_tensor(weight))
    if logits.dtype.kind not in "fV" or target.dtype.kind != "i" or (weight is not None and attrs["weight"].dtype != logits.dtype):
        raise Decline("left to MindSpore")
    return wrap(kernel(_wide(logits), target, **attrs), logits.dtype)


HANDLERS: dict[str, Handler] = {
    **{name: _read(name) for name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes", "strides")},
    "item": _to_python,
    "tolist": _to_python,
    "len": _to_python,
    "bool": _to_python,
    "int": _number,
    "float": _number,
    "getitem": _getitem,
    "setitem": _setitem,
    "astype": _cast,
    "cast": _cast,
    "sum": _total,
    "prod": _total,
    "mean": _mean,
    "var": _spread("var"),
    "std": _spread("std"),
    "max:method": _extreme_method,
    "min:method": _extreme_method,
    "max": _extreme,
    "min": _extreme,
    "ptp": _extreme,
    "argmax": _arg_extreme("int64", "int64"),
    "argmin": _arg_extreme("int32", "int64"),
    "argsort": _argsort,
    "count_nonzero": _count,
    "split": _split,
    "pad": _pad,
    "einsum": _einsum,
    "zeros_like": _alike,
    "ones_like": _alike,
    "full_like": _alike,
    "embedding": _embedding,
    "where:fill": _masked_fill,
    "fill": _fill,
    "cross_entropy": _cross_entropy,
    "cumsum": _running,
    "cumprod": _running_product,
    "invert": _invert,
    "any": _truth,
    "all": _truth,
    "take": _pick,
    "take_along_axis": _pick,
    "gather": _pick,
}
