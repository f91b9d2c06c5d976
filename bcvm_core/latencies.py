"""How long dispatches and compiles took: each a dot in time, kept in bounded memory however many there are.

Cold dots are what the event bus carries: a kernel selected, spliced, recompiled, a function lowered, an execution handed back. Warm ones
are single calls that `tiers.clock` has measured: of each call site the latest at every look, and one that is slower than all before.
Counts are of all, means and the slowest of all but events in a flood; percentiles are those of a uniform sample.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from .events import bus
from .isa.signature import table as signatures
from .tiers.clock import clock

WAITING: Final = 2048  # events of a kind between two looks: the others of a flood are counted alone
UNTIMED: Final = 512  # the same, of events that have no duration
RECENT: Final = 120  # of each series: the latest dots,
HISTORY: Final = 120  # a uniform sample of all,
SPIKES: Final = 24  # and the slowest
SAMPLE: Final = 1024  # durations by which percentiles are worked out

KINDS: Final = {
    "Lowered": "lowered",
    "Bound": "bound",
    "Selected": "selected",
    "Spliced": "fused",
    "Recompiled": "recompiled",
    "HandedBack": "python",
    "FellBack": "python",
}
"""Event -> the kind of series that it belongs to."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What the work of a tier may take, in microseconds; None: not limited."""

    mean_us: float | None
    p99_us: float | None


BUDGETS: Final = {"selected": Budget(800.0, 2000.0), "fused": Budget(15_000.0, None), "recompiled": Budget(80_000.0, None)}
"""Of cold work: to select a kernel (tier 1), to splice one (tier 2), to recompile one (tier 3)."""


class Called(NamedTuple):
    """A call site in a program: where it stands and what it runs. `site` is what the clock measures, `duration_us` what one call took.

    `is_first`: one of the first since measuring began, which may have waited for a kernel.
    """

    site: Any
    where: str
    ops: tuple[str, ...]
    kind: str  # "selected" or "fused"
    shapes: str
    duration_us: float = 0.0
    is_first: bool = False


class Dot(NamedTuple):
    """One dispatch or compile. `us` None: it has no duration of its own. `what` is its event, or a `Called`. Numbers count a series."""

    at_ns: int
    number: int
    us: float | None
    what: Any


Entry = tuple[int, int, Any]  # a dot that nobody looks at yet: its number, its time, and what it is


class Words(NamedTuple):
    """A dot in words."""

    call: str
    shapes: str
    reason: str


class Reservoir:
    """A uniform sample of everything that was added: `size` items at most (Li's algorithm L: time is spent on items kept alone)."""

    __slots__ = ("_next", "_random", "_weight", "items", "seen", "size")

    def __init__(self, size: int, chance: random.Random) -> None:
        self.size = size
        self.items: list[Any] = []
        self.seen = 0
        self._random = chance
        self._weight = 1.0
        self._next = 0

    def extend(self, items: Sequence[Any]) -> None:
        """Add items."""
        start = self.size - len(self.items)
        if start > 0:
            self.items += items[:start]
            if len(self.items) == self.size:
                self._next = self.seen + start - 1
                self._skip()
        while self._next < self.seen + len(items) and len(self.items) == self.size:
            self.items[self._random.randrange(self.size)] = items[self._next - self.seen]
            self._skip()
        self.seen += len(items)

    def _skip(self) -> None:
        self._weight = min(self._weight * math.exp(math.log(1.0 - self._random.random()) / self.size), 1 - 1e-12)
        self._next += int(math.log(1.0 - self._random.random()) / math.log1p(-self._weight)) + 1


