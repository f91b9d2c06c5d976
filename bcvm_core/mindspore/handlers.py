"""Ops whose MindSpore meaning is not just "convert, run, convert back": attributes, indexing, casts, cutting and filling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Decline
from . import memory
from .conversion import BFLOAT16, Handler, Kernel, numpy_dtype, only, scalar, tensor, wide, wrap
from .reductions import HANDLERS as _REDUCTIONS

_INDEX_TYPES = frozenset(np.dtype(t) for t in (np.int32, np.int64, np.bool_))


# --- looking at tensors --------------------------------------------------------------------------


def _read(name: str) -> Handler:
    def handler(_kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
        return getattr(operands[0], name)

    return handler


def _to_python(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    if attrs.get("args"):
        raise Decline("an index is left to MindSpore")
    array = tensor(operands[0])
    return kernel(array[...] if array.dtype != BFLOAT16 else array.astype(np.float32), **attrs)


def _number(kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    if array.shape not in ((), (1,)):
        raise Decline("more than one element")
    return kernel(array.reshape(()) if array.dtype != BFLOAT16 else array.reshape(()).astype(np.float32))


# --- indexing --------------------------------------------------------------------------------------


def _key(key: Any) -> tuple[Any, bool]:
    """An index with tensors unwrapped, and whether it is basic. Raises Decline for what MindSpore reads in its own way."""
    if isinstance(key, memory.TENSORS):
        array = memory.view(key)
        if array.dtype not in _INDEX_TYPES:
            raise Decline("an index tensor of this type is left to MindSpore")
        return array, False
    if key is None or key is Ellipsis or type(key) is int:
        return key, True
    if type(key) is slice:
        if any(isinstance(part, (*memory.TENSORS, np.ndarray)) for part in (key.start, key.stop, key.step)):
            raise Decline("slices bounded by tensors are left to MindSpore")
        return key, True
    if type(key) is tuple:
        parts = [_key(part) for part in key]
        return tuple(part for part, _ in parts), all(basic for _, basic in parts)
    if type(key) is list and key and all(type(item) is int for item in key):
        return np.array(key), False
    raise Decline("an index that is left to MindSpore")


def _is_everything(part: Any) -> bool:
    return part is Ellipsis or (type(part) is slice and part.start is part.stop is part.step is None)


def _getitem(kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    if operands[1] is Ellipsis or (type(operands[1]) is tuple and all(_is_everything(part) for part in operands[1])):
        return operands[0]
    key, basic = _key(operands[1])
    if basic:  # a trailing `...` makes the result a view also where NumPy would copy a scalar out
        parts = key if type(key) is tuple else (key,)
        key = parts if any(part is Ellipsis for part in parts) else (*parts, Ellipsis)
    return wrap(kernel(array, key))


def _setitem(kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
    target, key, value = operands
    array = tensor(target)
    key, _ = _key(key)
    if isinstance(value, memory.TENSORS):
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
    dtype = numpy_dtype(only(attrs, "dtype").get("dtype", operands[1] if len(operands) > 1 else None))
    array = tensor(operands[0])
    if array.dtype == dtype:
        return wrap(array if array.flags.c_contiguous else array.copy())  # MindSpore's casts to the same type share the memory then
    return wrap(kernel(array, dtype=dtype))


def _cast_or_itself(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """`ops.cast` gives the tensor itself where it has the type."""
    found = _cast(kernel, operands, attrs, dialect)
    return operands[0] if tensor(found).dtype == tensor(operands[0]).dtype else found


def _itself(_kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
    tensor(operands[0])
    return operands[0]


def _swapped(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """One axis swapped with itself leaves the tensor."""
    array = tensor(operands[0])
    axes = attrs.get("axis1", *operands[1:2]), attrs.get("axis2", *operands[2:3])
    if not all(type(axis) is int and -array.ndim <= axis < array.ndim for axis in axes):
        raise Decline("left to MindSpore")
    return operands[0] if axes[0] % array.ndim == axes[1] % array.ndim else wrap(kernel(array, *axes))


def _turned(kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
    """`x.T` of a vector or a number is x."""
    array = tensor(operands[0])
    return operands[0] if array.ndim < 2 else wrap(kernel(array))


def _through(_kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
    """A tensor of its own over the same memory."""
    return wrap(tensor(operands[0]))


def _invert(kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], dialect: str) -> Any:
    """`~x` is logical in MindSpore; only `ops` functions flip bits of integers."""
    array = tensor(operands[0])
    if array.dtype.kind != "b" and dialect == "tensor":
        raise Decline("`~` of integers is left to MindSpore")
    return wrap(kernel(array), array.dtype)


def _pick(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Elements by index tensor. Indices outside raise in the kernel and are left to MindSpore."""
    array, index = tensor(operands[0]), tensor(operands[1])
    if index.dtype.kind != "i":
        raise Decline("an index tensor of this type is left to MindSpore")
    return wrap(kernel(array, index, **only(attrs, "axis")))


