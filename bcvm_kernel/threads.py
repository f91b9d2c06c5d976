"""What a thread prints and displays belongs to the cell that started it.

ipykernel 7.4 gives it to whichever cell ran last, so that the lines of one thread are spread over the notebook. Here a thread starts
with the cell of the code that starts it, and passes it on to the threads that it starts.
"""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

Outlets = list[contextvars.ContextVar[dict[str, Any]]]


def outlets_of(shell: Any) -> Outlets:
    """Where the streams and displays of a kernel keep the message that they answer."""
    senders = (sys.stdout, sys.stderr, shell.display_pub, shell.displayhook)
    found = [getattr(sender, "_parent_header", None) for sender in senders]
    return [variable for variable in found if isinstance(variable, contextvars.ContextVar)]


def _begin(thread: threading.Thread, parents: list[tuple[contextvars.ContextVar[dict[str, Any]], dict[str, Any]]]) -> None:
    """What a thread runs: outermost, so that it is in no traceback, and reports of uncaught errors belong to the cell, too."""
    del thread._bootstrap  # type: ignore[attr-defined]
    for variable, parent in parents:
        variable.set(parent)
    thread._bootstrap()  # type: ignore[attr-defined]


def threads_keep_their_cell(outlets: Outlets) -> Callable[[], None]:
    """Let threads that are started from now on keep the cell that starts them; the result undoes it."""
    plain = threading.Thread.start

    @functools.wraps(plain)
    def start(self: threading.Thread) -> None:
        parents = [(variable, parent) for variable in outlets if (parent := variable.get(None))]
        if parents and self.ident is None and hasattr(self, "_bootstrap"):
            self._bootstrap = functools.partial(_begin, self, parents)
        plain(self)

    threading.Thread.start = start  # type: ignore[method-assign]

    def undo() -> None:
        if threading.Thread.start is start:
            threading.Thread.start = plain  # type: ignore[method-assign]

    return undo