class Series:
    """All dots of one kind, cold or warm."""

    def __init__(self, kind: str, warm: bool, chance: random.Random) -> None:
        self.kind = kind
        self.warm = warm
        self.count = 0
        self.timed = 0
        self.total_us = 0.0
        self.worst_us = 0.0
        self._recent: deque[Entry] = deque(maxlen=RECENT)
        self._history = Reservoir(HISTORY, chance)
        self._durations = Reservoir(SAMPLE, chance)
        self._spikes: list[tuple[float, Entry]] = []

    def add(self, entries: Sequence[Entry], *, count: int, total_us: float | None = None) -> None:
        """More of them, all of one type, out of `count`; these took `total_us` where they are a sample."""
        self.count += count
        self._recent.extend(entries[-RECENT:])
        self._history.extend(entries)
        if not hasattr(entries[0][2], "duration_us"):
            return
        durations = [what.duration_us for _, _, what in entries]
        if not any(durations):  # events that have one by name
            return
        self.timed += len(durations) if total_us is None else count
        self.total_us += sum(durations) if total_us is None else total_us
        self.worst_us = max(self.worst_us, *durations)
        self._durations.extend(durations)
        self._keep_slow(durations, entries)

    def add_spike(self, entry: Entry) -> None:
        """The slowest of calls of which others are the sample."""
        self.worst_us = max(self.worst_us, entry[2].duration_us)
        self._keep_slow([entry[2].duration_us], [entry])

    def _keep_slow(self, durations: Sequence[float], entries: Sequence[Entry]) -> None:
        least = self._spikes[-1][0] if len(self._spikes) == SPIKES else 0.0
        slow = [(us, entry) for us, entry in zip(durations, entries, strict=True) if us > least]
        if slow:
            self._spikes = heapq.nlargest(SPIKES, [*self._spikes, *slow], key=lambda found: found[0])

    def dots(self) -> list[Dot]:
        """Those that are kept, by time."""
        kept = {entry[0]: entry for entry in (*self._history.items, *(entry for _, entry in self._spikes), *self._recent)}
        return sorted(Dot(at_ns, number, getattr(what, "duration_us", None) or None, what) for number, at_ns, what in kept.values())

    @property
    def mean_us(self) -> float | None:
        return self.total_us / self.timed if self.timed else None

    def percentile(self, share: float) -> float | None:
        """The duration that `share` of them don't exceed: nearest rank in the sample."""
        found = sorted(self._durations.items)
        return found[min(len(found) - 1, math.ceil(share * len(found)) - 1)] if found else None

    @property
    def budget(self) -> Budget | None:
        """That of cold work; a warm call holds the work of its kernel, for which there is none."""
        return None if self.warm else BUDGETS.get(self.kind)


