"""A flood of widget updates is no queue: while one is handled, newer ones replace those that wait.

A slider that is dragged, or a front end that sends every change, would else have each value handled, long after the hand has let go,
and everything behind it would wait. The rule: of updates of one widget that wait, an older one is dropped when a newer one sets all
that it would set. A shell gets one update at a time, and a widget at most `MAX_RATE_HZ` of them a second; the others wait here, in the
thread of the shell channel. Other messages wait for nothing: what was held back goes first, and they follow. The last value arrives,
and a dropped message is answered as if it had been handled (busy, idle).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAX_RATE_HZ = 20  # each is answered with an echo; a dashboard beside it sends 10

Frames = list[Any]  # of one message, as it came from the socket
Shell = str | None  # a subshell's id, None for the main one


def widget_state(content: Any, buffers: Any) -> tuple[str, frozenset[str]] | None:
    """The comm and the names that a widget's plain update sets; None for any other message of a comm."""
    data = content.get("data") if isinstance(content, dict) else None
    if buffers or not isinstance(data, dict) or data.get("method") != "update" or data.get("buffer_paths"):
        return None
    state = data.get("state")
    return (str(content.get("comm_id")), frozenset(state)) if isinstance(state, dict) else None


@dataclass(eq=False)
class Update:
    """One that may have to wait."""

    frames: Frames
    message: dict[str, Any]
    comm_id: str
    names: frozenset[str]

    def replaces(self, other: Update) -> bool:
        """Whether nothing of `other` is left once this one has been handled."""
        return self.comm_id == other.comm_id and self.names >= other.names


class Waiting:
    """The updates that wait for the shells of one kernel. Used in the shell channel's thread alone."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.dropped: list[dict[str, Any]] = []  # messages to be answered without having been handled
        self._unhandled: dict[Shell, int] = {}  # updates that were sent on
        self._held: dict[Shell, list[Update]] = {}
        self._sent_at: dict[str, float] = {}  # by comm: the latest update

    def admit(self, frames: Frames) -> tuple[Shell, list[Frames]]:
        """A message has come: the shell it is for, and what is to be sent there now, in this order."""
        shell, update = self._look_at(frames)
        held = self._held.setdefault(shell, [])
        if update is None:
            now = [earlier.frames for earlier in self._all(shell)]
            return shell, [*now, frames]
        for earlier in [other for other in held if update.replaces(other)]:
            held.remove(earlier)
            self.dropped.append(earlier.message)
        held.append(update)
        following = self.next(shell)
        return shell, [] if following is None else [following]

    def _all(self, shell: Shell) -> Iterator[Update]:
        held = self._held[shell]
        while held:
            yield self._send(shell, held.pop(0))

    def handled(self, shell: Shell) -> None:
        """A shell has handled an update."""
        self._unhandled[shell] = max(0, self._unhandled.get(shell, 0) - 1)

    def next(self, shell: Shell) -> Frames | None:
        """What is to be sent to a shell now."""
        if self._unhandled.get(shell, 0):
            return None
        now = time.monotonic()
        found = next((update for update in self._held.get(shell, ()) if self._due(update) <= now), None)
        if found is None:
            return None
        self._held[shell].remove(found)
        return self._send(shell, found).frames

    def delay(self, shell: Shell) -> float | None:
        """In how many seconds to ask for the next one; None when nothing waits but for the shell."""
        held = self._held.get(shell)
        if not held or self._unhandled.get(shell, 0):
            return None
        return max(0.0, min(map(self._due, held)) - time.monotonic())

    def _due(self, update: Update) -> float:
        return self._sent_at.get(update.comm_id, 0.0) + 1 / MAX_RATE_HZ

    def _send(self, shell: Shell, update: Update) -> Update:
        self._unhandled[shell] = self._unhandled.get(shell, 0) + 1
        self._sent_at[update.comm_id] = time.monotonic()
        return update

    def _look_at(self, frames: Frames) -> tuple[Shell, Update | None]:
        """The shell that a message is for, and what it is if it is an update. Messages that are wrong are left to ipykernel."""
        try:
            _, parts = self.session.feed_identities(frames, copy=False)
            header = bytes(parts[1].bytes)
            if b'"comm_msg"' not in header:
                return self.session.unpack(header).get("subshell_id"), None
            message = self.session.deserialize(parts, content=False, copy=False)
            found = widget_state(self.session.unpack(message["content"]), message["buffers"])
            shell = message["header"].get("subshell_id")
        except Exception:
            return None, None
        return shell, None if found is None else Update(frames, message, *found)
