"""Machine code of functions: stencil by stencil, each with its instruction, patches explained; with and without capstone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core import cli, machinecode
from bcvm_core.codegen import disassembly, loops
from bcvm_core.errors import LoweringError
from bcvm_core.jit import linker_of
from bcvm_core.tiers.fuse import RETRY_NS

pytest.importorskip("llvmlite")
needs_capstone = pytest.mark.skipif(disassembly.obstacle() != "", reason="no capstone: pip install 'bcvm[disasm]'")
X = np.ones((8, 40), np.float32)


@pytest.fixture(autouse=True, scope="module")
def _ready() -> None:
    if not bcvm.ready():
        pytest.skip("no stencils for this processor")


def _jitted(function: Callable[..., Any], *args: Any) -> Any:
    jitted = bcvm.jit(function)
    for _ in range(4):
        jitted(*args)
    return jitted


def _codes(function: Any) -> list[machinecode.MachineCode]:
    regions = machinecode.regions(linker_of(function).table.placeholders.values())
    return list(machinecode.codes(("f", region) for region in regions))


def _act() -> Any:
    def act(x, b):
        return np.maximum(x * 2.0 + b, 0.0) * np.tanh(x)

    return _jitted(act, X, X)


def _softmax() -> Any:
    def softmax(x):
        e = np.exp(x * 0.5 - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    jitted = _jitted(softmax, X)
    loops.wait()  # kernels over rows are compiled when they are asked for
    time.sleep(2e-9 * RETRY_NS)
    for _ in range(4):
        jitted(X)
    return jitted


def test_every_op_of_a_kernel_has_its_stencils() -> None:
    (code,) = _codes(_act())
    assert code.ops == ("multiply", "add", "maximum", "tanh", "multiply") and code.tier == 2
    blocks = code.blocks()
    for part in ("loop", "tail"):
        assert {block.pc for block in blocks if block.part == part} == set(code.pcs)
    by_op = {code.listed(block.pc): block.name.partition("/")[0] for block in blocks if block.pc is not None and block.part == "loop"}
    assert any("tanh" in text and name == "tanh.f32" for text, name in by_op.items())
    assert any(text.startswith("MAX_CONST") and name == "maxk.f32" for text, name in by_op.items())
    assert sum(len(re.findall(r"[0-9a-f.]{2}", line.code)) for block in blocks for line in block.lines) == code.size


def test_patches_are_marked_and_explained() -> None:
    (code,) = _codes(_act())
    lines = [line for block in code.blocks() for line in block.lines]
    assert all(("[" in line.code or "]" in line.code) == bool(line.notes) for line in lines)
    notes = " ".join(note for line in lines for note in line.notes)
    assert "constant 0: 2 (f32, 0x40000000)" in notes and "where the pointer of input 0 lies (r" in notes
    assert "shared constants +0x" in notes and "the loop, +0x" in notes
    shared = [line for line in lines if any("shared constants" in note for note in line.notes)]
    assert shared and all(".." in line.code for line in shared)


@needs_capstone
def test_instructions_are_told_apart() -> None:
    (code,) = _codes(_act())
    loop = [line for block in code.blocks() if block.name.startswith("add.f32") for line in block.lines]
    assert loop and {line.text.split()[0] for line in loop} == {"vaddps"}
    jump = next(
        line for block in code.blocks() if block.name == "loop_end" for line in block.lines if "the loop, +0x" in "".join(line.notes)
    )
    begin = next(block.lines[0].at for block in code.blocks() if block.part == "loop")
    assert int(jump.text.split()[1], 16) == begin


def test_without_capstone_there_are_bytes_and_a_line_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    function = _act()
    monkeypatch.setattr(disassembly, "_capstone", lambda: None)
    text = bcvm.machine_code(function)
    assert "pip install 'bcvm[disasm]'" in text
    (code,) = _codes(function)
    blocks = code.blocks()
    assert not any(line.text for block in blocks for line in block.lines)
    assert sum(len(re.findall(r"[0-9a-f.]{2}", line.code)) for block in blocks for line in block.lines) == code.size
    assert all(("[" in line.code or "]" in line.code) == bool(line.notes) for block in blocks for line in block.lines)


def test_the_text_is_bounded_and_says_what_is_left_out() -> None:
    function = _act()
    whole, part = bcvm.machine_code(function), bcvm.machine_code(function, limit=10)
    lines = len([line for block in _codes(function)[0].blocks() for line in block.lines])
    assert part.endswith(f"{lines - 10} more lines") and "more lines" not in whole
    assert len(re.findall(r"^      [0-9a-f]{4}  ", part, re.MULTILINE)) == 10


def test_the_same_kernel_gives_the_same_text() -> None:
    assert bcvm.machine_code(_act()).partition("\n")[2] == bcvm.machine_code(_act()).partition("\n")[2]


def test_chains_show_their_stages_and_what_was_compiled_whole() -> None:
    found = [code for code in _codes(_softmax()) if "sum" in code.ops and any(block.part == "whole" for block in code.blocks())]
    assert found
    code = found[-1]
    blocks = code.blocks()
    assert {block.name for block in blocks if block.part == "whole"} == {"row_max_float32", "row_sum_float32"}
    whole = [block for block in blocks if block.part == "whole"]
    assert all(block.pc is not None and block.name.split("_")[1] in code.listed(block.pc) for block in whole)
    assert {block.pc for block in blocks} - {None} == set(code.pcs)
    if not disassembly.obstacle():
        assert all(block.lines[-1].text.startswith("ret") for block in whole)


def test_other_shapes_of_repetition_are_other_code() -> None:
    function = _act()
    function(X, X[:, :1])
    assert [("repeated" in code.operands) for code in _codes(function)] == [False, True] or len(_codes(function)) == 2


def test_what_was_not_lowered_or_has_not_run() -> None:
    with pytest.raises(LoweringError, match="was not lowered"):
        bcvm.machine_code(len)
    assert "no fused kernel" in bcvm.machine_code(bcvm.jit(lambda x: x * 2 + 1))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "layers.py"
    path.write_text("import numpy as np\ndef act(x, n):\n    return np.maximum(x * 2.0 + x, 0.0)\n", encoding="utf-8")
    assert cli.main(["dis", "--machine", f"{path}:act", "--arg", "x=float32[8, 32]", "--arg", "n=1"]) == 0
    out = capsys.readouterr().out
    assert "multiply, add, maximum (act, line 3), tier 2" in out and "maxk.f32" in out
    assert cli.main(["dis", "--machine", f"{path}:act"]) == 2
    assert "give --arg NAME=SPEC" in capsys.readouterr().err
    assert cli.main(["dis", "--machine", str(path)]) == 2
