"""Time spent in kernels, per call site, measured only while somebody looks.

While it is off nothing is measured and no call is touched: call sites hold the kernels themselves. Starting or stopping it bumps the
pool's version, so that every site chooses again at its next call and holds a kernel that is timed, or the kernel itself.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .. import config
from .demand import OnDemand


class Timing:
    """What one call site has spent since measuring began; threads may lose a count in a race."""

    __slots__ = ("calls", "last_ns", "total_ns")

    def __init__(self) -> None:
        self.calls = 0
        self.total_ns = 0
        self.last_ns = 0

    def add(self, spent_ns: int) -> None:
        """One more call."""
        self.calls += 1
        self.total_ns += spent_ns
        self.last_ns = spent_ns


class Clock(OnDemand):
    """Measures while somebody looks. What was measured can still be read afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self._timings: weakref.WeakKeyDictionary[Any, Timing] = weakref.WeakKeyDictionary()

    def _turn(self, on: bool) -> None:
        config.watched(on)
        super()._turn(on)

    def timing(self, site: Any) -> Timing | None:
        """What a call site has spent, or None when it has not run while the clock was on."""
        return self._timings.get(site)

    def marks(self) -> weakref.WeakKeyDictionary[Any, tuple[int, int]]:
        """(calls, total_ns) of every site up to now: what to take off later."""
        with self._lock:
            return weakref.WeakKeyDictionary({site: (t.calls, t.total_ns) for site, t in self._timings.items()})

    def timed(self, site: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
        """`fn`, whose calls are counted and measured for `site`."""
        with self._lock:
            timing = self._timings.setdefault(site, Timing())
        now = time.perf_counter_ns

        def call(*operands: Any, **attrs: Any) -> Any:
            started = now()
            result = fn(*operands, **attrs)
            timing.add(now() - started)
            return result

        return call

    def measure(self, site: Any, kernel: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """`kernel(*operands)`, measured for `site`; a kernel that gives None has not done the call."""
        started = time.perf_counter_ns()
        result = kernel(*operands)
        spent = time.perf_counter_ns() - started
        if result is not None:
            timing = self._timings.get(site)
            if timing is None:
                with self._lock:
                    timing = self._timings.setdefault(site, Timing())
            timing.add(spent)
        return result


clock = Clock()
