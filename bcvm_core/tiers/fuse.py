"""Tier 2: a segment of elementwise ops as one kernel, spliced for the pattern of its operands.

The *pattern* of a call is the element type and the way it repeats (as it lies, one element, along a
row, down a column, strided) of each operand, numbered in mixed radix. A kernel is spliced at a
pattern's first use and kept; a new shape of the same pattern is no new kernel.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .. import config, dtypes
from ..codegen.stencils import kernel as kernels
from ..codegen.stencils.graph import LAYOUTS, Const, FusedGraph, Input, Node, NotFusable
from ..events import Spliced, bus
from ..fusion.segments import Scalar, Segment
from .clock import clock
from .log import logger

_ndarray: Final = np.ndarray
_TYPES: Final = tuple(row.name for row in dtypes.TABLE)
_RADIX: Final = len(_TYPES) * len(LAYOUTS)
_MAX_PATTERNS: Final = 32
_RETRY_NS: Final = 50_000_000
_REPEATED: Final = ("scalar", "column")  # layouts whose elements stay the same along a row
_WAITING: Final = "compiled"  # in the refusals that pass: stencils are on their way


@dataclass(slots=True)
class Pattern:
    """What was decided for one pattern of operands."""

    number: int
    text: str
    kernel: kernels.FusedKernel | None
    reason: str  # why there is no kernel
    splice_us: float
    prepared: bool = False  # before anything of this pattern came


class FusedSite:
    """One segment at run time. Call it with the values of `segment.inputs`; None: run the ops one by one.

    Otherwise the value of the one output, or the tuple of several.
    """

    __slots__ = ("segment", "patterns", "entries", "calls", "joined", "retry_ns", "uniform", "refusal", "__weakref__")

    def __init__(self, segment: Segment, *, uniform: bool = False) -> None:
        """`uniform`: fuse only operands that are all of one float type (under rules of promotion that are not NumPy's)."""
        self.segment = segment
        self.uniform = uniform
        self.joined = segment.is_joined
        self.patterns: dict[int, Pattern] = {}
        self.entries: dict[tuple[Any, ...], Callable[..., Any] | None] = {}
        self.calls = 0
        self.refusal = ""  # why the latest call was not fused, where that is no matter of the pattern
        self.retry_ns = 0  # when stencils that were on their way are asked for again

    def __call__(self, *values: Any) -> Any:
        state = config.plain.value
        if state & config.OFF:
            return None
        key = []
        for value in values:
            if type(value) is not _ndarray or not value.ndim:
                return self._refuse("an operand without axes is promoted by its value, or is no plain array")
            key.append(value.dtype)
        if not self.joined and any(v.shape != values[0].shape for v in values):
            return self._refuse("outputs of different shapes")
        types = tuple(key)
        try:
            entry = self.entries[types]
        except KeyError:
            entry = self._prepare(types, values)
        if entry is None:
            return None
        result = entry(*values) if not state else clock.measure(self, entry, values)
        if result is not None:
            self.calls += 1
        return result

    def _refuse(self, reason: str) -> None:
        self.refusal = reason

    def _prepare(self, types: tuple[Any, ...], values: Sequence[Any]) -> Callable[..., Any] | None:
        """Splice a kernel for these element types, or note why not."""
        if time.perf_counter_ns() < self.retry_ns:
            return None
        try:
            pattern = self._splice(_inputs(values), types)
        except NotFusable as error:  # element types that are not numbered, or shapes that don't broadcast
            self._refuse(str(error))
            return None
        if pattern.kernel is None and _WAITING in pattern.reason:
            self.retry_ns = time.perf_counter_ns() + _RETRY_NS
            return None
        entry = None if pattern.kernel is None else pattern.kernel.entry
        self.entries[types] = entry
        return entry

    def prepare(self, dtype: Any) -> None:
        """Splice the kernel for operands of one element type that all lie as they are, before any comes."""
        name, types = dtypes.name_of(dtype), (dtype,) * len(self.segment.inputs)
        if name is None or types in self.entries:
            return
        pattern = self._splice(tuple(Input(name, "contiguous") for _ in types), types, prepared=True)
        if pattern.kernel is not None:
            self.entries.setdefault(types, pattern.kernel.entry)

    def _splice(self, inputs: tuple[Input, ...], types: tuple[Any, ...], *, prepared: bool = False) -> Pattern:
        started = time.perf_counter_ns()
        try:
            if self.uniform and (len(set(types)) != 1 or types[0].kind != "f"):
                raise NotFusable("operands of several element types under MindSpore's rules")
            kernel, reason = kernels.kernel_for(self._graph(inputs)), ""
        except NotFusable as error:
            kernel, reason = None, str(error)
        elapsed = (time.perf_counter_ns() - started) / 1000
        if len(self.patterns) >= _MAX_PATTERNS:
            self.patterns.clear()
            self.entries.clear()
        number, text = _numbered(inputs)
        found = self.patterns[number] = Pattern(number, text, kernel, reason, elapsed, prepared)
        if kernel is not None:
            self._announce(found)
        return found

    def _announce(self, pattern: Pattern) -> None:
        if bus.active:
            bus.emit(Spliced(self.segment.names, pattern.number, pattern.text, pattern.prepared, pattern.splice_us))
        logger.debug("[BCVM] Splice %s for pattern=%d, %s", "+".join(self.segment.names), pattern.number, pattern.text)

    def entry_of(self, values: Sequence[Any]) -> Callable[..., Any] | None:
        """The entry that operands of these element types go to; None before their first call."""
        return self.entries.get(tuple(v.dtype for v in values))

    def graph(self, values: Sequence[Any]) -> FusedGraph:
        """The segment for operands like these. Raises NotFusable for element types without a name."""
        return self._graph(_inputs(values))

    def _graph(self, inputs: tuple[Input, ...]) -> FusedGraph:
        number = {register: k for k, register in enumerate(self.segment.inputs)}
        nodes = []
        for op in self.segment.ops:
            operands = tuple(Const(p.value) if isinstance(p, Scalar) else number[p] for p in op.operands)
            nodes.append(Node(op.op, operands, op.attrs))
            number[op.dest] = len(inputs) + len(nodes) - 1
        return FusedGraph(inputs, tuple(nodes), tuple(number[r] for r in self.segment.outputs))


def _type_name(value: Any) -> str:
    name = dtypes.name_of(value.dtype)
    if name is None:
        raise NotFusable(f"no stencils for the type {value.dtype}")
    return name


def _full_shape(values: Sequence[Any]) -> tuple[int, ...]:
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


def _inputs(values: Sequence[Any]) -> tuple[Input, ...]:
    full = _full_shape(values)
    return tuple(Input(_type_name(v), layout_of(v, full)) for v in values)


def pattern_of(values: Sequence[Any]) -> tuple[int, str]:
    """The number of a pattern and its text, "float32:contiguous, float32:row". Raises NotFusable."""
    return _numbered(_inputs(values))


def _numbered(inputs: Sequence[Input]) -> tuple[int, str]:
    number = 0
    for x in inputs:
        number = number * _RADIX + _TYPES.index(x.dtype) * len(LAYOUTS) + LAYOUTS.index(x.layout)
    return number, ", ".join(f"{x.dtype}:{x.layout}" for x in inputs)


def explain(site: FusedSite) -> list[str]:
    """What became of a segment: its ops, then one line per pattern met: its number, what it is, and the kernel or why there is none."""
    lines = [f"{', '.join(site.segment.names)} as one kernel:"]
    for pattern in list(site.patterns.values()):
        if pattern.kernel is None:
            lines.append(f"  pattern {pattern.number} ({pattern.text}): [REJECTED] {pattern.reason}")
            continue
        done = "prepared" if pattern.prepared else "spliced at first use"
        lines.append(f"  pattern {pattern.number} ({pattern.text}): {done} in {pattern.splice_us:.0f} us")
        lines += [f"  pattern {number} ({text}): spliced at first use" for number, text in _learnt(pattern)]
    if site.refusal:
        lines.append(f"  [REJECTED] {site.refusal}")
    return lines if len(lines) > 1 else [f"{lines[0]} no call yet"]


def summary(sites: Sequence[FusedSite]) -> list[str]:
    """What became of many segments: how many run as kernels, and why others don't."""
    made = [site for site in sites if any(p.kernel is not None for p in list(site.patterns.values()))]
    lines = [f"{len(made)} fused kernels of {sum(len(s.segment.ops) for s in made)} ops"] if made else []
    reasons = Counter(reason for site in sites for reason in {site.refusal, *(p.reason for p in list(site.patterns.values()))} if reason)
    return [*lines, *(f"not fused ({count}): {reason}" for reason, count in reasons.most_common())]


def _learnt(pattern: Pattern) -> list[tuple[int, str]]:
    """Patterns of the same element types that a kernel has got code for since: other inputs repeat along the rows."""
    kernel = pattern.kernel
    if not isinstance(kernel, kernels.FusedKernel):
        return []
    inputs = kernel.graph.inputs
    own = sum(1 << k for k, x in enumerate(inputs) if x.layout in _REPEATED)
    return [
        _numbered([Input(x.dtype, "column" if mask >> k & 1 else "contiguous") for k, x in enumerate(inputs)])
        for mask in list(kernel.codes)
        if mask != own
    ]
