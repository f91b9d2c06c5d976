"""The reference interpreter: one small handler per opcode, a loop that can be stepped.

It runs any Program. Tensor work goes through the same `CallSite` as in the linked form, one per
instruction; what a site declines is done by the Python the user wrote (`Program.notes["python"]`)
or, in a program that came from a file, by the op's NumPy definition.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np

from ..devices import fpstatus
from ..errors import BcvmError, Decline, HintError, TrustError, Where
from ..isa import opcodes
from ..isa.hints import ANY, ShapeHint
from ..isa.program import Instruction, Program
from ..isa.signature import table as signatures
from ..tiers.select import CallSite
from . import hostcode, places
from .attributes import UnsafeAttribute, read_attribute
from .frame import Frame
from .limits import Budget, Limits
from .site import SiteOwner
from .stats import Stats
from .value_site import ValueSite

__all__ = ["HANDLERS", "Limits", "Stepper", "run", "uses_host"]


StepHook = Callable[[Frame], object]


class Execution:
    """What the programs of one run share."""

    __slots__ = ("globals", "closure", "budget", "stats", "on_step", "trusted", "_value_sites")

    def __init__(
        self,
        module_globals: dict[str, Any],
        closure: Mapping[str, types.CellType],
        limits: Limits | None,
        stats: Stats | None,
        on_step: StepHook | None,
        trusted: bool,
    ) -> None:
        self.globals = module_globals
        self.closure = closure
        self.budget = None if limits is None else Budget(limits)
        self.stats = stats
        self.on_step = on_step
        self.trusted = trusted
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
        frame = Frame(program, dict(zip(program.params, operands, strict=True)), self.globals, self.closure)
        with _Undo() as undo:
            try:
                _loop(self, frame, undo)
            except Decline:
                undo.restore()
                return None
            except (Exception, RecursionError) as error:
                if isinstance(error, BcvmError):
                    raise
                undo.restore()
                return None
        return (frame.result,)


class _Owner(SiteOwner):
    """The function that value sites of a run stand in."""

    def __init__(self, run: Execution, program: Program) -> None:
        super().__init__()
        self.name = program.name
        self.filename = program.filename
        self.globals = run.globals
        if run.stats is not None:
            self.stats = run.stats


class _Undo:
    """Arrays a region wrote to, as they were: a region that fails must have changed nothing."""

    __slots__ = ("saved",)

    def __init__(self) -> None:
        self.saved: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []

    def __enter__(self) -> _Undo:
        return self

    def __exit__(self, *exc: object) -> None:
        self.saved.clear()

    def before_write(self, target: Any) -> None:
        if isinstance(target, np.ndarray):
            self.saved.append((target, target.copy()))

    def restore(self) -> None:
        for target, old in reversed(self.saved):
            np.copyto(target, old)


# --- handlers ----------------------------------------------------------------------------------

Handler = Callable[[Execution, Frame, tuple[Any, ...], "_Undo | None"], "int | None"]  # gives the next pc when it jumps


def _nop(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    return None


def _load_tensor(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    dest, name, hint = operands
    value = frame.load(name)
    if hint != ANY:
        _check_hint(frame, name, hint, value)
    frame.registers[dest] = value


def _check_hint(frame: Frame, name: str, hint: ShapeHint, value: Any) -> None:
    shape = getattr(value, "shape", () if isinstance(value, int | float | complex) else None)
    if not isinstance(shape, tuple):
        reason = f"it is a {type(value).__name__}, which has no shape"
    else:
        found = hint.match(shape, frame.bindings)
        if found is None:
            return
        reason = found
    what = f"{frame.program.name}: {name} does not fit {hint}: {reason}"
    raise HintError(what, where=frame.where(), fix="pass a tensor that fits, or change the annotation")


def _load_var(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    dest, name = operands
    frame.registers[dest] = frame.load(name)


def _store_var(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    name, source = operands
    frame.store(name, frame.read(source))


def _load_const(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    dest, index = operands
    frame.registers[dest] = frame.program.consts[index]


def _load_attr(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    dest, source, name = operands
    value = frame.read(source)
    if run.trusted and frame.program.kind != "region":
        frame.registers[dest] = getattr(value, name)  # here, and once, is where Python reads it
        return
    try:
        frame.registers[dest] = read_attribute(value, name)
    except UnsafeAttribute as error:
        if run.trusted:
            raise
        what = f"reading {name!r} of a {type(value).__name__} may run code"
        raise TrustError(what, where=frame.where(), fix="pass trusted=True if you trust the program's origin") from error


def _move(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    dest, source = operands
    frame.registers[dest] = frame.read(source)


_IN_PLACE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": operator.iadd, "subtract": operator.isub, "multiply": operator.imul, "divide": operator.itruediv,
    "floor_divide": operator.ifloordiv, "remainder": operator.imod, "power": operator.ipow, "pow": operator.ipow,
    "matmul": operator.imatmul, "bitwise_and": operator.iand, "bitwise_or": operator.ior, "bitwise_xor": operator.ixor,
    "left_shift": operator.ilshift, "right_shift": operator.irshift,
}  # fmt: skip


def _call_op(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    dest, op, _, args = operands
    positional, named = frame.arguments(args)
    frame.registers[dest] = _execute(run, frame, op, positional, named, undo)


def _const_form(op: str, is_reversed: bool) -> Handler:
    def handler(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
        dest, source, scalar = operands
        value = frame.read(source)
        pair = [scalar, value] if is_reversed else [value, scalar]
        frame.registers[dest] = _execute(run, frame, op, pair, {}, undo)

    return handler


def _execute(run: Execution, frame: Frame, op: str, operands: list[Any], attrs: dict[str, Any], undo: _Undo | None) -> Any:
    """One op, by the site of its instruction, else by Python."""
    if run.budget is not None:
        run.budget.before_op(op, operands, attrs, frame.where())
    form = _python_form(frame)
    if form is not None and not form.applies(frame, operands):
        return form.evaluate(frame, operands, attrs)
    site = _site(frame, op)
    if undo is not None and (site.op.writes or "out" in attrs):
        undo.before_write(attrs.get("out", operands[0] if operands else None))
    failure: Exception | None = None
    try:
        with fpstatus.recording() as seen:
            result = site(*operands, **attrs)
    except Exception as error:
        if undo is not None or isinstance(error, BcvmError):
            raise
        failure = error
    if failure is not None:  # out of the handler: what Python raises has the user's context, not ours
        if run.stats is not None:
            run.stats.count_host((op,))
        return _by_python(frame, op, site, form, operands, attrs, failure)
    if seen.kinds:
        places.report(frame, _reported_name(site), seen)
    if run.stats is not None:
        run.stats.count_op((op,))
    return result


def _reported_name(site: CallSite) -> str:
    """The name NumPy gives an op in its warnings."""
    name = site.op.fp_name or site.op.name
    if site.op.scalar is None or site.syntax is False or not site.signature:
        return name
    return f"scalar {name}" if all(c.layout == "scalar" for c in signatures.row(site.signature).operands) else name


def _site(frame: Frame, op: str) -> CallSite:
    """The site of the current instruction. Operators and functions differ on Python values: np.add(1, 2) is no 1 + 2."""
    notes = frame.program.notes
    sites: dict[int, CallSite] = notes.setdefault("vm.sites", {})
    site = sites.get(frame.pc)
    if site is None:
        form = _python_form(frame)
        is_function = frame.pc in notes.get("vm.functions", ()) or (form is not None and form.function)
        site = sites[frame.pc] = CallSite(op, syntax=False if is_function else None)
    return site


class Form(Protocol):
    """The user's own expression for one op; see `frontend.pythonform`."""

    function: bool

    def applies(self, frame: Any, operands: Sequence[Any]) -> bool:
        """Does the op still stand for what the user wrote?"""

    def evaluate(self, frame: Any, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The value Python gives for operands that are evaluated already."""


def _python_form(frame: Frame) -> Form | None:
    forms: Mapping[int, Form] = frame.program.notes.get("python", {})
    return forms.get(frame.pc)


def _by_python(
    frame: Frame, op: str, site: CallSite, form: Form | None, operands: Sequence[Any], attrs: Mapping[str, Any], error: Exception
) -> Any:
    """The op as Python does it, which also raises what Python raises."""
    if "out" in attrs and op in _IN_PLACE and len(operands) == 2:
        return _IN_PLACE[op](*operands)
    if form is not None:
        return form.evaluate(frame, operands, attrs)
    if not isinstance(error, Decline):
        raise error
    try:
        return site.op.definition(*operands, **attrs)
    except Decline as reason:
        what = f"{op} is Python's business here ({reason}), and the program does not say how Python would do it"
        raise BcvmError(what, where=frame.where(), fix="lower the function anew instead of loading its program") from None


def _cond_jump(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> int | None:
    condition, target = operands
    return int(target) if frame.read(condition) else None


def _jump(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> int | None:
    return int(operands[0])


def _get_iter(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    dest, source = operands
    frame.registers[dest] = iter(frame.read(source))


def _loop_start(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> int | None:
    item, iterator, leave = operands
    if iterator is None:
        return None
    try:
        value = next(frame.read(iterator))
    except StopIteration:
        return int(leave)
    if item is not None:
        frame.registers[item] = value
    return None


_loop_end = _jump


def _return(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    frame.result = None if operands[0] is None else frame.read(operands[0])
    frame.done = True


def _build_tuple(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    frame.registers[operands[0]] = tuple(frame.arguments(operands[1])[0])


def _build_list(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    frame.registers[operands[0]] = frame.arguments(operands[1])[0]


def _build_dict(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    flat = frame.arguments(operands[1])[0]
    frame.registers[operands[0]] = dict(zip(flat[::2], flat[1::2], strict=True))


def _unpack(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    dests, source = operands
    for dest, value in zip(dests, _unpacker(len(dests))(frame.read(source)), strict=True):
        frame.registers[dest] = value


@lru_cache(maxsize=64)
def _unpacker(count: int) -> Callable[[Any], tuple[Any, ...]]:
    """Python's own unpacking into `count` names, with its own error messages."""
    if count == 0:
        names, result = "[]", "()"
    else:
        result = names = ", ".join(f"a{i}" for i in range(count)) + ","
    space: dict[str, Any] = {}
    exec(f"def unpack(value):\n {names} = value\n return {result}", space)
    return space["unpack"]  # type: ignore[no-any-return]


_fuse_start = _fuse_end = _fuse_across_device = _nop  # marks: the reference runs op by op


def _to_device(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    dest, source, device = operands
    value = frame.read(source)
    if device.partition(":")[0] != "cpu":
        raise BcvmError(f"device {device!r} is not available here", where=frame.where(), fix="run it on cpu:0")
    frame.registers[dest] = value


def _call_host(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: _Undo | None) -> None:
    dest, block = operands
    value = hostcode.run_block(frame, block, run)
    if dest is not None:
        frame.registers[dest] = value


def _handlers() -> dict[str, Handler]:
    table: dict[str, Handler] = {}
    for row in opcodes.TABLE:
        if row.const_op is not None:
            table[row.name] = _const_form(row.const_op, row.reversed)
        else:
            table[row.name] = globals()[f"_{row.name.lower()}"]
    return table


HANDLERS: Final[Mapping[str, Handler]] = _handlers()


# --- the loop ----------------------------------------------------------------------------------

Decoded = tuple[tuple[Handler, tuple[Any, ...]], ...]


def _decoded(program: Program) -> Decoded:
    code: Decoded | None = program.notes.get("vm.code")
    if code is None:
        code = program.notes["vm.code"] = tuple((HANDLERS[i.opcode], i.operands) for i in program.instructions)
    return code


def _step(run: Execution, frame: Frame, code: Decoded, undo: _Undo | None) -> None:
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


def _loop(run: Execution, frame: Frame, undo: _Undo | None = None) -> None:
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
        self.run = Execution(space, closure or {}, limits, stats, on_step, trusted)
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
