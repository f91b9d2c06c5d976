"""The verifier: a readable list of rules that a Program keeps before it may run.

Each rule is a small generator of `Fault`s. They run in the order of `RULES`: the first ones make
sure that operands are what the opcode table says, so that later ones can rely on it. `verify`
raises on the first fault, with the instruction's number, the reason and a way out.

What the floors above know (ops, policies) comes in as predicates; None means "not asked".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from ..errors import BcvmError, VerifyError, Where
from . import flow, hosts, opcodes
from .constants import MAX_DEPTH, encoded
from .encoding import PROGRAM_KINDS
from .hints import MAX_DIM, MAX_RANK, Aligned, ShapeHint, contradiction
from .opcodes import Kind
from .program import Arg, HostBlock, Instruction, Program, read_by
from .signature import SignatureTable
from .signature import table as process_table

Exists = Callable[[Any], bool]
MAX_REGISTERS = 1 << 16
_WHOLE_BODY = ("generator", "coroutine", "async_generator")


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


def verify(
    program: Program,
    *,
    op_exists: Callable[[str], bool] | None = None,
    policy_exists: Callable[[int], bool] | None = None,
    signatures: SignatureTable = process_table,
) -> None:
    """Check `program` and the programs nested in it. Raises VerifyError on the first broken rule."""
    _verify(Subject(program, op_exists, policy_exists, signatures), 0)


def _verify(subject: Subject, depth: int) -> None:
    program = subject.program
    for rule in RULES:
        for fault in rule(subject):
            raise _error(program, fault)
    if depth >= MAX_DEPTH and program.nested:
        raise _error(program, Fault(0, f"programs are nested more than {MAX_DEPTH} deep"))
    for nested in program.nested:
        _verify(Subject(nested, subject.op_exists, subject.policy_exists, subject.signatures), depth + 1)


def _error(program: Program, fault: Fault) -> VerifyError:
    code: Any = program.instructions
    loc = getattr(code[fault.pc], "loc", None) if isinstance(code, tuple) and fault.pc < len(code) else None
    filename = program.filename if program.filename != "<bcvm>" else None
    where = Where(fault.pc, filename, getattr(loc, "line", None), getattr(loc, "column", None))
    return VerifyError(f"{program.name}: {fault.reason}", where=where, fix=fault.fix)


def contains_host(program: Program) -> bool:
    """Whether the program, or one nested in it, may run host Python: such a program needs trust."""
    calls = any(instruction.opcode == "CALL_HOST" for instruction in program.instructions)
    return calls or bool(program.hosts) or any(contains_host(nested) for nested in program.nested)


# --- rules: form


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _names(value: object, test: Exists) -> bool:
    return isinstance(value, tuple) and all(map(test, value)) and len(set(value)) == len(value)


def header_is_sound(s: Subject) -> Iterator[Fault]:
    """Name, parameters, dims and tables of the program are what they should be."""
    p: Any = s.program
    if not isinstance(p.name, str) or not isinstance(p.filename, str) or type(p.first_line) is not int or p.first_line < 0:
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


_FITS: dict[Kind, Exists] = {
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
            if not _FITS[kind](value):
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


# --- rules: control flow


def jumps_land(s: Subject) -> Iterator[Fault]:
    """Each jump leads to an instruction of the program."""
    for pc, target in s.operands(Kind.LABEL):
        if target >= len(s.code):
            yield Fault(pc, f"the jump leads to {target}, behind the last instruction", "put a RETURN behind the label")


def end_is_closed(s: Subject) -> Iterator[Fault]:
    """The last instruction does not fall off the end."""
    if s.code[-1].row.falls_through:
        yield Fault(len(s.code) - 1, f"the program ends with {s.code[-1].opcode} and falls off its end", "end it with RETURN")


def regions_are_balanced(s: Subject) -> Iterator[Fault]:
    """Fusion regions open and close in turn, don't nest, and hold only what can be fused."""
    start: int | None = None
    for pc, instruction in enumerate(s.code):
        row = instruction.row
        if row.region > 0:
            if start is not None:
                yield Fault(pc, f"a fusion region inside the one begun at {start}", "close it with FUSE_END first")
            start = pc
        elif row.region < 0:
            if start is None:
                yield Fault(pc, "FUSE_END closes nothing")
            start = None
        elif start is not None and not row.in_region:
            yield Fault(pc, f"{row.name} inside the fusion region begun at {start}", "close it with FUSE_END first")
    if start is not None:
        yield Fault(start, "the fusion region is never closed", "add FUSE_END")


def no_jump_enters_a_region(s: Subject) -> Iterator[Fault]:
    """No jump leads behind a FUSE_START and up to its FUSE_END. (None leaves one: jumps can't stand inside.)"""
    inside: set[int] = set()
    start: int | None = None
    for pc, instruction in enumerate(s.code):
        if start is not None:
            inside.add(pc)
        if instruction.row.region:
            start = pc if instruction.row.region > 0 else None
    for pc, target in s.operands(Kind.LABEL):
        if target in inside:
            yield Fault(pc, f"the jump to {target} enters a fusion region", "jump to its FUSE_START")


