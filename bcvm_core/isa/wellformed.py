"""Rules of form: that a Program's parts are what the opcode table says. All other rules rely on them.

A rule is a generator of `Fault`s about a `Subject`. These ones trust nothing, not even Python types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import hosts, opcodes
from .encoding import PROGRAM_KINDS
from .hints import Aligned, ShapeHint
from .opcodes import Kind
from .program import MAX_PLACE, Arg, HostBlock, Instruction, Program
from .signature import SignatureTable

Exists = Callable[[Any], bool]
MAX_REGISTERS = 1 << 16


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule, at one instruction (0 when the whole program is at fault)."""

    pc: int
    reason: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """The program under the rules and what the world above says exists."""

    program: Program
    op_exists: Callable[[str], bool] | None
    policy_exists: Callable[[int], bool] | None
    signatures: SignatureTable

    @property
    def code(self) -> tuple[Instruction, ...]:
        return self.program.instructions

    def each(self, *names: str) -> Iterator[tuple[int, Instruction]]:
        """Instructions of the given opcodes."""
        return ((pc, i) for pc, i in enumerate(self.code) if i.opcode in names)

    def operands(self, kind: Kind) -> Iterator[tuple[int, Any]]:
        """Operands of one kind with their instruction's number."""
        for pc, instruction in enumerate(self.code):
            for (_, found), value in zip(instruction.row.operands, instruction.operands, strict=True):
                if found is kind:
                    yield pc, value


Rule = Callable[[Subject], Iterator[Fault]]


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _names(value: object, test: Exists) -> bool:
    return isinstance(value, tuple) and all(map(test, value)) and len(set(value)) == len(value)


def header_is_sound(s: Subject) -> Iterator[Fault]:
    """Name, parameters, dims and tables of the program are what they should be."""
    p: Any = s.program
    if not isinstance(p.name, str) or not isinstance(p.filename, str) or not _number(MAX_PLACE)(p.first_line):
        yield Fault(0, "the program's name, file or first line is malformed")
    if p.kind not in PROGRAM_KINDS:
        yield Fault(0, f"there is no program kind {p.kind!r}", f"kinds are {', '.join(PROGRAM_KINDS)}")
    tests = (("parameters", p.params, hosts.is_path), ("dims", p.dims, _is_name), ("local names", p.local_names, hosts.is_path))
    for what, names, test in tests:
        if not _names(names, test):
            yield Fault(0, f"the {what} are not identifiers, each once: {names!r:.80}")
    tables = (("consts", object), ("hosts", HostBlock), ("nested", Program), ("instructions", Instruction))
    for what, kind in tables:
        table = getattr(p, what)
        if not isinstance(table, tuple) or not all(isinstance(item, kind) for item in table):
            yield Fault(0, f"the program's {what} are malformed")
    if not p.instructions:
        yield Fault(0, "the program has no instructions", "a program ends with RETURN")


def opcodes_exist(s: Subject) -> Iterator[Fault]:
    """Each opcode is in the table and has as many operands as its row."""
    instruction: Any
    for pc, instruction in enumerate(s.code):
        row = opcodes.BY_NAME.get(instruction.opcode) if isinstance(instruction.opcode, str) else None
        if row is None:
            yield Fault(pc, f"there is no opcode {instruction.opcode!r}")
        elif not isinstance(instruction.operands, tuple) or len(instruction.operands) != len(row.operands):
            yield Fault(pc, f"{row.name} takes {len(row.operands)} operands: {', '.join(name for name, _ in row.operands)}")


def _number(limit: int) -> Exists:
    return lambda value: type(value) is int and 0 <= value < limit


_register = _number(MAX_REGISTERS)


def _is_arg(value: Any) -> bool:
    if not isinstance(value, Arg):
        return False
    is_const, index, name = _fields(value, "is_const", "index", "name")
    return type(is_const) is bool and _register(index) and (name is None or _is_name(name))


def _fields(value: Any, *names: str) -> list[Any]:
    return [getattr(value, name) for name in names]


def _all(test: Exists) -> Exists:
    return lambda value: isinstance(value, tuple) and all(map(test, value))


def _is_device(value: Any) -> bool:
    name, colon, number = value.partition(":") if isinstance(value, str) else ("", "", "")
    return _is_name(name) and bool(colon) and number.isascii() and number.isdigit() and len(number) < 6


def _is_hint(value: Any) -> bool:
    if not isinstance(value, ShapeHint):
        return False
    dims, any_leading = _fields(value, "dims", "any_leading")
    known = isinstance(dims, tuple) and all(dim is None or isinstance(dim, str | Aligned) or type(dim) is int for dim in dims)
    return known and type(any_leading) is bool


FITS: dict[Kind, Exists] = {
    Kind.DEST: _register,
    Kind.OPT_DEST: lambda value: value is None or _register(value),
    Kind.DESTS: lambda value: _all(_register)(value) and len(set(value)) == len(value),
    Kind.REG: _register,
    Kind.OPT_REG: lambda value: value is None or _register(value),
    Kind.VAR: hosts.is_path,
    Kind.HINT: _is_hint,
    Kind.OP: lambda value: isinstance(value, str) and bool(value),
    Kind.SIG: _number(1 << 16),
    Kind.ARGS: _all(_is_arg),
    Kind.CONST: _number(1 << 32),
    Kind.SCALAR: lambda value: type(value) in (bool, int, float, complex),
    Kind.LABEL: _number(1 << 32),
    Kind.POLICY: _number(1 << 16),
    Kind.HOST: _number(1 << 32),
    Kind.DEVICE: _is_device,
    Kind.DEVICES: lambda value: _all(_is_device)(value) and len(value) > 0,
}


def operands_fit(s: Subject) -> Iterator[Fault]:
    """Each operand is of the kind that its row says."""
    for pc, instruction in enumerate(s.code):
        for (name, kind), value in zip(instruction.row.operands, instruction.operands, strict=True):
            if not FITS[kind](value):
                yield Fault(pc, f"{instruction.opcode}: {value!r:.60} is no {kind.value} ({name})")


def arguments_are_ordered(s: Subject) -> Iterator[Fault]:
    """Positional arguments come first, names are unique, only ops take named ones, dicts take pairs, `out` is a register."""
    for pc, instruction in enumerate(s.code):
        for (_, kind), args in zip(instruction.row.operands, instruction.operands, strict=True):
            if kind is not Kind.ARGS:
                continue
            names = [arg.name for arg in args if arg.name is not None]
            if any(arg.name is None for arg in args[len(args) - len(names) :]) or len(set(names)) != len(names):
                yield Fault(pc, "arguments are positional first, then named, each name once")
            if names and instruction.opcode != "CALL_OP":
                yield Fault(pc, f"{instruction.opcode} takes no named arguments")
            if instruction.opcode == "BUILD_DICT" and len(args) % 2:
                yield Fault(pc, "BUILD_DICT takes keys and values in turn")
            if any(arg.name == "out" and arg.is_const for arg in args):
                yield Fault(pc, "`out` is a constant", "an in-place op writes to a register")


def places_are_sound(s: Subject) -> Iterator[Fault]:
    """Source places are lines and columns."""
    for pc, instruction in enumerate(s.code):
        loc = instruction.loc
        if loc is None:
            continue
        numbers = [getattr(loc, part, -1) for part in ("line", "column", "end_line", "end_column")]
        known = numbers[:2] + [number for number in numbers[2:] if number is not None]
        if not all(_number(MAX_PLACE)(number) for number in known):
            yield Fault(pc, f"{loc!r:.80} is no place in a source text")
