"""The dashboard in JupyterLab: live while a cell runs, with pause, resume and stop, in both themes, from this host alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.board import DEFINE, LONG, SHOW, Board, in_both_themes, opened, select_and_run, write

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_it_is_live_while_a_cell_runs_and_obeys_its_buttons(open_notebook: Any, lab: Any, pictures: Path) -> None:
    write(lab, "live.ipynb", DEFINE, SHOW, LONG.format(seconds=300))
    page = open_notebook("live.ipynb")
    board = Board(page)
    select_and_run(page, 0, 2)
    board.root.wait_for(timeout=20_000)
    first = board.wait_for_more(0)
    board.wait_for_more(first)
    assert board.state() == "running" and board.busy()

    board.button("Pause").click()
    page.wait(lambda: board.state() == "paused", "the pause", 5)
    page.page.wait_for_timeout(500)
    frozen = board.runs()
    page.page.wait_for_timeout(1000)
    assert board.runs() == frozen and board.busy()

    board.button("Resume").click()
    page.wait(lambda: board.state() == "running", "the end of the pause", 5)
    board.wait_for_more(frozen)
    assert board.busy()

    _pictures(page, board, pictures, "dashboard_running")
    board.button("Stop").click()
    page.wait(lambda: not board.busy() and board.state() == "idle", "the interrupt", 10)
    assert [o["ename"] for o in page.cells()[2]["outputs"] if o["output_type"] == "error"] == ["KeyboardInterrupt"]
    assert page.foreign == []


def test_lines_and_instructions_are_linked_by_pointer_and_by_keys(open_notebook: Any, lab: Any, pictures: Path) -> None:
    write(lab, "linked.ipynb", DEFINE, SHOW, LONG.format(seconds=1))
    page = open_notebook("linked.ipynb")
    board = Board(page)
    select_and_run(page, 0, 2)
    page.wait(lambda: board.root.count() and board.runs() > 0 and board.state() == "idle", "the end of the cell", 20)
    board.root.get_by_role("tab", name="attention()").click()
    line = board.root.locator(".bcvm-lines tbody tr", has_text="scores.max")
    line.hover()
    linked = board.root.locator(".bcvm-instructions tr.bcvm-linked .bcvm-opcode")
    assert "CALL_OP" in linked.all_text_contents()
    assert "max" in " ".join(board.root.locator(".bcvm-instructions tr.bcvm-linked").all_text_contents())
    line.click()
    assert line.get_attribute("aria-selected") == "true"
    board.root.screenshot(path=pictures / "dashboard_pinned.png")
    page.page.keyboard.press("ArrowDown")  # from the line that was clicked
    page.page.keyboard.press("ArrowRight")  # to its instructions
    focused = page.page.evaluate("() => document.activeElement.closest('.bcvm-pane').className + ' ' + document.activeElement.textContent")
    assert "bcvm-instructions" in focused and "exp" in focused
    assert board.root.locator(".bcvm-span").count() == 1  # the characters it came from
    detail = str(board.root.locator(".bcvm-detail").first.text_content())
    assert "one kernel for " in detail and "subtract, exp" in detail  # alone, or as a part of the chain of all five
    page.page.keyboard.press("Escape")
    assert board.root.locator("tr.bcvm-pinned").count() == 0
    _find_and_heat(page, board, pictures)
    assert page.cells()[1]["source"] == SHOW  # no key reached the notebook
    fused = board.root.locator(".bcvm-instructions tr", has_text="exp, r")
    assert str(fused.locator("td.bcvm-total").text_content()).startswith("in ")  # its time stands with the subtraction
    opcode = fused.locator(".bcvm-opcode")
    assert "CALL_OP: Run an op of the table" in str(opcode.get_attribute("title"))
    board.root.locator(".bcvm-legend summary").click()
    words = board.root.locator(".bcvm-legend dl")
    assert "fusion policy 'normalisation'" in str(words.text_content())
    board.root.screenshot(path=pictures / "dashboard_words.png")
    board.root.locator(".bcvm-legend summary").click()
    for width in (980, 660):
        page.page.set_viewport_size({"width": width, "height": 1400})
        page.page.wait_for_timeout(500)
        board.root.screenshot(path=pictures / f"dashboard_{width}.png")
    assert page.foreign == []


def _find_and_heat(page: Any, board: Board, pictures: Path) -> None:
    find = board.root.get_by_label("Find in source and bytecode")
    find.fill("keepdims")
    hits = board.root.locator("tr.bcvm-hit")
    assert hits.count() == 4  # two lines, two instructions
    find.press("Enter")
    find.press("Enter")
    assert "2 of 4" in str(board.root.locator(".bcvm-found").text_content())
    heat = "e => e.style.getPropertyValue('--heat')"
    rows = board.root.locator(".bcvm-lines tbody tr")
    by_time = [row.evaluate(heat) for row in rows.all()]
    board.root.screenshot(path=pictures / "dashboard_find.png")
    board.root.get_by_label("Heat by").select_option(label="runs")
    by_runs = [row.evaluate(heat) for row in rows.all()]
    assert "34%" in by_time and by_time.count("34%") == 1 and by_runs.count("34%") == 5
    find.press("Escape")
    assert hits.count() == 0


def test_pointing_scrolls_the_other_side_and_each_tab_has_its_own_place(open_notebook: Any, lab: Any, pictures: Path) -> None:
    """In a window of 1280 pixels beside JupyterLab's file browser: the panes stand side by side there, too."""
    long = DEFINE + "\n" + "def many(x):\n" + "".join(f"    x = np.tanh(x * {n}.5)[:, ::-1]\n" for n in range(2, 14)) + "    return x"
    write(lab, "scroll.ipynb", long, SHOW, "x = np.ones((4, 4), np.float32)\nfor _ in range(3): y = many(step(x, x))")
    page = open_notebook("scroll.ipynb", sidebar=True)
    page.page.set_viewport_size({"width": 1280, "height": 1000})
    board = Board(page)
    select_and_run(page, 0, 2)
    page.wait(lambda: board.root.count() and board.runs() > 0 and board.state() == "idle", "the end of the cell", 20)
    panes = [board.root.locator(f".bcvm-{kind}") for kind in ("lines", "instructions")]
    left, right = (pane.bounding_box() for pane in panes)
    assert left["y"] == right["y"] and left["x"] + left["width"] <= right["x"] + 1
    assert not board.root.evaluate("e => [...e.querySelectorAll('.bcvm-head > *')].some(x => x.offsetTop > e.offsetTop + 30)")
    board.root.get_by_role("tab", name="many()").click()
    last = panes[0].locator("tbody tr").nth(11)
    last.hover()
    page.wait(lambda: panes[1].evaluate("e => e.scrollTop") > 0, "the other side", 5)
    page.page.wait_for_timeout(200)
    box, row = panes[1].bounding_box(), panes[1].locator("tr.bcvm-linked").first.bounding_box()
    assert box["y"] < row["y"] < box["y"] + box["height"]
    board.root.screenshot(path=pictures / "dashboard_beside_the_sidebar.png")
    page.page.mouse.move(5, 5)
    there = panes[1].evaluate("e => e.scrollTop")
    board.root.get_by_role("tab", name="step()").click()
    assert panes[1].evaluate("e => e.scrollTop") == 0
    board.root.get_by_role("tab", name="many()").click()
    assert panes[1].evaluate("e => e.scrollTop") == there
    code = panes[1].locator("td.bcvm-code > code", has_text="CALL_OP").first
    assert "CALL_OP" in code.evaluate("e => e.innerText")
    assert page.foreign == []


