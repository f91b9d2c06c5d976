"""The cache view through a real kernel: kernels and evictions while a cell runs, and buttons that act on the cache meanwhile."""

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
import bcvm_core as bcvm
import bcvm_widgets
assert bcvm.ready()
def act(x):
    return np.tanh(np.maximum(x * 2.0, 0.0) + 1.0)
def rest(x):
    return np.minimum(x - 3.0, 1.0) * 0.5
bcvm.cache.clear()
board = bcvm_widgets.dashboard()
board.model_id
"""
BUSY = """
x = np.ones((16, 16), np.float32)
wanted = act(x).tobytes(), rest(x).tobytes()
right = True
print('go', flush=True)
while not os.path.exists({end!r}):
    right &= (act(x).tobytes(), rest(x).tobytes()) == wanted
right
"""
ACT, REST = "multiply+maximum+add+tanh", "subtract+minimum+multiply"


class Front:
    """The front end's side: `cache` is the latest message, `answers` are those that came. Commands go to a subshell."""

    def __init__(self, kernel: Any, comm_id: str, subshell: str) -> None:
        self.kernel, self.comm_id, self.subshell = kernel, comm_id, subshell
        self.cache: dict[str, Any] = {}
        self.answers: list[dict[str, Any]] = []
        self.updates = 0

    def send(self, command: str, **more: Any) -> None:
        content = {"version": protocol.VERSION, "command": command, "view": "test", "cell": 0, "key": "", "size": 1, "ttl_s": 0.0, **more}
        message = self.kernel.kc.session.msg("comm_msg", {"comm_id": self.comm_id, "data": {"method": "custom", "content": content}})
        message["header"]["subshell_id"] = self.subshell
        self.kernel.kc.shell_channel.send(message)

    def hear(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = self.kernel.kc.get_iopub_msg(timeout=left)
            except queue.Empty:
                return
            content = message["content"]
            if message["msg_type"] != "comm_msg" or content["comm_id"] != self.comm_id:
                continue
            data = content["data"]
            if data["method"] == "update" and "cache" in data["state"]:
                self.cache, self.updates = data["state"]["cache"], self.updates + 1
            elif data["method"] == "custom":
                self.answers.append(data["content"])

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"{what}: not within 30 s; {self.cache}, {self.answers}")
            self.hear(0.1)

    def answer(self, command: str, **more: Any) -> dict[str, Any]:
        count = len(self.answers)
        self.send(command, **more)
        self.wait(lambda: len(self.answers) > count, f"an answer to {command}")
        return self.answers[-1]

    def row(self, label: str) -> dict[str, Any] | None:
        return next((row for row in self.cache.get("rows", ()) if row["label"] == label), None)

    def name(self, label: str) -> str:
        found = self.row(label)
        assert found is not None
        return str(found["name"])


@pytest.fixture
def front(kernel: Any) -> Iterator[Front]:
    subshell = kernel.control("create_subshell_request", {})["subshell_id"]
    out = Front(kernel, eval(kernel.run(BEGIN).text or ""), subshell)
    yield out
    kernel.run("board.close()\nfrom bcvm_core.cache.memory import code_cache\ncode_cache._pins.clear()")
    kernel.control("delete_subshell_request", {"subshell_id": subshell})


def test_its_buttons_act_while_a_cell_is_busy(kernel: Any, front: Front, tmp_path: Path) -> None:
    end = tmp_path / "end"
    front.send("shown")
    message_id = kernel.send(BUSY.format(end=str(end)))
    kernel.wait_for_output(message_id, "go")
    started = time.monotonic()
    front.wait(lambda: front.row(ACT) is not None and front.row(REST) is not None, "the kernels")
    hits = front.row(ACT)["hits"]  # type: ignore[index]
    front.wait(lambda: front.row(ACT)["hits"] > hits and front.row(ACT)["state"] == "running", "more hits")  # type: ignore[index]

    assert front.answer("pin", key=front.name(ACT))["done"]
    front.wait(lambda: bool(front.row(ACT)["pinned"]), "the pin")  # type: ignore[index]
    refused = front.answer("evict", key=front.name(ACT))
    assert not refused["done"] and "pinned" in refused["text"]
    cleared = front.answer("clear")
    assert cleared["done"] and "evicted" in cleared["text"]
    front.wait(lambda: any(gone["reason"] == "cleared" and gone["label"] == REST for gone in front.cache["gone"]), "the eviction")
    assert not any(gone["label"] == ACT and gone["reason"] == "cleared" and gone["lived_s"] < 30 for gone in front.cache["gone"])
    front.wait(lambda: front.row(REST) is not None, "the next call makes it again")

    asked = front.answer("whatif", size=1, ttl_s=300.0)["what_if"]
    assert asked["calls"] > 40 and asked["size"] == 1 and asked["hits"] + asked["spliced"] == asked["calls"]
    assert front.answer("unpin", key=front.name(ACT))["done"]
    assert not front.answer("unpin", key="nothing")["done"]
    end.touch()
    assert front.updates <= protocol.MAX_RATE_HZ * (time.monotonic() - started) + 3
    assert kernel.wait(message_id).text == "True", "no result was touched"


def test_what_goes_is_told_and_nothing_when_closed(kernel: Any, front: Front) -> None:
    front.send("shown")
    kernel.run(
        "with bcvm.override(cache_size=1):\n    for _ in range(3):\n        act(np.ones(3, np.float32)); rest(np.ones(3, np.float32))"
    )
    front.wait(lambda: sum(front.cache.get("evictions", {}).values()) >= 4, "the evictions")
    assert {gone["reason"] for gone in front.cache["gone"][:4]} == {"too many"}
    assert front.cache["misses"]["evicted: too many"] >= 4
    front.hear(1.5)
    front.send("hidden")
    time.sleep(0.5)
    front.hear(0.2)
    before = front.updates
    kernel.run("act(np.ones(3, np.float32))")
    front.hear(0.7)
    assert front.updates == before
    assert kernel.run("from bcvm_core.tiers.recorded import recorded\nrecorded.on").text == "False"