# --- cutting, padding, filling -----------------------------------------------------------------------


def _split(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """split by sizes, chunk by a number of parts, unbind into slices."""
    array = tensor(operands[0])
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
    array = tensor(operands[0])
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
    arrays = [tensor(value) for value in tensors]
    if type(equation) is not str or attrs or len({array.dtype for array in arrays}) != 1 or arrays[0].dtype.kind in "bc":
        raise Decline("left to MindSpore")
    return wrap(kernel((equation, *map(wide, arrays))), arrays[0].dtype)


def _alike(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """zeros_like, ones_like, full_like."""
    array = tensor(operands[0])
    dtype = attrs.pop("dtype", None)
    wanted = array.dtype if dtype is None else numpy_dtype(dtype)
    if "fill_value" in attrs and type(attrs["fill_value"]) not in (bool, int):
        if type(attrs["fill_value"]) is not float or wanted.kind != "f":
            raise Decline("a fill value that is left to MindSpore")
        attrs["fill_value"] = np.float32(attrs["fill_value"])
    return wrap(np.ascontiguousarray(kernel(array, dtype=wanted, **attrs)))


def _masked_fill(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`where` in the type of the tensor that is filled."""
    mask, value, array = tensor(operands[0]), operands[1], tensor(operands[2])
    if mask.dtype.kind != "b" or type(value) not in (bool, int, float) or (type(value) is float and array.dtype.kind not in "fV"):
        raise Decline("left to MindSpore")
    return wrap(kernel(mask, scalar(value, array.dtype), array, **attrs), array.dtype)


def _fill(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    value: Any = attrs.get("value", operands[1] if len(operands) > 1 else None)
    if type(value) not in (bool, int, float) or (type(value) is float and array.dtype.kind not in "fV"):
        raise Decline("left to MindSpore")
    kernel(array, value=scalar(value, array.dtype))
    return operands[0]


def _embedding(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    index, weight = tensor(operands[0]), tensor(operands[1])
    if index.dtype.kind != "i" or attrs:
        raise Decline("left to MindSpore")
    return wrap(kernel(index, weight))


def _cross_entropy(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    logits, target = tensor(operands[0]), tensor(operands[1])
    weight = attrs.pop("weight", None)
    if weight is not None:
        attrs["weight"] = wide(tensor(weight))
    if logits.dtype.kind not in "fV" or target.dtype.kind != "i" or (weight is not None and attrs["weight"].dtype != logits.dtype):
        raise Decline("left to MindSpore")
    return wrap(kernel(wide(logits), target, **attrs), logits.dtype)


HANDLERS: dict[str, Handler] = {
    **_REDUCTIONS,
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
    "cast": _cast_or_itself,
    "positive": _itself,
    "copy:through": _through,
    "swapaxes:itself": _swapped,
    "transposed": _turned,
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
    "invert": _invert,
    "take": _pick,
    "take_along_axis": _pick,
    "gather": _pick,
}