NEW_SIZES = """
import time
until = time.time() + {seconds}
n = 0
while time.time() < until:
    n += 1
    state = np.ones((8 + n % 40, 32), np.float32)
    state = step(state, np.ones((32, 32), np.float32) / 32)
    if n % 50 == 0:
        state = step(state.astype(np.float64), np.ones((32, 32)))
"""


def test_latencies_are_dots_that_can_be_asked(open_notebook: Any, lab: Any, pictures: Path) -> None:
    page, board = opened(open_notebook, lab, "latencies.ipynb", NEW_SIZES.format(seconds=300), "Tier latencies")
    plot = board.root.locator(".bcvm-latencies .bcvm-plot")
    table = board.root.locator(".bcvm-series")
    warm = table.locator("tr", has_text="tier 1, warm calls").locator("td").nth(1)
    page.wait(lambda: warm.count() and table.locator("tr", has_text="tier 2, fuse").count(), "the tiers", 20)
    before = warm.text_content()
    page.wait(lambda: warm.text_content() != before, "more calls", 10)
    assert board.busy()
    assert "mean 0.8\u00a0ms" in str(table.locator("tr", has_text="tier 1, select").text_content())

    assert not any("✓" in text for text in table.locator(".bcvm-over").all_text_contents())  # what is kept is not in the colour of faults

    slow = board.root.locator(".bcvm-slowest button").first
    slow.click()
    detail = board.root.locator(".bcvm-latencies .bcvm-detail")
    assert str(slow.text_content()).split(" ")[0] in str(detail.text_content())
    plot.focus()
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("ArrowUp")
    spike = str(detail.text_content())
    page.page.keyboard.press("ArrowDown")
    assert detail.text_content() != spike and " at " in spike
    board.root.get_by_role("button", name="Pause").click()
    page.wait(lambda: board.state() == "paused", "the pause", 5)
    held = warm.text_content()
    box = table.get_by_role("checkbox", name="Show tier 1, select")
    cold = board.root.locator("path.bcvm-dots.bcvm-dots-selected:not(.bcvm-warm)")
    page.page.wait_for_timeout(300)
    box.uncheck()
    assert cold.count() == 0
    box.check()
    assert cold.count() == 1
    board.root.get_by_label("Show dots whose text holds").fill("tanh")
    assert "tanh" in str(board.root.locator(".bcvm-slowest").text_content()) and "matmul by" not in str(
        board.root.locator(".bcvm-slowest").text_content()
    )
    page.page.wait_for_timeout(700)
    assert warm.text_content() == held
    board.root.get_by_label("Show dots whose text holds").fill("")
    in_both_themes(page, lambda theme: board.root.screenshot(path=pictures / f"dashboard_latencies_{theme}.png"))
    board.button("Stop").click()
    page.wait(lambda: not board.busy(), "the interrupt", 10)
    assert page.foreign == []


