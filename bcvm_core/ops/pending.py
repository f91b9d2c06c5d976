"""Convolutions that wait for the op that reads them, so that both are computed in one pass.

A flat program knows where nobody but one op reads a convolution's result. There the convolution may give the memory of its result
before it has filled it; the op that is called with it *claims* it and says what follows per channel (`Steps`). Whoever else might see
the memory, or change what the convolution reads, calls `settle` before. What comes out has the bits of one op after the other.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from .. import config

_Array = np.ndarray[Any, Any]
Steps = tuple[tuple[str, _Array], ...]
"""("sub", one number per channel), ...: "add", "sub", "mul" or "div"."""

CLAIMING: Final = frozenset({"batch_norm", "batch_norm_parts", "bias_add"})


class Pending(Protocol):
    """A convolution whose result has its memory and no elements yet."""

    result: _Array
    thread: int  # the `asker`

    def fill(self, steps: Steps = ()) -> bool:
        """Compute the result, and the steps after it; False (and nothing is done) where the steps cannot be done with it."""


_asked: contextvars.ContextVar[int] = contextvars.ContextVar("asked", default=0)  # the thread that asked; 0: none
_waiting: dict[int, Pending] = {}  # by the address of the result


def ask() -> None:
    """The next convolution that this thread calls may wait, unless ops must run one by one."""
    _asked.set(0 if config.plain.value else threading.get_ident())


def answered() -> None:
    """It has run, or must not wait."""
    _asked.set(0)


def asker() -> int:
    """The thread for which a convolution that runs now may wait (the call itself may run beside it); 0: it must not."""
    return _asked.get()


def _address(x: _Array) -> int:
    found: int = x.__array_interface__["data"][0]
    return found


address: Callable[[_Array], int] = _address
"""Where an array's first element lies; what makes convolutions wait may put a quicker function here."""


def seen(x: _Array) -> Pending | None:
    """The convolution that `x` waits for."""
    found = _waiting.get(address(x)) if _waiting else None
    return found if found is not None and found.result.shape == x.shape and found.result.strides == x.strides else None


def add(convolution: Pending) -> _Array:
    """Let a convolution wait; its result, to be given on."""
    _waiting[address(convolution.result)] = convolution
    return convolution.result


def claim(x: _Array) -> Pending | None:
    """The convolution that `x` waits for, which waits no more."""
    found = seen(x)
    return None if found is None else _waiting.pop(address(x), None)


def finish(x: _Array, steps: Steps) -> bool:
    """Whether `x` waited for its convolution and now has it with these steps after it; where they can't be, it has the convolution."""
    found = claim(x)
    if found is None:
        return False
    channels = x.shape[1:2]
    if all(number.dtype == x.dtype and number.shape == channels for _, number in steps) and found.fill(steps):
        return True
    found.fill()
    return False


def settle() -> None:
    """Compute what waits in this thread."""
    _end(True)


def drop() -> None:
    """Forget what waits in this thread: nobody will read it."""
    _end(False)


def _end(compute: bool) -> None:
    _asked.set(0)
    if not _waiting:
        return
    me = threading.get_ident()
    for address, found in list(_waiting.items()):
        if found.thread == me:
            _waiting.pop(address, None)
            if compute:
                found.fill()
