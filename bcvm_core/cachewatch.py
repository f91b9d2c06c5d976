"""What people see of the code cache: its kernels, what went and why, where their code lies, and what other limits would have meant.

Everything comes from the cache's own records. What-ifs replay calls that were written down while a `CacheWatch` was open: for a moment
after a look those in a row, at most `BURST`, with their order and times, and of every other kernel that was called between two looks one.
So a flood of calls costs no more than a trickle: regions go through Python for that moment alone, and rarely where it brings nothing.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from . import locks
from .cache.memory import Entry, Figures, Gone, Limits, code_cache, limits_now, name_of
from .cache.tuning import Call, Kernel, Outcome, replay
from .codegen.stencils import arena
from .tiers.keys import shapes_text
from .tiers.recorded import recorded

BURST: Final = 32  # calls in a row that are written down after a look
MOMENT_S: Final = 0.001  # for which it waits for them
_RESTS: Final = 15  # looks without, at most, where there were none
KEPT: Final = 5_000  # of them, the latest
BUDGET_S: Final = 0.25  # after this a what-if tries no more sizes: a running cell waits for half of it
SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # whose hits a what-if shows beside its own
_NAMED: Final = 4096  # kernels that recorded calls may be of
_COLD: Final = 4  # idle for this part of the time that it is kept: cold


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel. `state`: "running" (called since the last look), "warm" or "cold"; times are those of the cache's clock.

    `shapes`: of the call that it was made for, or of a later one; it runs others, too. `blocks`: (offset, bytes) of its code.
    """

    name: str
    label: str
    where: tuple[str, str, int] | None
    operands: str
    shapes: str
    hits: int
    sites: int
    code_bytes: int
    splice_us: float
    made_s: float
    used_s: float
    state: str
    pinned: bool
    hot: bool
    blocks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory for code up to `end`, behind which nothing ever was: `gaps` as (offset, bytes), the rest is in use."""

    end: int
    gaps: tuple[tuple[int, int], ...]
    unused_bytes: int

    @property
    def free_bytes(self) -> int:
        """In all gaps."""
        return sum(size for _, size in self.gaps)

    @property
    def fragmentation(self) -> float:
        """The share of what is free between blocks that is not in the largest gap."""
        return 1 - max(size for _, size in self.gaps) / self.free_bytes if self.gaps else 0.0


@dataclass(frozen=True, slots=True)
class State:
    """The cache at one moment of its clock. `gone`: the latest evictions, the last one last."""

    at_s: float
    figures: Figures
    rows: tuple[Row, ...]
    gone: tuple[Gone, ...]
    memory: Memory | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What the recorded calls would have done under `outcome.limits`, under those in force, and at other sizes with the time asked for."""

    outcome: Outcome
    now: Outcome
    kernels: int
    seconds: float
    sizes: tuple[Outcome, ...]


