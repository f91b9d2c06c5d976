"""Tier 2: a segment of elementwise ops as one kernel, spliced for the pattern of its operands.

The *pattern* of a call is the element type and the way it repeats (as it lies, one element, along a
row, down a column, strided) of each operand, numbered in mixed radix. A kernel is spliced at a
pattern's first use and kept; a new shape of the same pattern is no new kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .. import config, dtypes
from ..codegen.stencils import kernel as kernels
from ..codegen.stencils.graph import LAYOUTS, Const, FusedGraph, Input, Node, NotFusable
from ..fusion.segments import Scalar, Segment

_ndarray: Final = np.ndarray
_TYPES: Final = tuple(row.name for row in dtypes.TABLE)
_RADIX: Final = len(_TYPES) * len(LAYOUTS)
_DIGITS: Final = {(name, layout): k for k, (name, layout) in enumerate((n, x) for n in _TYPES for x in LAYOUTS)}
_MAX_PATTERNS: Final = 32
_RETRY_NS: Final = 50_000_000
_WAITING: Final = "compiled"  # in the refusals that pass: stencils are on their way


@dataclass(slots=True)
class Pattern:
    """What was decided for one pattern of operands."""

    number: int
    operands: int
    kernel: kernels.FusedKernel | None
    reason: str  # why there is no kernel
    splice_us: float

    @property
    def text(self) -> str:
        """The pattern in words, "float32:contiguous, float32:row"."""
        texts, rest = [], self.number
        for _ in range(self.operands):
            rest, digit = divmod(rest, _RADIX)
            name, layout = divmod(digit, len(LAYOUTS))
            texts.append(f"{_TYPES[name]}:{LAYOUTS[layout]}")
        return ", ".join(reversed(texts))


class FusedSite:
    """One segment at run time. Call it with the values of `segment.inputs`; None: run the ops one by one.

    Otherwise the value of the one output, or the tuple of several.
    """

    __slots__ = ("segment", "nodes", "outputs", "patterns", "entries", "calls", "joined", "retry_ns", "uniform", "__weakref__")

    def __init__(self, segment: Segment, *, uniform: bool = False) -> None:
        """`uniform`: fuse only operands that are all of one float type (under rules of promotion that are not NumPy's)."""
        self.segment = segment
        self.uniform = uniform
        self.joined = segment.is_joined
        self.nodes, self.outputs = _numbered(segment)
        self.patterns: dict[int, Pattern] = {}
        self.entries: dict[tuple[Any, ...], Callable[..., Any] | None] = {}
        self.calls = 0
        self.retry_ns = 0  # when stencils that were on their way are asked for again

    def __call__(self, *values: Any) -> Any:
        if config.plain.value:  # fusion is off, or every op is timed and so runs by itself
            return None
        key = []
        for value in values:
            if type(value) is not _ndarray or not value.ndim:  # 0-d arrays: NumPy 1.x promotes them by value
                return None
            key.append(value.dtype)
        if not self.joined and any(v.shape != values[0].shape for v in values):
            return None  # an output may be smaller than the others
        types = tuple(key)
        try:
            entry = self.entries[types]
        except KeyError:
            entry = self._prepare(types, values)
        if entry is None:
            return None
        result = entry(*values)
        if result is not None:
            self.calls += 1
        return result

    def _prepare(self, types: tuple[Any, ...], values: Sequence[Any]) -> Callable[..., Any] | None:
        """Splice a kernel for these element types, or note why not."""
        started = time.perf_counter_ns()
        if started < self.retry_ns:
            return None
        inputs = inputs_of(values)
        number = pattern_of(inputs)
        try:
            if self.uniform and (len(set(types)) != 1 or types[0].kind != "f"):
                raise NotFusable("operands of several element types under MindSpore's rules")
            kernel, reason = kernels.kernel_for(FusedGraph(inputs, self.nodes, self.outputs)), ""
        except NotFusable as error:
            kernel, reason = None, str(error)
        elapsed = (time.perf_counter_ns() - started) / 1000
        if len(self.patterns) >= _MAX_PATTERNS:
            self.patterns.clear()
            self.entries.clear()
        self.patterns[number] = Pattern(number, len(values), kernel, reason, elapsed)
        if kernel is None and _WAITING in reason:
            self.retry_ns = time.perf_counter_ns() + _RETRY_NS
            return None
        entry = None if kernel is None else kernel.entry
        self.entries[types] = entry
        return entry

    def entry_of(self, values: Sequence[Any]) -> Callable[..., Any] | None:
        """The entry that operands of these element types go to; None before their first call."""
        return self.entries.get(tuple(v.dtype for v in values))


def _numbered(segment: Segment) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    """The nodes and outputs of a segment's graph."""
    number = {register: k for k, register in enumerate(segment.inputs)}
    nodes = []
    for op in segment.ops:
        nodes.append(Node(op.op, tuple([Const(p.value) if type(p) is Scalar else number[p] for p in op.operands]), op.attrs))  # type: ignore[index]
        number[op.dest] = len(segment.inputs) + len(nodes) - 1
    return tuple(nodes), tuple([number[r] for r in segment.outputs])


def inputs_of(values: Sequence[Any]) -> tuple[Input, ...]:
    """The inputs of a graph for operands like these. Raises NotFusable for nameless types and shapes that do not broadcast."""
    full = _full_shape(values)
    return tuple([Input(_type_name(value), layout_of(value, full)) for value in values])


def _type_name(value: Any) -> str:
    name = dtypes.name_of(value.dtype)
    if name is None:
        raise NotFusable(f"no stencils for the type {value.dtype}")
    return name


def _full_shape(values: Sequence[Any]) -> tuple[int, ...]:
    shape: tuple[int, ...] = values[0].shape
    for value in values:
        if value.shape != shape:
            break
    else:
        return shape
    try:
        return np.broadcast_shapes(*(v.shape for v in values))
    except ValueError as error:
        raise NotFusable("the shapes do not broadcast") from error


def layout_of(value: Any, full: tuple[int, ...]) -> str:
    """How an operand repeats in the full shape."""
    if value.size == 1:
        return "scalar"
    if value.shape == full:
        return "contiguous" if value.flags.forc else "strided"
    if value.shape[-1] == full[-1] and value.flags.c_contiguous:
        return "row"
    return "column" if value.shape[-1] == 1 else "strided"


def pattern_of(inputs: Sequence[Input]) -> int:
    """The number of a pattern."""
    number = 0
    for name, layout in inputs:
        number = number * _RADIX + _DIGITS[name, layout]
    return number


def explain(site: FusedSite) -> list[str]:
    """One line per pattern met: its number, what it is, and the kernel or the reason why there is none."""
    lines = []
    for pattern in site.patterns.values():
        done = f"spliced in {pattern.splice_us:.0f} us" if pattern.kernel is not None else f"[REJECTED] {pattern.reason}"
        lines.append(f"pattern {pattern.number} ({pattern.text}): {done}")
    return lines
