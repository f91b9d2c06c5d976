"""Convolutions and pooling over one, two or three axes, with ONNX's ways to say the padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core import ops
from tests.onnx_nodes.geometry import Geometry, limits, transposed
from tests.onnx_nodes.table import op, part, simple

CONV = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
TRANSPOSED = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}
MAX = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}
NORM = {1: ops.lp_pool1d, 2: ops.lp_pool2d, 3: ops.lp_pool3d}
UNPOOL = {1: ops.max_unpool1d, 2: ops.max_unpool2d, 3: ops.max_unpool3d}
AVERAGE = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}


def length_of(kernel: Any) -> Any:
    """A length as the functions for one axis take it."""
    return kernel[0] if len(kernel) == 1 else tuple(kernel)


@part
def convolved(x: Any, w: Any, b: Any, g: Geometry, group: int) -> Any:
    more = {"stride": length_of(g.steps), "dilation": length_of(g.gaps), "groups": group}
    if g.symmetric:
        return CONV[g.rank](x, w, bias=b, padding=length_of(g.begin), **more)
    return CONV[g.rank](np.pad(x, [(0, 0), (0, 0), *g.edges]), w, bias=b, **more)


@op("Conv")
def conv(x: Any, w: Any, b: Any = None, group: int = 1, **window: Any) -> Any:
    return convolved(x, w, b, Geometry.of(x.shape[2:], {"kernel_shape": w.shape[2:], **window}), group)


@op("ConvInteger")
def conv_integer(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, group: int = 1, **window: Any) -> Any:
    x, w = x.astype(np.int32), w.astype(np.int32)
    if x_zero is not None:
        x = x - x_zero
    if w_zero is not None:
        w = w - w_zero.reshape(-1, *[1] * (w.ndim - 1))
    return convolved(x, w, None, Geometry.of(x.shape[2:], {"kernel_shape": w.shape[2:], **window}), group)


@op("ConvTranspose")
def conv_transpose(
    x: Any, w: Any, b: Any = None, group: int = 1, output_padding: Any = None, output_shape: Any = None, **window: Any
) -> Any:
    more = list(output_padding or [0] * (x.ndim - 2))
    g, keep, add = transposed(x.shape[2:], {"kernel_shape": w.shape[2:], **window}, more, output_shape)
    steps, gaps, extra = length_of(g.steps), length_of(g.gaps), length_of(more)
    y = TRANSPOSED[g.rank](x, w, bias=b, stride=steps, dilation=gaps, output_padding=extra, groups=group)
    return np.pad(y[(slice(None), slice(None), *keep)], [(0, 0), (0, 0), *add])


@part
def window_sums(x: Any, g: Geometry, edge: float = 0.0, beyond: float = 0.0) -> Any:
    """The sums of all windows, by a convolution with ones; `edge` fills the padding, `beyond` what windows reach after it."""
    channels = x.shape[1]
    wide = np.pad(x, [(0, 0), (0, 0), *g.edges], constant_values=edge)
    wide = np.pad(wide, [(0, 0), (0, 0), *g.overhang], constant_values=beyond)
    ones = np.ones((channels, 1, *g.kernel), x.dtype)
    return CONV[g.rank](wide, ones, stride=length_of(g.steps), dilation=length_of(g.gaps), groups=channels)


@op("AveragePool")
def average_pool(x: Any, count_include_pad: int = 0, ceil_mode: int = 0, **window: Any) -> Any:
    g = Geometry.of(x.shape[2:], window, ceil_mode)
    if g.symmetric and g.narrow and g.dense:
        more = {"padding": length_of(g.begin), "ceil_mode": bool(ceil_mode), "count_include_pad": bool(count_include_pad)}
        return AVERAGE[g.rank](x, length_of(g.kernel), stride=length_of(g.steps), **more)
    counts = window_sums(np.ones_like(x), g, edge=1.0 if count_include_pad else 0.0)
    return window_sums(x, g) / counts


@op("MaxPool")
def max_pool(x: Any, ceil_mode: int = 0, storage_order: int = 0, outputs: int = 1, **window: Any) -> Any:
    g = Geometry.of(x.shape[2:], window, ceil_mode)
    more = {"stride": length_of(g.steps), "dilation": length_of(g.gaps)}
    if not (g.symmetric and g.narrow):
        wide = np.pad(x, [(0, 0), (0, 0), *g.whole_edges], constant_values=limits(x.dtype)[0])
        return MAX[g.rank](wide, length_of(g.kernel), **more)
    more["padding"] = length_of(g.begin)
    more["ceil_mode"] = bool(ceil_mode)
    if outputs == 1:
        return MAX[g.rank](x, length_of(g.kernel), **more)
    values, places = MAX[g.rank](x, length_of(g.kernel), return_indices=True, **more)
    images = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * g.rank) * int(np.prod(g.lengths))
    if storage_order:
        places = np.ravel_multi_index(tuple(np.unravel_index(places, g.lengths)), g.lengths, order="F")
    return values, places + images


@op("LpPool")
def lp_pool(x: Any, p: int = 2, ceil_mode: int = 0, **window: Any) -> Any:
    g = Geometry.of(x.shape[2:], window, ceil_mode)
    if g.plain and g.dense:
        return NORM[g.rank](x, p, length_of(g.kernel), stride=length_of(g.steps), ceil_mode=bool(ceil_mode))
    return np.power(window_sums(np.power(np.abs(x), p), g), 1 / p)


@op("MaxUnpool")
def max_unpool(x: Any, indices: Any, output_shape: Any = None, **window: Any) -> Any:
    g = Geometry.of(x.shape[2:], window)
    y = UNPOOL[g.rank](x, indices, length_of(g.kernel), stride=length_of(g.steps), padding=length_of(g.begin))
    if output_shape is None:
        return y
    return np.pad(y, [(0, int(output_shape[i]) - y.shape[i]) for i in range(y.ndim)])


simple(
    {
        "GlobalAveragePool": lambda x: x.mean(axis=tuple(range(2, x.ndim)), keepdims=True),
        "GlobalMaxPool": lambda x: np.max(x, axis=tuple(range(2, x.ndim)), keepdims=True),
    }
)


@op("Col2Im")
def col2im(x: Any, image_shape: Any, block_shape: Any, dilations: Any = None, pads: Any = None, strides: Any = None) -> Any:
    rank = len(image_shape)
    pads = [0] * (2 * rank) if pads is None else pads
    return ops.fold(
        x,
        tuple(image_shape.tolist()),
        tuple(block_shape.tolist()),
        dilation=tuple(dilations or [1] * rank),
        padding=tuple(pads[:rank]),
        stride=tuple(strides or [1] * rank),
    )
