"""The outcome of a comparison as text, as a table and as a picture."""

from __future__ import annotations

import html
import math
import statistics
from dataclasses import dataclass, field

from ..work import duration
from .values import Verdict


@dataclass
class Outcome:
    """What one engine did. `first_s`: its first run, compile work included (of `bcvm`: the cell itself). `error`: why it was left out."""

    name: str
    first_s: float | None = None
    times_s: list[float] = field(default_factory=list)
    verdict: Verdict | None = None
    error: str = ""

    def quartiles(self) -> tuple[float, float, float]:
        """Lower quartile, median and upper quartile, in seconds; of one time three times that."""
        if len(self.times_s) == 1:
            return (self.times_s[0],) * 3
        low, middle, high = statistics.quantiles(self.times_s, n=4, method="inclusive")
        return low, middle, high


HEAD = ("engine", "first run", "median", "quartiles", "against bcvm", "values")


class Comparison:
    """What ``%%bcvm --compare`` shows. `outcomes`: that of `bcvm`, then those of the engines in the order that was asked for."""

    def __init__(self, outcomes: list[Outcome], interrupted: bool = False) -> None:
        self.outcomes = outcomes
        self.interrupted = interrupted

    @property
    def rounds(self) -> int:
        """Timed runs of the engine that has most."""
        return max(len(outcome.times_s) for outcome in self.outcomes)

    @property
    def agree(self) -> bool:
        """Whether every engine that ran left the same values, within the tolerances."""
        return all(outcome.verdict is None or outcome.verdict.agree for outcome in self.outcomes)

    def rows(self) -> list[list[str]]:
        """The table, without its head. An engine that failed has its error in the last column."""
        return [self._row(outcome) for outcome in self.outcomes]

    def _row(self, outcome: Outcome) -> list[str]:
        first = "" if outcome.first_s is None else _time(outcome.first_s)
        if outcome.error or not outcome.times_s:
            return [outcome.name, first, "", "", "", outcome.error or _verdict(outcome)]
        low, middle, high = outcome.quartiles()
        ours = self.outcomes[0]
        ratio = "" if outcome is ours or not ours.times_s else f"{middle / ours.quartiles()[1]:.3g} x"
        return [outcome.name, first, _time(middle), f"{_time(low)} to {_time(high)}", ratio, _verdict(outcome)]

    def notes(self) -> list[str]:
        """What stands below the table."""
        runs = f"{self.rounds} runs of each in turn, from the same state; the first run, with its compile work, is not among them."
        found = [runs if self.rounds else "No run was timed."]
        if self.interrupted:
            found.append("Interrupted: what had been timed by then is shown.")
        own = self.outcomes[0].verdict
        if own is not None and not own.agree:
            found.append("The cell gives other values each time it runs, so the last column says little.")
        return [*found, "The names of the notebook are as the run under bcvm left them."]

    def __str__(self) -> str:
        table = [list(HEAD), *self.rows()]
        widths = [max(len(row[k]) for row in table) for k in range(len(HEAD) - 1)]
        lines = [_line(row, widths) for row in table]
        return "\n".join([*lines, *self.notes()])

    __repr__ = __str__

    def html(self) -> str:
        """Table and picture; neither scripts nor a style sheet."""
        head = "".join(f'<th scope="col" style="{_align(name)}">{name}</th>' for name in HEAD)
        body = "".join(
            f'<tr><th scope="row" style="text-align: left">{row[0]}</th>'
            + "".join(f'<td style="{_align(name)}">{html.escape(cell)}</td>' for name, cell in zip(HEAD[1:], row[1:], strict=True))
            + "</tr>"
            for row in self.rows()
        )
        few = [f"The picture has {DOTS} dots for each engine: quantiles of its times, the shortest and the longest among them."]
        notes = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in [*(few if self.rounds > DOTS else []), *self.notes()])
        return f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{picture(self)}{notes}</div>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self.html()}


def _line(row: list[str], widths: list[int]) -> str:
    numbers = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:], strict=True)]
    return "  ".join([row[0].ljust(widths[0]), *numbers, row[-1]]).rstrip()


def _verdict(outcome: Outcome) -> str:
    return "" if outcome.verdict is None else outcome.verdict.text


def _align(column: str) -> str:
    return "text-align: left" if column in ("engine", "values") else "text-align: right; white-space: nowrap"


def _time(seconds: float) -> str:
    return duration(seconds * 1e6)


DOTS = 200  # of an engine in the picture
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 760, 90, 90, 34, 6


def picture(found: Comparison) -> str:
    """A row for each engine that ran: its times as dots, a box over the middle half of them, a bar at the median; "" when none did."""
    shown = [outcome for outcome in found.outcomes if outcome.times_s and not outcome.error]
    if not shown:
        return ""
    times = [t for outcome in shown for t in outcome.times_s]
    low, high = math.log10(max(min(times), 1e-9)) - 0.03, math.log10(max(*times, 1e-9)) + 0.03

    def x(seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (math.log10(max(seconds, 1e-9)) - low) / (high - low)

    bottom = _TOP + _ROW * len(shown)
    parts = [_tick(at, x(at), bottom) for at in _ticks(low, high)]
    parts += [part for n, outcome in enumerate(shown) for part in _marks(outcome, x, _TOP + _ROW * n + _ROW // 2)]
    about = "Times of the engines: " + ", ".join(f"{outcome.name} {_time(outcome.quartiles()[1])}" for outcome in shown) + "; medians"
    size = f'viewBox="0 0 {_WIDTH} {bottom + 22}" width="100%" style="max-width: {_WIDTH}px" font-size="12"'
    return f'<svg {size} role="img" aria-label="{html.escape(about)}">{"".join(parts)}</svg>'


def drawn(times_s: list[float]) -> list[float]:
    """The times that have dots: all, or `DOTS` quantiles of many, among them the shortest and the longest."""
    count = len(times_s)
    if count <= DOTS:
        return times_s
    ordered = sorted(times_s)
    return [ordered[k * (count - 1) // (DOTS - 1)] for k in range(DOTS)]


def _marks(outcome: Outcome, x: object, y: int) -> list[str]:
    assert callable(x)
    low, middle, high = outcome.quartiles()
    left, right = x(low), x(high)
    label = f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end" fill="currentColor">{html.escape(outcome.name)}</text>'
    box = f'<rect x="{left:.1f}" y="{y - 9}" width="{max(1.0, right - left):.1f}" height="18" fill="currentColor" fill-opacity="0.16"/>'
    bar = f'<path d="M{x(middle):.1f} {y - 12}V{y + 12}" stroke="currentColor" stroke-width="2.5"/>'
    dots = "".join(f'<circle cx="{x(t):.1f}" cy="{y}" r="2" fill="currentColor" fill-opacity="0.5"/>' for t in drawn(outcome.times_s))
    value = f'<text x="{_WIDTH - _RIGHT + 10}" y="{y + 4}" fill="currentColor">{_time(middle)}</text>'
    return [label, box, dots, bar, value]


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten in between; fewer where that would be many."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    for steps in ((1, 2, 5), (1,)):
        found = [step * 10.0**power for power in powers for step in steps if low <= math.log10(step * 10.0**power) <= high]
        if len(found) <= 8:
            return found
    return found


def _tick(seconds: float, x: float, bottom: int) -> str:
    line = f'<path d="M{x:.1f} {_TOP}V{bottom}" stroke="currentColor" stroke-opacity="0.2"/>'
    return f'{line}<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle" font-size="11" fill="currentColor">{_time(seconds)}</text>'
