"""Pooling over any number of axes (1 to 3), with indices, and its inverse.

The spatial axes come last (NCHW and its like). Maxima: NaN wins and padding never does; an index is
the place in the flattened spatial axes, the first of equals. Averages follow the reduction tree.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import trees
from ._rows import X, elements, own
from .numerics import open_up, quiet, total
from .registry import REQUIRED, OpInfo, Param
from .windows import float_types, lowest

_Array = np.ndarray[Any, Any]
Lengths = tuple[int, ...]


def lengths(value: Any, rank: int, what: str) -> Lengths:
    """One int for all axes, or `rank` of them."""
    if hasattr(value, "__index__"):
        return (operator.index(value),) * rank
    found = tuple(operator.index(v) for v in value)
    if len(found) == 1:
        return found * rank
    if len(found) != rank:
        raise ValueError(f"{what} must be one or {rank} integers, not {value!r}")
    return found


def pooled_length(size: int, kernel: int, step: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Windows along one axis; rounded up, the last one must still begin inside the tensor or its left border."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if kernel < 1 or step < 1 or dilation < 1 or padding < 0 or 2 * padding > kernel * dilation or room < 0:
        raise ValueError(f"a window of {kernel} (stride {step}, padding {padding}, dilation {dilation}) does not fit into {size}")
    count = (room + (step - 1 if ceil_mode else 0)) // step + 1
    return count - 1 if ceil_mode and (count - 1) * step >= size + padding else count


class Windows:
    """Windows over the last axes of a tensor; those that reach over an edge are filled up with a value."""

    def __init__(self, array: _Array, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any) -> None:
        if array.ndim not in (rank + 1, rank + 2):
            raise ValueError(f"a tensor with {rank} spatial axes was expected, not of shape {array.shape}")
        self.rank, self.size = rank, array.shape[array.ndim - rank :]
        self.kernel = lengths(kernel, rank, "kernel_size")
        self.step = self.kernel if stride is None else lengths(stride, rank, "stride")
        self.padding = lengths(padding, rank, "padding")
        self.dilation = lengths(dilation, rank, "dilation")
        each = zip(self.size, self.kernel, self.step, self.padding, self.dilation, strict=True)
        self.out = tuple(pooled_length(*values, bool(ceil_mode)) for values in each)

    def widened(self, array: _Array, fill: Any) -> _Array:
        """The tensor with a border on all sides that every window fits into."""
        each = zip(self.size, self.out, self.step, self.kernel, self.dilation, self.padding, strict=True)
        ends = [max((o - 1) * s + d * (k - 1) + 1 - n - p, 0) for n, o, s, k, d, p in each]
        if not any(ends) and not any(self.padding):
            return array
        lead = array.shape[: array.ndim - self.rank]
        wide: _Array = np.full([*lead, *(n + p + e for n, p, e in zip(self.size, self.padding, ends, strict=True))], fill, array.dtype)
        inner: Any = (..., *(slice(p, p + n) for p, n in zip(self.padding, self.size, strict=True)))
        wide[inner] = array
        return wide

    def parts(self, wide: _Array) -> list[_Array]:
        """For each place in the kernel, in order, its elements in all windows."""
        found = []
        for place in itertools.product(*map(range, self.kernel)):
            each = zip(place, self.out, self.step, self.dilation, strict=True)
            key: Any = (..., *(slice(k * d, k * d + (o - 1) * s + 1, s) for k, o, s, d in each))
            found.append(wide[key])
        return found


def _flat_places(size: Sequence[int]) -> _Array:
    return np.arange(elements(size), dtype=np.int64).reshape(tuple(size))


def max_pool(
    x: Any,
    rank: int,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: Any = False,
    return_indices: Any = False,
) -> Any:
    array = trees.tensor(x)
    windows = Windows(array, rank, kernel_size, stride, padding, dilation, ceil_mode)
    first, *others = windows.parts(windows.widened(array, lowest(array.dtype)))
    result = first.copy()
    if not return_indices:
        for part in others:
            np.maximum(result, part, out=result)
        return result
    places = windows.parts(windows.widened(_flat_places(windows.size), -1))
    index = np.broadcast_to(places[0], result.shape).copy()
    for part, place in zip(others, places[1:], strict=True):
        better = (part > result) | ((part != part) & (result == result)) | ((index < 0) & (place >= 0))
        np.copyto(result, part, where=better)
        np.copyto(index, place, where=better)
    return result, index


def avg_pool(
    x: Any,
    rank: int,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: Any = False,
    count_include_pad: Any = True,
    divisor_override: Any = None,
) -> Any:
    array = trees.tensor(x)
    windows = Windows(array, rank, kernel_size, stride, padding, 1, ceil_mode)
    accumulator, result = float_types(array)
    sums = total(np.stack(windows.parts(windows.widened(array.astype(accumulator, copy=False), 0))), (0,))
    if divisor_override:
        counts: Any = accumulator.type(divisor_override)
    else:
        counts = _counts(windows, bool(count_include_pad)).astype(accumulator)
    with np.errstate(all="ignore"):
        return np.true_divide(sums, counts).astype(result, copy=False)


def _counts(windows: Windows, with_padding: bool) -> _Array:
    """How many elements each window has: inside the tensor, or inside it and its border (but not beyond)."""
    counts = np.ones(windows.out, np.int64)
    for axis, n in enumerate(windows.size):
        k, s, p = windows.kernel[axis], windows.step[axis], windows.padding[axis]
        start = np.arange(windows.out[axis]) * s - p
        end = np.minimum(start + k, n + p if with_padding else n)
        along = end - (start if with_padding else np.maximum(start, 0))
        counts = counts * along.reshape([-1 if a == axis else 1 for a in range(windows.rank)])
    return counts


@quiet
def _lp_pool(x: Any, rank: int, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: Any = False) -> Any:
    array, values = open_up(x)
    windows = Windows(array, rank, kernel_size, stride, 0, 1, ceil_mode)
    p = values.dtype.type(norm_type)
    powers = values * values if p == 2 else np.power(np.absolute(values), p)
    sums = total(np.stack(windows.parts(windows.widened(powers, 0))), (0,))
    return (np.sqrt(sums) if p == 2 else np.power(sums, 1 / p)).astype(array.dtype, copy=False)


def _cells(size: int, count: int) -> list[slice]:
    """Where the windows of adaptive pooling begin and end along one axis."""
    if count < 1 or size < 1:
        raise ValueError(f"cannot pool {size} into {count}")
    return [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive(array: _Array, rank: int, output_size: Any) -> tuple[Lengths, list[tuple[slice, ...]]]:
    if array.ndim not in (rank + 1, rank + 2):
        raise ValueError(f"a tensor with {rank} spatial axes was expected, not of shape {array.shape}")
    size = array.shape[array.ndim - rank :]
    wanted = (output_size,) * rank if output_size is None or hasattr(output_size, "__index__") else tuple(output_size)
    if len(wanted) != rank:
        raise ValueError(f"output_size must be one or {rank} integers, not {output_size!r}")
    out = tuple(n if w is None else operator.index(w) for w, n in zip(wanted, size, strict=True))
    return out, list(itertools.product(*(_cells(n, w) for n, w in zip(size, out, strict=True))))


def _adaptive_max_pool(x: Any, rank: int, output_size: Any, return_indices: Any) -> Any:
    array = trees.tensor(x)
    out, cells = _adaptive(array, rank, output_size)
    lead = array.shape[: array.ndim - rank]
    result: _Array = np.empty((*lead, len(cells)), array.dtype)
    index: _Array = np.empty(result.shape, np.int64)
    places = _flat_places(array.shape[array.ndim - rank :])
    for number, cell in enumerate(cells):
        key: Any = (..., *cell)
        part = array[key]
        part = part.reshape(*lead, elements(part.shape[len(lead) :]))
        best = part.argmax(axis=-1)
        result[..., number] = np.take_along_axis(part, best[..., None], -1)[..., 0]
        index[..., number] = places[cell].ravel()[best]
    result, index = result.reshape(*lead, *out), index.reshape(*lead, *out)
    return (result, index) if return_indices else result


def adaptive_avg_pool(x: Any, rank: int, output_size: Any) -> Any:
    array = trees.tensor(x)
    out, cells = _adaptive(array, rank, output_size)
    accumulator, kind = float_types(array)
    source = array.astype(accumulator, copy=False)
    lead = array.shape[: array.ndim - rank]
    result: _Array = np.empty((*lead, len(cells)), kind)
    axes = tuple(range(array.ndim - rank, array.ndim))
    for number, cell in enumerate(cells):
        key: Any = (..., *cell)
        part = source[key]
        result[..., number] = total(part, axes) / accumulator.type(math.prod(part.shape[a] for a in axes))
    return result.reshape(*lead, *out)


def _max_unpool(x: Any, indices: Any, rank: int, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Any:
    """The elements back at the places that max pooling took them from, zeros elsewhere."""
    array, index = trees.tensor(x), trees.tensor(indices)
    if array.shape != index.shape or array.ndim not in (rank + 1, rank + 2):
        raise ValueError(f"max_unpool{rank}d: indices of shape {index.shape} for a tensor of shape {array.shape}")
    kernel = lengths(kernel_size, rank, "kernel_size")
    step = kernel if stride is None else lengths(stride, rank, "stride")
    edge, lead = lengths(padding, rank, "padding"), array.shape[:-rank]
    if min(*kernel, *step) < 1:
        raise ValueError(f"max_unpool{rank}d: a window of {kernel} with stride {step}")
    size = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(array.shape[-rank:], step, edge, kernel, strict=True))
    if output_size is not None:
        size = tuple(operator.index(n) for n in output_size)[-rank:]
    if index.size and (index.min() < 0 or index.max() >= elements(size)):
        raise IndexError(f"max_unpool{rank}d: an index is outside {size}")
    flat = np.zeros((*lead, elements(size)), array.dtype)
    np.put_along_axis(flat, index.reshape(*lead, -1), array.reshape(*lead, -1), -1)
    return flat.reshape(*lead, *size)


def _pool_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    return 2.0 * elements(shapes[0])


def _row(name: str, definition: Callable[..., Any], doc: str, *params: Param, **rest: Any) -> OpInfo:
    shown = (p.name if p.default is REQUIRED else f"{p.name}={p.default!r}" for p in params)
    definition.__name__ = definition.__qualname__ = name
    return OpInfo(
        name=name,
        family="conv",
        params=(X, *params),
        definition=definition,
        doc=doc,
        spellings=(own(name, ", ".join(("x", *shown))),),
        shape_rule="conv",
        flops=_pool_flops,
        **rest,
    )


def _given(**values: Any) -> tuple[Param, ...]:
    return tuple(Param(name, default=value) for name, value in values.items())


_KERNEL = Param("kernel_size")
_OUT = Param("output_size")
_MAX: dict[str, Any] = {"dtype_rule": "same", "gradient": "scatter_add(g, index of the largest of each window)"}
_MEAN: dict[str, Any] = {"dtype_rule": "float", "gradient": "g spread over each window / count", "exact": False}


def _max_row(rank: int) -> OpInfo:
    def definition(x: Any, kernel_size: Any, **attrs: Any) -> Any:
        return max_pool(x, rank, kernel_size, **attrs)

    params = _given(stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False)
    doc = f"Largest element of each window over the last {'axis' if rank == 1 else f'{rank} axes'}, with (values, indices) on request."
    return _row(f"max_pool{rank}d", definition, doc, _KERNEL, *params, result="any", **_MAX)


def _avg_row(rank: int) -> OpInfo:
    def definition(x: Any, kernel_size: Any, **attrs: Any) -> Any:
        return avg_pool(x, rank, kernel_size, **attrs)

    params = _given(stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)
    doc = f"Mean of each window over the last {'axis' if rank == 1 else f'{rank} axes'}."
    return _row(f"avg_pool{rank}d", definition, doc, _KERNEL, *params, **_MEAN)


def _adaptive_max_row(rank: int) -> OpInfo:
    def definition(x: Any, output_size: Any, return_indices: Any = False) -> Any:
        return _adaptive_max_pool(x, rank, output_size, return_indices)

    doc = "Largest element of windows chosen so that the output has a given size, with (values, indices) on request."
    return _row(f"adaptive_max_pool{rank}d", definition, doc, _OUT, *_given(return_indices=False), result="any", **_MAX)


def _adaptive_avg_row(rank: int) -> OpInfo:
    def definition(x: Any, output_size: Any) -> Any:
        return adaptive_avg_pool(x, rank, output_size)

    return _row(f"adaptive_avg_pool{rank}d", definition, "Mean of windows chosen so that the output has a given size.", _OUT, **_MEAN)


def _lp_row(rank: int) -> OpInfo:
    def definition(x: Any, norm_type: Any, kernel_size: Any, **attrs: Any) -> Any:
        return _lp_pool(x, rank, norm_type, kernel_size, **attrs)

    params = (Param("norm_type"), _KERNEL, *_given(stride=None, ceil_mode=False))
    gradient = "g * (x / out) ** (p - 1) spread over each window"
    doc = f"The p-norm of each window over the last {'axis' if rank == 1 else f'{rank} axes'}."
    return _row(f"lp_pool{rank}d", definition, doc, *params, dtype_rule="float", gradient=gradient, exact=False)


def _unpool_row(rank: int) -> OpInfo:
    def definition(x: Any, indices: Any, kernel_size: Any, **attrs: Any) -> Any:
        return _max_unpool(x, indices, rank, kernel_size, **attrs)

    params = (Param("indices", "tensor"), _KERNEL, *_given(stride=None, padding=0, output_size=None))
    doc = f"Elements back at the places that max_pool{rank}d took them from, zeros elsewhere."
    return _row(f"max_unpool{rank}d", definition, doc, *params, dtype_rule="same", gradient="gather_elements(g, indices)")


ROWS: tuple[OpInfo, ...] = (
    *(_max_row(rank) for rank in (1, 3)),
    *(_avg_row(rank) for rank in (1, 3)),
    *(_adaptive_max_row(rank) for rank in (1, 2, 3)),
    *(_adaptive_avg_row(rank) for rank in (1, 3)),
    *(_lp_row(rank) for rank in (1, 2, 3)),
    *(_unpool_row(rank) for rank in (1, 2, 3)),
)