def loops_are_balanced(s: Subject) -> Iterator[Fault]:
    """Each LOOP_START has a LOOP_END behind it, loops nest, and each leaves to a place outside."""
    loops = flow.loops_of(s.code)
    for pc, instruction in s.each("LOOP_END"):
        if instruction.operand("head") not in loops or instruction.operand("head") > pc:
            yield Fault(pc, f"LOOP_END leads to {instruction.operand('head')}, which is no LOOP_START before it")
    for pc, instruction in s.each("LOOP_START"):
        if instruction.operand("iter") is None and instruction.operand("item") is not None:
            yield Fault(pc, "LOOP_START has an item but no iterator")
        if pc not in loops:
            yield Fault(pc, "LOOP_START has no LOOP_END", "add 'LOOP_END head' behind the body")
        elif pc <= loops[pc].exit <= loops[pc].end:
            yield Fault(pc, f"the loop leaves to {loops[pc].exit}, which is inside it")
    around: list[flow.Loop] = []
    for loop in sorted(loops.values(), key=lambda loop: loop.head):
        while around and around[-1].end < loop.head:
            around.pop()
        if around and loop.end > around[-1].end:
            yield Fault(loop.head, f"the loop crosses the end of the one begun at {around[-1].head}")
        around.append(loop)


def jumps_are_structured(s: Subject) -> Iterator[Fault]:
    """A loop is entered at its head only, and a backward jump leads to the head of a loop around it."""
    loops = flow.loops_of(s.code)
    for pc, target in s.operands(Kind.LABEL):
        if target <= pc and (target not in loops or loops[target].end < pc):
            yield Fault(pc, f"the backward jump to {target} leads to no head of a loop around it", "begin the loop with LOOP_START")
    around: list[flow.Loop] = []
    inner: list[flow.Loop | None] = []  # the innermost loop whose body holds each pc (a head belongs to the loop outside)
    for pc in range(len(s.code)):
        while around and around[-1].end < pc:
            around.pop()
        inner.append(around[-1] if around else None)
        if pc in loops:
            around.append(loops[pc])
    for pc, target in s.operands(Kind.LABEL):
        loop = inner[target]
        if loop is not None and not loop.head <= pc <= loop.end:
            yield Fault(pc, f"the jump to {target} enters the loop begun at {loop.head}", "jump to its LOOP_START")


# --- rules: data flow


def registers_are_set(s: Subject) -> Iterator[Fault]:
    """On every path to a read the register was written; iterators go to loops (and moves) only, loops take nothing else."""
    for pc, before in enumerate(flow.registers_before(s.code)):
        if before is None:
            continue
        instruction = s.code[pc]
        for register in read_by(instruction):
            if not before.has(register):
                yield Fault(pc, f"r{register} may be unset here", "write it on every path, with values of one kind (an iterator or not)")
            elif instruction.opcode == "LOOP_START" and not before.is_iterator(register):
                yield Fault(pc, f"LOOP_START takes an iterator, r{register} is none", "make one with GET_ITER")
            elif instruction.opcode not in ("LOOP_START", "MOVE") and before.is_iterator(register):
                yield Fault(pc, f"{instruction.opcode} reads r{register}, which is an iterator", "only LOOP_START takes it")


def hints_can_be_met(s: Subject) -> Iterator[Fault]:
    """Each hint accepts some shape, its names are declared dims, and hints of one variable don't contradict on a straight path."""
    for pc, hint in s.operands(Kind.HINT):
        if len(hint.dims) > MAX_RANK:
            yield Fault(pc, f"a hint of {len(hint.dims)} dims can't be met", f"arrays have at most {MAX_RANK}")
        for dim in hint.dims:
            if isinstance(dim, Aligned):
                dim_ok = _number(MAX_DIM)(dim.multiple) and 2 <= dim.multiple <= MAX_DIM >> 1
            else:
                dim_ok = dim is None or dim in s.program.dims if not isinstance(dim, int) else 0 <= dim <= MAX_DIM
            if not dim_ok:
                fix = "declare it in .dims" if isinstance(dim, str) else "sizes are 0 or more"
                yield Fault(pc, f"{dim!r} in {str(hint):.80} can't be met", fix)
        fixed = [dim for dim in hint.dims if isinstance(dim, int)]
        if len(fixed) == len(hint.dims) and prod(fixed) > MAX_DIM:
            yield Fault(pc, f"{str(hint):.80} can't be met: no array has so many elements")
    yield from _contradictions(s)


def _contradictions(s: Subject) -> Iterator[Fault]:
    seen: dict[str, ShapeHint] = {}
    targets = {target for _, target in s.operands(Kind.LABEL)}
    for pc, instruction in enumerate(s.code):
        if pc in targets or instruction.opcode == "CALL_HOST":
            seen.clear()
        elif instruction.opcode == "STORE_VAR":
            seen.pop(instruction.operand("var"), None)
        elif instruction.opcode == "LOAD_TENSOR":
            name, hint = instruction.operand("var"), instruction.operand("hint")
            reason = contradiction(seen[name], hint) if name in seen else None
            if reason is not None:
                yield Fault(pc, f"no value of {name} meets both hints: {reason}")
            seen[name] = hint


