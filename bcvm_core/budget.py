"""`with bcvm.sla(budget_ms=5) as s:` what share of the calls met a latency budget, and which call sites did not, and why.

A call is one of a region, from the moment it is reached to its result: with lowering left out, but with binding, choosing and splicing in
it. Only calls over the budget are noted one by one, the others are counted; so watching costs what a profile without a trace costs.
"""

from __future__ import annotations

import html
import time
import weakref
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Final

from .events import Bound, Recompiled, Selected, Spliced, bus
from .profiler import place_of
from .vm.latency import Note, latency

_WORK: Final[dict[type, str]] = {
    Bound: "it bound to operands of new types",
    Spliced: "a fused kernel was spliced",
    Selected: "a kernel was chosen for operands of new types",
    Recompiled: "tier 3 was at work",
}
_KERNEL: Final = "its kernels took that long"
_SOMETIMES: Final = "its kernels, which are within the budget most of the time: larger operands, or a busy machine"
_SITES: Final = 20
_KEPT: Final = 100_000


@dataclass(slots=True)
class SiteReport:
    """A call site: its calls, those over the budget, the longest of these, and why, most frequent first."""

    where: str
    ops: str
    calls: int
    over: int
    longest_ms: float
    reasons: dict[str, int]


@dataclass(slots=True)
class _Over:
    count: int = 0
    longest_ns: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class Sla:
    """A watched block; what `sla()` gives. Readable within the block and after it."""

    def __init__(self, budget_ms: float) -> None:
        """Raises ValueError for a budget that is no positive number."""
        if not budget_ms > 0:
            raise ValueError(f"a budget is a positive number of milliseconds, not {budget_ms!r}")
        self.budget_ms = budget_ms
        self._over: dict[Any, _Over] = {}
        self._work: list[tuple[int, str]] = []  # (end, kind), in order but for threads that overtake each other
        self._marks: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
        self._unsubscribe: Callable[[], None] | None = None
        self._done: list[SiteReport] | None = None

    def __enter__(self) -> Sla:
        """Begin. Raises RuntimeError for a block that was entered before."""
        if self._unsubscribe is not None or self._done is not None:
            raise RuntimeError("a report is of one block: make another one with bcvm.sla()")
        self._unsubscribe = bus.subscribe(self._listen)
        latency.start(self._note, int(self.budget_ms * 1e6) + 1)
        self._marks = latency.marks()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done = self._report()
        latency.stop(self._note)
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._over.clear()

    def _listen(self, event: Any) -> None:
        kind = _WORK.get(type(event))
        if kind is not None and len(self._work) < _KEPT:
            self._work.append((time.perf_counter_ns(), kind))

    def _note(self, calls: list[Note]) -> None:
        for call in calls:
            found = self._over.setdefault(call.region, _Over())
            found.count += 1
            found.longest_ns = max(found.longest_ns, call.spent_ns)
            ended = call.started_ns + call.spent_ns
            within = self._work[bisect_left(self._work, (call.started_ns, "")) : bisect_left(self._work, (ended + 1, ""))]
            found.reasons.update({kind for _, kind in within} or {_KERNEL})

    # -- reading ----------------------------------------------------------------------------------

    def sites(self) -> list[SiteReport]:
        """The call sites that ran, those with most calls over the budget first."""
        if self._done is not None:
            return self._done
        return self._report() if self._unsubscribe is not None else []

    def _report(self) -> list[SiteReport]:
        latency.deliver()
        out = []
        for region in latency.regions():
            calls = latency.timing(region).calls - self._marks.get(region, (0, 0))[0]
            if calls <= 0:
                continue
            over = self._over.get(region, _Over())
            reasons = dict(over.reasons.most_common())
            if 2 * over.count < calls and _KERNEL in reasons:
                reasons[_SOMETIMES] = reasons.pop(_KERNEL)
            ops = "+".join(region.code.ops)
            out.append(SiteReport(place_of(region), ops, calls, over.count, over.longest_ns / 1e6, reasons))
        return sorted(out, key=lambda site: (-site.over, -site.longest_ms, -site.calls))

    @property
    def calls(self) -> int:
        """Calls in the block."""
        return sum(site.calls for site in self.sites())

    @property
    def share(self) -> float:
        """The part of the calls that met the budget; 1.0 where there were none."""
        sites = self.sites()
        calls = sum(site.calls for site in sites)
        return 1 - sum(site.over for site in sites) / calls if calls else 1.0

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "budget_ms": self.budget_ms,
            "calls": self.calls,
            "share": self.share,
            "sites": [asdict(site) for site in self.sites()],
        }

    def lines(self) -> list[str]:
        """The share, then the call sites that missed the budget, each with its reasons."""
        out = [f"{self.share:.2%} of {self.calls:,} calls within {self.budget_ms:g} ms"]
        missed = [site for site in self.sites() if site.over]
        for site in missed[:_SITES]:
            out.append(f"{site.where}: {site.ops}: {site.over:,} of {site.calls:,} over, the longest {site.longest_ms:.2f} ms")
            out += [f"  {count:,}: {reason}" for reason, count in site.reasons.items()]
        return out + ([f"and {len(missed) - _SITES} more"] if len(missed) > _SITES else [])

    def table(self) -> str:
        """The report as text."""
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"


def sla(budget_ms: float) -> Sla:
    """Watch a block: ``with bcvm.sla(budget_ms=5) as s: ...``, then `s.share`, `s.table()`, `s.sites()`. Raises ValueError."""
    return Sla(budget_ms)
