"""Who is told of each call of a kernel that the code cache keeps. While somebody is, every region goes through Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .. import config, locks

Listener = Callable[[Any, Any, Sequence[Any]], None]
"""Called with the site, its use of a kernel and the operands, in the thread of the call."""


class Recorded:
    """The listeners. While there are none a call costs nothing more."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._lock = locks.lock()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Add `listener`; the returned function removes it, and may be called twice."""
        with self._lock:
            self._set((*self._listeners, listener))
        return lambda: self._remove(listener)

    def _remove(self, listener: Listener) -> None:
        with self._lock:
            self._set(tuple(x for x in self._listeners if x is not listener))

    def _set(self, listeners: tuple[Listener, ...]) -> None:
        self._listeners = listeners
        config.recorded(bool(listeners))

    @property
    def on(self) -> bool:
        """Whether anybody is told."""
        return bool(self._listeners)

    def tell(self, site: Any, use: Any, values: Sequence[Any]) -> None:
        """One call."""
        for listener in self._listeners:
            listener(site, use, values)


recorded: Final = Recorded()
