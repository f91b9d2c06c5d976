"""The verifier: a readable list of rules that a Program keeps before it may run.

The rules run in the order of `RULES`: the ones of form make sure that operands are what the opcode
table says, so that later ones can rely on it. `verify` raises on the first fault, with the
instruction's number, the reason and a way out.

What the floors above know (ops, policies) comes in as predicates; None means "not asked".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import VerifyError, Where
from . import rules, wellformed
from .constants import MAX_DEPTH
from .program import Program
from .signature import SignatureTable
from .signature import table as process_table
from .wellformed import Fault, Rule, Subject

RULES: tuple[Rule, ...] = (
    wellformed.header_is_sound,
    wellformed.opcodes_exist,
    wellformed.operands_fit,
    wellformed.places_are_sound,
    wellformed.arguments_are_ordered,
    rules.jumps_land,
    rules.end_is_closed,
    rules.regions_are_balanced,
    rules.no_jump_enters_a_region,
    rules.loops_are_balanced,
    rules.jumps_are_structured,
    rules.registers_are_set,
    rules.hints_can_be_met,
    rules.constants_exist,
    rules.signatures_exist,
    rules.ops_exist,
    rules.policies_exist,
    rules.regions_are_straight,
    rules.host_blocks_are_sound,
    rules.host_calls_fit,
)


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
