"""Which kernels are hot: runs counted per class of sizes, better code where there is some, and what was found out about each class.

A class is the set of operands that have one element all along the inner axis, and the number of elements to a power of two. It is hot
when `HOT_RUNS` runs in a row took longer than `config.hot_threshold_ms`; what happens then is a matter of `recompile.py`. After a search
that came to nothing twice as many runs are asked for, then four times as many, and so on. What was found out is kept by what the kernel
does, so it is still known when the kernel itself was thrown away.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .. import config, grouping, locks
from ..codegen.stencils import kernel as kernels

if TYPE_CHECKING:
    from .race import Race

HOT_RUNS: Final = 10
_MOST_RUNS: Final = 10 << 10
_CLASSES: Final = 64  # per kernel
_VERDICTS: Final = 1024
_SHARE: Final = 4  # calls that are predicted to take this part of the threshold are counted
_PIECES: Final = 16  # of a call that candidates take part in

KEPT, DROPPED, ABANDONED = "recompiled", "not worth optimising", "compile abandoned"


@dataclass(slots=True)
class Verdict:
    """What is known of one class. `state`: one of the words above, "searching", "measuring", or "" while it is not hot."""

    ops: tuple[str, ...]
    elements: int  # the most of its class
    state: str = ""
    reason: str = ""
    needed: int = HOT_RUNS  # runs in a row
    run_ns: int = 0  # the latest run of the spliced kernel
    compile_ms: float = 0.0  # from the request to the answer
    profile: list[str] = field(default_factory=list)  # a line per candidate

    def back_off(self) -> None:
        """Ask for twice as many runs before the next search."""
        self.needed = min(2 * self.needed, _MOST_RUNS)

    def lines(self) -> list[str]:
        """For people."""
        if not self.state:
            return []
        took = f", {self.run_ns / 1e6:.3g} ms a run, answer after {self.compile_ms:.0f} ms" if self.compile_ms else ""
        why = f": {self.reason}" if self.reason else ""
        return [f"up to {self.elements:,} elements: {self.state}{why}{took}", *(f"  {line}" for line in self.profile)]


_verdicts: OrderedDict[Any, Verdict] = OrderedDict()
_lock = locks.lock()


def verdict_for(key: Any, ops: tuple[str, ...], elements: int) -> Verdict:
    """What is known of a class, by what its kernel does; the oldest that nobody asked for is forgotten when there are many."""
    with _lock:
        found = _verdicts.get(key)
        if found is None:
            found = _verdicts[key] = Verdict(ops, elements)
            if len(_verdicts) > _VERDICTS:
                _verdicts.popitem(last=False)
        _verdicts.move_to_end(key)
        return found


def verdicts() -> tuple[Verdict, ...]:
    """All that are kept and were hot at some time."""
    with _lock:
        return tuple(v for v in _verdicts.values() if v.state)


def forget() -> None:
    """Know nothing any more; code in use stays."""
    with _lock:
        _verdicts.clear()


def class_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The class of a shape: the bits of its number of elements; under `config.specialise` = "shape" the shape itself, after its rank.

    Sizes that `bcvm.clamp_batch_size` groups count as their group: one version for all of it, which takes any size as it is.
    """
    sizes = grouping.grouped(shape)
    if config.current.specialise == "shape":
        return len(sizes), *sizes
    return (math.prod(sizes).bit_length(),)


class HotClass:
    """One class of one kernel: runs in a row, and what runs instead of the spliced code."""

    __slots__ = ("verdict", "count", "code", "race", "asked")

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.count = 0
        self.code: kernels.Placed | None = None
        self.race: Race[Any] | None = None
        self.asked = False  # candidates for it are on their way


class Heat:
    """The `heat` of one kernel."""

    __slots__ = ("ops", "classes")

    def __init__(self, ops: tuple[str, ...]) -> None:
        self.ops = ops
        self.classes: dict[tuple[int, ...], HotClass] = {}

    def __call__(
        self, kernel: kernels.FusedKernel, made: list[Any], common: Any, pieces: list[kernels.Piece], cores: int
    ) -> tuple[int, int]:
        mask = next((mask for mask, code in list(kernel.codes.items()) if code is common[0]), 0)
        key = (mask, *class_of(made[0].shape))
        found = self.classes.get(key) or self._meet(kernel, key)
        race = found.race
        if race is not None:
            return self._measured(kernel, found, race, common, pieces, cores)
        if found.code is not None:
            return kernel.run((found.code, *common[1:]), pieces, cores)
        started = time.perf_counter_ns()
        result = kernel.run(common, pieces, cores)
        self._ran(kernel, found, mask, time.perf_counter_ns() - started)
        return result

    def _meet(self, kernel: kernels.FusedKernel, key: tuple[int, ...]) -> HotClass:
        mask, *sizes = key
        if len(self.classes) >= _CLASSES:
            self.classes.clear()
        most = (1 << sizes[0]) - 1 if len(sizes) == 1 else math.prod(sizes[1:])
        found = HotClass(verdict_for((*kernel.form_of(mask), *sizes), self.ops, most))
        return self.classes.setdefault(key, found)

    def _ran(self, kernel: kernels.FusedKernel, found: HotClass, mask: int, spent_ns: int) -> None:
        if spent_ns <= config.current.hot_threshold_ms * 1e6:
            found.count = 0
            return
        found.count += 1
        if found.count < found.verdict.needed or found.asked or not config.current.recompile:
            return
        found.count = 0
        found.verdict.run_ns = spent_ns
        from . import recompile  # which is there for hot kernels only

        recompile.ask(kernel, found, mask)

    def _measured(
        self, kernel: kernels.FusedKernel, found: HotClass, race: Race[Any], common: Any, pieces: list[kernels.Piece], cores: int
    ) -> tuple[int, int]:
        """Run the pieces, some of them by candidates."""
        if len(pieces) < _PIECES // 2:
            target = sum(math.prod(dims) for _, dims, _ in pieces) // _PIECES
            pieces = [part for piece in pieces for part in kernels.split(*piece, max(1, target))]

        def run_piece(common: Any, piece: kernels.Piece) -> tuple[int, int]:
            ticket, code = race.take()
            started = time.thread_time_ns()
            result = kernel.run_piece((code, *common[1:]), piece)
            if ticket is not None:
                race.note(ticket, time.thread_time_ns() - started, math.prod(piece[1]))
            return result

        result = kernel.run(common, pieces, cores, run_piece)
        if race.over:
            from . import recompile

            recompile.finish(found, race)
        return result

    def lines(self) -> list[str]:
        """What became of its classes."""
        return [line for found in list(self.classes.values()) for line in found.verdict.lines()]

    @property
    def recompiled(self) -> bool:
        """Whether some class runs by other code than the spliced one."""
        return any(found.code is not None for found in list(self.classes.values()))


def watch(kernel: kernels.FusedKernel, ops: tuple[str, ...]) -> None:
    """Count the runs of a kernel from now on (before its entry is asked for)."""
    if not config.current.recompile:
        return
    kernel.heat = Heat(ops)
    counted_ns = config.current.hot_threshold_ms * 1e6 / _SHARE
    kernel.limit = max(1, min(kernel.limit, int(counted_ns / kernel.ns_per_element)))
