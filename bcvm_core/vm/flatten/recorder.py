"""Runs the ops of a call that is being flattened, and writes each down as an instruction."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import EncodeError
from ...frontend.lowering import location_of
from ...fusion.convolutions import ASKING
from ...isa import literals
from ...isa.constants import SCALAR_TYPES, identical
from ...isa.opcodes import CONST_FORM
from ...isa.program import Arg, Instruction
from ...ops import registry
from ...ops.registry import OpInfo
from ...tiers.select import CallSite
from ..trust import check
from .plain import require_plain
from .reads import Reads
from .values import Items, Known, Table, Traced, UnflattenableError, Value, actual_of, fresh, is_known

_MAX_INSTRUCTIONS = 50_000
_CLOSED = frozenset({"add", "subtract", "multiply", "floor_divide", "remainder"})  # ints give ints, and with floats floats
_NUMBERS = frozenset({bool, int, float})
_BY_ATTRIBUTES = frozenset({"conv", "nn"})  # families whose results are a tensor or a tuple of tensors as the attributes say
REREAD = ASKING  # attributes of tensors that any library reads alike


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an instruction comes from: the file, and the path of the object whose code it is ("self.layer1.conv")."""

    filename: str
    path: str


@dataclass(slots=True)
class Recorder:
    """Instructions so far, and what they refer to. `sites` are the call sites by pc; they are warm when the program is done."""

    personality: str
    reads: Reads = field(default_factory=Reads)
    instructions: list[Instruction] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    consts: list[Any] = field(default_factory=list)
    sites: dict[int, CallSite] = field(default_factory=dict)
    direct: dict[int, Callable[..., Any]] = field(default_factory=dict)  # pc -> what computes on Python values alone
    captures: dict[str, Any] = field(default_factory=dict)  # path -> object that the program uses beside its operands
    inputs: list[str] = field(default_factory=list)
    origin: Origin = Origin("<bcvm>", "self")
    registers: int = 0
    settled: set[int] = field(default_factory=set)  # registers whose values have the same Python type in every run
    _captured: dict[int, int] = field(default_factory=dict)  # id of a captured object -> register
    _const_index: dict[tuple[str, str], int] = field(default_factory=dict)

    # -- instructions -------------------------------------------------------------------------------

    def register(self) -> int:
        self.registers += 1
        return self.registers - 1

    def emit(self, opcode: str, *operands: Any, at: ast.AST | None = None) -> int:
        """Append an instruction; returns its pc."""
        if len(self.instructions) >= _MAX_INSTRUCTIONS:
            raise UnflattenableError(f"more than {_MAX_INSTRUCTIONS} instructions")
        self.instructions.append(Instruction(opcode, operands, location_of(at) if at is not None else None))
        self.origins.append(self.origin)
        return len(self.instructions) - 1

    def const(self, value: Any) -> int:
        """Index of a constant."""
        key = (type(value).__name__, repr(value))
        known = self._const_index.get(key)
        if known is None or not identical(self.consts[known], value):
            known = self._const_index[key] = len(self.consts)
            self.consts.append(value)
        return known

    def input(self, name: str, value: Any, hint: Any) -> Traced:
        """An operand of the call."""
        dest = self.register()
        self.inputs.append(name)
        if hint is not None:
            self.emit("LOAD_TENSOR", dest, name, hint)
        else:
            self.emit("LOAD_VAR", dest, name)
        self.settled.add(dest)  # operands of other types are another path's
        return Traced(dest, value)

    def is_settled(self, value: Value) -> bool:
        """Whether the value has the same Python type in every run."""
        return isinstance(value, Known) or (isinstance(value, Traced) and value.register in self.settled)

    def _settle(self, dest: int, op: OpInfo, operands: Sequence[Value]) -> None:
        """Whether the result of an op has the same type in every run: sizes, parts of operands, sums of settled numbers."""
        by_attributes = op.result == "any" and op.family in _BY_ATTRIBUTES and all(is_known(v) or _is_tensor(v) for v in operands)
        if op.name in REREAD or op.name == "len" or by_attributes:
            self.settled.add(dest)
        elif all(map(self.is_settled, operands)):
            types = [type(actual_of(v)) for v in operands]
            part = op.name == "getitem" and types[0] in (tuple, list, dict) and is_known(operands[1])
            if part or (op.name in _CLOSED and _NUMBERS.issuperset(types)):
                self.settled.add(dest)

    def capture(self, value: Any, path: str) -> Traced:
        """An object beside the operands (a parameter, an element type): the same one in every run."""
        register = self._captured.get(id(value))
        if register is None:
            register = self._captured[id(value)] = self.register()
            name = self._fresh(path)
            self.captures[name] = value
            self.emit("LOAD_VAR", register, name)
            self.settled.add(register)
        return Traced(register, value)

    def _fresh(self, path: str) -> str:
        name, count = path or "k", 1
        while name in self.captures or name in self.inputs:
            count += 1
            name = f"{path or 'k'}_{count}"
        return name

    def result(self, value: Value, made: dict[int, Arg]) -> Arg:
        """The result of the call. Containers that were made come out new in every run, others as themselves; one that stands twice once."""
        if id(value) in made:
            return made[id(value)]
        if isinstance(value, Items | Table):
            made[id(value)] = Arg(False, self._build(value, lambda v: self.result(v, made)))
            return made[id(value)]
        if isinstance(value, Known) and type(value.value) in (tuple, list, dict):
            return Arg(False, self.capture(value.value, value.path).register)
        return self.argument(value)

    def _build(self, value: Items | Table, part: Callable[[Value], Arg]) -> int:
        """Make a container that is under construction, its parts by `part`; the register."""
        if isinstance(value, Items):
            opcode, parts = "BUILD_TUPLE" if value.kind is tuple else "BUILD_LIST", [part(v) for v in value.values]
        else:
            opcode, parts = "BUILD_DICT", [arg for key, v in value.values.items() for arg in (self.argument(Known(key)), part(v))]
        dest = self.register()
        self.emit(opcode, dest, tuple(parts))
        return dest

    # -- operands -----------------------------------------------------------------------------------

    def argument(self, value: Value, name: str | None = None) -> Arg:
        """A value as an operand: a constant where it is one, else a register."""
        if is_known(value):
            plain = actual_of(value)
            if _is_constant(plain):
                return Arg(True, self.const(plain), name)
            if isinstance(value, Known):
                return Arg(False, self.capture(plain, value.path).register, name)
        if isinstance(value, Items | Table):
            return Arg(False, self._build(value, self.argument), name)
        if isinstance(value, Traced):
            return Arg(False, value.register, name)
        raise UnflattenableError("a function among the operands of an op")

    # -- ops ----------------------------------------------------------------------------------------

    def op(
        self, op: OpInfo, operands: Sequence[Value], attrs: Mapping[str, Value] | None = None, *, syntax: bool, at: ast.AST | None
    ) -> Value:
        """Run an op of the table and write it down."""
        attrs = attrs or {}
        everything = [*operands, *attrs.values()]
        actuals = [actual_of(v) for v in operands]
        named = {name: actual_of(v) for name, v in attrs.items()}
        for value in [*actuals, *named.values()]:
            check(value)
        if all(map(is_known, everything)) and not _has_tensor([*actuals, *named.values()]) and op.shape_rule != "create":
            return self._fold(op, actuals, named)
        function = self._direct(op, everything)
        site = None if function is not None else CallSite(op, syntax=syntax if op.scalar is not None and not op.pure_python else None)
        result = (function or site)(*actuals, **named)  # type: ignore[misc]
        pc, dest = self._write(op, operands, attrs, at)
        if function is not None:
            self.direct[pc] = function
        else:
            self.sites[pc] = site  # type: ignore[assignment]
        self._settle(dest, op, everything)
        return Traced(dest, result)

    def _fold(self, op: OpInfo, actuals: Sequence[Any], named: Mapping[str, Any]) -> Value:
        function = self._python_function(op)
        if function is None or (named and not op.pure_python):
            raise UnflattenableError(f"{op.name} without operands")
        return fresh(function(*actuals, **named))

    @staticmethod
    def _python_function(op: OpInfo) -> Callable[..., Any] | None:
        """What runs the op on Python values alone."""
        if op.scalar is not None:
            return op.scalar
        return op.definition if op.pure_python else None

    def _direct(self, op: OpInfo, values: Sequence[Value]) -> Callable[..., Any] | None:
        """What runs the op without choosing a kernel: attributes of tensors, and work on Python values alone."""
        if op.name in REREAD and len(values) == 1:
            return op.definition
        return None if any(_may_hold_tensor(v) for v in values) else self._python_function(op)

    def _write(self, op: OpInfo, operands: Sequence[Value], attrs: Mapping[str, Value], at: ast.AST | None) -> tuple[int, int]:
        short = self._const_form(op, operands, attrs)
        if short is not None:
            opcode, source, scalar = short
            source_register = self.argument(source).index
            dest = self.register()
            return self.emit(opcode, dest, source_register, scalar, at=at), dest
        args = [self.argument(v) for v in operands] + [self.argument(v, name) for name, v in attrs.items()]
        dest = self.register()
        return self.emit("CALL_OP", dest, op.name, 0, tuple(args), at=at), dest

    @staticmethod
    def _const_form(op: OpInfo, operands: Sequence[Value], attrs: Mapping[str, Value]) -> tuple[str, Value, Any] | None:
        if len(operands) != 2 or attrs:
            return None
        left, right = operands
        if isinstance(right, Known) and type(right.value) in SCALAR_TYPES and isinstance(left, Traced):
            return (CONST_FORM.forward[op.name], left, right.value) if op.name in CONST_FORM.forward else None
        if isinstance(left, Known) and type(left.value) in SCALAR_TYPES and isinstance(right, Traced):
            return (CONST_FORM.backward[op.name], right, left.value) if op.name in CONST_FORM.backward else None
        return None

    def unpack(self, value: Traced, count: int, at: ast.AST | None) -> list[Value]:
        """The items of a sequence of exactly `count`; in another run another length is Python's."""
        actual = value.actual
        if type(actual) not in (tuple, list) or len(actual) != count:
            raise UnflattenableError(f"unpacking a {type(actual).__name__} into {count} names")
        dests = tuple(self.register() for _ in range(count))
        self.emit("UNPACK", dests, value.register, at=at)
        if self.is_settled(value):
            self.settled.update(dests)
        return [Traced(d, v) for d, v in zip(dests, actual, strict=True)]

    def expect(self, value: Traced, at: ast.AST | None) -> Any:
        """The value of this run, which the program then depends on: where it differs, this path is left."""
        actual = value.actual
        if _has_tensor([actual]):
            raise UnflattenableError("Python looks at the elements of a tensor")
        require_plain(actual)
        if type(actual) is bool or actual is None or _is_constant(actual):
            expected = Arg(True, self.const(actual))
        else:
            expected = Arg(False, self.capture(actual, "k").register)
        self.emit("CHECK", value.register, (expected,), at=at)
        return actual


def _is_tensor(value: Value) -> bool:
    return isinstance(value, Traced) and value.is_tensor


def _is_constant(value: Any) -> bool:
    """Whether a Program can hold the value as a constant."""
    if type(value) in (*SCALAR_TYPES, str, type(None), type(Ellipsis), bytes):
        return True
    if type(value) in (tuple, list):
        return all(map(_is_constant, value))
    if type(value) is slice:
        return all(map(_is_constant, (value.start, value.stop, value.step)))
    if type(value).__module__ != "numpy" and not (isinstance(value, type) and value.__module__ == "numpy"):
        return False
    try:
        literals.show(value)
    except EncodeError:
        return False
    return not hasattr(value, "shape")


def _has_tensor(values: Sequence[Any]) -> bool:
    for value in values:
        if type(value) in (tuple, list, dict):
            if _has_tensor(list(value.values()) if type(value) is dict else value):
                return True
        elif registry.personality_of(type(value)) is not None:
            return True
    return False


def _may_hold_tensor(value: Value) -> bool:
    if isinstance(value, Items):
        return any(map(_may_hold_tensor, value.values))
    if isinstance(value, Table):
        return True
    return _has_tensor([actual_of(value)]) or type(actual_of(value)) is dict
