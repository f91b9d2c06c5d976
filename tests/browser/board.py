"""A dashboard on a page of JupyterLab: what the browser tests of its views share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

DEFINE = """
import numpy as np
import bcvm_core as bcvm
import bcvm_widgets
assert bcvm.ready()

def attention(q, k, v, scale):
    scores = (q @ k.T) * scale
    scores = scores - scores.max(axis=1, keepdims=True)
    weights = np.exp(scores)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return np.maximum(weights @ v, 0)

def step(state, w):
    h = np.tanh(state @ w) * 0.5 + state
    if h.max() > 2:
        h = h / h.max()
    return attention(h, h, h, 0.125)
"""
SHOW = "board = bcvm_widgets.dashboard()\nboard"
LONG = """
state = np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32)
w = np.ones((32, 32), np.float32) / 32
best = 0.0
import time
until = time.time() + {seconds}
rounds = 0
while time.time() < until:
    state = step(state, w) + 0.01
    best = max(best, float(np.abs(state).mean()))
    rounds += 1
print("rounds", rounds)
"""


def write(lab: Any, name: str, *cells: str) -> None:
    """A notebook of these code cells in the lab's folder."""
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "bcvm", "display_name": "BCVM", "language": "python"}})
    notebook.cells = [nbformat.v4.new_code_cell(text.strip()) for text in cells]
    nbformat.write(notebook, lab.folder / name)


class Board:
    """The dashboard of a page, and the cell that is busy meanwhile."""

    def __init__(self, page: Any) -> None:
        self.lab, self.page = page, page.page
        self.root = self.page.locator(".bcvm-dashboard")

    def runs(self) -> int:
        """The highest number of executions on show."""
        texts = self.root.locator("td.bcvm-runs").all_text_contents()
        return max((int(text.replace(",", "")) for text in texts if text), default=0)

    def state(self) -> str:
        return str(self.root.get_attribute("data-state"))

    def button(self, name: str) -> Any:
        return self.root.get_by_role("button", name=name)

    def wait_for_more(self, than: int) -> int:
        self.lab.wait(lambda: self.runs() > than, f"more than {than} runs", 20)
        return self.runs()

    def busy(self) -> bool:
        return bool(self.lab.cells()[2]["execution_count"] is None or self.lab.kernel_state()[1] == "busy")


def select_and_run(page: Any, first: int, last: int) -> None:
    """Run cells one after the other without waiting for the last."""
    for index in range(first, last + 1):
        page.page.evaluate(
            """n => { const notebook = window.jupyterapp.shell.currentWidget.content;
                      notebook.deselectAll();
                      notebook.activeCellIndex = n;
                      void window.jupyterapp.commands.execute('notebook:run-cell'); }""",  # void: its promise lasts as long as the cell
            index,
        )
        if index < last:
            page.wait(lambda n=index: page.cells()[n]["execution_count"] is not None and page.kernel_state()[1] == "idle", f"cell {index}")


def opened(open_notebook: Any, lab: Any, name: str, busy: str, tab: str, define: str = DEFINE) -> tuple[Any, Board]:
    """(page, board) of a notebook with a cell that is busy, at one of the views."""
    write(lab, name, define, SHOW, busy)
    page = open_notebook(name)
    board = Board(page)
    select_and_run(page, 0, 2)
    board.root.wait_for(timeout=20_000)
    board.wait_for_more(0)
    board.root.get_by_role("tab", name=tab).click()
    return page, board


def in_both_themes(page: Any, take: Callable[[str], None]) -> None:
    """`take` with the name of each theme while it is on; the light one afterwards."""
    for theme in ("light", "dark"):
        page.command("apputils:change-theme", theme=f"JupyterLab {theme.title()}")
        page.page.wait_for_timeout(700)
        take(theme)
    page.command("apputils:change-theme", theme="JupyterLab Light")
