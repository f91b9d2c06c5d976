"""The threads that share large kernel calls: Python's side of `crew_code.py`.

A call is one native function and the arguments of each part. One call at a time has the crew; others that come meanwhile run all their
parts in their own threads. Where parts come back late, because other programs hold the cores, short calls do without the crew for a
while: nothing but time depends on who runs a part.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from ... import locks
from ..loops import address
from . import crew_code as w
from . import threads
from .driver import driver

SHARED_NS: Final = 40_000  # calls that take longer alone are shared out by threads that are awake
WAKE_NS: Final = 200_000  # or wake the threads, which takes tens of microseconds, as many short calls in a row do
LARGE_NS: Final = 800_000  # and these do so also after others came back late
SIZE: Final = 8  # words in a row
RETURNED: Final = 6  # the word for what the function returned
_PATIENCE_NS: Final = 200_000  # how long a thread looks for work before it sleeps, which costs as much as a wake-up
_INTERRUPT_NS: Final = 100_000_000  # an interrupt waits no longer than this
_ROW_NS: Final = 1_000_000  # short calls are in a row when no more than this lies between them
_LATE_NS: Final = 100_000
_QUIET_NS: Final = (20_000_000, 2_000_000_000)  # for how long short calls stay alone: at first, and at most
_MEMBERS_MAX: Final = 256
_APART_MAX: Final = 4  # where there are more threads, and so more cores, the system finds one that is free
_CALL: Final = struct.Struct("<21q")


@dataclass(frozen=True, slots=True)
class Moved:
    """The words of a part that point into scratch memory: each thread has `step` bytes of its own, beginning where the words say."""

    first: int  # offset in bytes of the first word
    count: int
    step: int
    in_job: bool  # in the memory that the first argument points at, or among the arguments


NOTHING: Final = Moved(0, 0, 0, False)


def _block() -> int:
    """Memory that outlives the interpreter, whose threads look at it to the end."""
    memory = mmap.mmap(-1, w.W_MEMBER + w.MEMBER_SIZE * _MEMBERS_MAX)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    library = ctypes.CDLL(None)
    for offset, name in ((w.W_SYSCALL, "syscall"), (w.W_CLOCK, "clock_gettime")):
        _put(at + offset, ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
    words = {w.W_MEMBERS: 1, w.W_PATIENCE: _PATIENCE_NS, w.W_LATE: _LATE_NS}
    words |= {w.W_QUIET_NS: _QUIET_NS[0], w.W_QUIET_MIN: _QUIET_NS[0], w.W_QUIET_MAX: _QUIET_NS[1]}
    for offset, value in words.items():
        _put(at + offset, value)
    return at


def _put(at: int, value: int) -> None:
    ctypes.c_int64.from_address(at).value = value


def _get(at: int) -> int:
    return ctypes.c_int64.from_address(at).value


class Crew:
    """The threads, started when they are first needed, and the memory they share."""

    def __init__(self) -> None:
        self._lock = locks.lock()
        self._block = 0
        self._members = 1
        self._last = self._debt = 0
        self._run: Any = None
        self._threads: list[threading.Thread] = []
        self._beside = -1  # the core of whoever called last
        self.spared = 0  # how many other threads have work of ours to do meanwhile: a part that waits for their core would hold up all

    @property
    def members(self) -> int:
        """Threads that scratch memory must do for."""
        return max(self._members, threads.cores())

    @property
    def block(self) -> int:
        """The address of the memory; the threads are there."""
        if self._members < threads.cores():
            self._start()
        if 0 < len(self._threads) < _APART_MAX:
            self._keep_apart()
        return self._block

    def _keep_apart(self) -> None:
        """Keep the threads off the core of whoever calls: where both sleep in between the system may wake them on one and the same."""
        cpu = _cpu()()
        if cpu == self._beside or cpu < 0:
            return
        self._beside = cpu
        others = os.sched_getaffinity(0) - {cpu}
        for thread in self._threads if others else ():
            with contextlib.suppress(OSError):  # a thread that has ended, or a core that was taken away
                os.sched_setaffinity(thread.native_id or 0, others)

    def worth(self, ns: float) -> bool:
        """Whether a call that would take so long alone is better shared out now."""
        if ns < SHARED_NS or self.spared > 0 or threads.cores() == 1 or not driver().addresses:
            return False
        if ns >= LARGE_NS:
            return True
        now = time.perf_counter_ns()
        if self._block:
            if now < _get(self._block + w.W_QUIET):
                return False
            if _get(self._block + w.W_SLEEPERS) == 0:
                return True
        if ns >= WAKE_NS:
            return True
        self._debt = int(ns) + (self._debt if now - self._last < _ROW_NS else 0)
        self._last = now
        return self._debt >= 2 * WAKE_NS

    def spare(self, more: int) -> None:
        """One more (1) or less (-1) has work of ours to do beside the calls."""
        with self._lock:
            self.spared += more

    def run(self, function: int, rows: Any, moved: Moved = NOTHING, ns: float = 0.0, several: bool = True) -> None:
        """function(*row[:6]) for each row of an int64 table of `SIZE` columns, in any order, by all threads, or (not `several`) by the
        calling one; `row[RETURNED]` is what it returned. `ns`: about how long all of it takes one thread.

        An interrupt is raised when nothing runs any more, after a tenth of a second at most or the longest part.
        """
        words = (moved.count, moved.first, moved.in_job, moved.step)
        for start, count in _portions(len(rows), ns):
            call = _CALL.pack(function, address(rows), start, count, *words, *_ZEROS)
            if several:
                self._go(call)
            else:
                _alone()(call)

    def sweep(self, function: int, arguments: tuple[int, ...], moved: Moved, first: tuple[int, int, int], ns: float) -> None:
        """function(*arguments, first, last) over parts of a range.

        `arguments`: two of them. `first`: where the range begins, how much of it is a part, where it ends.
        """
        start, share, end = first
        base, words = (*arguments, start, start + share, 0, 0), (moved.count, moved.first, moved.in_job, moved.step)
        for part, count in _portions(-(-(end - start) // share), ns):
            self._go(_CALL.pack(function, 0, part, count, *words, end, *base, 0, 0, share, share, 0, 0))

    def _go(self, call: bytes) -> None:
        block = self.block
        if self._run is None:
            self._run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p)(driver().addresses["crew_run"])
        self._run(block, call)

    def _start(self) -> None:
        """As many threads as there are cores."""
        with self._lock:
            self._block = self._block or _block()
            while self._members < min(threads.cores(), _MEMBERS_MAX):
                serve = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(driver().addresses["crew_serve"])
                thread = threading.Thread(target=serve, args=(self._block, self._members), name="bcvm-kernels", daemon=True)
                _put(self._block + w.W_MEMBERS, self._members + 1)
                self._members += 1
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is shutting down, or there are no more threads
                    return
                self._threads.append(thread)
                self._beside = -1


_ZEROS: Final = (0,) * 13


@cache
def _cpu() -> Any:
    """What says on which core the calling thread runs."""
    found = getattr(ctypes.PyDLL(None), "sched_getcpu", None)
    return found if found is not None and hasattr(os, "sched_setaffinity") else lambda: -1


@cache
def _alone() -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(driver().addresses["crew_alone"])


def _portions(parts: int, ns: float) -> list[tuple[int, int]]:
    """(first part, how many): all at once, unless an interrupt would have to wait for too long."""
    if ns <= _INTERRUPT_NS:
        return [(0, parts)]
    step = max(1, int(parts * _INTERRUPT_NS / ns))
    return [(start, min(step, parts - start)) for start in range(0, parts, step)]


crew = Crew()


def _after_fork() -> None:
    """The child has none of the threads."""
    global crew
    crew = Crew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def apart(size: int) -> int:
    """Bytes from one thread's scratch memory of a size to the next one's."""
    return (size + 191) & -64


def table(count: int) -> Any:
    """Rows for so many parts."""
    return np.zeros((count, SIZE), np.int64)


def over(jobs: Any) -> Any:
    """Rows whose first arguments are the addresses of the rows of an array."""
    rows = table(len(jobs))
    rows[:, 0] = np.arange(len(jobs)) * jobs.strides[0] + address(jobs)
    return rows
