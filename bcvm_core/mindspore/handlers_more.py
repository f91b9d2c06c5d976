"""More handlers: ops that give pairs, index, count, make tensors or draw random numbers.

Random numbers come from MindSpore's default generator: its seed and offset name a stream of BCVM's
(`ops/random.py`), and each call moves the offset on, so `mint.manual_seed` and `set_rng_state` mean
what they mean; the numbers themselves are BCVM's, as MindSpore's CPU build has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore.common.generator import default_generator

from ..errors import Decline
from . import handlers
from .conversion import FLOAT32, INT64, Handler, Kernel, numpy_dtype, only, scalar, tensor, wide, wrap
from .memory import TENSORS, Array, DType
from .reductions import all_axes


def _floats(*arrays: Array) -> DType:
    """The one float type of all arrays; raises Decline when there is none."""
    found = {array.dtype for array in arrays}
    if len(found) != 1 or arrays[0].dtype.kind not in "fV":
        raise Decline("element types that are left to MindSpore")
    kept: DType = arrays[0].dtype
    return kept


# --- pairs of values and indices -----------------------------------------------------------------


def _pairs(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """(values in the tensor's type, indices: int64, of `ops.topk` int32)."""
    array = tensor(operands[0])
    if array.dtype.kind in "bc" or any(isinstance(value, TENSORS) for value in attrs.values()):
        raise Decline("left to MindSpore")
    found = kernel(wide(array), **attrs)
    if not isinstance(found, tuple):
        return wrap(np.asarray(found), array.dtype)
    values, index = found
    return wrap(np.asarray(values), array.dtype), wrap(np.asarray(index), np.dtype(np.int32) if dialect == "ops" else INT64)


def _order(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """The indices of a sort alone."""
    return _pairs(kernel, operands, attrs, dialect)[1]


def _moments(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    kept = _floats(array)
    return tuple(wrap(np.asarray(part), kept) for part in kernel(wide(array), **all_axes(attrs)))


def _pooled(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    array = tensor(operands[0])
    kept = _floats(array)
    found = kernel(wide(array), **attrs)
    return (wrap(found[0], kept), wrap(found[1], INT64)) if isinstance(found, tuple) else wrap(found, kept)


def _distinct(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """unique: the elements, then int64 tensors that were asked for; the inverse has the tensor's shape."""
    array = tensor(operands[0])
    if array.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    found = kernel(wide(array), **attrs)
    if not isinstance(found, tuple):
        return wrap(found, array.dtype)
    values, *others = found
    if attrs.get("return_inverse") and attrs.get("axis") is None:
        others[0] = others[0].reshape(array.shape)
    return (wrap(values, array.dtype), *(wrap(np.asarray(part), INT64) for part in others))


# --- indices and counts --------------------------------------------------------------------------


def _indexed(*tensors: str) -> Handler:
    """`x` and, of the other operands, those called "value" in its type, those called "index" as integers."""

    def handler(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
        array = tensor(operands[0])
        arrays: list[Any] = []
        for kind, operand in zip(tensors, operands[1:], strict=True):
            if kind == "value" and type(operand) in (bool, int, float):
                arrays.append(scalar(operand, array.dtype))
                continue
            part = tensor(operand)
            if part.dtype != array.dtype if kind == "value" else part.dtype.kind != "i":
                raise Decline("element types that are left to MindSpore")
            arrays.append(part)
        return wrap(kernel(array, *arrays, **attrs), array.dtype)

    return handler


def _placed(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """scatter_nd: sums at positions in a new tensor."""
    index, values = (tensor(operand) for operand in operands)
    if index.dtype.kind != "i" or values.dtype.kind in "bc" or type(attrs.get("shape")) not in (tuple, list):
        raise Decline("left to MindSpore")
    return wrap(kernel(index, values, shape=tuple(attrs["shape"])), values.dtype)


def _counted(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    weights = attrs.pop("weights", None)
    if weights is None:
        return wrap(kernel(array, **attrs), INT64)
    given = tensor(weights)
    result = kernel(array, weights=wide(given), **attrs)
    return wrap(result, given.dtype if given.dtype.kind in "fV" else np.dtype(np.float64))


def _hot(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """one_hot in int64; without a number of classes there are as many as the largest index needs."""
    index = tensor(operands[0])
    depth = attrs.get("depth", operands[1] if len(operands) > 1 else -1)
    if index.dtype.kind != "i" or type(depth) is not int or (depth == -1 and not index.size):
        raise Decline("left to MindSpore")
    depth = int(index.max()) + 1 if depth == -1 else depth
    if index.size and (index.min() < 0 or index.max() >= depth):
        raise Decline("an index outside the classes: the error is MindSpore's")
    return wrap(kernel(index, depth=depth, on_value=1, off_value=0, dtype=np.int64))


def _embedding(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    index, weight = tensor(operands[0]), tensor(operands[1])
    if index.dtype.kind != "i":
        raise Decline("left to MindSpore")
    return wrap(kernel(index, weight, **only(attrs, "padding_idx")))


# --- numbers -------------------------------------------------------------------------------------


def _verdict(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """A Python bool about two tensors."""
    a, b = (tensor(operand) for operand in operands)
    if a.dtype != b.dtype:
        raise Decline("left to MindSpore")
    return kernel(wide(a), wide(b), **attrs)


def _numbers_only(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """nan_to_num; None stands for NumPy's own choices."""
    array = tensor(operands[0])
    kept = _floats(array)
    given = {name: value for name, value in attrs.items() if value is not None}
    largest = float(np.finfo(wide(array).dtype).max) if kept.kind == "f" else 3.3895313892515355e38  # bfloat16
    limits = {"posinf": largest, "neginf": -largest, **given}
    return wrap(kernel(wide(array), **limits), kept)


def _polar(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    a, b = (tensor(operand) for operand in operands)
    if _floats(a, b).itemsize < 4:
        raise Decline("left to MindSpore")
    return wrap(kernel(a, b))


def _turned(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    if array.ndim > 2:
        raise Decline("more than two axes: the error is MindSpore's")
    return wrap(kernel(array))


def _crossed(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Along the first axis with 3 elements where none is given."""
    a, b = (tensor(operand) for operand in operands)
    if a.dtype != b.dtype or a.dtype.kind in "bc":
        raise Decline("left to MindSpore")
    axis = attrs.get("axis")
    if axis is None:
        shape = np.broadcast_shapes(a.shape, b.shape)
        axis = shape.index(3) if 3 in shape else -1
    return wrap(kernel(wide(a), wide(b), axis=axis), a.dtype)


def _length(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Norms; those that need singular values are NumPy's. `dtype` converts first."""
    dtype = attrs.pop("dtype", None)
    array = tensor(operands[0]) if dtype is None else tensor(operands[0]).astype(numpy_dtype(dtype), copy=False)
    kept = _floats(array)
    attrs = all_axes(attrs)
    try:
        return wrap(np.asarray(kernel(wide(array), **attrs)), kept)
    except Decline:
        known = array.astype(np.float32) if kept == np.float16 else wide(array)
        return wrap(np.asarray(np.linalg.norm(known, **attrs)), kept)


def _classified(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Losses over classes or signs: the last operand may be integers."""
    *values, target = (tensor(operand) for operand in operands)
    kept = _floats(*values)
    if attrs.get("weight") is not None:
        weight = tensor(attrs["weight"])
        if weight.dtype != kept:
            raise Decline("left to MindSpore")
        attrs["weight"] = wide(weight)
    return wrap(np.asarray(kernel(*map(wide, values), target, **attrs)), kept)


def _signed(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    """The same with a target that takes part in the arithmetic."""
    *values, target = (tensor(operand) for operand in operands)
    kept = _floats(*values)
    floats = [wide(value) for value in values]
    return wrap(np.asarray(kernel(*floats, target.astype(floats[0].dtype), **attrs)), kept)


def _solved(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """(solution, the matrix)."""
    matrix, right = tensor(operands[0]), tensor(operands[1])
    kept = _floats(matrix, right)
    return wrap(kernel(wide(matrix), wide(right), **attrs), kept), wrap(matrix.copy())


def _resized(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    kept = _floats(array)
    if attrs.get("mode") == "bicubic":
        raise Decline("MindSpore's weights of neighbours are its own")
    return wrap(kernel(wide(array), **attrs), kept)


# --- making tensors ------------------------------------------------------------------------------


def _sizes(shape: Any) -> tuple[int, ...]:
    """A shape from a number, a sequence, the arguments of a variadic call, or a tensor that is to be copied in form."""
    if isinstance(shape, TENSORS):
        return tuple(shape.shape)
    if type(shape) is tuple and len(shape) == 1 and type(shape[0]) in (tuple, list):
        shape = shape[0]
    found = (shape,) if type(shape) is int else tuple(shape)
    if any(type(n) is not int or n < 0 for n in found):
        raise Decline("a size that is left to MindSpore")
    return found


def _created(kernel: Kernel, _operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    dtype = attrs.pop("dtype", None)
    numbers = [value for value in attrs.values() if value is not None]
    if any(isinstance(value, TENSORS) for value in numbers):
        raise Decline("a tensor where a number is expected is left to MindSpore")
    if "shape" in attrs:
        attrs["shape"] = _sizes(attrs["shape"])
    fill = attrs.get("fill_value")
    wanted = FLOAT32 if dtype is None else numpy_dtype(dtype)
    if dtype is None and fill is not None and type(fill) is not float:
        wanted = INT64 if type(fill) is int else np.dtype(np.bool_)
    return wrap(kernel(**attrs, dtype=wanted))


def _stepped(kernel: Kernel, _operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """arange: int64 of integers, float32 where a float is among them."""
    dtype = attrs.pop("dtype", None)
    numbers = [attrs.get(name) for name in ("start", "end", "step")]
    if any(value is not None and type(value) not in (int, float) for value in numbers):
        raise Decline("left to MindSpore")
    own = FLOAT32 if any(type(value) is float for value in numbers) else INT64
    return wrap(kernel(**attrs).astype(own if dtype is None else numpy_dtype(dtype)))


def _unset(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    array = tensor(operands[0])
    dtype = attrs.get("dtype")
    return wrap(np.ascontiguousarray(kernel(array, dtype=array.dtype if dtype is None else numpy_dtype(dtype))))


# --- random numbers ------------------------------------------------------------------------------

_STEP = 12  # as far as MindSpore's own random functions move the offset


def next_key() -> tuple[int, int]:
    """The default generator's seed and offset; the offset moves on."""
    seed, offset = default_generator._step(ms.Tensor(_STEP, ms.int64))
    return int(seed) & (1 << 64) - 1, int(offset)


def _drawn(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """Numbers for each element of a new tensor."""
    like = attrs.get("shape")
    dtype = attrs.pop("dtype", None)
    if dtype is not None:
        wanted = numpy_dtype(dtype)
    else:
        wanted = tensor(like).dtype if isinstance(like, TENSORS) else FLOAT32
    numbers = {name: value for name, value in attrs.items() if name != "shape"}
    if like is None or any(type(value) not in (int, float) for value in numbers.values()):
        raise Decline("left to MindSpore")
    return wrap(np.asarray(kernel(**numbers, shape=_sizes(like), key=next_key(), dtype=wanted)))


def _drawn_integers(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    if attrs.get("dtype") is None and not isinstance(attrs.get("shape"), TENSORS):
        attrs["dtype"] = np.int64
    return _drawn(kernel, operands, attrs, dialect)


def _shuffled(kernel: Kernel, _operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    dtype = attrs.get("dtype")
    if type(attrs.get("n")) is not int:
        raise Decline("left to MindSpore")
    return wrap(kernel(n=attrs["n"], key=next_key(), dtype=INT64 if dtype is None else numpy_dtype(dtype)))


def _thinned(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    """dropout; the tensor itself when nothing is dropped."""
    array = tensor(operands[0])
    kept = _floats(array)
    if not attrs.get("training", True) or attrs.get("p", 0.5) == 0:
        return operands[0]
    return wrap(kernel(array, **attrs, key=next_key()), kept)


def _sampled(kernel: Kernel, operands: Sequence[Any], attrs: dict[str, Any], _dialect: str) -> Any:
    return wrap(kernel(wide(tensor(operands[0])), **attrs, key=next_key()))


MAKERS = ("create", "random")
"""Dialects of calls that make MindSpore tensors though no operand is one."""

_CREATED = ("zeros", "ones", "full", "empty", "eye", "linspace")
_VALUES_AND_INDICES = ("sort_pairs", "topk", "kthvalue", "lower_median", "cummax", "cummin", "max_pairs", "min_pairs")
_POOLED = ("max_pool2d", "max_pool1d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")

HANDLERS: dict[str, Handler] = {
    **{f"{name}:create": _created for name in _CREATED},
    **dict.fromkeys(_VALUES_AND_INDICES, _pairs),
    **dict.fromkeys(_POOLED, _pooled),
    **dict.fromkeys(("var_mean", "std_mean"), _moments),
    **dict.fromkeys(("unique", "unique_consecutive"), _distinct),
    **dict.fromkeys(("array_equal", "all_close"), _verdict),
    **dict.fromkeys(("norm", "vector_norm"), _length),
    **dict.fromkeys(("uniform", "normal"), _drawn),
    **dict.fromkeys(("dropout", "dropout_channels"), _thinned),
    **dict.fromkeys(("multinomial", "bernoulli"), _sampled),
    "sort_pairs:order": _order,
    "steps:create": _stepped,
    "empty_like": _unset,
    "gather_elements": _indexed("index"),
    "gather_nd": _indexed("index"),
    "index_select": _indexed("index"),
    "scatter": _indexed("index", "value"),
    "scatter_add": _indexed("index", "value"),
    "index_add": _indexed("index", "value"),
    "index_fill": _indexed("index", "value"),
    "tensor_scatter": _indexed("index", "value"),
    "max_unpool1d": _indexed("index"),
    "max_unpool2d": _indexed("index"),
    "max_unpool3d": _indexed("index"),
    "scatter_nd": _placed,
    "bincount": _counted,
    "one_hot": _hot,
    "embedding": _embedding,
    "nan_to_num": _numbers_only,
    "polar": _polar,
    "interpolate:ops": _resized,
    "transpose:t": _turned,
    "cross": _crossed,
    "nll_loss": _classified,
    "cosine_embedding_loss": _signed,
    "margin_ranking_loss": _signed,
    "triangular_solve": _solved,
    "randint": _drawn_integers,
    "permutation": _shuffled,
}

handlers.HANDLERS.update(HANDLERS)
