"""What a watcher sees of running cells and functions: source lines, instructions, and what each has done, as plain data.

Read-only, and cheap enough to be asked ten times a second from another thread while a cell runs. A `Watch` looks at a notebook's
session, at functions, or both; while it is open calls of kernels are timed (see `tiers.clock`), closed it costs nothing.
"""

from __future__ import annotations

import functools
import linecache
import logging
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from .cachewatch import CacheWatch
from .errors import LoweringError
from .events import CellFinished, CellStarted, bus
from .frontend.lowering import op_name
from .frontend.quiet import muted
from .isa.program import Instruction, Program
from .isa.signature import table as signatures
from .isa.text import instructions
from .jit import linker_of, program_of
from .latencies import Called, Latencies
from .session import CellRecord, CellSession
from .splitting import Split, is_wide, splits
from .tiers.clock import clock
from .tiers.fuse import parts_of
from .tiers.pool import pool
from .vm.linked import Linker, Site, SiteTable
from .vm.programs import lower_function
from .vm.region import Region, RegionRunner
from .vm.stats import Stats

_log = logging.getLogger("bcvm")
Span = tuple[int, int, int, int]  # line, column, end line, end column, as in `ast`
Key = tuple[Span, str]  # where an op stands, and its name
Marks = Mapping[Any, tuple[int, int]]  # calls and nanoseconds of call sites at some moment


@dataclass(frozen=True, slots=True)
class InstructionView:
    """One instruction. `part` is "" in the unit's own Program, "0", "0.1", ... in one nested in host code.

    `role`: "op" runs a kernel, "host" is Python, "flow" moves values or the program counter.
    """

    part: str
    pc: int
    opcode: str
    text: str
    label: str
    constants: tuple[str, ...]
    span: Span | None
    op: str
    role: str

    @property
    def line(self) -> int:
        """Where it begins, 0 for nowhere."""
        return 0 if self.span is None else self.span[0]


@dataclass(frozen=True, slots=True)
class Measure:
    """What one instruction has done since the cell began (functions that belong to no session: since they were made).

    `runs`: executions by the VM; `misses`: those that met no tensor and were Python's. `timed` of the runs were measured and took
    `total_us`; the latest took `last_us`. `kernels` have run it, the busiest first, under `signature` (0: not met yet). `reason`: why
    its region was last left to Python, or "". `fused`: the ops of the one kernel that it is part of; the first of them has its time, and
    is the `first` of the others. `recompiled`: that kernel was hot, and better code runs some of its sizes.
    """

    runs: int = 0
    misses: int = 0
    timed: int = 0
    total_us: float = 0.0
    last_us: float = 0.0
    signature: int = 0
    signature_text: str = ""
    kernels: tuple[str, ...] = ()
    reason: str = ""
    fused: tuple[str, ...] = ()
    first: Key | None = None
    recompiled: bool = False


NOTHING = Measure()


@dataclass(frozen=True, slots=True)
class Measures:
    """What a unit has done: by position among its instructions, and by line of its file."""

    instructions: dict[int, Measure]
    lines: dict[int, Measure]


@dataclass(eq=False)
class Unit:
    """A cell or function that is watched. `lines` are its source lines, the first of them line `first_line` of its file.

    `linked_to`: the last line whose tensor work has been linked (a cell's statements are linked just before they run).
    """

    key: str
    kind: str  # "cell" or "function"
    title: str
    first_line: int
    lines: tuple[str, ...]
    instructions: tuple[InstructionView, ...]
    linked_to: int
    _sites: Callable[[], Iterable[Site]] = field(repr=False)
    _watch: Watch = field(repr=False)

    def sites(self) -> Iterable[Site]:
        """The sites that stand in its code now."""
        return self._sites()

    def measures(self) -> Measures:
        """What has been done so far; instructions and lines that have done nothing are left out."""
        found = self._watch.measures(self._sites())
        by_position = {
            position: found[view.span, view.op]
            for position, view in enumerate(self.instructions)
            if view.span is not None and (view.span, view.op) in found
        }
        by_line: dict[int, Measure] = {}
        for (span, _), measure in found.items():
            by_line[span[0]] = _together(by_line.get(span[0]), measure)
        return Measures(by_position, by_line)


