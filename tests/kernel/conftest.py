"""A kernel to talk to: installed into the tests' own Jupyter folders, driven through jupyter_client."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

jupyter_client = pytest.importorskip("jupyter_client", reason="the kernel's tests need the extra `lab`")

TIMEOUT_S = 60.0


@dataclass
class Outcome:
    """What came back for one execute request."""

    status: str = ""
    ename: str = ""
    evalue: str = ""
    traceback: str = ""
    stdout: str = ""
    stderr: str = ""
    result: dict[str, Any] | None = None
    displayed: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    payload: list[dict[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str | None:
        """The text form of the cell's result."""
        return None if self.result is None else self.result["text/plain"]


class Client:
    """One running kernel and a client connected to it."""

    def __init__(self, name: str, **environment: str) -> None:
        from jupyter_client.manager import KernelManager

        self.closed = False
        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel(env={**os.environ, **environment})
        self.kc = self.manager.blocking_client()
        self.kc.start_channels()
        self.kc.wait_for_ready(timeout=TIMEOUT_S)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.kc.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def send(self, code: str, **options: Any) -> str:
        """Ask for execution; returns the message's id at once."""
        return self.kc.execute(code, **options)

    def wait(self, message_id: str, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Collect everything up to the reply and the idle status of a request."""
        out, deadline = Outcome(), time.monotonic() + timeout_s
        while True:
            message = self.kc.get_iopub_msg(timeout=max(0.01, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") != message_id:
                continue
            out.messages.append(message)
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    setattr(out, content["name"], getattr(out, content["name"]) + content["text"])
                case "execute_result":
                    out.result = content["data"]
                case "display_data":
                    out.displayed.append(content["data"])
                case "error":
                    out.ename, out.evalue, out.traceback = content["ename"], content["evalue"], "\n".join(content["traceback"])
                case "status" if content["execution_state"] == "idle":
                    break
        reply = self.reply(message_id, deadline)
        out.status, out.payload = reply["content"]["status"], reply["content"].get("payload", [])
        return out

    def reply(self, message_id: str, deadline: float) -> dict[str, Any]:
        while True:
            message = self.kc.get_shell_msg(timeout=max(0.01, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") == message_id:
                return message

    def run(self, code: str, **options: Any) -> Outcome:
        """Execute and wait. Input is refused unless asked for."""
        return self.wait(self.send(code, **{"allow_stdin": False, **options}))

    def wait_for_output(self, message_id: str, text: str) -> None:
        """Wait until the cell has printed `text`."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            message = self.kc.get_iopub_msg(timeout=max(0.01, deadline - time.monotonic()))
            if message["msg_type"] == "stream" and message["parent_header"]["msg_id"] == message_id and text in message["content"]["text"]:
                return

    def control(self, kind: str, content: dict[str, Any], timeout_s: float = 20.0) -> dict[str, Any]:
        """Send a request on the control channel and return its reply's content."""
        message = self.kc.session.msg(kind, content)
        self.kc.control_channel.send(message)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                reply = self.kc.get_control_msg(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no reply to {kind} within {timeout_s} s")
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return reply["content"]


@pytest.fixture(scope="session")
def kernel_name(repository: Path) -> str:
    """The name of the kernelspec under test, installed for this run."""
    from bcvm_kernel import install

    # The kernel imports this checkout, installed or not.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(repository), os.environ.get("PYTHONPATH")]))
    install(user=True)
    return "bcvm"


@contextmanager
def _starting(kernel_name: str) -> Iterator[Callable[..., Client]]:
    """Starts kernels, and ends those that are left."""
    clients: list[Client] = []

    def begin(name: str = kernel_name, **environment: str) -> Client:
        clients.append(Client(name, **environment))
        return clients[-1]

    try:
        yield begin
    finally:
        for client in clients:
            client.close()


@pytest.fixture
def start(kernel_name: str) -> Iterator[Callable[..., Client]]:
    """Start more kernels for one test: ``start()``, ``start("python3")``, ``start(BCVM_DISABLE="1")``."""
    with _starting(kernel_name) as begin:
        yield begin


@pytest.fixture(scope="module")
def start_for_module(kernel_name: str) -> Iterator[Callable[..., Client]]:
    """As `start`, for all tests of a file."""
    with _starting(kernel_name) as begin:
        yield begin


@pytest.fixture(scope="session")
def kernel(kernel_name: str) -> Iterator[Client]:
    """One kernel shared by the tests that don't harm it."""
    with _starting(kernel_name) as begin:
        yield begin()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A fresh IPython in this process, with the extension loaded."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from bcvm_core import config

    monkeypatch.setattr(config.current, "enabled", True)
    # No history file: IPython would write to it at exit, when the folder is gone.
    out = InteractiveShell(ipython_dir=str(tmp_path), colors="nocolor", config=Config({"HistoryManager": {"enabled": False}}))
    out.run_cell("%load_ext bcvm_kernel").raise_error()
    yield out
    out.run_cell("%unload_ext bcvm_kernel").raise_error()


@pytest.fixture
def run_cell(shell: Any) -> Callable[[str], Any]:
    """Run a cell in `shell`: its result, as Out has it. Raises what the cell raises."""

    def run(code: str) -> Any:
        result = shell.run_cell(code, store_history=True)
        result.raise_error()
        return result.result

    return run
