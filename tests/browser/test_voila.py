"""The dashboard in Voila, where there are no cells to run any more: a button of the notebook's does the work."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.browser.board import DEFINE, SHOW, write

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WORK = """
state = np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32)
w = np.ones((32, 32), np.float32) / 32
for _ in range(200):
    state = step(state, w) + 0.01
"""
BUTTON = """
import ipywidgets
def more(_):
    global state
    for _ in range(1000):
        state = step(state, w)
button = ipywidgets.Button(description="More work")
button.on_click(more)
button
"""
VIEWS = {"Bytecode": "td.bcvm-runs", "Tier latencies": "svg", "Fusion splits": "svg rect", "Code cache": "tbody tr"}


class _Folder:
    """Where the notebook is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder


@pytest.fixture
def voila(repository: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a Voila that shows the notebook."""
    pytest.importorskip("voila", reason="Voila is not installed (pip install voila): the dashboard was not tried in it")
    from bcvm_kernel import install

    install(user=True)
    write(_Folder(tmp_path), "app.ipynb", DEFINE, WORK, SHOW, BUTTON)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = os.pathsep.join(filter(None, [str(repository), str(repository / "widgets"), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "voila", "app.ipynb", "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1"]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, stdout=log, stderr=log)
        try:
            _wait_for(f"http://127.0.0.1:{port}/voila/static/main.js", server, tmp_path / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(timeout=20)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"Voila did not start:\n{log.read_text()}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_works(voila: str, browser: Any, theme: str, pictures: Path) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if "Error setting state" in message.text else None)
    page.on("request", lambda request: faults.append(request.url) if "bcvm" in request.url and urlsplit(request.url).netloc else None)
    page.goto(f"{voila}/?theme={theme}")
    root = page.locator(".bcvm-dashboard")
    root.wait_for(timeout=60_000)
    root.get_by_role("tab", name="step()").click()
    runs = root.locator("td.bcvm-runs")
    runs.get_by_text("200", exact=True).first.wait_for(timeout=10_000)
    page.get_by_role("button", name="More work").click()  # counted as work of the last cell, which made the button
    runs.get_by_text("1,000", exact=True).first.wait_for(timeout=20_000)
    for name, content in VIEWS.items():
        root.get_by_role("tab", name=name, exact=True).click()
        root.locator(content).locator("visible=true").first.wait_for(timeout=10_000)
        page.screenshot(path=pictures / f"voila_{name.split()[0].lower()}_{theme}.png")
    dark = page.evaluate("() => getComputedStyle(document.querySelector('.bcvm-dashboard')).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (theme == "dark")
    root.get_by_role("button", name="Pause").click()
    root.get_by_role("button", name="Resume").wait_for(timeout=10_000)
    assert faults == []
    context.close()
