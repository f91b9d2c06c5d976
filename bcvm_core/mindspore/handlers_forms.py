"""Handlers of the further forms of a name: a tensor in place of a shape, types of one's own choice, modes, swapped parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Decline
from . import handlers, promotion, reductions
from .conversion import BFLOAT16, FLOAT32, INT32, INT64, Handler, Kernel, numpy_dtype, only, scalar, tensor, wide, wrap
from .memory import TENSORS, Array

_FLOATS = frozenset((np.dtype(np.float16), FLOAT32, np.dtype(np.float64), BFLOAT16))


def _float(value: Any) -> Array:
    array = tensor(value)
    if array.dtype not in _FLOATS:
        raise Decline("element types that are left to MindSpore")
    return array


# --- shapes -----------------------------------------------------------------------------------------


def _as_another(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """expand_as, view_as: the shape of another tensor."""
    array, other = tensor(operands[0]), tensor(attrs.get("shape"))
    return wrap(kernel(array, shape=other.shape))


def _reshaped(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """The function `reshape`, which takes a sequence; the method also takes numbers."""
    shape = attrs.get("shape")
    if type(shape) not in (tuple, list):
        raise Decline("a shape that is no sequence is left to MindSpore")
    return wrap(kernel(tensor(operands[0]), shape=shape))


def _joined(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Tensors of one type along an axis that is there; NumPy takes large axes for none."""
    arrays = [tensor(value) for value in operands[0]]
    axis = attrs.get("axis", 0)
    if type(axis) is not int or not arrays or not -arrays[0].ndim <= axis < arrays[0].ndim:
        raise Decline("an axis that is left to MindSpore")
    if any(array.dtype != arrays[0].dtype for array in arrays):
        raise Decline("tensors of several types are left to MindSpore")
    return wrap(kernel(arrays, axis=axis), arrays[0].dtype)


