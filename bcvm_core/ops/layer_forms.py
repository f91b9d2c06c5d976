"""Ops in the form in which layers of networks hold them.

Products of transposed matrices, normalisation that also gives its statistics, slices by begin and
size, the input's gradient of a convolution. Element types and exactness are those of the plain
forms (`matmul`, `layer_norm`, `batch_norm`, `getitem`, `conv_transpose2d`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import pending, products, trees
from ._rows import X, elements, moves_only, own, per_input
from .conv import conv2d
from .conv_more import fitted, stretched, turned
from .linalg import product_type, widened
from .nn import affine, batch_norm, standardize
from .numerics import open_up, quiet, spread
from .reduce import mean_of, var_of
from .registry import OpInfo, Param
from .windows import border, pair

_Array = np.ndarray[Any, Any]


def _bias_add(x: Any, bias: Any, *, axis: Any = 1) -> Any:
    array, b = trees.tensor(x), trees.tensor(bias)
    if array.ndim < 2 or b.ndim != 1 or b.shape[0] != array.shape[place := trees.axis_of(axis, array)]:
        raise ValueError(f"bias_add: a bias of shape {b.shape} does not fit axis {axis} of {array.shape}")
    if place % array.ndim == 1 and pending.finish(array, (("add", b),)):
        return array
    return array + b.reshape([-1 if a == place % array.ndim else 1 for a in range(array.ndim)])


def _matmul_transposed(x: Any, y: Any, *, transpose_x: Any = False, transpose_y: Any = False) -> Any:
    a, b = trees.tensor(x), trees.tensor(y)
    if a.ndim < 2 or b.ndim < 2:
        raise ValueError(f"matmul_transposed needs matrices or stacks of them, not {a.shape} and {b.shape}")
    if transpose_y and not transpose_x and b.ndim == 2 and a.size and a.shape[-1] == b.shape[1]:  # a layer's weight
        rows = products.of_weights(widened(a).reshape(-1, b.shape[1]), widened(b))
        return rows.reshape(*a.shape[:-1], b.shape[0]).astype(product_type(a, b), copy=False)
    left = np.swapaxes(a, -1, -2) if transpose_x else a
    right = np.swapaxes(b, -1, -2) if transpose_y else b
    return products.matmul(widened(left), widened(right)).astype(product_type(a, b), copy=False)


def _matmul_flops(*shapes: tuple[int, ...], transpose_x: Any = False, **_attrs: Any) -> float:
    x, y = shapes[:2]
    inner = x[-2] if transpose_x else x[-1]
    return 2.0 * elements(x) * elements(y[-2:]) / max(inner, 1)


@quiet
def _batch_norm_parts(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, *, eps: Any = 1e-5, rest: Any = True
) -> tuple[Any, ...]:
    result = batch_norm(x, running_mean, running_var, weight=weight, bias=bias, eps=eps)
    if not rest:
        return (result, None, None, None, None)
    unused = np.zeros(trees.tensor(running_mean).shape, trees.accumulator(trees.tensor(x).dtype) or trees.F64)
    return (result, unused, unused.copy(), unused.copy(), unused.copy())


def check_layer(x: _Array, weight: _Array, bias: _Array, axis: Any) -> int:
    """The first of the axes that are normalised. Raises ValueError where the parameters don't fit them."""
    first: int = operator.index(axis) % max(x.ndim, 1)
    if first >= x.ndim or weight.shape != bias.shape or weight.shape != x.shape[x.ndim - weight.ndim :]:
        raise ValueError(f"layer_norm: weight {weight.shape} and bias {bias.shape} do not fit the end of {x.shape}")
    return first


@quiet
def _layer_norm_parts(x: Any, weight: Any, bias: Any, *, axis: Any = -1, eps: Any = 1e-7, rest: Any = True) -> tuple[Any, Any, Any]:
    array, values = open_up(x)
    gamma, beta = trees.tensor(weight), trees.tensor(bias)
    axes = tuple(range(check_layer(array, gamma, beta, axis), array.ndim))
    normal = affine(standardize(values, axes, eps), gamma, beta, None, array.dtype)
    return (normal, *layer_moments(array, axes)) if rest else (normal, None, None)


