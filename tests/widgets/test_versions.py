"""Versions of what is watched: which there are, two of them side by side as message, text and HTML, bounded and the same every time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import bcvm_core as bcvm
import bcvm_widgets
from bcvm_core.errors import BcvmError
from bcvm_core.tiers import recompile
from bcvm_core.watch import Watch
from bcvm_widgets import protocol, versions
from bcvm_widgets.reports import make
from bcvm_widgets.sampling import Sampler

from .conftest import Notebook
from .test_protocol import conforms

FUNCTION = """
import numpy as np

def act(x):
    y = np.maximum(x * 2.0, 0.0) + 1.0
    return np.tanh(y) * y

def other(x):
    return np.maximum(x * 3.0, 0.0) - 1.0
"""


def _sampler(notebook: Notebook, *shapes: str) -> Sampler:
    notebook.run(FUNCTION)
    found = Sampler(Watch(notebook.session))
    for shape in shapes:
        notebook.run(f"x = np.ones({shape}, np.float32)\nfor _ in range(5):\n    s = act(x) + other(x)\n")
        found.sample()
    return found


def _marks(diff: Any) -> dict[str, list[str]]:
    def side(parts: Any) -> str:
        return "".join(f"{{{p['text']}}}" if p["changed"] else p["text"] for p in parts)

    return {mark: [f"{side(r['left'])} | {side(r['right'])}" for r in diff["rows"] if r["mark"] == mark] for mark in "=~-+"}


def test_before_and_after_specialisation(notebook: Notebook) -> None:
    sampler = _sampler(notebook, "(4, 8)")
    diff = sampler.diff("function act", "", "")
    conforms(diff, protocol.Diff)
    assert json.loads(json.dumps(diff)) == diff
    assert (diff["left"], diff["right"]) == ("act, before specialisation", "act: x[4, 8]")
    found = _marks(diff)
    assert "LOAD_TENSOR r0, x, {[...]} | LOAD_TENSOR r0, x, {[4, 8]}" in found["~"]
    assert any("tanh, {float32:contiguous:host, }r" in row for row in found["~"]) and not found["-"] and not found["+"]


def test_two_shapes(notebook: Notebook) -> None:
    sampler = _sampler(notebook, "(4, 8)", "(6, 8)")
    names = sampler.diff("function act", "", "")["versions"]
    assert [name for name in names if name.startswith("act")][1].startswith("act, earlier (1): x[4, 8]")
    diff = sampler.diff("function act", "act, earlier (1): x[4, 8]", next(n for n in names if n.startswith("act: x[")))
    assert diff["right"] != "act: x[4, 8]" and len(_marks(diff)["~"]) == 1 and "{[4, 8]}" in _marks(diff)["~"][0]


def test_two_functions_and_two_cells(notebook: Notebook) -> None:
    sampler = _sampler(notebook, "(4, 8)", "(4, 8)[::2] * 2")
    names = sampler.diff("cell", "", "")["versions"]
    one, other = (next(n for n in names if n.startswith(f"{f}: x")) for f in ("act", "other"))
    diff = sampler.diff("cell", one, other)
    assert any("{2.0}" in row and "{3.0}" in row for row in _marks(diff)["~"]) and any("tanh" in row for row in _marks(diff)["-"])
    cells = [name for name in names if name.startswith("cell")]
    assert len(cells) == 2 and sampler.diff("cell", *cells)["rows"]


@pytest.mark.fused
def test_tiers_are_compared_by_their_machine_code(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("capstone", reason="machine code is bytes without the extra `disasm`")
    if not bcvm.ready():
        pytest.skip("no stencils for this processor")
    monkeypatch.setattr("bcvm_core.tiers.race.ENOUGH", 10.0)
    sampler = _sampler(notebook, "(64, 512)")

    def of(tier: int) -> str | None:
        names = sampler.diff("function other", "", "")["versions"]
        return next((n for n in names if n.startswith("machine code: multiply, maximum, subtract") and f"tier {tier}" in n), None)

    with bcvm.override(hot_threshold_ms=0.0):
        notebook.run("bigger = np.ones((64, 513), np.float64)\nfor _ in range(60):\n    other(bigger)")
        for _ in range(20):
            if of(3):
                break
            notebook.run("for _ in range(60):\n    s = other(bigger)\n")
            assert recompile.wait()
    second, third = of(2), of(3)
    assert second and third
    diff = sampler.diff("function other", second, third)
    assert {row["mark"] for row in diff["rows"]} >= {"-", "+"} and diff["summary"].endswith("only in the second")


def test_a_message_is_bounded(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = _sampler(notebook, "(4, 8)")
    whole = sampler.diff("function act", "", "")
    monkeypatch.setattr(versions, "ROWS", 3)
    diff = sampler.diff("function act", "", "")
    assert (len(diff["rows"]), diff["left_out"], diff["summary"]) == (3, len(whole["rows"]) - 3, whole["summary"])
    assert f"{diff['left_out']} more rows are not shown" in versions.text(diff)
    monkeypatch.setattr(versions, "KEPT", 2)
    for n in range(5):
        notebook.run(f"y = np.ones(3) * {n}\nz = act(np.ones((2, {n + 3}), np.float32))")
        sampler.sample()
    assert len([name for name in sampler.diff("cell", "", "")["versions"] if "earlier" in name]) <= 2


def test_the_report_has_two_versions_when_asked_for(new_notebook: Callable[[], Notebook]) -> None:
    shown = []
    for _ in range(2):
        sampler = _sampler(new_notebook(), "(4, 8)")
        report = make(sampler, times=False, machine=False, diff=("act, before specialisation", "act: x[4, 8]"))
        shown.append((str(report), report.html()))
    assert shown[0] == shown[1]
    assert "  ~     0 LOAD_TENSOR r0, x, {[...]}" in shown[0][0] and "{[4, 8]}" in shown[0][0]
    assert "<b>{[4, 8]}</b>" in shown[0][1] and " changed</p>" in shown[0][1]
    with pytest.raises(BcvmError, match="there is no version 'act of old'"):
        make(sampler, times=False, machine=False, diff=("act of old", "act"))


def test_nothing_to_compare(notebook: Notebook) -> None:
    assert Sampler(Watch(notebook.session)).diff("cell", "", "") == protocol.empty_diff()
    with pytest.raises(BcvmError, match="none yet"):
        bcvm_widgets.report(diff=("a", "b"))


@pytest.mark.parametrize(
    ("content", "fits"),
    [
        ({"version": protocol.VERSION, "command": "compare", "view": "a", "unit": "cell", "left": "", "right": "b", "later": 1}, True),
        ({"version": protocol.VERSION, "command": "compare", "view": "a", "unit": "cell", "left": ""}, False),
        ({"version": protocol.VERSION, "command": "compare", "view": "a", "unit": "cell", "left": 1, "right": "b"}, False),
        ({"version": protocol.VERSION + 1, "command": "compare", "view": "a", "unit": "cell", "left": "", "right": ""}, False),
        (["compare"], False),
    ],
)
def test_comparisons_are_told_from_anything_else(content: Any, fits: bool) -> None:
    assert protocol.is_comparison(content) is fits and not protocol.is_command(content)
