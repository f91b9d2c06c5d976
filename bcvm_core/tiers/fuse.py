"""Tier 2: a segment of elementwise ops as one kernel, spliced for the pattern of its operands (`graphs.py`).

A kernel is spliced at a pattern's first use, or before (`FusedSite.prepare`), and kept; a new shape
of the same pattern is no new kernel.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .. import config, dtypes
from ..codegen.stencils import kernel as kernels
from ..codegen.stencils.graph import FusedGraph, Input, NotFusable
from ..events import Spliced, bus
from ..fusion.segments import Segment
from .clock import Timing, clock
from .graphs import inputs_of, numbered, pattern_of, pattern_text, repeated, shapes_text
from .log import logger
from .pool import pool

if TYPE_CHECKING:
    from ..codegen.rows.chain import Chain
    from ..fusion import decisions
    from . import large

_ndarray: Final = np.ndarray
_MAX_PATTERNS: Final = 32
_TIMED_CALLS: Final = 3
RETRY_NS: Final = 50_000_000
WAITING: Final = "compiled"  # in the refusals that pass: stencils are on their way


@dataclass(slots=True)
class Pattern:
    """What was decided for one pattern of operands."""

    inputs: tuple[Input, ...]
    kernel: kernels.FusedKernel | Chain | None
    reason: str  # why there is no kernel
    splice_us: float
    prepared: bool = False  # before anything of this pattern came
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

    __slots__ = (
        *("segment", "nodes", "outputs", "patterns", "entries", "calls", "joined", "retry_ns", "uniform", "refusal", "where", "timing"),
        "__weakref__",
    )

    def __init__(self, segment: Segment, *, uniform: bool = False) -> None:
        """`uniform`: fuse only operands that are all of one float type (under rules of promotion that are not NumPy's)."""
        self.segment = segment
        self.uniform = uniform
        self.joined = segment.is_joined
        self.nodes, self.outputs = numbered(segment)
        self.patterns: dict[int, Pattern] = {}
        self.entries: dict[tuple[Any, ...], Callable[..., Any] | None] = {}
        self.calls = 0
        self.where: tuple[str, str, int] | None = None  # (function or cell, file, line)
        self.timing: Timing | None = None  # of calls by Python, once they are measured
        self.refusal = ""  # why a call was not fused, where that is no matter of the pattern
        self.retry_ns = 0  # when stencils that were on their way are asked for again

    records: Sequence[decisions.Record] = ()  # of decisions that are no matter of a pattern

    @property
    def title(self) -> str:
        """What it is about, for people."""
        return f"{', '.join(self.segment.names)} as one kernel:"

    def __call__(self, *values: Any) -> Any:
        state = config.plain.value
        if state & config.OFF:
            return None
        if state & config.EXCHANGED and not pool.exchanged.isdisjoint(self.segment.names):
            return self._refuse("one of its ops has kernels or rules of your own")
        key = []
        for value in values:
            if type(value) is not _ndarray or not value.ndim:
                return self._refuse("an operand without axes is promoted by its value, or is no plain array")
            key.append(value.dtype)
        if not self.joined and any(v.shape != values[0].shape for v in values):
            return self._refuse(self.refusal or f"shape mismatch: {shapes_text(values)}: outputs of several sizes")
        types = tuple(key)
        try:
            entry = self.entries[types]
        except KeyError:
            entry = self._prepare(types, values)
        if entry is None:
            return None
        result = entry(*values) if not state & config.WATCHED else clock.measure(self, entry, values)
        if result is not None:
            self.calls += 1
        return result

    def _refuse(self, reason: str) -> None:
        self.refusal = reason

    def _prepare(self, types: tuple[Any, ...], values: Sequence[Any]) -> Callable[..., Any] | None:
        """Splice a kernel for these element types, or note why not."""
        started = time.perf_counter_ns()
        if started < self.retry_ns:
            return None
        try:
            inputs = inputs_of(values)
        except NotFusable as error:  # element types that are not numbered, or shapes that don't broadcast: the ops say what there is to say
            self._refuse(str(error))
            return None
        pattern = self._splice(inputs, types, started, values)
        if pattern.kernel is None and WAITING in pattern.reason:
            self.retry_ns = time.perf_counter_ns() + RETRY_NS
            return None
        self.entries[types] = entry = None if pattern.kernel is None else self._decided(types, pattern, values)
        return entry

    def _decided(self, types: tuple[Any, ...], pattern: Pattern, values: Sequence[Any]) -> Callable[..., Any]:
        """The entry of a pattern's kernel, once it is settled which of its calls are looked at one by one."""
        from ..fusion import decisions
        from . import large  # the machine model comes with the first kernel

        kernel = pattern.kernel
        assert isinstance(kernel, kernels.FusedKernel)
        if type(kernel) is not kernels.FusedKernel:  # blocks of NumPy's own loops, of which the model knows nothing
            return kernel.entry
        pattern.large, figures = large.direct(kernel, self.segment)
        entry = kernel.entry
        if not values or max(v.size for v in values) > kernel.limit:
            return entry
        decide = partial(large.small_call, self.segment, large.describe(values), figures, kernel.limit)
        pattern.record = decisions.keep(decide)

        def leave() -> None:
            self.entries[types] = entry

        return _Timed(entry, pattern.record.measured, leave)

    def prepare(self, dtype: Any) -> None:
        """Splice the kernel for operands of one element type that all lie as they are, before any comes."""
        name, types = dtypes.name_of(dtype), (dtype,) * len(self.segment.inputs)
        if name is None or types in self.entries:
            return
        pattern = self._splice(tuple([Input(name, "contiguous") for _ in types]), types, time.perf_counter_ns(), prepared=True)
        if pattern.kernel is not None:
            self.entries.setdefault(types, self._decided(types, pattern, ()))

    def _splice(
        self, inputs: tuple[Input, ...], types: tuple[Any, ...], started: int, values: Sequence[Any] = (), *, prepared: bool = False
    ) -> Pattern:
        try:
            if self.uniform and (len(set(types)) != 1 or types[0].kind != "f"):
                raise NotFusable("operands of several element types under MindSpore's rules")
            kernel, reason = kernels.kernel_for(FusedGraph(inputs, self.nodes, self.outputs)), ""
        except NotFusable as error:
            kernel, reason = None, str(error)
        elapsed_us = (time.perf_counter_ns() - started) / 1000
        if len(self.patterns) >= _MAX_PATTERNS:
            self.patterns.clear()
            self.entries.clear()
        found = self.patterns[pattern_of(inputs)] = Pattern(inputs, kernel, reason, elapsed_us, prepared)
        if kernel is not None:
            self._announce(found, values)
        return found

    def _announce(self, pattern: Pattern, values: Sequence[Any]) -> None:
        if bus.active:
            names, text = self.segment.names, pattern_text(pattern.inputs)
            shapes = ", ".join(str(list(value.shape)) for value in values)
            bus.emit(Spliced(names, pattern_of(pattern.inputs), text, pattern.prepared, pattern.splice_us, shapes))
        if logger.isEnabledFor(logging.DEBUG):
            number, text = pattern_of(pattern.inputs), pattern_text(pattern.inputs)
            logger.debug("[BCVM] Splice %s for pattern=%d, %s", "+".join(self.segment.names), number, text)

    def entry_of(self, values: Sequence[Any]) -> Callable[..., Any] | None:
        """The entry that operands of these element types go to; None before their first call."""
        found = self.entries.get(tuple(v.dtype for v in values))
        return found.entry if type(found) is _Timed else found


def explain(site: FusedSite) -> list[str]:
    """What became of a segment: its ops, then per pattern met its number, what it is, the kernel or why there is none, what was decided."""
    lines = [site.title]
    for pattern in list(site.patterns.values()):
        if pattern.kernel is None:
            lines.append(f"  {_named(pattern.inputs)}: [REJECTED] {pattern.reason}")
            continue
        done = "prepared" if pattern.prepared else "spliced at first use"
        lines.append(f"  {_named(pattern.inputs)}: {done} in {pattern.splice_us:.0f} us")
        lines += [f"  {_named(inputs)}: spliced at first use" for inputs in _learnt(pattern)]
        records = [*filter(None, [pattern.record]), *(pattern.large.records if pattern.large is not None else ())]
        lines += [f"    {line}" for record in records for line in record.lines()]
    lines += [f"  {line}" for record in site.records for line in record.lines()]
    if site.refusal:
        lines.append(f"  [REJECTED] {site.refusal}")
    return lines if len(lines) > 1 else [f"{lines[0]} no call yet"]


def summary(sites: Sequence[FusedSite]) -> list[str]:
    """What became of many segments: how many run as kernels, and why others don't."""
    made = [site for site in sites if any(p.kernel is not None for p in list(site.patterns.values()))]
    lines = [f"{len(made)} fused kernels of {sum(len(s.segment.ops) for s in made)} ops"] if made else []
    reasons = Counter(reason for site in sites for reason in {site.refusal, *(p.reason for p in list(site.patterns.values()))} if reason)
    return [*lines, *(f"not fused ({count}): {reason}" for reason, count in reasons.most_common())]


def _named(inputs: Sequence[Input]) -> str:
    return f"pattern {pattern_of(inputs)} ({pattern_text(inputs)})"


def _learnt(pattern: Pattern) -> list[list[Input]]:
    """Patterns of the same element types that a kernel has got code for since: other inputs repeat along the rows."""
    kernel, own = pattern.kernel, repeated(pattern.inputs)
    if not isinstance(kernel, kernels.FusedKernel):
        return []
    return [
        [Input(name, "column" if mask >> k & 1 else "contiguous") for k, (name, _) in enumerate(pattern.inputs)]
        for mask in list(kernel.codes)
        if mask != own
    ]
