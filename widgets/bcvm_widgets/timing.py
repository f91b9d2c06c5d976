"""From the dots of `bcvm_core.latencies` to the message of the protocol, and to text, HTML and SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator

from bcvm_core.latencies import Latencies, Series, words

from . import protocol
from .protocol import SeriesFigures

NAMES = {
    "lowered": "front end",
    "bound": "operands of new types",
    "selected": "tier 1, select",
    "fused": "tier 2, fuse",
    "recompiled": "tier 3, recompile",
    "python": "left to Python",
}
WARM_NAMES = {"selected": "tier 1, warm calls", "fused": "tier 2, warm calls", "recompiled": "tier 3, warm calls"}
MARKS = {"lowered": "▼", "bound": "■", "selected": "●", "fused": "◆", "recompiled": "★", "python": "✕"}
WARM_MARKS = {"selected": "○", "fused": "◇", "recompiled": "☆"}
_LONGEST = 160  # characters of a text


def message(latencies: Latencies) -> protocol.Latencies:
    """All that is kept, now."""
    out = protocol.empty_latencies()
    out["lost"] = latencies.lost
    known: dict[tuple[str, str, str], int] = {}
    for position, series in enumerate(latencies.series()):
        out["series"].append(_figures(series))
        for dot in series.dots():
            text = words(dot.what)
            out["dots"]["series"].append(position)
            out["dots"]["at_ms"].append(round((dot.at_ns - latencies.started_ns) / 1e6, 2))
            out["dots"]["us"].append(None if dot.us is None else round(dot.us, 2))
            out["dots"]["text"].append(known.setdefault(text, len(known)))
    out["texts"] = [[_short(part) for part in text] for text in known]
    return out


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _figures(series: Series) -> SeriesFigures:
    def rounded(us: float | None) -> float | None:
        return None if us is None else round(us, 2)

    budget = series.budget
    return {
        "kind": series.kind,  # type: ignore[typeddict-item]  # one of KINDS
        "warm": series.warm,
        "count": series.count,
        "mean_us": rounded(series.mean_us),
        "p50_us": rounded(series.percentile(0.5)),
        "p99_us": rounded(series.percentile(0.99)),
        "worst_us": rounded(series.worst_us) if series.timed else None,
        "budget_mean_us": None if budget is None else budget.mean_us,
        "budget_p99_us": None if budget is None else budget.p99_us,
    }


# --- static forms ------------------------------------------------------------------------------


def name_of(figures: SeriesFigures) -> str:
    """The series in words."""
    return (WARM_NAMES if figures["warm"] else NAMES)[figures["kind"]]


def verdict(figures: SeriesFigures) -> str:
    """Against the budget: "mean within 0.8 ms, P99 OVER 2 ms"; "" where there is none."""
    parts = []
    for word, value, budget in (
        ("mean", figures["mean_us"], figures["budget_mean_us"]),
        ("P99", figures["p99_us"], figures["budget_p99_us"]),
    ):
        if value is not None and budget is not None:
            parts.append(f"{word} {'within' if value <= budget else 'OVER'} {budget / 1000:.3g} ms")
    return ", ".join(parts)


def duration(us: float | None) -> str:
    """Three digits and a unit."""
    if us is None:
        return ""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= 0.9995 * size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} µs"


_COLUMNS = ("count", "mean", "P50", "P99", "slowest", "budget")


def _cells(figures: SeriesFigures) -> list[str]:
    times = [duration(figures[name]) for name in ("mean_us", "p50_us", "p99_us", "worst_us")]
    return [f"{figures['count']:,}", *times, verdict(figures)]


def slowest(found: protocol.Latencies, count: int = 5) -> Iterator[tuple[str, SeriesFigures, list[str]]]:
    """The slowest dots: duration, series and texts."""
    dots = found["dots"]
    ranked = sorted((n for n, us in enumerate(dots["us"]) if us is not None), key=lambda n: -(dots["us"][n] or 0.0))
    for n in ranked[:count]:
        yield duration(dots["us"][n]), found["series"][dots["series"][n]], found["texts"][dots["text"][n]]


def text(found: protocol.Latencies) -> str:
    """A table of the series, and the slowest dots."""
    if not found["series"]:
        return ""
    rows = [["tier latencies", *_COLUMNS], *([name_of(s), *_cells(s)] for s in found["series"])]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_COLUMNS))]
    lines = [
        "  ".join(
            [f"{row[0]:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(row[1:-1], widths[1:], strict=True)), row[-1]]
        ).rstrip()
        for row in rows
    ]
    lines += [
        *_lost(found),
        "slowest:",
        *(f"  {took:>8}  {name_of(s)}: {' | '.join(filter(None, parts))}" for took, s, parts in slowest(found)),
    ]
    return "\n".join(lines)


def as_html(found: protocol.Latencies) -> str:
    """The table, the picture, and the slowest dots; without scripts."""
    if not found["series"]:
        return ""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("tier latencies", *_COLUMNS))
    rows = "".join(
        f"<tr><td>{_mark(s)} {html.escape(name_of(s))}</td>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(s)) + "</tr>"
        for s in found["series"]
    )
    items = "".join(
        f"<tr><td>{took}</td><td>{html.escape(name_of(s))}</td><td>{html.escape(' | '.join(filter(None, parts)))}</td></tr>"
        for took, s, parts in slowest(found)
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    told = "".join(f"<p>{line}</p>" for line in _lost(found))
    return f"{table}{picture(found)}{told}<p>slowest:</p><table><tbody>{items}</tbody></table>"


def _lost(found: protocol.Latencies) -> list[str]:
    """What is said where a flood of events came."""
    return [f"{found['lost']:,} events of a flood are counted and are no dots"] if found["lost"] else []


def _mark(figures: SeriesFigures) -> str:
    return (WARM_MARKS if figures["warm"] else MARKS)[figures["kind"]]


_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 860, 220, 60, 24


def picture(found: protocol.Latencies) -> str:
    """The dots over time as SVG; a shape for each tier, hollow ones are warm. Durations on a logarithmic axis."""
    dots = found["dots"]
    timed = [us for us in dots["us"] if us]
    low, high = math.floor(math.log10(max(0.1, min(timed, default=1.0)))), math.ceil(math.log10(max(2000.0, *timed)) if timed else 3)
    last = max(dots["at_ms"], default=0.0) or 1.0

    def y(us: float) -> float:
        return 10 + (_HEIGHT - _BOTTOM - 10) * (high - max(low, math.log10(max(us, 1e-3)))) / (high - low)

    parts = []
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{_WIDTH}" stroke="currentColor" stroke-opacity="0.15"/>')
        label = html.escape(duration(10.0**power))
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end" font-size="11" fill="currentColor">{label}</text>')
    for n, at_ms in enumerate(dots["at_ms"]):
        series = found["series"][dots["series"][n]]
        us = dots["us"][n]
        x = _LEFT + (_WIDTH - _LEFT - 10) * at_ms / last
        top = y(us) if us else _HEIGHT - _BOTTOM + 6
        fill = "none" if series["warm"] else "currentColor"
        parts.append(f'<path d="{_SHAPES[series["kind"]]}" transform="translate({x:.1f} {top:.1f})" fill="{fill}" stroke="currentColor"/>')
    label = f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 4}" text-anchor="end" font-size="11" fill="currentColor">{duration(1000 * last)}</text>'
    about = "Durations of dispatches and compiles over time; the table has the figures"
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" aria-label="{about}">{"".join(parts)}{label}</svg>'


_SHAPES = {
    "lowered": "M-3.5 -2.5H3.5L0 3.5Z",
    "bound": "M-3 -3H3V3H-3Z",
    "selected": "M-3 0A3 3 0 1 0 3 0A3 3 0 1 0 -3 0Z",
    "fused": "M0 -4L4 0L0 4L-4 0Z",
    "recompiled": "M0 -5L1.5 -1.5L5 0L1.5 1.5L0 5L-1.5 1.5L-5 0L-1.5 -1.5Z",
    "python": "M-3 -3L3 3M3 -3L-3 3",
}
