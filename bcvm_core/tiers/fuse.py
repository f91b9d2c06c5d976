"""Tier 2: a segment of elementwise ops as one kernel, spliced for the pattern of its operands (`graphs.py`).

A kernel is spliced at a pattern's first use, or before (`FusedSite.prepare`), and kept; a new shape
of the same pattern is no new kernel.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .. import config, dtypes
from ..cache.memory import AHEAD, FIRST, SITE, About, code_cache
from ..codegen import loops
from ..codegen.stencils import kernel as kernels
from ..codegen.stencils.graph import FusedGraph, Input, NotFusable
from ..devices import base
from ..events import FellBack, Spliced, bus
from ..fusion.segments import Segment
from . import keys
from .clock import Timing, clock
from .graphs import inputs_of, numbered, pattern_of, pattern_text, repeated, shapes_text
from .log import logger
from .pool import pool
from .recorded import recorded

if TYPE_CHECKING:
    from ..codegen.rows.chain import Chain
    from ..fusion import decisions
    from . import large
    from .parted import Parts

_ndarray: Final = np.ndarray
_MAX_PATTERNS: Final = 32
_TIMED_CALLS: Final = 3
RETRY_NS: Final = 50_000_000
TIMEOUT: Final = "compile_timeout"
WAITING: Final = "compiled"  # in the refusals that pass: stencils are on their way
LOOKED_AT: Final = config.WATCHED | config.RECORDED  # calls that take the longer way


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

    @property
    def records(self) -> list[decisions.Record]:
        """Of all decisions about its calls."""
        return [*filter(None, [self.record]), *(self.large.records if self.large is not None else ())]


class Use:
    """A site's use of a kernel: what a call runs, how often it did, and machine code in the region's place that runs it, too."""

    __slots__ = ("fn", "calls", "site", "types", "kernel", "native", "machine_calls", "key", "splice_us", "__weakref__")

    def __init__(self, fn: Callable[..., Any], site: FusedSite, types: tuple[Any, ...], kernel: Any, key: Any = None) -> None:
        """`key`: kernels of equal code have the same; None: it is not kept by the cache."""
        self.fn, self.types, self.kernel, self.key = fn, types, kernel, key
        self.site = weakref.ref(site)
        self.calls = self.machine_calls = 0
        self.splice_us = 0.0
        self.native: base.Direct | None = None

    def attach(self, native: base.Direct) -> None:
        """`native` runs this kernel from now on."""
        if native.owner is not self:
            if native.owner is not None:
                native.owner.detach()
            native.owner, native.base, self.native = self, native.hits, native

    def detach(self) -> None:
        """Another kernel, or none, runs there."""
        native, self.native = self.native, None
        if native is not None and native.owner is self:
            self.machine_calls += native.hits - native.base
            native.owner = None

    @property
    def where(self) -> tuple[str, str, int] | None:
        """(function or cell, file, line) of the site, where it is known."""
        site = self.site()
        return None if site is None else site.where

    @property
    def hot(self) -> bool:
        """Whether its kernel was hot, and better code runs some of its calls."""
        heat = self.kernel.heat if isinstance(self.kernel, kernels.FusedKernel) else None
        return heat is not None and heat.recompiled

    def total(self) -> int:
        """Calls up to now."""
        native = self.native
        return self.calls + self.machine_calls + (native.hits - native.base if native is not None else 0)

    def sizes(self) -> list[tuple[int, int]]:
        """(identity, bytes) of the code that it holds."""
        codes = self.kernel.codes
        return [(code.address, code.size) for code in list(codes.values() if type(codes) is dict else codes)]

    def drop(self) -> bool:
        """Let the site forget the kernel: its next call makes one again. False while machine code runs it."""
        if self.native is not None and self.native.owner is self and not self.native.drop():
            return False
        self.detach()
        site = self.site()
        if site is not None:
            site.forget(self)
        return True


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
        *(
            "segment",
            "nodes",
            "outputs",
            "patterns",
            "entries",
            "calls_before",
            "joined",
            "retry_ns",
            "uniform",
            "refusal",
            "where",
            "timing",
        ),
        *("waiting_ns", "fallbacks", "on_fallback", "parts"),
        "__weakref__",
    )

    def __init__(self, segment: Segment, *, uniform: bool = False) -> None:
        """`uniform`: fuse only operands that are all of one float type (under rules of promotion that are not NumPy's)."""
        self.segment = segment
        self.uniform = uniform
        self.joined = segment.is_joined
        self.nodes, self.outputs = numbered(segment)
        self.patterns: dict[int, Pattern] = {}
        self.entries: dict[tuple[Any, ...], Use | None] = {}
        self.calls_before = 0  # that no use counts: by kernels that are no longer there, and in ways of a subclass
        self.where: tuple[str, str, int] | None = None  # (function or cell, file, line)
        self.timing: Timing | None = None  # of calls by Python, once they are measured
        self.parts: Parts | bool | None = None  # what is independent of each other, by itself; False: it is one
        self.refusal = ""  # why a call was not fused, where that is no matter of the pattern
        self.retry_ns = 0  # when stencils that were on their way are asked for again
        self.waiting_ns = 0  # since when they are on their way
        self.fallbacks = 0  # calls that ran op by op though the compile had had all of its budget
        self.on_fallback: Callable[[str], None] | None = None  # is told the reason of each

    records: Sequence[decisions.Record] = ()  # of decisions that are no matter of a pattern

    @property
    def title(self) -> str:
        """What it is about, for people."""
        return f"{', '.join(self.segment.names)} as one kernel:"

    @property
    def pcs(self) -> tuple[int, ...]:
        """All instructions that a call does."""
        return self.segment.pcs

    @property
    def names(self) -> tuple[str, ...]:
        """Their ops."""
        return self.segment.names

    def __call__(self, *values: Any) -> Any:
        state = config.plain.value
        types = self._admitted(values, state)
        if types is None:
            return None
        if not self.joined and any(v.shape != values[0].shape for v in values):
            self._refuse(self.refusal or f"shape mismatch: {shapes_text(values)}: outputs of several sizes")
            return self._by_parts(values)
        try:
            use = self.entries[types]
        except KeyError:
            use = self._prepare(types, values)
        if use is None:
            return None
        if not state & LOOKED_AT:
            result = use.fn(*values)
        elif (timing := self.timing) is not None and timing.rest > 0 and not state & config.RECORDED:
            timing.rest -= 1
            result = use.fn(*values)
        else:
            result = self._looked_at(use.fn, values, types, state)
        if result is not None:
            use.calls += 1
        return result

    def _by_parts(self, values: Sequence[Any]) -> Any:
        """Independent ops each by themselves, whose sites count and time the calls; None where there are none."""
        parts = self.parts
        if parts is None:
            from .parted import Parts

            made = Parts(self.segment, self.uniform, self.where)
            parts = self.parts = made if len(made.sites) > 1 else False
        return None if parts is False or parts is True else parts(values)

    def _looked_at(self, fn: Callable[..., Any], values: Sequence[Any], types: tuple[Any, ...], state: int) -> Any:
        """`fn(*values)` while somebody measures calls, or writes down which there are."""
        result = clock.measure(self, fn, values) if state & config.WATCHED else fn(*values)
        if result is not None and state & config.RECORDED:
            use = self.entries.get(types)
            if use is not None and use.key is not None:
                recorded.tell(self, use, values)
        return result

    def _admitted(self, values: Sequence[Any], state: int) -> tuple[Any, ...] | None:
        """The element types of operands that may be fused while `config.plain` is `state`; None, and why not is noted."""
        if state & config.OFF:
            return None
        if state & config.EXCHANGED and not pool.exchanged.isdisjoint(self.segment.names):
            self._refuse("one of its ops has kernels or rules of your own")
            return None
        types = []
        for value in values:
            if type(value) is not _ndarray or not value.ndim:
                self._refuse("an operand without axes is promoted by its value, or is no plain array")
                return None
            types.append(value.dtype)
        return tuple(types)

    @property
    def calls(self) -> int:
        """Calls that a kernel did, those by machine code in the region's place not among them."""
        return self.calls_before + sum(use.calls for use in list(self.entries.values()) if use is not None)

    def forget(self, use: Use) -> None:
        """Its kernel was evicted."""
        if self.entries.get(use.types) is use:
            del self.entries[use.types]
            self.calls_before += use.calls
        self.patterns = {number: p for number, p in list(self.patterns.items()) if p.kernel is not use.kernel}

    def lend(self, values: Sequence[Any], native: base.Direct) -> None:
        """Machine code runs the kernel for such operands from now on."""
        use = self.entries.get(tuple(v.dtype for v in values))
        if use is not None:
            use.attach(native)

    def _refuse(self, reason: str) -> None:
        self.refusal = reason

    def _prepare(self, types: tuple[Any, ...], values: Sequence[Any]) -> Use | None:
        """Splice a kernel for these element types, or note why not."""
        started = time.perf_counter_ns()
        if started < self.retry_ns:
            self._fall_back(started)
            return None
        try:
            inputs = inputs_of(values)
        except NotFusable as error:  # element types that are not numbered, or shapes that don't broadcast: the ops say what there is to say
            self._refuse(str(error))
            return None
        pattern = self._splice(inputs, types, started, values)
        if pattern.kernel is None and WAITING in pattern.reason:
            self._wait(started)
            return None
        self.waiting_ns = 0
        reason = SITE if self.entries else FIRST
        self.entries[types] = use = None if pattern.kernel is None else self._decided(types, pattern, values)
        self._tell_cache(pattern, use, reason, values)
        return use

    def _wait(self, started_ns: int) -> None:
        """What a kernel is made of is being compiled: ask again after a while."""
        self.retry_ns = time.perf_counter_ns() + RETRY_NS
        loops.give_up_late()
        self._fall_back(started_ns)

    def _fall_back(self, now_ns: int) -> None:
        """Stencils are on their way, and the ops run one by one; after the compile's budget that is worth a record."""
        self.waiting_ns = self.waiting_ns or now_ns
        if now_ns - self.waiting_ns <= config.current.compile_budget_ms * 1e6:
            return
        self.fallbacks += 1
        if self.on_fallback is not None:
            self.on_fallback(TIMEOUT)
        if self.fallbacks == 1:
            if bus.active:
                bus.emit(FellBack(self.segment.names, TIMEOUT))
            logger.debug("[BCVM] Run %s op by op, fallback_reason=%s", "+".join(self.segment.names), TIMEOUT)

    def _tell_cache(self, pattern: Pattern, use: Use | None, reason: str, values: Sequence[Any] = ()) -> None:
        if use is None:
            code_cache.refused(pattern.reason)
        elif use.key is not None:
            use.splice_us = pattern.splice_us
            about = About("+".join(self.segment.names), pattern_text(pattern.inputs), keys.shapes_text(values) if values else "")
            code_cache.add(use.key, use, about, splice_us=pattern.splice_us, reason=reason)

    def _decided(self, types: tuple[Any, ...], pattern: Pattern, values: Sequence[Any]) -> Use:
        """The use of a pattern's kernel, once it is settled which of its calls are looked at one by one."""
        from ..fusion import decisions
        from . import hot, large  # the machine model comes with the first kernel

        kernel = pattern.kernel
        assert isinstance(kernel, kernels.FusedKernel)
        if type(kernel) is not kernels.FusedKernel:  # blocks of NumPy's own loops, of which the model knows nothing
            return Use(kernel.entry, self, types, kernel)
        pattern.large, figures = large.direct(kernel, self.segment)
        hot.watch(kernel, self.segment.names)
        kernel.learnt = partial(_tell_learnt, self.segment.names, pattern.inputs)
        entry, key = kernel.entry, (kernel.lowered.width, kernel.form)
        if not values or max(v.size for v in values) > kernel.limit:
            return Use(entry, self, types, kernel, key)
        decide = partial(large.small_call, self.segment, large.describe(values), figures, kernel.limit)
        pattern.record = decisions.keep(decide)

        def leave() -> None:
            use.fn = entry

        use = Use(entry, self, types, kernel, key)
        use.fn = _Timed(entry, pattern.record.measured, leave)
        return use

    def prepare(self, dtype: Any) -> None:
        """Splice the kernel for operands of one element type that all lie as they are, before any comes."""
        name, types = dtypes.name_of(dtype), (dtype,) * len(self.segment.inputs)
        if name is None or types in self.entries:
            return
        pattern = self._splice(tuple([Input(name, "contiguous") for _ in types]), types, time.perf_counter_ns(), prepared=True)
        if pattern.kernel is not None:
            made = self._decided(types, pattern, ())
            if self.entries.setdefault(types, made) is made:
                self._tell_cache(pattern, made, AHEAD)

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
            self.calls_before = self.calls
            self.patterns.clear()
            self.entries.clear()
        found = self.patterns[pattern_of(inputs)] = Pattern(inputs, kernel, reason, elapsed_us, prepared)
        if kernel is not None:
            self._announce(found, values)
        return found

    def _announce(self, pattern: Pattern, values: Sequence[Any]) -> None:
        if bus.active:
            names, text = self.segment.names, pattern_text(pattern.inputs)
            bus.emit(Spliced(names, pattern_of(pattern.inputs), text, pattern.prepared, pattern.splice_us, keys.shapes_text(values)))
        if logger.isEnabledFor(logging.DEBUG):
            number, text = pattern_of(pattern.inputs), pattern_text(pattern.inputs)
            logger.debug("[BCVM] Splice %s for pattern=%d, %s", "+".join(self.segment.names), number, text)

    @property
    def recompiled(self) -> bool:
        """Whether better code than the spliced one runs some of its calls."""
        return any(heat.recompiled for heat in map(_heat, list(self.patterns.values())) if heat is not None)

    def entry_of(self, values: Sequence[Any]) -> Callable[..., Any] | None:
        """The entry that operands of these element types go to; None before their first call."""
        use = self.entries.get(tuple(v.dtype for v in values))
        found = None if use is None else use.fn
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
        lines += [f"    {line}" for record in pattern.records for line in record.lines()]
        heat = _heat(pattern)
        lines += [f"    {line}" for line in heat.lines()] if heat is not None else []
    lines += [f"  {line}" for record in site.records for line in record.lines()]
    if site.fallbacks:
        budget = config.current.compile_budget_ms
        lines.append(f"  fallback_reason={TIMEOUT}: {site.fallbacks} calls ran op by op while a compile took longer than {budget:g} ms")
    if site.refusal:
        lines.append(f"  [REJECTED] {site.refusal}")
    for part in parts_of(site):
        lines += [f"  {line}" for line in explain(part)]
    return lines if len(lines) > 1 else [f"{lines[0]} no call yet"]


def parts_of(site: FusedSite) -> Sequence[FusedSite]:
    """The sites that run what is independent in a segment each by itself; none where it is one."""
    return () if isinstance(site.parts, bool) or site.parts is None else site.parts.sites


def _heat(pattern: Pattern) -> kernels.Heat | None:
    """What counts the runs of a pattern's kernel, where something does."""
    return pattern.kernel.heat if isinstance(pattern.kernel, kernels.FusedKernel) else None


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
    return [_repeating(pattern.inputs, mask) for mask in list(kernel.codes) if mask != own]


def _repeating(inputs: Sequence[Input], mask: int) -> list[Input]:
    """Inputs of these element types of which those of the mask repeat along the rows."""
    return [Input(name, "column" if mask >> k & 1 else "contiguous") for k, (name, _) in enumerate(inputs)]


def _tell_learnt(names: tuple[str, ...], inputs: Sequence[Input], mask: int, spent_us: float) -> None:
    """A call has made code for inputs that repeat in another way."""
    if bus.active:
        found = _repeating(inputs, mask)
        bus.emit(Spliced(names, pattern_of(found), pattern_text(found), False, spent_us))
