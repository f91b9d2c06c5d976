"""Pooling over windows of images; averages follow the reduction tree, so a pool over a whole image is its mean."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import trees
from ._rows import X, elements, own
from .numerics import total
from .order import FIRST, LAST, channels_innermost, is_kept
from .pooling_more import ROWS as _MORE
from .pooling_more import avg_pool, max_pool
from .registry import OpInfo, Param
from .windows import Axis, Pair, axis_of, border, float_types, output_size, padded, pair, running_max, windows

_Array = np.ndarray[Any, Any]


def _images(x: Any, layout: Any, what: str) -> tuple[_Array, int]:
    array = trees.tensor(x)
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f'layout must be "NCHW" or "NHWC", not {layout!r}')
    if array.ndim != 4:
        raise ValueError(f"{what} needs a tensor with 4 axes, not {array.shape}")
    return array, 2 if layout == "NCHW" else 1


def _max_pool2d(
    x: Any,
    kernel_size: Any,
    *,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    layout: Any = "NCHW",
    ceil_mode: Any = False,
    return_indices: Any = False,
) -> Any:
    array, axis = _images(x, layout, "max_pool2d")
    if layout == "NCHW" and is_kept() and not (ceil_mode or return_indices) and channels_innermost(array):
        images = array.transpose(LAST)
        return _max_pool2d(images, kernel_size, stride=stride, padding=padding, dilation=dilation, layout="NHWC").transpose(FIRST)
    if ceil_mode or return_indices:
        found = max_pool(_channels_first(array, layout), 2, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        return tuple(_as_layout(part, layout) for part in found) if return_indices else _as_layout(found, layout)
    rows, columns = window_axes((array.shape[axis], array.shape[axis + 1]), kernel_size, stride, padding, dilation)
    found = by_kernel(array, rows, columns) if layout == "NHWC" else None
    return running_max(running_max(array, axis, rows), axis + 1, columns) if found is None else found


def window_axes(size: Pair, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> tuple[Axis, Axis]:
    """The windows of `max_pool2d` over images of a size, along rows and columns. Raises ValueError, TypeError."""
    kernel, spread = pair(kernel_size, "kernel_size"), pair(dilation, "dilation")
    steps = kernel if stride is None else pair(stride, "stride")
    edges = border(padding, size, kernel, steps, spread)
    if not isinstance(padding, str) and any(2 * max(side) > k for side, k in zip(edges, kernel, strict=True)):
        raise ValueError(f"padding {padding!r} is more than half of the kernel {kernel}: some windows would be empty")
    out = output_size(size, edges, kernel, steps, spread)
    rows, columns = (axis_of(size[k], kernel[k], steps[k], spread[k], edges[k][0], out[k]) for k in range(2))
    return rows, columns


def _no_kernel(_images: _Array, _rows: Axis, _columns: Axis) -> _Array | None:
    return None


by_kernel: Callable[[_Array, Axis, Axis], _Array | None] = _no_kernel
"""The maxima of windows of images (n, height, width, channels), with the bits of `running_max` over rows and then columns; None where there
is no kernel. Put in when the package is imported."""


def _channels_first(array: _Array, layout: str) -> _Array:
    return array if layout == "NCHW" else np.moveaxis(array, 3, 1)


def _as_layout(array: _Array, layout: str) -> _Array:
    return array if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(array, 1, 3))


def _avg_pool2d(
    x: Any,
    kernel_size: Any,
    *,
    stride: Any = None,
    padding: Any = 0,
    count_include_pad: Any = True,
    layout: Any = "NCHW",
    ceil_mode: Any = False,
    divisor_override: Any = None,
) -> Any:
    array, axis = _images(x, layout, "avg_pool2d")
    if layout == "NCHW" and is_kept() and not (ceil_mode or divisor_override) and channels_innermost(array):
        attrs = {"stride": stride, "padding": padding, "count_include_pad": count_include_pad, "layout": "NHWC"}
        return _avg_pool2d(array.transpose(LAST), kernel_size, **attrs).transpose(FIRST)
    if ceil_mode or divisor_override:
        images = _channels_first(array, layout)
        return _as_layout(avg_pool(images, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override), layout)
    kernel = pair(kernel_size, "kernel_size")
    steps = kernel if stride is None else pair(stride, "stride")
    size = array.shape[axis], array.shape[axis + 1]
    edges = border(padding, size, kernel, steps, (1, 1))
    out = output_size(size, edges, kernel, steps)
    accumulator, result = float_types(array)
    view = windows(padded(array.astype(accumulator, copy=False), edges, axis), axis, kernel, steps, (1, 1), out)
    sums = _window_sums(view)
    if count_include_pad:
        counts: Any = accumulator.type(kernel[0] * kernel[1])
    else:
        inside = padded(np.ones((1, 1, *size), accumulator), edges, 2)
        counts = windows(inside, 2, kernel, steps, (1, 1), out).sum(axis=(4, 5))
        counts = counts if axis == 2 else counts.reshape(1, *out, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.true_divide(sums, counts).astype(result, copy=False)


def _window_sums(view: _Array) -> Any:
    """Tree sums over the last two axes of a window view; the kernel goes first, so that rows stay long."""
    kernel = view.shape[-2:]
    if elements(kernel) > 1 and view.size:
        stacked = np.empty((elements(kernel), *view.shape[:-2]), view.dtype)
        for k in range(elements(kernel)):
            stacked[k] = view[..., k // kernel[1], k % kernel[1]]
        return total(stacked, (0,))
    return total(view, (view.ndim - 2, view.ndim - 1))


def _adaptive_avg_pool2d(x: Any, output_size: Any, *, layout: Any = "NCHW") -> Any:  # noqa: A002
    """Output row i averages input rows floor(i * h / out) to ceil((i + 1) * h / out)."""
    array, axis = _images(x, layout, "adaptive_avg_pool2d")
    height, width = array.shape[axis], array.shape[axis + 1]
    wanted = (output_size, output_size) if output_size is None or hasattr(output_size, "__index__") else tuple(output_size)
    if len(wanted) != 2:
        raise ValueError(f"output_size must be one or two integers, not {output_size!r}")
    rows, columns = (n if w is None else operator.index(w) for w, n in zip(wanted, (height, width), strict=True))
    if rows < 1 or columns < 1 or height < 1 or width < 1:
        raise ValueError(f"cannot pool {height} x {width} into {rows} x {columns}")
    if height % rows == 0 and width % columns == 0:
        return _avg_pool2d(array, (height // rows, width // columns), layout=layout)
    accumulator, kind = float_types(array)
    source = array.astype(accumulator, copy=False)
    result = np.empty([*array.shape[:axis], rows, columns, *array.shape[axis + 2 :]], kind)
    before = (slice(None),) * axis
    for i in range(rows):
        for j in range(columns):
            cell = (slice(i * height // rows, -(-(i + 1) * height // rows)), slice(j * width // columns, -(-(j + 1) * width // columns)))
            part = source[before + cell]
            sums = total(part, (axis, axis + 1))
            result[before + (i, j)] = sums / accumulator.type(part.shape[axis] * part.shape[axis + 1])
    return result


def _pool_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    return 2.0 * elements(shapes[0])


def _row(name: str, definition: Callable[..., Any], doc: str, signature: str, *params: Param, **rest: Any) -> OpInfo:
    return OpInfo(
        name=name,
        family="conv",
        params=(X, *params),
        definition=definition,
        doc=doc,
        spellings=(own(name, signature),),
        shape_rule="conv",
        flops=_pool_flops,
        **rest,
    )


_KERNEL = Param("kernel_size")
_STRIDE = Param("stride", default=None)
_PADDING = Param("padding", default=0)
_LAYOUT = Param("layout", default="NCHW")
_CEIL = Param("ceil_mode", default=False)

_IMAGES: tuple[OpInfo, ...] = (
    _row(
        "max_pool2d",
        _max_pool2d,
        "Largest element of each window; NaN wins; padding never does. (values, indices) on request.",
        "x, kernel_size, stride=None, padding=0, dilation=1, layout='NCHW', ceil_mode=False, return_indices=False",
        _KERNEL,
        _STRIDE,
        _PADDING,
        Param("dilation", default=1),
        _LAYOUT,
        _CEIL,
        Param("return_indices", default=False),
        result="any",
        dtype_rule="same",
        gradient="scatter_add(g, argmax of each window)",
    ),
    _row(
        "avg_pool2d",
        _avg_pool2d,
        "Mean of each window.",
        "x, kernel_size, stride=None, padding=0, count_include_pad=True, layout='NCHW', ceil_mode=False, divisor_override=None",
        _KERNEL,
        _STRIDE,
        _PADDING,
        Param("count_include_pad", default=True),
        _LAYOUT,
        _CEIL,
        Param("divisor_override", default=None),
        dtype_rule="float",
        gradient="g spread over each window / count",
        exact=False,
    ),
    _row(
        "adaptive_avg_pool2d",
        _adaptive_avg_pool2d,
        "Mean of windows chosen so that the output has a given size.",
        "x, output_size, layout='NCHW'",
        Param("output_size"),
        _LAYOUT,
        dtype_rule="float",
        gradient="g spread over each window / count",
        exact=False,
    ),
)

ROWS: tuple[OpInfo, ...] = _IMAGES + _MORE
