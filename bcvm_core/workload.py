"""Workloads on paper: which call sites ran which kernels on which shapes, when; never what was in the arrays.

`with bcvm.record("workload.rec"):` writes a file, a JSON list per line, that `bcvm cache tune workload.rec` reads. Recording costs some
microseconds a call, for every region goes through Python meanwhile.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

from . import locks
from .cache import tuning
from .cache.memory import name_of
from .cache.tuning import Call, Kernel
from .errors import BcvmError
from .profiler import place_text
from .progress import Bar, bar
from .tiers.fuse import FusedSite, Use
from .tiers.recorded import recorded
from .version import __version__

FORMAT: Final = 1


class WorkloadError(BcvmError):
    """A file that is no recorded workload."""


class Recorder:
    """A block whose calls of fused kernels are written down; what `record()` gives. `calls` counts them."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.calls = 0
        self._numbers: dict[Any, int] = {}
        self._file: IO[str] | None = None
        self._lock = locks.lock()

    def __enter__(self) -> Recorder:
        """Begin. Raises OSError where the file cannot be written, RuntimeError in the block itself."""
        if self._file is not None:
            raise RuntimeError("this recorder is at work already")
        self._file = self.path.open("w", encoding="utf-8")
        self._numbers, self.calls, self._started = {}, 0, time.perf_counter()
        self._write("workload", FORMAT, __version__)
        self._leave = recorded.subscribe(self.note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._leave()
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None

    def note(self, site: FusedSite, use: Use, values: Sequence[Any]) -> None:
        """One call."""
        shapes = tuple((str(v.dtype), v.shape) for v in values)
        now = time.perf_counter() - self._started
        with self._lock:
            if self._file is None:
                return
            where = place_text(site.where), "+".join(site.segment.names)
            numbers = self._number("site", where), self._number("kernel", _described(use)), self._number("shapes", shapes)
            self._write("call", round(now, 6), *numbers)
            self.calls += 1

    def _number(self, kind: str, what: tuple[Any, ...]) -> int:
        """The number by which lines refer to something; it is written out before its first use."""
        found = self._numbers.get((kind, what[0] if kind == "kernel" else what))
        if found is None:
            found = self._numbers[kind, what[0] if kind == "kernel" else what] = len(self._numbers)
            self._write(kind, found, *what)
        return found

    def _write(self, *line: Any) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")


def record(path: str | os.PathLike[str]) -> Recorder:
    """Write a block's workload to a file: ``with bcvm.record("workload.rec"): ...``."""
    return Recorder(path)


def _described(use: Use) -> tuple[str, int, float]:
    """(name, bytes, microseconds of splicing) of a kernel; equal code has one name within a file."""
    return name_of(use.key), sum(size for _, size in use.sizes()), use.splice_us


# -- reading ------------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> list[Call]:
    """The calls of a recorded workload. Raises WorkloadError for other files, OSError where there is none."""
    lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    try:
        if not lines or json.loads(lines[0])[:2] != ["workload", FORMAT]:
            raise ValueError
        return list(_calls(lines[1:]))
    except (ValueError, KeyError, TypeError, IndexError):
        raise WorkloadError(f"{path} is no recorded workload", fix='record one: with bcvm.record("workload.rec"): ...') from None


def _calls(lines: list[str]) -> Iterator[Call]:
    kernels: dict[int, Kernel] = {}
    shapes: dict[int, tuple[tuple[str, tuple[int, ...]], ...]] = {}
    for number, line in enumerate(lines):
        try:
            kind, *rest = json.loads(line)
        except ValueError:
            if number == len(lines) - 1:  # of a process that was killed
                return
            raise
        if kind == "kernel":
            kernels[rest[0]] = Kernel(str(rest[1]), int(rest[2]), float(rest[3]))
        elif kind == "shapes":
            shapes[rest[0]] = tuple((str(dtype), tuple(map(int, shape))) for dtype, shape in rest[1:])
        elif kind == "call":
            at, site, kernel, operands = rest
            yield Call(float(at), kernels[kernel], int(site), shapes[operands])


def tuning_report(calls: list[Call], progress: bool | Bar | None = False) -> str:
    """What replaying a workload says, as text: a table of settings, and what is recommended. `progress`: as of `bcvm.warmup`."""
    from .cache.memory import limits_now

    if not calls:
        return "no calls of fused kernels were recorded"
    now = limits_now()
    outcomes, best = tuning.tune(calls, now, bar("tuning", progress))
    sites, shapes = len({call.site for call in calls}), len({(call.site, call.shapes) for call in calls})
    kernels = len({call.kernel.key for call in calls})
    lines = [
        f"{len(calls):,} calls in {calls[-1].at_s:.1f} s: {sites:,} call sites, {shapes:,} different shapes at them, {kernels:,} kernels",
        "",
        f"{'size':>6}{'ttl, s':>8}{'bytes':>13}{'spliced':>9}{'again':>8}{'splice ms':>11}{'most held':>11}{'bytes held':>12}",
    ]
    for outcome in outcomes:
        limits, mark = outcome.limits, "  <- now" if outcome.limits == now else "  <- recommended" if outcome is best else ""
        lines.append(
            f"{limits.size:>6}{limits.ttl_s:>8g}{limits.code_bytes:>13,}{outcome.spliced:>9,}{outcome.again:>8,}"
            f"{outcome.splice_us / 1000:>11.2f}{outcome.peak_entries:>11,}{outcome.peak_bytes:>12,}{mark}"
        )
    limits = best.limits
    settings = f"BCVM_CACHE_SIZE={limits.size} BCVM_CACHE_TTL={limits.ttl_s:g} BCVM_CACHE_BYTES={limits.code_bytes}"
    return "\n".join([*lines, "", "keep the settings as they are" if limits == now else f"recommended: {settings}"])
