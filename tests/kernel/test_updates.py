"""Floods (case c70): widget updates that wait are merged, the dashboard's are throttled, and the kernel answers at once."""

from __future__ import annotations

import time
from typing import Any

import pytest

zmq = pytest.importorskip("zmq")
pytest.importorskip("anywidget", reason="the dashboard needs the extra `lab`")

from jupyter_client.session import Session  # noqa: E402

from bcvm_kernel import updates  # noqa: E402
from bcvm_kernel.updates import Waiting, widget_state  # noqa: E402

# --- the rule -----------------------------------------------------------------------------------


class Traffic:
    """Messages of a front end on their way through `Waiting`."""

    def __init__(self) -> None:
        self.session = Session(key=b"secret")
        self.waiting = Waiting(self.session.clone())

    def frames(self, kind: str, content: dict[str, Any], shell: str | None = None, buffers: Any = None) -> list[Any]:
        message = self.session.msg(kind, content)
        message["header"]["subshell_id"] = shell
        message["buffers"] = buffers or []
        parts = self.session.serialize(message, b"front")
        return [zmq.Frame(part) for part in [*parts, *(buffers or [])]]

    def update(self, comm: str, shell: str | None = None, **state: Any) -> list[Any]:
        return self.admit("comm_msg", {"comm_id": comm, "data": {"method": "update", "state": state, "buffer_paths": []}}, shell)

    def admit(self, kind: str, content: dict[str, Any], shell: str | None = None, buffers: Any = None) -> list[Any]:
        found, now = self.waiting.admit(self.frames(kind, content, shell, buffers))
        assert found == shell
        return [self.read(frames) for frames in now]

    def read(self, frames: list[Any]) -> Any:
        _, parts = self.session.feed_identities(frames, copy=False)
        message = self.session.unpack(parts[1].bytes)["msg_type"], self.session.unpack(parts[4].bytes)
        return message[1]["data"]["state"] if message[0] == "comm_msg" and "state" in message[1]["data"] else message[0]

    def next(self, shell: str | None = None, *, handled: bool = True) -> Any:
        if handled:
            self.waiting.handled(shell)
        found = self.waiting.next(shell)
        return None if found is None else self.read(found)


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Traffic:
    monkeypatch.setattr(updates, "MAX_RATE_HZ", 1e9)
    return Traffic()


def test_one_update_at_a_time_and_newer_ones_replace_those_that_wait(traffic: Traffic) -> None:
    assert traffic.update("a", value=1) == [{"value": 1}]
    assert traffic.update("a", value=2) == []
    assert traffic.update("a", value=3) == []
    assert [self["content"] and self["header"]["msg_type"] for self in traffic.waiting.dropped] == ["comm_msg"]
    assert traffic.next() == {"value": 3}
    assert traffic.next() is None
    assert traffic.update("a", value=4) == [{"value": 4}]


def test_what_a_newer_one_does_not_set_is_kept(traffic: Traffic) -> None:
    traffic.update("a", value=1)
    traffic.update("a", value=2, max=9)
    traffic.update("a", value=3)
    assert traffic.waiting.dropped == []
    traffic.update("a", value=4)
    assert [traffic.next(), traffic.next(), traffic.next()] == [{"value": 2, "max": 9}, {"value": 4}, None]


def test_widgets_and_shells_do_not_replace_one_another(traffic: Traffic) -> None:
    traffic.update("a", value=1)
    traffic.update("a", value=2)
    traffic.update("b", value=3)
    traffic.update("a", value=4)
    assert traffic.update("a", shell="s", value=5) == [{"value": 5}]
    assert [traffic.next(), traffic.next(), traffic.next()] == [{"value": 3}, {"value": 4}, None]


@pytest.mark.parametrize(
    ("kind", "content", "buffers"),
    [
        ("execute_request", {"code": "1"}, None),
        ("comm_msg", {"comm_id": "a", "data": {"method": "custom", "content": {}}}, None),
        ("comm_msg", {"comm_id": "a", "data": {"method": "update", "state": {"v": 0}, "buffer_paths": [["v"]]}}, [b"\x00"]),
        ("comm_close", {"comm_id": "a", "data": {}}, None),
    ],
)
def test_other_messages_wait_for_nothing_and_pass_nothing(traffic: Traffic, kind: str, content: Any, buffers: Any) -> None:
    traffic.update("a", value=1)
    traffic.update("a", value=2)
    traffic.update("b", value=3)
    now = traffic.admit(kind, content, buffers=buffers)
    assert now[:2] == [{"value": 2}, {"value": 3}] and len(now) == 3
    assert traffic.update("a", value=4) == []  # three are on their way
    assert [traffic.next(), traffic.next(), traffic.next()] == [None, None, {"value": 4}]


def test_a_widget_is_updated_at_most_so_often() -> None:
    traffic = Traffic()
    assert traffic.update("a", value=1) == [{"value": 1}]
    traffic.waiting.handled(None)
    assert traffic.update("a", value=2) == []
    assert traffic.update("b", value=3) == [{"value": 3}]
    assert traffic.waiting.delay(None) is None  # the shell has something to do
    traffic.waiting.handled(None)
    delay = traffic.waiting.delay(None)
    assert delay is not None and 0 < delay <= 1 / updates.MAX_RATE_HZ
    time.sleep(delay + 0.001)
    assert traffic.next(handled=False) == {"value": 2}


