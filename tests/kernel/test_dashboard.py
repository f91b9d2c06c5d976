"""The dashboard through a real kernel: messages while a cell runs, buttons that work then, silence when closed."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("anywidget", reason="the dashboard needs the extra `lab`")

BEGIN = """
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
end = time.monotonic() + {seconds}
while time.monotonic() < end:
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

    def first(self) -> list[dict[str, Any]]:
        """Wait for a sign of life. On a busy machine the first one may take a while: Programs are made for it."""
        for _ in range(20):
            if found := self.updates(0.5):
                return found
        pytest.fail("no update within 10 s")

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


def test_it_tells_what_happens_while_it_happens_and_is_silent_when_closed(kernel: Any, board: Board) -> None:
    board.command("shown")
    message_id = kernel.send(BUSY.format(seconds=4))
    kernel.wait_for_output(message_id, "go")
    begin = board.first()
    seen = board.updates(1.0)
    assert 2 <= len(seen) <= 12  # at most 10 a second
    latest = [state["figures"] for state in seen if "figures" in state][-1]
    assert latest["units"]["function step"]["lines"]["runs"][1] > 0
    assert latest["units"]["function step"]["lines"]["total_us"][1] > 0
    assert sum("listing" in state for state in (*begin, *seen)) <= 3  # what doesn't change isn't repeated
    kernel.wait(message_id)
    board.updates(1.0)
    assert board.updates(1.2) == []
    board.command("hidden")
    time.sleep(0.3)
    message_id = kernel.send(BUSY.format(seconds=0.8))
    kernel.wait_for_output(message_id, "go")
    assert board.updates(0.7) == []
    kernel.wait(message_id)
    assert kernel.run("clock.on").text == "False"


def test_pause_and_resume_work_during_a_busy_cell(kernel: Any, board: Board) -> None:
    board.command("shown")
    message_id = kernel.send(BUSY.format(seconds=5))
    kernel.wait_for_output(message_id, "go")
    board.first()
    board.command("pause")
    heard = [state["status"]["paused"] for state in board.first() + board.updates(0.5) if "status" in state]
    assert heard == [True]
    assert board.updates(0.5) == []
    board.command("resume")
    after = board.first() + board.updates(0.3)
    assert any("figures" in state for state in after)
    kernel.wait(message_id)


def test_stop_interrupts_a_cell_that_sleeps_and_no_other(kernel: Any, board: Board) -> None:
    board.command("shown")
    message_id = kernel.send("y = step(np.ones(3))\nprint('go', flush=True)\ntime.sleep(30)")
    kernel.wait_for_output(message_id, "go")
    cell = next(state["status"]["cell"] for state in board.first() if "status" in state)
    started = time.monotonic()
    board.command("stop", cell)
    assert kernel.wait(message_id).ename == "KeyboardInterrupt"
    assert time.monotonic() - started < 3
    board.command("stop", cell)  # twice
    assert kernel.run("time.sleep(0.3); 1 + 1").text == "2"
