"""Loops of cells whose values are not known yet: watched for a few rounds, then run plainly if no tensor came.

A cell's statement is compiled once and runs at once, so sites that prove useless cannot be taken out
of it as they are from functions. A `for` loop is therefore formed twice, and the form of its rest is
chosen while it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

WATCHED_ROUNDS = 8


class Countable(Protocol):
    """A site, as far as the switch looks at it."""

    hits: int


class LoopSwitch:
    """The three constants of one loop: `peel` begins it, `live` chooses the form of the rest, `rest` goes on."""

    def __init__(self) -> None:
        self.sites: list[Countable] = []
        self._running = threading.local()

    def peel(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """The first rounds of a loop."""
        self._running.iterator = iterator
        return islice(iterator, WATCHED_ROUNDS)

    def live(self) -> bool:
        """Has a tensor been met?"""
        return any(site.hits for site in self.sites)

    def rest(self) -> Iterator[Any]:
        """What `peel` left."""
        return self._running.iterator  # type: ignore[no-any-return]
