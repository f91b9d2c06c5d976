"""Convolution, pooling and resizing by loops over single output elements, in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np


def each(value: Any, rank: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,) * rank


def edges(padding: Any, sizes: Any, kernel: Any, stride: Any, dilation: Any) -> list[tuple[int, int]]:
    """(before, after) of every axis."""
    if padding == "valid":
        return [(0, 0)] * len(sizes)
    if padding == "same":
        lacking = [max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)]
        return [(lack // 2, lack - lack // 2) for lack in lacking]
    return [tuple(p) if isinstance(p, tuple | list) else (p, p) for p in each(padding, len(sizes))]  # type: ignore[misc]


def conv(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, layout: str = "NCHW"
) -> Any:
    """Cross-correlation over any number of axes."""
    if layout == "NHWC":
        return np.moveaxis(conv(np.moveaxis(x, -1, 1), weight, bias, stride, padding, dilation, groups), 1, -1)
    rank = x.ndim - 2
    kernel, step, far = weight.shape[2:], each(stride, rank), each(dilation, rank)
    border = edges(padding, x.shape[2:], kernel, step, far)
    wide = np.pad(x, [(0, 0), (0, 0), *border])
    out = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(wide.shape[2:], kernel, step, far, strict=True)]
    result = np.zeros((x.shape[0], weight.shape[0], *out))
    inner, outer = x.shape[1] // groups, weight.shape[0] // groups
    for o, place in product(range(weight.shape[0]), np.ndindex(*out)):
        first = o // outer * inner
        cut = tuple(slice(p * s, p * s + d * (k - 1) + 1, d) for p, s, d, k in zip(place, step, far, kernel, strict=True))
        window = wide[(slice(None), slice(first, first + inner), *cut)]
        result[(slice(None), o, *place)] = (window * weight[o]).reshape(len(x), -1).sum(1)
    return result if bias is None else result + np.reshape(bias, [-1] + [1] * rank)


def conv_transpose(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1
) -> Any:
    """Each input element times the kernel, added up; the border is cut off."""
    rank = x.ndim - 2
    step, far, more, cut = (each(v, rank) for v in (stride, dilation, output_padding, padding))
    kernel, inner, outer = weight.shape[2:], x.shape[1] // groups, weight.shape[1]
    full = [(n - 1) * s + d * (k - 1) + 1 + m for n, s, d, k, m in zip(x.shape[2:], step, far, kernel, more, strict=True)]
    result = np.zeros((x.shape[0], outer * groups, *full))
    for c, place in product(range(x.shape[1]), np.ndindex(*x.shape[2:])):
        first = c // inner * outer
        there = tuple(slice(p * s, p * s + d * (k - 1) + 1, d) for p, s, d, k in zip(place, step, far, kernel, strict=True))
        values = x[(slice(None), c, *place)]
        result[(slice(None), slice(first, first + outer), *there)] += values.reshape([-1] + [1] * (rank + 1)) * weight[c]
    result = result[(..., *(slice(p, n - p) for p, n in zip(cut, full, strict=True)))]
    return result if bias is None else result + np.reshape(bias, [-1] + [1] * rank)


def conv2d_input(x: Any, weight: Any, size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Each element times the kernel, added where `conv` reads; what falls on the border is cut off."""
    step, far, kernel = each(stride, 2), each(dilation, 2), weight.shape[2:]
    border = edges(padding, size[2:], kernel, step, far)
    wide = np.zeros((*size[:2], *(n + before + after for n, (before, after) in zip(size[2:], border, strict=True))))
    outer, inner = x.shape[1] // groups, weight.shape[1]
    for o, place in product(range(x.shape[1]), np.ndindex(*x.shape[2:])):
        first = o // outer * inner
        cut = tuple(slice(p * s, p * s + d * (k - 1) + 1, d) for p, s, d, k in zip(place, step, far, kernel, strict=True))
        wide[(slice(None), slice(first, first + inner), *cut)] += x[(slice(None), o, *place)].reshape(-1, 1, 1, 1) * weight[o]
    return wide[(..., *(slice(before, before + n) for n, (before, _) in zip(size[2:], border, strict=True)))]


def conv_tbc(x: Any, weight: Any, bias: Any = None, padding: int = 0) -> Any:
    return conv(x.transpose(1, 2, 0), weight.transpose(2, 1, 0), bias, padding=padding).transpose(2, 0, 1)


# --- pooling ----------------------------------------------------------------------------------------------


