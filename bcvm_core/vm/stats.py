"""Counters: what ran through the VM, what Python did, and how often a region was handed back.

A region counts one execution of its tuple of ops; executions per op are worked out when somebody
asks. Threads may lose a count in a race; nothing else depends on the counts.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpCount:
    """Executions of one op: by CALL_OP, and in host code."""

    op: str
    call_op: int
    call_host: int


Ops = tuple[str, ...]


class Stats:
    """The counters of one function, cell or session.

    `replays`: executions in which an op raised; CALL_OP ran the ops (they count there), then Python
    replays the statements so that the error rises in the user's own frame. `bound`: times a
    region chose kernels for operands of new types; `reasons`: why executions went to Python; `fallbacks`: calls
    that ran op by op because of a compile, by reason.
    """

    __slots__ = ("_host", "_native", "_vm", "bound", "fallbacks", "reasons", "replays")

    def __init__(self) -> None:
        self._vm: dict[Ops, int] = {}
        self._host: dict[Ops, int] = {}
        self._native: list[tuple[Ops, Callable[[], int], list[int]]] = []  # counters of machine code, and what was taken from each
        self.replays = 0
        self.bound = 0
        self.reasons: dict[str, int] = {}
        self.fallbacks: dict[str, int] = {}

    # --- counting --------------------------------------------------------------------------

    def count(self, op: str, times: int = 1) -> None:
        """CALL_OP ran one op."""
        self._add(self._vm, (op,), times)

    def count_native(self, ops: Ops, counter: Callable[[], int]) -> None:
        """Machine code runs `ops` and counts its runs itself: `counter` reads them when somebody asks."""
        self._native.append((ops, counter, [0]))

    def successor(self) -> Stats:
        """New counts from zero, in which machine code counts from now on. This object keeps what it has."""
        self._take_native()
        found = Stats()
        found._native, self._native = self._native, []
        return found

    def _take_native(self) -> None:
        for ops, counter, taken in list(self._native):
            now = counter()
            self._add(self._vm, ops, now - taken[0])
            taken[0] = now

    def count_op(self, ops: Ops) -> None:
        """CALL_OP ran each of `ops` once."""
        self._vm[ops] = self._vm.get(ops, 0) + 1

    def count_host(self, ops: Ops | str, reason: str = "") -> None:
        """Python ran callables that stand for `ops`."""
        self._add(self._host, (ops,) if isinstance(ops, str) else ops, 1)
        if reason:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def count_replay(self, ops: Ops, reason: str = "") -> None:
        """An op raised within a region: its ops ran by CALL_OP, and Python replays them for the error."""
        self.replays += 1
        self._add(self._vm, ops, 1)
        if reason:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def count_bound(self) -> None:
        """A region chose kernels for operands of new types."""
        self.bound += 1

    def count_fallback(self, reason: str) -> None:
        """A call ran op by op: a compile is late ("compile_timeout")."""
        self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1

    @staticmethod
    def _add(counts: dict[Ops, int], ops: Ops, times: int) -> None:
        if ops and times:
            counts[ops] = counts.get(ops, 0) + times

    def merge(self, other: Stats) -> Stats:
        """Add the counts that `other` has now; returns self."""
        other._take_native()
        for ops, times in list(other._vm.items()):
            self._add(self._vm, ops, times)
        for ops, times in list(other._host.items()):
            self._add(self._host, ops, times)
        for reason, times in list(other.reasons.items()):
            self.reasons[reason] = self.reasons.get(reason, 0) + times
        for reason, times in list(other.fallbacks.items()):
            self.fallbacks[reason] = self.fallbacks.get(reason, 0) + times
        self.replays += other.replays
        self.bound += other.bound
        return self

    def since(self, earlier: Stats) -> Stats:
        """What was counted after the snapshot `earlier` was taken."""
        self._take_native()
        out = Stats()
        out._vm = {ops: n for ops, times in self._vm.items() if (n := times - earlier._vm.get(ops, 0)) > 0}
        out._host = {ops: n for ops, times in self._host.items() if (n := times - earlier._host.get(ops, 0)) > 0}
        out.reasons = {why: n for why, times in self.reasons.items() if (n := times - earlier.reasons.get(why, 0)) > 0}
        out.fallbacks = {why: n for why, times in self.fallbacks.items() if (n := times - earlier.fallbacks.get(why, 0)) > 0}
        out.replays = max(0, self.replays - earlier.replays)
        out.bound = max(0, self.bound - earlier.bound)
        return out

    def reset(self) -> None:
        """Start from zero."""
        self._take_native()
        self._vm, self._host, self.reasons, self.fallbacks = {}, {}, {}, {}
        self.replays = self.bound = 0

    # --- reading ---------------------------------------------------------------------------

    def rows(self) -> tuple[OpCount, ...]:
        """Executions per op, most first."""
        self._take_native()
        vm, host = _by_op(self._vm), _by_op(self._host)
        rows = [OpCount(op, vm.get(op, 0), host.get(op, 0)) for op in vm.keys() | host.keys()]
        return tuple(sorted(rows, key=lambda r: (-r.call_op - r.call_host, r.op)))

    @property
    def ops(self) -> Mapping[str, OpCount]:
        """Executions by op name."""
        return {row.op: row for row in self.rows()}

    @property
    def call_op(self) -> int:
        """Executions by CALL_OP."""
        return sum(row.call_op for row in self.rows())

    @property
    def call_host(self) -> int:
        """Executions of callables of the op table in host code."""
        return sum(row.call_host for row in self.rows())

    def share(self) -> float:
        """The fraction of executions that ran by CALL_OP; 1.0 when nothing ran."""
        vm, host = self.call_op, self.call_host
        return vm / (vm + host) if vm + host else 1.0

    def snapshot(self) -> Stats:
        """A copy that no longer changes."""
        return Stats().merge(self)

    def as_dict(self) -> dict[str, object]:
        """Everything as plain data."""
        return {
            "ops": {row.op: {"call_op": row.call_op, "call_host": row.call_host} for row in self.rows()},
            "call_op": self.call_op,
            "call_host": self.call_host,
            "share": self.share(),
            "replays": self.replays,
            "bound": self.bound,
            "reasons": dict(self.reasons),
            "fallbacks": dict(self.fallbacks),
        }

    # --- showing ---------------------------------------------------------------------------

    def __repr__(self) -> str:
        text = f"Stats(call_op={self.call_op}, call_host={self.call_host}, share={self.share():.0%}"
        return text + f", replays={self.replays}, bound={self.bound})"

    def _cells(self) -> list[tuple[str, str, str]]:
        rows = [(row.op, str(row.call_op), str(row.call_host)) for row in self.rows()]
        return [*rows, ("all", str(self.call_op), str(self.call_host))]

    def _summary(self) -> str:
        late = "".join(f"; {n} calls op by op, fallback_reason={reason}" for reason, n in self.fallbacks.items())
        regions = "1 region" if self.bound == 1 else f"{self.bound} regions"
        replays = "1 execution" if self.replays == 1 else f"{self.replays} executions"
        return f"{self.share():.1%} by CALL_OP; {regions} bound, {replays} handed back to Python{late}"

    def table(self) -> str:
        """A text table: op, executions by CALL_OP and by CALL_HOST."""
        lines = [("op", "CALL_OP", "CALL_HOST"), *self._cells()]
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        text = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in lines]
        return "\n".join([*text, self._summary()])

    def _repr_html_(self) -> str:
        head = "<tr><th>op</th><th>CALL_OP</th><th>CALL_HOST</th></tr>"
        body = "".join(f"<tr><td>{html.escape(a)}</td><td>{b}</td><td>{c}</td></tr>" for a, b, c in self._cells())
        return f"<table>{head}{body}</table><p>{html.escape(self._summary())}</p>"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(self.table())  # type: ignore[attr-defined]  # IPython's pretty printer


def _by_op(counts: dict[Ops, int]) -> dict[str, int]:
    out: dict[str, int] = {}
    for ops, times in list(counts.items()):
        for op in ops:
            out[op] = out.get(op, 0) + times
    return out