class Watch:
    """Looks at `session` (its latest cell that did tensor work, and the functions which that called) and at `functions`."""

    def __init__(self, session: CellSession | None = None, functions: Sequence[Any] = ()) -> None:
        self.session = session
        self.linkers = [_linker(function) for function in functions]
        if session is not None:
            for linker in self.linkers:
                session.follow(linker)
        self.is_open = False
        self.latencies = Latencies()
        self.cache = CacheWatch()
        self._marks: dict[int, Marks] = {}  # by number of the cell at whose beginning, or in which, they were taken
        self._unsubscribe: Callable[[], None] | None = None
        self._kernels: dict[int, tuple[str, ...]] = {}
        self._pool_version = -1
        self._programs: weakref.WeakKeyDictionary[Any, tuple[Any, tuple[InstructionView, ...]]] = weakref.WeakKeyDictionary()

    # -- open and closed --------------------------------------------------------------------------

    def open(self, on_cell: Callable[[], None] | None = None) -> None:
        """Begin to time kernels. `on_cell` is called, in the thread that runs it, whenever a cell starts or is over."""
        if self.is_open:
            return
        self.is_open = True
        clock.start()
        self.latencies.open()
        self.cache.open()
        if self.session is not None and self.session.cells:
            self._mark(self.session.cells[-1].number)  # measured from now on; what a cell did before was not watched

        def listen(event: Any) -> None:
            if isinstance(event, CellStarted):
                self._mark(event.number)
            if on_cell is not None:
                on_cell()

        self._unsubscribe = bus.subscribe(listen, CellStarted, CellFinished)

    def _mark(self, number: int) -> None:
        """Times of cell `number` are those from here on."""
        if number not in self._marks and self.session is not None:
            kept = {record.number for record in self.session.cells} | {number}
            self._marks = {n: marks for n, marks in self._marks.items() if n in kept} | {number: clock.marks()}

    def close(self) -> None:
        """Stop timing; what was measured stays."""
        if self.is_open:
            self.is_open = False
            clock.stop()
            self.latencies.close()
            self.cache.close()
            if self._unsubscribe is not None:
                self._unsubscribe()

    # -- what there is ----------------------------------------------------------------------------

    def cell(self) -> CellRecord | None:
        """The latest cell that did tensor work, itself or by functions it called."""
        return next((r for r in reversed(self.session.cells) if self._works(r)), None) if self.session is not None else None

    def running_cell(self) -> int | None:
        """The number of the cell that runs now, or None."""
        latest = self.session.cells[-1] if self.session is not None and self.session.cells else None
        return None if latest is None or latest.ended_ns is not None else latest.number

    def running_us(self) -> float | None:
        """For how long the session's latest cell has run by now, or None when none runs."""
        latest = self.session.cells[-1] if self.session is not None and self.session.cells else None
        return None if latest is None or latest.ended_ns is not None else (time.perf_counter_ns() - latest.started_ns) / 1000

    def took_us(self) -> float:
        """How long the cell that is shown ran, 0.0 while it does or when there is none."""
        record = self.cell()
        return 0.0 if record is None or record.ended_ns is None else (record.ended_ns - record.started_ns) / 1000

    def stats(self) -> Stats:
        """Executions per op, by CALL_OP and in host code: of the cell that is shown, or of the functions given."""
        record = self.cell()
        if record is not None and self.session is not None:
            return record.stats or self.session.cell_stats()
        out = Stats()
        for linker in self.linkers:
            out.merge(linker.stats)
        return out

    def units(self) -> list[Unit]:
        """The cell, then the functions of the session that ran in it, then the functions given."""
        out: list[Unit] = []
        record = self.cell()
        if record is not None and self.session is not None:
            out.append(self._cell_unit(self.session, record))
            called = [linker for linker in self.session.functions if self._runs_in(record, linker)]
            out += [self._function_unit(linker) for linker in called if linker not in self.linkers]
        out += [self._function_unit(linker) for linker in self.linkers]
        return _with_unique_keys(out)

    def _works(self, record: CellRecord) -> bool:
        return bool(_live(record.tables)) or any(self._runs_in(record, linker) for linker in self._functions())

    def _functions(self) -> list[Linker]:
        return [] if self.session is None else self.session.functions

    @staticmethod
    def _runs_in(record: CellRecord, linker: Linker) -> bool:
        return any(record.runs(site) for site in _live([linker.table]))

    def _cell_unit(self, session: CellSession, record: CellRecord) -> Unit:
        text = session.text(record)
        state = (len(record.tables), record.ended_ns is None)
        listed = self._listed(record, state, lambda: session.program(record))
        lines = tuple(text.splitlines())
        return Unit("cell", "cell", "cell", 1, lines, listed, record.linked_to, lambda: _live(record.tables), self)

    def _function_unit(self, linker: Linker) -> Unit:
        node = linker.source.node
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        last = max(first, node.end_lineno or first)
        text = linker.source.text.splitlines() or [line.rstrip("\n") for line in linecache.getlines(linker.filename)]
        lines = tuple(text[first - 1 : last]) or ("",) * (last - first + 1)  # read back from bytecode, and there is no text
        state = (linker.relinks, dict(linker.observed.specs))  # what is known of its arguments is part of the listing
        listed = self._listed(linker, state, lambda: _program_of(linker))
        return Unit(
            f"function {linker.name}",
            "function",
            linker.name,
            first,
            lines,
            listed,
            first + len(lines),
            lambda: _live([linker.table]),
            self,
        )

    def _listed(self, owner: Any, state: Any, make: Callable[[], Program]) -> tuple[InstructionView, ...]:
        """The instructions of a Program, made again when `state` has changed."""
        known = self._programs.get(owner)
        if known is None or known[0] != state:
            try:
                with muted():  # Python has given its warnings about this text when the user ran it
                    known = (state, views(make()))
            except Exception:  # a view must never disturb what it shows
                _log.debug("no listing of %r", owner, exc_info=True)
                known = (state, () if known is None else known[1])
            self._programs[owner] = known
        return known[1]

    def unspecialised(self, unit: Unit) -> tuple[InstructionView, ...]:
        """The instructions of a function as they were before anything was known of its arguments; () where that can't be told."""
        found = (linker for linker in (*self._functions(), *self.linkers) if linker.name == unit.title and unit.kind == "function")
        functions = [next(iter(linker.functions), None) for linker in found if linker.source.node.lineno >= unit.first_line]
        if not functions or functions[0] is None:
            return ()
        try:
            with muted():
                return views(lower_function(functions[0], example={"": None}))  # else it goes by what the function has met
        except Exception:  # as in `_listed`
            _log.debug("no listing of %r", unit, exc_info=True)
            return ()

    # -- what it has done -------------------------------------------------------------------------

    def measures(self, sites: Iterable[Site]) -> dict[Key, Measure]:
        """What the ops of some sites have done, by place and name."""
        if self._pool_version != pool.version:
            self._kernels, self._pool_version = {}, pool.version
        record = self.cell()
        marks = self._marks.get(record.number, {}) if record is not None else {}
        out: dict[Key, Measure] = {}
        for site in sites:
            runs = site.hits if record is None else record.runs(site)
            for key, calls, kernel in _ops_of(site):
                out[key] = self._add(out.get(key, NOTHING), runs, site, calls, marks)
                if kernel is not None:
                    first = None if kernel.first == key else kernel.first
                    out[key] = replace(out[key], fused=kernel.names, first=first, recompiled=kernel.recompiled)
        return out

    def calls(self, units: Iterable[Unit]) -> Iterator[Called]:
        """The call sites of units that may have run."""
        for unit in units:
            for site in unit.sites():
                shapes = _shapes_of(site)
                for (span, op), sites, kernel in _ops_of(site):
                    where = f"{unit.title}, line {span[0]}"
                    for call in sites:
                        fused = hasattr(call, "segment")
                        yield Called(call, where, kernel.names if fused and kernel else (op,), "fused" if fused else "selected", shapes)

    def splits(self, units: Iterable[Unit]) -> list[Split]:
        """How the regions of units were cut into kernels, by unit and line."""
        sites = ((unit.title, site) for unit in units for site in unit.sites())
        places = [(f"{title}, line {site.key[1]}", site) for title, site in sites if isinstance(site, Region)]
        return list(splits(sorted(places, key=lambda found: (found[0].rpartition(" ")[0], found[1].key[1]))))

    def _add(self, before: Measure, runs: int, site: Site, calls: list[Any], marks: Marks) -> Measure:
        timed, total, last, signature = before.timed, before.total_us, before.last_us, before.signature
        for call in calls:
            timing, (calls_before, ns_before) = clock.timing(call), marks.get(call, (0, 0))
            signature = getattr(call, "signature", 0) or signature
            if timing is not None and timing.calls > calls_before:
                timed += timing.calls - calls_before
                total += (timing.total_ns - ns_before) / 1000
                last = timing.last_ns / 1000
        kernels, reason = self._kernels_of(signature), site.last_reason or before.reason
        runs, misses = before.runs + runs, before.misses + site.misses
        return Measure(
            runs, misses, timed, total, last, signature, _row(signature), kernels, reason, before.fused, before.first, before.recompiled
        )

    def _kernels_of(self, signature: int) -> tuple[str, ...]:
        found = self._kernels.get(signature)
        if found is None:
            found = pool.ran(signature) if signature else ()
            if found:
                self._kernels[signature] = found
        return found


