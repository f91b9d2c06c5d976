"""The content of a dashboard as text and as HTML, for places where no widget runs: exports, untrusted notebooks, terminals, diffs.

Source lines stand above the instructions they became, as in `objdump -S`. The same state gives the same characters; times and
signature numbers, which differ from run to run, are left out unless asked for. The HTML needs neither scripts nor a style sheet.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import cache_forms, cutting, timing, versions
from . import machine as listings
from .protocol import Choice, Code, Columns, Diff, Instruction, Unit
from .sampling import Sample, Sampler
from .timing import duration

NOTHING_YET = "BCVM: no cell with tensor work has run yet"
MARKS = {"": " ", "waiting": "o", "selected": "*", "fused": "#", "recompiled": "^", "host": "-", "mixed": "+"}
LEGEND = (
    ("*", "●", "kernel"),
    ("#", "◆", "fused kernel, whose time stands at its first op"),
    ("-", "◇", "Python; what is no tensor work is not counted among the ops"),
    ("+", "◐", "both"),
    ("o", "○", "not run yet"),
)
_RECOMPILED = ("^", "★", "fused kernel that was hot and was recompiled")  # shown where there is one
_EXPLAINED = ("CALL_OP", "CALL_HOST", "FUSE_START")  # and the policies; other opcodes say themselves what they do
_UNITS = re.compile(r"(?<=\d) (?=(?:s|ms|µs)\b)")
_WORDS = {"waiting": "not run yet", "fused": "fused", "recompiled": "recompiled", "host": "Python", "mixed": "kernels and Python"}


@dataclass(frozen=True)
class Row:
    """One line of the report. `depth`: 0 for source, 1 for an instruction, more for one nested in host code."""

    depth: int
    number: str
    text: str
    tier: str
    who: str
    runs: str
    total: str
    last: str


def who(choice: Choice) -> str:
    """Who runs it, in words: kernels, or Python."""
    return ", ".join(choice["kernels"]) or _WORDS.get(choice["tier"], "")


def rows(sample: Sample, unit: Unit, *, times: bool) -> Iterator[Row]:
    """Each source line, and under it the instructions that begin there."""
    choices, figures = sample.choices["units"][unit["key"]], sample.figures["units"][unit["key"]]
    last = unit["first_line"] + len(unit["lines"]) - 1
    lines, pcs = range(unit["first_line"], last + 1), [instruction["pc"] for instruction in unit["instructions"]]
    places: dict[int, list[int]] = {}
    place = unit["first_line"]
    for position, instruction in enumerate(unit["instructions"]):
        if instruction["span"] is not None:
            place = min(max(instruction["span"][0], unit["first_line"]), last)
        places.setdefault(place, []).append(position)
    for offset, text in enumerate(unit["lines"]):
        yield _row(0, lines, text, choices["lines"][offset], figures["lines"], offset, times)
        for position in places.get(lines[offset], ()):
            instruction = unit["instructions"][position]
            depth = 1 + (instruction["part"].count(".") + 1 if instruction["part"] else 0)
            choice, columns = choices["instructions"][position], figures["instructions"]
            yield _row(depth, pcs, listed(instruction), choice, columns, position, times)


def listed(instruction: Instruction) -> str:
    """An instruction as the report shows it."""
    label = f"{instruction['label']}: " if instruction["label"] else ""
    notes = f"   ; {', '.join(instruction['notes'])}" if instruction["notes"] else ""
    return f"{label}{instruction['opcode']} {instruction['operands']}".rstrip() + notes


def _row(depth: int, numbers: Sequence[int], text: str, choice: Choice, columns: Columns, n: int, times: bool) -> Row:
    number = str(numbers[n])
    runs = columns["runs"][n]
    total, last = (duration(columns["total_us"][n]), duration(columns["last_us"][n])) if times else ("", "")
    if times and not total and choice["first"] is not None:
        total = f"in {numbers[choice['first']]}"
    named = who(choice) if depth or choice["tier"] in ("host", "mixed") else ""
    return Row(depth, number, text, choice["tier"], named, f"{runs:,}" if runs else "", total, last)


def summary(sample: Sample) -> str:
    """How many tensor ops ran by kernels, and how many were left to Python."""
    by_vm, by_host = sample.figures["call_op"], sample.figures["call_host"]
    ops = by_vm + by_host
    if not by_host:
        return f"{ops:,} tensor ops, all by kernels (CALL_OP)"
    return f"{ops:,} tensor ops, {by_vm:,} by kernels (CALL_OP, {by_vm / ops:.1%}), {by_host:,} left to Python (CALL_HOST)"


def explained(sample: Sample) -> list[tuple[str, str]]:
    """The words of the listing that a reader may not know, with their meanings."""
    found = sample.listing["glossary"]
    return [(word, text) for word, text in found.items() if word in _EXPLAINED or word.startswith("policy_")]


class Report:
    """A picture of a moment: displays as HTML and as text, the same wherever it is shown."""

    def __init__(self, sample: Sample, *, times: bool = False, machine: Sequence[Code] = (), diff: Diff | None = None) -> None:
        """`machine`: code of kernels, and `diff`: two versions, that are shown, too."""
        self.sample = sample
        self.times = times
        self.machine = machine
        self.diff = diff

    def __str__(self) -> str:
        if not self.sample.listing["units"]:
            return NOTHING_YET
        parts = [f"BCVM: {summary(self.sample)}"]
        parts += [self._text(unit) for unit in self.sample.listing["units"]]
        views = [timing.text(self.sample.latencies), cutting.text(self.sample.fusion), cache_forms.text(self.sample.cache)]
        parts += filter(None, views if self.times else [])
        parts += [listings.text(code) for code in self.machine]
        parts += [versions.text(self.diff)] if self.diff is not None else []
        words = "\n".join(f"{word}: {text}" for word, text in explained(self.sample))
        return "\n\n".join([*parts, "\n".join(f"{mark} {meaning}" for mark, _, meaning in self._legend()), *filter(None, [words])])

    __repr__ = __str__

    def html(self) -> str:
        """One table per cell and function."""
        if not self.sample.listing["units"]:
            return f"<p>{NOTHING_YET}</p>"
        tables = "".join(self._html(unit) for unit in self.sample.listing["units"])
        views = timing.as_html(self.sample.latencies), cutting.as_html(self.sample.fusion), cache_forms.as_html(self.sample.cache)
        tables += "".join(views) if self.times else ""
        tables += "".join(map(listings.as_html, self.machine))
        tables += versions.as_html(self.diff) if self.diff is not None else ""
        legend = " &nbsp; ".join(f"{mark} {html.escape(meaning)}" for _, mark, meaning in self._legend())
        words = "".join(f"<p><small><b>{html.escape(word)}</b>: {html.escape(text)}</small></p>" for word, text in explained(self.sample))
        body = f"<p><b>BCVM</b>: {html.escape(summary(self.sample))}</p>{tables}<p><small>{legend}</small></p>{words}"
        return f"<div>{_UNITS.sub(chr(160), body)}</div>"  # no line ends between a number and its unit

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self.html()}

    def _legend(self) -> tuple[tuple[str, str, str], ...]:
        units = self.sample.choices["units"].values()
        hot = any(choice["tier"] == "recompiled" for unit in units for choice in unit["instructions"])
        return (*LEGEND[:2], _RECOMPILED, *LEGEND[2:]) if hot else LEGEND

    # --- text ------------------------------------------------------------------------------

    def _text(self, unit: Unit) -> str:
        found = list(rows(self.sample, unit, times=self.times))
        texts = [f"{row.number:>4} {MARKS[row.tier]} {'    ' * row.depth}{row.text}" if not row.depth else _indented(row) for row in found]
        width = min(max(map(len, texts), default=0), 90)
        head = f"{unit['kind']} {unit['title']}" if unit["kind"] == "function" else unit["title"]
        columns = f"{'runs':>8}" + (f"{'total':>10}{'last':>10}" if self.times else "")
        lines = [f"{head:<{width}} {columns}  kernel"]
        for row, text in zip(found, texts, strict=True):
            figures = f"{row.runs:>8}" + (f"{row.total:>10}{row.last:>10}" if self.times else "")
            lines.append(f"{text:<{width}} {figures}  {row.who}".rstrip())
        return "\n".join(lines)

    # --- HTML ------------------------------------------------------------------------------

    def _html(self, unit: Unit) -> str:
        head = html.escape(f"{unit['kind']} {unit['title']}" if unit["kind"] == "function" else unit["title"])
        names = ["line", head, "by", "runs", *(["total", "last"] if self.times else []), "kernel"]
        cells = "".join(f'<th style="{_align(name)}" scope="col">{name}</th>' for name in names)
        body = "".join(self._html_row(names, row) for row in rows(self.sample, unit, times=self.times))
        return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"

    def _html_row(self, names: list[str], row: Row) -> str:
        mark = {" ": "", "*": "●", "#": "◆", "^": "★", "-": "◇", "+": "◐", "o": "○"}[MARKS[row.tier]]
        word = html.escape(_WORDS.get(row.tier, "kernel"))
        title = f' role="img" aria-label="{word}" title="{word}"' if mark else ""
        code = html.escape(row.text)
        if row.depth:
            code = f'<code style="background: none; padding-left: {row.depth * 2}em">{code}</code>'
            number = f"<small>{row.number}</small>"
        else:
            code, number = f'<code style="background: none; white-space: pre"><b>{code}</b></code>', f"<b>{row.number}</b>"
        figures = [row.runs, *([row.total, row.last] if self.times else [])]
        cells = [number, code, f"<span{title}>{mark}</span>", *figures, html.escape(row.who)]
        return "<tr>" + "".join(f'<td style="{_align(name)}">{cell}</td>' for name, cell in zip(names, cells, strict=True)) + "</tr>"


def make(sampler: Sampler, *, times: bool, machine: bool, diff: tuple[str, str] | None) -> Report:
    """A report of this moment. Raises BcvmError for versions that are not there."""
    sample = sampler.sample()
    found = None if diff is None else sampler.versions.chosen(diff)
    return Report(sample, times=times, machine=sampler.machine() if machine else (), diff=found)


def _indented(row: Row) -> str:
    return f"     {MARKS[row.tier]} {'    ' * row.depth}{row.number:>3} {row.text}"


def _align(column: str) -> str:
    """Numbers to the right, code and names to the left."""
    return f"text-align: {'right' if column in ('line', 'runs', 'total', 'last') else 'left'}; vertical-align: top"
