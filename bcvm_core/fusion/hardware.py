"""What the system says of the processor: its name and the sizes of its caches. Nothing is measured."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Final

import numpy as np

from ..version import __version__

_SIZES_KIB: Final = (32, 1024, 16 * 1024)  # where the system does not say


def versions() -> str:
    """What was measured besides the processor."""
    return f"numpy {np.__version__}, bcvm {__version__}"


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"


def cache_sizes() -> tuple[int, ...]:
    """Bytes of the data caches of one core, the nearest first; typical ones where the system does not say."""
    found = _from_sysfs() or _from_sysconf() or _from_sysctl()
    sizes = sorted({size for size in found if size > 0}) or [kib << 10 for kib in _SIZES_KIB]
    return tuple(sizes[:3])


def _from_sysfs() -> list[int]:
    out: list[int] = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() != "Instruction":
                text = (index / "size").read_text().strip()
                out.append(int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]])
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return out


def _from_sysconf() -> list[int]:
    names = ("SC_LEVEL1_DCACHE_SIZE", "SC_LEVEL2_CACHE_SIZE", "SC_LEVEL3_CACHE_SIZE")
    known = getattr(os, "sysconf_names", {})
    try:
        return [os.sysconf(name) for name in names if name in known]
    except (OSError, ValueError):
        return []


def _from_sysctl() -> list[int]:
    if sys.platform != "darwin":
        return []
    out: list[int] = []
    for name in ("hw.l1dcachesize", "hw.l2cachesize", "hw.l3cachesize"):
        import subprocess

        done = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=False)
        out.append(int(done.stdout) if done.stdout.strip().isdigit() else 0)
    return out
