"""A comparison of engines in JupyterLab, in both themes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DEFINE = """
import numpy as np
import bcvm_core as bcvm
assert bcvm.ready()

def step(x, w):
    h = np.maximum(x @ w, 0)
    for _ in range(4):
        h = h * 0.5 + np.tanh(h) / (1 + h * h)
    return h

x = np.linspace(-1, 1, 256 * 64, dtype=np.float32).reshape(256, 64)
w = np.ones((64, 64), np.float32) / 64
"""
COMPARE = "%%bcvm --compare numpy,pynative,torch\ny = step(x, w)"


def test_times_and_values_are_shown_in_both_themes(open_notebook: Any, lab: Any, pictures: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "bcvm", "display_name": "BCVM", "language": "python"}})
    notebook.cells = [nbformat.v4.new_code_cell(text.strip()) for text in (DEFINE, COMPARE)]
    nbformat.write(notebook, lab.folder / "compare.ipynb")
    page = open_notebook("compare.ipynb")
    page.run_all()
    output = page.page.locator(".jp-RenderedHTMLCommon", has_text="against bcvm")
    output.wait_for(timeout=20_000)
    text = str(output.text_content())
    assert "same bits" in text and "runs of each in turn" in text
    image = output.locator("svg[role=img]")
    assert "Times of the engines: bcvm" in str(image.get_attribute("aria-label"))
    assert image.locator("circle").count() >= 6
    for theme in ("light", "dark"):
        page.command("apputils:change-theme", theme=f"JupyterLab {theme.title()}")
        page.page.wait_for_timeout(700)
        colours = image.locator("text").first.evaluate("e => [getComputedStyle(e).fill, getComputedStyle(document.body).backgroundColor]")
        assert colours[0] != colours[1]
        output.screenshot(path=pictures / f"compare_{theme}.png")
    assert page.foreign == []
