"""The thread that sends while a view is open: at most so often a second, merged, and nothing that has not changed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger("bcvm")
LONGEST_PAUSE_S = 0.25  # the first look at a cell, for which its Program is made, takes longer than all others
IDLE_S = 1.0  # how often to look when no cell runs: threads of the user's may


class Pump:
    """Calls `tick` in a thread of its own while it is started: at most every `interval_s`, at once after `wake`.

    `tick` returns whether something goes on; else the next call comes after `idle_s`, or `wake`. One that takes long is called less
    often, so that it takes a fiftieth of the time, and more only where it takes more than 5 ms.
    """

    def __init__(self, tick: Callable[[], bool], *, interval_s: float, idle_s: float = IDLE_S) -> None:
        self._tick = tick
        self.interval_s = interval_s
        self.idle_s = idle_s
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread; twice is once."""
        if self._thread is None:
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._stop,), name="bcvm-dashboard", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread after the call it is in."""
        if self._thread is not None:
            self._stop.set()
            self._wake.set()
            self._thread = None

    def wake(self) -> None:
        """Something may have changed: look as soon as the interval allows."""
        self._wake.set()

    def _run(self, stop: threading.Event) -> None:
        busy = False
        while not stop.is_set():
            self._wake.clear()
            started_ns = time.thread_time_ns()  # of this thread: waiting for the cell to let go of the interpreter takes nothing from it
            try:
                busy = self._tick()
            except Exception:  # a view must never disturb what it shows
                _log.debug("a tick of the dashboard failed", exc_info=True)
            pause = max(self.interval_s, min(50e-9 * (time.thread_time_ns() - started_ns), LONGEST_PAUSE_S))
            if not stop.wait(pause) and not busy:
                self._wake.wait(max(0.0, self.idle_s - pause))
