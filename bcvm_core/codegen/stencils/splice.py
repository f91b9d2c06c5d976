"""Stencils laid end to end, with their holes filled, in executable memory."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Sequence
from typing import Any, Final

from .allocate import Body, Placed
from .arena import Arena
from .blob import AGAIN, CTX, DATA, KON, NEXT, Blob

_pack: Final = struct.Struct("<i").pack_into
_LIMIT: Final = 65536  # patched stencils kept
_CODES: Final = 4096  # codes remembered before those that are gone are forgotten

Fix = tuple[int, int, int]  # offset, kind (DATA or AGAIN), addend
Patched = tuple[bytes, tuple[Fix, ...]]


class Splicer:
    """Makes kernels from the stencils of one blob, in one arena. The constants of the blob are put there once."""

    def __init__(self, blob: Blob, arena: Arena) -> None:
        """Raises ArenaError."""
        self.blob, self.arena = blob, arena
        self._data = arena.put(blob.data)
        self._memo: dict[Placed, Patched] = {}
        self._codes: dict[Any, weakref.ref[Any]] = {}  # code that kernels hold now

    def held(self, key: Any) -> Any:
        """The code that some kernel holds for `key`, or None."""
        found = self._codes.get(key)
        return None if found is None else found()

    def hold(self, key: Any, code: Any) -> None:
        """Let others find `code` as long as somebody holds it."""
        if len(self._codes) >= _CODES:
            self._codes = {k: r for k, r in list(self._codes.items()) if r() is not None}
        self._codes[key] = weakref.ref(code)

    def splice(self, body: Body) -> tuple[int, int]:
        """(offset in the arena, bytes) of the code of start(ctx, n, constants). Raises ArenaError."""
        parts: list[bytes] = []
        fixes: list[tuple[int, Fix]] = []
        labels = [0, 0, 0]
        at = self._append(_START, 0, parts, fixes)
        labels[_LOOP] = at
        at = self._append(body.stencils, at, parts, fixes)
        at = self._append(_MIDDLE, at, parts, fixes)
        labels[_TAIL] = at
        at = self._append(_TAIL_START, at, parts, fixes)
        at = self._append([_in_tail(p) if p[0][:3] in _MEMORY else p for p in body.stencils], at, parts, fixes)
        labels[_END] = at
        at = self._append(_LAST, at, parts, fixes)
        start = self.arena.reserve(at)
        code = bytearray().join(parts)
        data = self._data - start
        for base, (offset, kind, addend) in fixes:
            place = base + offset
            _pack(code, place, (data + addend if kind == DATA else labels[addend]) - place - 4)
        self.arena.view[start : start + at] = code
        return start, at

    def _append(self, sequence: Sequence[Placed], at: int, parts: list[bytes], fixes: list[tuple[int, Fix]]) -> int:
        """Lay stencils down from `at` on; where the next one goes."""
        memo = self._memo
        for placed in sequence:
            found = memo.get(placed) or self._patched(placed)
            code, own = found
            for fix in own:
                fixes.append((at, fix))
            parts.append(code)
            at += len(code)
        return at

    def _patched(self, placed: Placed) -> Patched:
        """A stencil with all holes filled that don't depend on where it lies."""
        if len(self._memo) >= _LIMIT:
            self._memo.clear()
        name, ctx, kon = placed
        label = _GOES.get(name, -1)
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


_LOOP, _TAIL, _END = 0, 1, 2  # labels
_GOES: Final = {"loop_begin": _TAIL, "loop_end": _LOOP, "tail_begin": _END}
_START: Final[tuple[Placed, ...]] = (("start", 0, 0), ("loop_begin", 0, 0))
_MIDDLE: Final[tuple[Placed, ...]] = (("loop_end", 0, 0),)
_TAIL_START: Final[tuple[Placed, ...]] = (("tail_begin", 0, 0),)
_LAST: Final[tuple[Placed, ...]] = (("finish", 0, 0),)
_MEMORY: Final = {"ld.": "ldm.", "st.": "stm."}  # what the last, partial step uses instead


def _in_tail(placed: Placed) -> Placed:
    name, ctx, kon = placed
    return _MEMORY[name[:3]] + name[3:], ctx, kon
