"""From what a `Watch` sees to the messages of the protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bcvm_core.comparing import substituted
from bcvm_core.watch import InstructionView, Measure, Measures, Unit, Watch

from . import cutting, machine, protocol, timing
from .cache_messages import Cache, empty_cache
from .caching import CacheView
from .glossary import glossary
from .protocol import Choice, Choices, Code, Columns, Diff, Figures, Fusion, Latencies, Listing, Tier, UnitChoices, UnitFigures
from .versions import Versions

_SIGNATURE = re.compile(r",? 0x[0-9A-F]{4}\b")  # in an operand list: bound signatures are shown by themselves
_SHORT = 20  # constants of no more characters are shown where they are used
_PLAINEST_FIRST: tuple[Tier, ...] = ("selected", "fused", "recompiled")  # what runs in the VM
_NO_CHOICE: Choice = {"tier": "", "kernels": [], "signature": "", "reason": "", "first": None}


@dataclass(frozen=True)
class Sample:
    """The state of everything that is watched, at one moment."""

    listing: Listing
    choices: Choices
    figures: Figures
    latencies: Latencies = field(default_factory=protocol.empty_latencies)
    fusion: Fusion = field(default_factory=protocol.empty_fusion)
    cache: Cache = field(default_factory=empty_cache)


class Sampler:
    """Takes samples; `generation` counts the listings that differ."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._listing = protocol.empty_listing()
        self._latencies = protocol.empty_latencies()
        self._fusion = protocol.empty_fusion()
        self.cache = CacheView(watch.cache)
        self._looks = 0
        self.versions = Versions(watch)

    def sample(self, *, often: bool = False) -> Sample:
        """What can be seen now. `often`: looked at many times a second, so that not everything need be new each time."""
        units = self.watch.units()
        self.versions.see(units)
        shown = [_unit(unit) for unit in units]
        if shown != self._listing["units"]:
            generation = self._listing["generation"] + 1
            self._listing = {"version": protocol.VERSION, "generation": generation, "units": shown, "glossary": glossary(shown)}
        measured = {unit.key: unit.measures() for unit in units}
        self._looks += 1
        if not often or self._looks % 2 == 0:  # dots are many
            self._look_at_dots(units)
            self.cache.look()
        if not often or self._looks % 10 == 0 or not self._fusion["regions"]:
            self._fusion = cutting.message(self.watch.splits(units))
        choices, figures = self._choices(units, measured), self._figures(units, measured)
        return Sample(self._listing, choices, figures, self._latencies, self._fusion, self.cache.latest)

    def code(self, key: str, kernel: int, instruction: int) -> Code:
        """The machine code of a kernel of a unit, by its number or (-1) by an instruction that it does."""
        unit = next((unit for unit in self.watch.units() if unit.key == key), None)
        if unit is None:
            return protocol.empty_code()
        return machine.message(unit, self._listing["generation"], kernel, instruction)

    def machine(self) -> list[Code]:
        """The machine code of every kernel."""
        return [code for unit in self.watch.units() for code in machine.messages(unit, self._listing["generation"])]

    def diff(self, unit: str, left: str, right: str) -> Diff:
        """Two versions side by side."""
        return self.versions.message(self.watch.units(), unit, left, right)

    def _look_at_dots(self, units: list[Unit]) -> None:
        if self.watch.latencies.collect(self.watch.calls(units)):
            self._latencies = timing.message(self.watch.latencies)

    def _choices(self, units: list[Unit], measured: dict[str, Measures]) -> Choices:
        found = {unit.key: _unit_choices(unit, measured[unit.key]) for unit in units}
        return {"version": protocol.VERSION, "generation": self._listing["generation"], "units": found}

    def _figures(self, units: list[Unit], measured: dict[str, Measures]) -> Figures:
        stats = self.watch.stats()
        return {
            "version": protocol.VERSION,
            "generation": self._listing["generation"],
            "call_op": stats.call_op,
            "call_host": stats.call_host,
            "kernels_us": round(sum(m.total_us for found in measured.values() for m in found.lines.values()), 1),
            "units": {unit.key: _unit_figures(unit, measured[unit.key]) for unit in units},
        }


def _unit(unit: Unit) -> protocol.Unit:
    return {
        "key": unit.key,
        "kind": "cell" if unit.kind == "cell" else "function",
        "title": unit.title,
        "first_line": unit.first_line,
        "lines": list(unit.lines),
        "instructions": [_instruction(view) for view in unit.instructions],
    }