SIZES = """
row, big = np.ones((1, 1000), np.float32), np.ones((2000, 1000), np.float32)
def mixed(row, big):
    return np.exp(np.tanh(row) * 2.0 + 1.0) * big + np.cumsum(row, axis=1)
until = time.time() + {seconds}
n = 0
while time.time() < until:
    n += 1
    big = mixed(row, big) * 1e-3
    small = mixed(row[:, :10], big[:10, :10])
"""


def test_regions_are_graphs_and_candidates_can_be_compared(open_notebook: Any, lab: Any, pictures: Path) -> None:
    page, board = opened(open_notebook, lab, "fusion.ipynb", "import time" + SIZES.format(seconds=300), "Fusion splits")
    region = board.root.get_by_label("Region", exact=True)
    page.wait(lambda: "mixed" in str(region.text_content()), "the region", 20)
    runs = str(region.text_content())
    page.wait(lambda: str(region.text_content()) != runs, "more runs", 10)
    assert board.busy()
    name = next(option for option in region.locator("option").all_text_contents() if "exp" in option)
    region.select_option(value=name.rpartition(" (")[0])
    graph = board.root.locator(".bcvm-graph")
    board.root.locator(".bcvm-candidates button").first.wait_for(timeout=10_000)
    assert "exp" in str(graph.text_content()) and graph.locator(".bcvm-cut").count() >= 1
    table = board.root.locator(".bcvm-candidates")
    assert "✓ chosen" in str(table.text_content()) and "[REJECTED]" in str(table.text_content())
    cuts = graph.locator(".bcvm-cut").count()
    other = table.get_by_role("button", name="op by op")
    other.click()
    page.wait(lambda: graph.locator(".bcvm-cut").count() > cuts, "the other cut", 5)
    assert board.root.locator(".bcvm-plot svg[aria-label^=Roofline]").count() == 1
    table.locator("button").first.click()
    in_both_themes(page, lambda theme: board.root.screenshot(path=pictures / f"dashboard_fusion_{theme}.png"))
    board.button("Stop").click()
    page.wait(lambda: not board.busy(), "the interrupt", 15)
    assert page.foreign == []


def test_it_can_be_read_where_no_widget_runs(open_notebook: Any, lab: Any, pictures: Path) -> None:
    """An untrusted notebook, opened without running anything."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    write(lab, "static.ipynb", DEFINE, LONG.format(seconds=0.2).replace("print", "#"), SHOW, "board.report()")
    notebook = nbformat.read(lab.folder / "static.ipynb", 4)
    nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(lab.folder)}}).execute()
    notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, lab.folder / "static.ipynb")
    page = open_notebook("static.ipynb")
    for theme in ("Light", "Dark"):
        page.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        page.page.evaluate("async () => await window.jupyterapp.shell.currentWidget.content.scrollToItem(2, 'start')")
        tables = page.page.locator(".jp-OutputArea-output.jp-RenderedHTMLCommon")
        tables.first.wait_for()
        page.page.wait_for_timeout(700)
        page.page.screenshot(path=pictures / f"dashboard_static_{theme.lower()}.png")
    body, _, _legend = tables.last.text_content().partition("● kernel")
    assert "◆" in body and "fused" in body
    assert page.foreign == []


def _pictures(page: Any, board: Board, folder: Path, name: str) -> None:
    def take(theme: str) -> None:
        board.root.locator(".bcvm-instructions tr.bcvm-role-op").nth(3).hover()
        page.page.wait_for_timeout(150)
        board.root.screenshot(path=folder / f"{name}_{theme}.png")
        page.page.screenshot(path=folder / f"{name}_{theme}_page.png")

    in_both_themes(page, take)
