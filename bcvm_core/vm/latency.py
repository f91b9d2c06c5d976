"""Time of whole calls of regions (with choosing, binding and splicing), measured only while somebody looks.

While nobody does, `Region` is as it was written. Meanwhile its `__call__` is exchanged for one that is timed, and machine code in
the place of regions times itself (`tiers.clock`). Calls that took at least a listener's bound are handed to it, in batches.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from .. import config, locks
from ..codegen.stencils import notes
from ..tiers.clock import Timing, clock
from .region import Region
from .site import idle

_BATCH: Final = 4096
_plain_call: Final = Region.__call__
_now: Final = time.perf_counter_ns
_thread: Final = threading.get_ident


class Note(NamedTuple):
    """One call: when it began (time.perf_counter_ns), how long it took, of what, in which thread."""

    started_ns: int
    spent_ns: int
    region: Region
    thread: int


Listener = Callable[[list[Note]], None]


class Latency:
    """Who listens, and the calls noted for them. All methods may be called from any thread."""

    def __init__(self) -> None:
        self.bound = notes.NEVER
        self._listeners: tuple[tuple[Listener, int], ...] = ()
        self._noted: list[tuple[int, int, Region, int]] = []
        self._regions: weakref.WeakSet[Region] = weakref.WeakSet()
        self._lock = locks.lock()

    # -- on and off -------------------------------------------------------------------------------

    def start(self, listener: Listener, bound_ns: int) -> None:
        """Hand calls that take at least `bound_ns` to `listener` from now on; `notes.NEVER`: only count and time them."""
        self.deliver()  # what others have heard of is theirs
        with self._lock:
            was_on = bool(self._listeners)
            self._listeners = (*self._listeners, (listener, bound_ns))
            self._set_bound()
        if not was_on:
            setattr(Region, "__call__", _timed_call)  # noqa: B010 (a type checker is right that methods are not assigned)
            clock.start()

    def stop(self, listener: Listener) -> None:
        """Undo `start`, after handing over what was noted."""
        self.deliver()
        with self._lock:
            was_on = bool(self._listeners)
            self._listeners = tuple(pair for pair in self._listeners if pair[0] != listener)
            self._set_bound()
            off = was_on and not self._listeners
        if off:
            setattr(Region, "__call__", _plain_call)  # noqa: B010
            clock.stop()

    def _set_bound(self) -> None:
        self.bound = min((bound for _, bound in self._listeners), default=notes.NEVER)
        notes.set_bound(self.bound)

    # -- what was measured ------------------------------------------------------------------------

    def timing(self, region: Region) -> Timing:
        """What a region has spent while somebody looked, by Python and by machine code."""
        found = region.timing or Timing()
        timed = getattr(region.native, "timed", None)  # in MindSpore's place stands a Python function, which asks the region meanwhile
        return found if timed is None else found.plus(timed)

    def regions(self) -> list[Region]:
        """The regions that have run while somebody looked, and are still there."""
        with self._lock:
            found = list(self._regions)
        found += [native.region for native in list(notes.sites.values()) if native.timed[0]]
        return list({id(region): region for region in found}.values())

    def marks(self) -> weakref.WeakKeyDictionary[Region, tuple[int, int]]:
        """(calls, total_ns) of every region up to now: what to take off later."""
        found = ((region, self.timing(region)) for region in self.regions())
        return weakref.WeakKeyDictionary({region: (t.calls, t.total_ns) for region, t in found})

    def follow(self, region: Region) -> Timing:
        """Where the time of a region's calls is added up."""
        with self._lock:
            found = region.timing = region.timing or Timing()
            self._regions.add(region)
        return found

    def note(self, region: Region, started: int, spent: int) -> None:
        """A call that took at least the bound."""
        noted = self._noted
        noted.append((started, spent, region, _thread()))
        if len(noted) >= _BATCH or (region.native is not None and notes.fill() >= 1):
            self.deliver()

    def deliver(self) -> None:
        """Hand what was noted to the listeners."""
        with self._lock:
            noted, self._noted = self._noted, []
            found = [*map(Note._make, noted), *_of_machine_code()]
            listeners = self._listeners
        for listener, bound in listeners:
            listener([note for note in found if note.spent_ns >= bound])


def _of_machine_code() -> Iterator[Note]:
    for started, spent, record, thread in notes.take().tolist():
        native = notes.sites.get(record)
        if native is not None:
            yield Note(started, spent, native.region, thread)


def _timed_call(self: Region, *args: Any) -> Any:
    """`Region.__call__` while somebody looks, its usual path in the same frame; calls that Python does are not counted."""
    try:
        started = _now()
        plan = self.plans.get(tuple(map(type, args)))
        if plan is None or self.dead or idle() or config.current.force_tier is not None:
            result = _plain_call(self, *args)
        else:
            result = plan(args)
        if result is not None:
            spent = _now() - started
            timing = self.timing or latency.follow(self)
            timing.calls += 1  # `Timing.add` in its place: calling it would take as long as the rest
            timing.total_ns += spent
            if spent > timing.longest_ns:
                timing.longest_ns = spent
            if spent >= latency.bound:
                latency.note(self, started, spent)
        return result
    except RecursionError:
        return None  # as in the region itself


latency = Latency()
