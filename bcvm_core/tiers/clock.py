"""Time spent in kernels, per call site, measured only while somebody looks.

While it is off nothing is measured and no call is touched: call sites hold the kernels themselves. Starting or stopping it bumps the
pool's version, so that every site chooses again at its next call and holds a kernel that is timed, or the kernel itself. Machine code
in the place of a region times itself meanwhile; its figures are added to those of the kernel that it runs.
A site's first calls are all measured. Of short ones that come later one stands for those behind it: reading the clock takes as long as a
small kernel. Machine code does so, too, where nobody wants to hear of each call.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from .. import config
from ..codegen.stencils.offsets import EACH, SKIPPED
from .demand import OnDemand

SHORT_NS: Final = 20_000  # measuring a call takes 500


class Timing:
    """What one call site has spent since measuring began; threads may lose a count in a race."""

    __slots__ = ("calls", "last_ns", "longest_ns", "rest", "total_ns", "_given")

    def __init__(self, calls: int = 0, total_ns: int = 0, last_ns: int = 0, longest_ns: int = 0) -> None:
        self.calls = calls
        self.total_ns = total_ns
        self.last_ns = last_ns
        self.longest_ns = longest_ns
        self.rest = 0  # calls not to measure before the next that is; whoever makes one takes it off
        self._given = 0  # `rest` when they were counted last

    def add(self, spent_ns: int) -> None:
        """One more call."""
        if self._given:
            self.settled()
        self.total_ns += spent_ns
        self.calls += 1
        if self.calls > EACH and spent_ns < SHORT_NS:
            self.rest = self._given = SKIPPED
        self.last_ns = spent_ns
        if spent_ns > self.longest_ns:
            self.longest_ns = spent_ns

    def settled(self) -> Timing:
        """Itself, with the calls that were not measured: they have taken what the latest one took that was."""
        rest = self.rest
        skipped, self._given = max(0, self._given - rest), rest if self._given else 0
        self.calls += skipped
        self.total_ns += skipped * self.last_ns
        return self

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
        if found is not None:
            found.settled()
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

    def timed(self, site: Any, fn: Callable[..., Any], *, operands: int | None = None, may_decline: bool = False) -> Callable[..., Any]:
        """`fn`, whose calls are counted and measured for `site`.

        `operands`: how many all calls have, where that is known. `may_decline`: a call that gives None has not been done.
        """
        with self._lock:
            timing = self._timings.setdefault(site, Timing())
        now, counts_none = time.perf_counter_ns, not may_decline

        def measured(*operands: Any, **attrs: Any) -> Any:
            started = now()
            result = fn(*operands, **attrs)
            if result is not None or counts_none:
                timing.add(now() - started)
            return result

        return _unless_resting(timing, fn, measured, operands)

    def measure(self, site: Any, kernel: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """`kernel(*operands)`, measured for `site`, a fused one; a kernel that gives None has not done the call."""
        timing: Timing | None = site.timing
        if timing is None:
            with self._lock:
                timing = site.timing = self._timings.setdefault(site, Timing())
        started = time.perf_counter_ns()
        result = kernel(*operands)
        if result is not None:
            timing.add(time.perf_counter_ns() - started)
        else:
            timing.rest = SKIPPED
        return result


def _unless_resting(timing: Timing, fn: Callable[..., Any], measured: Callable[..., Any], operands: int | None) -> Callable[..., Any]:
    """`measured`, and `fn` itself while the timing rests (threads may take one off too many). One or two operands are passed on quickly."""

    def one(x: Any, /, **attrs: Any) -> Any:
        if timing.rest > 0:
            timing.rest -= 1
            return fn(x, **attrs) if attrs else fn(x)
        return measured(x, **attrs)

    def two(x: Any, y: Any, /, **attrs: Any) -> Any:
        if timing.rest > 0:
            timing.rest -= 1
            return fn(x, y, **attrs) if attrs else fn(x, y)
        return measured(x, y, **attrs)

    def any_(*operands: Any, **attrs: Any) -> Any:
        if timing.rest > 0:
            timing.rest -= 1
            return fn(*operands, **attrs)
        return measured(*operands, **attrs)

    return one if operands == 1 else two if operands == 2 else any_


clock = Clock()
