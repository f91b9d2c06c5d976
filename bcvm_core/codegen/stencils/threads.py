"""A few threads that take pieces of one large kernel call; the caller takes part and never waits for a late one.

Pieces are claimed one by one, so a thread whose core is busy elsewhere delays nothing but the piece it holds.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any


class _Call:
    """One call: its pieces, who claims them, and how many are done."""

    def __init__(self, run: Callable[[Any], None], pieces: Sequence[Any]) -> None:
        self.run, self.pieces = run, pieces
        self._claims = itertools.count()
        self._lock = threading.Lock()
        self._left = len(pieces)
        self.finished = threading.Event()
        self.error: BaseException | None = None

    def work(self) -> None:
        """Take pieces until there are no more."""
        while (k := next(self._claims)) < len(self.pieces):
            try:
                self.run(self.pieces[k])
            except BaseException as error:  # handed to the caller
                self.error = error
            with self._lock:
                self._left -= 1
                last = self._left == 0
            if last:
                self.finished.set()


class Workers:
    """Threads that are started when they are first needed and idle without a spin."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def run(self, function: Callable[[Any], None], pieces: Sequence[Any], threads: int) -> None:
        """`function(piece)` for every piece, by at most `threads` threads with this one. Raises what a piece raised."""
        helpers = min(threads, len(pieces)) - 1
        call = _Call(function, pieces)
        if helpers > 0:
            self._have(helpers)
            for _ in range(helpers):
                self._calls.put(call)
        call.work()
        call.finished.wait()
        if call.error is not None:
            raise call.error

    def _have(self, count: int) -> None:
        with self._lock:
            while len(self._threads) < count:
                thread = threading.Thread(target=self._serve, name="bcvm-kernels", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is shutting down, or there are no more threads
                    return
                self._threads.append(thread)

    def _serve(self) -> None:
        calls = self._calls
        while (call := calls.get()) is not None:
            call.work()
            del call  # while this thread waits it keeps nothing of it


workers = Workers()


def _after_fork() -> None:
    """The child has none of the threads."""
    global workers
    workers = Workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def cores() -> int:
    """Cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
