"""The first notebook in JupyterLab: it runs on the kernel `bcvm` without an error, and looks right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NOTEBOOK = "01_first_cells.ipynb"
MEANT_TO_FAIL = "raises-exception"


@pytest.fixture(scope="module")
def pictures(repository: Path) -> Path:
    """Where screenshots go, for a person to look at."""
    folder = repository / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_the_first_notebook_runs_and_is_shown_in_both_themes(open_notebook: Any, pictures: Path) -> None:
    lab = open_notebook(NOTEBOOK)
    assert lab.kernel_state()[0] == "bcvm"
    lab.command("editmenu:clear-all")
    lab.run_all()
    _assert_no_errors(lab)
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.command("apputils:change-theme", theme=theme)
        lab.page.wait_for_timeout(1000)
        word = theme.split()[1].lower()
        _scroll_to(lab, 0)
        lab.page.screenshot(path=pictures / f"01_first_cells_{word}_top.png")
        _scroll_to(lab, 12)
        lab.page.screenshot(path=pictures / f"01_first_cells_{word}_middle.png")
        _scroll_to(lab, len(lab.page.query_selector_all(".jp-Cell")) - 12)
        lab.page.screenshot(path=pictures / f"01_first_cells_{word}_end.png")
    assert lab.foreign == []


def test_the_notice_is_shown_and_takes_itself_back(open_notebook: Any, lab: Any, pictures: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    eager = "from bcvm_kernel import notices\nnotices.THRESHOLD_US, notices.SHOWN_S = 0.0, 4.0"
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "bcvm", "display_name": "BCVM", "language": "python"}})
    notebook.cells = [nbformat.v4.new_code_cell(eager), nbformat.v4.new_code_cell("import numpy as np\nnp.ones(3) * 2 + 1")]
    nbformat.write(notebook, lab.folder / "notice.ipynb")
    page = open_notebook("notice.ipynb")
    page.run_all()
    shown = page.page.locator(".jp-OutputArea-output", has_text="done for the first time")
    shown.wait_for(timeout=10_000)
    page.page.screenshot(path=pictures / "notice.png")
    page.wait(lambda: shown.count() == 0, "the notice's end", 20)
    assert [o["data"] for o in page.cells()[0]["outputs"]] == [{}]


def _assert_no_errors(lab: Any) -> None:
    cells = lab.cells()
    assert all(cell["execution_count"] for cell in cells)
    for cell in cells:
        errors = [o["ename"] for o in cell["outputs"] if o["output_type"] == "error"]
        assert bool(errors) == (MEANT_TO_FAIL in cell["metadata"].get("tags", [])), (cell["source"], errors)


def _scroll_to(lab: Any, index: int) -> None:
    lab.page.evaluate(
        """async index => { const notebook = window.jupyterapp.shell.currentWidget.content;
                           notebook.activeCellIndex = index; await notebook.scrollToItem(index, 'start'); }""",
        index,
    )
    lab.page.wait_for_timeout(700)
