"""What is on only while somebody wants it, and is seen by every call site at its next call."""

from __future__ import annotations

from .. import locks
from .pool import pool


class OnDemand:
    """Counts who wants it; `on` while somebody does.

    Call sites hold the kernels themselves while it is off: turning it on or off bumps the pool's version, so that every site
    chooses again.
    """

    def __init__(self) -> None:
        self.on = False
        self._users = 0
        self._lock = locks.lock()

    def start(self) -> None:
        """Somebody wants it; it begins if nobody did before. Pair with `stop`."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._turn(True)

    def stop(self) -> None:
        """Undo one `start`."""
        with self._lock:
            self._users = max(0, self._users - 1)
            if not self._users and self.on:
                self._turn(False)

    def _turn(self, on: bool) -> None:
        self.on = on
        pool.choose_again()
