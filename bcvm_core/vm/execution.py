"""What the programs of one run share: globals, limits, counters, and how host code runs the tensor work nested in it."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..devices import base
from ..errors import BcvmError
from ..isa.program import Program
from ..ops import registry
from .frame import Frame
from .limits import Budget, Limits
from .site import SiteOwner, warn_events
from .stats import Stats
from .value_site import ValueSite

StepHook = Callable[[Frame], object]
Loop = Callable[["Execution", Frame, "Undo | None"], None]
"""Runs a frame to its end; the interpreter's own."""


class Execution:
    """What the programs of one run share."""

    __slots__ = ("globals", "closure", "budget", "stats", "on_step", "trusted", "_loop", "_value_sites")

    def __init__(
        self,
        module_globals: dict[str, Any],
        closure: Mapping[str, types.CellType],
        limits: Limits | None,
        stats: Stats | None,
        on_step: StepHook | None,
        trusted: bool,
        loop: Loop,
    ) -> None:
        self.globals = module_globals
        self.closure = closure
        self.budget = None if limits is None else Budget(limits)
        self.stats = stats
        self.on_step = on_step
        self.trusted = trusted
        self._loop = loop
        self._value_sites: dict[tuple[int, int, int], ValueSite] = {}

    def value_site(self, program: Program, block: int, site: int, kind: str) -> ValueSite:
        """What stands for a "value" site of host code: the same object as in the linked form, so that both run the same kernels."""
        found = self._value_sites.get((id(program), block, site))
        if found is None:
            host, span = program.hosts[block], program.hosts[block].sites[site]
            code = program.nested[span.program].instructions
            op = next((i.operands[1] for i in code if i.opcode == "CALL_OP"), None)
            key = ("value", host.line + span.line - 1, span.column, host.line + span.end_line - 1, span.end_column)
            found = self._value_sites[id(program), block, site] = ValueSite(key, kind, op, _Owner(self, program))
        return found

    def frame(self, program: Program, args: Mapping[str, Any] | Sequence[Any]) -> Frame:
        """A new frame with its parameters bound. Raises TypeError when they don't fit."""
        given = dict(args) if isinstance(args, Mapping) else dict(zip(program.params, args, strict=False))
        missing = [name for name in program.params if name not in given]
        surplus = len(args) - len(given) + len(given.keys() - set(program.params))
        if missing or (surplus and program.kind != "cell"):
            raise TypeError(f"{program.name}({', '.join(program.params)}) was given {sorted(given)}, {surplus} too many, without {missing}")
        return Frame(program, given, self.globals, self.closure)

    def site(self, program: Program, operands: tuple[Any, ...]) -> tuple[Any] | None:
        """Run a sub-Program for a host block; its value in a 1-tuple, None when the host code must do the work itself."""
        chosen = self._for_operands(program, operands)
        if chosen is None:
            return None
        program = chosen
        frame = Frame(program, dict(zip(program.params, operands, strict=True)), self.globals, self.closure)
        with Undo() as undo:
            try:
                self._loop(self, frame, undo)
            except Exception as error:
                if isinstance(error, BcvmError):
                    raise
                undo.restore()
                return None
            events = list(undo.events)
        if events:
            warn_events(owner_of(self, program), events)
        return (frame.result,)

    def _for_operands(self, program: Program, operands: tuple[Any, ...]) -> Program | None:
        """The program as it is for these operands (methods of another library's tensors mean other ops), if it still holds."""
        for key, value in program.notes.get("vm.callables", {}).items():
            if self._resolved(key) is not value:
                return None
        foreign = next((p for p in map(registry.personality_of, map(type, operands)) if p not in (None, "numpy")), None)
        if foreign is None and any(map(registry.is_bound_to_library, program.notes.get("vm.callables", {}).values())):
            return None
        relower = program.notes.get("vm.relower")
        if foreign is None or relower is None:
            return program
        known: dict[str, Program | None] = program.notes.setdefault("vm.personalities", {})
        if foreign not in known:
            known[foreign] = relower(foreign)
        return known[foreign]

    def _resolved(self, key: str) -> Any:
        """What a dotted name of the module means now."""
        first, *attributes = key.split(".")
        cell = self.closure.get(first)
        try:
            value = cell.cell_contents if cell is not None else self.globals.get(first, getattr(builtins, first, None))
        except ValueError:
            return None
        for attribute in attributes:
            value = getattr(value, attribute, None)
        return value


def owner_of(run: Execution, program: Program) -> SiteOwner:
    """What sites and warnings need to know of the function that a program is of."""
    return _Owner(run, program)


class _Owner(SiteOwner):
    """The function that value sites of a run stand in."""

    def __init__(self, run: Execution, program: Program) -> None:
        super().__init__()
        self.name = program.name
        self.filename = program.filename
        self.globals = run.globals
        if run.stats is not None:
            self.stats = run.stats


class Undo:
    """Arrays a region wrote to, as they were, and the warnings it owes: a region that fails must have done nothing."""

    __slots__ = ("saved", "events")

    def __init__(self) -> None:
        self.saved: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        self.events: list[tuple[str, int]] = []

    def __enter__(self) -> Undo:
        return self

    def __exit__(self, *exc: object) -> None:
        self.saved.clear()

    def before_write(self, target: Any) -> None:
        if not isinstance(target, np.ndarray):
            adapter = base.adapter_for(type(target))
            if adapter is None:
                return
            target = adapter.array(target)
        self.saved.append((target, target.copy()))

    def restore(self) -> None:
        for target, old in reversed(self.saved):
            np.copyto(target, old)
