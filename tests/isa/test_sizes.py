"""The size table: one program with hints against one per shape, over the fixed suite of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from bcvm_core.isa import sizes
from bcvm_core.isa.encoding import decode, encode
from bcvm_core.isa.program import Program
from bcvm_core.isa.text import assemble
from bcvm_core.isa.verifier import verify
from bcvm_core.ops import registry

SUITE = sorted((Path(__file__).parent / "suite").glob("*.bc"))


def suite() -> list[Program]:
    return [assemble(path.read_text(encoding="utf-8"), filename=path.name) for path in SUITE]


def op_exists(name: str) -> bool:
    try:
        registry.row(name)
    except registry.UnknownOpError:
        return False
    return True


@pytest.mark.parametrize("program", suite(), ids=lambda program: program.name)
def test_the_suite_is_valid(program: Program) -> None:
    verify(program, op_exists=op_exists)
    assert decode(encode(program)) == program


def test_specialised_programs_are_valid_and_hold_no_symbols() -> None:
    for program in suite():
        variant = sizes.specialised(program, 3)
        verify(variant)
        assert variant.dims == ()
        assert not any(i.operand("hint").names for i in variant.instructions if i.opcode == "LOAD_TENSOR")
        assert variant != sizes.specialised(program, 4)


def test_once_with_hints_is_at_least_40_percent_smaller(capsys: pytest.CaptureFixture[str]) -> None:
    rows = sizes.table(suite())
    with capsys.disabled():
        print("\n" + sizes.render(rows))
    for one, two, eight in rows:
        assert eight.saved_of_files >= 0.40 and eight.saved_of_bundle >= 0.40, eight
        assert two.saved_of_files >= 0.40, two
        # One shape is the honest zero: hints cost their names, shapes cost their numbers.
        assert abs(one.saved_of_files) < 0.10, one
        assert 0 < two.saved_of_bundle < two.saved_of_files
