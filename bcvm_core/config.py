"""All knobs, typed, in one place. Each has an environment variable, read once at import.

Change one at run time with ``with config.override(name=value): ...`` or by assigning to
``config.current``'s attribute; nothing else in the package reads environment variables.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Final

_TRUE = {"1", "true", "yes", "on"}


def _flag(name: str, default: bool) -> bool:
    value = os.environ.get(name)
    return default if value is None else value.strip().lower() in _TRUE


def _int(name: str, default: int) -> int:
    value = os.environ.get(name)
    try:
        return default if value is None else int(value)
    except ValueError:
        return default


def _float(name: str, default: float) -> float:
    value = os.environ.get(name)
    try:
        return default if value is None else float(value)
    except ValueError:
        return default


OFF, WATCHED, EXCHANGED, RECORDED = 1, 2, 4, 8
plain = ctypes.c_int64(0)
"""Not 0 while linked code must ask its regions at every call, where machine code would not: `OFF` while nothing is fused,
`WATCHED` while every call is measured, `EXCHANGED` while the user's own kernels stand in for those of some ops,
`RECORDED` while somebody writes down which calls there are."""


def memory() -> int:
    """Bytes of memory that this process may use: the machine's, or what its group is limited to; 2 GiB where nobody says."""
    found = 2 << 30
    with contextlib.suppress(AttributeError, OSError, ValueError):
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:
        found = min(found, int(limit.read()))  # "max" is no number
    return max(found, 1 << 20)


