"""Packed weights: a weight in the order that a primitive wants, kept as long as the weight's memory holds the same elements.

Nobody tells when an array's memory is written (views share it, other libraries write into it), so a use reads the weight once and
compares its digest, which costs a tenth of packing it; but not where the system knows that its pages have not been written since the
last time (`devices.written`). What is kept is bounded by `config.packed_bytes`; the longest unused goes first.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Any

import numpy as np

from ... import config, locks
from ...devices import written
from ..loops import address
from ..scratch import aligned
from .digest import digest
from .library import Library
from .primitives import packed_size, packer, turned

_Array = np.ndarray[Any, Any]


class Packed:
    """A packed weight and the digest of what it was made from."""

    __slots__ = ("memory", "address", "order", "size", "seen", "watch", "generation", "edges")

    def __init__(self, library: Library, weight: _Array, order: int, seen: bytes) -> None:
        self.order = order
        self.size = packed_size(library, order)
        self.memory, self.address = aligned(self.size)
        self.seen = seen
        self.watch: written.Watch | None = None  # from the second use on
        self.generation = 0  # of the watch, in which the digest was right
        self.edges = b""
        with library.limits(1):
            plain = turned(library, weight, order)
            packer(library, order)((address(plain), self.address))

    def is_unwritten(self, start: int, size: int) -> bool:
        """Whether the weight's memory is known to hold what it held when its digest was right."""
        watch = self.watch
        if watch is None or watch.generation != self.generation or not watch.unwritten():
            return False
        return written.edges(start, size, watch) == self.edges

    def begin(self, start: int, size: int) -> int | None:
        """Before the digest is made: the generation of the watch that will vouch for it; None: there is none."""
        if self.watch is None:
            self.watch = written.watch(start, size)
        if self.watch is None:
            return None
        generation = self.watch.begin()
        self.edges = written.edges(start, size, self.watch)
        return generation


class PackedWeights:
    """All packed weights of the process, by place and order."""

    def __init__(self) -> None:
        self.held = 0
        self.hits = self.misses = 0
        self._known: OrderedDict[tuple[int, tuple[int, ...], int], Packed] = OrderedDict()
        self._lock = locks.lock()

    def packed(self, library: Library, weight: _Array, order: int) -> Packed:
        """The weight (float32, C order) in the order of that number. Raises OneDNNError."""
        known = self.unwritten(weight, order)
        if known is not None:
            return known
        start = address(weight)
        key = (start, weight.shape, order)
        found = self._known.get(key)
        generation = None if found is None else found.begin(start, weight.nbytes)
        seen = digest(weight)
        if seen is None:  # no machine code here: packing is as fast as comparing would be
            return Packed(library, weight, order, b"")
        if found is not None and found.seen == seen:
            found.generation = -1 if generation is None else generation
            return self._hit(key, found)
        self.misses += 1
        made = Packed(library, weight, order, seen)
        self._keep(key, made)
        return made

    def unwritten(self, weight: _Array, order: int) -> Packed | None:
        """The weight in that order, where it is there and the system knows that nobody has written into it since."""
        start = address(weight)
        key = (start, weight.shape, order)
        found = self._known.get(key)
        return self._hit(key, found) if found is not None and found.is_unwritten(start, weight.nbytes) else None

    def _hit(self, key: tuple[int, tuple[int, ...], int], found: Packed) -> Packed:
        self.hits += 1
        with contextlib.suppress(KeyError):  # another thread has just dropped it
            self._known.move_to_end(key)
        return found

    def _keep(self, key: tuple[int, tuple[int, ...], int], made: Packed) -> None:
        limit = config.current.packed_bytes
        with self._lock:
            old = self._known.pop(key, None)
            if old is not None:
                self.held -= old.size
            if made.size > limit:
                return
            self._known[key] = made
            self.held += made.size
            while self.held > limit:
                _, gone = self._known.popitem(last=False)
                self.held -= gone.size

    def forget(self) -> None:
        """Let go of all."""
        with self._lock:
            self._known.clear()
            self.held = 0

    def figures(self) -> dict[str, int]:
        """What is held now, and how often a packed weight was used again."""
        return {"held_bytes": self.held, "weights": len(self._known), "hits": self.hits, "misses": self.misses}


weights = PackedWeights()
