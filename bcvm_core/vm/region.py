"""Regions at run time: bind to operand types, run the kernels, commit at the end, or leave it to Python."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import config, fpstatus
from ..errors import Decline, StrictError, Where
from ..events import Bound, HandedBack, bus
from ..frontend.lowering import RegionCode, op_name
from ..isa.program import Arg, Instruction
from ..isa.signature import table as signatures
from ..ops import registry
from ..tiers.select import CallSite, commit
from .attributes import UnsafeAttribute, read_attribute
from .stats import Stats

Plan = Callable[..., Any]
_CONTAINERS = (dict, list)
_WARN_ONLY = frozenset({"warn", "ignore"})


class NoTensorError(Decline):
    """A region met no tensor; or (`personality`) tensors of another library than it was bound for."""

    def __init__(self, personality: str | None) -> None:
        self.personality = personality
        super().__init__("no operand is a tensor")


class SiteOwner:
    """What sites need to know of the function or cell they stand in. The linker subclasses it."""

    name = "<cell>"
    filename = "<cell>"
    strict = False

    def __init__(self) -> None:
        self.stats = Stats()
        self.globals: dict[str, Any] = {}

    def forget_attribute(self, name: str) -> None:
        """Reading attribute `name` may run user code: form the regions again without it."""

    def callable_rebound(self, site: Any) -> None:
        """A callee named in the region is no longer the op it was: form the regions again."""

    def site_is_dead(self, site: Any) -> None:
        """A site has met no tensor for a while: take it out."""


def idle() -> bool:
    """Must everything run as plain Python now? (switched off, or a debugger or coverage tool wants exact lines)"""
    return not config.current.enabled or sys.gettrace() is not None


class Region:
    """The constant that stands for a run or tree in linked code. None means: Python does it."""

    __slots__ = ("key", "code", "relower", "owner", "plans", "hits", "misses", "dead", "last_reason", "__weakref__")

    def __init__(self, key: Any, code: RegionCode, relower: Callable[[str], RegionCode | None], owner: SiteOwner) -> None:
        self.key = key
        self.code = code
        self.relower = relower
        self.owner = owner
        self.plans: dict[tuple[type, ...], Plan | None] = {}
        self.hits = 0
        self.misses = 0
        self.dead = False
        self.last_reason = ""

    def __repr__(self) -> str:
        return f"<bcvm region {self.owner.name}:{self.key[1]}>"

    def __call__(self, *args: Any) -> Any:
        if self.dead or idle():
            return None
        plan = self.plans.get(tuple(map(type, args)))
        if plan is None:
            plan = self._bind(args)
            if plan is None:
                return None
        return plan(args)

    # -- binding ----------------------------------------------------------------------------------

    def _bind(self, args: tuple[Any, ...]) -> Plan | None:
        types = tuple(map(type, args))
        if types in self.plans:
            self.miss()
            return None
        count = len(self.code.inputs)
        personalities = {registry.personality_of(t) for t in types[:count]} - {None}
        hidden = not personalities and not self.code.callables
        if hidden and not _loads(self.code):
            self.plans[types] = None
            self.miss()
            return None
        return self.bind_as("mindspore" if "mindspore" in personalities else "numpy", types, hidden)

    def bind_as(self, personality: str, types: tuple[type, ...], hidden: bool) -> Plan | None:
        """Make the plan for operand types; `hidden`: tensors can only come out of containers or attributes."""
        code = self.code if personality == "numpy" else self.relower(personality)
        if code is None or not set(code.inputs) <= set(self.code.inputs):
            self.plans[types] = None
            self.hand_back("not spelled as an op for these operands", self.code.ops)
            return None
        runner = RegionRunner(self, code, personality, hidden)
        self.plans[types] = runner
        self.owner.stats.count_bound()
        if bus.active:
            bus.emit(Bound(repr(self), (), "[...]", 0.0))
        return runner

    def miss(self) -> None:
        """Not tensors: this is not ours. After a while the site is taken out of the code."""
        self.misses += 1
        if not self.hits and self.misses >= config.current.prune_after:
            self.dead = True
            self.owner.site_is_dead(self)

    def hand_back(self, reason: str, ops: tuple[str, ...]) -> None:
        """Tensors, but Python must do it: counted, and an error under strict."""
        self.last_reason = reason
        self.owner.stats.count_host(ops, reason)
        if bus.active:
            bus.emit(HandedBack(repr(self), reason))
        if self.owner.strict:
            where = Where(filename=self.owner.filename, line=self.key[1], column=self.key[2])
            raise StrictError(f"{', '.join(dict.fromkeys(ops))} would run on the host: {reason}", where=where, fix="drop strict=True, or see `bcvm pool`")


class RegionRunner:
    """A region bound to operand types: its steps as one generated Python function.

    `_steps` runs everything before the write; under `fpstatus.recording` it neither warns nor
    commits. Then floating-point events are dealt with, and the write, if any, is committed.
    """

    __slots__ = ("region", "code", "personality", "hidden", "order", "sites", "steps")

    def __init__(self, region: Region, code: RegionCode, personality: str, hidden: bool) -> None:
        self.region = region
        self.code = code
        self.personality = personality
        self.hidden = hidden
        self.order = [region.code.inputs.index(name) for name in code.inputs]
        self.sites: dict[int, CallSite] = {}
        self.steps = self._generate()

    def __call__(self, args: tuple[Any, ...]) -> Any:
        region, count = self.region, len(self.region.code.inputs)
        for expected, actual in zip(region.code.callable_values, args[count:], strict=True):
            if expected is not actual:
                region.owner.callable_rebound(region)
                return None
        inputs = [args[i] for i in self.order]
        try:
            with fpstatus.recording() as record:
                result = self.steps(*inputs)
            if record.kinds and not self._report(inputs):
                return None
            if self.code.write_at is not None:
                result = self._commit(result, record.modes)
        except NoTensorError as error:
            if error.personality is None:
                region.miss()
                return None
            again = region.bind_as(error.personality, tuple(map(type, args)), hidden=False)
            return None if again is None else again(args)
        except UnsafeAttribute as error:
            region.owner.forget_attribute(error.name)
            region.plans.clear()
            region.hand_back(f"reading .{error.name} may run user code", self.code.ops)
            return None
        except Decline as error:
            region.hand_back(str(error) or "left to Python", self.code.ops)
            return None
        except StrictError:
            raise
        except Exception as error:  # the op's own error: Python replays and raises it at the user's line
            region.last_reason = f"{type(error).__name__}: {error}"
            region.owner.stats.count_replay(self.code.ops, type(error).__name__)
            return None
        region.hits += 1
        region.owner.stats.count_op(self.code.ops)
        return result

    def _commit(self, finish: Callable[[], Any], modes: dict[str, str]) -> Any:
        """Do the write. Storing may cast, and a cast may overflow: under "raise" and its like that is Python's."""
        if self.code.program.instructions[self.code.write_at or 0].operands[1] == "setitem" and not _WARN_ONLY.issuperset(modes.values()):
            raise Decline("stores under numpy.errstate other than warn and ignore are left to Python")
        with fpstatus.recording() as record:
            result = finish()
        if record.kinds:
            warn_events(self.region.owner, [(kind, "cast", self._line_of(self.code.write_at or 0)) for kind in record.kinds])
        return result

    def own(self, receiver: Any) -> None:
        """Methods and attributes are those of tensors of the kind the region was bound for."""
        if registry.personality_of(type(receiver)) != self.personality:
            raise Decline(f"a method of {type(receiver).__name__}")

    def look(self, *loaded: Any) -> None:
        """Is a tensor among what was taken out of containers and attributes? If not, nothing here is ours."""
        found = {registry.personality_of(type(v)) for v in loaded} - {None}
        if not found:
            raise NoTensorError(None)
        if "mindspore" in found and self.personality == "numpy":
            raise NoTensorError("mindspore")

    # -- floating-point events --------------------------------------------------------------------

    def _report(self, inputs: list[Any]) -> bool:
        """Run op by op to see who caused which event, and warn as NumPy would. False: Python must do it."""
        events: list[tuple[str, str, int]] = []
        pending: list[Any] = []

        def on_step(pc: int, call: Callable[[], Any]) -> Any:
            with fpstatus.recording() as record:
                value = call()
            if any(record.modes[k] != "warn" for k in record.kinds):
                pending.append(pc)
            op = registry.row(op_name(self.code.program.instructions[pc]))
            events.extend((k, warning_name(self.sites[pc], op), self._line_of(pc)) for k in record.kinds)
            return value

        self._generate(on_step)(*inputs)
        if pending:
            return False
        try:
            warn_events(self.region.owner, events)
        except RuntimeWarning:
            return False  # a filter made it an error: Python raises it where the user sees it
        return True

    def _line_of(self, pc: int) -> int:
        location = self.code.program.instructions[pc].loc
        return location.line if location is not None else int(self.region.key[1])

    # -- code -------------------------------------------------------------------------------------

    def _generate(self, on_step: Callable[[int, Callable[[], Any]], Any] | None = None) -> Callable[..., Any]:
        """The region's instructions as a Python function of its inputs."""
        writer = _PlanWriter(self, on_step)
        source = writer.source()
        exec(compile(source, f"<bcvm plan {self.region.owner.name}:{self.region.key[1]}>", "exec"), writer.namespace)
        return writer.namespace["steps"]  # type: ignore[no-any-return]

    def site(self, pc: int, op: str) -> CallSite:
        """The call site of an instruction, made once."""
        if pc not in self.sites:
            syntax = False if pc in self.code.function_pcs else None
            self.sites[pc] = CallSite(op, syntax=syntax)
        return self.sites[pc]


