"""What a front end asks of a subshell is answered while a cell is busy: completion, inspection, history, running something short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

BUSY = {
    "python": "while True: pass",
    "native": "time.sleep(60)",
    "tensors": "x = np.ones(1000)\nwhile True: x = np.tanh(x * 0.5 + 1) - x",
    "kernel": "while True: big @ big",
    "await": "await asyncio.sleep(60)",
}
SETUP = """
import asyncio, time
import numpy as np
big = np.ones((6000, 6000))
value_of_mine = np.arange(3.0)
def my_function(x):
    'what it does'
    return x * 2 + 1
"""
WHILE_BUSY_S = 45.0  # the cells are busy for longer; Jedi reads all of NumPy at its first question about it

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def client(start_for_module: Any) -> Any:
    client = start_for_module()
    client.run(SETUP)
    return client


@pytest.fixture
def ask(client: Any, request: pytest.FixtureRequest) -> Iterator[Ask]:
    """Ask a subshell while the main one runs the cell `request.param`."""
    subshell = client.control("create_subshell_request", {})["subshell_id"]
    busy = client.send("print('go', flush=True)\n" + BUSY[request.param])
    client.wait_for_output(busy, "go")

    def send(kind: str, **content: Any) -> dict[str, Any]:
        message = client.kc.session.msg(kind, content)
        message["header"]["subshell_id"] = subshell
        client.kc.shell_channel.send(message)
        return client.reply(message["header"]["msg_id"], time.monotonic() + WHILE_BUSY_S)["content"]

    yield send
    client.manager.interrupt_kernel()
    assert client.wait(busy).status == "error"
    client.control("delete_subshell_request", {"subshell_id": subshell})


def _matches(ask: Ask, code: str) -> set[str]:
    return set(ask("complete_request", code=code, cursor_pos=len(code))["matches"])


def _found(ask: Ask, code: str) -> str:
    reply = ask("inspect_request", code=code, cursor_pos=len(code), detail_level=0)
    assert reply["found"]
    return str(reply["data"]["text/plain"])


@pytest.mark.parametrize("ask", BUSY, indirect=True)
def test_answers_while_a_cell_is_busy(ask: Ask) -> None:
    assert {"value_of_mine"} <= _matches(ask, "value_of")
    assert {"sum", "shape"} <= _matches(ask, "value_of_mine.s")
    assert _matches(ask, "%bcvm st") == {"stats", "status"}
    assert _matches(ask, "%%bcvm --st") == {"--strict", "--stats"}
    assert "my_function" in _matches(ask, "%bcvm dis ")
    assert "what it does" in _found(ask, "my_function")
    assert "Look into the tensor bytecode" in _found(ask, "%bcvm")
    assert ask("is_complete_request", code="for i in x:")["status"] == "incomplete"
    assert ask("history_request", hist_access_type="tail", n=1, raw=True, output=False)["status"] == "ok"
    run = {"silent": False, "store_history": False, "allow_stdin": False, "stop_on_error": True}
    reply = ask("execute_request", code="y = my_function(value_of_mine)", user_expressions={"y": "y.tolist()"}, **run)
    assert reply["user_expressions"]["y"]["data"]["text/plain"] == "[1.0, 3.0, 5.0]"
