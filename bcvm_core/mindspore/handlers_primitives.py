"""Handlers of primitive objects whose meaning differs from the function of the same name: ranks, element types, order of results.

Their dialects stand in the tables of `primitives`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Decline
from .conversion import FLOAT32, INT32, INT64, Handler, Kernel, numpy_dtype, scalar, tensor, wide, wrap
from .handlers import HANDLERS as HANDLERS_OF_FUNCTIONS
from .handlers_more import _indexed as indexed
from .memory import TENSORS, Array, DType
from .reductions import all_axes


def _one_type(*arrays: Array, kinds: str = "fV") -> DType:
    """The one element type of all arrays, of a kind in `kinds`; raises Decline when there is none."""
    kept: DType = arrays[0].dtype
    if any(array.dtype != kept for array in arrays) or kept.kind not in kinds:
        raise Decline("element types that are left to MindSpore")
    return kept


# --- products ---------------------------------------------------------------------------------------


def _product(least: int, most: int) -> Handler:
    """Products of operands of one type with `least` to `most` axes."""

    def handler(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
        a, b = (tensor(operand) for operand in operands)
        kept = _one_type(a, b, kinds="fViu")
        if not least <= min(a.ndim, b.ndim) <= max(a.ndim, b.ndim) <= most:
            raise Decline("operands of another rank: the error is MindSpore's")
        return wrap(kernel(wide(a), wide(b), **attrs), kept)

    return handler


def _floats_only(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Quotients of floats; those of integers are MindSpore's own."""
    given = [tensor(operand) for operand in operands]
    kept = _one_type(*given)
    return wrap(kernel(*map(wide, given), **attrs), kept)


