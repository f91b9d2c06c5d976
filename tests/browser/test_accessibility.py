"""axe-core finds no serious fault: each view of the dashboard in both themes, with what it opens, and the report as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import axe
from tests.browser.board import DEFINE, SHOW, Board, in_both_themes, select_and_run, write

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WORK = """
row, big = np.ones((1, 1000), np.float32), np.ones((2000, 1000), np.float32)
def mixed(row, big):
    return np.exp(np.tanh(row) * 2.0 + 1.0) * big + np.cumsum(row, axis=1)
for n in range(20):
    state = np.ones((8 + n, 32), np.float32)
    state = step(state, np.ones((32, 32), np.float32) / 32)
    big = mixed(row, big) * 1e-3
"""
BOARD = ".bcvm-dashboard"


class _Looks:
    """Looks with axe at what is on the page now, and keeps what it finds until the end."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.found: list[str] = []

    def at(self, selector: str, where: str) -> None:
        found = axe.check(self.page, selector)
        looked = {rule["id"]: len(rule["nodes"]) for rule in found["passes"]}
        colours = looked.get("color-contrast", 0) + sum(len(r["nodes"]) for r in found["violations"] if r["id"] == "color-contrast")
        assert colours >= 5, f"axe saw no text: {where}"
        self.found += [f"{where}: {fault}" for fault in axe.faults(found)]

    def judge(self) -> None:
        assert not self.found, "\n".join(self.found)


@pytest.fixture
def board(open_notebook: Any, lab: Any) -> Board:
    """A dashboard after two runs of a cell: of the second everything was measured."""
    write(lab, "accessible.ipynb", DEFINE, SHOW, WORK)
    page = open_notebook("accessible.ipynb")
    found = Board(page)
    for _ in range(2):
        select_and_run(page, 0 if found.root.count() == 0 else 2, 2)
        page.wait(lambda: found.root.count() and found.runs() > 0 and found.state() == "idle", "the end of the cell", 30)
    return found


def test_every_view_in_both_themes(board: Board) -> None:
    page, looks = board.lab, _Looks(board.page)
    views = board.root.locator(".bcvm-views [role=tab]").all_text_contents()
    assert {"Bytecode", "Tier latencies", "Fusion splits"} <= set(views)

    def look(theme: str) -> None:
        for view in views:
            board.root.get_by_role("tab", name=view, exact=True).click()
            board.page.wait_for_timeout(300)
            looks.at(BOARD, f"{view}, {theme}")

    in_both_themes(page, look)
    looks.judge()


def test_what_is_opened_held_and_found(board: Board) -> None:
    looks = _Looks(board.page)

    def look(theme: str) -> None:
        board.root.get_by_role("tab", name="Bytecode", exact=True).click()
        board.root.get_by_role("tab", name="attention()").click()
        board.root.locator(".bcvm-instructions tr.bcvm-role-op").nth(2).click()
        board.root.get_by_label("Find in source and bytecode").fill("keepdims")
        board.root.locator(".bcvm-legend summary").click()
        board.page.wait_for_timeout(300)
        looks.at(BOARD, f"Bytecode with all that can be opened, {theme}")
        board.root.get_by_label("Find in source and bytecode").fill("")
        board.root.locator(".bcvm-legend summary").click()
        board.root.get_by_role("tab", name="Tier latencies").click()
        board.root.locator(".bcvm-slowest button").first.click()
        looks.at(BOARD, f"Tier latencies with a dot chosen, {theme}")
        board.root.get_by_role("tab", name="Fusion splits").click()
        board.root.locator(".bcvm-candidates button").nth(1).click()
        looks.at(BOARD, f"Fusion splits with another candidate, {theme}")
        board.root.get_by_role("tab", name="Bytecode", exact=True).click()

    in_both_themes(board.lab, look)
    looks.judge()


def test_before_anything_ran(open_notebook: Any, lab: Any) -> None:
    write(lab, "empty.ipynb", "import bcvm_widgets", "bcvm_widgets.dashboard()")
    page = open_notebook("empty.ipynb")
    select_and_run(page, 0, 1)
    page.page.locator(BOARD).wait_for(timeout=20_000)
    looks = _Looks(page.page)
    in_both_themes(page, lambda theme: looks.at(BOARD, f"nothing has run, {theme}"))
    looks.judge()


REPORT = """
import pathlib
before = "step, before specialisation", "attention, before specialisation"
content = board.report(times=True, machine=True, diff=before).html()
head = "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>BCVM</title></head>"
pathlib.Path("report.html").write_text(head + "<body><main>" + content + "</main></body></html>")
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_as_a_file(board: Board, lab: Any, browser: Any, pictures: Path, scheme: str) -> None:
    board.page.evaluate(
        """code => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute({ code }).done""", REPORT
    )
    context = browser.new_context(color_scheme=scheme, offline=True, viewport={"width": 1100, "height": 1400})
    page = context.new_page()
    foreign: list[str] = []
    page.on("request", lambda request: foreign.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(f"file://{lab.folder}/report.html")
    page.evaluate("() => document.querySelectorAll('details').forEach(each => each.open = true)")
    page.screenshot(path=pictures / f"report_{scheme}.png", full_page=True)
    looks = _Looks(page)
    looks.at("body", f"the report, {scheme}")
    looks.judge()
    assert page.locator("svg").count() >= 2 and page.locator("details").count() >= 3
    assert foreign == []
    context.close()