def windows(
    size: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Iterator[tuple[tuple[int, ...], list[range], int]]:
    """(place in the output, the positions of the window on every axis inside the tensor, how many it has with the border)."""
    rank = len(size)
    kernel, padding, dilation = (each(v, rank) for v in (kernel, padding, dilation))
    stride = kernel if stride is None else each(stride, rank)
    border = edges(padding, size, kernel, stride, dilation)
    counts = []
    for n, k, s, (before, after), d in zip(size, kernel, stride, border, dilation, strict=True):
        room = (n + before + after - d * (k - 1) - 1) / s
        count = (math.ceil if ceil_mode else math.floor)(room) + 1
        counts.append(count - 1 if ceil_mode and (count - 1) * s >= n + before else count)
    for place in np.ndindex(*counts):
        inside, area = [], 1
        for p, n, k, s, (before, after), d in zip(place, size, kernel, stride, border, dilation, strict=True):
            all_of_it = range(p * s - before, p * s - before + d * (k - 1) + 1, d)
            inside.append([i for i in all_of_it if 0 <= i < n])
            area *= sum(i < n + after for i in all_of_it)
        yield place, inside, area  # type: ignore[misc]


def _out(found: dict[Any, Any], lead: tuple[int, ...], dtype: Any = float) -> Any:
    last = max(found)
    result = np.empty((*lead, *(n + 1 for n in last)), dtype)
    for place, value in found.items():
        result[(..., *place)] = value
    return result


def max_pool(rank: int) -> Any:
    def function(
        x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, layout: str = "NCHW", ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:  # fmt: skip
        if layout == "NHWC":
            return np.moveaxis(function(np.moveaxis(x, -1, 1), kernel_size, stride, padding, dilation, "NCHW", ceil_mode), 1, -1)
        size, lead = x.shape[x.ndim - rank :], x.shape[: x.ndim - rank]
        flat, values, index = np.arange(math.prod(size)).reshape(size), {}, {}
        for place, inside, _ in windows(size, kernel_size, stride, padding, dilation, ceil_mode):
            part = x[(..., *np.ix_(*inside))].reshape(*lead, -1)
            values[place] = part.max(-1)
            index[place] = flat[np.ix_(*inside)].ravel()[part.argmax(-1)]
        return (_out(values, lead), _out(index, lead, np.int64)) if return_indices else _out(values, lead)

    return function


def avg_pool(rank: int) -> Any:
    def function(
        x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True, layout: str = "NCHW",
        ceil_mode: bool = False, divisor_override: Any = None,
    ) -> Any:  # fmt: skip
        if layout == "NHWC":
            return np.moveaxis(function(np.moveaxis(x, -1, 1), kernel_size, stride, padding, count_include_pad), 1, -1)
        size, lead = x.shape[x.ndim - rank :], x.shape[: x.ndim - rank]
        found = {}
        for place, inside, area in windows(size, kernel_size, stride, padding, 1, ceil_mode):
            part = x[(..., *np.ix_(*inside))].reshape(*lead, -1)
            found[place] = part.sum(-1) / (divisor_override or (area if count_include_pad else part.shape[-1]))
        return _out(found, lead)

    return function


def adaptive(rank: int, best: bool) -> Any:
    def function(x: Any, output_size: Any, return_indices: bool = False, layout: str = "NCHW") -> Any:
        if layout == "NHWC":
            return np.moveaxis(function(np.moveaxis(x, -1, 1), output_size), 1, -1)
        size, lead = x.shape[x.ndim - rank :], x.shape[: x.ndim - rank]
        out = [n if o is None else o for o, n in zip(each(output_size, rank), size, strict=True)]
        flat, values, index = np.arange(math.prod(size)).reshape(size), {}, {}
        for place in np.ndindex(*out):
            inside = [range(p * n // o, math.ceil((p + 1) * n / o)) for p, n, o in zip(place, size, out, strict=True)]
            part = x[(..., *np.ix_(*inside))].reshape(*lead, -1)
            values[place] = part.max(-1) if best else part.mean(-1)
            index[place] = flat[np.ix_(*inside)].ravel()[part.argmax(-1)]
        return (_out(values, lead), _out(index, lead, np.int64)) if return_indices else _out(values, lead)

    return function


def lp_pool(rank: int) -> Any:
    def function(x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
        sums = avg_pool(rank)(abs(x) ** norm_type, kernel_size, stride, ceil_mode=ceil_mode, divisor_override=1)
        return sums ** (1 / norm_type)

    return function


def max_unpool(rank: int) -> Any:
    def function(x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Any:
        kernel, edge = each(kernel_size, rank), each(padding, rank)
        step = kernel if stride is None else each(stride, rank)
        size = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[-rank:], step, edge, kernel, strict=True)]
        size = list(output_size[-rank:]) if output_size else size
        result = np.zeros((*x.shape[:-rank], math.prod(size)))
        for place in np.ndindex(x.shape):
            result[(*place[:-rank], indices[place])] = x[place]
        return result.reshape(*x.shape[:-rank], *size)

    return function


# --- patches and sizes --------------------------------------------------------------------------------------


def _patches(size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Iterator[tuple[int, tuple[Any, ...]]]:
    kernel, dilation, padding, stride = (each(v, 2) for v in (kernel, dilation, padding, stride))
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(size, padding, dilation, kernel, stride, strict=True)]
    for number, place in enumerate(np.ndindex(*counts)):
        yield number, tuple(slice(q * s, q * s + d * (k - 1) + 1, d) for q, s, d, k in zip(place, stride, dilation, kernel, strict=True))


def unfold(x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    edge = each(padding, 2)
    wide = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in edge)])
    parts = [wide[(..., *cut)].reshape(len(x), -1) for _, cut in _patches(x.shape[2:], kernel_size, dilation, padding, stride)]
    return np.stack(parts, -1)


def fold(x: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    kernel, edge, size = each(kernel_size, 2), each(padding, 2), each(output_size, 2)
    wide = np.zeros((x.shape[0], x.shape[1] // math.prod(kernel), *(n + 2 * p for n, p in zip(size, edge, strict=True))))
    for number, cut in _patches(size, kernel, dilation, padding, stride):
        wide[(..., *cut)] += x[..., number].reshape(*wide.shape[:2], *kernel)
    return wide[(..., *(slice(p, n + p) for p, n in zip(edge, size, strict=True)))]


def _weights(mode: str, place: float, size: int) -> list[tuple[int, float]]:
    low = math.floor(place)
    if mode != "bicubic":
        return [(min(low, size - 1), 1 - (place - low)), (min(low + 1, size - 1), place - low)]
    found = []
    for k in range(low - 1, low + 3):
        d, a = abs(place - k), -0.75
        near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        found.append((min(max(k, 0), size - 1), near if d <= 1 else far if d < 2 else 0.0))
    return found


def interpolate(x: Any, size: Any = None, mode: str = "nearest", align_corners: bool = False, scale_factor: Any = None) -> Any:
    """One axis after the other, one element after the other."""
    rank = x.ndim - 2
    scales = each(scale_factor, rank)
    new = each(size, rank) if size is not None else tuple(math.floor(n * s) for n, s in zip(x.shape[2:], scales, strict=True))
    if mode == "area":
        return adaptive(rank, False)(x, new)
    for axis, (n, scale) in enumerate(zip(new, scales, strict=True), 2):
        old = x.shape[axis]
        ratio = old / n if scale is None else 1 / scale
        slices = []
        for i in range(n):
            if mode == "nearest":
                found = [(min(math.floor(i * ratio + 1e-9), old - 1), 1.0)]
            else:
                place = i * (old - 1) / max(n - 1, 1) if align_corners else (i + 0.5) * ratio - 0.5
                found = _weights(mode, place if mode == "bicubic" or align_corners else max(place, 0.0), old)
            slices.append(sum(np.take(x, k, axis) * w for k, w in found))
        x = np.stack(slices, axis)
    return x


def grid_sample(x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False) -> Any:
    """Zeros outside; linear in any number of axes, cubic in two."""
    assert padding_mode == "zeros" and mode != "nearest"
    sizes = x.shape[2:]
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n, *where in np.ndindex(grid.shape[:-1]):
        reads = []
        for c, size in zip(grid[(n, *where)][::-1], sizes, strict=True):
            place = (c + 1) / 2 * (size - 1) if align_corners else ((c + 1) * size - 1) / 2
            low = math.floor(place)
            places = range(low - 1, low + 3) if mode == "bicubic" else range(low, low + 2)
            a = [_weights(mode, place, 10**9)] if mode == "bicubic" else [[(0, 1 - (place - low)), (0, place - low)]]
            reads.append([(k, w) for k, (_, w) in zip(places, a[0], strict=True)])
        for chosen in product(*reads):
            if all(0 <= k < size for (k, _), size in zip(chosen, sizes, strict=True)):
                result[(n, slice(None), *where)] += x[(n, slice(None), *(k for k, _ in chosen))] * math.prod(w for _, w in chosen)
    return result


def affine_grid(theta: Any, size: Any, align_corners: bool = False) -> Any:
    lengths = size[2:]
    result = np.zeros((theta.shape[0], *lengths, len(lengths)))
    for n, *where in np.ndindex(theta.shape[0], *lengths):
        ends = [(2 * i / max(m - 1, 1) - 1) if align_corners else (2 * i + 1) / m - 1 for i, m in zip(where, lengths, strict=True)]
        result[(n, *where)] = theta[n] @ np.array([*ends[::-1], 1.0])
    return result


WINDOWS: dict[str, Any] = {
    **{f"conv{rank}d": conv for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": conv_transpose for rank in (1, 2, 3)},
    **{f"max_pool{rank}d": max_pool(rank) for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d": avg_pool(rank) for rank in (1, 2, 3)},
    **{f"lp_pool{rank}d": lp_pool(rank) for rank in (1, 2, 3)},
    **{f"max_unpool{rank}d": max_unpool(rank) for rank in (1, 2, 3)},
    **{f"adaptive_{word}_pool{rank}d": adaptive(rank, word == "max") for rank in (1, 2, 3) for word in ("max", "avg")},
    **{f.__name__: f for f in (conv2d_input, conv_tbc, unfold, fold, interpolate, grid_sample, affine_grid)},
}
