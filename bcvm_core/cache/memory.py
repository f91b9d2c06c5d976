"""Which spliced kernels are kept: a bounded number, bytes and time, and figures of what became of requests.

Warm calls do not come here: a kernel counts its calls where it is called, and the cache looks at those counts when a kernel is added
(when somebody asks for figures, and by a timer: `sweeper.py`). What was called since the last look is as good as used now, so nothing
goes within `ttl` of its last call, and what goes first is what was not called for the longest time, as far as looks can tell. Looks are at
most an eighth of `ttl` apart, so what nobody calls is gone a quarter after its time at most.

Kernels of equal code are one entry, however many call sites run it. A kernel that runs now is not evicted; its code goes back to the
arena when nobody holds it any more. Nor is one that was pinned, by whatever rule: a pin belongs to the code, so it outlives the call
sites, and code that is made again is pinned from the start.
"""

from __future__ import annotations

import hashlib
import itertools
import time
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from .. import config, locks
from ..errors import BcvmError
from ..events import Evicted, bus
from .sweeper import LOOKS, Sweeper, pause_of

FIRST, SITE, AHEAD = "first use", "types new to the site", "prepared ahead"
EXPIRED, COUNT, BYTES, CLEARED, BY_HAND = "expired", "too many", "too many bytes", "cleared", "by hand"
_REMEMBERED: Final = 4096  # keys of entries that went
_LOGGED: Final = 256  # evictions that are told one by one
_REASONS: Final = 64  # different reasons for having no kernel that are counted apart
_OTHER: Final = "other reasons"
_AT_ONCE: Final = 8  # idle entries that go together, unless somebody asks: their calls, and others', wait meanwhile
_SOON_S: Final = 0.001


class Limits(NamedTuple):
    """How much is kept. `ttl_s`: seconds since the last call."""

    size: int
    ttl_s: float
    code_bytes: int


class CacheError(BcvmError):
    """The code cache does not do what it was asked to."""


class About(NamedTuple):
    """What people are told of a kernel: its ops, types and layouts of its operands, and the shapes that it was made for, "" for none."""

    label: str = ""
    operands: str = ""
    shapes: str = ""


NOTHING: Final = About()


class Use(Protocol):
    """One call site's use of a kernel."""

    @property
    def where(self) -> tuple[str, str, int] | None:
        """(function or cell, file, line) of the site, where it is known."""

    @property
    def hot(self) -> bool:
        """Whether it was hot, and better code runs some of its calls."""

    def total(self) -> int:
        """Calls up to now."""

    def sizes(self) -> Iterable[tuple[int, int]]:
        """(identity, bytes) of the code that it holds."""

    def drop(self) -> bool:
        """Forget the kernel; False where it runs now and must stay."""


@dataclass(slots=True)
class _Seen:
    """A use, and its calls at the last look."""

    use: weakref.ref[Use]
    calls: int


@dataclass(slots=True)
class Entry:
    """Kernels of equal code. `used_s`: when calls were last seen; `splice_us`: what making it took."""

    key: Hashable
    about: About
    made_s: float
    used_s: float
    number: int
    splice_us: float
    code_bytes: int = 0
    recent: int = 0  # calls between the last two looks
    pinned: bool = False
    uses: list[_Seen] = field(default_factory=list)
    _name: str = ""

    @property
    def label(self) -> str:
        """Its ops."""
        return self.about.label

    @property
    def name(self) -> str:
        """By which people call it."""
        self._name = self._name or name_of(self.key)
        return self._name

    @property
    def hits(self) -> int:
        """Calls that were seen, of the sites that are still there."""
        return sum(seen.calls for seen in self.uses)

    def live(self) -> list[Use]:
        """Its uses by sites that are still there."""
        return [use for seen in list(self.uses) if (use := seen.use()) is not None]


