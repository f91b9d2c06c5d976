"""Time spent in kernels, per call site, measured only while somebody looks.

While it is off nothing is measured and no call is touched: call sites hold the kernels themselves. Starting or stopping it bumps the
pool's version, so that every site chooses again at its next call and holds a kernel that is timed, or the kernel itself.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from .. import config
from .pool import pool


class Timing:
    """What one call site has spent since measuring began; threads may lose a count in a race."""

    __slots__ = ("calls", "last_ns", "total_ns")

    def __init__(self) -> None:
        self.calls = 0
        self.total_ns = 0
        self.last_ns = 0


class Clock:
    """Counts who looks; `on` while somebody does."""

    def __init__(self) -> None:
        self.on = False
        self._users = 0
        self._lock = threading.Lock()
        self._timings: weakref.WeakKeyDictionary[Any, Timing] = weakref.WeakKeyDictionary()

    def start(self) -> None:
        """Somebody looks; measuring begins if nobody did before. Pair with `stop`."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self.on = True
                config.watched(True)
                pool.choose_again()

    def stop(self) -> None:
        """Undo one `start`. After the last one kernels run untouched again; what was measured can still be read."""
        with self._lock:
            self._users = max(0, self._users - 1)
            if not self._users and self.on:
                self.on = False
                config.watched(False)
                pool.choose_again()

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
            spent = now() - started
            timing.calls += 1
            timing.total_ns += spent
            timing.last_ns = spent
            return result

        return call


clock = Clock()
