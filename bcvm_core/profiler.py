"""`with bcvm.profile() as p:` what ran in the block, at which tier and place, how long it took, and what was compiled for it.

Each figure has one source: calls and times are those of `tiers.clock` and `vm.latency`, compile times those of the events on the bus.
Nothing here runs, and no call is touched, outside such a block.
"""

from __future__ import annotations

import html
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Final

from .events import Bound, HandedBack, Lowered, Recompiled, Selected, Spliced, bus
from .tiers.clock import clock
from .tiers.pool import pool
from .tiers.select import CallSite, Place
from .vm.latency import Note, latency

MAX_CALLS: Final = 500_000  # single calls kept for a trace
_ROWS: Final = 30  # of a table
_COUNTERS: Final[dict[type, str]] = {
    Selected: "bcvm_kernel_select_time",
    Spliced: "bcvm_fusion_compile_time",
    Recompiled: "bcvm_recompile_time",
    Lowered: "bcvm_lowering_time",
    Bound: "bcvm_binding_time",
}
COUNTERS: Final = tuple(_COUNTERS.values())


@dataclass(frozen=True, slots=True)
class Row:
    """One call site: what it runs, by which kernels of which tier, its calls in the block. `longest_us`: since measuring began."""

    where: str
    op: str
    kernel: str
    tier: int
    calls: int
    total_us: float
    longest_us: float

    @property
    def mean_us(self) -> float:
        """Per call."""
        return self.total_us / self.calls


@dataclass(slots=True)
class Compiled:
    """What was spent in one kind of compile work."""

    count: int = 0
    total_us: float = 0.0


@dataclass(frozen=True, slots=True)
class _Work:
    """One piece of compile work, for the trace."""

    started_ns: int
    spent_us: float
    kind: str
    name: str
    thread: int


@dataclass(slots=True)
class _Measured:
    """The figures of a block, up to some moment."""

    wall_us: float = 0.0
    rows: list[Row] = field(default_factory=list)
    regions: list[Row] = field(default_factory=list)


