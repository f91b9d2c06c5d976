"""The debugger answers what it doesn't know, stops at breakpoints in cells, and lets the kernel go on."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

pytest.importorskip("debugpy")


@pytest.fixture(scope="module")
def session(start_for_module: Any) -> Any:
    """A kernel of its own with a debugger attached; returns (client, ask)."""
    client, sequence = start_for_module(), iter(range(1, 1000))

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


MALFORMED: list[dict[str, Any]] = [
    {},
    {"command": None},
    {"command": ["attach"]},
    {"command": {"evaluate": 1}},
    {"command": "noSuchCommand"},
    {"command": "evaluate"},
    {"command": "evaluate", "arguments": [1]},
    {"command": "evaluate", "arguments": {"expression": 5}},
    {"command": "continue"},
    {"command": "continue", "arguments": {"threadId": 1}},  # nothing has stopped
    {"command": "scopes", "arguments": "x"},
    {"command": "variables", "arguments": {"variablesReference": 9999}},
    {"command": "setBreakpoints"},
    {"command": "setBreakpoints", "arguments": {"source": {}}},
    {"command": "dumpCell", "arguments": {}},
    {"command": "source"},
    {"command": "richInspectVariables"},
    {"command": "copyToGlobals"},
    {"command": "launch"},
]


@pytest.mark.parametrize("message", MALFORMED, ids=lambda m: f"{m.get('command')}-{m.get('arguments', '')}")
def test_what_lacks_something_is_refused_at_once_and_blocks_nothing(session: Any, message: dict[str, Any]) -> None:
    client, ask = session
    reply = client.control("debug_request", {"type": "request", "seq": 77, **message}, timeout_s=5.0)
    assert (reply["type"], reply["request_seq"], reply["success"]) == ("response", 77, False)
    assert reply["message"]
    assert ask("threads")["success"]  # debugpy itself still answers


def test_before_it_has_started_nothing_is_forwarded(kernel: Any) -> None:
    for command in ("threads", "continue", "setBreakpoints", "attach", "disconnect"):
        reply = kernel.control("debug_request", {"type": "request", "seq": 5, "command": command, "arguments": {}}, timeout_s=5.0)
        assert (reply["success"], reply["message"]) == (False, "the debugger has not started")
    reply = kernel.control("debug_request", {"type": "request", "seq": 6, "command": "debugInfo"}, timeout_s=5.0)
    assert reply["success"] and reply["body"]["isStarted"] is False


class _Stream:
    """The way to debugpy, which answers some commands only."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.client: Any = None

    def send_request(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


async def _client() -> Any:
    from bcvm_kernel.debugger import AnsweredClient

    stream = _Stream()
    client = AnsweredClient(logging.getLogger("test"), stream, lambda event: None)
    client._send_request = stream.send_request  # type: ignore[method-assign]
    return client, stream


def test_each_answer_goes_to_its_request_and_late_ones_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from bcvm_kernel import debugger

    monkeypatch.setattr(debugger, "ANSWER_S", 0.05)

    def answer(client: Any, number: int, body: str) -> None:
        client.answers.put_nowait({"type": "response", "request_seq": number, "success": True, "body": body})

    async def talk() -> None:
        client, stream = await _client()
        silent = await client.send_dap_request({"seq": 40, "command": "threads"})
        assert (silent["success"], silent["request_seq"]) == (False, 40) and "has not answered" in silent["message"]
        two = [asyncio.ensure_future(client.send_dap_request({"seq": 41, "command": name})) for name in ("scopes", "source")]
        while len(stream.sent) < 3:
            await asyncio.sleep(0)
        numbers = {message["command"]: message["seq"] for message in stream.sent}
        answer(client, numbers["threads"], "too late")
        answer(client, numbers["source"], "of source")
        answer(client, numbers["scopes"], "of scopes")
        assert [(reply["request_seq"], reply["body"]) for reply in await asyncio.gather(*two)] == [(41, "of scopes"), (41, "of source")]

    asyncio.run(talk())


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
