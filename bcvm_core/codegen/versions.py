"""One loop of machine code: have any of these dictionaries changed since their versions were taken?"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from . import loader
from .loops import MAKERS, Loop, loop_for

DICT_VERSION = 24  # ma_version_tag: after the object head (16 bytes) and ma_used

_CHANGED = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)  # no other thread runs meanwhile
_IR = """
define i32 @changed(ptr %table, i64 %count) {
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %same, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %step ]
  %row = getelementptr { ptr, i64 }, ptr %table, i64 %i
  %where = load ptr, ptr %row
  %known = getelementptr { ptr, i64 }, ptr %table, i64 %i, i32 1
  %then = load i64, ptr %known
  %now = load i64, ptr %where
  %equal = icmp eq i64 %now, %then
  br i1 %equal, label %step, label %differs
step:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %same
same:
  ret i32 0
differs:
  ret i32 1
}
"""


class VersionLoop(Loop):
    """`changed(table, count)`: rows of (address of a 64-bit number, its value then); None until it is ready."""

    __slots__ = ("changed",)

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.changed: Callable[[int, int], int] | None = None

    def _ir(self) -> str:
        return _IR

    def _symbols(self) -> list[str]:
        return ["changed"]

    def _take(self, found: dict[str, int]) -> None:
        self.changed = _CHANGED(found["changed"])


MAKERS["versions"] = VersionLoop


def comparer() -> Callable[[int, int], int] | None:
    """The function, or None where no code can be made, and while it is on its way."""
    if not loader.SUPPORTED:
        return None
    loop = loop_for("versions", "uint64")
    assert isinstance(loop, VersionLoop)
    return loop.changed
