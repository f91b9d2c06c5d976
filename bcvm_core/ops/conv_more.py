"""More of convolution: transposed, over volumes, windows as columns and back, pixels and channels rearranged.

A transposed convolution is a plain one over the input with zeros between its elements, and so has
the bits of `conv2d` on it. A convolution over volumes is one BLAS product per group over windows
as columns.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import trees
from ._rows import X, elements, moves_only, own
from .linalg import product_type, widened
from .pooling_more import lengths
from .registry import OpInfo, Param

_Array = np.ndarray[Any, Any]
_WEIGHT = Param("weight", "tensor")
_BIAS = Param("bias", "tensor", None)

Conv2d = Callable[..., Any]


def stretched(x: _Array, steps: tuple[int, ...]) -> _Array:
    """Zeros between the elements of the last axes, so that neighbours are `steps` apart."""
    rank = len(steps)
    if all(s == 1 for s in steps):
        return x
    if 0 in x.shape[x.ndim - rank :]:
        raise ValueError(f"a transposed convolution needs elements in every spatial axis, not {x.shape}")
    size = [(n - 1) * s + 1 for n, s in zip(x.shape[-rank:], steps, strict=True)]
    wide = np.zeros([*x.shape[:-rank], *size], x.dtype)
    key: Any = (..., *(slice(None, None, s) for s in steps))
    wide[key] = x
    return wide


def fitted(x: _Array, edges: list[tuple[int, int]]) -> _Array:
    """Zeros added at both ends of the last axes, or elements cut off where a length is negative."""
    rank = len(edges)
    cut: Any = (..., *(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape[-rank:], edges, strict=True)))
    kept = x[cut]
    width = [(0, 0)] * (x.ndim - rank) + [(max(a, 0), max(b, 0)) for a, b in edges]
    return np.pad(kept, width) if any(a or b for a, b in width) else kept


def turned(weight: _Array, groups: int) -> _Array:
    """A transposed convolution's weight (in, out / groups, ...) as a plain one's (out, in / groups, ...), reversed."""
    o = weight.shape[1]
    parts = weight.reshape(groups, weight.shape[0] // groups, o, *weight.shape[2:]).swapaxes(1, 2)
    flipped: _Array = parts.reshape(groups * o, weight.shape[0] // groups, *weight.shape[2:])
    return np.flip(flipped, tuple(range(2, weight.ndim)))


def conv_transpose(
    conv2d: Conv2d, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: Any, dilation: Any
) -> Any:
    """The transposed convolution over images, through `conv2d`."""
    a, w, count = trees.tensor(x), trees.tensor(weight), operator.index(groups)
    if a.ndim != 4 or w.ndim != 4 or count < 1 or w.shape[0] != a.shape[1] or w.shape[0] % count:
        raise ValueError(f"conv_transpose: a weight (in, out / groups, ...) was expected for x {a.shape}, not {w.shape} and {count} groups")
    steps, spread = lengths(stride, 2, "stride"), lengths(dilation, 2, "dilation")
    edge, more = lengths(padding, 2, "padding"), lengths(output_padding, 2, "output_padding")
    if any(m >= max(s, d) for m, s, d in zip(more, steps, spread, strict=True)) or min(*steps, *spread) < 1 or min(*more, *edge) < 0:
        raise ValueError(f"conv_transpose: output padding {more} with stride {steps} and dilation {spread}")
    reach = [d * (k - 1) - p for d, k, p in zip(spread, w.shape[2:], edge, strict=True)]
    wide = fitted(stretched(a, steps), [(r, r + m) for r, m in zip(reach, more, strict=True)])
    return conv2d(wide, np.ascontiguousarray(turned(w, count)), bias=bias, dilation=spread, groups=count)


def _columns(wide: _Array, kernel: tuple[int, ...], steps: tuple[int, ...], spread: tuple[int, ...]) -> tuple[_Array, tuple[int, ...]]:
    """(view (n, c, *kernel, *out), out): all windows over the axes from 2 on."""
    rank = len(kernel)
    each = list(zip(wide.shape[2:], kernel, steps, spread, strict=True))
    if any(n < d * (k - 1) + 1 or s < 1 or k < 1 or d < 1 for n, k, s, d in each):
        raise ValueError(f"a kernel of {kernel} (stride {steps}, dilation {spread}) does not fit into {wide.shape[2:]}")
    out = tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in each)
    moves = wide.strides[2:]
    strides = (
        *wide.strides[:2],
        *(moves[i] * spread[i] for i in range(rank)),
        *(moves[i] * steps[i] for i in range(rank)),
    )
    view = np.lib.stride_tricks.as_strided(wide, (*wide.shape[:2], *kernel, *out), strides, writeable=False)
    return view, out


def conv3d(x: Any, weight: Any, *, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1) -> Any:
    a, w, count = trees.tensor(x), trees.tensor(weight), operator.index(groups)
    if a.ndim != 5 or w.ndim != 5 or count < 1 or a.shape[1] != w.shape[1] * count or w.shape[0] % count:
        raise ValueError(f"conv3d: x {a.shape}, weight {w.shape} and {count} groups do not fit")
    steps, spread = lengths(stride, 3, "stride"), lengths(dilation, 3, "dilation")
    if isinstance(padding, str):
        edges = _named_edges(padding, a.shape[2:], w.shape[2:], steps, spread)
    else:
        edges = [(p, p) for p in lengths(padding, 3, "padding")]
    result_type = product_type(a, w)
    view, out = _columns(fitted(widened(a), edges), w.shape[2:], steps, spread)
    depth = elements(w.shape[1:])
    columns = np.ascontiguousarray(view).reshape(a.shape[0], count, depth, elements(out))
    matrix = np.ascontiguousarray(widened(w)).reshape(count, w.shape[0] // count, depth)
    result = np.matmul(matrix, columns).reshape(a.shape[0], w.shape[0], *out)
    if bias is not None:
        b = trees.tensor(bias)
        result_type = product_type(np.empty(0, result_type), b)
        result = result + widened(b).reshape(-1, 1, 1, 1)
    return result.astype(result_type, copy=False)


def _named_edges(padding: str, size: Any, kernel: Any, steps: Any, spread: Any) -> list[tuple[int, int]]:
    if padding not in ("same", "valid"):
        raise ValueError(f'padding must be numbers, "same" or "valid", not {padding!r}')
    if padding == "valid":
        return [(0, 0)] * len(size)
    missing = [max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in zip(size, kernel, steps, spread, strict=True)]
    return [(m // 2, m - m // 2) for m in missing]


def _unfold(x: Any, kernel_size: Any, *, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Windows as columns: (n, c * kh * kw, windows)."""
    array = trees.tensor(x)
    if array.ndim != 4:
        raise ValueError(f"unfold needs images (n, c, h, w), not {array.shape}")
    edge = lengths(padding, 2, "padding")
    kernel, steps = lengths(kernel_size, 2, "kernel_size"), lengths(stride, 2, "stride")
    view, out = _columns(fitted(array, [(p, p) for p in edge]), kernel, steps, lengths(dilation, 2, "dilation"))
    return np.ascontiguousarray(view).reshape(array.shape[0], array.shape[1] * elements(kernel), elements(out))