def _loads(code: RegionCode) -> bool:
    """Does the region take values out of attributes or containers?"""
    return any(map(_is_load, code.program.instructions))


def _is_load(instruction: Instruction) -> bool:
    return instruction.opcode == "LOAD_ATTR" or op_name(instruction) == "getitem"


def warning_name(site: CallSite, op: registry.OpInfo) -> str:
    """The name NumPy gives an op in floating-point warnings."""
    name = op.fp_name or op.name
    if op.scalar is None or site.syntax is False or not site.signature:
        return name
    operands = signatures.row(site.signature).operands
    return f"scalar {name}" if all(c.layout == "scalar" for c in operands) else name


def warn_events(owner: SiteOwner, events: list[tuple[str, str, int]]) -> None:
    """Issue (kind, op name, line) as NumPy's warnings, at the user's file and line."""
    seen = owner.globals.setdefault("__warningregistry__", {})
    module = owner.globals.get("__name__") or "<unknown>"
    for kind, name, line in events:
        warnings.warn_explicit(f"{fpstatus.TEXT[kind]} encountered in {name}", RuntimeWarning, owner.filename, line, module, seen)


class _PlanWriter:
    """Writes the source of a region's plan."""

    def __init__(self, runner: RegionRunner, on_step: Callable[[int, Callable[[], Any]], Any] | None) -> None:
        self.runner = runner
        self.on_step = on_step
        self.program = runner.code.program
        self.namespace: dict[str, Any] = {"read_attribute": read_attribute, "step": on_step, "store_item": store_item, "commit": commit}
        self.lines: list[str] = []
        self.params: list[str] = []

    def source(self) -> str:
        """`def steps(...)`; for a region with a write the result is a function that commits it."""
        write_at = self.runner.code.write_at
        look_at = self._look_at() if self.runner.hidden else -1
        for pc, instruction in enumerate(self.program.instructions):
            if pc == write_at and self.on_step is not None:
                self.lines += self._write_value(pc, instruction)
                self.lines.append("return None")
                break
            if pc == write_at:
                return self._with_commit(pc)
            self.lines.append(self._line(pc, instruction))
            if pc == look_at:
                self.lines.append(self._look(pc))
        return self._function(self.lines)

    def _look_at(self) -> int:
        """The last load of a value out of a container or attribute."""
        return max(pc for pc, i in enumerate(self.program.instructions) if _is_load(i))

    def _look(self, upto: int) -> str:
        self.namespace["look"] = self.runner.look
        loaded = [i for i in self.program.instructions[: upto + 1] if _is_load(i)]
        return f"look({', '.join(f'r{i.operands[0]}' for i in loaded)})"

    def _function(self, body: list[str]) -> str:
        return f"def steps({', '.join(self.params)}):\n" + "\n".join(f"    {line}" for line in body) + "\n"

    def _with_commit(self, write_at: int) -> str:
        """Everything up to the value to be written, then a closure that writes and finishes."""
        instructions = self.program.instructions
        head = self.lines + self._write_value(write_at, instructions[write_at])
        tail = [self._commit_line(write_at, instructions[write_at])]
        tail += [self._line(pc, instructions[pc]) for pc in range(write_at + 1, len(instructions))]
        finish = ["def finish():", *(f"    {line}" for line in tail), "return finish"]  # registers are written once
        return self._function([*head, *finish])

    def _write_value(self, pc: int, instruction: Instruction) -> list[str]:
        """Compute what the write will put down, without writing."""
        dest, op, _, args = instruction.operands
        if op == "setitem":
            return []
        site = self._site(pc, op)
        out = next(self._arg(a) for a in args if a.name == "out")
        rest = ", ".join(self._argument(a) for a in args if a.name != "out")
        self.namespace["inplace_value"] = inplace_value
        call = f"inplace_value({site}, {out}, {rest})"
        return [f"w{dest} = {self._stepped(pc, call)}"]

    def _commit_line(self, pc: int, instruction: Instruction) -> str:
        dest, op, _, args = instruction.operands
        if op == "setitem":
            return self._line(pc, instruction)
        out = next(self._arg(a) for a in args if a.name == "out")
        self.namespace["ndarray"] = np.ndarray
        return f"r{dest} = commit({out}, w{dest}) if type({out}) is ndarray else w{dest}"

    def _stepped(self, pc: int, call: str) -> str:
        return call if self.on_step is None else f"step({pc}, lambda: {call})"

    def _site(self, pc: int, op: str) -> str:
        name = f"s{pc}"
        self.namespace[name] = self.runner.site(pc, op)
        return name

    def _const(self, index: int) -> str:
        name = f"k{index}"
        self.namespace[name] = self.program.consts[index]
        return name

    def _arg(self, arg: Arg) -> str:
        return self._const(arg.index) if arg.is_const else f"r{arg.index}"

    def _argument(self, arg: Arg) -> str:
        return self._arg(arg) if arg.name is None else f"{arg.name}={self._arg(arg)}"

    def _line(self, pc: int, instruction: Instruction) -> str:
        operands = instruction.operands
        opcode = instruction.opcode
        if opcode in ("LOAD_TENSOR", "LOAD_VAR"):
            self.params.append(f"r{operands[0]}")
            return "pass"
        if opcode == "LOAD_CONST":
            return f"r{operands[0]} = {self._const(operands[1])}"
        if opcode == "LOAD_ATTR":
            return f"r{operands[0]} = read_attribute(r{operands[1]}, {operands[2]!r})"
        if opcode == "MOVE":
            return f"r{operands[0]} = r{operands[1]}"
        if opcode == "CALL_OP":
            dest, op, _, args = operands
            if op == "setitem":
                values = ", ".join(self._arg(a) for a in args)
                return f"r{dest} = store_item({self._site(pc, op)}, {values})"
            call = f"{self._site(pc, op)}({', '.join(self._argument(a) for a in args)})"
            if pc in self.runner.code.member_pcs:
                self.namespace["own"] = self.runner.own
                return f"own({self._arg(args[0])}); r{dest} = {self._stepped(pc, call)}"
            return f"r{dest} = {self._stepped(pc, call)}"
        if opcode in ("BUILD_TUPLE", "BUILD_LIST"):
            items = ", ".join(self._arg(a) for a in operands[1])
            return f"r{operands[0]} = ({items}{',' if operands[1] else ''})" if opcode == "BUILD_TUPLE" else f"r{operands[0]} = [{items}]"
        if opcode == "RETURN":
            return f"return {self._result(operands[0])}"
        return self._const_op(pc, instruction)

    def _const_op(self, pc: int, instruction: Instruction) -> str:
        dest, source, value = instruction.operands
        row = instruction.row
        assert row.const_op is not None, instruction.opcode
        name = f"c{pc}"
        self.namespace[name] = value
        pair = f"{name}, r{source}" if row.reversed else f"r{source}, {name}"
        return f"r{dest} = {self._stepped(pc, f'{self._site(pc, row.const_op)}({pair})')}"

    def _result(self, register: int) -> str:
        """Expressions come back in a 1-tuple, one output as itself, several as a tuple."""
        code = self.runner.code
        if code.value and self.runner.region.key[0] == "tree":
            return f"(r{register},)"
        return f"r{register}[0]" if not code.value and len(code.outputs) == 1 else f"r{register}"


def inplace_value(site: CallSite, target: Any, *operands: Any, **attrs: Any) -> Any:
    """The value of an in-place op, computed and checked but not written. Raises Decline when Python must do it."""
    if type(target) is np.ndarray:
        return site.compute_for(target, *operands, **attrs)
    if registry.personality_of(type(target)) is None and type(target) not in (int, float, bool, complex):
        raise Decline("the target of an augmented assignment is no tensor")
    return site(*operands, **attrs)


def store_item(site: CallSite, target: Any, index: Any, value: Any) -> Any:
    """`target[index] = value` for arrays, and for the containers whose assignment runs no user code."""
    if type(target) in _CONTAINERS:
        target[index] = value
        return None
    return site(target, index, value)
