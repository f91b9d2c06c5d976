"""The notebooks in JupyterLab: they run on the kernel `bcvm` without an error, from this host alone, and look right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MEANT_TO_FAIL = "raises-exception"
BUSY_CELL = "for request in requests:"


def test_the_first_notebook_runs_and_is_shown_in_both_themes(open_notebook: Any, pictures: Path) -> None:
    lab = open_notebook("01_first_cells.ipynb")
    assert lab.kernel_state()[0] == "bcvm"
    lab.command("editmenu:clear-all")
    lab.run_all()
    _assert_no_errors(lab)
    _pictures(lab, pictures, "01_first_cells", 9)
    assert lab.foreign == []


def test_the_tour_runs_and_its_dashboard_is_live_during_the_stream(open_notebook: Any, pictures: Path) -> None:
    lab = open_notebook("02_tour.ipynb")
    lab.command("editmenu:clear-all")
    sources = [cell["source"] for cell in lab.all_cells()]
    stream = next(n for n, source in enumerate(sources) if BUSY_CELL in source)
    _activate(lab, stream)
    lab.command("notebook:run-all-above")
    lab.wait(lambda: _ran(lab, stream - 2) and lab.kernel_state()[1] == "idle", "the cells above the stream")
    lab.page.locator(".bcvm-dashboard").wait_for(timeout=20_000)

    _activate(lab, stream)  # again: the dashboard has its height now
    lab.start("notebook:run-cell")
    counts: list[int] = []
    lab.wait(lambda: _count_runs(lab, stream, counts), "the dashboard to move", 20)
    assert not _ran(lab, stream)
    lab.page.evaluate("() => document.querySelector('.bcvm-dashboard').scrollIntoView()")
    lab.page.get_by_role("tab", name="classify()").click()
    lab.page.screenshot(path=pictures / "02_tour_live.png")
    lab.wait(lambda: _ran(lab, stream), "the end of the stream")

    _activate(lab, stream + 1)
    lab.command("notebook:run-all-below")  # this cell, too
    lab.wait(lambda: _ran(lab, len(sources) - 1) and lab.kernel_state()[1] == "idle", "the cells below the stream")
    _assert_no_errors(lab)
    _pictures(lab, pictures, "02_tour", 8)
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


def _ran(lab: Any, index: int) -> bool:
    """Whether the last code cell up to `index` is over."""
    cells = [cell for cell in lab.all_cells()[: index + 1] if cell["cell_type"] == "code"]
    return cells[-1]["execution_count"] is not None


def _count_runs(lab: Any, busy: int, counts: list[int]) -> bool:
    """Note the largest count on the dashboard while a cell is busy; whether four different ones were seen."""
    texts = lab.page.locator(".bcvm-dashboard td.bcvm-runs").all_text_contents()
    now = max((int(text.replace(",", "")) for text in texts if text), default=0)
    if lab.kernel_state()[1] == "busy" and not _ran(lab, busy) and now not in counts:
        counts.append(now)
    return len(counts) >= 4


def _pictures(lab: Any, folder: Path, name: str, step: int) -> None:
    """The whole notebook in both themes, a picture every `step` cells."""
    for theme in ("Light", "Dark"):
        lab.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        lab.page.wait_for_timeout(1000)
        for number, index in enumerate(range(0, len(lab.all_cells()), step)):
            _activate(lab, index)
            lab.page.screenshot(path=folder / f"{name}_{theme.lower()}_{number}.png")


def _activate(lab: Any, index: int) -> None:
    """Make a cell the active one, at the top of the page."""
    lab.page.evaluate(
        """async index => { const notebook = window.jupyterapp.shell.currentWidget.content;
                           notebook.deselectAll();
                           notebook.activeCellIndex = index; await notebook.scrollToItem(index, 'start'); }""",
        index,
    )
    lab.page.wait_for_timeout(500)
