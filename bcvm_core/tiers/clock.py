"""Time spent in kernels, per call site, measured only while somebody looks.

While it is off nothing is measured and no call is touched: call sites hold the kernels themselves. Starting or stopping it bumps the
pool's version, so that every site chooses again at its next call and holds a kernel that is timed, or the kernel itself. Machine code
in the place of a region times itself meanwhile; its figures are added to those of the kernel that it runs.
A site's first calls are all measured, then each eighth stands for eight: reading the clock takes as long as a small kernel.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from .. import config
from .demand import OnDemand

EACH: Final = 64  # calls of a site that are all measured
SKIPPED: Final = 7  # of eight that come later


class Timing:
    """What one call site has spent since measuring began; threads may lose a count in a race."""

    __slots__ = ("calls", "last_ns", "longest_ns", "total_ns")

    def __init__(self, calls: int = 0, total_ns: int = 0, last_ns: int = 0, longest_ns: int = 0) -> None:
        self.calls = calls
        self.total_ns = total_ns
        self.last_ns = last_ns
        self.longest_ns = longest_ns

    def add(self, spent_ns: int) -> None:
        """One more call; after the first `EACH` it stands for those that were not measured, too."""
        self.total_ns += spent_ns if self.calls < EACH else spent_ns * (SKIPPED + 1)
        self.calls += 1
        self.last_ns = spent_ns
        if spent_ns > self.longest_ns:
            self.longest_ns = spent_ns

    def plus(self, timed: tuple[int, int, int, int]) -> Timing:
        """Together with what machine code has timed: (calls, total, latest, longest)."""
        calls, total, last, longest = timed
        return Timing(self.calls + calls, self.total_ns + total, last if calls else self.last_ns, max(self.longest_ns, longest))


class Clock(OnDemand):
    """Measures while somebody looks. What was measured can still be read afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self._timings: weakref.WeakKeyDictionary[Any, Timing] = weakref.WeakKeyDictionary()
        self._natives: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()

    def follow(self, site: Any, native: Any) -> None:
        """Machine code runs the site's kernel and times itself: `native.timed` has the figures."""
        with self._lock:
            self._natives[site] = weakref.ref(native)

    def _turn(self, on: bool) -> None:
        config.watched(on)
        super()._turn(on)

    def timing(self, site: Any) -> Timing | None:
        """What a call site has spent, or None when it has not run while the clock was on."""
        found, native = self._timings.get(site), self._natives.get(site)
        machine = None if native is None else native()
        if machine is None or not machine.timed[0]:
            return found
        return (found or Timing()).plus(machine.timed)

    def sites(self) -> list[Any]:
        """The call sites that have run while the clock was on, and are still there."""
        with self._lock:
            return list({id(site): site for site in (*self._timings, *self._natives)}.values())

    def marks(self) -> weakref.WeakKeyDictionary[Any, tuple[int, int]]:
        """(calls, total_ns) of every site up to now: what to take off later."""
        found = ((site, self.timing(site)) for site in self.sites())
        return weakref.WeakKeyDictionary({site: (t.calls, t.total_ns) for site, t in found if t is not None})

    def timed(self, site: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
        """`fn`, whose calls are counted and measured for `site`."""
        with self._lock:
            timing = self._timings.setdefault(site, Timing())
        now = time.perf_counter_ns

        def call(*operands: Any, **attrs: Any) -> Any:
            if timing.calls & SKIPPED and timing.calls > EACH:
                result = fn(*operands, **attrs)
                timing.calls += 1
                return result
            started = now()
            result = fn(*operands, **attrs)
            timing.add(now() - started)
            return result

        return call

    def measure(self, site: Any, kernel: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """`kernel(*operands)`, measured for `site`, a fused one; a kernel that gives None has not done the call."""
        timing: Timing | None = site.timing
        if timing is None:
            with self._lock:
                timing = site.timing = self._timings.setdefault(site, Timing())
        if timing.calls & SKIPPED and timing.calls > EACH:
            result = kernel(*operands)
            timing.calls += result is not None
            return result
        started = time.perf_counter_ns()
        result = kernel(*operands)
        if result is not None:
            timing.add(time.perf_counter_ns() - started)
        return result


clock = Clock()
