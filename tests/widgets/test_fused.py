"""Fused kernels in what is shown: the ops of one kernel carry its mark, and the first of them its time."""

from __future__ import annotations

from typing import Any

import pytest

import bcvm_core as bcvm
from bcvm_core.tiers import recompile
from bcvm_core.tiers.clock import clock
from bcvm_core.watch import Watch
from bcvm_widgets.reports import Report
from bcvm_widgets.sampling import Sampler

from .conftest import Notebook

pytestmark = pytest.mark.fused
FUNCTION = """
import numpy as np

def act(x):
    y = np.maximum(x * 2.0, 0.0) + 1.0
    return y.cumsum(axis=1)
"""
CELL = """
x = np.ones((4, 8), np.float32)
for _ in range(6):
    s = act(x)
"""


@pytest.fixture(autouse=True)
def _ready() -> None:
    assert bcvm.ready()


def _rows(notebook: Notebook) -> list[tuple[str, Any, Any]]:
    """Of each op: its name, choice, and figures."""
    sample = Sampler(Watch(notebook.session)).sample()
    unit = next(u for u in sample.listing["units"] if u["kind"] == "function")
    chosen = sample.choices["units"][unit["key"]]["instructions"]
    columns = sample.figures["units"][unit["key"]]["instructions"]
    figures = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [(i["op"], c, f) for i, c, f in zip(unit["instructions"], chosen, figures, strict=True) if i["op"]]


def _choices(notebook: Notebook) -> dict[str, Any]:
    return {op: (choice, figures) for op, choice, figures in _rows(notebook)}


def test_ops_of_one_kernel_are_marked_as_fused(notebook: Notebook) -> None:
    notebook.run(FUNCTION)
    notebook.run(CELL)
    found = _choices(notebook)
    assert {op: choice["tier"] for op, (choice, _) in found.items()} == {
        "multiply": "fused", "maximum": "fused", "add": "fused", "cumsum": "selected",
    }  # fmt: skip
    assert found["maximum"][0]["signature"] == "one kernel for multiply, maximum, add"


def test_a_clock_measures_the_kernel_and_not_its_ops(notebook: Notebook) -> None:
    notebook.run(FUNCTION)
    clock.start()
    try:
        notebook.run(CELL)
        found = _choices(notebook)
    finally:
        clock.stop()
    assert found["maximum"][0]["tier"] == "fused"
    assert found["multiply"][1]["total_us"] > 0
    assert not found["maximum"][1]["total_us"]
    assert not found["add"][1]["total_us"]
    assert found["cumsum"][1]["total_us"] > 0


def test_runs_are_counted_by_machine_code_too(notebook: Notebook) -> None:
    notebook.run(FUNCTION)
    notebook.run(CELL)
    assert [figures["runs"] for _, figures in _choices(notebook).values()] == [6, 6, 6, 6]


def test_the_report_shows_them(notebook: Notebook) -> None:
    notebook.run(FUNCTION)
    notebook.run(CELL)
    report = Report(Sampler(Watch(notebook.session)).sample(), times=False)
    timed = str(Report(report.sample, times=True)).split("\n")
    first = next(line for line in timed if "multiply," in line or "MUL_CONST" in line)
    assert next(line for line in timed if "MAX_CONST" in line or "maximum," in line).split()[-2:] == [first.split()[1], "fused"]
    assert "# fused kernel" in str(report)
    line = next(line for line in str(report).split("\n") if "maximum," in line or "MAX_CONST" in line)
    assert line.strip().startswith("#")
    assert line.endswith("fused")
    assert "◆" in report.html()


MIXED = """
import numpy as np

def act(x):
    y = np.maximum(x * 2.0, 0.0) + 1.0
    z = np.exp({of_x} * 2.0 - 1.0)
    return y, z
"""
RUN = "x = np.ones((4, 8), np.float32)\nfor _ in range(6):\n    s = act(x)\n"


def tiers_of_lines(notebook: Notebook) -> list[str]:
    """Of both lines with tensor work."""
    sample = Sampler(Watch(notebook.session)).sample()
    unit = next(u for u in sample.listing["units"] if u["kind"] == "function")
    return [line["tier"] for line in sample.choices["units"][unit["key"]]["lines"][1:3]]


def test_a_line_is_no_better_than_the_plainest_of_its_kernels(notebook: Notebook) -> None:
    notebook.run(MIXED.format(of_x="np.sort(x, axis=1)"))
    notebook.run(RUN)
    assert bcvm.ready()
    notebook.run(RUN)
    assert tiers_of_lines(notebook) == ["fused", "selected"]


def test_lines_that_have_nothing_to_do_with_each_other_are_fused_each_by_itself(notebook: Notebook) -> None:
    notebook.run(MIXED.format(of_x="x.sum(axis=1)"))
    notebook.run(RUN)
    assert bcvm.ready()
    notebook.run(RUN)
    assert tiers_of_lines(notebook) == ["fused", "fused"]


def test_measured_they_are_fused_each_by_itself_too(notebook: Notebook) -> None:
    notebook.run(MIXED.format(of_x="x.sum(axis=1)"))
    notebook.run(RUN)
    assert bcvm.ready()
    clock.start()
    try:
        notebook.run(RUN)
        timed = [op for op, _, figures in _rows(notebook) if figures["total_us"]]
    finally:
        clock.stop()
    assert tiers_of_lines(notebook) == ["fused", "fused"]
    assert timed == ["multiply", "sum"], "the first op of each kernel has its time"


def test_a_kernel_that_was_recompiled_has_a_mark_of_its_own(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    monkeypatch.setattr("bcvm_core.tiers.race.ENOUGH", 10.0)
    notebook.run(FUNCTION.replace(".cumsum(axis=1)", ""))
    with bcvm.override(hot_threshold_ms=0.0):
        for _ in range(20):
            notebook.run("x = np.ones((64, 512), np.float32)\nfor _ in range(60):\n    s = act(x)\n")
            assert recompile.wait()
            if _choices(notebook)["maximum"][0]["tier"] == "recompiled":
                break
    found = _choices(notebook)
    assert {op: choice["tier"] for op, (choice, _) in found.items()} == {
        "multiply": "recompiled", "maximum": "recompiled", "add": "recompiled",
    }  # fmt: skip
    report = Report(Sampler(Watch(notebook.session)).sample(), times=False)
    assert "^ fused kernel that was hot" in str(report) and "★" in report.html()