def _determinant(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """MatrixDeterminant: float16 is computed in float32."""
    array = tensor(operands[0])
    kept = _one_type(array, kinds="f")
    return wrap(np.asarray(kernel(array.astype(FLOAT32) if kept == np.float16 else array, **attrs)), kept)


def _all_added(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """AddN; a single tensor is MindSpore's, which gives its memory back."""
    arrays = [tensor(operand) for operand in operands[0]]
    if len(arrays) < 2:
        raise Decline("a sum of one tensor is left to MindSpore")
    kept = _one_type(*arrays, kinds="fViu")
    return wrap(kernel([wide(array) for array in arrays], **attrs), kept)


# --- normalisation ----------------------------------------------------------------------------------


def _normalized(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """BatchNorm in inference: the statistics and parameters may be wider than the tensor, whose type the result has."""
    array, *parameters = (tensor(operand) for operand in operands)
    kept = _one_type(array)
    other = _one_type(*parameters)
    if array.ndim < 2 or (other != kept and other != np.float32):
        raise Decline("left to MindSpore")
    result, *rest = kernel(wide(array), *map(wide, parameters), **attrs)
    return (wrap(result, kept), *(wrap(part, other) for part in rest))


def _layer_normalized(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """LayerNorm: (the tensor normalised, means, variances)."""
    array, weight, bias = (tensor(operand) for operand in operands)
    kept = _one_type(array, weight, bias)
    if weight.ndim != array.ndim - attrs["axis"] % max(array.ndim, 1):
        raise Decline("parameters of another rank are left to MindSpore")
    result, *rest = kernel(wide(array), wide(weight), wide(bias), **attrs)
    return (wrap(result, kept), *(wrap(part, FLOAT32) for part in rest))


# --- reductions -------------------------------------------------------------------------------------


def _total(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """ReduceSum and ReduceProd keep the element type."""
    array = tensor(operands[0])
    if array.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    attrs = all_axes(attrs)
    if array.dtype.kind in "iu":
        return wrap(kernel(array, dtype=array.dtype, **attrs), array.dtype)
    return wrap(kernel(wide(array), **attrs), array.dtype)


def _index_of_extreme(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Argmax and Argmin with the index type of the object."""
    array = tensor(operands[0])
    wanted = numpy_dtype(attrs.pop("dtype"))
    if array.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    return wrap(kernel(wide(array), **attrs), wanted)


def _index_first(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """ArgMaxWithValue and ArgMinWithValue: (indices, values)."""
    array = tensor(operands[0])
    if array.dtype.kind in "bc" or not array.ndim:
        raise Decline("left to MindSpore")
    values, index = kernel(wide(array), **attrs)
    return wrap(np.asarray(index), INT64), wrap(np.asarray(values), array.dtype)


def _running_product(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    kept = _one_type(array, kinds="f")
    return wrap(kernel(array, dtype=kept, **attrs), kept)


# --- shapes -----------------------------------------------------------------------------------------


def _parts(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Split: as many equal parts as the object says."""
    array = tensor(operands[0])
    axis, parts = attrs["axis"], attrs["indices_or_sections"]
    if not -array.ndim <= axis < array.ndim or array.shape[axis] % parts:
        raise Decline("parts that are not equal: the error is MindSpore's")
    return wrap(tuple(kernel(array, parts, axis=axis)))


def _slices(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Unstack: the slices along an axis, whose number the object may name."""
    array = tensor(operands[0])
    axis, parts = attrs["axis"], attrs["indices_or_sections"]
    if not -array.ndim <= axis < array.ndim or parts not in (-1, array.shape[axis]) or not array.shape[axis]:
        raise Decline("another number of slices: the error is MindSpore's")
    place = axis % array.ndim
    shape = array.shape[:place] + array.shape[place + 1 :]
    return wrap(tuple(part.reshape(shape) for part in kernel(array, array.shape[axis], axis=axis)))


def _broadcast(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """BroadcastTo: -1 keeps an axis."""
    array, shape = tensor(operands[0]), attrs["shape"]
    shape = shape[0] if len(shape) == 1 and type(shape[0]) in (tuple, list) else shape
    extra = len(shape) - array.ndim
    if extra < 0 or any(n < -1 or (n == -1 and i < extra) for i, n in enumerate(shape)):
        raise Decline("a shape that is left to MindSpore")
    return wrap(kernel(array, shape=tuple(array.shape[i - extra] if n == -1 else n for i, n in enumerate(shape))))


def _layers(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Flatten: all axes but the first become one."""
    array = tensor(operands[0])
    if not array.ndim:
        raise Decline("left to MindSpore")
    return wrap(kernel(array[:, None] if array.ndim == 1 else array, **attrs).copy())  # never a view


def _one_value(value: Any) -> Array:
    """A tensor of one element, or a Python number as MindSpore makes a tensor of it."""
    if type(value) in (int, float):
        return np.array(value, np.int64 if type(value) is int else np.float32)
    return tensor(value)


def _hot(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """OneHot; what stands where is a tensor of one element or a number."""
    index = tensor(operands[0])
    depth = attrs.get("depth", operands[1] if len(operands) > 1 else None)
    if type(depth) is not int or index.dtype.kind != "i":
        raise Decline("left to MindSpore")
    values = tuple(_one_value(attrs.get(name, default)) for name, default in (("on_value", 1), ("off_value", 0)))
    kept = _one_type(*values, kinds="fiu")
    if any(value.size != 1 for value in values):
        raise Decline("left to MindSpore")
    return wrap(kernel(index, depth=depth, on_value=values[0].item(), off_value=values[1].item(), dtype=kept), kept)


def _sized_pool(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """Adaptive pools; -1 or None in the size keeps an axis."""
    array = tensor(operands[0])
    kept = _one_type(array)
    size = attrs.get("output_size", operands[1] if len(operands) > 1 else None)
    if isinstance(size, TENSORS):
        size = tuple(tensor(size).tolist())
    if type(size) is tuple:
        attrs["output_size"] = tuple(None if n == -1 else n for n in size)
    found = kernel(wide(array), **attrs)
    index = INT64 if dialect.endswith("int64") else INT32
    return (wrap(found[0], kept), wrap(found[1], index)) if isinstance(found, tuple) else wrap(found, kept)


def _pool_of_volumes(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`ops.avg_pool3d`, whose divisor of 0 is none."""
    array = tensor(operands[0])
    kept = _one_type(array)
    attrs["divisor_override"] = attrs.get("divisor_override") or None
    return wrap(kernel(wide(array), **attrs), kept)


def _folded(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """`ops.fold`, whose size stands in a tensor."""
    size = attrs.pop("output_size", operands[1] if len(operands) > 1 else None)
    if not isinstance(size, TENSORS) or tensor(size).shape != (2,):
        raise Decline("left to MindSpore")
    array = tensor(operands[0])
    return wrap(kernel(wide(array), output_size=tuple(tensor(size).tolist()), **attrs), _one_type(array))


def _pairs(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Pad: (before, after) for every axis, zeros in between."""
    array = tensor(operands[0])
    if len(attrs["pad_width"]) != array.ndim or array.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    return wrap(kernel(array, mode="constant", constant_values=scalar(0, array.dtype), **attrs), array.dtype)


def _from_last(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """PadV3: pairs from the last axis on, which may stand in a tensor."""
    if isinstance(attrs.get("pad_width"), TENSORS):
        attrs["pad_width"] = tuple(tensor(attrs["pad_width"]).tolist())
    if isinstance(attrs.get("constant_values"), TENSORS):
        value = tensor(attrs["constant_values"])
        if value.size != 1 or value.dtype != tensor(operands[0]).dtype:
            raise Decline("left to MindSpore")
        attrs["constant_values"] = value.item()
    return HANDLERS_OF_FUNCTIONS["pad"](kernel, operands, attrs, dialect)


def _mirrored(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """MirrorPad: a pair for every axis, in a tensor or a tuple."""
    array, widths = tensor(operands[0]), attrs.pop("pad_width") if "pad_width" in attrs else operands[1]
    mode = str(attrs["mode"]).lower()
    pairs = tensor(widths).tolist() if isinstance(widths, TENSORS) else widths
    least = 1 if mode == "reflect" else 0
    if (
        mode not in ("reflect", "symmetric")
        or len(pairs) != array.ndim
        or any(min(p) < 0 or max(p) > n - least for p, n in zip(pairs, array.shape, strict=True))
    ):
        raise Decline("left to MindSpore")
    return wrap(kernel(array, pad_width=tuple(tuple(p) for p in pairs), mode=mode), array.dtype)


def _equation(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Einsum: the object's equation over a sequence of tensors."""
    given = [tensor(operand) for operand in operands[0]]
    kept = _one_type(*given)
    return wrap(kernel((attrs["equation"], *map(wide, given))), kept)


def _last_axis(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """LogSoftmaxExt: along the axis that is given."""
    array = tensor(operands[0])
    kept = _one_type(array)
    if attrs.pop("dtype", None) is not None or type(attrs.get("axis")) is not int:
        raise Decline("left to MindSpore")
    return wrap(kernel(wide(array), **attrs), kept)


HANDLERS: dict[str, Handler] = {
    "matmul:matrices": _product(2, 2),
    "matmul_transposed:matrices": _product(2, 2),
    "matmul:stacks": _product(2, 8),
    "matmul_transposed:stacks": _product(2, 8),
    "batch_norm_parts": _normalized,
    "layer_norm_parts": _layer_normalized,
    "sum:prim": _total,
    "prod:prim": _total,
    "argmax:prim": _index_of_extreme,
    "argmin:prim": _index_of_extreme,
    "max_pairs:index_first": _index_first,
    "min_pairs:index_first": _index_first,
    "cumprod:prim": _running_product,
    "split:parts": _parts,
    "split:unstack": _slices,
    "divide:floats": _floats_only,
    "reciprocal:floats": _floats_only,
    "broadcast_to:sizes": _broadcast,
    "flatten_axes:layers": _layers,
    "one_hot:prim": _hot,
    "avg_pool3d:idle_divisor": _pool_of_volumes,
    "fold:size_of_a_tensor": _folded,
    "adaptive_avg_pool2d:sizes": _sized_pool,
    "adaptive_avg_pool3d:sizes": _sized_pool,
    "adaptive_max_pool2d:sizes_int64": _sized_pool,
    "adaptive_max_pool3d:sizes": _sized_pool,
    "add_all": _all_added,
    "det:prim": _determinant,
    "pad:pairs": _pairs,
    "pad:from_last": _from_last,
    "pad:mirror": _mirrored,
    "einsum:equation": _equation,
    "log_softmax:last": _last_axis,
    "unsorted_segment": indexed("index"),
    "embedding_lookup": indexed("index"),
}
