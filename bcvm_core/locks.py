"""Locks that are free in a forked child.

A child has one thread, and copies of all locks as they were: one that another thread of the parent held would stay shut for ever. So every
lock of ours is made here, and opened again in a child before anything else of ours runs there. What a lock protects is changed in steps
of which each leaves it usable. Modules have such locks, too, while they are imported: a fork waits for what other threads import.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, TypeVar

T = TypeVar("T")

_PATIENCE_S: Final = 2.0  # with imports; one of them may wait for something that whoever forks holds
_LOOK_S: Final = 0.001
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


def once(make: Callable[[], T]) -> Callable[[], T]:
    """The function that gives what `make()` has made, once, whatever threads ask for it first at the same time.

    For what machine code knows by its address: `functools.cache` may make it twice and drop the one whose address was given away.
    """
    guard, made = rlock(), list[T]()

    @functools.wraps(make)
    def found() -> T:
        if not made:
            with guard:
                if not made:
                    made.append(make())
        return made[0]

    return found


def _imports() -> bool:
    """Whether some module is being imported."""
    specs = [getattr(module, "__dict__", {}).get("__spec__") for module in list(sys.modules.values())]
    return any(getattr(spec, "_initializing", False) for spec in specs)


def _is_own_import() -> bool:
    """Whether this thread is within an import, for which it would wait in vain."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _before_fork() -> None:
    if not _imports() or _is_own_import():
        return
    deadline = time.monotonic() + _PATIENCE_S
    while _imports() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _after_fork() -> None:
    for each in _all:
        each._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
