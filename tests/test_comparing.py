"""Two versions side by side: what belongs together is paired, what changed is marked, and the same versions give the same pairs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bcvm_core as bcvm
from bcvm_core import cli
from bcvm_core.comparing import CHANGED, GONE, NEW, SAME, Listed, compare, listed, marked, of_blocks, side_by_side, summary
from bcvm_core.frontend.annotations import TensorSpec
from bcvm_core.machinecode import Block, Line


def _rows(*texts: str) -> list[Listed]:
    return [Listed(str(n), text) for n, text in enumerate(texts)]


def _shown(left: list[Listed], right: list[Listed]) -> list[tuple[str, str, str]]:
    return [(pair.mark, marked(pair.left, pair.mark), marked(pair.right, pair.mark)) for pair in compare(left, right)]


def test_an_instruction_that_was_added_does_not_make_the_rest_look_new() -> None:
    before = _rows("LOAD_TENSOR r0, x, [B, 32]", "MUL_CONST r1, r0, 2.0", "RETURN r1")
    after = _rows("LOAD_TENSOR r0, x, [B, 32]", "CALL_OP r1, exp, r0", "MUL_CONST r2, r1, 2.0", "RETURN r2")
    assert _shown(before, after) == [
        (SAME, "LOAD_TENSOR r0, x, [B, 32]", "LOAD_TENSOR r0, x, [B, 32]"),
        (NEW, "", "CALL_OP r1, exp, r0"),
        (CHANGED, "MUL_CONST {r1}, {r0}, 2.0", "MUL_CONST {r2}, {r1}, 2.0"),
        (CHANGED, "RETURN {r1}", "RETURN {r2}"),
    ]


def test_changed_operands_are_marked_one_by_one_and_a_shape_is_one() -> None:
    (pair,) = compare(_rows("LOAD_TENSOR r0, x, [64, 32]"), _rows("LOAD_TENSOR r0, x, [B, 32]"))
    assert (pair.mark, marked(pair.left), marked(pair.right)) == (CHANGED, "LOAD_TENSOR r0, x, {[64, 32]}", "LOAD_TENSOR r0, x, {[B, 32]}")
    (pair,) = compare(_rows("CALL_OP r0, sum, r1, axis=1"), _rows("CALL_OP r0, sum, r1, axis=1, keepdims=True"))
    assert marked(pair.right) == "CALL_OP r0, sum, r1, axis=1{, keepdims=True}"


def test_other_ops_are_not_paired() -> None:
    assert [mark for mark, _, _ in _shown(_rows("CALL_OP r0, tanh, r1"), _rows("CALL_OP r0, exp, r1"))] == [GONE, NEW]


LINES = st.lists(
    st.sampled_from(["A r0, 1", "A r1, 1", "A r0, 2", "B r0", "CALL_OP r0, exp, r1", "CALL_OP r0, sum, r1, axis=0", ""]), max_size=12
)


@given(LINES, LINES)
def test_each_instruction_stands_in_the_pairs_once_and_in_order(first: list[str], second: list[str]) -> None:
    left, right = _rows(*first), _rows(*second)
    pairs = compare(left, right)
    assert [(p.left_number, "".join(t for t, _ in p.left)) for p in pairs if p.left_number] == [(x.number, x.text) for x in left]
    assert [(p.right_number, "".join(t for t, _ in p.right)) for p in pairs if p.right_number] == [(x.number, x.text) for x in right]
    for pair in pairs:
        texts = "".join(t for t, _ in pair.left), "".join(t for t, _ in pair.right)
        assert (pair.mark == SAME) == (texts[0] == texts[1] and bool(pair.left_number) and bool(pair.right_number))
    assert compare(left, right) == pairs and all(pair.mark == SAME for pair in compare(left, left))


def act(x, b):
    return np.maximum(x * 2.0 + b, 0.0) * np.tanh(x)


def test_two_shapes_and_before_and_after_specialisation() -> None:
    spec = [TensorSpec("float32", [64, 32]), TensorSpec("float32", [32])]
    open_, fixed, wider = bcvm.lower(act), bcvm.lower(act, *spec), bcvm.lower(act, TensorSpec("float32", ["B", 32]), spec[1])
    shapes = [pair for pair in compare(listed(fixed), listed(wider)) if pair.mark != SAME]
    assert [marked(pair.left) for pair in shapes] == ["LOAD_TENSOR r0, x, {[64, 32]}"]
    assert [marked(pair.right) for pair in shapes] == ["LOAD_TENSOR r0, x, {[B, 32]}"]
    bound = [marked(pair.right) for pair in compare(listed(open_), listed(fixed)) if pair.mark == CHANGED]
    assert any(
        re.fullmatch(r"CALL_OP r\d+, tanh, (\{float32:contiguous:host, \}|\{?float32:contiguous:host.*)r0.*", text) for text in bound
    )
    assert not any(re.search(r"0x[0-9A-F]{4}", row.text) for row in listed(fixed))


def test_machine_code_is_compared_by_its_instructions() -> None:
    def block(*texts: str) -> Block:
        return Block("add.f32/0,1", "loop", "", None, tuple(Line(4 * n, "62", text, ()) for n, text in enumerate(texts)))

    pairs = compare(
        of_blocks([block("vaddps zmm0, zmm0, zmm4", "ret")]), of_blocks([block("vaddps zmm8, zmm8, zmm4", "vzeroupper", "ret")])
    )
    assert [pair.mark for pair in pairs] == [CHANGED, NEW, SAME]
    assert summary(pairs) == "1 the same, 1 changed, 1 only in the second"


def test_the_text_has_both_sides_and_long_instructions_on_several_lines() -> None:
    pairs = compare(_rows("A " + "x" * 100), _rows("B"))
    text = side_by_side(("before", "after"), pairs)
    assert text.count("x") == 100 and max(map(len, text.split("\n"))) < 90
    assert text.split("\n")[0].split() == ["before", "|", "after"]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "layers.py"
    path.write_text(
        "import numpy as np\ndef f(x):\n    return np.tanh(x) * 2.0\ndef g(x):\n    return np.tanh(x) * 3.0\n", encoding="utf-8"
    )
    assert cli.main(["diff", f"{path}:f", f"{path}:f"]) == 0
    assert "{" not in capsys.readouterr().out
    assert cli.main(["diff", f"{path}:f", f"{path}:g"]) == 1
    assert "MUL_CONST r2, r1, {2.0}" in (out := capsys.readouterr().out) and "MUL_CONST r2, r1, {3.0}" in out
    assert cli.main(["dis", f"{path}:f"]) == 0
    (tmp_path / "f.bc").write_text(capsys.readouterr().out, encoding="utf-8")
    assert cli.main(["diff", f"{path}:f", str(tmp_path / "f.bc")]) == 0
    assert cli.main(["diff", f"{path}:f", "--first-arg", "x=float32[8, 4]", "--second-arg", "x=float32[B, 4]"]) == 1
    assert "{[8, 4]}" in (out := capsys.readouterr().out) and "{[B, 4]}" in out
    assert cli.main(["diff", f"{path}:f", "nothing.bc"]) == 2
