"""A progress bar around the cases of a benchmark: on stderr, for a person at a terminal who has tqdm, and for nobody else.

It moves between two cases, so nothing of it runs while one is measured.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class _Above:
    """Text that stands above the bar, line by line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._write(line)
        return len(text)

    def flush(self) -> None:
        """Lines are written when they are whole."""


def cases(what: str, items: Iterable[T]) -> Iterator[T]:
    """The items, one by one, and what is printed meanwhile as it is."""
    try:
        from tqdm.std import tqdm
    except ImportError:
        tqdm = None
    if tqdm is None or sys.stderr is None or not sys.stderr.isatty():
        yield from items
        return
    tqdm.monitor_interval = 0  # no thread that looks at it
    known, out = list(items), sys.stdout
    above: Any = _Above(lambda line: tqdm.write(line, file=out))
    with contextlib.redirect_stdout(above):
        yield from tqdm(known, desc=what, leave=False)
