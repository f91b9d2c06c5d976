"""In which order of the axes NumPy would lay out results, evaluated op by op."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .graph import Const, FusedGraph
from .recycle import empty

Pattern = tuple[tuple[int, ...], tuple[int, ...]]  # per axis: length (1 or 2), and the rank of its stride (0: no stride) with its sign


def empty_outputs(graph: FusedGraph, arrays: list[Any], shape: tuple[int, ...], dtypes: list[Any]) -> list[Any]:
    """Fresh arrays for the outputs, laid out as NumPy's own results would be."""
    if all(x.flags.c_contiguous for x in arrays):
        return [empty(shape, dtype) for dtype in dtypes]
    orders = _orders(graph, tuple(map(_pattern, arrays)), len(shape))
    return [_empty(shape, dtype, order) for dtype, order in zip(dtypes, orders, strict=True)]


def _empty(shape: tuple[int, ...], dtype: Any, order: tuple[int, ...]) -> Any:
    """An array whose axis order[0] varies slowest."""
    made = empty([shape[axis] for axis in order], dtype)
    return made.transpose(np.argsort(order)) if order else made


def _pattern(x: Any) -> Pattern:
    steps = [0, *sorted({abs(s) for s in x.strides if s})]
    return tuple(min(d, 2) for d in x.shape), tuple((1 if s >= 0 else -1) * steps.index(abs(s)) for s in x.strides)


@lru_cache(maxsize=512)
def _orders(graph: FusedGraph, patterns: tuple[Pattern, ...], ndim: int) -> tuple[tuple[int, ...], ...]:
    """Per output its axes from the slowest to the fastest: the graph is walked with arrays of the smallest like shape."""
    values: list[Any] = [_small(pattern) for pattern in patterns]
    for node in graph.nodes:
        operands = [values[x] for x in node.operands if not isinstance(x, Const)]
        values.append(_result_like(operands))
    return tuple(_order_of(values[k]) for k in graph.outputs)


def _small(pattern: Pattern) -> Any:
    """A tiny array whose strides compare like those of the pattern."""
    shape, ranks = pattern
    strides = tuple((-1 if rank < 0 else 1) * 4 ** abs(rank) if rank else 0 for rank in ranks)
    low = sum(min(0, s * (d - 1)) for s, d in zip(strides, shape, strict=True))
    high = sum(max(0, s * (d - 1)) for s, d in zip(strides, shape, strict=True))
    return np.ndarray(shape, np.int8, bytearray(high - low + 1), -low, strides)


def _result_like(operands: list[Any]) -> Any:
    """What a function of these operands would allocate."""
    flags: Any = [["readonly"]] * len(operands) + [["writeonly", "allocate"]]
    made: Any = np.nditer([*operands, None], ["zerosize_ok"], flags)
    return made.operands[-1]


def _order_of(x: Any) -> tuple[int, ...]:
    return tuple(sorted(range(x.ndim), key=lambda axis: (-abs(x.strides[axis]), axis)))