def _grids(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    arrays = [tensor(value) for value in (operands[0] if operands else attrs.pop("arrays"))]
    if any(array.dtype != arrays[0].dtype for array in arrays):
        raise Decline("tensors of several types are left to MindSpore")
    return wrap(kernel(arrays, **only(attrs, "indexing")))


def _flattened(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`ops.flatten`: all axes but the first are flattened into new memory, vectors keep theirs; one axis alone is the tensor itself."""
    array = tensor(operands[0])
    if array.ndim == 1 and attrs == {"start": 1}:
        return wrap(array)
    if array.ndim < 2:
        raise Decline("left to MindSpore")
    start, end = (attrs.get(name, default) for name, default in (("start", 0), ("end", -1)))
    if type(start) is not int or type(end) is not int or not (-array.ndim <= start < array.ndim and -array.ndim <= end < array.ndim):
        raise Decline("left to MindSpore")
    start, end = start % array.ndim, end % array.ndim
    if start == 1 and end == array.ndim - 1:
        return wrap(kernel(array, **attrs).copy())
    return operands[0] if start == end else wrap(kernel(array, **attrs))


def _repeated(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array, counts = tensor(operands[0]), attrs.get("reps", ())
    if len(counts) == 1 and type(counts[0]) in (tuple, list):
        counts = counts[0]
    if len(counts) < array.ndim or any(type(n) is not int or n < 0 for n in counts):
        raise Decline("fewer numbers than axes: the error is MindSpore's")
    return wrap(kernel(array, reps=tuple(counts)))


def _where(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """nonzero: rows of indices, or with `as_tuple` one tensor for each axis."""
    array = tensor(operands[0])
    found = kernel(array)
    if not attrs.get("as_tuple", False):
        return wrap(found, INT64)
    if not array.ndim:
        raise Decline("left to MindSpore")
    return tuple(wrap(np.ascontiguousarray(column), INT64) for column in np.moveaxis(found, 1, 0))


# --- element types ------------------------------------------------------------------------------------


def _converted(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Tensor.to: a type or a tensor that has it; without `copy` a tensor that has it already shares its memory."""
    array, dtype = tensor(operands[0]), attrs.get("dtype", operands[1] if len(operands) > 1 else None)
    wanted = tensor(dtype).dtype if isinstance(dtype, TENSORS) else numpy_dtype(dtype)
    if array.dtype == wanted and not attrs.get("copy", False) and array.flags.c_contiguous:
        return wrap(array)
    return wrap(np.ascontiguousarray(kernel(array, dtype=wanted)))


def _normalized(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """softmax and log_softmax: `dtype` converts first."""
    dtype = attrs.pop("dtype", None)
    array = tensor(operands[0]) if dtype is None else tensor(operands[0]).astype(numpy_dtype(dtype), copy=False)
    if array.dtype not in _FLOATS:
        raise Decline("element types that are left to MindSpore")
    return wrap(kernel(wide(array), **only(attrs, "axis")), array.dtype)


def _inferred(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """batch_norm with given statistics; training changes them, and is MindSpore's."""
    attrs.pop("momentum", None)
    if attrs.pop("training", False) is not False or any(value is None for value in operands):
        raise Decline("batch statistics are MindSpore's")
    array, *statistics = (_float(value) for value in operands)
    parameters = {name: _float(attrs.pop(name)) for name in ("weight", "bias") if attrs.get(name) is not None}
    if any(part.dtype != array.dtype for part in (*statistics, *parameters.values())) or array.ndim < 2:
        raise Decline("element types that are left to MindSpore")
    attrs = {name: value for name, value in attrs.items() if value is not None}
    attrs |= {name: wide(part) for name, part in parameters.items()}
    return wrap(kernel(wide(array), *map(wide, statistics), **attrs), array.dtype)


def _numbers(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """nansum and nanmean; `dtype` converts first."""
    array, dtype = tensor(operands[0]), attrs.pop("dtype", None)
    array = array if dtype is None else array.astype(numpy_dtype(dtype), copy=False)
    if array.dtype.kind not in "fV" or array.dtype not in _FLOATS:
        raise Decline("element types that are left to MindSpore")
    attrs = reductions.all_axes(only(attrs, "axis", "keepdims"))
    try:
        return wrap(np.asarray(kernel(wide(array), **attrs)), array.dtype)
    except Decline:  # a slice without a number: NumPy warns, MindSpore does not
        return wrap(np.asarray(reductions.quietly(np.nanmean, wide(array), attrs)), array.dtype)


def _counted(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    dtype = attrs.pop("dtype", None)
    wanted = (INT64 if dialect == "mint" else INT32) if dtype is None else numpy_dtype(dtype)
    attrs = reductions.all_axes(only(attrs, "axis", "keepdims"))
    return wrap(np.asarray(kernel(tensor(operands[0]), **attrs)), wanted)


def _bins(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`ops.bincount` counts in float32."""
    index = tensor(operands[0])
    weights = attrs.pop("weights", None)
    if index.dtype not in (INT32, INT64) or (weights is not None and tensor(weights).dtype != FLOAT32):
        raise Decline("left to MindSpore")
    if weights is not None:
        attrs["weights"] = tensor(weights)
    return wrap(kernel(index, **attrs), FLOAT32)


# --- order ----------------------------------------------------------------------------------------------


def _indices(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """argsort of `ops`: int32."""
    array = tensor(operands[0])
    if array.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    return wrap(np.asarray(kernel(wide(array), **attrs)[1]), INT32)


def _first_seen(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`ops.unique`: the elements in the order in which they come first, and places in the tensor's shape."""
    array = tensor(operands[0])
    if array.dtype.kind in "bc" or array.dtype == BFLOAT16 or (array.dtype.kind == "f" and np.isnan(array).any()):
        raise Decline("left to MindSpore")
    values, first, inverse = kernel(array, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.empty_like(order)
    places[order] = np.arange(order.size)
    return wrap(values[order], array.dtype), wrap(places[inverse].reshape(array.shape), INT64 if array.dtype == INT64 else INT32)


def _searched(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Tensor.searchsorted: int32 places in one sorted row."""
    row, values = tensor(operands[0]), tensor(operands[1])
    if row.dtype != values.dtype or row.ndim != 1 or values.ndim != 1 or row.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    return wrap(np.asarray(kernel(wide(row), wide(values), **only(attrs, "side"))), INT32)


def _searched_rows(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`searchsorted`: `side` says the same as `right`."""
    rows, values = (tensor(operand) for operand in operands)
    small, side = attrs.pop("out_int32", False), attrs.pop("side", None)
    other = attrs.get("sorter") is not None or (side and attrs.get("right"))
    if rows.dtype != values.dtype or side not in (None, "left", "right") or other:
        raise Decline("left to MindSpore")
    right = attrs.get("right", False) if side is None else side == "right"
    return wrap(np.asarray(kernel(wide(rows), wide(values), right=right)), INT32 if small else INT64)


def _extreme(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """max and min; `initial` takes part, and elements that `where` leaves out do not."""
    array = tensor(operands[0])
    if array.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    if dialect == "method" and attrs.get("axis") is None:
        attrs.pop("keepdims", None)
    attrs = reductions.all_axes({name: value for name, value in attrs.items() if value is not None or name == "axis"})
    values = wide(array)
    if "initial" in attrs:
        attrs["initial"] = scalar(attrs["initial"], values.dtype)
    if "where" in attrs:
        if "initial" not in attrs or not isinstance(attrs["where"], TENSORS) or tensor(attrs["where"]).dtype.kind != "b":
            raise Decline("left to MindSpore")
        attrs["where"] = tensor(attrs["where"])
    return wrap(kernel(values, **only(attrs, "axis", "keepdims", "initial", "where")), array.dtype)


# --- gathering ------------------------------------------------------------------------------------------


def _either(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Tensor.gather(dim, index) and Tensor.gather(input_indices, axis), told apart by what is a tensor."""
    array, index, axis = tensor(operands[0]), operands[1], attrs.get("axis")
    if isinstance(axis, TENSORS) and type(index) is int:
        places = tensor(axis)
        _inside(places, array, index)
        return wrap(np.take(array, places, axis=index))
    if type(axis) is not int:
        raise Decline("left to MindSpore")
    places = tensor(index)
    _inside(places, array, axis)
    return wrap(kernel(array, places, axis=axis))


def _added(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """Tensor.index_add(dim, index, source) and, by position, the older index_add(indices, y, axis)."""
    target, index, source = operands
    if isinstance(attrs.get("axis"), TENSORS) and type(source) is int:
        attrs["axis"], index, source = source, attrs["axis"], index
    if type(attrs.get("axis")) is not int or type(attrs.get("alpha", 1)) not in (int, float):
        raise Decline("left to MindSpore")
    return handlers.HANDLERS["index_add"](kernel, (target, index, source), attrs, dialect)


def _inside(places: Array, array: Array, axis: int) -> None:
    if places.dtype.kind != "i" or not -array.ndim <= axis < array.ndim:
        raise Decline("left to MindSpore")
    if places.size and (places.min() < 0 or places.max() >= array.shape[axis]):
        raise Decline("an index outside the tensor is left to MindSpore")


def _taken(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Tensor.take: an index outside is moved to the edge unless `mode` says otherwise."""
    array, index = tensor(operands[0]), tensor(operands[1])
    mode = attrs.get("mode", "clip")
    if index.dtype.kind != "i" or mode not in ("clip", "wrap", "raise") or (mode != "wrap" and index.size and index.min() < 0):
        raise Decline("left to MindSpore")
    return wrap(kernel(array, index, mode=mode, **only({k: v for k, v in attrs.items() if k != "mode"}, "axis")))


def _scattered(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """Tensor.scatter; `reduce` is "none", "add" or "multiply"."""
    word = attrs.pop("reduce", "none")
    if word not in ("none", "add", "multiply") or type(attrs.get("axis")) is not int:
        raise Decline("left to MindSpore")
    if word != "none":
        attrs["reduce"] = word
    return handlers.HANDLERS["scatter"](kernel, operands, attrs, dialect)


def _filled(kernel: Kernel, operands: Sequence[Any], _attrs: dict[str, Any], _dialect: str) -> Any:
    """masked_fill: a number, or a tensor of one element."""
    array, mask, value = tensor(operands[0]), tensor(operands[1]), operands[2]
    if isinstance(value, TENSORS):
        part = tensor(value)
        if part.ndim or part.dtype != array.dtype:
            raise Decline("left to MindSpore")
        fill: Any = part
    elif type(value) not in (bool, int, float) or (type(value) is float and array.dtype.kind not in "fV"):
        raise Decline("left to MindSpore")
    else:
        fill = scalar(value, array.dtype)
    if mask.dtype.kind != "b":
        raise Decline("left to MindSpore")
    return wrap(kernel(array, mask, fill), array.dtype)


# --- networks -------------------------------------------------------------------------------------------


def _vectors(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """The outer product, of vectors of one type."""
    a, b = (tensor(value) for value in operands)
    if a.ndim != 1 or b.ndim != 1 or a.dtype != b.dtype or a.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    return wrap(kernel(wide(a), wide(b), **attrs), a.dtype)


def _matrices(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`ops.dot` of matrices and stacks of them."""
    a, b = (_float(value) for value in operands)
    if a.dtype != b.dtype or min(a.ndim, b.ndim) < 2:
        raise Decline("left to MindSpore")
    return wrap(kernel(wide(a), wide(b), **attrs), a.dtype)


def _convolved(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`ops.conv1d` and `conv2d`: `pad_mode` says whether `padding` counts."""
    array, weight = (_float(value) for value in operands)
    mode, padding, bias = attrs.pop("pad_mode", "valid"), attrs.pop("padding", 0), attrs.pop("bias", None)
    zero = padding == 0 if type(padding) is int else type(padding) in (tuple, list) and not any(padding)
    if mode not in ("valid", "same", "pad") or (mode != "pad" and not zero) or array.dtype != weight.dtype:
        raise Decline("left to MindSpore")
    if array.ndim != weight.ndim or (type(padding) is not int and len(padding) != array.ndim - 2):
        raise Decline("left to MindSpore")
    if bias is not None:
        attrs["bias"] = wide(_float(bias))
        if tensor(bias).dtype != array.dtype:
            raise Decline("left to MindSpore")
    attrs["padding"] = {"valid": 0, "same": "same"}.get(mode, padding)
    return wrap(kernel(wide(array), wide(weight), **attrs), array.dtype)


def _with_scale(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`ops.rms_norm`: (the tensor normalised, 1 / sqrt(mean square + eps) in float32)."""
    array, weight = _float(operands[0]), _float(attrs.pop("weight"))
    if weight.dtype != array.dtype or weight.ndim > array.ndim or not weight.ndim:
        raise Decline("left to MindSpore")
    result = kernel(wide(array), normalized_shape=weight.shape, weight=wide(weight), **attrs)
    axes = tuple(range(array.ndim - weight.ndim, array.ndim))
    squares = np.mean(np.square(array.astype(np.float64)), axis=axes, keepdims=True)
    return wrap(result, array.dtype), wrap(1 / np.sqrt(squares + attrs.get("eps", 1e-6)), FLOAT32)


def _idle(_kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`ops.dropout` outside training; inside, the numbers are MindSpore's."""
    if attrs.get("training", True) is not False:
        raise Decline("MindSpore draws these numbers")
    _float(operands[0])
    return operands[0]


HANDLERS: dict[str, Handler] = {
    "broadcast_to:as": _as_another,
    "reshape:as": _as_another,
    "flatten_axes:from": _flattened,
    "tile:repeats": _repeated,
    "reshape:function": _reshaped,
    "concatenate": _joined,
    "meshgrid": _grids,
    "outer": _vectors,
    "argwhere": _where,
    "astype:to": _converted,
    "softmax": _normalized,
    "log_softmax": _normalized,
    "batch_norm": _inferred,
    "nansum": _numbers,
    "nanmean": _numbers,
    "count_nonzero": _counted,
    "bincount:ops": _bins,
    "sort_pairs:order_ops": _indices,
    "unique:first": _first_seen,
    "searchsorted": _searched,
    "search_rows": _searched_rows,
    "max": _extreme,
    "min": _extreme,
    "ptp": _extreme,
    "max:method": _extreme,
    "min:method": _extreme,
    "gather_elements:either": _either,
    "index_add:either": _added,
    "take:modes": _taken,
    "scatter:words": _scattered,
    "masked_fill": _filled,
    "dot:matrices": _matrices,
    "conv1d:modes": _convolved,
    "conv2d:modes": _convolved,
    "conv3d:modes": _convolved,
    "rms_norm:with_scale": _with_scale,
    "dropout:idle": _idle,
    "dropout_channels:idle": _idle,
}

promotion.RULES.update(dict.fromkeys(("left_shift", "right_shift"), promotion.ORDERED))
