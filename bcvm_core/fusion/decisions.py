"""What was decided about fusing, with the numbers: records that are kept for a while and can be asked for.

A record is cheap to keep: it holds what the decision was made from, and the numbers are worked out when somebody reads them, by the same
rule and from the same figures as at first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from .. import locks
from .costs import Part
from .groups import Group

KEPT = 256  # decisions, the latest


@dataclass(slots=True)
class Measured:
    """What calls of the chosen kernels took, where somebody timed them: nanoseconds."""

    calls: int = 0
    total_ns: int = 0
    best_ns: int = 0

    def note(self, spent_ns: int) -> None:
        """One more call. Threads may lose a count in a race."""
        self.best_ns = spent_ns if not self.calls else min(self.best_ns, spent_ns)
        self.calls += 1
        self.total_ns += spent_ns


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a group: its parts, one kernel each. `reason`: why it was not chosen, "" for the one that was."""

    name: str
    parts: tuple[Part, ...]
    reason: str = ""

    @property
    def predicted_ns(self) -> float:
        return sum(part.prediction.total_ns for part in self.parts)


@dataclass(frozen=True, slots=True)
class Decision:
    """Which candidate was chosen for a group, by which figures ("nominal", "measured" or a file); `mismatch`: why there is none.

    `runs`: the choice is carried out. Otherwise it says what kernels that can do so should do.
    """

    group: Group
    source: str
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    mismatch: str = ""
    runs: bool = False

    @property
    def title(self) -> str:
        made = {step.result for step in self.group.steps}
        shapes = ", ".join(str(v) for k, v in enumerate(self.group.values) if k not in made)
        return f"{self.group.title} on {shapes}"

    def lines(self, measured: Measured | None = None) -> list[str]:
        """The record for people: the choice, its numbers, then the others with the reason against each."""
        if self.chosen is None:
            return [f"{self.title}: [REJECTED] {self.mismatch}"]
        took = f", measured {_time(measured.best_ns)} (best of {measured.calls})" if measured is not None and measured.calls else ""
        out = [f"{self.title}: {self.chosen.name}, predicted {_time(self.chosen.predicted_ns)}{took}"]
        out += [f"  {line}" for line in map(self._numbers, self.chosen.parts)]
        out.append(f"  by {self.source} figures" + ("" if self.runs else "; no kernel acts on this choice yet"))
        out += [f"  {c.name}: predicted {_time(c.predicted_ns)} [REJECTED] {c.reason}" for c in self.candidates if c is not self.chosen]
        return out

    def _numbers(self, part: Part) -> str:
        p = part.prediction
        names = ", ".join(self.group.steps[k].name for k in part.steps)
        cores = f"{part.threads} threads, " if part.threads > 1 else ""
        return (
            f"{names}: {cores}{part.operations:.3g} operations, {part.nbytes:.3g} bytes in {p.level}, {part.density:.2g} per byte; "
            f"compute {_time(p.compute_ns)}, traffic {_time(p.traffic_ns)}, call {_time(p.overhead_ns)}: bound by {p.bound}"
        )


def _time(ns: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


@dataclass(eq=False)
class Record:
    """A decision that was met while running, and what was measured since."""

    make: Callable[[], Decision] = field(repr=False)
    measured: Measured = field(default_factory=Measured)
    _made: Decision | None = None

    @property
    def decision(self) -> Decision:
        if self._made is None:
            self._made = self.make()
        return self._made

    def lines(self) -> list[str]:
        """As `Decision.lines`, with what was measured."""
        return self.decision.lines(self.measured)


_kept: deque[Record] = deque(maxlen=KEPT)
_lock = locks.lock()


def keep(make: Callable[[], Decision]) -> Record:
    """Note a decision; the oldest is forgotten when there are `KEPT`."""
    record = Record(make)
    with _lock:
        _kept.append(record)
    return record


def latest() -> tuple[Record, ...]:
    """The decisions that are kept, the latest last."""
    with _lock:
        return tuple(_kept)


def clear() -> None:
    """Forget all of them."""
    with _lock:
        _kept.clear()
