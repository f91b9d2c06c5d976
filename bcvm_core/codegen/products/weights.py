"""Weights in the order in which products use them, kept from one product to the next.

A weight is packed for good at its second product, not the first: what is multiplied once is no weight. It is used as long as the system
knows that nobody has written its memory (`devices.written`); where nothing is known, or the memory is written at every step, it is packed
within each product as before. Bits are the same. What is kept is bounded by `config.packed_bytes`: a weight gives way when it has been
idle while all others were used several times, so that a model that does not fit as a whole keeps the part that does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ... import config, locks
from ...devices import written
from ..loops import address
from ..scratch import aligned

_Array = np.ndarray[Any, Any]
_Key = tuple[int, tuple[int, ...], str]
_MAX_MET: Final = 1024
_ROUNDS: Final = 8  # so often all others are used before a weight is idle


class Kept:
    """A packed weight, its watch, and what the watch was told when the weight was read.

    `plain`: whether the matrix unit takes all its numbers, once somebody has asked.
    """

    __slots__ = ("memory", "address", "size", "watch", "generation", "edges", "used", "plain")

    def __init__(self, size: int, watch: written.Watch, generation: int, edges: bytes) -> None:
        self.size, self.watch, self.generation, self.edges = size, watch, generation, edges
        self.memory, self.address = aligned(size)
        self.used = 0
        self.plain: bool | None = None

    def is_unwritten(self, start: int, size: int) -> bool:
        """Whether the weight's memory is known to hold what it held when it was packed."""
        watch = self.watch
        return watch.generation == self.generation and watch.unwritten() and written.edges(start, size, watch) == self.edges


class KeptWeights:
    """All packed weights of the process, by place and shape."""

    def __init__(self, least: int = written.LEAST) -> None:
        """`least`: bytes of a weight from which on it is kept."""
        self.held = self.hits = self.packs = self.asked = 0
        self.least = least
        self._known: dict[_Key, Kept] = {}
        self._met: OrderedDict[_Key, None] = OrderedDict()
        self._lock = locks.lock()

    def packed(self, b: _Array, size: int, pack: Callable[[int], None]) -> Kept | None:
        """b, the transpose of a weight in C order, in `size` bytes that `pack(address)` fills; None: it is not kept."""
        if b.nbytes < self.least:
            return None
        start = address(b)
        key = (start, b.shape, b.dtype.char)
        self.asked += 1
        found = self._known.get(key)
        if found is None:
            if not self._again(key) or not self._room(size):
                return None
            watch = written.watch(start, b.nbytes)
        else:
            found.used = self.asked
            if found.is_unwritten(start, b.nbytes):
                self.hits += 1
                return found
            watch = found.watch
        return None if watch is None else self._made(key, b, size, watch, pack)

    def known(self, b: _Array) -> Kept | None:
        """b as it is kept already, where that holds still. Nothing is packed."""
        start = address(b)
        found = self._known.get((start, b.shape, b.dtype.char))
        if found is None or not found.is_unwritten(start, b.nbytes):
            return None
        self.asked += 1
        self.hits += 1
        found.used = self.asked
        return found

    def _made(self, key: _Key, b: _Array, size: int, watch: written.Watch, pack: Callable[[int], None]) -> Kept | None:
        """Pack and keep. In memory of its own: other threads may still be using what was kept before."""
        generation = watch.begin()  # before the weight is read
        if generation is None:
            return None
        made = Kept(size, watch, generation, written.edges(key[0], b.nbytes, watch))
        pack(made.address)
        made.used = self.asked
        self.packs += 1
        with self._lock:
            old = self._known.get(key)
            self.held += size - (0 if old is None else old.size)
            self._known[key] = made
            self._met.pop(key, None)
        return made

    def _again(self, key: _Key) -> bool:
        """Whether this weight was met before."""
        with self._lock:
            if key in self._met:
                return True
            self._met[key] = None
            if len(self._met) > _MAX_MET:
                self._met.popitem(last=False)
            return False

    def _room(self, size: int) -> bool:
        """Whether there is room for so many bytes; idle weights give way."""
        limit = config.current.packed_bytes
        with self._lock:
            while self.held + size > limit and self._known:
                key, oldest = min(self._known.items(), key=lambda item: item[1].used)
                if self.held <= limit and (size > limit or self.asked - oldest.used <= _ROUNDS * len(self._known)):
                    return False
                del self._known[key]
                self.held -= oldest.size
            return self.held + size <= limit

    def forget(self) -> None:
        """Let go of all."""
        with self._lock:
            self._known.clear()
            self._met.clear()
            self.held = 0

    def figures(self) -> dict[str, int]:
        """What is held now, how often a packed weight was used again, and how many were packed for good."""
        return {"held_bytes": self.held, "weights": len(self._known), "hits": self.hits, "packs": self.packs}


weights = KeptWeights()
