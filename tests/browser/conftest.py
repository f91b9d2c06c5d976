"""A JupyterLab of the tests' own and a page in headless Chromium."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
).split()
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}


@dataclass
class Lab:
    """A running JupyterLab. `folder` is its root; notebooks are opened from there."""

    url: str
    token: str
    folder: Path


@pytest.fixture(scope="session")
def lab(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab with the kernel installed and copies of the notebooks, without news and update checks."""
    pytest.importorskip("jupyterlab", reason="browser tests need the extra `lab`")
    from bcvm_kernel import install

    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(repository), os.environ.get("PYTHONPATH")]))
    install(user=True)
    folder = tmp_path_factory.mktemp("lab")
    for notebook in (repository / "notebooks").glob("*.ipynb"):
        shutil.copy(notebook, folder)
    settings = folder / ".settings"
    settings.mkdir()
    (settings / "overrides.json").write_text(json.dumps(SETTINGS))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(8)
    log = (folder / ".lab.log").open("w")
    options = {
        "ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": folder,
        "IdentityProvider.token": token,
        "LabApp.expose_app_in_browser": True,
        "LabApp.app_settings_dir": settings,
        "LabApp.user_settings_dir": folder / ".user",
        "LabApp.workspaces_dir": folder / ".workspaces",
    }
    command = [
        sys.executable,
        "-m",
        "jupyter",
        "lab",
        "--no-browser",
        "--allow-root",
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    server = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    out = Lab(f"http://127.0.0.1:{port}", token, folder)
    try:
        _wait_for(out, server, folder / ".lab.log")
        yield out
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
        log.close()


def _wait_for(lab: Lab, server: subprocess.Popen[bytes], log: Path, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{lab.url}/api/status?token={lab.token}", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def pictures(repository: Path) -> Path:
    """Where screenshots go, for a person to look at."""
    folder = repository / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """Chromium, headless. Not for the whole session: playwright keeps an event loop running in this thread."""
    playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
    with playwright.sync_playwright() as p:
        out = p.chromium.launch(executable_path=chromium, args=FLAGS)
        yield out
        out.close()


@dataclass
class LabPage:
    """A page that shows one notebook, and every request it made to another host."""

    page: Any
    foreign: list[str] = field(default_factory=list)

    def command(self, name: str, **arguments: Any) -> None:
        """Run one of JupyterLab's commands, and wait until it is done; that of running a cell is done when the cell is."""
        self.page.evaluate("([name, args]) => window.jupyterapp.commands.execute(name, args)", [name, arguments])

    def start(self, name: str) -> None:
        """Begin one of JupyterLab's commands."""
        self.page.evaluate("name => void window.jupyterapp.commands.execute(name)", name)

    def kernel_state(self) -> tuple[str, str]:
        """Name and status of the notebook's kernel."""
        return tuple(  # type: ignore[return-value]
            self.page.evaluate(
                """() => { const kernel = window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
                           return [kernel?.name ?? '', kernel?.status ?? '']; }"""
            )
        )

    def cells(self) -> list[dict[str, Any]]:
        """The code cells of the notebook as JupyterLab's model holds them."""
        return [cell for cell in self.all_cells() if cell["cell_type"] == "code"]

    def all_cells(self) -> list[dict[str, Any]]:
        """Every cell, as `cells`."""
        return list(self.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells"))

    def wait(self, condition: Any, what: str, timeout_s: float = 60.0) -> None:
        """Wait until `condition()` holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"{what}: not within {timeout_s} s; kernel {self.kernel_state()}")
            self.page.wait_for_timeout(200)

    def run_all(self, timeout_s: float = 120.0) -> None:
        """Run every cell and wait until all have run and the kernel is idle."""
        self.page.wait_for_timeout(1000)
        self.command("notebook:run-all-cells")
        last = len(self.cells()) - 1
        self.wait(
            lambda: self.cells()[last]["execution_count"] is not None and self.kernel_state()[1] == "idle", "running all cells", timeout_s
        )


@pytest.fixture
def open_notebook(lab: Lab, browser: Any) -> Iterator[Any]:
    """Open a notebook by name in a fresh browser context; returns a LabPage."""
    contexts = []

    def opener(name: str, *, sidebar: bool = False) -> LabPage:
        context = browser.new_context(viewport={"width": 1280, "height": 1400})
        contexts.append(context)
        out = LabPage(context.new_page())
        here = urlsplit(lab.url).netloc

        def note(url: str) -> None:
            parts = urlsplit(url)
            if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != here:
                out.foreign.append(url)

        out.page.on("request", lambda request: note(request.url))
        out.page.on("websocket", lambda socket: note(socket.url))
        out.page.goto(f"{lab.url}/{'lab' if sidebar else 'doc'}/tree/{name}?token={lab.token}&reset")
        out.page.wait_for_selector(".jp-Notebook", timeout=60_000)
        out.wait(lambda: out.kernel_state()[1] == "idle", "the kernel")
        return out

    yield opener
    for context in contexts:
        context.close()
