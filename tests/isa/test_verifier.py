"""The verifier: what it accepts, and for each rule a program that breaks it alone, with pc and reason."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from bcvm_core.errors import AssembleError, BcvmError, DecodeError, EncodeError, VerifyError
from bcvm_core.isa import flow
from bcvm_core.isa.encoding import decode, encode
from bcvm_core.isa.hints import Aligned, ShapeHint
from bcvm_core.isa.program import Arg, HostBlock, HostSite, Instruction, Program, SourceLoc
from bcvm_core.isa.signature import SignatureTable
from bcvm_core.isa.text import assemble, disassemble
from bcvm_core.isa.verifier import RULES, contains_host, verify
from tests.isa.strategies import mutants, programs

MUTATIONS = int(os.environ.get("BCVM_MUTATIONS", "3000"))


@given(programs())
def test_valid_programs_pass(program: Program) -> None:
    verify(program, op_exists=lambda op: True, policy_exists=lambda number: True)


def written(code: str, **changes: Any) -> Program:
    """A program of the given instructions; header lines may come first."""
    return replace(assemble(f".program f(x, y)\n{code}"), **changes)


# One text per rule and way to break it: rule, instructions, pc, reason.
BROKEN: list[tuple[str, str, int, str]] = [
    ("arguments_are_ordered", "LOAD_VAR r0, x\nCALL_OP r1, add, 0x0000, a=r0, r0\nRETURN", 1, "positional first"),
    ("arguments_are_ordered", "LOAD_VAR r0, x\nCALL_OP r1, add, 0x0000, r0, a=r0, a=r0\nRETURN", 1, "each name once"),
    ("arguments_are_ordered", "LOAD_VAR r0, x\nBUILD_LIST r1, a=r0\nRETURN", 1, "no named arguments"),
    ("arguments_are_ordered", "LOAD_VAR r0, x\nBUILD_DICT r1, r0\nRETURN", 1, "keys and values in turn"),
    ("arguments_are_ordered", ".const k0 = 1\nLOAD_VAR r0, x\nCALL_OP r1, add, 0x0000, r0, r0, out=k0\nRETURN", 1, "`out` is a constant"),
    ("operands_fit", "LOAD_VAR r0, x\nUNPACK (r1, r1), r0\nRETURN", 1, "is no dests"),
    ("operands_fit", "LOAD_VAR r70000, x\nRETURN", 0, "is no dest"),
    ("operands_fit", "FUSE_START policy_70000\nFUSE_END\nRETURN", 0, "is no policy"),
    ("operands_fit", 'LOAD_VAR r0, "a b"\nRETURN', 0, "is no var"),
    ("operands_fit", 'LOAD_VAR r0, x\nTO_DEVICE r0, r0, "gpu"\nRETURN', 1, "is no device"),
    ("operands_fit", "FUSE_ACROSS_DEVICE policy_001\nFUSE_END\nRETURN", 0, "is no devices"),
    ("jumps_land", "JUMP L1\nlabel L1:", 0, "behind the last instruction"),
    ("end_is_closed", "RETURN\nLOAD_VAR r0, x", 1, "falls off its end"),
    ("end_is_closed", "LOAD_VAR r0, x\nlabel L1:\nRETURN\nCOND_JUMP r0, L1", 2, "falls off its end"),
    ("regions_are_balanced", "FUSE_START policy_001\nFUSE_START policy_001\nFUSE_END\nRETURN", 1, "inside the one begun at 0"),
    ("regions_are_balanced", "FUSE_END\nRETURN", 0, "closes nothing"),
    ("regions_are_balanced", "FUSE_START policy_001\nRETURN", 1, "inside the fusion region"),
    ("regions_are_balanced", "FUSE_START policy_001\nLOAD_VAR r0, x\nFUSE_END\nRETURN", 1, "LOAD_VAR inside"),
    ("no_jump_enters_a_region",
     "LOAD_VAR r0, x\nCOND_JUMP r0, L1\nFUSE_START policy_001\n"
     "NOP\nlabel L1:\nFUSE_END\nRETURN",
     1, "enters a fusion region"),
    ("loops_are_balanced", "NOP\nlabel L1:\nNOP\nLOOP_END L1\nRETURN", 2, "which is no LOOP_START"),
    ("loops_are_balanced", "LOOP_START _, _, L1\nlabel L1:\nRETURN", 0, "has no LOOP_END"),
    ("loops_are_balanced", "label L0:\nLOOP_START _, _, L1\nlabel L1:\nNOP\nLOOP_END L0\nRETURN", 0, "which is inside it"),
    ("loops_are_balanced", "label L0:\nLOOP_START r0, _, L1\nLOOP_END L0\nlabel L1:\nRETURN", 0, "an item but no iterator"),
    ("loops_are_balanced",
     "label L0:\nLOOP_START _, _, L2\nlabel L1:\nLOOP_START _, _, L2\n"
     "LOOP_END L0\nLOOP_END L1\nlabel L2:\nRETURN",
     1, "crosses the end"),
    ("jumps_are_structured", "LOAD_VAR r0, x\nlabel L1:\nNOP\nCOND_JUMP r0, L1\nRETURN", 2, "no head of a loop"),
    ("jumps_are_structured",
     "JUMP L1\nlabel L0:\nLOOP_START _, _, L2\nlabel L1:\n"
     "NOP\nLOOP_END L0\nlabel L2:\nRETURN",
     0, "enters the loop begun at 1"),
    ("registers_are_set", "RETURN r0", 0, "r0 may be unset"),
    ("registers_are_set", "LOAD_VAR r0, x\nCOND_JUMP r0, L1\nMOVE r1, r0\nlabel L1:\nRETURN r1", 3, "r1 may be unset"),
    ("registers_are_set", "LOAD_VAR r0, x\nGET_ITER r0, r0\nRETURN r0", 2, "which is an iterator"),
    ("registers_are_set", "LOAD_VAR r0, x\nlabel L0:\nLOOP_START r1, r0, L1\nLOOP_END L0\nlabel L1:\nRETURN", 1, "r0 is none"),
    ("registers_are_set",
     "LOAD_VAR r0, x\nGET_ITER r1, r0\nlabel L0:\n"
     "LOOP_START r2, r1, L1\nLOOP_END L0\nlabel L1:\nRETURN r2",
     4, "r2 may be unset"),
    ("registers_are_set", "LOAD_VAR r0, x\nMOVE r1, r0\nCOND_JUMP r0, L1\nGET_ITER r1, r0\nlabel L1:\nRETURN r1", 4, "of one kind"),
    ("hints_can_be_met", "LOAD_TENSOR r0, x, [Q]\nRETURN", 0, "'Q' in [Q] can't be met"),
    ("hints_can_be_met", "LOAD_TENSOR r0, x, [" + ", ".join("*" * 60) + "]\nLOAD_TENSOR r0, x, [2]\nRETURN", 1, "no value of x meets both"),
    ("hints_can_be_met", "LOAD_TENSOR r0, x, [..., 3]\nLOAD_TENSOR r0, x, [*, 4]\nRETURN", 1, "disagree on 3 and 4"),
    ("hints_can_be_met", "LOAD_TENSOR r0, x, [9000000000, 9000000000]\nRETURN", 0, "so many elements"),
    ("constants_exist", "LOAD_CONST r0, k0\nRETURN", 0, "no constant k0"),
    ("constants_exist", "CALL_OP r0, full, 0x0000, k3\nRETURN", 0, "no constant k3"),
    ("signatures_exist", ".sig 0x0001 = exp(int8:scalar:host)\nLOAD_VAR r0, x\nCALL_OP r0, relu, 0x0001, r0\nRETURN", 1, "is one of exp"),
    ("ops_exist", "LOAD_VAR r0, x\nCALL_OP r0, unknown, 0x0000, r0\nRETURN", 1, "no op 'unknown'"),
    ("policies_exist", "FUSE_START policy_099\nFUSE_END\nRETURN", 0, "no policy_099"),
    ("regions_are_straight", ".kind region\nLOAD_VAR r0, x\nCOND_JUMP r0, L1\nlabel L1:\nRETURN", 1, "COND_JUMP in a region"),
    ("regions_are_straight", ".kind region\nLOAD_VAR r0, z\nRETURN", 0, "no parameter of it"),
    ("host_calls_fit", "CALL_HOST _, h0\nRETURN", 0, "no host block h0"),
    ("host_calls_fit", ".host h0 reads() writes() line 1:\n    pass\n.code\nCALL_HOST r0, h0\nRETURN", 0, "has no value"),
    ("host_blocks_are_sound", ".host h0 reads() writes() line 1:\n    x =\n.code\nNOP\nCALL_HOST _, h0\nRETURN", 1, "does not parse"),
    ("host_blocks_are_sound", ".host h0 expr reads() writes() line 1:\n    x = 1\n.code\nCALL_HOST r0, h0\nRETURN", 0, "does not parse"),
    ("host_blocks_are_sound",
     ".host h0 reads(\"x y\") writes() line 1:\n    pass\n"
     ".code\nCALL_HOST _, h0\nRETURN",
     0, "no identifiers"),
    ("host_blocks_are_sound",
     ".host h0 reads() writes() line 1:\n    pass\n.site h0 1:0-1:4 run 0\n"
     ".code\nCALL_HOST _, h0\nRETURN",
     0, "nested program 0 of 0"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "code", "pc", "reason"), BROKEN, ids=[f"{rule}-{number}" for number, (rule, *_) in enumerate(BROKEN)])
def test_a_broken_rule_is_named_with_its_instruction(rule: str, code: str, pc: int, reason: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(reason)) as caught:
        verify(written(code), op_exists=lambda op: op != "unknown", policy_exists=lambda number: number < 50)
    assert caught.value.where is not None and caught.value.where.pc == pc


def test_each_rule_is_broken_by_some_test() -> None:
    by_objects = {"header_is_sound", "opcodes_exist", "places_are_sound"}  # the text form can't say these
    assert {rule.__name__ for rule in RULES} == {rule for rule, *_ in BROKEN} | by_objects


RETURN = Instruction("RETURN", (None,))
GOOD = Program("f", ("x",), (RETURN,))
REGION = Program("f.0", ("v",), (RETURN,), kind="region")


def hosted(source: str, *sites: HostSite, kind: str = "stmt", nested: int = 1) -> Program:
    block = HostBlock(kind, source, (), (), 1, 0, sites)
    return replace(GOOD, instructions=(Instruction("CALL_HOST", (None, 0)), RETURN), hosts=(block,), nested=(REGION,) * nested)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (replace(GOOD, instructions=()), "no instructions"),
        (replace(GOOD, instructions=[RETURN]), "instructions are malformed"),
        (replace(GOOD, instructions=("RETURN",)), "instructions are malformed"),
        (replace(GOOD, name=None), "malformed"),
        (replace(GOOD, first_line="1"), "malformed"),
        (replace(GOOD, kind="module"), "no program kind"),
        (replace(GOOD, params=("x", "x")), "each once"),
        (replace(GOOD, params=("a b",)), "not identifiers"),
        (replace(GOOD, dims=("a.b",)), "not identifiers"),
        (replace(GOOD, local_names=None), "not identifiers"),
        (replace(GOOD, consts=[1]), "consts are malformed"),
        (replace(GOOD, hosts=(1,)), "hosts are malformed"),
        (replace(GOOD, nested=(None,)), "nested are malformed"),
        (replace(GOOD, instructions=(Instruction("HALT"),)), "no opcode 'HALT'"),
        (replace(GOOD, instructions=(Instruction([]),)), "no opcode []"),
        (replace(GOOD, instructions=(Instruction("RETURN", ()),)), "takes 1 operands"),
        (replace(GOOD, instructions=(Instruction("RETURN", None),)), "takes 1 operands"),
        (replace(GOOD, instructions=(Instruction("RETURN", (True,)),)), "is no reg?"),
        (replace(GOOD, instructions=(Instruction("RETURN", (None,), SourceLoc(-1)),)), "no place"),
        (replace(GOOD, instructions=(Instruction("RETURN", (None,), 7),)), "no place"),
        (replace(GOOD, instructions=(Instruction("CALL_OP", (0, "relu", 65_535, ())), RETURN)), "does not exist"),
        (replace(GOOD, instructions=(Instruction("CALL_OP", (0, "relu", 0, (Arg(False, -1),))), RETURN)), "is no args"),
        (replace(GOOD, instructions=(Instruction("LOAD_TENSOR", (0, "x", ShapeHint((-1,)))), RETURN)), "can't be met"),
        (replace(GOOD, instructions=(Instruction("LOAD_TENSOR", (0, "x", ShapeHint((Aligned(0),)))), RETURN)), "can't be met"),
        (replace(GOOD, instructions=(Instruction("LOAD_TENSOR", (0, "x", ShapeHint((None,) * 65))), RETURN)), "65 dims"),
        (replace(GOOD, consts=(object(),)), "can be no constant"),
        (replace(GOOD, consts=(np.array([None]),)), "can be no constant"),
        (replace(GOOD, nested=(replace(GOOD, kind="module"),)), "no program kind"),
        (hosted(None), "with a source"),  # type: ignore[arg-type]
        (hosted("(" * 300), "does not parse"),
        (hosted("a\0b"), "does not parse"),
        (hosted("-" * 100_000 + "1"), "does not parse"),
        (hosted("f(x)", HostSite(1, 0, 1, 4, "walk", 0)), "has the form"),
        (hosted("f(x)", HostSite(1, 0, 1, 4, "value", 1)), "nested program 1 of 1"),
        (hosted("f(x)", HostSite(1, 0, 1, 3, "value", 0)), "not the span of an expression"),
        (hosted("f(x)", HostSite(2, 0, 2, 4, "run", 0)), "not the span of statements"),
        (hosted("f(g(x))", HostSite(1, 0, 1, 7, "tree", 0), HostSite(1, 2, 1, 6, "value", 0)), "overlaps"),
        (hosted("f(g(x))", HostSite(1, 0, 1, 7, "value", 0), HostSite(1, 0, 1, 7, "value", 0)), "overlaps"),
        (hosted("f(x)", HostSite(1, 0, 1, 4, "run", 0, ("1",))), "no names"),
    ],
)
def test_malformed_objects_are_refused(program: Any, reason: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(reason)) as caught:
        verify(program)
    assert caught.value.where is not None and caught.value.where.pc is not None


def test_the_place_in_the_source_is_part_of_the_error() -> None:
    program = replace(GOOD, filename="net.py", instructions=(Instruction("RETURN", (3,), SourceLoc(7, 4)),))
    with pytest.raises(VerifyError, match=r"f: r3 may be unset here \(at pc 0, net.py, line 7, column 4\)"):
        verify(program)


@pytest.mark.parametrize(
    ("source", "site"),
    [
        ("x = 1\ny = 2\nz = 3", HostSite(1, 0, 2, 5, "run", 0)),
        ("with a:\n    x = 1\n    y = 2", HostSite(2, 4, 3, 9, "run", 0, ("x", "y"))),
        ("é = f(x + 1)", HostSite(1, 5, 1, 13, "value", 0)),
        ("é = f(x + 1)", HostSite(1, 7, 1, 12, "tree", 0)),
    ],
)
def test_sites_are_spans_of_the_syntax_tree(source: str, site: HostSite) -> None:
    verify(hosted(source, site))


def test_operands_of_a_value_site_may_hold_sites() -> None:
    outer, inner = HostSite(1, 0, 1, 7, "value", 0), HostSite(1, 2, 1, 6, "tree", 0)
    verify(hosted("f(g(x))", outer, inner))
    verify(hosted("f(g(x))", inner, outer))


def test_an_expression_may_span_lines_as_it_did_in_brackets() -> None:
    program = hosted("f(x)\n  + g(y)", HostSite(1, 0, 1, 4, "value", 0), HostSite(2, 4, 2, 8, "value", 0), kind="expr")
    verify(replace(program, instructions=(Instruction("CALL_HOST", (0, 0)), RETURN)))


def test_code_that_no_path_reaches_may_read_anything() -> None:
    verify(written("RETURN\nRETURN r9"))


def test_registers_of_a_while_loop_reach_its_exit() -> None:
    verify(written("LOAD_VAR r0, x\nlabel L0:\nLOOP_START _, _, L1\nMOVE r1, r0\nCOND_JUMP r1, L1\nLOOP_END L0\nlabel L1:\nRETURN r1"))


def test_different_hints_on_different_paths_are_no_contradiction() -> None:
    verify(written("LOAD_VAR r0, y\nCOND_JUMP r0, L1\nLOAD_TENSOR r1, x, [2]\nRETURN\nlabel L1:\nLOAD_TENSOR r1, x, [2, 3]\nRETURN"))
    verify(written("LOAD_TENSOR r1, x, [2]\nSTORE_VAR x, r1\nLOAD_TENSOR r1, x, [2, 3]\nRETURN"))


def test_deeply_nested_loops_settle_quickly() -> None:
    depth = 300
    heads = "".join(f"label H{n}:\nLOOP_START _, _, E{n}\nMOVE r{n + 1}, r{n}\n" for n in range(depth))
    ends = "".join(f"LOOP_END H{n}\nlabel E{n}:\nMOVE r{n}, r0\n" for n in reversed(range(depth)))
    program = written(f"LOAD_VAR r0, x\n{heads}{ends}RETURN r0")
    states = flow.registers_before(program.instructions)
    assert states[-1] is None or states[-1].has(0)
    verify(program)


def test_what_holds_host_code_is_told_apart() -> None:
    assert not contains_host(GOOD)
    assert contains_host(hosted("pass"))
    assert contains_host(replace(GOOD, hosts=hosted("pass").hosts))
    assert contains_host(replace(GOOD, nested=(REGION, hosted("pass"))))


def test_mutated_programs_are_refused_with_a_reason_or_are_whole() -> None:
    """Whatever a mutation did: an error with a place and a reason, or a program that verifies and comes back from both forms."""
    outcomes: dict[str, int] = {}
    for mutant in mutants(seed=7, count=MUTATIONS):
        if mutant.error is not None:
            assert mutant.error.what and (isinstance(mutant.error, DecodeError) or mutant.error.where is not None)
            assert isinstance(mutant.error, AssembleError | DecodeError)
            outcome = "refused when read"
        else:
            assert mutant.program is not None
            outcome = judged(mutant.program, mutant.program.notes["signatures"])
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert sum(outcomes.values()) == MUTATIONS
    assert min(outcomes.values()) > MUTATIONS / 50, outcomes  # the mutations are neither harmless nor hopeless


def judged(program: Program, table: SignatureTable) -> str:
    """Verify a mutant; one that passes must survive both forms."""
    try:
        verify(program, signatures=table)
    except VerifyError as error:
        assert error.what and error.where is not None and error.where.pc is not None
        return "refused by the verifier"
    assert assemble(disassemble(program, signatures=table), signatures=table) == program
    assert decode(encode(program, signatures=table), signatures=table) == program
    return "verified"


def test_errors_of_the_forms_are_ours() -> None:
    """An unverified program may not have a form, but the refusal is always an EncodeError."""
    for mutant in mutants(seed=11, count=300):
        if mutant.program is None:
            continue
        table = mutant.program.notes["signatures"]
        for write in (encode, disassemble):
            try:
                write(mutant.program, signatures=table)  # type: ignore[operator]
            except EncodeError:
                continue
            except BcvmError as error:
                raise AssertionError(f"{write.__name__}: {error!r}") from error


def test_places_that_no_listing_can_show_are_refused() -> None:
    program = assemble(".program f(x)\nLOAD_VAR r0, x\nRETURN r0")
    for line in (-1, 10**9, True, 1.0):
        with pytest.raises(VerifyError, match="first line"):
            verify(replace(program, first_line=line))
    verify(replace(program, first_line=10**9 - 1))
