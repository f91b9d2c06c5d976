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
        self._memo: dict[Placed, tuple[bytes, tuple[Fix, ...], bytes, tuple[Fix, ...]]] = {}
        self._frame = self._joined(("start", "loop_begin")), self._joined(("loop_end", "tail_begin")), self._joined(("finish",))
        self._loop_end = len(self._patched(("loop_end", 0, 0))[0])
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
        before, between, after = self._frame
        parts = [before[0]]
        tail = [between[0]]
        fixes = list(before[1])  # within the loop and what is around it
        tail_fixes = list(between[1])
        loop = at = len(before[0])
        in_tail = len(between[0])
        memo = self._memo
        for placed in body.stencils:
            code, own, last, own_last = memo.get(placed) or self._both(placed)
            parts.append(code)
            tail.append(last)
            for offset, kind, addend in own:
                fixes.append((at + offset, kind, addend))
            for offset, kind, addend in own_last:
                tail_fixes.append((in_tail + offset, kind, addend))
            at += len(code)
            in_tail += len(last)
        end = at + in_tail
        labels = (loop, at + self._loop_end, end)
        fixes += [(at + offset, kind, addend) for offset, kind, addend in tail_fixes]
        fixes += [(end + offset, kind, addend) for offset, kind, addend in after[1]]
        parts += tail
        parts.append(after[0])
        size = end + len(after[0])
        start = self.arena.reserve(size)
        code_bytes = bytearray().join(parts)
        data = self._data - start
        for place, kind, addend in fixes:
            _pack(code_bytes, place, (data + addend if kind == DATA else labels[addend]) - place - 4)
        self.arena.view[start : start + size] = code_bytes
        return start, size

    def _both(self, placed: Placed) -> tuple[bytes, tuple[Fix, ...], bytes, tuple[Fix, ...]]:
        """A stencil with all holes filled that don't depend on where it lies: for the loop, and for the last, partial step."""
        if len(self._memo) >= _LIMIT:
            self._memo.clear()
        code = self._patched(placed)
        found = self._memo[placed] = (*code, *(self._patched(_in_tail(placed)) if placed[0][:3] in _MEMORY else code))
        return found

    def _joined(self, names: Sequence[str]) -> Patched:
        """Stencils without operands, end to end."""
        code, fixes = b"", []
        for name in names:
            own, holes = self._patched((name, 0, 0))
            fixes += [(len(code) + offset, kind, addend) for offset, kind, addend in holes]
            code += own
        return code, tuple(fixes)

    def _patched(self, placed: Placed) -> Patched:
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
        return bytes(patched), tuple(fixes)


_LOOP, _TAIL, _END = 0, 1, 2  # labels
_GOES: Final = {"loop_begin": _TAIL, "loop_end": _LOOP, "tail_begin": _END}
_MEMORY: Final = {"ld.": "ldm.", "st.": "stm."}  # what the last, partial step uses instead


def _in_tail(placed: Placed) -> Placed:
    name, ctx, kon = placed
    return _MEMORY[name[:3]] + name[3:], ctx, kon
