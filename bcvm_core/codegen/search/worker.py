"""The compile worker as its parent sees it: started at first use, one request at a time, killed when it is late.

Nothing here is called by whoever runs kernels: a thread of tier 3's own waits for answers.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from typing import Any, Final

from .. import apart
from . import wire

RESTARTS: Final = 3  # after so many failures there are no more compiles in this process
_START_S: Final = 30.0  # a busy machine may take long to start a process of low priority
_ENDING_S: Final = 0.5


class WorkerError(Exception):
    """A request came to nothing. `kind`: "timeout", "crash" or "unavailable"."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


class Worker:
    """A process that answers requests. Only one thread uses it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._number = 0
        self._last: int | None = None  # exit status of the latest that ended
        self.failures = 0
        self.closed = False
        self.owner = os.getpid()

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def request(self, place: str, job: Any, seconds: float) -> Any:
        """The answer to a job, within so many seconds once the worker is there. Raises WorkerError."""
        if self.owner != os.getpid():
            raise WorkerError("unavailable", "the worker belongs to another process")
        link = self._start()
        self._number += 1
        try:
            wire.send(link, (self._number, place, job))
            number, answer = wire.receive(link, time.monotonic() + seconds)
        except wire.LateError as error:
            self._failed()
            raise WorkerError("timeout", f"the compile took longer than {seconds:g} s") from error
        except Exception as error:  # closed, or what came is no message
            self._failed(_ENDING_S)
            raise WorkerError("crash", f"the compile process ended ({self._ended()})") from error
        if number != self._number:
            self._failed()
            raise WorkerError("crash", "the compile process answered another request")
        return answer

    def _start(self) -> socket.socket:
        """The link to a worker that is there."""
        if self._link is not None and self._process is not None and self._process.poll() is None:
            return self._link
        self.stop()
        if self.closed:
            raise WorkerError("unavailable", "the process is ending")
        if self.failures > RESTARTS:
            raise WorkerError("unavailable", f"the compile process failed {self.failures} times")
        ours, theirs = socket.socketpair()
        with theirs:
            command = apart.command(f"{__package__}.process", theirs.fileno(), os.getpid())
            null = subprocess.DEVNULL
            try:
                self._process = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, pass_fds=[theirs.fileno()], process_group=0)
            except (OSError, ValueError) as error:
                ours.close()
                self.failures += 1
                raise WorkerError("unavailable", f"no process could be started: {error}") from error
        self._link = ours
        try:
            wire.receive(ours, time.monotonic() + _START_S)
        except Exception as error:
            self._failed()
            raise WorkerError("unavailable", "the compile process did not start") from error
        return ours

    def _failed(self, ended_s: float = 0.0) -> None:
        self.failures += 1
        self.stop(ended_s)

    def _ended(self) -> str:
        code = self._last
        if code is not None and code < 0:
            with suppress(ValueError):
                return signal.Signals(-code).name
        return f"exit status {code}"

    def stop(self, ended_s: float = 0.0) -> None:
        """End the process, if there is one; `ended_s`: how long one that is ending by itself may take."""
        process, self._process = self._process, None
        link, self._link = self._link, None
        if link is not None:
            link.close()
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(ended_s)
            process.kill()
            self._last = process.wait()

    def close(self) -> None:
        """End the process, and start none any more."""
        self.closed = True
        self.stop()

    def abandon(self) -> None:
        """In a forked child: the process is the parent's, only the copy of the link goes."""
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            self._process.returncode = 0  # nobody waits for it here
        self._process = self._link = None


_worker: Worker | None = None


def shared() -> Worker:
    """The process's worker."""
    global _worker
    if _worker is None:
        _worker = Worker()
        atexit.register(_worker.close)
    return _worker


def _after_fork() -> None:
    global _worker
    if _worker is not None:
        atexit.unregister(_worker.close)
        _worker.abandon()
        _worker = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
