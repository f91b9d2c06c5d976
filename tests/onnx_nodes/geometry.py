"""Where windows lie: ONNX's attributes of convolutions and pooling as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Edges = list[tuple[int, int]]


@dataclass(frozen=True)
class Geometry:
    """Windows over the `rank` spatial axes, everything worked out: expressions only read numbers from it."""

    rank: int
    lengths: list[int]  # of the tensor
    kernel: list[int]
    steps: list[int]
    gaps: list[int]  # dilations
    begin: list[int]
    edges: Edges  # padding before and after
    overhang: Edges  # what the last windows reach beyond the padding, where they are counted by rounding up
    whole_edges: Edges  # both
    symmetric: bool  # the same padding on both sides of every axis
    narrow: bool  # padding of at most half a window, so that every window holds an element
    plain: bool  # no padding
    dense: bool  # no gaps

    @classmethod
    def of(cls, lengths: Sequence[int], window: Mapping[str, Any], ceil_mode: int = 0) -> Geometry:
        """From a node's attributes: kernel_shape, strides, dilations, pads, auto_pad."""
        rank = len(lengths)
        kernel = list(window["kernel_shape"])
        steps, gaps = (list(window.get(name) or [1] * rank) for name in ("strides", "dilations"))
        reach = [d * (k - 1) + 1 for k, d in zip(kernel, gaps, strict=True)]
        begin, end = _padding(lengths, steps, reach, window)
        edges = list(zip(begin, end, strict=True))
        overhang = _overhang(lengths, steps, reach, edges) if ceil_mode else [(0, 0)] * rank
        return cls(
            rank,
            list(lengths),
            kernel,
            steps,
            gaps,
            begin,
            edges,
            overhang,
            [(a, b + more) for (a, b), (_, more) in zip(edges, overhang, strict=True)],
            symmetric=begin == end,
            narrow=all(2 * p <= k for p, k in zip(begin, kernel, strict=True)),
            plain=not any(begin + end),
            dense=all(d == 1 for d in gaps),
        )


def _padding(lengths: Sequence[int], steps: list[int], reach: list[int], window: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    auto = window.get("auto_pad", "NOTSET")
    if not auto.startswith("SAME"):
        pads = list(window.get("pads") or [0] * (2 * len(lengths)))
        return pads[: len(lengths)], pads[len(lengths) :]
    missing = [max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in zip(lengths, steps, reach, strict=True)]
    return _halves(missing, auto)


def _halves(lengths: list[int], auto: str) -> tuple[list[int], list[int]]:
    small, large = [n // 2 for n in lengths], [n - n // 2 for n in lengths]
    return (small, large) if auto == "SAME_UPPER" else (large, small)


def _overhang(lengths: Sequence[int], steps: list[int], reach: list[int], edges: Edges) -> Edges:
    """A window that would begin in the padding of the end is not counted."""
    found = []
    for n, s, r, (a, b) in zip(lengths, steps, reach, edges, strict=True):
        count = -(-(n + a + b - r) // s) + 1
        if (count - 1) * s >= n + a:
            count -= 1
        found.append((0, max((count - 1) * s + r - n - a - b, 0)))
    return found


def transposed(
    lengths: Sequence[int], window: Mapping[str, Any], more: Sequence[int], wanted: Sequence[int] | None
) -> tuple[Geometry, list[slice], Edges]:
    """A transposed convolution without padding: its geometry, what to keep of its output, and what to add where that is too short.

    `more`: output_padding; `wanted`: output_shape.
    """
    auto = window.get("auto_pad", "NOTSET")
    g = Geometry.of(lengths, {**window, "auto_pad": "NOTSET"})
    full = [s * (n - 1) + m + (k - 1) * d + 1 for n, s, m, k, d in zip(lengths, g.steps, more, g.kernel, g.gaps, strict=True)]
    if wanted is None and auto.startswith("SAME"):
        wanted = [n * s for n, s in zip(lengths, g.steps, strict=True)]
    begin, end = [a for a, _ in g.edges], [b for _, b in g.edges]
    if wanted is not None:
        begin, end = _halves([f - w for f, w in zip(full, wanted, strict=True)], auto)
    keep = [slice(max(a, 0), n - max(b, 0)) for a, b, n in zip(begin, end, full, strict=True)]
    return g, keep, [(max(-a, 0), max(-b, 0)) for a, b in zip(begin, end, strict=True)]


def limits(dtype: Any) -> tuple[Any, Any]:
    """The smallest and the largest number of an element type."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return (False, True) if dtype.kind == "b" else (-np.inf, np.inf)
