"""The reference interpreter: a loop over instructions that can be stepped.

It runs any Program. Tensor work goes through the same `CallSite` as in the linked form, one per
instruction; what a site declines is done by the Python the user wrote (`Program.notes["python"]`)
or, in a program that came from a file, by the op's NumPy definition. `handlers` holds what each
opcode does, `execution` what the programs of one run share.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import BcvmError, TrustError, Where
from ..isa.program import Instruction, Program
from . import places
from .execution import Execution, StepHook, Undo
from .frame import Frame
from .handlers import HANDLERS, Handler
from .limits import Limits
from .stats import Stats

__all__ = ["HANDLERS", "Limits", "Stepper", "run", "uses_host"]

Decoded = tuple[tuple[Handler, tuple[Any, ...]], ...]


def _decoded(program: Program) -> Decoded:
    code: Decoded | None = program.notes.get("vm.code")
    if code is None:
        code = program.notes["vm.code"] = tuple((HANDLERS[i.opcode], i.operands) for i in program.instructions)
    return code


def _step(run: Execution, frame: Frame, code: Decoded, undo: Undo | None) -> None:
    if frame.pc >= len(code):
        raise BcvmError(f"{frame.program.name} ends without RETURN", where=Where(pc=frame.pc), fix="verify the program first")
    if run.budget is not None:
        run.budget.step(frame.where())
    if run.on_step is not None:
        run.on_step(frame)
    handler, operands = code[frame.pc]
    target = handler(run, frame, operands, undo)
    if run.budget is not None:
        run.budget.held(frame.registers, frame.where())
    frame.pc = frame.pc + 1 if target is None else target


def _loop(run: Execution, frame: Frame, undo: Undo | None = None) -> None:
    code = _decoded(frame.program)
    while not frame.done:
        _step(run, frame, code, undo)


def uses_host(program: Program) -> bool:
    """Does the program, or one nested in it, run Python?"""
    return any(i.opcode == "CALL_HOST" for i in program.instructions) or any(uses_host(p) for p in program.nested)


def _start(program: Program, trusted: bool) -> None:
    if not trusted and uses_host(program):
        pc = next((k for k, i in enumerate(program.instructions) if i.opcode == "CALL_HOST"), None)
        where = Where(pc=pc, filename=program.filename)
        fix = "pass trusted=True (`bcvm run --trust`) if you trust its origin"
        raise TrustError(f"{program.name} runs Python code", where=where, fix=fix)


def run(
    program: Program,
    args: Mapping[str, Any] | Sequence[Any] = (),
    *,
    globals: dict[str, Any] | None = None,
    closure: Mapping[str, types.CellType] | None = None,
    limits: Limits | None = None,
    trusted: bool = False,
    stats: Stats | None = None,
    on_step: StepHook | None = None,
) -> Any:
    """Run a verified program and give its value.

    `args`: parameters by name or in order. `globals`: what global names mean (a cell's namespace).
    `closure`: cells of free variables. Raises what the user's code raises, from the user's line;
    TrustError before anything ran when the program holds host code and `trusted` is not set;
    LimitError past `limits`; HintError when a tensor violates its hint.
    """
    stepper = Stepper(program, args, globals=globals, closure=closure, limits=limits, trusted=trusted, stats=stats, on_step=on_step)
    return stepper.finish()


def execution(module_globals: dict[str, Any], *, stats: Stats | None = None) -> Execution:
    """A trusted run without limits, for sub-Programs that belong to code of the caller's own."""
    return Execution(module_globals, {}, None, stats, None, True, _loop)


class Stepper:
    """A program under way: `step()` runs one instruction; the state can be looked at in between."""

    def __init__(
        self,
        program: Program,
        args: Mapping[str, Any] | Sequence[Any] = (),
        *,
        globals: dict[str, Any] | None = None,
        closure: Mapping[str, types.CellType] | None = None,
        limits: Limits | None = None,
        trusted: bool = False,
        stats: Stats | None = None,
        on_step: StepHook | None = None,
    ) -> None:
        _start(program, trusted)
        space = {"__builtins__": __builtins__} if globals is None else globals
        self.run = Execution(space, closure or {}, limits, stats, on_step, trusted, _loop)
        self.frame = self.run.frame(program, args)
        self._code = _decoded(program)

    @property
    def done(self) -> bool:
        """Has the program returned (or raised)?"""
        return self.frame.done

    @property
    def result(self) -> Any:
        """The value returned; None before."""
        return self.frame.result

    @property
    def pc(self) -> int:
        """Number of the instruction that runs next."""
        return self.frame.pc

    @property
    def instruction(self) -> Instruction | None:
        """The instruction that runs next."""
        return None if self.done else self.frame.program.instructions[self.pc]

    def variables(self) -> dict[str, Any]:
        """The frame's own variables that have a value."""
        return self.frame.variables()

    def step(self) -> bool:
        """Run one instruction; False once the program is done. Raises what the program raises, and is done then."""
        if self.done:
            return False
        try:
            _step(self.run, self.frame, self._code, None)
        except BaseException as error:
            self.frame.done = True
            places.relocate(error, self.frame)
            raise
        return not self.done

    def finish(self) -> Any:
        """Run to the end and give the value."""
        frame = self.frame
        try:
            _loop(self.run, frame)
        except BaseException as error:
            frame.done = True
            places.relocate(error, frame)
            raise
        return frame.result

    def __iter__(self) -> Iterator[int]:
        """Step through, giving the pc before each instruction."""
        while not self.done:
            yield self.pc
            self.step()
