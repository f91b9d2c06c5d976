"""More ops in the form in which layers hold them: pixels as channels, segments, sequences, losses with their gradients."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from . import trees
from ._rows import X, elements, moves_only, own, per_input
from .conv import conv1d
from .conv_more import conv3d, fitted, stretched, turned
from .numerics import canonical, open_up, quiet, softmax_parts, total
from .pooling_more import lengths
from .registry import OpInfo, Param
from .trees import tensor

_Array = np.ndarray[Any, Any]


@quiet
def _fast_gelu(x: Any) -> Any:
    """x / (1 + exp(-1.702 x)), by a sigmoid that does not overflow."""
    array, values = open_up(x)
    return (values * canonical("sigmoid", values * values.dtype.type(1.702))).astype(array.dtype, copy=False)


@quiet
def _local_response_norm(x: Any, *, radius: Any = 5, bias: Any = 1.0, alpha: Any = 1.0, beta: Any = 0.5) -> Any:
    """x / (bias + alpha * sum(x * x over 2 radius + 1 channels)) ** beta."""
    array, values = open_up(x)
    if array.ndim != 4:
        raise ValueError(f"local_response_norm needs images (n, c, h, w), not {array.shape}")
    kind, reach = values.dtype.type, operator.index(radius)
    wide = np.pad(values * values, ((0, 0), (reach, reach), (0, 0), (0, 0)))
    sums = np.zeros_like(values)
    for i in range(2 * reach + 1):
        sums += wide[:, i : i + array.shape[1]]
    return (values / np.power(kind(bias) + kind(alpha) * sums, kind(beta))).astype(array.dtype, copy=False)


def _images(x: Any, block: Any, what: str) -> tuple[_Array, int]:
    array, side = tensor(x), operator.index(block)
    if array.ndim != 4 or side < 1:
        raise ValueError(f"{what} needs images (n, c, h, w) and a positive block, not {array.shape} and {side}")
    return array, side


def _depth_to_space(x: Any, *, block: Any) -> Any:
    """Channels (row in the block, column in the block, channel) become pixels."""
    array, b = _images(x, block, "depth_to_space")
    n, c, h, w = array.shape
    if c % (b * b):
        raise ValueError(f"depth_to_space: {c} channels are no multiple of {b * b}")
    parts = array.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // (b * b), h * b, w * b)


def _space_to_depth(x: Any, *, block: Any) -> Any:
    """Pixels of each block become channels (row in the block, column in the block, channel)."""
    array, b = _images(x, block, "space_to_depth")
    n, c, h, w = array.shape
    if h % b or w % b:
        raise ValueError(f"space_to_depth: {h} x {w} is no multiple of {b}")
    parts = array.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b * b, h // b, w // b)


def _reverse_sequence(x: Any, lengths: Any, *, axis: Any, batch: Any = 0) -> Any:
    """The first lengths[i] elements along `axis` of entry i along `batch` backwards, the others as they are."""
    array, counts = tensor(x), tensor(lengths)
    if not array.ndim:
        raise ValueError("reverse_sequence needs a tensor with axes")
    along, entry = trees.axis_of(axis, array), trees.axis_of(batch, array)
    if along == entry or counts.shape != (array.shape[entry],) or counts.dtype.kind not in "iu":
        raise ValueError(f"reverse_sequence: lengths {counts.shape} along {axis} and {batch} of {array.shape}")
    size = array.shape[along]
    if counts.size and (counts.min() < 0 or counts.max() > size):
        raise ValueError(f"reverse_sequence: lengths beyond {size}")
    place = np.arange(size)
    index = np.where(place < counts[:, None], counts[:, None] - 1 - place, place)
    shape = [1] * array.ndim
    shape[along], shape[entry] = size, array.shape[entry]
    index = (index if entry < along else index.T).reshape(shape)
    return np.take_along_axis(array, np.broadcast_to(index, array.shape), along)


_SEGMENTS: dict[str, tuple[np.ufunc, Any]] = {
    "sum": (np.add, 0),
    "max": (np.maximum, None),
    "min": (np.minimum, None),
    "prod": (np.multiply, 1),
}


def _nothing(mode: str, kind: np.dtype[Any]) -> Any:
    """What a segment without entries has: the least (max) or largest (min) finite number of the type."""
    start = _SEGMENTS[mode][1]
    if start is not None:
        return kind.type(start)
    if kind.kind == "b":
        return kind.type(mode == "min")
    limits: Any = np.iinfo(kind) if kind.kind in "iu" else ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    return kind.type(limits.min if mode == "max" else limits.max)


@quiet
def _unsorted_segment(x: Any, index: Any, *, count: Any, mode: Any = "sum") -> Any:
    """Entries of x put together by the number of their segment; negative numbers: nowhere."""
    array, places = tensor(x), tensor(index)
    if mode not in _SEGMENTS or places.dtype.kind not in "iu" or array.shape[: places.ndim] != places.shape:
        raise ValueError(f"unsorted_segment: index {places.shape} of type {places.dtype}, tensor {array.shape}, mode {mode!r}")
    if array.dtype.kind not in "biufcV":
        raise TypeError(f"unsorted_segment needs numbers, not {array.dtype}")
    segments = operator.index(count)
    flat, rest = places.reshape(-1), array.shape[places.ndim :]
    if flat.size and flat.max() >= segments:
        raise IndexError(f"unsorted_segment: segment {flat.max()} of {segments}")
    summed = mode in ("sum", "prod")
    kind = (trees.accumulator(array.dtype) or array.dtype) if summed else array.dtype
    result = np.full((segments, *rest), _nothing(mode, kind), kind)
    kept = flat >= 0
    if not summed:  # an infinity that a segment has counts more than the limit that it starts from
        result[flat[kept]] = array.reshape(flat.size, *rest)[kept]
    _SEGMENTS[mode][0].at(result, flat[kept], array.reshape(flat.size, *rest)[kept])
    return result.astype(array.dtype, copy=False)


def _embedding_lookup(x: Any, index: Any, *, offset: Any = 0) -> Any:
    """Entries of x by index less `offset`; zeros where there is none."""
    table, places = tensor(x), tensor(index)
    if places.dtype.kind not in "iu":
        raise TypeError(f"embedding_lookup needs integer indices, not {places.dtype}")
    if not table.ndim:
        raise ValueError("embedding_lookup needs a table with entries")
    own_place = places.astype(np.int64) - operator.index(offset)
    inside = (own_place >= 0) & (own_place < len(table))
    found = table[np.where(inside, own_place, 0)] if len(table) else np.zeros((*places.shape, *table.shape[1:]), table.dtype)
    found[~inside] = 0
    return found


@quiet
def _softmax_cross_entropy(x: Any, target: Any) -> tuple[Any, Any]:
    """(-sum(target * log_softmax(x)) of each row, softmax(x) - target)."""
    array, values = open_up(x)
    wanted = tensor(target).astype(values.dtype, copy=False)
    if array.ndim != 2 or wanted.shape != array.shape:
        raise ValueError(f"softmax_cross_entropy needs two matrices of one shape, not {array.shape} and {wanted.shape}")
    exps, totals = softmax_parts(values, (1,))
    shifted = values - values.max(axis=1, keepdims=True) if values.size else values
    logs = shifted - canonical("log", totals)
    losses = -total(np.where(wanted == 0, values.dtype.type(0), wanted * logs), (1,)).reshape(len(array))
    return losses.astype(array.dtype, copy=False), (exps / totals - wanted).astype(array.dtype, copy=False)


@quiet
def _l2_loss(x: Any) -> Any:
    """sum(x * x) / 2."""
    array, values = open_up(x)
    squares = total(values * values, tuple(range(values.ndim))) if values.size else values.dtype.type(0)
    return np.asarray(squares).reshape(()).astype(array.dtype)[()] / array.dtype.type(2)


@quiet
def _add_all(arrays: Sequence[Any]) -> Any:
    """The sum of tensors of one shape, first to last."""
    first, *others = (tensor(a) for a in arrays)
    if any(a.shape != first.shape for a in others):
        raise ValueError("add_all: tensors of several shapes")
    kind = trees.accumulator(first.dtype) if first.dtype.itemsize == 2 and first.dtype.kind in "fV" else None
    result = first.astype(kind or first.dtype)
    for a in others:
        result = result + a
    return result.astype(np.result_type(*(a.dtype for a in (first, *others))) if kind is None else first.dtype, copy=False)


@quiet
def _squared_difference(x: Any, y: Any) -> Any:
    difference = tensor(x) - tensor(y)
    return difference * difference


@quiet
def _divide_no_nan(x: Any, y: Any) -> Any:
    a, b = tensor(x), tensor(y)
    quotient = np.true_divide(a, b)
    return np.where(b == 0, quotient.dtype.type(0), quotient)


def _transposed_edges(padding: Any, kernel: Any, steps: Any, far: Any, more: Any) -> list[tuple[int, int]]:
    """What is added around the stretched input; "same": the output is as long as the input times the stride."""
    if padding == "same":
        gone = [max(d * (k - 1) + 1 - s, 0) // 2 for k, s, d in zip(kernel, steps, far, strict=True)]
        before = [d * (k - 1) - g for k, d, g in zip(kernel, far, gone, strict=True)]
        return [(b, s - 1 + d * (k - 1) - b) for b, k, s, d in zip(before, kernel, steps, far, strict=True)]
    edge = lengths(padding, 3, "padding")
    if min(edge) < 0:
        raise ValueError(f"conv_transpose3d: padding {padding!r}")
    reach = [d * (k - 1) - p for d, k, p in zip(far, kernel, edge, strict=True)]
    return [(r, r + m) for r, m in zip(reach, more, strict=True)]


def _conv_transpose3d(
    x: Any, weight: Any, *, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Any = 1, dilation: Any = 1
) -> Any:  # fmt: skip
    a, w, count = tensor(x), tensor(weight), operator.index(groups)
    if a.ndim != 5 or w.ndim != 5 or count < 1 or w.shape[0] != a.shape[1] or w.shape[0] % count:
        raise ValueError(f"conv_transpose3d: a weight (in, out / groups, ...) was expected for {a.shape}, not {w.shape}, {count} groups")
    steps, far = lengths(stride, 3, "stride"), lengths(dilation, 3, "dilation")
    more = lengths(output_padding, 3, "output_padding")
    if any(m >= max(s, d) for m, s, d in zip(more, steps, far, strict=True)) or min(*steps, *far) < 1 or min(more) < 0:
        raise ValueError(f"conv_transpose3d: output padding {more} with stride {steps} and dilation {far}")
    wide = fitted(stretched(a, steps), _transposed_edges(padding, w.shape[2:], steps, far, more))
    return conv3d(wide, np.ascontiguousarray(turned(w, count)), bias=bias, dilation=far, groups=count)


def _conv_tbc(x: Any, weight: Any, *, bias: Any = None, padding: Any = 0) -> Any:
    """conv1d of sequences (length, n, channels) with a weight (k, in, out)."""
    a, w = tensor(x), tensor(weight)
    if a.ndim != 3 or w.ndim != 3:
        raise ValueError(f"conv_tbc needs a sequence (length, n, channels) and a weight (k, in, out), not {a.shape} and {w.shape}")
    first = np.ascontiguousarray(a.transpose(1, 2, 0))
    return conv1d(first, np.ascontiguousarray(w.transpose(2, 1, 0)), bias=bias, padding=padding).transpose(2, 0, 1)


def _gradient_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    return 2.0 * elements(shapes[0]) * elements(shapes[1][1:])


def _row(name: str, family: str, definition: Callable[..., Any], doc: str, signature: str, *params: Param, **rest: Any) -> OpInfo:
    return OpInfo(name=name, family=family, params=params, definition=definition, doc=doc, spellings=(own(name, signature),), **rest)


_MOVES: dict[str, Any] = {"shape_rule": "other", "dtype_rule": "same", "flops": moves_only}
_LOSS: dict[str, Any] = {"shape_rule": "other", "dtype_rule": "float", "policy": 4, "exact": False}
_Y = Param("y", "tensor")
_ZERO = tuple(Param(name, default=0) for name in ("padding", "output_padding"))

ROWS: tuple[OpInfo, ...] = (
    _row(
        "squared_difference", "elementwise", _squared_difference, "(x - y) * (x - y).", "x, y", X, _Y,
        gradient="2 * (x - y) * g; 2 * (y - x) * g",
    ),
    _row(
        "divide_no_nan", "elementwise", _divide_no_nan, "x / y, and 0 where y is 0.", "x, y", X, _Y,
        dtype_rule="float", gradient="where(y == 0, 0, g / y); where(y == 0, 0, -g * x / (y * y))",
    ),
    _row(
        "fast_gelu", "activations", _fast_gelu, "x / (1 + exp(-1.702 x)).", "x", X,
        shape_rule="same", dtype_rule="float", flops=per_input(20.0), exact=False,
        gradient="g * (s + 1.702 x s (1 - s)), s = sigmoid(1.702 x)",
    ),
    _row(
        "local_response_norm", "nn", _local_response_norm,
        "x divided by a power of the squares of its neighbours among the channels.", "x, radius=5, bias=1.0, alpha=1.0, beta=0.5",
        X, Param("radius", default=5), Param("bias", default=1.0), Param("alpha", default=1.0), Param("beta", default=0.5),
        shape_rule="same", dtype_rule="float", flops=per_input(30.0), policy=4, exact=False, gradient="local_response_norm_grad(g, x)",
    ),
    _row(
        "depth_to_space", "shape", _depth_to_space,
        "Channels turned into pixels, the place in the block first.", "x, block", X, Param("block"), gradient="space_to_depth(g)", **_MOVES,
    ),
    _row(
        "space_to_depth", "shape", _space_to_depth,
        "Pixels turned into channels, the place in the block first.", "x, block", X, Param("block"), gradient="depth_to_space(g)", **_MOVES,
    ),
    _row(
        "reverse_sequence", "shape", _reverse_sequence,
        "The first elements of each entry backwards, as many as `lengths` says.", "x, lengths, axis, batch=0",
        X, Param("lengths", "tensor"), Param("axis"), Param("batch", default=0), gradient="reverse_sequence(g, lengths)", **_MOVES,
    ),
    _row(
        "unsorted_segment", "shape", _unsorted_segment,
        "Entries put together by the number of their segment: sum, max, min or prod.", "x, index, count, mode='sum'",
        X, Param("index", "tensor"), Param("count"), Param("mode", default="sum"),
        shape_rule="other", dtype_rule="same", flops=per_input(1.0), gradient="g[index]",
    ),
    _row(
        "embedding_lookup", "nn", _embedding_lookup,
        "Entries by index less an offset; zeros where there is none.", "x, index, offset=0",
        X, Param("index", "tensor"), Param("offset", default=0), gradient="scatter_add(zeros_like(x), index - offset, g)", **_MOVES,
    ),
    _row(
        "softmax_cross_entropy", "nn", _softmax_cross_entropy,
        "(cross entropy of each row with a distribution, its gradient).", "x, target", X, Param("target", "tensor"),
        result="any", flops=per_input(30.0), gradient="g * (softmax(x) - target); -g * log_softmax(x)", **_LOSS,
    ),
    _row("l2_loss", "nn", _l2_loss, "sum(x * x) / 2.", "x", X, flops=per_input(2.0), gradient="g * x", **_LOSS),
    _row(
        "add_all", "elementwise", _add_all, "The sum of tensors of one shape, first to last.", "arrays", Param("arrays", "tensors"),
        gradient="g for each",
    ),
    _row(
        "conv_tbc", "conv", _conv_tbc,
        "Cross-correlation of sequences (length, n, channels) with a weight (k, in, out).", "x, weight, bias=None, padding=0",
        X, Param("weight", "tensor"), Param("bias", "tensor", None), Param("padding", default=0),
        shape_rule="conv", flops=_gradient_flops, policy=2,
        gradient="conv_tbc(g, reversed weight); conv_tbc(x, g); sum(g, all but channels)",
    ),
    _row(
        "conv_transpose3d", "conv", _conv_transpose3d,
        "The transpose (gradient) of a convolution over volumes, with a weight (in, out / groups, ...).",
        "x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1",
        X, Param("weight", "tensor"), Param("bias", "tensor", None), Param("stride", default=1), *_ZERO, Param("groups", default=1),
        Param("dilation", default=1),
        shape_rule="conv", flops=_gradient_flops, fuse="conv", policy=2,
        gradient="conv3d(g, weight); conv3d(g, x); sum(g, all but channels)",
    ),
)  # fmt: skip
