"""Locks that are free in a forked child.

A child has one thread, and copies of all locks as they were: one that another thread of the parent held would stay shut for ever. So every
lock of ours is made here, and opened again in a child before anything else of ours runs there. What a lock protects is changed in steps
of which each leaves it usable.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Final

_all: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def lock() -> threading.Lock:
    """A lock."""
    made = threading.Lock()
    _all.add(made)
    return made


def rlock() -> Any:
    """A lock that its holder may take again."""
    made = threading.RLock()
    _all.add(made)
    return made


def _after_fork() -> None:
    for each in _all:
        each._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
