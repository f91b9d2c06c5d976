"""What each opcode does: one small handler per row of the opcode table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from ..devices import fpstatus
from ..errors import BcvmError, Decline, HintError, TrustError
from ..isa import opcodes
from ..isa.hints import ANY, ShapeHint
from ..ops import registry
from ..tiers.select import CallSite
from . import hostcode, trust
from .attributes import UnsafeAttribute, read_attribute
from .execution import Execution, Undo, owner_of
from .frame import Frame
from .site import event_texts, may_raise, warn_events

Handler = Callable[[Execution, Frame, tuple[Any, ...], "Undo | None"], "int | None"]  # gives the next pc when it jumps


def _nop(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    return None


def _load_tensor(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
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


def _load_var(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    dest, name = operands
    frame.registers[dest] = frame.load(name)


def _store_var(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    name, source = operands
    frame.store(name, frame.read(source))


def _load_const(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    dest, index = operands
    frame.registers[dest] = frame.program.consts[index]


def _load_attr(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
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


def _move(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    dest, source = operands
    frame.registers[dest] = frame.read(source)


_IN_PLACE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": operator.iadd, "subtract": operator.isub, "multiply": operator.imul, "divide": operator.itruediv,
    "floor_divide": operator.ifloordiv, "remainder": operator.imod, "power": operator.ipow, "pow": operator.ipow,
    "matmul": operator.imatmul, "bitwise_and": operator.iand, "bitwise_or": operator.ior, "bitwise_xor": operator.ixor,
    "left_shift": operator.ilshift, "right_shift": operator.irshift,
}  # fmt: skip


def _call_op(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    dest, op, _, args = operands
    positional, named = frame.arguments(args)
    frame.registers[dest] = _execute(run, frame, op, positional, named, undo)


def _const_form(op: str, is_reversed: bool) -> Handler:
    def handler(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
        dest, source, scalar = operands
        value = frame.read(source)
        pair = [scalar, value] if is_reversed else [value, scalar]
        frame.registers[dest] = _execute(run, frame, op, pair, {}, undo)

    return handler


def _execute(run: Execution, frame: Frame, op: str, operands: list[Any], attrs: dict[str, Any], undo: Undo | None) -> Any:
    """One op, by the site of its instruction, else by Python. In a region (`undo` given) the latter is the host's to do."""
    if run.budget is not None:
        run.budget.before_op(op, operands, attrs, frame.where())
    form = _python_form(frame)
    if form is not None and not form.applies(frame, operands):
        return form.evaluate(frame, operands, attrs)
    if frame.pc in frame.program.notes.get("vm.members", ()) and registry.personality_of(type(operands[0])) is None:
        raise Decline(f"a method or attribute of {type(operands[0]).__name__}")
    site = _site(frame, op)
    changes = Undo() if undo is None else undo
    if site.op.writes or "out" in attrs:
        changes.before_write(attrs.get("out", operands[0] if operands else None))
    failure: Exception | None = None
    try:
        result = _run_site(site, frame, operands, attrs, changes)
    except Exception as error:
        if undo is not None or isinstance(error, BcvmError):
            raise
        failure = error
    if failure is not None:  # out of the handler: what Python raises has the user's context, not ours
        changes.restore()
        if run.stats is not None:
            run.stats.count_host((op,))
        return _by_python(frame, op, site, form, operands, attrs, failure)
    if undo is None and changes.events:
        warn_events(owner_of(run, frame.program), changes.events)
    if run.stats is not None and not (site.op.pure_python and not any(registry.personality_of(type(v)) for v in operands)):
        run.stats.count_op((op,))
    return result


def _run_site(site: CallSite, frame: Frame, operands: list[Any], attrs: dict[str, Any], changes: Undo) -> Any:
    """The op by its kernel; warnings it owes go to `changes`. Raises Decline where only Python can do or report it."""
    for value in (*operands, *attrs.values()):
        trust.check(value)  # what may run user code is asked once, by Python
    with fpstatus.recording() as seen:
        result = site(*operands, **attrs)
    if seen.kinds:
        texts = None if may_raise() else event_texts(seen, site, site.op, operands)
        if texts is None:
            raise Decline("a floating-point event that Python reports itself")
        loc = frame.location()
        line = frame.program.first_line if loc is None else loc.line
        changes.events += [(text, line) for text in texts]
    return result


def _site(frame: Frame, op: str) -> CallSite:
    """The site of the current instruction. Operators and functions differ on Python values: np.add(1, 2) is no 1 + 2."""
    notes = frame.program.notes
    sites: dict[int, CallSite] = notes.setdefault("vm.sites", {})
    site = sites.get(frame.pc)
    if site is None:
        form = _python_form(frame)
        is_function = frame.pc in notes.get("vm.functions", ()) or (form is not None and form.function)
        site = sites[frame.pc] = CallSite(op, syntax=not is_function)
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
    if form is not None:
        return form.evaluate(frame, operands, attrs)
    if "out" in attrs and op in _IN_PLACE and len(operands) == 2:
        return _IN_PLACE[op](*operands)
    if not isinstance(error, Decline):
        raise error
    try:
        return site.op.definition(*operands, **attrs)
    except Decline as reason:
        what = f"{op} is Python's business here ({reason}), and the program does not say how Python would do it"
        raise BcvmError(what, where=frame.where(), fix="lower the function anew instead of loading its program") from None


def _cond_jump(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> int | None:
    condition, target = operands
    return int(target) if frame.read(condition) else None


def _jump(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> int | None:
    return int(operands[0])


def _get_iter(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    dest, source = operands
    frame.registers[dest] = iter(frame.read(source))


def _loop_start(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> int | None:
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


def _return(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    frame.result = None if operands[0] is None else frame.read(operands[0])
    frame.done = True


def _check(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    source, expected = operands
    found, (wanted,) = frame.read(source), frame.arguments(expected)[0]
    by_value = type(wanted) not in (bool, type(None)) and type(found) is type(wanted) and bool(found == wanted)
    if found is not wanted and not by_value:
        what = f"{frame.program.name} takes another path: {found!r:.80} is not {wanted!r:.80}"
        raise BcvmError(what, where=frame.where(), fix="run it on operands like those it was recorded for")


def _items(run: Execution, frame: Frame, args: Any) -> list[Any]:
    items = frame.arguments(args)[0]
    if run.budget is not None:
        run.budget.container(items, frame.where())
    return items


def _build_tuple(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    frame.registers[operands[0]] = tuple(_items(run, frame, operands[1]))


def _build_list(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    frame.registers[operands[0]] = _items(run, frame, operands[1])


def _build_dict(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    flat = _items(run, frame, operands[1])
    frame.registers[operands[0]] = dict(zip(flat[::2], flat[1::2], strict=True))


def _unpack(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
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


def _to_device(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
    dest, source, device = operands
    value = frame.read(source)
    if device.partition(":")[0] != "cpu":
        raise BcvmError(f"device {device!r} is not available here", where=frame.where(), fix="run it on cpu:0")
    frame.registers[dest] = value


def _call_host(run: Execution, frame: Frame, operands: tuple[Any, ...], undo: Undo | None) -> None:
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
