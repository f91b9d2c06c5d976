"""Machine code in what is shown: each stencil with its instruction, chosen by kernel or instruction, bounded, in text and HTML."""

from __future__ import annotations

import json
from typing import Any

import pytest

import bcvm_core as bcvm
from bcvm_core.watch import Watch
from bcvm_widgets import machine, protocol
from bcvm_widgets.reports import Report
from bcvm_widgets.sampling import Sampler

from .conftest import Notebook
from .test_protocol import conforms

pytestmark = pytest.mark.fused
FUNCTION = """
import numpy as np

def act(x):
    y = np.maximum(x * 2.0, 0.0) + 1.0
    z = y.cumsum(axis=1)
    return np.tanh(z) * z
"""
CELL = "x = np.ones((4, 8), np.float32)\nfor _ in range(6):\n    s = act(x)\n"


@pytest.fixture
def sampler(notebook: Notebook) -> Sampler:
    if not bcvm.ready():
        pytest.skip("no stencils for this processor")
    notebook.run(FUNCTION)
    notebook.run(CELL)
    found = Sampler(Watch(notebook.session))
    found.sample()
    return found


def _instructions(sampler: Sampler) -> list[Any]:
    return next(u for u in sampler.sample().listing["units"] if u["key"] == "function act")["instructions"]


def test_blocks_point_at_the_instructions_of_the_unit(sampler: Sampler) -> None:
    code = sampler.code("function act", 0, -1)
    conforms(code, protocol.Code)
    assert json.loads(json.dumps(code)) == code
    listed = _instructions(sampler)
    ops = {
        block["name"].partition(".")[0]: listed[block["instruction"]]["op"] for block in code["blocks"] if block["instruction"] is not None
    }
    assert (ops["mulk"], ops["maxk"], ops["addk"]) == ("multiply", "maximum", "add")
    assert (
        len(code["kernels"]) == 2
        and code["chosen"] == 0
        and ["(act, line 4)" in code["kernels"][0], "(act, line 6)" in code["kernels"][1]] == [True, True]
    )
    assert sum(len(line["code"].replace("[", "").replace("]", "").split()) for b in code["blocks"] for line in b["lines"]) == code["size"]


def test_an_instruction_chooses_its_kernel(sampler: Sampler) -> None:
    listed = _instructions(sampler)
    for op, chosen in (("maximum", 0), ("tanh", 1)):
        at = next(n for n, i in enumerate(listed) if i["op"] == op)
        assert sampler.code("function act", -1, at)["chosen"] == chosen
    assert sampler.code("function act", 99, -1)["chosen"] == 0
    assert sampler.code("nothing of that name", 0, 0) == protocol.empty_code()


def test_a_message_is_bounded(sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sampler.code("function act", 1, -1)
    lines = sum(len(block["lines"]) for block in whole["blocks"])
    monkeypatch.setattr(machine, "LINES", 12)
    code = sampler.code("function act", 1, -1)
    assert (sum(len(block["lines"]) for block in code["blocks"]), code["left_out"]) == (12, lines - 12)
    assert machine.text(code).endswith(f"{lines - 12} more lines")
    assert len(json.dumps(whole)) < 200_000


def test_the_report_has_it_when_asked_for(sampler: Sampler) -> None:
    sample = sampler.sample()
    report = Report(sample, machine=sampler.machine())
    assert "machine code of multiply, maximum, add (act, line 4), tier 2" in str(report) and "maxk.f32" in str(report)
    assert report.html().count("<details>") == 2 and "<script" not in report.html()
    assert "machine code" not in str(Report(sample)) and str(report) == str(Report(sample, machine=sampler.machine()))


@pytest.mark.parametrize(
    ("content", "fits"),
    [
        ({"version": protocol.VERSION, "command": "code", "view": "a", "unit": "cell", "kernel": -1, "instruction": 3, "later": 1}, True),
        ({"version": protocol.VERSION, "command": "code", "view": "a", "unit": "cell", "kernel": -1}, False),
        ({"version": protocol.VERSION, "command": "code", "view": "a", "unit": "cell", "kernel": "0", "instruction": 3}, False),
        ({"version": protocol.VERSION + 1, "command": "code", "view": "a", "unit": "cell", "kernel": 0, "instruction": 3}, False),
        ("code", False),
    ],
)
def test_requests_are_told_from_anything_else(content: Any, fits: bool) -> None:
    assert protocol.is_request(content) is fits and not protocol.is_command(content)
