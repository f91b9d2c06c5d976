"""Convolution and pooling.

Convolution of float32 is oneDNN's where the process has one (`by_library`). Elsewhere it is im2col and
one BLAS product per image (NCHW) or over all images (NHWC); a 1x1 kernel needs no im2col; depthwise
kernels add shifted products in kernel order. Which of these runs depends on shapes and element types alone.
16-bit floats are accumulated in float32 and rounded once.
Weights are (out, in / groups, kh, kw) in both layouts.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import trees
from ._rows import X, elements, own
from .conv_more import ROWS as _MORE
from .conv_more import transposed_rows
from .linalg import product_type, widened
from .pooling import ROWS as _POOLING
from .registry import OpInfo, Param
from .windows import Border, Pair, border, output_size, padded, pair, windows

_Array = np.ndarray[Any, Any]

_CHUNK_BYTES = 8 << 20  # im2col for as many images at once as stay near the caches


def _chunk(image_bytes: int) -> int:
    """How many images go through im2col at once: by shape alone, since the product's blocks may follow its size."""
    return max(1, _CHUNK_BYTES // max(1, image_bytes))


def _conv_nchw(x: _Array, w: _Array, groups: int, stride: Pair, dilation: Pair, out: Pair) -> _Array:
    n, channels = x.shape[:2]
    o, per_group, *kernel_list = w.shape
    kernel = kernel_list[0], kernel_list[1]
    depth = per_group * kernel[0] * kernel[1]
    result = np.empty((n, o, *out), np.result_type(x, w))
    if not result.size:
        return result
    if depth == 0:
        result[...] = 0
        return result
    flat = result.reshape(n, groups, o // groups, out[0] * out[1])
    matrix = np.ascontiguousarray(w).reshape(groups, o // groups, depth)
    if kernel == (1, 1) and stride == (1, 1):
        np.matmul(matrix, np.ascontiguousarray(x).reshape(n, groups, depth, out[0] * out[1]), out=flat)
        return result
    view = windows(x, 2, kernel, stride, dilation, out).transpose(0, 1, 4, 5, 2, 3)  # n, c, kh, kw, rows, columns
    chunk = _chunk(channels * kernel[0] * kernel[1] * out[0] * out[1] * x.itemsize)
    for first in range(0, n, chunk):
        part = view[first : first + chunk]
        columns = np.ascontiguousarray(part).reshape(len(part), groups, depth, out[0] * out[1])
        np.matmul(matrix, columns, out=flat[first : first + chunk])
    return result


def _conv_nhwc(x: _Array, w: _Array, groups: int, stride: Pair, dilation: Pair, out: Pair) -> _Array:
    n, channels = x.shape[0], x.shape[3]
    o, per_group, *kernel_list = w.shape
    kernel = kernel_list[0], kernel_list[1]
    depth = per_group * kernel[0] * kernel[1]
    kind = np.result_type(x, w)
    if groups > 1:
        parts = [
            _conv_nhwc(
                x[..., g * per_group : (g + 1) * per_group], w[g * (o // groups) : (g + 1) * (o // groups)], 1, stride, dilation, out
            )
            for g in range(groups)
        ]
        joined: _Array = np.concatenate(parts, axis=3)
        return joined
    if depth == 0 or channels == 0:
        return np.zeros((n, *out, o), kind)
    matrix = np.ascontiguousarray(w.transpose(2, 3, 1, 0)).reshape(depth, o)
    if kernel == (1, 1) and stride == (1, 1):
        product: _Array = np.matmul(np.ascontiguousarray(x).reshape(-1, depth), matrix)
        return product.reshape(n, *out, o)
    result = np.empty((n, *out, o), kind)
    view = windows(x, 1, kernel, stride, dilation, out).transpose(0, 1, 2, 4, 5, 3)  # n, rows, columns, kh, kw, c
    chunk = _chunk(depth * out[0] * out[1] * x.itemsize)
    for first in range(0, n, chunk):
        part = view[first : first + chunk]
        columns = np.ascontiguousarray(part).reshape(-1, depth)
        np.matmul(columns, matrix, out=result[first : first + chunk].reshape(-1, o))
    return result


def _depthwise(x: _Array, w: _Array, layout: str, stride: Pair, dilation: Pair, out: Pair) -> _Array:
    """One input channel per group and as many output as input channels: products added in kernel order."""
    view = windows(x, 2 if layout == "NCHW" else 1, (w.shape[2], w.shape[3]), stride, dilation, out)
    taps = [w[:, 0, i, j] for i in range(w.shape[2]) for j in range(w.shape[3])]
    slices = [view[..., i, j] for i in range(w.shape[2]) for j in range(w.shape[3])]
    shape = (-1, 1, 1) if layout == "NCHW" else (-1,)
    result = slices[0] * taps[0].reshape(shape)
    product = np.empty_like(result)
    for part, tap in zip(slices[1:], taps[1:], strict=True):
        np.multiply(part, tap.reshape(shape), out=product)
        np.add(result, product, out=result)
    return np.ascontiguousarray(result)


class Geometry(NamedTuple):
    """Everything about a convolution but its elements; `size` and `out` are rows and columns."""

    groups: int
    layout: str
    size: Pair
    stride: Pair
    dilation: Pair
    edges: Border
    out: Pair


def _no_library(_x: _Array, _weight: _Array, _bias: _Array | None, _geometry: Geometry) -> _Array | None:
    return None


by_library: Callable[[_Array, _Array, _Array | None, Geometry], _Array | None] = _no_library
"""The convolution of float32 arrays by a library; None where there is none, or it has nothing fast for these shapes. Put in when the
package is imported, so that the same calls have the same bits throughout a process."""


def geometry(
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
    layout: Any = "NCHW",
) -> Geometry:
    """Of images and a weight of these shapes. Raises ValueError where they do not fit."""
    groups = operator.index(groups)
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f'layout must be "NCHW" or "NHWC", not {layout!r}')
    if len(x) != 4 or len(w) != 4:
        raise ValueError(f"conv2d needs x and weight with 4 axes, not {x} and {w}")
    axis = 2 if layout == "NCHW" else 1
    channels = x[3 if axis == 1 else 1]
    if groups < 1 or channels != w[1] * groups or w[0] % groups:
        raise ValueError(f"conv2d: {channels} channels, weight {w} and {groups} groups do not fit")
    kernel, steps, spread = (w[2], w[3]), pair(stride, "stride"), pair(dilation, "dilation")
    size = x[axis], x[axis + 1]
    edges = border(padding, size, kernel, steps, spread)
    return Geometry(groups, layout, size, steps, spread, edges, output_size(size, edges, kernel, steps, spread))


def conv2d(
    x: Any,
    weight: Any,
    *,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
    layout: Any = "NCHW",
) -> Any:
    a, w = trees.tensor(x), trees.tensor(weight)
    found = geometry(a.shape, w.shape, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)
    groups, _, _, steps, spread, edges, out = found
    axis = 2 if layout == "NCHW" else 1
    b = None if bias is None else trees.tensor(bias)
    if b is not None and b.shape != (w.shape[0],):
        raise ValueError(f"conv2d: a bias of shape ({w.shape[0]},) was expected, not {b.shape}")
    if a.dtype == w.dtype == trees.F32 and (b is None or b.dtype == trees.F32):
        made = by_library(a, w, b, found)
        if made is not None:
            return made
    result_type = product_type(a, w)
    wide, wide_weight = padded(widened(a), edges, axis), widened(w)
    if w.shape[1] == 1 and groups == w.shape[0] > 1:
        result = _depthwise(wide, wide_weight, layout, steps, spread, out)
    else:
        result = (_conv_nchw if layout == "NCHW" else _conv_nhwc)(wide, wide_weight, groups, steps, spread, out)
    if b is not None:
        result_type = product_type(np.empty(0, result_type), b)
        wide_bias = widened(b).reshape((-1, 1, 1) if layout == "NCHW" else (-1,))
        result = np.add(result, wide_bias, out=result) if result.dtype == np.result_type(result, wide_bias) else result + wide_bias
    return result.astype(result_type, copy=False)


def conv1d(x: Any, weight: Any, *, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1) -> Any:
    a, w = trees.tensor(x), trees.tensor(weight)
    if a.ndim != 3 or w.ndim != 3:
        raise ValueError(f"conv1d needs x and weight with 3 axes, not {a.shape} and {w.shape}")

    def one(value: Any, what: str) -> int:
        return operator.index(value) if hasattr(value, "__index__") else pair((*value, *value), what)[0]

    edges = padding if isinstance(padding, str) else ((0, 0), (one(padding, "padding"),) * 2)
    result = conv2d(
        a[:, :, None],
        w[:, :, None],
        bias=bias,
        stride=(1, one(stride, "stride")),
        padding=edges,
        dilation=(1, one(dilation, "dilation")),
        groups=groups,
    )
    return result[:, :, 0]


def _conv_flops(
    *shapes: tuple[int, ...], stride: Any = 1, padding: Any = 0, dilation: Any = 1, layout: Any = "NCHW", **_attrs: Any
) -> float:
    x, w = shapes[0], shapes[1]
    if len(x) == 3:
        x, w, layout = (*x[:2], 1, x[2]), (*w[:2], 1, w[2]), "NCHW"
        stride, dilation = (1, np.max(stride)), (1, np.max(dilation))
        padding = padding if isinstance(padding, str) else ((0, 0), (np.max(padding),) * 2)
    size = (x[2], x[3]) if layout == "NCHW" else (x[1], x[2])
    kernel, steps, spread = (w[2], w[3]), pair(stride, "stride"), pair(dilation, "dilation")
    out = output_size(size, border(padding, size, kernel, steps, spread), kernel, steps, spread)
    return 2.0 * x[0] * elements(out) * elements(w)


def _row(name: str, definition: Callable[..., Any], doc: str, signature: str, params: tuple[Param, ...], **rest: Any) -> OpInfo:
    return OpInfo(
        name=name,
        family="conv",
        params=params,
        definition=definition,
        doc=doc,
        spellings=(own(name, signature),),
        shape_rule="conv",
        flops=_conv_flops,
        fuse="conv",
        policy=2,
        exact=True,
        **rest,
    )


_TAIL = (
    Param("bias", "tensor", None),
    Param("stride", default=1),
    Param("padding", default=0),
    Param("dilation", default=1),
    Param("groups", default=1),
)
_SIGNATURE = "x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1"

_CONVOLUTIONS: tuple[OpInfo, ...] = (
    _row(
        "conv2d",
        conv2d,
        'Cross-correlation of images (layout "NCHW" or "NHWC") with a weight (out, in / groups, kh, kw).',
        _SIGNATURE + ", layout='NCHW'",
        (X, Param("weight", "tensor"), *_TAIL, Param("layout", default="NCHW")),
        gradient="conv_transpose(g, weight); conv(x, g); sum(g, all but channels)",
    ),
    _row(
        "conv1d",
        conv1d,
        "Cross-correlation of sequences (n, channels, length) with a weight (out, in / groups, k).",
        _SIGNATURE,
        (X, Param("weight", "tensor"), *_TAIL),
        gradient="conv_transpose(g, weight); conv(x, g); sum(g, all but channels)",
    ),
)

ROWS: tuple[OpInfo, ...] = _CONVOLUTIONS + transposed_rows(conv2d) + _MORE + _POOLING
