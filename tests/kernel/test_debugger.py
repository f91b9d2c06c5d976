"""The debugger answers what it doesn't know, stops at breakpoints in cells, and lets the kernel go on."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("debugpy")


@pytest.fixture(scope="module")
def session(start: Any) -> Any:
    """A kernel of its own with a debugger attached; returns (client, ask)."""
    client, sequence = start(), iter(range(1, 1000))

    def ask(command: str, **arguments: Any) -> dict[str, Any]:
        return client.control("debug_request", {"type": "request", "seq": next(sequence), "command": command, "arguments": arguments})

    assert ask("initialize", clientID="test", adapterID="", pathFormat="path", linesStartAt1=True, columnsStartAt1=True)["success"]
    assert ask("attach")["success"]
    yield client, ask
    ask("disconnect", restart=False, terminateDebuggee=False)


def test_an_unknown_command_is_refused_and_blocks_nothing(session: Any) -> None:
    client, ask = session
    reply = ask("readMemory", memoryReference="0")
    assert reply["success"] is False
    assert reply["command"] == "readMemory"
    assert "unsupported" in reply["message"]
    assert ask("debugInfo")["body"]["isStarted"] is True
    assert client.run("1 + 1").text == "2"


def test_a_request_without_a_command_is_refused(session: Any) -> None:
    client, _ = session
    assert client.control("debug_request", {"type": "request", "seq": 999})["success"] is False


def test_a_breakpoint_in_a_cell_stops_there(session: Any) -> None:
    client, ask = session
    code = "import numpy as np\nx = np.arange(3.0)\ny = x * 2 + 1\nz = y.sum()\nz"
    path = ask("dumpCell", code=code)["body"]["sourcePath"]
    found = ask("setBreakpoints", source={"path": path}, breakpoints=[{"line": 4}], sourceModified=False)
    assert found["body"]["breakpoints"][0]["verified"]
    ask("configurationDone")
    message_id = client.send(code)
    thread = _stopped_thread(client)
    frames = ask("stackTrace", threadId=thread)["body"]["stackFrames"]
    assert (frames[0]["source"]["path"], frames[0]["line"]) == (path, 4)
    ask("setBreakpoints", source={"path": path}, breakpoints=[], sourceModified=False)
    assert ask("continue", threadId=thread)["success"]
    assert client.wait(message_id).text in ("9.0", "np.float64(9.0)")


def _stopped_thread(client: Any) -> int:
    deadline = time.monotonic() + 20
    while True:
        message = client.kc.get_iopub_msg(timeout=max(0.01, deadline - time.monotonic()))
        if message["msg_type"] == "debug_event" and message["content"]["event"] == "stopped":
            return message["content"]["body"]["threadId"]