def test_messages_that_are_wrong_are_passed_on(traffic: Traffic) -> None:
    forged = traffic.frames("comm_msg", {"comm_id": "a", "data": {"method": "update", "state": {"v": 1}, "buffer_paths": []}})
    forged[2] = zmq.Frame(b"0" * 64)  # the signature
    traffic.update("a", v=0)
    traffic.update("a", v=2)
    assert [len(frames) > 0 for frames in traffic.waiting.admit(forged)[1]][-1]
    assert traffic.waiting.admit([zmq.Frame(b"nonsense")])[1] != []


@pytest.mark.parametrize("content", [None, {}, {"data": None}, {"data": {"method": "update"}}, {"data": {"method": "update", "state": 3}}])
def test_only_plain_updates_are_updates(content: Any) -> None:
    assert widget_state(content, []) is None


# --- case c70 in a kernel -----------------------------------------------------------------------

SETUP = """
import time
import numpy as np
import ipywidgets
import bcvm_core as bcvm
from bcvm_widgets import dashboard

@bcvm.jit
def f(x):
    return x + 1

x = np.ones(4)
slider, runs, arrived = ipywidgets.IntSlider(max=1000), [], []
slider.observe(lambda change: runs.append((time.monotonic(), change["new"])), "value")
waiting = get_ipython().kernel._waiting
admit = waiting.admit
waiting.admit = lambda frames: (arrived.append(time.monotonic()) if b'comm_msg' in frames[3].bytes else None, admit(frames))[1]
board = dashboard(f)
board.model_id, slider.model_id
"""
BUSY = """
print("go", flush=True)
until, n = time.monotonic() + 2, 0
while n < 20000 or time.monotonic() < until:
    x = f(x)
    n += 1
n
"""
FLOOD = 200


@pytest.mark.slow
@pytest.mark.parametrize("through_a_subshell", [True, False])
def test_c70_a_flood_of_updates(start: Any, through_a_subshell: bool) -> None:
    client = start()
    subshell = client.control("create_subshell_request", {})["subshell_id"] if through_a_subshell else None
    board, slider = eval(client.run(SETUP).text)

    def send(comm: str, data: dict[str, Any]) -> None:
        message = client.kc.session.msg("comm_msg", {"comm_id": comm, "data": data})
        message["header"]["subshell_id"] = subshell
        client.kc.shell_channel.send(message)

    send(board, {"method": "custom", "content": {"version": 1, "command": "shown", "view": "test", "cell": 0}})
    client.run("time.sleep(0.3)")
    seen = _watch_updates(client)
    busy = client.send(BUSY)
    client.wait_for_output(busy, "go")
    began = time.monotonic()
    for n in range(FLOOD):
        send(slider, {"method": "update", "state": {"value": n + 1}, "buffer_paths": []})
        time.sleep(max(0.0, began + (n + 1) / FLOOD - time.monotonic()))
    outcome = client.wait(busy)
    assert outcome.status == "ok"
    calls = int(outcome.text)
    assert calls >= 20_000

    asked = time.monotonic()
    assert client.run("1 + 1").text == "2"
    assert time.monotonic() - asked < 0.3

    client.run("time.sleep(1.5)")
    assert _busiest_second([at for at, _ in seen]) <= 30
    states = [data["state"] for _, data in seen if data["comm_id"] == board and "figures" in data["state"]]
    assert states[-1]["figures"]["call_op"] == calls
    assert max(n or 0 for n in states[-1]["figures"]["units"]["function f"]["instructions"]["runs"]) == calls

    values, after = eval(client.run("[v for _, v in runs], sum(at > arrived[-1] for at, _ in runs)").text)
    assert values[-1] == FLOOD and values == sorted(set(values))
    assert after <= 2
    assert client.run("slider.value").text == str(FLOOD)


def test_c70_an_update_that_fails_breaks_no_cell(kernel: Any) -> None:
    assert kernel.run(SETUP.partition("waiting = ")[0] + "board = dashboard(f)").status == "ok"
    kernel.run("board._sampler.sample = lambda: 1 / 0\nboard._receive(board, dict(version=1, command='shown', view='v', cell=0), [])")
    out = kernel.run("for _ in range(1000):\n    x = f(x)\ntime.sleep(0.3)\nfloat(x[0])")
    assert (out.status, out.text, out.stdout, out.stderr) == ("ok", "1001.0", "", "")
    assert kernel.run("board.close()").status == "ok"


def _watch_updates(client: Any) -> list[tuple[float, dict[str, Any]]]:
    """Every widget update that the client reads from now on: when it was sent, and what it says."""
    seen: list[tuple[float, dict[str, Any]]] = []
    plain = client.kc.get_iopub_msg

    def spy(**options: Any) -> dict[str, Any]:
        message = plain(**options)
        content = message["content"]
        if message["msg_type"] == "comm_msg" and "state" in content["data"]:
            seen.append((message["header"]["date"].timestamp(), {**content["data"], "comm_id": content["comm_id"]}))
        return message

    client.kc.get_iopub_msg = spy
    return seen


def _busiest_second(times: list[float]) -> int:
    times = sorted(times)
    return max((sum(t <= other < t + 1 for other in times) for t in times), default=0)
