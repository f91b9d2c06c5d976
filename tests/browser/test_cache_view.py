"""The cache view in JupyterLab: kernels and evictions while a cell runs, buttons and keys that act on the cache, in both themes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.board import SHOW, Board, in_both_themes, opened

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DEFINE = """
import gc
import time
import numpy as np
import bcvm_core as bcvm
import bcvm_widgets
assert bcvm.ready()
limits = bcvm.override(cache_size=12, cache_ttl_s=60.0)
limits.__enter__()

def gate(x, w): return np.tanh(x * w + 0.5) * x
def clip(x): return np.minimum(np.maximum(x + 0.5, 0.0), 6.0)
def swish(x): return x / (1.0 + np.exp(-x))
def scores(q, scale): return bcvm.ops.softmax(q * scale, axis=-1)
def norm(x): return (x - 0.25) / np.sqrt(x * x + 1e-5)
"""
MANY = """
def made(n):
    body = "x"
    for k in range(4):
        body = f"({body}) {'+-*'[n // 3**k % 3]} y"
    space = {}
    exec(compile(f"def f(x, y): return np.maximum({body}, 0.0)", "<made>", "exec"), {"np": np}, space)
    return bcvm.jit(space["f"])

x, w = np.ones((64, 32), np.float32), np.full((1, 32), 0.5, np.float32)
others = []
until = time.time() + {seconds}
n = 0
while time.time() < until:
    n += 1
    for _ in range(20):
        x = clip(gate(x, w)) + 0.01
    if n % 3 == 0:
        s = scores(swish(x), 0.125)
    if n % 7 == 0:
        h = norm(x.astype(np.float64))
    if n % 40 == 0:
        others.append(made(n // 40 % 27))
        others[-1](x, w)
        gc.collect()
    time.sleep(0.005)
"""


def _cell(seconds: float) -> str:
    return MANY.replace("{seconds}", str(seconds))


def test_kernels_can_be_looked_at_pinned_and_evicted(open_notebook: Any, lab: Any, pictures: Path) -> None:
    page, board = opened(open_notebook, lab, "cache.ipynb", _cell(300), "Code cache", DEFINE)
    table = board.root.locator(".bcvm-kernels")
    rows = table.locator("tbody tr")
    gate = rows.filter(has_text="multiply, add, tanh")
    page.wait(lambda: gate.count() > 0, "the kernels", 20)
    hits = gate.first.locator("td").nth(2)
    before = hits.text_content()
    page.wait(lambda: hits.text_content() != before, "more hits", 10)
    assert board.busy()

    said = board.root.locator(".bcvm-answer")
    gate.first.click()
    assert "gate, line" in str(board.root.locator(".bcvm-cache .bcvm-detail").text_content())
    assert board.root.locator(".bcvm-cell-chosen").get_attribute("d") != ""
    board.button("Pin").click()
    page.wait(lambda: "is pinned" in str(said.text_content()), "the answer", 5)
    page.wait(lambda: "pinned" in str(gate.first.text_content()), "the mark", 5)
    board.button("Evict").click()
    page.wait(lambda: "not done: " in str(said.text_content()), "the refusal", 5)
    gate.first.focus()
    page.page.keyboard.press("p")
    page.wait(lambda: "no longer pinned" in str(said.text_content()), "unpinning by key", 5)
    page.page.keyboard.press("Delete")
    page.wait(lambda: "is evicted" in str(said.text_content()), "evicting by key", 5)
    log = board.root.locator(".bcvm-log")
    page.wait(lambda: "by hand" in str(log.text_content()), "the log", 5)
    page.wait(lambda: gate.count() > 0, "the kernel that is made again", 5)
    gate.first.focus()
    page.page.keyboard.press("p")  # pinned for the pictures
    page.wait(lambda: gate.count() and "pinned" in str(gate.first.text_content()), "the mark", 10)

    _sort_and_filter(page, board)
    page.wait(lambda: "too many" in str(log.text_content()), "evictions by the rules", 60)
    _ask(page, board)
    page.page.mouse.move(5, 5)
    gate.first.click()

    def take(theme: str) -> None:
        page.page.mouse.move(5, 5)
        page.page.wait_for_timeout(300)
        board.root.screenshot(path=pictures / f"dashboard_cache_{theme}.png")

    in_both_themes(page, take)
    board.button("Clear cache").click()
    page.wait(lambda: "evicted; what is pinned or runs stays" in str(said.text_content()), "clearing", 5)
    assert gate.count() == 1, "it is pinned"
    assert board.busy()
    page.page.set_viewport_size({"width": 760, "height": 1400})
    page.page.wait_for_timeout(700)
    board.root.screenshot(path=pictures / "dashboard_cache_narrow.png")
    board.button("Stop").click()
    page.wait(lambda: not board.busy(), "the interrupt", 15)
    assert len(page.cells()) == 3 and page.cells()[1]["source"] == SHOW, "no key reached the notebook"
    assert page.foreign == []


def _sort_and_filter(page: Any, board: Board) -> None:
    table = board.root.locator(".bcvm-kernels")
    page.page.mouse.move(5, 5)
    board.button("bytes").click()
    column = table.locator("tbody tr td:nth-child(4)")
    page.wait(lambda: column.count() > 4, "more kernels", 30)

    def sizes() -> list[int]:
        return [int(text.replace(",", "")) for text in column.all_text_contents()]

    page.page.wait_for_timeout(400)
    assert sizes() == sorted(sizes(), reverse=True) and len(sizes()) > 3
    assert table.locator("th", has_text="bytes").get_attribute("aria-sort") == "descending"
    page.page.keyboard.press("Enter")  # on the head
    page.page.wait_for_timeout(400)
    assert sizes() == sorted(sizes()) and table.locator("th", has_text="bytes").get_attribute("aria-sort") == "ascending"
    find = board.root.get_by_label("Show kernels whose text holds")
    find.fill("float64")
    page.page.wait_for_timeout(300)
    assert all("float64" in text for text in table.locator("tbody tr").all_text_contents())
    find.fill("")
    find.press("Tab")
    board.button("hits").click()


def _ask(page: Any, board: Board) -> None:
    result = board.root.locator(".bcvm-result")
    page.wait(lambda: "max_size=12 and ttl=60" in str(result.text_content()), "what the limits in force would mean", 10)
    size = board.root.get_by_label("max_size, kernels", exact=True)
    size.fill("2")
    page.wait(lambda: "max_size=2 and ttl=60" in str(result.text_content()), "what two kernels would mean", 10)
    slider = board.root.get_by_label("max_size, kernels, as a slider")
    slider.focus()
    page.page.keyboard.press("ArrowRight")
    page.wait(lambda: "max_size=3 and ttl=60" in str(result.text_content()), "the slider", 10)
    board.root.get_by_label("ttl, seconds").fill("5")
    page.wait(lambda: "max_size=3 and ttl=5" in str(result.text_content()), "another ttl", 10)
    assert "As it is now, 12 and 60: " in str(result.text_content())
    assert board.root.locator(".bcvm-chart svg[aria-label^='Hits by max_size']").count() == 1
