"""`%bcvm watch`: a dashboard beside the notebook, in JupyterLab as a whole and with one document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DEFINE = """
import time
import numpy as np
import bcvm_core as bcvm
assert bcvm.ready()

def step(state, w):
    h = np.tanh(state @ w) * 0.5 + state
    return np.exp(h - h.max(axis=1, keepdims=True))

state, w = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32) / 32
"""
WORK = "until = time.time() + 3\nwhile time.time() < until:\n    state = step(state, w)"
CELLS = (DEFINE, "%bcvm watch", WORK, "%bcvm watch off")


def _run(page: Any, n: int, *, wait: bool = True) -> None:
    page.page.evaluate(
        """n => { const notebook = window.jupyterapp.shell.currentWidget.content;
                  notebook.deselectAll();
                  notebook.activeCellIndex = n;
                  void window.jupyterapp.commands.execute('notebook:run-cell'); }""",
        n,
    )
    if wait:
        page.wait(lambda: page.cells()[n]["execution_count"] is not None and page.kernel_state()[1] == "idle", f"cell {n}")


def _runs(root: Any) -> int:
    texts = root.locator("td.bcvm-runs").all_text_contents()
    return max((int(text.replace(",", "")) for text in texts if text), default=0)


def _write(lab: Any) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "bcvm", "display_name": "BCVM", "language": "python"}})
    notebook.cells = [nbformat.v4.new_code_cell(text.strip()) for text in CELLS]
    nbformat.write(notebook, lab.folder / "dock.ipynb")


@pytest.mark.parametrize("sidebar", [True, False])
def test_it_is_docked_live_and_closed_again(open_notebook: Any, lab: Any, pictures: Path, sidebar: bool) -> None:
    _write(lab)
    page = open_notebook("dock.ipynb", sidebar=sidebar)
    page.page.set_viewport_size({"width": 1400, "height": 800})
    _run(page, 0)
    _run(page, 1)
    dock = page.page.locator("aside.bcvm-dock")
    dock.wait_for(timeout=20_000)
    shell, panel = page.page.locator("#main"), dock
    _beside(page, shell, panel)
    assert page.page.locator(".jp-OutputArea-output", has_text="docked beside the notebook").count() == 1

    _run(page, 2, wait=False)
    page.wait(lambda: _runs(dock) > 0, "the runs", 20)
    first = _runs(dock)
    page.wait(lambda: _runs(dock) > first, "more runs", 10)
    page.wait(lambda: page.kernel_state()[1] == "idle", "the end of the cell", 20)
    for theme in ("light", "dark"):
        page.command("apputils:change-theme", theme=f"JupyterLab {theme.title()}")
        page.page.wait_for_timeout(700)
        page.page.screenshot(path=pictures / f"dock_{'lab' if sidebar else 'doc'}_{theme}.png")
    before = panel.bounding_box()["width"]
    dock.get_by_role("separator").focus()
    page.page.keyboard.press("ArrowRight")
    assert panel.bounding_box()["width"] == before - 40
    _beside(page, shell, panel)
    page.page.set_viewport_size({"width": 1100, "height": 800})
    _beside(page, shell, panel)

    dock.get_by_role("button", name="Into the notebook").click()
    assert dock.count() == 0 and page.page.locator(".jp-OutputArea-output .bcvm-dashboard").count() == 1
    assert shell.bounding_box()["width"] == 1100
    page.page.get_by_role("button", name="Dock it beside the notebook").click()
    assert dock.count() == 1
    _run(page, 3)
    page.wait(lambda: dock.count() == 0, "the end", 10)
    page.wait(lambda: shell.bounding_box()["width"] == 1100, "the room", 5)
    assert page.foreign == []


def test_without_room_it_says_so_and_is_shown_in_the_cell(open_notebook: Any, lab: Any) -> None:
    _write(lab)
    page = open_notebook("dock.ipynb", sidebar=False)
    page.page.evaluate("() => { document.getElementById('main').id = 'other'; }")  # a front end of another kind
    _run(page, 0)
    _run(page, 1)
    output = page.page.locator(".jp-OutputArea-output", has_text="There is no room beside the notebook in this front end")
    output.wait_for(timeout=20_000)
    assert output.locator(".bcvm-dashboard").count() == 1 and page.page.locator("aside.bcvm-dock").count() == 0
    assert output.get_by_role("button", name="Dock it beside the notebook").count() == 0


def _beside(page: Any, shell: Any, panel: Any) -> None:
    """The notebook and the panel share the window, and the notebook has laid itself out in its part."""
    page.page.wait_for_timeout(300)
    one, two = shell.bounding_box(), panel.bounding_box()
    width = page.page.viewport_size["width"]
    assert abs(one["x"] + one["width"] - two["x"]) <= 1 and abs(two["x"] + two["width"] - width) <= 1
    notebook = page.page.locator(".jp-NotebookPanel").first.bounding_box()
    assert notebook["width"] > 150 and notebook["x"] + notebook["width"] <= two["x"] + 1