# --- rules: what instructions refer to


def constants_exist(s: Subject) -> Iterator[Fault]:
    """Constants that are used exist, and all are values that the written forms can carry."""
    used: dict[int, int] = {}
    for pc, number in s.operands(Kind.CONST):
        used.setdefault(number, pc)
    for pc, args in s.operands(Kind.ARGS):
        for arg in args:
            if arg.is_const:
                used.setdefault(arg.index, pc)
    for number, pc in used.items():
        if number >= len(s.program.consts):
            yield Fault(pc, f"there is no constant k{number}", "add '.const k0 = VALUE'")
    for number, value in enumerate(s.program.consts):
        try:
            encoded(value)
        except BcvmError as error:
            yield Fault(used.get(number, 0), f"k{number}: {error.what}", error.fix)


def signatures_exist(s: Subject) -> Iterator[Fault]:
    """Each signature is in the table and is one of the instruction's own op."""
    for pc, instruction in s.each("CALL_OP"):
        number, op = instruction.operand("sig"), instruction.operand("op")
        if number == 0:
            continue
        try:
            row = s.signatures.row(number)
        except BcvmError as error:
            yield Fault(pc, error.what, "write 0x0000 to have it resolved when bound")
            continue
        if row.op != op:
            yield Fault(pc, f"signature 0x{number:04X} is one of {row.op}, the instruction calls {op}")


def ops_exist(s: Subject) -> Iterator[Fault]:
    """Ops are in the op table."""
    if s.op_exists is None:
        return
    for pc, instruction in enumerate(s.code):
        op = instruction.operand("op") if instruction.opcode == "CALL_OP" else instruction.row.const_op
        if op is not None and not s.op_exists(op):
            yield Fault(pc, f"there is no op {op!r}", "`bcvm pool` lists all ops")


def policies_exist(s: Subject) -> Iterator[Fault]:
    """Fusion policies are registered."""
    for pc, number in s.operands(Kind.POLICY):
        if s.policy_exists is not None and not s.policy_exists(number):
            yield Fault(pc, f"there is no policy_{number:03d}", "register it before, or use one that is listed")


def regions_are_straight(s: Subject) -> Iterator[Fault]:
    """A program of kind region has no jumps and no host code and reads nothing but its parameters."""
    if s.program.kind != "region":
        return
    for pc, instruction in enumerate(s.code):
        if instruction.row.jumps or instruction.opcode == "CALL_HOST":
            yield Fault(pc, f"{instruction.opcode} in a region", "a region is a straight line of tensor work")
        if instruction.opcode in ("LOAD_VAR", "LOAD_TENSOR") and instruction.operand("var") not in s.program.params:
            yield Fault(pc, f"the region reads {instruction.operand('var')}, which is no parameter of it")


def host_calls_fit(s: Subject) -> Iterator[Fault]:
    """Host blocks that are called exist, and a statement has no value."""
    for pc, number in s.operands(Kind.HOST):
        if number >= len(s.program.hosts):
            yield Fault(pc, f"there is no host block h{number}", "add '.host h0 reads() writes() line N:' and its source")
            continue
        block = s.program.hosts[number]
        if block.kind == "stmt" and s.code[pc].operand("dest") is not None and s.program.kind not in _WHOLE_BODY:
            yield Fault(pc, f"h{number} is a statement and has no value", "write _ for the register")


def host_blocks_are_sound(s: Subject) -> Iterator[Fault]:
    """The source of each host block parses, and its sites are spans of it that nested programs replace."""
    calls: dict[int, int] = {}
    for pc, number in s.operands(Kind.HOST):
        calls.setdefault(number, pc)
    for number, block in enumerate(s.program.hosts):
        reason = hosts.problem(block, len(s.program.nested))
        if reason is not None:
            yield Fault(calls.get(number, 0), f"h{number}: {reason}")


def places_are_sound(s: Subject) -> Iterator[Fault]:
    """Source places are lines and columns."""
    for pc, instruction in enumerate(s.code):
        loc = instruction.loc
        if loc is None:
            continue
        numbers = [getattr(loc, part, -1) for part in ("line", "column", "end_line", "end_column")]
        known = numbers[:2] + [number for number in numbers[2:] if number is not None]
        if not all(_number(10**9)(number) for number in known):
            yield Fault(pc, f"{loc!r:.80} is no place in a source text")


RULES: tuple[Rule, ...] = (
    header_is_sound, opcodes_exist, operands_fit, places_are_sound, arguments_are_ordered,
    jumps_land, end_is_closed, regions_are_balanced, no_jump_enters_a_region, loops_are_balanced, jumps_are_structured,
    registers_are_set, hints_can_be_met,
    constants_exist, signatures_exist, ops_exist, policies_exist, regions_are_straight, host_calls_fit, host_blocks_are_sound,
)  # fmt: skip
