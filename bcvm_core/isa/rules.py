"""Rules of meaning: control flow, data flow, hints, and what instructions refer to.

A rule is a generator of `Fault`s about a `Subject`; it relies on the rules of form (`isa.wellformed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..errors import BcvmError
from . import flow, hosts
from .constants import encoded
from .hints import MAX_DIM, MAX_RANK, Aligned, ShapeHint, contradiction
from .opcodes import Kind
from .program import read_by
from .wellformed import Fault, Subject

_WHOLE_BODY = ("generator", "coroutine", "async_generator")


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
                dim_ok = type(dim.multiple) is int and 2 <= dim.multiple <= MAX_DIM >> 1
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
    """Host blocks that are called exist, and a statement has no value unless it can leave its block (or is the whole body)."""
    for pc, number in s.operands(Kind.HOST):
        if number >= len(s.program.hosts):
            yield Fault(pc, f"there is no host block h{number}", "add '.host h0 reads() writes() line N:' and its source")
            continue
        block = s.program.hosts[number]
        dest = s.code[pc].operand("dest")
        whole = s.program.kind in _WHOLE_BODY or (len(s.code) == 2 and s.code[1].operands == (dest,))
        if block.kind == "stmt" and dest is not None and not whole and not hosts.may_leave(block):
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
