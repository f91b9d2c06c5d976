"""Selection programs: text form, verifier, and the three ways to run one."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcvm_core.errors import SelectionError
from bcvm_core.tiers import facts, selection
from bcvm_core.tiers.selection import Jump, Load, Return, SelectionProgram

EXAMPLES = int(os.environ.get("BCVM_TEST_EXAMPLES", "300"))

TEXT = """
    ld   size[0]           ; elements of the first operand
    jlt  1024, small
    ld   contiguous[0]
    jeq  0, small
    ret  exp.template
small:
    ret  exp.numpy
"""


def test_text_round_trip() -> None:
    program = selection.assemble(TEXT)
    assert program.kernels == ("exp.template", "exp.numpy")
    assert selection.assemble(selection.listing(program), program.kernels) == program


@pytest.mark.parametrize(
    ("operand", "kernel", "path"),
    [
        (np.ones(5), "exp.numpy", "size[0] = 5 is below 1024: exp.numpy"),
        (np.ones(5000), "exp.template", "size[0] = 5000 is not below 1024; contiguous[0] = 1 is not equal to 0: exp.template"),
        (np.ones(5000)[::2], "exp.numpy", "size[0] = 2500 is not below 1024; contiguous[0] = 0 is equal to 0: exp.numpy"),
    ],
    ids=["small", "large", "strided"],
)
def test_explains_its_path(operand: np.ndarray, kernel: str, path: str) -> None:
    program = selection.assemble(TEXT)
    why = selection.explain(program, selection.fact_reader((operand,)))
    assert (why.kernel, why.text) == (kernel, path)
    assert program.kernels[selection.compile_program(program)((operand,))] == kernel


def test_facts_by_name() -> None:
    why = selection.explain(selection.assemble("ld m\njgt 4, wide\nret a\nwide: ; comment\nret b".replace("wide: ", "wide:\n")), {"m": 9})
    assert (why.index, why.steps) == (1, 3)


KERNELS = ("a", "b")
A = Load("size")

REFUSED = [
    ((), 0, "empty"),
    ((A,), 0, "past its end"),
    ((A, Jump("jeq", 0, 3), Return(0)), 1, "step 3 of 3"),
    ((A, Jump("jeq", 0, 1), Return(0)), 1, "forward"),
    ((A, Jump("jeq", 0, 0), Return(0)), 1, "forward"),
    ((Jump("jeq", 0, 1), Return(0)), 0, "nothing to compare"),
    ((A, Jump(None, 0, 3), Return(0), Return(1)), 2, "cannot be reached"),
    ((Return(0), Return(1)), 1, "cannot be reached"),
    ((Return(2),), 0, "does not exist"),
    ((Return(-1),), 0, "does not exist"),
    ((Return(True),), 0, "does not exist"),
    ((Load("colour"), Return(0)), 0, "no fact"),
    ((Load("size", -1), Return(0)), 0, "operand -1"),
    ((Load("size", 99), Return(0)), 0, "operand 99"),
    ((Load("dim", 0, 40), Return(0)), 0, "axis 40"),
    ((A, Jump("jmp", 0, 2), Return(0)), 1, "no test"),
    ((A, Jump("jeq", 1 << 70, 2), Return(0)), 1, "64-bit"),
    ((A, Jump("jeq", 1.5, 2), Return(0)), 1, "64-bit"),  # type: ignore[arg-type]
    (("ret 0",), 0, "no step"),
    ((A,) * 70, 64, "at most 64"),
]


@pytest.mark.parametrize(("steps", "pc", "message"), REFUSED, ids=[f"{i}-{m}" for i, (_, _, m) in enumerate(REFUSED)])
def test_verifier_refuses(steps: tuple, pc: int, message: str) -> None:
    with pytest.raises(SelectionError, match=message) as caught:
        selection.verify(SelectionProgram(steps, KERNELS))
    assert caught.value.where is not None
    assert caught.value.where.pc == pc
    assert caught.value.fix


def test_verifier_knows_the_number_of_operands() -> None:
    program = SelectionProgram((Load("size", 1), Return(0)), KERNELS)
    selection.verify(program, operands=2)
    with pytest.raises(SelectionError, match="operand 1"):
        selection.verify(program, operands=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jump x", "no instruction 'jump'"),
        ("ld size", "takes 1 subscripts"),
        ("ld size[", "cannot read the fact"),
        ("ld size[0]\njeq 1, nowhere\nret a", "no label 'nowhere'"),
        ("ld size[0]\njeq one, x\nx:\nret a", "cannot read"),
        ("x:\nx:\nret a", "defined twice"),
        ("ret", "needs a kernel"),
    ],
)
def test_text_that_does_not_parse(text: str, message: str) -> None:
    with pytest.raises(SelectionError, match=message) as caught:
        selection.assemble(text)
    assert caught.value.where is not None
    assert caught.value.where.line
    assert caught.value.fix


# --- any program is refused, or runs in bounded steps, the same way in every form ---------------

_loads = st.builds(Load, st.sampled_from([*facts.BY_NAME, "colour"]), st.integers(-1, 3), st.integers(-34, 34))
_jumps = st.builds(Jump, st.sampled_from([*selection.TESTS, None, "jxx"]), st.integers(-3, 2000), st.integers(-1, 14))
_returns = st.builds(Return, st.integers(-1, 2))
_any_steps = st.lists(st.one_of(_loads, _jumps, _returns), max_size=12)


@st.composite
def _likely_steps(draw: st.DrawFn) -> list[selection.Step]:
    """Mostly well-formed: forward jumps within the program, existing facts, a return at the end."""
    length = draw(st.integers(1, 14))
    steps: list[selection.Step] = [Load("size")]
    for pc in range(1, length):
        kind = draw(st.integers(0, 9))
        if kind < 3:
            steps.append(Load(draw(st.sampled_from(list(facts.BY_NAME))), draw(st.integers(0, 1)), draw(st.integers(-3, 3))))
        elif kind < 9:
            test = draw(st.sampled_from([*selection.TESTS]))
            steps.append(Jump(test, draw(st.integers(-2, 40)), draw(st.integers(pc + 1, length))))
        else:
            steps.append(Return(draw(st.integers(0, 1))))
    return [*steps, Return(draw(st.integers(0, 1)))]


_OPERANDS = (np.ones((3, 4), np.float32), np.ones((4, 5), np.float32).T[:, ::2])


def _check(steps: list[selection.Step]) -> bool:
    program = SelectionProgram(tuple(steps), KERNELS)
    try:
        selection.verify(program, operands=2)
    except SelectionError as error:
        assert error.where is not None
        assert error.where.pc is not None
        assert error.fix
        return False
    why = selection.explain(program, selection.fact_reader(_OPERANDS))
    assert why.steps <= len(steps)
    assert selection.compile_program(program)(_OPERANDS) == why.index
    assert selection.assemble(selection.listing(program), KERNELS) == program
    return True


@settings(max_examples=EXAMPLES)
@given(_any_steps)
def test_random_programs_are_refused_or_bounded(steps: list[selection.Step]) -> None:
    _check(steps)


@settings(max_examples=EXAMPLES)
@given(_likely_steps())
def test_plausible_programs_are_refused_or_bounded(steps: list[selection.Step]) -> None:
    _check(steps)


def test_the_longest_program_stays_short() -> None:
    """Sixty diamonds in a row: code and time grow with the steps, not with the paths."""
    steps: list[selection.Step] = [Load("size")]
    while len(steps) < selection.MAX_STEPS - 2:
        steps.append(Jump("jgt", len(steps), len(steps) + 2))
        steps.append(Load("ndim"))
    steps.append(Return(1))
    program = SelectionProgram(tuple(steps), KERNELS)
    selection.verify(program)
    assert selection.compile_program(program)(_OPERANDS) == selection.explain(program, selection.fact_reader(_OPERANDS)).index


@pytest.mark.parametrize("fact", facts.TABLE, ids=lambda f: f.name)
def test_facts_are_integers_of_any_operand(fact: facts.Fact) -> None:
    for operands in (_OPERANDS, (np.float32(1), 2), (np.ones(()), np.ones(0)), (np.ones((2, 3, 4)), True), ()):
        value = fact.read(operands, 1, -1)
        assert type(value) is int


def test_facts_of_a_product() -> None:
    a, b = np.ones((7, 3, 4)), np.ones((4, 5))
    read = {name: facts.BY_NAME[name].read((a, b), 0, 0) for name in ("m", "n", "k", "batch", "operands", "widest", "bytes")}
    assert read == {"m": 3, "n": 5, "k": 4, "batch": 7, "operands": 2, "widest": 84, "bytes": 84 * 8 + 20 * 8}
