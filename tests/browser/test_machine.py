"""Machine code below the listing, in JupyterLab: asked for when it is opened, linked with its instructions both ways, accessible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import axe
from tests.browser.board import DEFINE, SHOW, Board, in_both_themes, select_and_run, write

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WORK = """
def act(x, b):
    return np.maximum(x * 2.0 + b, 0.0) * np.tanh(x)

x = np.ones((64, 32), np.float32)
for _ in range(50):
    y = act(x, x)
    h = step(x, np.ones((32, 32), np.float32) / 32)
"""


def test_it_is_linked_with_instructions_both_ways(open_notebook: Any, lab: Any, pictures: Path) -> None:
    write(lab, "machine.ipynb", DEFINE, SHOW, WORK)
    page = open_notebook("machine.ipynb")
    board = Board(page)
    for cells in ((0, 2), (2, 2)):
        select_and_run(page, *cells)
        page.wait(lambda: board.root.count() and board.runs() > 0 and board.state() == "idle", "the end of the cell", 30)
    board.root.get_by_role("tab", name="act()").click()
    board.root.locator(".bcvm-of-code summary").click()
    blocks = board.root.locator(".bcvm-block")
    page.wait(lambda: blocks.count() > 5, "the code", 10)
    assert "multiply, add, maximum, tanh, multiply" in str(board.root.get_by_label("Kernel", exact=True).text_content())
    assert "where the pointer of input 0 lies" in str(board.root.locator(".bcvm-code-list").text_content())
    assert board.root.locator(".bcvm-code-bytes mark").first.text_content() == "[02 00 00 00]"

    tanh = board.root.locator(".bcvm-instructions tr", has_text="tanh")
    tanh.hover()
    linked = board.root.locator(".bcvm-block.bcvm-linked")
    page.wait(lambda: linked.count() >= 2, "the blocks of tanh", 5)
    assert all("tanh" in text or "slot" in text for text in linked.all_text_contents())
    assert any(text.startswith("tanh.f32") for text in linked.locator("code").all_text_contents())

    maximum = blocks.filter(has_text="maxk.f32").first
    maximum.scroll_into_view_if_needed()
    maximum.hover()
    row = board.root.locator(".bcvm-instructions tr.bcvm-linked")
    page.wait(lambda: row.count() == 1 and "MAX_CONST" in str(row.text_content()), "the instruction", 5)
    maximum.get_by_role("button").click()
    assert "MAX_CONST" in str(board.root.locator(".bcvm-instructions tr.bcvm-pinned").text_content())

    def shown() -> bool:
        box, first = board.root.locator(".bcvm-code-list").bounding_box(), linked.first.bounding_box()
        return bool(box["y"] < first["y"] < box["y"] + box["height"])

    assert shown()
    tanh.click()
    page.wait(lambda: linked.count() >= 2 and shown(), "the blocks of tanh in sight", 5)
    board.root.locator(".bcvm-code-list").focus()

    def look(theme: str) -> None:
        page.page.mouse.move(5, 5)
        board.root.screenshot(path=pictures / f"dashboard_machine_{theme}.png")
        assert axe.faults(axe.check(board.page, ".bcvm-dashboard")) == []

    in_both_themes(page, look)
    page.page.keyboard.press("Escape")
    assert board.root.locator("tr.bcvm-pinned").count() == 0

    board.root.get_by_role("tab", name="attention()").click()
    page.wait(lambda: "attention" in str(board.root.get_by_label("Kernel", exact=True).text_content()), "the other code", 10)
    assert page.foreign == []