def _fold(x: Any, output_size: Any, kernel_size: Any, *, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The sums of all columns' elements at their pixels, in kernel order, in the accumulation type."""
    array = trees.tensor(x)
    size, kernel = lengths(output_size, 2, "output_size"), lengths(kernel_size, 2, "kernel_size")
    spread, edge, steps = lengths(dilation, 2, "dilation"), lengths(padding, 2, "padding"), lengths(stride, 2, "stride")
    if min(*kernel, *spread, *steps) < 1:
        raise ValueError(f"fold: a window of {kernel} with stride {steps} and dilation {spread}")
    out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(size, edge, spread, kernel, steps, strict=True)]
    if array.ndim != 3 or array.shape[1] % elements(kernel) or array.shape[2] != elements(out):
        raise ValueError(f"fold: {array.shape} is not (n, c * {elements(kernel)}, {elements(out)})")
    channels = array.shape[1] // elements(kernel)
    kind = trees.accumulator(array.dtype) or array.dtype
    parts = array.reshape(array.shape[0], channels, *kernel, *out).astype(kind, copy=False)
    wide = np.zeros((array.shape[0], channels, *(n + 2 * p for n, p in zip(size, edge, strict=True))), kind)
    with np.errstate(all="ignore"):
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                rows = slice(i * spread[0], i * spread[0] + (out[0] - 1) * steps[0] + 1, steps[0])
                columns = slice(j * spread[1], j * spread[1] + (out[1] - 1) * steps[1] + 1, steps[1])
                wide[:, :, rows, columns] += parts[:, :, i, j]
        inner = wide[:, :, edge[0] : edge[0] + size[0], edge[1] : edge[1] + size[1]]
        return np.ascontiguousarray(inner).astype(array.dtype, copy=False)