def _together(one: Measure | None, other: Measure) -> Measure:
    """Two ops of one line: the line has run as often as the busier one, and took both their times."""
    if one is None:
        return other
    kernels = tuple(dict.fromkeys((*one.kernels, *other.kernels)))
    total, last = one.total_us + other.total_us, one.last_us + other.last_us
    runs, misses, timed = max(one.runs, other.runs), max(one.misses, other.misses), max(one.timed, other.timed)
    return Measure(runs, misses, timed, total, last, 0, "", kernels, one.reason or other.reason)


@functools.cache
def _row(signature: int) -> str:
    """A signature as a listing shows it: what 16 bits stand for never changes."""
    return str(signatures.row(signature)) if signature else ""


def _linker(function: Any) -> Linker:
    found = linker_of(getattr(function, "__func__", function))
    if found is None:
        name = getattr(function, "__qualname__", repr(function))
        raise LoweringError(
            f"{name} does not run through the VM", fix="decorate it with @bcvm.jit, or define it in a cell of the kernel bcvm"
        )
    return found


def _live(tables: Iterable[SiteTable]) -> list[Site]:
    """The sites that stand in the code now, each once (a watched loop holds them twice), in no order."""
    found = (site for table in list(tables) for site in list(table.placeholders.values()) if isinstance(site, Site))
    return list({id(site): site for site in found}.values())


