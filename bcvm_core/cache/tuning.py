"""A recorded workload, replayed over settings of the code cache: the cache itself decides, with the times of the recording for a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .memory import CodeCache, Limits
from .sweeper import pause_of

TOLERANCE: Final = 1.05  # of the least splice time: settings within it are as good, and the smallest of them is recommended
SIZES: Final = (10, 25, 50, 100, 200, 400, 800, 1600)
TTLS_S: Final = (30.0, 300.0, 3600.0)
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a call needs: code of so many bytes, whose splicing took so long."""

    key: str
    code_bytes: int
    splice_us: float


@dataclass(frozen=True, slots=True)
class Call:
    """One call: seconds since the recording began, its kernel, its site, and the element types and shapes of its operands."""

    at_s: float
    kernel: Kernel
    site: int = 0
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What settings would have meant: calls that spliced (`again`: what had been there before), their time, and the most that was held."""

    limits: Limits
    calls: int
    spliced: int
    again: int
    splice_us: float
    peak_entries: int
    peak_bytes: int

    @property
    def hits(self) -> int:
        """Calls that found their code."""
        return self.calls - self.spliced


class _Replayed:
    """The use of a kernel in a replay."""

    __slots__ = ("calls", "held", "kernel", "__weakref__")

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.calls, self.held = kernel, 1, True

    where = None
    hot = False

    def total(self) -> int:
        return self.calls

    def sizes(self) -> Iterable[tuple[int, int]]:
        return ((id(self), self.kernel.code_bytes),)

    def drop(self) -> bool:
        self.held = False
        return True


def replay(calls: Iterable[Call], limits: Limits, pinned: Iterable[str] = ()) -> Outcome:
    """What the calls would have done under `limits`, with kernels `pinned` by their keys."""
    now = next_look = 0.0
    cache, pause = CodeCache(lambda: limits, lambda: now), pause_of(limits.ttl_s)
    for key in pinned:
        cache.keep(key)
    uses: dict[str, _Replayed] = {}
    count = spliced = again = peak_entries = peak_bytes = 0
    spent = 0.0
    for call in calls:
        while cache.held[0] and next_look <= call.at_s:  # as the timer does
            now, next_look = next_look, next_look + pause
            cache.look()
        count, now, kernel = count + 1, call.at_s, call.kernel
        use = uses.get(kernel.key)
        if use is not None and use.held:
            use.calls += 1
            continue
        again += use is not None
        uses[kernel.key] = use = _Replayed(kernel)
        if not cache.held[0]:
            next_look = now + pause
        cache.add(kernel.key, use, splice_us=kernel.splice_us)
        spliced, spent = spliced + 1, spent + kernel.splice_us
        entries, held = cache.held
        peak_entries, peak_bytes = max(peak_entries, entries), max(peak_bytes, held)
    return Outcome(limits, count, spliced, again, spent, peak_entries, peak_bytes)


def alternatives(calls: Sequence[Call], now: Limits) -> list[Limits]:
    """The settings to try: those in force, and sizes, times and memories around what the workload has."""
    kernels = {call.kernel.key: call.kernel for call in calls}
    everything = sum(kernel.code_bytes for kernel in kernels.values())
    sizes = [size for size in SIZES if size < len(kernels)] + [max(1, len(kernels))]
    memories = sorted({now.code_bytes, max(MIB // 4, everything // 2)})
    tried = [now, *(Limits(size, ttl, memory) for size in sizes for ttl in TTLS_S for memory in memories)]
    return list(dict.fromkeys(tried))


def tune(
    calls: Sequence[Call], now: Limits, progress: Callable[[Sequence[Limits]], Iterable[Limits]] = lambda tried: tried
) -> tuple[list[Outcome], Outcome]:
    """(outcomes of all alternatives, the recommended one): the least memory among those whose splicing takes hardly more than the least.

    `progress` wraps the list of alternatives.
    """
    outcomes = [replay(calls, limits) for limits in progress(alternatives(calls, now))]
    least = min(outcome.splice_us for outcome in outcomes)
    good = [outcome for outcome in outcomes if outcome.splice_us <= least * TOLERANCE]
    return outcomes, min(good, key=lambda o: (o.peak_bytes, o.limits.size, o.limits.ttl_s))
