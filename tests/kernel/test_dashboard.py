"""The dashboard through a real kernel: messages while a cell runs, buttons that work then, silence when closed."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bcvm_widgets import protocol

pytest.importorskip("anywidget", reason="the dashboard needs the extra `lab`")

BEGIN = """
import os
import time
import numpy as np
from bcvm_widgets import dashboard
from bcvm_core.tiers.clock import clock
def step(x):
    return np.tanh(x) * 0.5 + x
board = dashboard()
board.model_id
"""
BUSY = """
x = np.ones((16, 16))
print('go', flush=True)
while not os.path.exists({end!r}):
    x = step(x)
"""


class Board:
    """The front end's side of one dashboard. Commands go to a subshell, as JupyterLab sends them."""

    def __init__(self, kernel: Any, comm_id: str, subshell: str) -> None:
        self.kernel, self.comm_id, self.subshell = kernel, comm_id, subshell

    def command(self, name: str, cell: int = 0) -> None:
        content = {"version": 1, "command": name, "view": "test", "cell": cell}
        message = self.kernel.kc.session.msg("comm_msg", {"comm_id": self.comm_id, "data": {"method": "custom", "content": content}})
        message["header"]["subshell_id"] = self.subshell
        self.kernel.kc.shell_channel.send(message)

    def wait(self, condition: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Collect states until they satisfy the condition. On a busy machine that may take a while."""
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + 30
        while not condition(found):
            if time.monotonic() > deadline:
                pytest.fail(f"only {len(found)} updates within 30 s")
            found += self.updates(0.2)
        return found

    def updates(self, seconds: float) -> list[dict[str, Any]]:
        """The states that arrive within some time."""
        found, deadline = [], time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = self.kernel.kc.get_iopub_msg(timeout=left)
            except queue.Empty:
                break
            content = message["content"]
            if message["msg_type"] == "comm_msg" and content["comm_id"] == self.comm_id and content["data"]["method"] == "update":
                found.append(content["data"]["state"])
        return found


@pytest.fixture
def board(kernel: Any) -> Iterator[Board]:
    subshell = kernel.control("create_subshell_request", {})["subshell_id"]
    out = Board(kernel, eval(kernel.run(BEGIN).text or ""), subshell)
    yield out
    kernel.run("board.close()")
    kernel.control("delete_subshell_request", {"subshell_id": subshell})


@pytest.fixture
def busy(kernel: Any, board: Board, tmp_path: Path) -> Callable[[], Callable[[], None]]:
    """Start a cell that is busy; what it returns ends the cell."""

    def start() -> Callable[[], None]:
        end = tmp_path / f"end {time.monotonic_ns()}"
        message_id = kernel.send(BUSY.format(end=str(end)))
        kernel.wait_for_output(message_id, "go")

        def stop() -> None:
            end.touch()
            kernel.wait(message_id)

        return stop

    return start


def test_it_tells_what_happens_while_it_happens_and_is_silent_when_closed(kernel: Any, board: Board, busy: Any) -> None:
    board.command("shown")
    end = busy()
    began = time.monotonic()
    seen = board.wait(lambda found: sum("figures" in state for state in found) >= 5)
    assert len(seen) <= protocol.MAX_RATE_HZ * (time.monotonic() - began) + 3
    latest = [state["figures"] for state in seen if "figures" in state][-1]
    assert latest["units"]["function step"]["lines"]["runs"][1] > 0
    assert latest["units"]["function step"]["lines"]["total_us"][1] > 0
    assert sum("listing" in state for state in seen) <= 3  # what doesn't change isn't repeated
    end()
    board.updates(1.5)
    assert board.updates(1.2) == []
    board.command("hidden")
    time.sleep(0.5)
    end = busy()
    assert board.updates(0.7) == []
    end()
    assert kernel.run("clock.on").text == "False"


def test_pause_and_resume_work_during_a_busy_cell(board: Board, busy: Any) -> None:
    board.command("shown")
    end = busy()
    board.wait(lambda found: any("figures" in state for state in found))
    board.command("pause")
    board.wait(lambda found: any("status" in state and state["status"]["paused"] for state in found))
    assert board.updates(0.8) == []
    board.command("resume")
    board.wait(lambda found: any("figures" in state for state in found))
    end()


def test_stop_interrupts_a_cell_that_sleeps_and_no_other(kernel: Any, board: Board) -> None:
    board.command("shown")
    message_id = kernel.send("y = step(np.ones(3))\nprint('go', flush=True)\ntime.sleep(120)")
    kernel.wait_for_output(message_id, "go")
    board.command("pause")  # its answer says which cell runs
    heard = board.wait(lambda found: any("status" in state for state in found))
    cell = [state["status"]["cell"] for state in heard if "status" in state][-1]
    board.command("stop", cell)
    assert kernel.wait(message_id).ename == "KeyboardInterrupt"
    board.command("stop", cell)  # twice
    assert kernel.run("time.sleep(0.3); 1 + 1").text == "2"
