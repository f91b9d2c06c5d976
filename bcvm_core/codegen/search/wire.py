"""Messages between a process and its compile worker: a length, then a pickle, over a pair of sockets."""

from __future__ import annotations

import pickle
import select
import socket
import struct
import time
from typing import Any, Final

_HEAD: Final = struct.Struct("<I")


class ClosedError(Exception):
    """The other side is gone."""


class LateError(Exception):
    """The other side did not answer in time."""


def send(link: socket.socket, message: Any) -> None:
    """Write a message. Raises ClosedError."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    try:
        link.sendall(_HEAD.pack(len(body)) + body)
    except OSError as error:
        raise ClosedError(str(error)) from error


def receive(link: socket.socket, deadline: float | None = None) -> Any:
    """The next message. Raises ClosedError; and LateError when the clock `time.monotonic` is past `deadline`."""
    (size,) = _HEAD.unpack(_exactly(link, _HEAD.size, deadline))
    return pickle.loads(_exactly(link, size, deadline))


def waiting(link: socket.socket, seconds: float) -> bool:
    """Whether something arrives within so many seconds."""
    return bool(select.select([link], [], [], max(0.0, seconds))[0])


def _exactly(link: socket.socket, size: int, deadline: float | None) -> bytes:
    found = bytearray()
    while len(found) < size:
        if deadline is not None and not waiting(link, deadline - time.monotonic()):
            raise LateError
        try:
            some = link.recv(size - len(found))
        except OSError as error:
            raise ClosedError(str(error)) from error
        if not some:
            raise ClosedError("end of stream")
        found += some
    return bytes(found)
