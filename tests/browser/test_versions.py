"""Two versions side by side below the listing, in JupyterLab: chosen, swapped, with marks and braces, accessible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import axe
from tests.browser.board import DEFINE, SHOW, Board, in_both_themes, select_and_run, write

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WORK = """
x = np.ones((64, 32), np.float32)
for _ in range(50):
    h = step(x, np.ones((32, 32), np.float32) / 32)
"""


def test_versions_are_chosen_and_compared(open_notebook: Any, lab: Any, pictures: Path) -> None:
    write(lab, "versions.ipynb", DEFINE, SHOW, WORK, WORK.replace("64, 32", "48, 32"))
    page = open_notebook("versions.ipynb")
    board = Board(page)
    select_and_run(page, 0, 2)
    page.wait(lambda: board.root.count() and board.runs() > 0 and board.state() == "idle", "the end of the cell", 30)
    page.page.wait_for_timeout(1500)  # a look at the first shapes
    select_and_run(page, 3, 3)
    page.wait(lambda: page.cells()[3]["execution_count"] is not None and board.state() == "idle", "the other shapes", 30)
    board.root.get_by_role("tab", name="attention()").click()
    board.root.locator(".bcvm-compare summary").click()
    first, second = board.root.get_by_label("First version"), board.root.get_by_label("Second version")
    page.wait(lambda: first.locator("option").count() >= 3, "the versions", 10)
    rows = board.root.locator(".bcvm-diff-list tbody tr")
    first.select_option(label="attention, before specialisation")
    page.wait(lambda: "{[...]}" in str(rows.first.text_content()), "the comparison", 10)
    assert rows.first.get_attribute("data-mark") == "changed" and rows.first.get_by_role("img", name="changed").count() == 1
    assert "{float32:contiguous:host" in str(board.root.locator(".bcvm-diff-list").text_content())

    def look(theme: str) -> None:
        board.root.locator(".bcvm-compare").scroll_into_view_if_needed()
        board.root.screenshot(path=pictures / f"dashboard_versions_{theme}.png")
        board.root.locator(".bcvm-compare").screenshot(path=pictures / f"versions_{theme}.png")
        assert axe.faults(axe.check(board.page, ".bcvm-dashboard")) == []

    in_both_themes(page, look)
    left, right = (str(side.input_value()) for side in (first, second))
    board.root.get_by_role("button", name="Swap").click()
    page.wait(lambda: (first.input_value(), second.input_value()) == (right, left), "the other way round", 10)

    names = second.locator("option").all_text_contents()
    first.select_option(label=next(n for n in names if n.startswith("machine code") and "subtract, exp" in n))
    second.select_option(label=next(n for n in names if n.startswith("step")))
    page.wait(lambda: "only in the second" in str(board.root.locator(".bcvm-compare .bcvm-source").text_content()), "any two", 10)
    assert page.foreign == []
