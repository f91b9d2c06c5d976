"""The default device: host memory, NumPy arrays, the machine's own cores."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _cache_sizes() -> dict[str, int]:
    """Bytes of the data caches of core 0 by level ("L1", "L2", "L3"); empty where the system does not say."""
    sizes: dict[str, int] = {}
    units = {"K": 1024, "M": 1024 * 1024}
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind = (folder / "type").read_text().strip()
            level = (folder / "level").read_text().strip()
            size = (folder / "size").read_text().strip()
            if kind != "Instruction":
                sizes[f"L{level}"] = int(size[:-1]) * units[size[-1]] if size[-1] in units else int(size)
        except (OSError, ValueError):
            continue
    return sizes


class CpuDevice:
    """Host memory. Values that are arrays are here already."""

    name = "cpu:0"
    memory = "host"

    def put(self, value: Any) -> Any:
        """The value itself when it is in host memory; otherwise what its `copy_to_host` gives."""
        copy = getattr(value, "copy_to_host", None)
        return value if copy is None else copy()

    def describe(self) -> dict[str, Any]:
        """Cores this process may use, and cache sizes in bytes."""
        affinity = getattr(os, "sched_getaffinity", None)
        cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
        return {"name": self.name, "cores": cores, "caches_bytes": dict(_cache_sizes())}


cpu = CpuDevice()