@dataclass(frozen=True, slots=True)
class Gone:
    """An entry that was evicted. `number` counts evictions; `lived_s`: since it was made; `idle_s`: since its last call."""

    number: int
    at_s: float
    name: str
    label: str
    reason: str
    hits: int
    code_bytes: int
    lived_s: float
    idle_s: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What the cache holds and has done. `misses` by reason; `shared`: requests that found code of another site; `hits`: calls.

    `put_off`: evictions that waited because the kernel ran; `pinned`: entries that are pinned.
    """

    limits: Limits
    entries: int
    code_bytes: int
    hits: int
    shared: int
    misses: dict[str, int]
    evictions: dict[str, int]
    put_off: int
    pinned: int


def name_of(key: Hashable) -> str:
    """A short name for a key, the same wherever the code is the same."""
    return hashlib.sha256(repr(key).encode()).hexdigest()[:16]


def limits_now() -> Limits:
    """Those of the settings."""
    knobs = config.current
    return Limits(max(1, knobs.cache_size), knobs.cache_ttl_s, knobs.cache_bytes)


class CodeCache:
    """Thread-safe. `limits` and `clock` are asked at each use, so that settings may change and tests may turn the clock.

    `by_itself`: idle entries go also when nothing new comes.
    """

    def __init__(
        self, limits: Callable[[], Limits] = limits_now, clock: Callable[[], float] = time.monotonic, *, by_itself: bool = False
    ) -> None:
        self._limits, self._clock = limits, clock
        self.sweeper = Sweeper(self._sweep, self._may_expire, self._pause_s) if by_itself else None
        self._entries: dict[Hashable, Entry] = {}
        self._gone: OrderedDict[Hashable, str] = OrderedDict()
        self._misses: Counter[str] = Counter()
        self._evictions: Counter[str] = Counter()
        self._pins: dict[Hashable, None] = {}
        self._log: deque[Gone] = deque(maxlen=_LOGGED)
        self._untold: deque[Gone] = deque(maxlen=_LOGGED)
        self._bytes = self._number = self._shared = self._put_off = self._earlier_hits = 0
        self._next_look = 0.0
        self._more = False  # idle entries are left
        self._lock = locks.rlock()  # finalisers of what is dropped may come back here

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Holds the lock; afterwards listeners are told what went, for they may hold locks of their own."""
        with self._lock:
            yield
        while self._untold:
            try:
                gone = self._untold.popleft()
            except IndexError:  # another thread tells
                return
            if bus.active:
                bus.emit(Evicted(tuple(gone.label.split("+")), gone.name, gone.reason, gone.hits, gone.code_bytes))

    # -- requests ---------------------------------------------------------------------------------

    def add(self, key: Hashable, use: Use, about: About = NOTHING, *, splice_us: float = 0.0, reason: str = FIRST) -> None:
        """A site has got a kernel. `reason`: why it asked, where neither its code was there nor it was evicted before."""
        with self._changing():
            now = self._clock()
            entry = self._entries.get(key)
            if entry is not None:
                self._shared += 1
                entry.used_s = now
            else:
                self._misses[self._gone.pop(key, reason)] += 1
                self._number += 1
                entry = self._entries[key] = Entry(key, about, now, now, self._number, splice_us, pinned=key in self._pins)
                entry.code_bytes = sum(size for _, size in use.sizes())
                self._bytes += entry.code_bytes
            entry.uses.append(_Seen(weakref.ref(use), 0 if reason == AHEAD else 1))  # the call that asked is no sign of a second one
            self._trim(now, _AT_ONCE)
        self._wake()

    def refused(self, reason: str) -> None:
        """A site has got no kernel, and why."""
        with self._lock:
            reason = f"no kernel: {reason}"
            self._misses[reason if reason in self._misses or len(self._misses) < _REASONS else _OTHER] += 1

    # -- keeping ----------------------------------------------------------------------------------

    def look(self) -> None:
        """See what was called, and let go what is too old or too much."""
        with self._changing():
            self._look_now()

    def _wake(self) -> None:
        if self.sweeper is not None:
            self.sweeper.wanted()

    def _may_expire(self) -> bool:
        """Whether something is left to the timer."""
        return not all(entry.pinned for entry in list(self._entries.values()))

    def _pause_s(self) -> float:
        return _SOON_S if self._more else pause_of(self._limits().ttl_s)

    def _sweep(self) -> None:
        with self._changing():
            self._look_now(_AT_ONCE)

    def _look_now(self, at_once: int | None = None) -> None:
        self._next_look = 0.0
        self._trim(self._clock(), at_once)

    def _trim(self, now: float, at_once: int | None = None) -> None:
        """Let go what is too much, and what is too old, of that at most `at_once` entries; None: all."""
        limits = self._limits()
        if len(self._entries) <= limits.size and self._bytes <= limits.code_bytes and now < self._next_look:
            return
        self._look(now)
        idle = (entry for entry in list(self._entries.values()) if now - entry.used_s > limits.ttl_s)
        gone = (entry for entry in idle if self._evict(entry, EXPIRED))
        self._more = len(list(itertools.islice(gone, at_once))) == at_once
        self._next_look = now if self._more else now + limits.ttl_s / LOOKS
        if len(self._entries) > limits.size or self._bytes > limits.code_bytes:
            self._shrink(limits)

    def _look(self, now: float) -> None:
        counted: set[int] = set()
        for entry in list(self._entries.values()):
            entry.recent, entry.code_bytes = 0, 0
            kept = []
            for seen in entry.uses:
                use = seen.use()
                if use is None:
                    self._earlier_hits += seen.calls
                    continue
                calls = use.total()
                entry.recent += calls - seen.calls
                seen.calls = calls
                kept.append(seen)
                for identity, size in use.sizes():
                    entry.code_bytes += 0 if identity in counted else size
                    counted.add(identity)
            entry.uses = kept
            if entry.recent > 0:
                entry.used_s = now
            if not kept:  # its sites are gone, and with them the code
                del self._entries[entry.key]
        self._bytes = sum(entry.code_bytes for entry in self._entries.values())

    def _shrink(self, limits: Limits) -> None:
        """Evict what was not used for longest, a few more than needed so that not every new kernel has to look."""
        newest = max(self._entries.values(), key=lambda e: e.number)  # is what all this is for
        free = [entry for entry in self._entries.values() if entry is not newest and not entry.pinned]
        order = sorted(free, key=lambda e: (e.used_s, e.recent, e.number))
        room = limits.size - limits.size // 16 if len(self._entries) > limits.size else limits.size
        for entry in order:
            if len(self._entries) <= room and self._bytes <= limits.code_bytes:
                return
            self._evict(entry, COUNT if len(self._entries) > room else BYTES)

    def _evict(self, entry: Entry, reason: str) -> bool:
        """False where it is pinned, or one of its sites runs it now."""
        if entry.pinned:
            return False
        left, hits = [], entry.hits
        for seen in entry.uses:
            use = seen.use()
            if use is not None and not use.drop():
                left.append(seen)
            else:
                self._earlier_hits += use.total() if use is not None else seen.calls
        entry.uses = left
        if left:
            self._put_off += 1
            return False
        del self._entries[entry.key]
        self._bytes -= entry.code_bytes
        self._evictions[reason] += 1
        now, number = self._clock(), sum(self._evictions.values())
        gone = Gone(number, now, entry.name, entry.label, reason, hits, entry.code_bytes, now - entry.made_s, now - entry.used_s)
        self._log.append(gone)
        self._untold.append(gone)
        self._gone[entry.key] = f"evicted: {reason}"
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
        return True

    def clear(self) -> int:
        """Evict everything that neither is pinned nor runs now; how many entries that was."""
        with self._changing():
            self._look(self._clock())
            return sum(self._evict(entry, CLEARED) for entry in list(self._entries.values()))

    # -- by hand ----------------------------------------------------------------------------------

    def _named(self, name: str) -> Entry:
        """The entry whose name begins so. Raises CacheError unless there is exactly one."""
        found = [entry for entry in self._entries.values() if entry.name.startswith(name)] if name else []
        if len(found) != 1:
            what = f"{len(found)} kernels in the code cache have names that begin with" if found else "the code cache has no kernel"
            raise CacheError(f"{what} {name!r}", fix="bcvm.cache_info() lists them")
        return found[0]

    def pin(self, name: str) -> Entry:
        """No rule evicts this entry any more, nor code equal to it that is made later. Raises CacheError where it is not there."""
        with self._lock:
            entry = self._named(name)
            self.keep(entry.key)
            return entry

    def unpin(self, name: str) -> Entry:
        """The rules are for this entry, too, from the next look on. Raises CacheError where it is not there."""
        with self._lock:
            entry = self._named(name)
            entry.pinned = False
            self._pins.pop(entry.key, None)
        self._wake()
        return entry

    def keep(self, key: Hashable) -> None:
        """As `pin`, by key, whether its code is there now or is still to come."""
        with self._lock:
            self._pins[key] = None
            entry = self._entries.get(key)
            if entry is not None:
                entry.pinned = True

    def evict(self, name: str) -> Entry:
        """Forget this entry; its next call makes it again. Raises CacheError where it is not there, is pinned, or runs now."""
        with self._changing():
            self._look(self._clock())
            entry = self._named(name)
            if entry.pinned:
                raise CacheError(f"{entry.label or name} is pinned", fix="unpin it first")
            if not self._evict(entry, BY_HAND):
                raise CacheError(f"{entry.label or name} runs now", fix="try again when the call is over")
            return entry

    # -- figures ----------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """What it holds and has done up to now."""
        return self.seen()[0]

    def entries(self) -> list[Entry]:
        """What it holds, the latest used first."""
        return self.seen()[1]

    def seen(self) -> tuple[Figures, list[Entry], list[Gone]]:
        """(figures, entries, the latest evictions) at one look: `recent` of an entry are its calls since the one before."""
        with self._changing():
            self._look_now()
            entries = sorted(self._entries.values(), key=lambda e: (-e.used_s, -e.number))
            hits = self._earlier_hits + sum(entry.hits for entry in entries)
            pinned = sum(entry.pinned for entry in entries)
            counts = len(entries), self._bytes, hits, self._shared
            figures = Figures(self._limits(), *counts, dict(self._misses), dict(self._evictions), self._put_off, pinned)
            return figures, entries, list(self._log)

    def now(self) -> float:
        """The time that entries are dated by."""
        return self._clock()

    @property
    def held(self) -> tuple[int, int]:
        """(entries, bytes) as far as it knows without a look."""
        return len(self._entries), self._bytes


code_cache = CodeCache(by_itself=True)
