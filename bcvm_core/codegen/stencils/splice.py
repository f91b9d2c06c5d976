"""Stencils laid end to end, with their holes filled, in executable memory."""

from __future__ import annotations

import struct
from typing import Any, Final

from .allocate import Body, Placed
from .arena import Arena
from .blob import AGAIN, CTX, DATA, KON, NEXT, Blob

_pack: Final = struct.Struct("<i").pack_into
_LIMIT: Final = 65536  # patched stencils kept
_TAIL: Final = {"ld.": "ldm.", "st.": "stm."}  # what the last, partial step uses instead

Fix = tuple[int, int, int]  # offset, kind (DATA or AGAIN), addend
Patched = tuple[bytes, tuple[Fix, ...]]


class Splicer:
    """Makes kernels from the stencils of one blob, in one arena. The constants of the blob are put there once."""

    def __init__(self, blob: Blob, arena: Arena) -> None:
        """Raises ArenaError."""
        self.blob, self.arena = blob, arena
        self._data = arena.put(blob.data)
        self._memo: dict[Placed, Patched] = {}

    def splice(self, body: Body) -> tuple[int, int]:
        """(offset in the arena, bytes) of the code of start(ctx, n, constants). Raises ArenaError."""
        parts: list[bytes] = []
        fixes: list[tuple[int, Fix]] = []
        at = 0
        memo = self._memo
        labels = {}
        for placed in _sequence(body):
            name = placed[0]
            if name[0] == ":":
                labels[name] = at
                continue
            found = memo.get(placed)
            if found is None:
                found = self._patched(placed)
            code, own = found
            for fix in own:
                fixes.append((at, fix))
            parts.append(code)
            at += len(code)
        start = self.arena.reserve(at)
        view = self.arena.view
        view[start : start + at] = b"".join(parts)
        data = self._data - start
        for base, (offset, kind, addend) in fixes:
            place = base + offset
            target = data + addend if kind == DATA else labels[_LABELS[addend]]
            _pack(view, start + place, target - place - 4)
        return start, at

    def _patched(self, placed: Placed) -> Patched:
        """A stencil with all holes filled that don't depend on where it lies."""
        if len(self._memo) >= _LIMIT:
            self._memo.clear()
        name, ctx, kon = placed
        label = -1
        if name in _GOES:
            label = _GOES[name]
        code, holes = self.blob.stencils[name]
        patched = bytearray(code)
        fixes: list[Fix] = []
        for offset, kind, addend in holes:
            if kind == CTX:
                _pack(patched, offset, ctx + addend)
            elif kind == KON:
                _pack(patched, offset, kon + addend)
            elif kind == NEXT:
                _pack(patched, offset, len(code) - offset - 4)
            elif kind == AGAIN:
                fixes.append((offset, AGAIN, label))
            else:
                fixes.append((offset, DATA, addend))
        found = self._memo[placed] = (bytes(patched), tuple(fixes))
        return found


_LABELS: Final = (":loop", ":tail", ":end")
_GOES: Final = {"loop_begin": 1, "loop_end": 0, "tail_begin": 2}
_START: Final[tuple[Placed, ...]] = (("start", 0, 0), ("loop_begin", 0, 0), (":loop", 0, 0))
_MIDDLE: Final[tuple[Placed, ...]] = (("loop_end", 0, 0), (":tail", 0, 0), ("tail_begin", 0, 0))
_LAST: Final[tuple[Placed, ...]] = ((":end", 0, 0), ("finish", 0, 0))


def _sequence(body: Body) -> list[Placed]:
    """The whole kernel: a loop over whole steps, then one partial step."""
    tail: list[Any] = []
    for placed in body.stencils:
        name = placed[0]
        other = _TAIL.get(name[:3])
        tail.append(placed if other is None else (other + name[3:], placed[1], placed[2]))
    return [*_START, *body.stencils, *_MIDDLE, *tail, *_LAST]