def _pixel_shuffle(x: Any, upscale_factor: Any) -> Any:
    array, r = trees.tensor(x), operator.index(upscale_factor)
    if array.ndim < 3 or r < 1 or array.shape[-3] % (r * r):
        raise ValueError(f"pixel_shuffle: {array.shape} has no {r} x {r} channels for each pixel")
    *lead, channels, height, width = array.shape
    parts = array.reshape(*lead, channels // (r * r), r, r, height, width)
    axes = tuple(range(len(lead))) + tuple(len(lead) + a for a in (0, 3, 1, 4, 2))
    return parts.transpose(axes).reshape(*lead, channels // (r * r), height * r, width * r)


def _pixel_unshuffle(x: Any, downscale_factor: Any) -> Any:
    array, r = trees.tensor(x), operator.index(downscale_factor)
    if array.ndim < 3 or r < 1 or array.shape[-2] % r or array.shape[-1] % r:
        raise ValueError(f"pixel_unshuffle: {array.shape} is not a multiple of {r}")
    *lead, channels, height, width = array.shape
    parts = array.reshape(*lead, channels, height // r, r, width // r, r)
    axes = tuple(range(len(lead))) + tuple(len(lead) + a for a in (0, 2, 4, 1, 3))
    return parts.transpose(axes).reshape(*lead, channels * r * r, height // r, width // r)


def _channel_shuffle(x: Any, groups: Any) -> Any:
    array, count = trees.tensor(x), operator.index(groups)
    if array.ndim < 2 or count < 1 or array.shape[1] % count:
        raise ValueError(f"channel_shuffle: {count} groups of the channels of {array.shape}")
    return array.reshape(array.shape[0], count, array.shape[1] // count, *array.shape[2:]).swapaxes(1, 2).reshape(array.shape)


def _transposed_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    return 2.0 * elements(shapes[0]) * elements(shapes[1][1:])


def _volume_flops(*shapes: tuple[int, ...], stride: Any = 1, **_attrs: Any) -> float:
    steps = lengths(stride, len(shapes[0]) - 2, "stride")
    return 2.0 * elements(shapes[0]) * elements(shapes[1]) / max(1, shapes[1][1] * elements(steps))


def _row(name: str, definition: Callable[..., Any], doc: str, signature: str, *params: Param, **rest: Any) -> OpInfo:
    fields: dict[str, Any] = {"shape_rule": "conv", "flops": moves_only, "dtype_rule": "same", "fp_name": name, **rest}
    return OpInfo(
        name=name, family="conv", params=(X, *params), definition=definition, doc=doc, spellings=(own(name, signature),), **fields
    )


def transposed_rows(conv2d: Conv2d) -> tuple[OpInfo, ...]:
    """The transposed convolutions, which are made from `conv2d`."""

    def conv_transpose2d(
        x: Any,
        weight: Any,
        *,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: Any = 1,
        dilation: Any = 1,
    ) -> Any:
        return conv_transpose(conv2d, x, weight, bias, stride, padding, output_padding, groups, dilation)

    def conv_transpose1d(
        x: Any,
        weight: Any,
        *,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: Any = 1,
        dilation: Any = 1,
    ) -> Any:
        a, w = trees.tensor(x), trees.tensor(weight)
        if a.ndim != 3 or w.ndim != 3:
            raise ValueError(f"conv_transpose1d needs x and weight with 3 axes, not {a.shape} and {w.shape}")
        s, d, p, m = (lengths(v, 1, "length")[0] for v in (stride, dilation, padding, output_padding))
        return conv_transpose(conv2d, a[:, :, None], w[:, :, None], bias, (1, s), (0, p), (0, m), groups, (1, d))[:, :, 0]

    return tuple(
        _row(
            definition.__name__,
            definition,
            f"The transpose (gradient) of a convolution over {what}, with a weight (in, out / groups, ...).",
            "x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1",
            _WEIGHT,
            _BIAS,
            *(Param(name, default=value) for name, value in (("stride", 1), ("padding", 0), ("output_padding", 0))),
            *(Param(name, default=1) for name in ("groups", "dilation")),
            flops=_transposed_flops,
            dtype_rule="promote",
            fuse="conv",
            policy=2,
            gradient="conv(g, weight); conv(g, x); sum(g, all but channels)",
        )
        for definition, what in ((conv_transpose2d, "images"), (conv_transpose1d, "sequences"))
    )


_TAIL = tuple(Param(name, default=value) for name, value in (("dilation", 1), ("padding", 0), ("stride", 1)))

ROWS: tuple[OpInfo, ...] = (
    _row(
        "conv3d",
        conv3d,
        "Cross-correlation of volumes (n, c, d, h, w) with a weight (out, in / groups, kd, kh, kw).",
        "x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1",
        _WEIGHT,
        _BIAS,
        *(Param(name, default=value) for name, value in (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1))),
        flops=_volume_flops,
        dtype_rule="promote",
        fuse="conv",
        policy=2,
        gradient="conv_transpose(g, weight); conv(x, g); sum(g, all but channels)",
    ),
    _row(
        "unfold",
        _unfold,
        "Windows of images as columns (n, c * kh * kw, windows).",
        "x, kernel_size, dilation=1, padding=0, stride=1",
        Param("kernel_size"),
        *_TAIL,
        gradient="fold(g)",
    ),
    _row(
        "fold",
        _fold,
        "Images from columns: elements that share a pixel are added.",
        "x, output_size, kernel_size, dilation=1, padding=0, stride=1",
        Param("output_size"),
        Param("kernel_size"),
        *_TAIL,
        exact=False,
        gradient="unfold(g)",
    ),
    _row(
        "pixel_shuffle",
        _pixel_shuffle,
        "Channels turned into pixels: (c * r * r, h, w) to (c, h * r, w * r).",
        "x, upscale_factor",
        Param("upscale_factor"),
        gradient="pixel_unshuffle(g)",
    ),
    _row(
        "pixel_unshuffle",
        _pixel_unshuffle,
        "Pixels turned into channels: (c, h * r, w * r) to (c * r * r, h, w).",
        "x, downscale_factor",
        Param("downscale_factor"),
        gradient="pixel_shuffle(g)",
    ),
    _row(
        "channel_shuffle",
        _channel_shuffle,
        "Channels of all groups taken in turn.",
        "x, groups",
        Param("groups"),
        gradient="channel_shuffle(g, channels / groups)",
    ),
)
