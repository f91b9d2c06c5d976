"""Scratch memory at the start of a cache line, one block per thread that grows as it is asked for more."""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from .loops import address

ALIGNMENT: Final = 64


def aligned(size: int) -> tuple[Any, int]:
    """(array that owns the memory, address of `size` bytes in it, at the start of a cache line)."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = address(memory)
    return memory, start + -start % ALIGNMENT


class Scratch(threading.local):
    """Scratch memory of the calling thread: as much as was ever wanted in it."""

    def __init__(self) -> None:
        self.size = self.address = 0
        self.memory: Any = None

    def at(self, size: int) -> int:
        """The address of at least `size` bytes."""
        if size > self.size:
            self.memory, self.address = aligned(size)
            self.size = size
        return self.address