class Profile:
    """A block that is measured; what `profile()` gives. It can be read within the block, and after it as long as one likes."""

    def __init__(self, max_calls: int = MAX_CALLS) -> None:
        """`max_calls`: single calls that are kept for `chrome_trace`, 0: none, only their sums."""
        self.max_calls = max_calls
        self.counters = {name: Compiled() for name in COUNTERS}
        self.again = Compiled()  # choosing kernels once more, because measuring began
        self.handed_back: Counter[str] = Counter()
        self.lost_calls = 0
        self._work: list[_Work] = []
        self._calls: list[Note] = []
        self._names: dict[Any, str] = {}
        self._unsubscribe: Callable[[], None] | None = None
        self._done: _Measured | None = None

    # -- the block --------------------------------------------------------------------------------

    def __enter__(self) -> Profile:
        """Begin. Raises RuntimeError for a block that was entered before."""
        if self._unsubscribe is not None or self._done is not None:
            raise RuntimeError("a profile is of one block: make another one with bcvm.profile()")
        self._unsubscribe = bus.subscribe(self._listen)
        latency.start(self._note, 0 if self.max_calls else 1 << 62)
        self._site_marks, self._region_marks = clock.marks(), latency.marks()
        self._started_ns = time.perf_counter_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        latency.deliver()
        self._done = self._measure()
        latency.stop(self._note)
        if self._unsubscribe is not None:
            self._unsubscribe()

    def _note(self, calls: list[Note]) -> None:
        room = self.max_calls - len(self._calls)
        self._calls += calls[:room]
        self.lost_calls += max(0, len(calls) - room)

    def _listen(self, event: Any) -> None:
        if isinstance(event, HandedBack):
            self.handed_back[event.reason] += 1
            return
        name = _COUNTERS.get(type(event))
        if name is None:
            return
        counter = self.again if isinstance(event, Selected) and event.again else self.counters[name]
        counter.count += 1
        counter.total_us += event.duration_us
        if len(self._work) < MAX_CALLS:
            started = time.perf_counter_ns() - int(event.duration_us * 1000)
            self._work.append(_Work(started, event.duration_us, name, _title(event), threading.get_ident()))

    # -- figures ----------------------------------------------------------------------------------

    def _measured(self) -> _Measured:
        if self._done is not None:
            return self._done
        return self._measure() if self._unsubscribe is not None else _Measured()

    def _measure(self) -> _Measured:
        wall = (time.perf_counter_ns() - self._started_ns) / 1000
        return _Measured(wall, sorted(self._site_rows(), key=_by_time), sorted(self._region_rows(), key=_by_time))

    def _site_rows(self) -> Iterator[Row]:
        for site in clock.sites():
            timing, (calls, total) = clock.timing(site), self._site_marks.get(site, (0, 0))
            if timing is not None and timing.calls > calls:
                op, kernel, tier = _what(site)
                times = (timing.total_ns - total) / 1000, timing.longest_ns / 1000
                yield Row(place_text(site.where), op, kernel, tier, timing.calls - calls, *times)

    def _region_rows(self) -> Iterator[Row]:
        for region in latency.regions():
            timing, (calls, total) = latency.timing(region), self._region_marks.get(region, (0, 0))
            if timing.calls > calls:
                times = (timing.total_ns - total) / 1000, timing.longest_ns / 1000
                ops = "+".join(region.code.ops)
                yield Row(place_of(region), ops, "machine code" if region.native else "", 0, timing.calls - calls, *times)

    @property
    def rows(self) -> list[Row]:
        """The call sites of ops and of fused kernels, the one that took longest first."""
        return self._measured().rows

    @property
    def regions(self) -> list[Row]:
        """The regions, with all that calling them took: choosing, binding, splicing, kernels. Their tier is 0: ops have tiers."""
        return self._measured().regions

    def tiers(self) -> dict[int, Compiled]:
        """Calls, and the time in kernels, per tier."""
        out = {tier: Compiled() for tier in (1, 2, 3)}
        for row in self.rows:
            out[row.tier].count += row.calls
            out[row.tier].total_us += row.total_us
        return out

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data. Times are in microseconds."""
        return {
            "wall_us": self._measured().wall_us,
            **{name: counter.total_us for name, counter in self.counters.items()},
            "counts": {name: counter.count for name, counter in self.counters.items()},
            "chosen_again": asdict(self.again),
            "tiers": {tier: {"calls": found.count, "total_us": found.total_us} for tier, found in self.tiers().items()},
            "handed_back": dict(self.handed_back),
            "sites": [asdict(row) | {"mean_us": row.mean_us} for row in self.rows],
            "regions": [asdict(row) | {"mean_us": row.mean_us} for row in self.regions],
            "lost_calls": self.lost_calls,
        }

    def chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write what happened when, in the format of chrome://tracing and Perfetto. Raises OSError."""
        from .tracing import write

        latency.deliver()
        write(path, self)

    # -- showing ----------------------------------------------------------------------------------

    def table(self) -> str:
        """A text table: compile work, tiers, then the call sites that took longest."""
        lines = [f"{self._measured().wall_us / 1000:.2f} ms, of them in kernels and compile work:"]
        lines += [f"  {name:<26}{counter.total_us / 1000:>10.3f} ms  {counter.count:>9,}" for name, counter in self.counters.items()]
        lines += [f"  {f'tier {tier}':<26}{t.total_us / 1000:>10.3f} ms  {t.count:>9,} calls" for tier, t in self.tiers().items()]
        lines += [f"  left to Python {count:,} times: {reason}" for reason, count in self.handed_back.most_common(5)]
        cells = self._cells()
        widths = [max(len(row[k]) for row in cells) for k in range(len(_HEAD))]
        lines += [
            "",
            *("  ".join(_aligned(cell, w, k) for k, (cell, w) in enumerate(zip(row, widths, strict=True))).rstrip() for row in cells),
        ]
        hidden = len(self.rows) - _ROWS
        return "\n".join(lines + ([f"and {hidden} more"] if hidden > 0 else []))

    def _cells(self) -> list[tuple[str, ...]]:
        rows = self.rows[:_ROWS]
        return [
            _HEAD,
            *(
                (
                    f"{r.calls:,}",
                    f"{r.total_us / 1000:.3f}",
                    f"{r.mean_us:.2f}",
                    f"{r.longest_us:.1f}",
                    str(r.tier),
                    r.op,
                    r.kernel,
                    r.where,
                )
                for r in rows
            ),
        ]

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        work = "".join(f"<tr><td>{n}</td><td>{c.total_us / 1000:.3f} ms</td><td>{c.count:,}</td></tr>" for n, c in self.counters.items())
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<table>{work}</table><table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{body}</table>"

    def __repr__(self) -> str:
        return f"<profile of {self._measured().wall_us / 1000:.2f} ms, {sum(row.calls for row in self.rows):,} calls of kernels>"


_HEAD: Final = ("calls", "total ms", "mean us", "longest us", "tier", "op", "kernel", "where")
_NUMBERS: Final = 5  # columns of numbers, aligned to the right


def profile(max_calls: int = MAX_CALLS) -> Profile:
    """Measure a block: ``with bcvm.profile() as p: ...``, then `p.table()`, `p.as_dict()`, `p.chrome_trace(path)`."""
    return Profile(max_calls)


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column < _NUMBERS else cell.ljust(width)


def _by_time(row: Row) -> float:
    return -row.total_us


def place_text(place: Place | None) -> str:
    """A place as a table shows it."""
    if place is None:
        return "called directly"
    name, filename, line = place
    return f"{name} ({os.path.basename(filename)}:{line})"


def place_of(region: Any) -> str:
    """Where a region stands, as a table shows it."""
    return place_text((region.owner.name, region.owner.filename, region.key[1]))


def _what(site: Any) -> tuple[str, str, int]:
    """(op, kernel, tier) of a call site."""
    if not isinstance(site, CallSite):  # several ops as one call
        return "+".join(site.names), "fused", 2
    return site.op.name, ", ".join(pool.ran(site.signature)) if site.signature else "", 1


def _title(event: Any) -> str:
    if isinstance(event, Selected):
        return f"{event.op}: {event.kernel}"
    if isinstance(event, Spliced | Recompiled):
        return "+".join(event.ops)
    return str(getattr(event, "name", getattr(event, "region", "")))
