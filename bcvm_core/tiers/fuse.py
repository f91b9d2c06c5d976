"""Tier 2: a segment of elementwise ops as one kernel, spliced for the pattern of its operands.

The *pattern* of a call is the element type and the way it repeats (as it lies, one element, along a
row, down a column, strided) of each operand, numbered in mixed radix. A kernel is spliced at a
pattern's first use and kept; a new shape of the same pattern is no new kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .. import config, dtypes
from ..codegen.stencils import kernel as kernels
from ..codegen.stencils.graph import LAYOUTS, FusedGraph, Input, NotFusable
from ..fusion.segments import Segment
from .graphs import graph_of, layout_of

if TYPE_CHECKING:
    from ..fusion import decisions
    from . import large

_ndarray: Final = np.ndarray
_TYPES: Final = tuple(row.name for row in dtypes.TABLE)
_RADIX: Final = len(_TYPES) * len(LAYOUTS)
_MAX_PATTERNS: Final = 32
_TIMED_CALLS: Final = 3
_RETRY_NS: Final = 50_000_000
_WAITING: Final = "compiled"  # in the refusals that pass: stencils are on their way


@dataclass(slots=True)
class Pattern:
    """What was decided for one pattern of operands."""

    number: int
    text: str
    kernel: kernels.FusedKernel | None
    reason: str  # why there is no kernel
    splice_us: float
    record: decisions.Record | None = None  # of calls that are not large
    large: large.LargeCalls | None = None  # decides those that are


class _Timed:
    """The entry of a kernel for its first calls, which are timed; then the entry itself takes its place."""

    __slots__ = ("entry", "measured", "leave")

    def __init__(self, entry: Callable[..., Any], measured: decisions.Measured, leave: Callable[[], None]) -> None:
        self.entry, self.measured, self.leave = entry, measured, leave

    def __call__(self, *values: Any) -> Any:
        if self.measured.calls >= _TIMED_CALLS:
            self.leave()
        started = time.perf_counter_ns()
        result = self.entry(*values)
        if result is not None:
            self.measured.note(time.perf_counter_ns() - started)
        return result


class FusedSite:
    """One segment at run time. Call it with the values of `segment.inputs`; None: run the ops one by one.

    Otherwise the value of the one output, or the tuple of several.
    """

    __slots__ = ("segment", "patterns", "entries", "calls", "joined", "retry_ns", "uniform", "mismatch", "__weakref__")

    def __init__(self, segment: Segment, *, uniform: bool = False) -> None:
        """`uniform`: fuse only operands that are all of one float type (under rules of promotion that are not NumPy's)."""
        self.segment = segment
        self.uniform = uniform
        self.joined = segment.is_joined
        self.patterns: dict[int, Pattern] = {}
        self.entries: dict[tuple[Any, ...], Callable[..., Any] | None] = {}
        self.calls = 0
        self.mismatch = ""  # of shapes whose outputs are of several sizes
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
            self.mismatch = self.mismatch or " vs ".join(str(list(v.shape)) for v in values)
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
        number, text = pattern_of(values)
        try:
            if self.uniform and (len(set(types)) != 1 or types[0].kind != "f"):
                raise NotFusable("operands of several element types under MindSpore's rules")
            kernel, reason = kernels.kernel_for(self.graph(values)), ""
        except NotFusable as error:
            kernel, reason = None, str(error)
        elapsed = (time.perf_counter_ns() - started) / 1000
        if len(self.patterns) >= _MAX_PATTERNS:
            self.patterns.clear()
            self.entries.clear()
        pattern = self.patterns[number] = Pattern(number, text, kernel, reason, elapsed)
        if kernel is None and _WAITING in reason:
            self.retry_ns = time.perf_counter_ns() + _RETRY_NS
            return None
        self.entries[types] = entry = None if kernel is None else self._decided(types, pattern, values)
        return entry

    def _decided(self, types: tuple[Any, ...], pattern: Pattern, values: Sequence[Any]) -> Callable[..., Any]:
        """The entry of a pattern's kernel, once it is settled which of its calls are looked at one by one."""
        from ..fusion import decisions
        from . import large  # the machine model comes with the first kernel

        kernel = pattern.kernel
        assert kernel is not None
        if type(kernel) is not kernels.FusedKernel:  # blocks of NumPy's own loops, of which the model knows nothing
            return kernel.entry
        pattern.large, figures = large.direct(kernel, self.segment)
        entry = kernel.entry
        if max(v.size for v in values) > kernel.limit:
            return entry
        decide = partial(large.small_call, self.segment, large.describe(values), figures, kernel.limit)
        pattern.record = decisions.keep(decide)

        def leave() -> None:
            self.entries[types] = entry

        return _Timed(entry, pattern.record.measured, leave)

    def entry_of(self, values: Sequence[Any]) -> Callable[..., Any] | None:
        """The entry that operands of these element types go to; None before their first call."""
        found = self.entries.get(tuple(v.dtype for v in values))
        return found.entry if type(found) is _Timed else found

    def graph(self, values: Sequence[Any]) -> FusedGraph:
        """The segment for operands like these. Raises NotFusable for element types without a name."""
        full = _full_shape(values)
        return graph_of(self.segment, [Input(_type_name(v), layout_of(v, full)) for v in values])


def _type_name(value: Any) -> str:
    name = dtypes.name_of(value.dtype)
    if name is None:
        raise NotFusable(f"no stencils for the type {value.dtype}")
    return name


def _full_shape(values: Sequence[Any]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(v.shape for v in values))
    except ValueError as error:
        raise NotFusable(f"shape mismatch: {' vs '.join(str(list(v.shape)) for v in values)}") from error


def pattern_of(values: Sequence[Any]) -> tuple[int, str]:
    """The number of a pattern and its text, "float32:contiguous, float32:row". Raises NotFusable."""
    full = _full_shape(values)
    number, texts = 0, []
    for value in values:
        name, layout = _type_name(value), layout_of(value, full)
        number = number * _RADIX + _TYPES.index(name) * len(LAYOUTS) + LAYOUTS.index(layout)
        texts.append(f"{name}:{layout}")
    return number, ", ".join(texts)


def explain(site: FusedSite) -> list[str]:
    """Per pattern met: its number, what it is, the kernel or the reason why there is none, and what was decided for its calls."""
    lines = [f"[REJECTED] shape mismatch: {site.mismatch}: outputs of several sizes"] if site.mismatch else []
    for pattern in list(site.patterns.values()):
        done = f"spliced in {pattern.splice_us:.0f} us" if pattern.kernel is not None else f"[REJECTED] {pattern.reason}"
        lines.append(f"pattern {pattern.number} ({pattern.text}): {done}")
        records = [*filter(None, [pattern.record]), *(pattern.large.records if pattern.large is not None else ())]
        lines += [f"  {line}" for record in records for line in record.lines()]
    return lines
