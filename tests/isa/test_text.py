"""The text form: golden listings, what each part looks like, and errors that carry the line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from bcvm_core.errors import AssembleError, EncodeError
from bcvm_core.isa import signature
from bcvm_core.isa.constants import identical
from bcvm_core.isa.program import Arg, Instruction, Program, SourceLoc
from bcvm_core.isa.text import assemble, disassemble, instructions
from bcvm_core.isa.verifier import verify
from tests.isa.strategies import CONSTS, programs

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.bc"))


def normalise(listing: str) -> list[str]:
    """A listing without comments, with registers and signatures numbered in order of first use and single spaces."""
    numbers: dict[str, str] = {}

    def renumbered(match: re.Match[str]) -> str:
        kind = "r" if match[0].startswith("r") else "0x"
        same = [name for name in numbers if name.startswith(kind)]
        return numbers.setdefault(match[0], f"{kind}#{len(same)}")

    lines = []
    for line in listing.split("\n"):
        bare = re.sub(r"\s*;(?=([^\"]*\"[^\"]*\")*[^\"]*$).*", "", line).strip()
        if bare:
            code = (
                bare if bare.startswith((".host", ".const", ".data")) else re.sub(r"\br\d+\b|\b0x(?!0000)[0-9A-F]{4}\b", renumbered, bare)
            )
            lines.append(re.sub(r" +", " ", code))
    return lines


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_listings_come_back(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    program = assemble(text)
    verify(program)
    again = disassemble(program)
    assert normalise(again) == [line for line in normalise(text) if line != ".kind function"]
    assert assemble(again) == program


def test_the_numbers_at_the_left_are_optional() -> None:
    path = GOLDEN[[p.stem for p in GOLDEN].index("dynamic_forward")]
    text = path.read_text(encoding="utf-8")
    assert assemble(re.sub(r"(?m)^ *\d+  ", "", text)) == assemble(text)


def test_registers_and_signatures_are_renumbered_for_comparison() -> None:
    assert normalise("LOAD_VAR r7, x\nRETURN r7") == normalise(" 0  LOAD_VAR  r0, x ; hello\nRETURN r0")[0:0] + [
        "LOAD_VAR r#0, x",
        "RETURN r#0",
    ]


@given(programs())
def test_every_program_comes_back(program: Program) -> None:
    text = disassemble(program)
    again = assemble(text)
    assert again == program
    assert disassemble(again) == text


@given(programs())
def test_comments_and_blank_lines_mean_nothing(program: Program) -> None:
    if program.hosts:
        return  # in a host block they are the user's
    lines = disassemble(program).split("\n")
    noisy = "\n\n".join(line if ";" in line else f"\t{line} ; a comment" if not line.startswith(" " * 4) else line for line in lines)
    assert assemble(noisy) == program


@pytest.mark.parametrize("value", CONSTS, ids=lambda value: repr(value)[:30].replace("\n", " "))
def test_every_kind_of_constant_comes_back(value: object) -> None:
    program = Program("f", (), (Instruction("LOAD_CONST", (0, 0)), Instruction("RETURN", (0,))), consts=(value,))
    (again,) = assemble(disassemble(program)).consts
    assert identical(again, value)


def test_programs_that_differ_in_type_or_sign_are_not_equal() -> None:
    def holding(value: object) -> Program:
        return Program("f", (), (Instruction("ADD_CONST", (0, 0, value)),), consts=(value,))

    for one, two in [(1, True), (1, 1.0), (0.0, -0.0), (np.float32(1), np.float64(1))]:
        assert holding(one) != holding(two)
    assert holding(float("nan")) == holding(float("nan"))
    assert hash(holding(1)) == hash(holding(1))


def test_source_lines_stand_beside_the_code() -> None:
    code = (Instruction("LOAD_VAR", (0, "x"), SourceLoc(2, 4)), Instruction("RETURN", (0,), SourceLoc(2, 4, 2, 12)))
    program = Program("f", ("x",), code)
    text = disassemble(program, source="def f(x):\n    return x; # done\n")
    assert "; 2:4  return x; # done" in text
    assert "; 2:4-2:12  return x; # done" in text
    assert assemble(text) == program


def test_short_names_for_display() -> None:
    program = assemble(".program f(x)\n.dims Batch, Channel, Cols\nLOAD_TENSOR r0, x, [Batch, Channel, Cols]\nRETURN r0")
    assert "[B, Channel, Cols]" in disassemble(program, short=True)
    assert ".dims B, Channel, Cols" in disassemble(program, short=True)


def test_arrays_are_listed_by_hash_and_can_be_left_out() -> None:
    program = Program("f", (), (Instruction("RETURN", (None,)),), consts=(np.arange(3), np.arange(3)))
    text = disassemble(program)
    assert text.count(".data sha256:") == 1
    with pytest.raises(AssembleError, match="no .data block"):
        assemble(disassemble(program, data=False))


@given(programs())
def test_instructions_one_by_one_are_those_of_the_listing(program: Program) -> None:
    listed = instructions(program)
    shown = disassemble(program, data=False)
    assert len(listed) == len(program.instructions)
    assert [entry.text for entry in listed if entry.text not in shown] == []
    assert [entry.label for entry in listed if entry.label and f"label {entry.label}:" not in shown] == []
    assert all(f".const {note}" in shown for entry in listed for note in entry.constants)


def test_signature_numbers_are_local_to_the_file() -> None:
    text = ".program f(x)\n.sig 0x0FFF = relu(int8:scalar:shared)\nLOAD_VAR r0, x\nCALL_OP r0, relu, 0x0FFF, r0\nRETURN r0"
    number = assemble(text).instructions[1].operand("sig")
    assert str(signature.table.row(number)) == "relu(int8:scalar:shared)"
    assert assemble(text.replace("0x0FFF", "0x0001")) == assemble(text)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "no .program line"),
        ("NOP", 1, "before the first .program"),
        (".program f(x)\nRETRUN r0", 2, "did you mean RETURN"),
        (".program f(x)\n.dmis B", 2, "did you mean .dims"),
        (".program f(x)\nRETURN r0, r1", 2, "has 2 operands"),
        (".program f(x)\nLOAD_VAR r0", 2, "lacks its operand 'var'"),
        (".program f(x)\nLOAD_VAR x, x", 2, "where a register belongs"),
        (".program f(x)\nJUMP L1", 2, "no label 'L1'"),
        (".program f(x)\nlabel L1:\nlabel L1:", 3, "stands twice"),
        (".program f(x)\nLOAD_TENSOR r0, x, [B, ...]", 2, "may only be the first dim"),
        (".program f(x)\nLOAD_TENSOR r0, x, [B C]", 2, "is no dim"),
        (".program f(x)\nLOAD_TENSOR r0, x, [B", 2, "left open"),
        (".program f(x)\nCALL_OP r0, relu, 0x0007, r0", 2, "no .sig line"),
        (".program f(x)\n.sig 0x0007 = relu(float33:scalar:host)", 2, "no operand class"),
        (".program f(x)\n.sig 0x0000 = relu()", 2, "reserved"),
        (".program f(x)\n.sig 0x0001 = relu()\n.sig 0x0001 = exp()", 3, "two rows"),
        (".program f(x)\n.const k0 = [1, 2", 2, "',' or ']' expected"),
        (".program f(x)\n.const k1 = 1", 2, "k1 follows"),
        (".program f(x)\n.const k0 = int8 300", 2, "does not fit"),
        (".program f(x)\n.const k0 = " + "9" * 5000, 2, "is no number"),
        (".program f(x)\n.const k0 = " + "(" * 500, 2, "nested more than"),
        (".program f(x)\n.const k0 = float32[99999999] sha256:" + "0" * 32, 2, "no .data block"),
        (".program f(x)\n.data sha256:" + "0" * 32 + "\n    AAAA", 2, "does not have the hash"),
        (".program f(x)\n.host h0 reads( line 3:", 2, "cannot read"),
        (".program f(x)\n.program g(x)", 2, "does not belong here"),
        (".program f(x)\n.program f.1(x)", 2, "out of order"),
        (".program f(x)\n.program f" + ".0" * 50 + "(x)", 2, "nested more than"),
    ],
)
def test_errors_carry_the_line_and_the_reason(text: str, line: int, reason: str) -> None:
    with pytest.raises(AssembleError, match=re.escape(reason)) as caught:
        assemble(text, filename="p.bc")
    assert caught.value.where is not None
    assert (caught.value.where.line, caught.value.where.filename) == (line, "p.bc")


@pytest.mark.parametrize(
    "instruction",
    [
        Instruction("HALT"),
        Instruction("RETURN", ()),
        Instruction("RETURN", ("r0",)),
        Instruction("JUMP", (7,)),
        Instruction("CALL_OP", (0, "relu", 65_535, ())),
        Instruction("CALL_OP", (0, "relu", 0, (1,))),
        Instruction("CALL_OP", (0, "relu", 0, [Arg(False, 0)])),
        Instruction("ADD_CONST", (0, 0, "x")),
        Instruction("NOP", (), SourceLoc(-1, 0)),
    ],
    ids=str,
)
def test_what_has_no_text_is_refused(instruction: Instruction) -> None:
    with pytest.raises(EncodeError):
        disassemble(Program("f", (), (instruction,)))


def test_comments_stand_in_one_column() -> None:
    loc = SourceLoc(1, 0, 1, 5)
    short = Instruction("LOAD_VAR", (0, "x"), loc)
    longer = Instruction("LOAD_VAR", (1, "a_name_that_is_rather_long_but_no_longer_than_lines_are"), loc)
    longest = Instruction("LOAD_VAR", (2, "n" * 90), loc)
    lines = disassemble(Program("f", ("x",), (short, longer, longest, Instruction("RETURN", (0,), loc)))).split("\n")
    columns = [line.index("  ; 1:0") for line in lines if "  ; 1:0" in line]
    assert columns[0] == columns[1] == columns[3] < columns[2]
