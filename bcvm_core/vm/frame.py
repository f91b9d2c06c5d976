"""The state of one running Program: registers, variables, bound dims, and where it stands."""

from __future__ import annotations

import builtins
import types
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..errors import BcvmError, Where
from ..isa.program import Arg, Program, SourceLoc


class _Unset:
    def __repr__(self) -> str:
        return "<unset>"


UNSET: Final = _Unset()


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return UNSET


class Frame:
    """Registers and variables of one execution.

    Variables of a function are cells, so that closures made by host code capture them and `nonlocal`
    works; variables of a cell are the namespace itself. `closure` holds the cells of free variables.
    """

    __slots__ = ("program", "pc", "registers", "globals", "cells", "closure", "bindings", "result", "done")

    def __init__(
        self,
        program: Program,
        arguments: Mapping[str, Any],
        module_globals: dict[str, Any],
        closure: Mapping[str, types.CellType] | None = None,
    ) -> None:
        self.program = program
        self.pc = 0
        self.registers: list[Any] = [UNSET] * program.register_count
        self.globals = module_globals
        self.closure: dict[str, types.CellType] = dict(closure or {})
        self.bindings: dict[str, int] = {}
        self.result: Any = None
        self.done = False
        self.cells: dict[str, types.CellType] = {}
        if program.kind == "cell":
            module_globals.update(arguments)
            return
        self.cells = {name: types.CellType() for name in (*program.params, *program.local_names)}
        for name, value in arguments.items():
            self.cells[name].cell_contents = value

    def load(self, name: str) -> Any:
        """The value of a variable, found as Python finds it: local, free, global, builtin. Raises Python's NameErrors."""
        cell = self.cells.get(name)
        if cell is not None:
            value = _contents(cell)
            if value is UNSET:
                raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
            return value
        cell = self.closure.get(name)
        if cell is not None:
            value = _contents(cell)
            if value is UNSET:
                text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
                raise NameError(text, name=name)
            return value
        return self._load_global(name)

    def _load_global(self, name: str) -> Any:
        if name in self.globals:
            return self.globals[name]
        known = self.globals.get("__builtins__", builtins)
        names = known if isinstance(known, dict) else vars(known)
        if name in names:
            return names[name]
        raise NameError(f"name '{name}' is not defined", name=name)

    def store(self, name: str, value: Any) -> None:
        """Write a variable: the frame's own, else an enclosing function's, else a global one."""
        cell = self.cells.get(name) or self.closure.get(name)
        if cell is None:
            self.globals[name] = value
        else:
            cell.cell_contents = value

    def variables(self) -> dict[str, Any]:
        """The frame's own variables that have a value."""
        values = {name: _contents(cell) for name, cell in self.cells.items()}
        return {name: value for name, value in values.items() if value is not UNSET}

    def read(self, register: int) -> Any:
        """The value of a register. Raises BcvmError when nothing was written to it."""
        value = self.registers[register]
        if value is UNSET:
            raise BcvmError(f"register r{register} is read before it is written", where=self.where())
        return value

    def arguments(self, args: Iterable[Arg]) -> tuple[list[Any], dict[str, Any]]:
        """The values of an ARGS operand: positional ones in order, and the named ones."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for arg in args:
            value = self.program.consts[arg.index] if arg.is_const else self.read(arg.index)
            if arg.name is None:
                positional.append(value)
            else:
                named[arg.name] = value
        return positional, named

    def location(self) -> SourceLoc | None:
        """Where the current instruction came from."""
        return self.program.instructions[self.pc].loc if self.pc < len(self.program.instructions) else None

    def where(self) -> Where:
        """The current place, for errors."""
        loc = self.location()
        if loc is None:
            return Where(pc=self.pc, filename=self.program.filename)
        return Where(pc=self.pc, filename=self.program.filename, line=loc.line, column=loc.column)
