"""A thread that looks now and then, while there is something to look after, and is not there otherwise.

It is started by whoever brings something (`wanted`), ends by itself, and is stopped before the interpreter shuts down. A forked child
gets one of its own where its copy has something to look after.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

from .. import locks

LOOKS: Final = 8  # within the time to live
_SHORTEST_S: Final = 0.02  # between two looks
_LONGEST_S: Final = 30.0  # settings may change meanwhile
_PATIENCE_S: Final = 2.0  # at exit, with a look that waits for something
_all: Final[weakref.WeakSet[Sweeper]] = weakref.WeakSet()
_closed: Final = threading.Event()  # the interpreter is about to shut down


def pause_of(ttl_s: float) -> float:
    """Seconds between two looks at what may go after `ttl_s`."""
    return min(_LONGEST_S, max(_SHORTEST_S, ttl_s / LOOKS))


class Sweeper:
    """Calls `look()` every `pause_s()` seconds while `needed()`. Thread-safe; `needed` and `pause_s` may take no lock."""

    def __init__(self, look: Callable[[], object], needed: Callable[[], bool], pause_s: Callable[[], float]) -> None:
        self._look, self._needed, self._pause_s = look, needed, pause_s
        self._lock = locks.rlock()  # garbage that is collected meanwhile may come back here
        self._stopped = threading.Event()  # of the present thread
        self.thread: threading.Thread | None = None
        _all.add(self)

    def wanted(self) -> None:
        """Something has come: from now on somebody looks after it. Called after it is there, so that a thread about to end sees it."""
        with self._lock:
            if self.thread is not None or _closed.is_set() or not self._needed():
                return
            self._stopped = threading.Event()
            self.thread = threading.Thread(target=self._run, args=(self._stopped,), name="bcvm-cache", daemon=True)
            try:
                self.thread.start()
            except RuntimeError:  # there are no more threads: whoever comes next tries again
                self.thread = None

    def stop(self, patience_s: float = _PATIENCE_S) -> None:
        """End the thread; one that is at a look may take so long to finish it."""
        with self._lock:
            thread, self.thread = self.thread, None
            self._stopped.set()
        if thread is not None:
            thread.join(patience_s)

    def begin_anew(self) -> None:
        """In a forked child, which has none of the threads."""
        self.thread = None
        self.wanted()

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.wait(self._pause_s()):
            try:
                self._look()
            except Exception:  # of ours: what is kept stays until the next look
                logging.getLogger("bcvm").debug("[BCVM] A look at the code cache failed", exc_info=True)
            with self._lock:
                if not stopped.is_set() and not self._needed():
                    self.thread = None
                    return


def _close() -> None:
    """No thread of ours is within machine code or a destructor when the interpreter goes."""
    _closed.set()
    for sweeper in list(_all):
        sweeper.stop()


def _after_fork() -> None:
    for sweeper in list(_all):
        sweeper.begin_anew()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
