"""A region's instructions as the source of one Python function, and the helpers that it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from .. import config
from ..errors import Decline
from ..frontend.lowering import RegionCode, op_name
from ..fusion import chains, epilogues
from ..fusion.epilogues import Epilogue
from ..fusion.segments import Segment, find
from ..isa.program import Arg, Instruction, Program
from ..ops import registry
from ..tiers.select import CallSite, commit
from .attributes import read_attribute
from .trust import check, is_trusted

_CONTAINERS = (dict, list)
OnStep = Callable[..., Any]  # called with the pc, the call and its operands


class Runner(Protocol):
    """What a plan needs of the runner it is written for."""

    code: RegionCode
    hidden: bool
    is_tree: bool
    types: tuple[type, ...]  # of the code's inputs

    def site(self, pc: int, op: str) -> CallSite: ...

    def own(self, receiver: Any) -> None: ...

    def look(self, *loaded: Any) -> None: ...

    def hold(self, target: Any, value: Any) -> None: ...

    def fused(self, segment: Segment) -> tuple[Segment, Callable[..., Any]]: ...

    def followed(self, epilogue: Epilogue) -> Callable[..., Any]: ...

    def chained(self, segment: Segment) -> tuple[Segment, Callable[..., Any]]: ...


def is_load(instruction: Instruction) -> bool:
    """Does the instruction take a value out of an attribute or a container?"""
    return instruction.opcode == "LOAD_ATTR" or op_name(instruction) == "getitem"


class PlanWriter:
    """Writes the source of a region's plan."""

    def __init__(self, runner: Runner, on_step: OnStep | None) -> None:
        self.runner = runner
        self.on_step = on_step
        self.program = runner.code.program
        self.namespace: dict[str, Any] = {"read_attribute": read_attribute, "step": on_step, "store_item": store_item, "commit": commit}
        self.namespace["__name__"] = f"{__package__}.steps"
        self.lines: list[str] = []
        self.open: list[tuple[int, list[str]]] = []  # where what is under way ends (product, chain, segment), and the lines before it
        self.params: list[str] = []
        self.checks = Checks(self.program)
        self.namespace["check"] = check

    def source(self) -> str:
        """`def steps(...)`; for a region with a write the result is a function that commits it."""
        write_at = self.runner.code.write_at
        look_at = self._look_at() if self.runner.hidden else -1
        segments, products, mixed = self._segments()
        for pc, instruction in enumerate(self.program.instructions):
            if pc in products:
                self._begin_epilogue(products[pc])
            if pc in mixed:
                self._begin_chain(mixed[pc])
            if pc in segments:
                self._begin_segment(segments[pc])
            self.lines += self._checks(instruction)
            if pc == write_at and self.on_step is not None:
                self.lines += self._write_value(pc, instruction)
                self.lines.append("return None")
                break
            if pc == write_at:
                return self._with_commit(pc)
            self.lines.append(self._line(pc, instruction))
            if pc == look_at:
                self.lines.append(self._look(pc))
            while self.open and pc == self.open[-1][0]:
                self._end_segment()
        return self._function(self.lines)

    def _segments(self) -> tuple[dict[int, Segment], dict[int, Epilogue], dict[int, Segment]]:
        """Segments that run as one kernel, by the pc of their first op, products with tails, and chains, which take no part in those.

        None while ops are watched one by one.
        """
        if self.on_step is not None or not config.current.fuse:
            return {}, {}, {}
        code = self.runner.code
        barred = set(range(len(self.program.instructions)))
        barred -= set(range(code.write_at if code.write_at is not None else len(barred)))
        if self.runner.hidden:
            barred |= set(range(self._look_at() + 1))
        found = find(self.program, frozenset(barred))
        products = [
            e for e in epilogues.find(self.program, frozenset(barred | self.runner.code.member_pcs)) if epilogues.encloses(e, found)
        ]
        mixed = chains.around(self.program, frozenset(barred.union(*(e.pcs for e in products))), found)
        return {s.first: s for s in found}, {e.pcs[0]: e for e in products}, {s.first: s for s in mixed}

    def _begin_epilogue(self, epilogue: Epilogue) -> None:
        """What follows up to the tail's end runs only when it was not done on blocks of the product."""
        self._begin(f"e{epilogue.pcs[0]}", epilogue, self.runner.followed(epilogue))

    def _begin_chain(self, segment: Segment) -> None:
        """The same for a chain, within which segments lie."""
        self._begin(f"g{segment.first}", *self.runner.chained(segment))

    def _begin_segment(self, segment: Segment) -> None:
        """What follows up to the segment's end runs only when its kernel does not."""
        self._begin(f"f{segment.first}", *self.runner.fused(segment))

    def _begin(self, name: str, part: Segment | Epilogue, kernel: Callable[..., Any]) -> None:
        self.namespace[name] = kernel
        results = [f"r{r}" for r in part.outputs]
        self.lines.append(f"fused = {name}({', '.join(f'r{r}' for r in part.inputs)})")
        self.lines.append("if fused is not None:")
        self.lines.append(f"    {', '.join(results)} = fused")
        self.lines.append("else:")
        self.open.append((part.pcs[-1], self.lines))
        self.lines = []

    def _end_segment(self) -> None:
        body, self.lines = self.lines, self.open.pop()[1]
        self.lines += [f"    {line}" for line in body]

    def _look_at(self) -> int:
        """The last load of a value out of a container or attribute."""
        return max(pc for pc, i in enumerate(self.program.instructions) if is_load(i))

    def _look(self, upto: int) -> str:
        self.namespace["look"] = self.runner.look
        loaded = [i for i in self.program.instructions[: upto + 1] if is_load(i)]
        return f"look({', '.join(f'r{i.operands[0]}' for i in loaded)})"

    def _function(self, body: list[str]) -> str:
        return f"def steps({', '.join(self.params)}):\n" + "\n".join(f"    {line}" for line in body) + "\n"

    def _with_commit(self, write_at: int) -> str:
        """Everything up to the value to be written, then a closure that writes and finishes."""
        instructions = self.program.instructions
        head = self.lines + self._write_value(write_at, instructions[write_at]) + self._hold(write_at)
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
        return [f"w{dest} = {self._stepped(pc, call, args)}"]

    def _hold(self, write_at: int) -> list[str]:
        """What must be known before anything is written."""
        self.namespace["hold"] = self.runner.hold
        dest, op, _, args = self.program.instructions[write_at].operands
        if op == "setitem":
            return [f"hold({self._arg(args[0])}, {self._arg(args[2])})"]
        out = next(self._arg(a) for a in args if a.name == "out")
        lines = [f"hold({out}, w{dest})"]
        for instruction in self.program.instructions[write_at + 1 :]:
            if op_name(instruction) == "setitem":  # `t[0] += x` writes to t[0], then stores it: t may refuse that
                self.namespace["takes_items"] = takes_items
                lines.append(f"takes_items({self._arg(instruction.operands[3][0])})")
        return lines

    def _checks(self, instruction: Instruction) -> list[str]:
        """Checks of values that may run user code, before their first use in an op."""
        return [f"check(r{register})" for register in self.checks.before(instruction, self.runner.types)]

    def _commit_line(self, pc: int, instruction: Instruction) -> str:
        dest, op, _, args = instruction.operands
        if op == "setitem":
            return self._line(pc, instruction)
        out = next(self._arg(a) for a in args if a.name == "out")
        self.namespace["ndarray"] = np.ndarray
        return f"r{dest} = commit({out}, w{dest}) if type({out}) is ndarray else w{dest}"

    def _stepped(self, pc: int, call: str, args: Iterable[Arg] = (), operands: str = "") -> str:
        if self.on_step is None:
            return call
        shown = operands or ", ".join(self._arg(a) for a in args if a.name is None)
        return f"step({pc}, lambda: {call}, {shown})"

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
            way = ".two" if len(args) == 2 and not any(a.name or a.is_const for a in args) else ""
            call = f"{self._site(pc, op)}{way}({', '.join(self._argument(a) for a in args)})"
            if pc in self.runner.code.member_pcs:
                self.namespace["own"] = self.runner.own
                return f"own({self._arg(args[0])}); r{dest} = {self._stepped(pc, call, args)}"
            return f"r{dest} = {self._stepped(pc, call, args)}"
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
        return f"r{dest} = {self._stepped(pc, f'{self._site(pc, row.const_op)}({pair})', operands=pair)}"

    def _result(self, register: int) -> str:
        """Expressions come back in a 1-tuple, one output as itself, several as a tuple."""
        code = self.runner.code
        if code.value and self.runner.is_tree:
            return f"(r{register},)"
        return f"r{register}[0]" if not code.value and len(code.outputs) == 1 else f"r{register}"


