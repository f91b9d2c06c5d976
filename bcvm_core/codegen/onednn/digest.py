"""A digest of an array's memory at the speed of memory, in generated code.

32 lanes of 64 bits. Each step folds a lane's upper half into the lower, multiplies by an odd number (both can be undone, so no difference
is lost, and it spreads over all bits) and joins the next 8 bytes by exclusive or: exchanging elements changes the digest as writing does.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from ... import config
from .. import loops

_LANES: Final = 32
_BLOCK: Final = 8 * _LANES
_FACTOR: Final = 0x9E3779B97F4A7C15  # odd, with as many ones as zeros
_CALL: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_QUICK: Final = 4096  # bytes up to which the memory itself is compared


def module(dtype: str) -> str:
    """LLVM IR of `digest_<dtype>(blocks, memory, state)`."""
    v = f"<{_LANES} x i64>"

    def all_of(value: int) -> str:
        return f"<{', '.join([f'i64 {value}'] * _LANES)}>"

    return f"""
define void @digest_{dtype}(i64 %n, ptr %x, ptr %state) {{
entry:
  %first = load {v}, ptr %state, align 8
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %end
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %s = phi {v} [%first, %entry], [%t, %loop]
  %at = mul i64 %i, {_BLOCK}
  %p = getelementptr i8, ptr %x, i64 %at
  %w = load {v}, ptr %p, align 4
  %high = lshr {v} %s, {all_of(32)}
  %folded = xor {v} %s, %high
  %m = mul {v} %folded, {all_of(_FACTOR)}
  %t = xor {v} %m, %w
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %last = phi {v} [%first, %entry], [%t, %loop]
  store {v} %last, ptr %state, align 8
  ret void
}}
"""


class DigestLoop(loops.Loop):
    """The loop; None until it is ready."""

    __slots__ = ("run",)

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.run: Any = None

    def _ir(self) -> str:
        return module(self.dtype)

    def _symbols(self) -> list[str]:
        return [f"digest_{self.dtype}"]

    def _take(self, found: dict[str, int]) -> None:
        self.run = _CALL(found[f"digest_{self.dtype}"])


loops.MAKERS["digest"] = DigestLoop
_START: Final = np.arange(1, _LANES + 1, dtype=np.uint64) * np.uint64(_FACTOR)


def digest(array: np.ndarray[Any, Any]) -> bytes | None:
    """Bytes that differ where two arrays in C order of one size differ; None while there is no code for it."""
    size = array.nbytes
    if size <= _QUICK:
        return array.tobytes()
    if not config.current.use_llvm:
        return None
    loop = loops.loop_for("digest", "float32")
    assert isinstance(loop, DigestLoop)
    if loop.run is None:
        return None
    state = _START.copy()
    blocks, rest = divmod(size, _BLOCK)
    start = loops.address(array)
    loop.run(blocks, start, loops.address(state))
    return state.tobytes() + (ctypes.string_at(start + size - rest, rest) if rest else b"")
