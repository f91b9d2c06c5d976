"""Messages of a comm are handled while a cell runs, when the front end sends them to a subshell."""

from __future__ import annotations

import time
from threading import Lock
from typing import Any

import pytest

OPEN = """
import time
from comm import create_comm
seen = []
channel = create_comm(target_name='bcvm-test')
channel.on_msg(lambda message: seen.append((message['content']['data'].get('n'), time.monotonic())))
channel.comm_id
"""
BUSY = """
print('go', flush=True)
end = time.monotonic() + 1.0
while time.monotonic() < end:
    time.sleep(0.01)
[n for n, at in seen if at < end]
"""


@pytest.fixture
def subshell(kernel: Any) -> Any:
    created = kernel.control("create_subshell_request", {})
    yield created["subshell_id"]
    kernel.control("delete_subshell_request", {"subshell_id": created["subshell_id"]})


def test_a_widget_answers_during_a_busy_cell(kernel: Any, subshell: str) -> None:
    comm_id = eval(kernel.run(OPEN).text or "")
    message_id = kernel.send(BUSY)
    kernel.wait_for_output(message_id, "go")
    for n in (1, 2, 3):
        message = kernel.kc.session.msg("comm_msg", {"comm_id": comm_id, "data": {"n": n}})
        message["header"]["subshell_id"] = subshell
        kernel.kc.shell_channel.send(message)
        time.sleep(0.05)
    assert kernel.wait(message_id).text == "[1, 2, 3]"


def test_a_comm_opened_by_the_front_end_answers_too(kernel: Any, subshell: str) -> None:
    kernel.run(
        "seen = []\n"
        "def opened(channel, message):\n"
        "    channel.on_msg(lambda m: seen.append((m['content']['data']['n'], time.monotonic())))\n"
        "    channel.send({'hello': 1})\n"
        "import time\n"
        "get_ipython().kernel.comm_manager.register_target('bcvm-front', opened)"
    )
    opening = kernel.kc.session.msg("comm_open", {"comm_id": "front-1", "target_name": "bcvm-front", "data": {}})
    kernel.kc.shell_channel.send(opening)
    message_id = kernel.send(BUSY)
    kernel.wait_for_output(message_id, "go")
    message = kernel.kc.session.msg("comm_msg", {"comm_id": "front-1", "data": {"n": 5}})
    message["header"]["subshell_id"] = subshell
    kernel.kc.shell_channel.send(message)
    assert kernel.wait(message_id).text == "[5]"


def test_an_answer_to_a_request_goes_to_the_shell_that_asked() -> None:
    from bcvm_kernel.comms import RoutedBaseComm

    channel = object.__new__(RoutedBaseComm)  # a real one needs a kernel
    channel._reply_subshell_lock = Lock()
    channel._reply_subshell_ids = {"r1": "subshell-a"}
    channel._reply_subshell_id = "subshell-a"  # what ipykernel would use for everything
    assert channel._reply_subshell_for({"content": {"id": "r1"}}, None) == "subshell-a"
    assert channel._reply_subshell_for({"content": {"id": "r1"}}, None) is None
    assert channel._reply_subshell_for({"method": "update", "state": {}}, "subshell-b") == "subshell-b"
    assert channel._reply_subshell_for("no dict", "subshell-b") == "subshell-b"