class Latencies:
    """Keeps dots while it is open. `collect` is to be called now and then, from any one thread."""

    def __init__(self) -> None:
        self.started_ns = time.perf_counter_ns()
        self.lost = 0
        self._chance = random.Random(0)
        self._series: dict[tuple[str, bool], Series] = {}
        self._arrived: deque[Entry] = deque()
        self._heard = itertools.count()
        self._counts: dict[type, int] = {}
        self._counted: dict[type, int] = {}
        self._limits: dict[type, int] = {}
        self._calls = itertools.count()
        self._known: weakref.WeakKeyDictionary[Any, tuple[int, int, int]] = weakref.WeakKeyDictionary()
        self._unsubscribe: Callable[[], None] | None = None

    def open(self) -> None:
        """Begin to listen."""
        if self._unsubscribe is None:
            self._unsubscribe = bus.subscribe(self._listener())

    def _listener(self) -> Callable[[Any], None]:
        append, heard, now, counts, limits = self._arrived.append, self._heard.__next__, time.perf_counter_ns, self._counts, self._limits

        def listen(event: Any) -> None:
            kind = event.__class__
            count = counts[kind] = counts.get(kind, 0) + 1  # threads may lose a count in a race
            if count > (limits.get(kind) or limits.setdefault(kind, _room(kind))):
                return
            append((heard(), now(), event))

        return listen

    def close(self) -> None:
        """Stop listening; what was kept stays."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def collect(self, calls: Iterable[Called] = ()) -> bool:
        """Take in what has happened since the last time; returns whether anything has."""
        return bool(self._collect_events() | self._collect_calls(calls))

    def _collect_events(self) -> bool:
        arrived = self._arrived
        batch = [arrived.popleft() for _ in range(len(arrived))]
        if not batch:
            return False
        groups: defaultdict[type, list[Entry]] = defaultdict(list)
        for entry in batch:
            groups[type(entry[2])].append(entry)
        found = False
        for kind, entries in ((KINDS.get(t.__name__), entries) for t, entries in groups.items()):
            if kind is not None:
                event = type(entries[0][2])
                count = self._counts[event]
                more = count - self._counted.get(event, 0)
                self._counted[event], self._limits[event] = count, count + _room(event)
                self._series_of(kind, False).add(entries, count=more)
                self.lost += max(0, more - len(entries))
                found = True
        return found

    def _collect_calls(self, calls: Iterable[Called]) -> bool:
        found, now = False, time.perf_counter_ns()
        for called in calls:
            timing = clock.timing(called.site)
            if timing is None:
                continue
            before_calls, before_ns, longest_ns = self._known.get(called.site, (0, 0, 0))
            more, spent_ns = timing.calls - before_calls, timing.total_ns - before_ns
            if more > 0:
                self._known[called.site] = (timing.calls, timing.total_ns, timing.longest_ns)
                series, called = self._series_of(called.kind, True), called._replace(site=None, is_first=not before_calls)
                if timing.longest_ns > max(longest_ns, timing.last_ns):
                    series.add_spike((next(self._calls), now, called._replace(duration_us=timing.longest_ns / 1000)))
                entry = (next(self._calls), now, called._replace(duration_us=timing.last_ns / 1000))
                series.add([entry], count=more, total_us=spent_ns / 1000)
                found = True
        return found

    def _series_of(self, kind: str, warm: bool) -> Series:
        if (kind, warm) not in self._series:
            self._series[kind, warm] = Series(kind, warm, self._chance)
        return self._series[kind, warm]

    def series(self) -> list[Series]:
        """Those that have dots: cold before warm, in the order of `KINDS`."""
        order = list(dict.fromkeys(KINDS.values()))
        return sorted(self._series.values(), key=lambda s: (s.warm, order.index(s.kind)))


def _room(kind: type) -> int:
    """How many events of a kind are kept between two looks."""
    return WAITING if hasattr(kind, "duration_us") else UNTIMED


def words(what: Any) -> Words:
    """What an event, or a call, was: the call, the shapes of its operands, and why it went this way."""
    if isinstance(what, Called):
        reason = "one of the first calls since measuring began: it may have waited for a kernel" if what.is_first else "a warm call"
        return Words(f"{what.where}: {', '.join(what.ops)}", what.shapes, reason)
    match type(what).__name__:
        case "Selected":
            again = "; once more, since measuring began or the pool changed" if what.again else ""
            return Words(f"{what.op} by {what.kernel}", what.shapes or _types(what.signature), what.reason + again)
        case "Spliced":
            done = "prepared before any call" if what.prepared else "the first call of this pattern"
            return Words(", ".join(what.ops), what.shapes or what.operands, f"pattern {what.pattern} ({what.operands}): {done}")
        case "Recompiled":
            return Words(", ".join(what.ops), "", what.reason)
        case "Lowered":
            return Words(f"{what.name} lowered", "", f"{what.regions} regions; lowered before its first run")
        case "Bound":
            return Words(_place(what.region), what.shape_hint, "its kernels were chosen for these operand types")
        case "HandedBack":
            return Words(_place(what.region), "", f"left to Python: {what.reason}")
    ops = getattr(what, "ops", ())
    return Words(", ".join(ops) or type(what).__name__, "", getattr(what, "reason", ""))


def _place(region: str) -> str:
    """Where a region stands, as other dots say it: "f, line 3" of "<bcvm region f:3>"."""
    name, _, line = region.removeprefix("<bcvm region ").removesuffix(">").rpartition(":")
    return f"{name.strip('<>')}, line {line}"


def _types(signature: int) -> str:
    return str(signatures.row(signature)) if signature else ""
