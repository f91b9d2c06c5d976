"""The binary form: round trips, what it shares, and that nothing malformed gets past it or costs memory."""

from __future__ import annotations

import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcvm_core.errors import DecodeError, EncodeError
from bcvm_core.isa import opcodes
from bcvm_core.isa.binary import FORMS
from bcvm_core.isa.constants import identical
from bcvm_core.isa.encoding import MAGIC, decode, decode_all, encode, encode_all
from bcvm_core.isa.hints import Aligned, ShapeHint
from bcvm_core.isa.opcodes import Kind
from bcvm_core.isa.operands import FORMS as TEXT_FORMS
from bcvm_core.isa.program import Arg, Instruction, Program, SourceLoc
from bcvm_core.isa.signature import Signature, SignatureTable
from bcvm_core.isa.text import assemble, disassemble
from bcvm_core.isa.wellformed import FITS
from tests.isa.strategies import CONSTS, programs

RETURN = Instruction("RETURN", (None,))


def signed(body: bytes) -> bytes:
    """`body` with a right head."""
    return MAGIC + b"\1" + zlib.crc32(body).to_bytes(4, "little") + body


@given(programs())
def test_every_program_comes_back(program: Program) -> None:
    data = encode(program)
    again = decode(data)
    assert again == program
    assert encode(again) == data


@given(programs())
def test_text_and_binary_say_the_same(program: Program) -> None:
    assert disassemble(decode(encode(assemble(disassemble(program))))) == disassemble(program)
    assert encode(assemble(disassemble(decode(encode(program))))) == encode(program)


@pytest.mark.parametrize("value", CONSTS, ids=lambda value: repr(value)[:30].replace("\n", " "))
def test_every_kind_of_constant_comes_back(value: object) -> None:
    (again,) = decode(encode(Program("f", (), (RETURN,), consts=(value,)))).consts
    assert identical(again, value)


def test_array_constants_are_read_only() -> None:
    (array,) = decode(encode(Program("f", (), (RETURN,), consts=(np.arange(3),)))).consts
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_each_operand_kind_has_a_row_in_every_table() -> None:
    assert set(FORMS) == set(TEXT_FORMS) == set(FITS) == set(Kind)


def test_each_opcode_survives_alone() -> None:
    """Every row of the table is encoded, decoded, printed and parsed with one made-up operand per kind."""
    hint = ShapeHint((1, "B", Aligned(8), None), any_leading=True)
    samples = {
        Kind.DEST: 3, Kind.OPT_DEST: None, Kind.DESTS: (1, 200), Kind.REG: 300, Kind.OPT_REG: 0, Kind.VAR: "x.y", Kind.OP: "relu",
        Kind.SIG: 0, Kind.ARGS: (Arg(False, 1), Arg(True, 0, "axis")), Kind.CONST: 0, Kind.SCALAR: -0.5, Kind.LABEL: 0, Kind.POLICY: 1000,
        Kind.HOST: 70, Kind.DEVICE: "cpu:0", Kind.DEVICES: ("cpu:0", "cuda:1"), Kind.HINT: hint,
    }  # fmt: skip
    for row in opcodes.TABLE:
        program = Program("f", (), (Instruction(row.name, tuple(samples[kind] for _, kind in row.operands)), RETURN), consts=(None,))
        assert decode(encode(program)) == program
        assert assemble(disassemble(program)) == program


def test_several_programs_share_their_tables() -> None:
    weights = np.arange(100.0)
    one = Program("f", (), (RETURN,), consts=(weights,))
    two = Program("g", (), (RETURN,), consts=(weights.copy(), 1))
    data = encode_all((one, two))
    assert decode_all(data) == (one, two)
    assert len(data) < len(encode(one)) + len(encode(two)) - 700
    with pytest.raises(DecodeError, match="holds 2 programs"):
        decode(data)


def test_signatures_are_mapped_to_the_table_of_the_reader() -> None:
    table, other = SignatureTable(), SignatureTable()
    other.intern(Signature("exp", ()))
    number = table.intern(Signature("relu", ()))
    program = Program("f", (), (Instruction("CALL_OP", (0, "relu", number, ())), RETURN))
    again = decode(encode(program, signatures=table), signatures=other)
    assert other.row(again.instructions[0].operand("sig")) == Signature("relu", ())


def test_rows_that_no_instruction_uses_take_no_place() -> None:
    """A file can list rows without end; the process's table holds 65,535."""
    table = SignatureTable()
    decode(signed(b"\1\1f\0\1\0\0" + b"\1" + b"\0\0\0\0\0\0\1\0\0\1\x65\0\0\0"), signatures=table)
    assert len(table) == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no binary BCVM program"),
        (b"BCVM", "format version"),
        (MAGIC + b"\x07" + b"\0" * 8, "format version 7"),
        (MAGIC + b"\1" + b"\0" * 8, "checksum"),
        (signed(b""), "ends in the middle"),
        (signed(b"\xff" * 12), "too"),
        (signed(b"\xff\xff\xff\xff\x0f"), "more than the rest holds"),
        (signed(b"\0\1\x10\x0c\2" + b"\xff" * 8 + b"\x7f" * 2), "wrong|fit|middle|too|bytes"),
        (signed(b"\0\0\0\0"), "holds 0 programs"),
        (signed(b"\0\0\0\0x"), "left after"),
        (signed(b"\0\1" + b"\x0a\1" * 100), "nested more than"),
        (signed(b"\0\1\x63"), "unknown kind"),
    ],
)
def test_malformed_files_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode(data)


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(noise)
    with pytest.raises(DecodeError):
        decode(signed(noise + b"\xff"))


@given(programs(), st.data())
def test_a_file_that_is_cut_is_refused(program: Program, data: st.DataObject) -> None:
    raw = encode(program)
    end = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(DecodeError):
        decode(raw[:end])
    if end > 9:
        with pytest.raises(DecodeError):
            decode(signed(raw[9:end]))


def test_a_small_file_allocates_little() -> None:
    """Counts and shapes that promise gigabytes are refused before anything is allocated."""
    huge = b"\xff\xff\xff\xff\xff\x0f"
    bodies = [
        huge,
        b"\0" + huge,
        b"\0\1\x0a" + huge,
        b"\0\1\x10\x0c\2" + huge + huge + huge,
        b"\0\1\x08" + huge,
        b"\0\0" + huge,
        b"\0\0\0" + huge,
    ]
    tracemalloc.start()
    for body in bodies:
        with pytest.raises(DecodeError):
            decode(signed(body))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "program",
    [
        Program("f", (), (Instruction("HALT"),)),
        Program("f", (), (Instruction("RETURN", ()),)),
        Program("f", (), (Instruction("RETURN", ("r0",)),)),
        Program("f", (), (Instruction("RETURN", (-1,)),)),
        Program("f", (), (Instruction("LOAD_VAR", (0, 1)),)),
        Program("f", (), (Instruction("LOAD_TENSOR", (0, "x", "[B]")),)),
        Program("f", (), (Instruction("CALL_OP", (0, "relu", 60_000, ())),)),
        Program("f", (), (Instruction("NOP", (), SourceLoc(1, -1)),)),
        Program("f", (), (RETURN,), consts=({1, 2},)),
        Program("f", (), (RETURN,), consts=(np.array([None]),)),
        Program("f", (), (RETURN,), kind="module"),
        Program("f", (), (RETURN,), first_line=1.5),  # type: ignore[arg-type]
    ],
    ids=lambda program: str(program.instructions[0]),
)
def test_what_cannot_be_carried_is_refused(program: Program) -> None:
    with pytest.raises(EncodeError):
        encode(program)