class _Fused(NamedTuple):
    """The ops of a fused kernel, where the first of them stands, and whether better code runs some of its sizes."""

    names: tuple[str, ...]
    first: Key | None
    recompiled: bool


def _ops_of(site: Site) -> Iterator[tuple[Key, list[Any], _Fused | None]]:
    """The ops of a site: their keys, the call sites by which they have run, and the fused kernel that they are part of."""
    if not isinstance(site, Region):
        span: Span = site.key[1:]
        names = list(site.sites) or ([site.op] if site.op else [])
        yield from (((span, name), [site.sites[name]] if name in site.sites else [], None) for name in names)
        return
    calls: dict[Key, list[Any]] = {}
    fused: dict[Key, _Fused] = {}
    for plan in list(site.plans.values()):
        if isinstance(plan, RegionRunner):
            instructions = plan.code.program.instructions
            for pc, call in list(plan.sites.items()):
                if (key := key_of(instructions[pc])) is not None:
                    calls.setdefault(key, []).append(call)
            found = sorted((*plan.segments.values(), *plan.chains.values()), key=is_wide)  # those within others mark their ops first
            for kernel in [each for site in found for each in (site, *parts_of(site))]:
                if not kernel.calls:
                    continue
                first = kernel.pcs[0]
                for pc in kernel.pcs:
                    if (key := key_of(instructions[pc])) is not None:
                        calls.setdefault(key, []).extend([kernel] if pc == first else [])
                        fused[key] = _Fused(kernel.names, key_of(instructions[first]), kernel.recompiled)
    for instruction in site.code.program.instructions:
        if (key := key_of(instruction)) is not None:
            calls.setdefault(key, [])
    yield from ((key, sites, fused.get(key)) for key, sites in calls.items())


def _shapes_of(site: Site) -> str:
    """Those of the inputs of a region's latest run."""
    plans = list(site.plans.values()) if isinstance(site, Region) else []
    found = next((plan.shapes for plan in reversed(plans) if isinstance(plan, RegionRunner) and plan.shapes), [])
    return ", ".join("-" if shape is None else str(list(shape)) for shape in found)


def key_of(instruction: Instruction) -> Key | None:
    """Where an op stands, and its name; None for what is no op, or stands nowhere."""
    span, op = _span(instruction), op_name(instruction)
    return None if span is None or not op else (span, op)


def _span(instruction: Instruction) -> Span | None:
    loc = instruction.loc
    if loc is None:
        return None
    return (
        loc.line,
        loc.column,
        loc.line if loc.end_line is None else loc.end_line,
        loc.column if loc.end_column is None else loc.end_column,
    )


def views(program: Program) -> tuple[InstructionView, ...]:
    """The instructions of a Program; those of a nested one stand behind the host code that holds it."""
    return tuple(_views(program, ""))


def _views(program: Program, part: str) -> Iterator[InstructionView]:
    left = dict(enumerate(program.nested))

    def nested(numbers: Iterable[int]) -> Iterator[InstructionView]:
        for number in numbers:
            if number in left:
                yield from _views(left.pop(number), f"{part}.{number}" if part else str(number))

    for pc, (instruction, listed) in enumerate(zip(program.instructions, instructions(program), strict=True)):
        op = op_name(instruction)
        role = "op" if op else "host" if instruction.opcode == "CALL_HOST" else "flow"
        yield InstructionView(part, pc, instruction.opcode, listed.text, listed.label, listed.constants, _span(instruction), op, role)
        if role == "host":
            yield from nested([site.program for site in program.hosts[instruction.operand("host")].sites])
    yield from nested(list(left))


def _program_of(linker: Linker) -> Program:
    """The Program of a linked function. Raises LoweringError when no function is left that carries its code."""
    function = next(iter(linker.functions), None)
    if function is None:
        raise LoweringError(f"no function {linker.name} is left")
    program: Program = program_of(function)
    return program


def _with_unique_keys(units: list[Unit]) -> list[Unit]:
    seen: dict[str, int] = {}
    for unit in units:
        seen[unit.key] = seen.get(unit.key, 0) + 1
        if seen[unit.key] > 1:
            unit.key = f"{unit.key} ({seen[unit.key]})"
    return units