EIGHTH: Final = max(256 << 20, memory() // 8)  # leaves room for the weights themselves, activations, and others


def _mark(bit: int, on: bool) -> None:
    plain.value = plain.value & ~bit | (bit if on else 0)


@dataclass(slots=True)
class Config:
    """The knobs. Environment variables: see the comment of each field."""

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in ("enabled", "fuse", "force_tier") and self is globals().get("current"):
            _mark_off(self)

    enabled: bool = True  # BCVM_DISABLE=1 turns everything off
    bytecode_vm: bool = False  # MS_ENABLE_BYTECODE_VM=1 runs every `nn.Cell` through the VM, as `bcvm.enable()` does (read once)
    log_level: str = "WARNING"  # MS_LOG_LEVEL: DEBUG (or 0) prints a line for each kernel that is chosen or spliced
    use_llvm: bool = True  # BCVM_LLVM=0: no generated code, NumPy expressions of the same algorithms
    prune_after: int = 8  # BCVM_PRUNE_AFTER: misses without a hit before a probe is taken out
    cache_dir: str | None = None  # BCVM_CACHE_DIR: where compiled template kernels are kept
    force_tier: str | None = None  # BCVM_FORCE_TIER: "interpreter", "linked" or "plain" instead of the best that works
    fuse: bool = True  # BCVM_FUSE=0: no fused kernels, every op runs by itself
    site_cache: int = 64  # BCVM_SITE_CACHE: operand combinations that one CALL_OP remembers
    cache_size: int = 200  # BCVM_CACHE_SIZE: fused kernels of different code that are kept
    cache_ttl_s: float = 300.0  # BCVM_CACHE_TTL: seconds without a call after which one may go
    cache_bytes: int = 32 << 20  # BCVM_CACHE_BYTES: memory for their code
    fusion_engine: str = "auto"  # BCVM_FUSION_ENGINE: "auto" or "tape" (ops block by block, without machine code)
    onednn: str = "auto"  # BCVM_ONEDNN=0: no oneDNN; a path: this library instead of the one that is found
    packed_bytes: int = EIGHTH  # BCVM_PACKED_BYTES: memory of packed weights of convolutions, and as much for products; an eighth of all
    watch_writes: bool = True  # BCVM_WATCH_WRITES=0: weights are read at each use, even where the system tells that nobody wrote them
    reproducible: bool = False  # BCVM_REPRODUCIBLE=1: products of floats have bits that depend on neither threads nor the number of rows
    amx: bool = True  # BCVM_AMX=0: products of float32 without the processor's matrix unit
    recycled_bytes: int = 64 << 20  # BCVM_RECYCLED_BYTES: memory of large results kept for the next ones (read once); 0: none
    recompile: bool = True  # BCVM_RECOMPILE=0: hot kernels stay as they were spliced
    hot_threshold_ms: float = 5.0  # BCVM_HOT_THRESHOLD_MS: a kernel whose runs take longer than this, ten times in a row, is hot
    specialise: str = "class"  # BCVM_SPECIALISE: "class" or "shape", whether recompiled kernels are for a class of sizes or for one shape
    search: str = "llvm"  # BCVM_SEARCH: the back end that makes candidates for hot kernels
    compile_budget_ms: float = 100.0  # BCVM_COMPILE_BUDGET_MS: calls that run op by op because a compile takes longer are counted
    machine: str | None = (
        None  # BCVM_MACHINE: a file of figures to predict times by (`bcvm machine --json`), instead of those measured here
    )


def _from_environment() -> Config:
    return Config(
        enabled=not _flag("BCVM_DISABLE", False),
        bytecode_vm=_flag("MS_ENABLE_BYTECODE_VM", False),
        log_level=os.environ.get("MS_LOG_LEVEL", "WARNING"),
        use_llvm=_flag("BCVM_LLVM", True),
        prune_after=_int("BCVM_PRUNE_AFTER", 8),
        cache_dir=os.environ.get("BCVM_CACHE_DIR") or None,
        force_tier=os.environ.get("BCVM_FORCE_TIER") or None,
        fuse=_flag("BCVM_FUSE", True),
        site_cache=max(1, _int("BCVM_SITE_CACHE", 64)),
        cache_size=_int("BCVM_CACHE_SIZE", 200),
        cache_ttl_s=_float("BCVM_CACHE_TTL", 300.0),
        cache_bytes=_int("BCVM_CACHE_BYTES", 32 << 20),
        fusion_engine=os.environ.get("BCVM_FUSION_ENGINE") or "auto",
        onednn=os.environ.get("BCVM_ONEDNN") or "auto",
        packed_bytes=_int("BCVM_PACKED_BYTES", EIGHTH),
        watch_writes=_flag("BCVM_WATCH_WRITES", True),
        reproducible=_flag("BCVM_REPRODUCIBLE", False),
        amx=_flag("BCVM_AMX", True),
        recycled_bytes=_int("BCVM_RECYCLED_BYTES", 64 << 20),
        recompile=_flag("BCVM_RECOMPILE", True),
        hot_threshold_ms=_float("BCVM_HOT_THRESHOLD_MS", 5.0),
        specialise=os.environ.get("BCVM_SPECIALISE") or "class",
        search=os.environ.get("BCVM_SEARCH") or "llvm",
        compile_budget_ms=_float("BCVM_COMPILE_BUDGET_MS", 100.0),
        machine=os.environ.get("BCVM_MACHINE") or None,
    )


def _mark_off(knobs: Config) -> None:
    _mark(OFF, not knobs.enabled or not knobs.fuse or knobs.force_tier is not None)


current = _from_environment()
_mark_off(current)


def watched(on: bool) -> None:
    """Somebody measures every call (or stops to): machine code asks its regions meanwhile."""
    _mark(WATCHED, on)


def recorded(on: bool) -> None:
    """Somebody writes down every call (or stops to)."""
    _mark(RECORDED, on)


def exchanged(on: bool) -> None:
    """Some ops run by kernels, or are selected by rules, of the user's own."""
    _mark(EXCHANGED, on)


@contextmanager
def override(**changes: Any) -> Iterator[Config]:
    """Set knobs for the length of a `with` block. Unknown names raise TypeError."""
    known = {f.name for f in fields(Config)}
    unknown = set(changes) - known
    if unknown:
        raise TypeError(f"no such knob: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    saved = {name: getattr(current, name) for name in changes}
    for name, value in changes.items():
        setattr(current, name, value)
    try:
        yield current
    finally:
        for name, value in saved.items():
            setattr(current, name, value)
