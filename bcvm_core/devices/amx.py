"""The matrix unit of newer Intel processors (AMX), which a process may use once it has asked the system."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from pathlib import Path
from typing import Final

_NEEDED: Final = {"amx_tile", "amx_bf16"}
_ARCH_PRCTL: Final = 158  # the system call,
_ASK: Final = 0x1023  # what is asked of it: leave to use
_TILES: Final = 18  # this part of a thread's state


@functools.cache
def allowed() -> bool:
    """Whether there is such a unit and this process may use it; the system is asked once.

    Linux grants it for good, to all threads and to processes forked from this one, unless a thread handles signals on a stack that is too
    small for the unit's registers.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64" or not _there():
        return False
    return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ASK, _TILES) == 0)


def _there() -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return set(flags.split()) >= _NEEDED