class CacheWatch:
    """Looks at the code cache; while it is open, calls are written down for what-ifs. Closed it costs nothing.

    `moment_s`: for how long a look waits for calls of other threads; None: they are written down until there are `BURST`.
    """

    def __init__(self, moment_s: float | None = MOMENT_S) -> None:
        self.is_open = False
        self._moment_s = moment_s
        self._rests = self._resting = 0
        self._calls: deque[Call] = deque(maxlen=KEPT)
        self._kernels: dict[Hashable, Kernel] = {}
        self._hits: dict[Hashable, int] = {}
        self._shapes: dict[Hashable, str] = {}
        self._burst: list[tuple[float, Hashable, str]] = []  # when, which kernel, on which shapes
        self._pinned: list[str] = []
        self._started_s: float | None = None
        self._looked_s = self._since_s = -math.inf  # when, the last time, and the one before
        self._lock = locks.lock()  # of the calls: a what-if is asked in another thread
        self._leave: Callable[[], None] | None = None

    def open(self) -> None:
        """Begin to write calls down."""
        if self.is_open:
            return
        self.is_open = True
        if self._started_s is None:
            self._started_s = code_cache.now()
        self._hits = {entry.key: entry.hits for entry in code_cache.entries()}
        self._rests = self._resting = 0

    def close(self) -> None:
        """Stop; what was written down stays."""
        self.is_open = False
        self._stop()

    # -- the cache now ----------------------------------------------------------------------------

    def look(self) -> State:
        """What there is now."""
        figures, entries, gone = code_cache.seen()
        now = code_cache.now()
        self._since_s, self._looked_s = self._looked_s, now
        self._pinned = [entry.name for entry in entries if entry.pinned]
        if self.is_open:
            self._gather(entries, now)
        base = _arena()
        rows = tuple(self._row(entry, now, figures.limits, base) for entry in entries)
        return State(now, figures, rows, tuple(gone), _memory(base))

    def _row(self, entry: Entry, now: float, limits: Limits, base: arena.Arena | None) -> Row:
        live = entry.live()
        blocks = () if base is None else _blocks((code for use in live for code in use.sizes()), base)
        idle = now - entry.used_s
        called = entry.used_s > max(self._since_s, entry.made_s)  # since the look before, whoever has looked meanwhile
        state = "running" if called else "cold" if idle > limits.ttl_s / _COLD else "warm"
        return Row(
            entry.name,
            entry.label,
            next((place for use in live if (place := use.where) is not None), None),
            entry.about.operands,
            self._shapes.get(entry.key, entry.about.shapes),
            entry.hits,
            len(live),
            entry.code_bytes,
            entry.splice_us,
            entry.made_s,
            entry.used_s,
            state,
            entry.pinned,
            any(use.hot for use in live),
            blocks,
        )

    # -- calls, written down ----------------------------------------------------------------------

    def _listen(self) -> None:
        """Write down calls for a moment; after one without any it rests for twice as many looks as before."""
        if self._resting:
            self._resting -= 1
            return
        if self._leave is None:
            self._leave = recorded.subscribe(self._note)
        if self._moment_s is not None:
            time.sleep(self._moment_s)
            self._stop()
            self._rests = 0 if self._burst else min(2 * self._rests + 1, _RESTS)
            self._resting = self._rests

    def _stop(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    def _note(self, site: Any, use: Any, values: Sequence[Any]) -> None:
        """One call, in its own thread."""
        if len(self._burst) >= BURST:
            self._stop()
            return
        if use.key not in self._kernels and len(self._kernels) < _NAMED:
            self._kernels[use.key] = Kernel(name_of(use.key), sum(size for _, size in use.sizes()), use.splice_us)
        self._burst.append((code_cache.now(), use.key, shapes_text(values)))

    def _gather(self, entries: list[Entry], now: float) -> None:
        """Take in the calls since the last look."""
        burst, self._burst = self._burst, []
        found = [(at, key) for at, key, _ in burst]
        self._shapes |= {key: shapes for _, key, shapes in burst}
        noted, before = {key for _, key in found}, self._hits
        for entry in entries:
            key, more = entry.key, entry.hits > before.get(entry.key, -1)
            if more and key not in noted:
                found.append((now if key in before else entry.made_s, key))
            if key not in self._kernels and len(self._kernels) < _NAMED:
                self._kernels[key] = Kernel(entry.name, entry.code_bytes, entry.splice_us)
        self._hits = {entry.key: entry.hits for entry in entries}
        self._shapes = {key: text for key, text in self._shapes.items() if key in self._hits}
        started = self._started_s or 0.0
        known = ((at, self._kernels.get(key)) for at, key in sorted(found, key=lambda call: call[0]))
        calls = [Call(max(0.0, at - started), kernel) for at, kernel in known if kernel is not None]
        with self._lock:
            self._calls.extend(calls)
        self._listen()

    @property
    def recorded(self) -> tuple[int, float]:
        """How many calls are written down, and over how many seconds."""
        calls = self._calls
        return (len(calls), calls[-1].at_s - calls[0].at_s) if calls else (0, 0.0)

    def what_if(self, size: int | None = None, ttl_s: float | None = None) -> WhatIf | None:
        """Replay the recorded calls through the cache under other limits than those in force; None where nothing is recorded.

        What was pinned at the last look is pinned.
        """
        with self._lock:
            calls = list(self._calls)
        now, pinned = limits_now(), self._pinned
        limits = now._replace(size=now.size if size is None else size, ttl_s=now.ttl_s if ttl_s is None else ttl_s)
        if not calls:
            return None
        kernels = len({call.kernel.key for call in calls})
        started = time.perf_counter()
        outcome = replay(calls, limits, pinned)
        in_force = outcome if limits == now else replay(calls, now, pinned)
        tried = []
        for size in [kernels, *(size for size in SIZES if size < kernels)]:
            tried.append(replay(calls, limits._replace(size=size), pinned))
            if time.perf_counter() - started > BUDGET_S:
                break
        tried.sort(key=lambda found: found.limits.size)
        return WhatIf(outcome, in_force, kernels, calls[-1].at_s - calls[0].at_s, tuple(tried))


def _arena() -> arena.Arena | None:
    try:
        return arena.shared() if arena.is_open() else None
    except arena.ArenaError:
        return None


def _memory(base: arena.Arena | None) -> Memory | None:
    if base is None:
        return None
    end, gaps = base.gaps()
    return Memory(end, tuple(gaps), base.size - end)


def _blocks(codes: Iterable[tuple[int, int]], base: arena.Arena) -> tuple[tuple[int, int], ...]:
    """The codes that lie in the arena: (offset, bytes), each once."""
    return tuple(sorted({(at - base.base, size) for at, size in codes if base.base <= at < base.base + base.size}))