@quiet
def layer_moments(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Means and variances over the last axes, which stay with length 1, in the type that sums are kept in."""
    array, values = open_up(x)
    kept = array.shape[: axes[0]] + (1,) * len(axes)
    mean = mean_of(values, axes)
    return mean.reshape(kept), var_of(values, axes, trees.count(values, axes), mean).reshape(kept)


def _crop(x: Any, *, begin: Any, size: Any) -> Any:
    array = trees.tensor(x)
    if len(begin) != array.ndim or len(size) != array.ndim:
        raise ValueError(f"crop: begin {begin!r} and size {size!r} need one number for each axis of {array.shape}")
    key = []
    for first, count, length in zip(map(operator.index, begin), map(operator.index, size), array.shape, strict=True):
        end = length if count == -1 else first + count
        if not 0 <= first <= end <= length or count < -1:
            raise ValueError(f"crop: {count} elements from {first} on are not within {length}")
        key.append(slice(first, end))
    return array[tuple(key)]


def strided_key(
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> tuple[Any, ...]:
    """The index that a strided slice means; bit i of a mask speaks of entry i. Raises ValueError for lengths that differ."""
    if not len(begin) == len(end) == len(strides):
        raise ValueError(f"strided_slice: {len(begin)}, {len(end)} and {len(strides)} entries")
    key: list[Any] = []
    for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(operator.index(first))
        elif step == 0:
            raise ValueError("strided_slice: a step of 0")
        else:
            key.append(slice(None if begin_mask & bit else first, None if end_mask & bit else last, step))
    return (*key, Ellipsis) if not any(part is Ellipsis for part in key) else tuple(key)


def _strided_slice(
    x: Any,
    *,
    begin: Any,
    end: Any,
    strides: Any,
    begin_mask: Any = 0,
    end_mask: Any = 0,
    ellipsis_mask: Any = 0,
    new_axis_mask: Any = 0,
    shrink_axis_mask: Any = 0,
) -> Any:
    array = trees.tensor(x)
    return array[strided_key(begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)]


def _conv2d_input(x: Any, weight: Any, *, size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1) -> Any:
    a, w, count = trees.tensor(x), trees.tensor(weight), operator.index(groups)
    shape = tuple(operator.index(n) for n in size)
    if a.ndim != 4 or w.ndim != 4 or len(shape) != 4 or count < 1 or w.shape[0] != a.shape[1] or w.shape[0] % count:
        raise ValueError(f"conv2d_input: x {a.shape}, weight {w.shape}, size {size!r} and {count} groups do not fit")
    if shape[:2] != (a.shape[0], w.shape[1] * count):
        raise ValueError(f"conv2d_input: {shape} is no size of an input of {w.shape[1] * count} channels")
    steps, spread_ = pair(stride, "stride"), pair(dilation, "dilation")
    kernel = w.shape[2], w.shape[3]
    edges = border(padding, (shape[2], shape[3]), kernel, steps, spread_)
    wide = []
    for n, o, k, s, d, (before, after) in zip(shape[2:], a.shape[2:], kernel, steps, spread_, edges, strict=True):
        if (n + before + after - d * (k - 1) - 1) // s + 1 != o:
            raise ValueError(f"conv2d_input: an input of {shape} has no output of {a.shape}")
        left = d * (k - 1) - before
        wide.append((left, n + d * (k - 1) - ((o - 1) * s + 1) - left))
    return conv2d(fitted(stretched(a, steps), wide), np.ascontiguousarray(turned(w, count)), dilation=spread_, groups=count)


def _gradient_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    return 2.0 * elements(shapes[0]) * elements(shapes[1][1:])


@quiet
def _l2_normalize(x: Any, *, axis: Any = 0, eps: Any = 1e-4) -> Any:
    """x / sqrt(max(sum(x * x), eps)) along the axes."""
    array, values = open_up(x)
    axes = trees.axes_of(axis, array)
    squares = mean_of(values * values, axes) * values.dtype.type(trees.count(values, axes))
    scale = np.sqrt(np.maximum(squares, values.dtype.type(eps)))
    return np.true_divide(values, spread(scale, values.shape, axes)).astype(array.dtype, copy=False)


def _row(name: str, family: str, definition: Callable[..., Any], doc: str, signature: str, *params: Param, **rest: Any) -> OpInfo:
    return OpInfo(name=name, family=family, params=params, definition=definition, doc=doc, spellings=(own(name, signature),), **rest)


_REST = Param("rest", default=True)  # whether anything but the first result is wanted
_WEIGHT, _BIAS = Param("weight", "tensor"), Param("bias", "tensor")
_MASKS = tuple(Param(f"{name}_mask", default=0) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis"))

ROWS: tuple[OpInfo, ...] = (
    _row(
        "bias_add",
        "elementwise",
        _bias_add,
        "A number for each channel (index along one axis) added.",
        "x, bias, axis=1",
        X,
        _BIAS,
        Param("axis", default=1),
        shape_rule="same",
        gradient="g; sum(g, all but the axis)",
    ),
    _row(
        "matmul_transposed",
        "linalg",
        _matmul_transposed,
        "Matrix product of the last two axes, each operand transposed first where asked for; leading axes broadcast.",
        "x, y, transpose_x=False, transpose_y=False",
        X,
        Param("y", "tensor"),
        Param("transpose_x", default=False),
        Param("transpose_y", default=False),
        shape_rule="matmul",
        flops=_matmul_flops,
        policy=1,
        fuse="matmul",
        gradient="matmul(g, y'); matmul(x', g)",
    ),
    _row(
        "batch_norm_parts",
        "nn",
        _batch_norm_parts,
        "(channels normalised with given statistics, and zeros in place of the batch's own, which inference does not need; or None).",
        "x, weight, bias, running_mean, running_var, eps=1e-5, rest=True",
        X,
        _WEIGHT,
        _BIAS,
        Param("running_mean", "tensor"),
        Param("running_var", "tensor"),
        Param("eps", default=1e-5),
        _REST,
        shape_rule="other",
        dtype_rule="float",
        flops=per_input(8.0),
        policy=4,
        result="any",
        exact=False,
        gradient="g * weight / sqrt(running_var + eps); sum(g * normalised); sum(g); ; ",
    ),
    _row(
        "layer_norm_parts",
        "nn",
        _layer_norm_parts,
        "(layer_norm over all axes from `axis` on, the means, the variances: in the type that sums are kept in; or None).",
        "x, weight, bias, axis=-1, eps=1e-7, rest=True",
        X,
        _WEIGHT,
        _BIAS,
        Param("axis", default=-1),
        Param("eps", default=1e-7),
        _REST,
        shape_rule="other",
        dtype_rule="float",
        flops=per_input(8.0),
        policy=4,
        result="any",
        exact=False,
        gradient="layer_norm_grad(g, x, weight); sum(g * normalised); sum(g)",
    ),
    _row(
        "l2_normalize",
        "nn",
        _l2_normalize,
        "x / sqrt(max(sum(x * x), eps)) along the axes.",
        "x, axis=0, eps=1e-4",
        X,
        Param("axis", default=0),
        Param("eps", default=1e-4),
        shape_rule="same",
        dtype_rule="float",
        flops=per_input(4.0),
        policy=4,
        fuse="reduce",
        exact=False,
        gradient="(g - out * sum(g * out)) / length",
    ),
    _row(
        "crop",
        "shape",
        _crop,
        "`size` elements from `begin` on along each axis; -1: all that follow.",
        "x, begin, size",
        X,
        Param("begin"),
        Param("size"),
        shape_rule="view",
        dtype_rule="same",
        flops=moves_only,
        fuse="view",
        gradient="pad(g)",
    ),
    _row(
        "strided_slice",
        "shape",
        _strided_slice,
        "x[begin:end:strides] for each axis; masks: bounds left out, an ellipsis, new axes, axes that go.",
        "x, begin, end, strides, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0",
        X,
        Param("begin"),
        Param("end"),
        Param("strides"),
        *_MASKS,
        shape_rule="view",
        dtype_rule="same",
        flops=moves_only,
        fuse="view",
        gradient="scatter of g",
    ),
    _row(
        "conv2d_input",
        "conv",
        _conv2d_input,
        "The gradient of conv2d by its input, of a given size: a transposed convolution whose output's size is said.",
        "x, weight, size, stride=1, padding=0, dilation=1, groups=1",
        X,
        _WEIGHT,
        Param("size"),
        Param("stride", default=1),
        Param("padding", default=0),
        Param("dilation", default=1),
        Param("groups", default=1),
        shape_rule="conv",
        flops=_gradient_flops,
        fuse="conv",
        policy=2,
        gradient="conv2d(g, weight); conv2d(g, x)",
    ),
)