class Checks:
    """Which registers may hold values that run user code, or containers of such, and are not checked yet."""

    def __init__(self, program: Program) -> None:
        loads = [i for i in program.instructions if i.opcode in ("LOAD_TENSOR", "LOAD_VAR")]
        self.position = {i.operands[0]: position for position, i in enumerate(loads)}
        self.arrays: set[int] = set()
        self.open: set[int] = set()

    def before(self, instruction: Instruction, types: tuple[type, ...]) -> list[int]:
        """Registers to check before the instruction runs; notes what it defines."""
        opcode, operands = instruction.opcode, instruction.operands
        if opcode in ("LOAD_TENSOR", "LOAD_VAR"):
            tp = types[self.position[operands[0]]]
            if tp is np.ndarray:
                self.arrays.add(operands[0])
            elif not is_trusted(tp):
                self.open.add(operands[0])
            return []
        if opcode == "LOAD_ATTR":
            self.open.add(operands[0])
            return []
        if opcode == "MOVE":
            if operands[1] in self.open:
                self.open.add(operands[0])
            return []
        if opcode == "CALL_OP":
            return self._of_call(operands[0], operands[1], operands[3])
        if opcode in ("BUILD_TUPLE", "BUILD_LIST"):
            if any(not a.is_const and a.index in self.open for a in operands[1]):
                self.open.add(operands[0])
            return []
        return self._take([operands[1]]) if instruction.row.const_op else []

    def _of_call(self, dest: int, op: str, args: tuple[Arg, ...]) -> list[int]:
        used = [a.index for a in args if not a.is_const]
        if op in ("getitem", "setitem") and not args[0].is_const:
            holder = used.pop(0)
            if op == "getitem" and holder not in self.arrays:
                self.open.add(dest)  # whatever the container holds
        return self._take(used)

    def _take(self, registers: list[int]) -> list[int]:
        found = [r for r in dict.fromkeys(registers) if r in self.open]
        self.open.difference_update(found)
        return found


def takes_items(target: Any) -> None:
    """Raises Decline when storing an item in `target` may fail or run user code."""
    if type(target) not in _CONTAINERS and registry.personality_of(type(target)) is None:
        raise Decline(f"storing an item in a {type(target).__name__}")


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
