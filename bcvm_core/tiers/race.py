"""Code beside code on the user's own calls: which of several that do the same is faster, and surely so.

The results of all are the same bits, so it does not matter which of them runs a piece of a call. Pieces are handed out in pairs, the
present code and a candidate in random order; time is the processor's, for a thread that waits for its core would measure others' work.
"""

from __future__ import annotations

import math
import random
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

C = TypeVar("C")

ENOUGH: Final = 0.85  # a candidate must take at most this share of the present time
Z: Final = 2.6  # of the confidence interval
MIN_PAIRS: Final = 5
MAX_PAIRS: Final = 40  # what is not sure by then is not worth it
_OPEN: Final = 256  # pairs whose second half never came are forgotten beyond this


def _quantile(freedom: int) -> float:
    """Of Student's distribution, where the normal one has `Z`: few pairs know their own noise badly."""
    z = Z
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@dataclass(slots=True)
class Runner(Generic[C]):
    """One candidate and its pairs so far: sums of log(its time / the present one)."""

    name: str
    code: C
    pairs: int = 0
    total: float = 0.0
    squares: float = 0.0
    verdict: bool | None = None  # None: not known yet

    @property
    def ratio(self) -> float:
        """Its time as a share of the present one."""
        return math.exp(self.total / self.pairs) if self.pairs else math.nan

    def add(self, log_ratio: float) -> None:
        """One more pair."""
        self.pairs += 1
        self.total += log_ratio
        self.squares += log_ratio * log_ratio
        if self.pairs >= MIN_PAIRS:
            self._judge()

    def _judge(self) -> None:
        mean = self.total / self.pairs
        variance = max(0.0, (self.squares - self.pairs * mean * mean) / (self.pairs - 1))
        reach, bound = _quantile(self.pairs - 1) * math.sqrt(variance / self.pairs), math.log(ENOUGH)
        if mean + reach <= bound:
            self.verdict = True
        elif mean - reach > bound or self.pairs >= MAX_PAIRS:
            self.verdict = False

    def text(self) -> str:
        """What was measured."""
        return f"{self.name}: {self.ratio:.2f} of the time ({self.pairs} pairs)" if self.pairs else f"{self.name}: not measured"


@dataclass(slots=True)
class _Pair(Generic[C]):
    runner: Runner[C]
    old: tuple[float, int] | None = None  # ns, elements
    new: tuple[float, int] | None = None


Ticket = tuple[int, bool]  # number of a pair, whether it is the candidate's turn


@dataclass(slots=True)
class Race(Generic[C]):
    """Hand out tickets, take times; `over` when all candidates are judged. Calls from several threads are fine."""

    present: C
    runners: Sequence[Runner[C]]
    _pairs: dict[int, _Pair[C]] = field(default_factory=dict)
    _next: deque[Ticket] = field(default_factory=deque)
    _count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _random: random.Random = field(default_factory=random.Random)

    @property
    def over(self) -> bool:
        return all(runner.verdict is not None for runner in self.runners)

    @property
    def winner(self) -> Runner[C] | None:
        """The fastest of those that are surely fast enough."""
        good = [runner for runner in self.runners if runner.verdict]
        return min(good, key=lambda runner: runner.ratio, default=None)

    def take(self) -> tuple[Ticket | None, C]:
        """What runs the next piece; without a ticket nothing is to be measured any more."""
        with self._lock:
            if not self._next:
                waiting = [runner for runner in self.runners if runner.verdict is None]
                if not waiting:
                    return None, self.present
                self._count += 1
                runner = waiting[self._count % len(waiting)]
                self._pairs[self._count] = _Pair(runner)
                if len(self._pairs) > _OPEN:
                    del self._pairs[min(self._pairs)]
                first = self._random.random() < 0.5
                self._next.extend([(self._count, first), (self._count, not first)])
            ticket = self._next.popleft()
            pair = self._pairs.get(ticket[0])
            return ticket, pair.runner.code if pair is not None and ticket[1] else self.present

    def note(self, ticket: Ticket, ns: float, elements: int) -> None:
        """A piece of so many elements took so long. Halves of a pair that differ much in size are no pair."""
        with self._lock:
            pair = self._pairs.get(ticket[0])
            if pair is None or ns <= 0:
                return
            if ticket[1]:
                pair.new = ns, elements
            else:
                pair.old = ns, elements
            if pair.old is None or pair.new is None:
                return
            del self._pairs[ticket[0]]
            (old, old_size), (new, new_size) = pair.old, pair.new
            if pair.runner.verdict is None and 0.8 < new_size / old_size < 1.25:
                pair.runner.add(math.log(new / new_size) - math.log(old / old_size))
