"""Recorded runs: saved by the dashboard's button, shown again in a notebook, and as a page that opens offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bcvm_core import cli

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DEFINE = """
import time
import numpy as np
import bcvm_core as bcvm
import bcvm_widgets
assert bcvm.ready()

def step(state, w):
    h = np.tanh(state @ w) * 0.5 + state
    if h.max() > 2:
        h = h / h.max()
    return np.exp(h - h.max(axis=1, keepdims=True))

state, w = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32) / 32
"""
SHOW = "board = bcvm_widgets.dashboard()\nboard"
WORK = "until = time.time() + 3\nwhile time.time() < until:\n    state = step(state, w)"
AGAIN = 'bcvm_widgets.replay("run-1.json")'


def _runs(root: Any) -> int:
    texts = root.locator("td.bcvm-runs").all_text_contents()
    return max((int(text.replace(",", "")) for text in texts if text), default=0)


def _run(page: Any, n: int) -> None:
    page.page.evaluate(
        """n => { const notebook = window.jupyterapp.shell.currentWidget.content;
                  notebook.deselectAll();
                  notebook.activeCellIndex = n;
                  void window.jupyterapp.commands.execute('notebook:run-cell'); }""",
        n,
    )
    page.wait(lambda: page.cells()[n]["execution_count"] is not None and page.kernel_state()[1] == "idle", f"cell {n}")


def _write(lab: Any) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "bcvm", "display_name": "BCVM", "language": "python"}})
    notebook.cells = [nbformat.v4.new_code_cell(text.strip()) for text in (DEFINE, SHOW, WORK, AGAIN)]
    nbformat.write(notebook, lab.folder / "replay.ipynb")


def _seek(slider: Any, value: str) -> None:
    slider.evaluate("(e, value) => { e.value = value; e.dispatchEvent(new Event('input', {bubbles: true})); }", value)


def test_a_run_is_saved_and_shown_again(open_notebook: Any, lab: Any, browser: Any, pictures: Path, tmp_path: Path) -> None:
    _write(lab)
    page = open_notebook("replay.ipynb")
    for n in (0, 1):
        _run(page, n)
    board = page.page.locator(".bcvm-dashboard")
    board.wait_for(timeout=20_000)
    _run(page, 2)
    board.get_by_role("button", name="Save").click()
    said = board.locator(".bcvm-said")
    page.wait(lambda: said.text_content() == "saved as run-1.json", "the answer", 10)
    assert (lab.folder / "run-1.json").stat().st_size < 4_100_000

    _run(page, 3)
    replay = page.page.locator(".bcvm-player")
    replay.wait_for(timeout=20_000)
    again = page.page.locator(".bcvm-dashboard").nth(1)
    slider = replay.get_by_role("slider", name="Time")
    end = _runs(again)
    assert end == _runs(board.first) > 10
    assert again.get_by_role("button", name="Stop").count() == 0
    _seek(slider, "0")
    page.wait(lambda: _runs(again) < end, "the beginning", 5)
    assert "0.0 s of" in str(slider.get_attribute("aria-valuetext"))
    replay.get_by_label("Speed").select_option(label="8×")
    replay.get_by_role("button", name="Play").click()
    page.wait(lambda: _runs(again) == end, "the end", 15)
    page.wait(lambda: replay.get_by_role("button", name="Play").count() == 1, "the button", 5)
    _seek(slider, str(int(int(str(slider.get_attribute("max"))) * 0.6)))
    for theme in ("light", "dark"):
        page.command("apputils:change-theme", theme=f"JupyterLab {theme.title()}")
        page.page.wait_for_timeout(700)
        page.page.locator(".jp-OutputArea-output", has=replay).screenshot(path=pictures / f"replay_{theme}.png")
    assert page.foreign == []
    _check_page(browser, lab.folder / "run-1.json", end, pictures, tmp_path)


def _check_page(browser: Any, run: Path, end: int, pictures: Path, folder: Path) -> None:
    """The same run as a file, in a browser that has no network."""
    assert cli.main(["report", str(run), "-o", str(folder / "report.html")]) == 0
    for theme in ("light", "dark"):
        context = browser.new_context(offline=True, color_scheme=theme, viewport={"width": 1280, "height": 1100})
        page, asked, faults = context.new_page(), [], []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.on("pageerror", lambda error, faults=faults: faults.append(str(error)))
        page.on("console", lambda message, faults=faults: message.type == "error" and faults.append(message.text))
        page.goto((folder / "report.html").as_uri())
        board = page.locator(".bcvm-dashboard")
        board.wait_for(timeout=10_000)
        assert _runs(board) == end
        _seek(page.get_by_role("slider", name="Time"), "0")
        assert _runs(board) < end
        _seek(page.get_by_role("slider", name="Time"), "999999")
        assert _runs(board) == end
        for name in ("Tier latencies", "Fusion splits", "Bytecode"):
            board.get_by_role("tab", name=name, exact=True).click()
        assert "tier 1, select" in str(page.locator(".tables").text_content())
        assert (
            page.evaluate("() => getComputedStyle(document.body).backgroundColor")
            == {
                "light": "rgb(255, 255, 255)",
                "dark": "rgb(17, 17, 17)",
            }[theme]
        )
        page.screenshot(path=pictures / f"report_page_{theme}.png")
        assert faults == [] and [url for url in asked if not url.startswith("file:")] == []
        context.close()
