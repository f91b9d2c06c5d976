"""Loops of cells whose values are not known yet: watched for a few rounds, then run plainly if no tensor came.

A cell's statement is compiled once and runs at once, so sites that prove useless cannot be taken out
of it as they are from functions. A `for` loop is therefore formed twice, and the form of its rest is
chosen while it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from itertools import chain, count, islice
from typing import Any, Protocol

WATCHED_ROUNDS = 8


class Countable(Protocol):
    """A site, as far as the switch looks at it."""

    @property
    def hits(self) -> int: ...


class _Handover:
    """Stands behind a loop's first rounds: when they are over, and only then, it puts down what is left of the iterator.

    A loop that is left early lets go of its iterator, and that may run a generator's `finally`. An
    iterator that has ended is not asked again.
    """

    def __init__(self, running: Any, iterator: Iterator[Any], delivered: Iterator[int]) -> None:
        self.running = running
        self.iterator: Iterator[Any] | None = iterator
        self.delivered = delivered

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        more = next(self.delivered) > WATCHED_ROUNDS
        self.running.iterator, self.iterator = (self.iterator if more else iter(())), None
        raise StopIteration


class LoopSwitch:
    """The three constants of one loop: `peel` begins it, `live` chooses the form of the rest, `rest` goes on."""

    def __init__(self) -> None:
        self.sites: list[Countable] = []
        self._running = threading.local()

    def peel(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """The first rounds of a loop."""
        delivered = count(1)
        counted = filter(partial(next, delivered), islice(iterator, WATCHED_ROUNDS))  # C code alone: no frame of ours in tracebacks
        return chain(counted, _Handover(self._running, iterator, delivered))

    def live(self) -> bool:
        """Has a tensor been met?"""
        return any(site.hits for site in self.sites)

    def rest(self) -> Iterator[Any]:
        """What `peel` left."""
        return vars(self._running).pop("iterator")  # type: ignore[no-any-return]