def _instruction(view: InstructionView) -> protocol.Instruction:
    operands = view.text.removeprefix(view.opcode).strip()
    if view.opcode == "CALL_OP":
        operands = _SIGNATURE.sub("", operands, count=1)
    operands, notes = substituted(operands, view.constants, _SHORT)
    return {
        "part": view.part,
        "pc": view.pc,
        "opcode": view.opcode,
        "op": view.op,
        "operands": operands,
        "label": view.label,
        "notes": notes,
        "span": None if view.span is None else list(view.span),
        "role": "op" if view.role == "op" else "host" if view.role == "host" else "flow",
    }


# --- who runs it -------------------------------------------------------------------------------


def _unit_choices(unit: Unit, measured: Measures) -> UnitChoices:
    places = {(view.span, view.op): n for n, view in enumerate(unit.instructions)}
    instructions = [
        _choice(_tier(unit, view, measure), measure, None if measure is None or measure.first is None else places.get(measure.first))
        for view, measure in ((view, measured.instructions.get(n)) for n, view in enumerate(unit.instructions))
    ]
    by_line: dict[int, list[Tier]] = {}
    for view, choice in zip(unit.instructions, instructions, strict=True):
        if view.span is not None and choice["tier"]:
            by_line.setdefault(view.span[0], []).append(choice["tier"])
    firsts: dict[int, list[int]] = {}  # line -> the lines on which the kernels of its ops begin, 0: on their own
    for n, found in measured.instructions.items():
        firsts.setdefault(unit.instructions[n].line, []).append(0 if found.first is None else found.first[0][0])
    lines = []
    for number in range(unit.first_line, unit.first_line + len(unit.lines)):
        measure = measured.lines.get(number)
        tiers = by_line.get(number, [])
        if measure is not None and measure.runs and not any(tier in _PLAINEST_FIRST for tier in tiers):
            tiers = [*tiers, "selected"]
        lines.append(_choice(_tier_of_line(tiers), measure, _first_line(unit, number, firsts.get(number, []))))
    return {"instructions": instructions, "lines": lines}


def _first_line(unit: Unit, number: int, lines: list[int]) -> int | None:
    """The line that has the time of this one, all whose ops are part of kernels that begin on other `lines`."""
    return lines[0] - unit.first_line if lines and 0 not in lines and number not in lines else None


def _choice(tier: Tier, measure: Measure | None, first: int | None = None) -> Choice:
    if measure is None:
        return {**_NO_CHOICE, "tier": tier}
    signature = f"0x{measure.signature:04X} = {measure.signature_text}" if measure.signature else ""
    kernels = [] if tier == "waiting" else list(measure.kernels)
    if tier in ("fused", "recompiled") and measure.fused:
        signature, kernels = f"one kernel for {', '.join(measure.fused)}", []
    return {"tier": tier, "kernels": kernels, "signature": signature, "reason": measure.reason, "first": first}


def _tier(unit: Unit, view: InstructionView, measure: Measure | None) -> Tier:
    if view.role != "op":
        return "host" if view.role == "host" else ""
    if measure is None:  # no site stands for it: Python runs it, once the statement has been linked
        return "host" if view.span is not None and view.span[0] <= unit.linked_to else "waiting"
    if measure.runs or measure.timed:
        return "recompiled" if measure.recompiled else "fused" if measure.fused else "selected"
    return "host" if measure.reason or measure.misses else "waiting"


def _tier_of_line(tiers: Iterable[Tier]) -> Tier:
    found = set(tiers)
    runs = found - {"host", "waiting"}
    if runs and "host" in found:
        return "mixed"
    for tier in _PLAINEST_FIRST:  # a line is no better than the plainest of its kernels
        if tier in runs:
            return tier
    return "host" if "host" in found else "waiting" if found else ""


# --- how often and how long --------------------------------------------------------------------


def _unit_figures(unit: Unit, measured: Measures) -> UnitFigures:
    lines = range(unit.first_line, unit.first_line + len(unit.lines))
    return {
        "instructions": _columns([measured.instructions.get(n) for n in range(len(unit.instructions))]),
        "lines": _columns([measured.lines.get(n) for n in lines]),
    }


def _columns(measures: list[Measure | None]) -> Columns:
    def times(of: Callable[[Measure], float]) -> list[float | None]:
        return [round(of(m), 1) if m is not None and m.timed else None for m in measures]

    return {
        "runs": [None if m is None else m.runs for m in measures],
        "timed": [None if m is None else m.timed for m in measures],
        "total_us": times(lambda m: m.total_us),
        "last_us": times(lambda m: m.last_us),
    }
