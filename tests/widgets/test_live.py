"""Sending: at most so often, merged, nothing unchanged, and nothing at all while no view is open."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

comm = pytest.importorskip("comm", reason="the dashboard needs the extra `lab`")
pytest.importorskip("anywidget", reason="the dashboard needs the extra `lab`")
from comm.base_comm import BaseComm  # noqa: E402

from bcvm_core.tiers.clock import clock  # noqa: E402
from bcvm_widgets import Dashboard, dashboard, protocol, runs  # noqa: E402
from bcvm_widgets.pump import Pump  # noqa: E402

from .conftest import CELL, FUNCTION, Notebook  # noqa: E402


class Channel(BaseComm):
    """Keeps what the dashboard sends: when, and which states.

    A comm of ipykernel's (the factory of every process that has imported it, tests of the kernel for instance) would do for the kernel
    alone: outside of one a widget sends it nothing.
    """

    def __init__(self, sent: list[tuple[float, set[str]]], **opening: Any) -> None:
        self.sent = sent
        super().__init__(**opening)

    def publish_msg(self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any) -> None:
        if msg_type == "comm_msg" and data["method"] == "update":
            self.sent.append((time.monotonic(), set(data["state"])))


class Recorder:
    """A dashboard, and what it has sent."""

    def __init__(self, board: Dashboard, sent: list[tuple[float, set[str]]]) -> None:
        self.board = board
        self.sent = sent

    def command(self, name: str, view: str = "a", version: int = protocol.VERSION) -> None:
        self.board._receive(self.board, {"version": version, "command": name, "view": view, "cell": self.board.status["cell"]}, [])

    def kinds(self) -> set[str]:
        """What has been sent since the last call."""
        found: set[str] = set().union(*(kinds for _, kinds in self.sent))
        self.sent.clear()
        return found

    def wait(self, condition: Callable[[], bool], timeout_s: float = 30.0) -> bool:
        deadline = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.01)
        return condition()


@pytest.fixture
def live(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    sent: list[tuple[float, set[str]]] = []
    monkeypatch.setattr(comm, "create_comm", functools.partial(Channel, sent))
    notebook.run(FUNCTION)
    board = dashboard()
    yield Recorder(board, sent)
    board.close()


def test_without_a_view_nothing_runs_and_nothing_is_measured(live: Recorder, notebook: Notebook) -> None:
    notebook.run(CELL)
    time.sleep(0.25)
    assert live.sent == [] and not clock.on
    assert [thread for thread in threading.enumerate() if thread.name == "bcvm-dashboard"] == []
    assert live.board.listing["units"] == []  # not even looked at


def test_a_view_brings_it_to_life_and_the_last_one_to_rest(live: Recorder, notebook: Notebook) -> None:
    live.command("shown", "a")
    live.command("shown", "b")
    assert clock.on
    notebook.run(CELL)
    assert live.wait(lambda: bool(live.board.listing["units"]))
    live.command("hidden", "a")
    assert clock.on
    live.command("hidden", "b")
    assert not clock.on
    time.sleep(0.15)
    live.kinds()
    notebook.run(CELL)
    time.sleep(0.3)
    assert live.sent == []


def test_what_is_sent_is_merged_and_throttled(live: Recorder, notebook: Notebook) -> None:
    live.command("shown")
    notebook.run(CELL, finish=False)
    assert live.wait(lambda: bool(live.board.listing["units"]))  # the first look takes its time in a process this large
    live.kinds()
    started = time.monotonic()
    step, names = notebook.names["step"], notebook.names

    def sent_figures() -> int:
        return sum("figures" in kinds for _, kinds in live.sent)

    while time.monotonic() < started + 1.2 or (sent_figures() < 4 and time.monotonic() < started + 20):
        step(names["x"], names["w"])
    assert 4 <= sent_figures() <= (time.monotonic() - started) * protocol.MAX_RATE_HZ + 2
    gaps = [b - a for (a, _), (b, _) in zip(live.sent, live.sent[1:], strict=False)]
    assert min(gaps) > 0.8 / protocol.MAX_RATE_HZ
    figures = live.board.figures["units"]["function step"]["instructions"]
    assert max(n or 0 for n in figures["runs"]) > 100
    assert max(us or 0 for us in figures["total_us"]) > 0


def test_nothing_is_sent_when_nothing_changes(live: Recorder, notebook: Notebook) -> None:
    live.command("shown")
    notebook.run(CELL, finish=False)
    assert live.wait(lambda: bool(live.board.listing["units"]) and live.board.status["running"] and live.board.figures["kernels_us"] > 0)
    time.sleep(1.4)  # how regions were cut is sent once a second
    live.kinds()
    time.sleep(1.2)
    assert live.sent == []  # the cell runs on, doing nothing that counts
    notebook.session.finish()
    assert live.wait(lambda: not live.board.status["running"] and bool(live.sent))  # it is noted as sent a moment after it was set
    assert "status" in live.kinds()


def test_a_pause_keeps_the_picture_and_a_resume_catches_up(live: Recorder, notebook: Notebook) -> None:
    live.command("shown")
    notebook.run(CELL, finish=False)
    assert live.wait(lambda: bool(live.board.listing["units"]))
    live.command("pause")
    assert live.wait(lambda: bool(live.board.status["paused"]))
    time.sleep(0.1)  # what was set is noted as sent a moment later
    before = live.board.figures
    live.kinds()
    for _ in range(5):
        notebook.names["step"](notebook.names["x"], notebook.names["w"])
    time.sleep(0.3)
    assert live.kinds() == set() and live.board.figures == before
    live.command("resume")
    assert live.wait(lambda: live.board.figures != before)
    assert not live.board.status["paused"]


def test_commands_of_another_version_are_ignored(live: Recorder) -> None:
    live.command("shown", version=protocol.VERSION + 1)
    assert not clock.on


def test_stop_interrupts_only_a_running_cell(live: Recorder, notebook: Notebook, pythons_interrupts: None) -> None:
    def stop(*cell: int) -> None:
        thread = threading.Thread(target=live.board.stop, args=cell)
        thread.start()
        thread.join()

    notebook.run(CELL)
    stop()  # nothing runs
    notebook.run(CELL, finish=False)
    number = notebook.session.cells[-1].number
    stop(number - 1)  # a view that is late
    with pytest.raises(KeyboardInterrupt):
        stop(number)
        time.sleep(2)


def test_times_survive_a_cell_without_tensor_work(live: Recorder, notebook: Notebook) -> None:
    live.command("shown")
    notebook.run(CELL)
    assert live.wait(lambda: live.board.figures["kernels_us"] > 0)
    notebook.run("q = 'nothing'")
    time.sleep(0.3)
    assert live.board.figures["kernels_us"] > 0


def test_its_static_forms_are_those_of_the_report(live: Recorder, notebook: Notebook) -> None:
    notebook.run(CELL)
    data, _ = live.board._repr_mimebundle_()
    report = live.board.report()
    assert (data["text/plain"], data["text/html"]) == (str(report), report.html())
    assert "application/vnd.jupyter.widget-view+json" in data


def test_the_pump_keeps_its_pace_and_stops() -> None:
    ticks: list[float] = []

    def tick() -> bool:
        ticks.append(time.monotonic())
        return True

    pump = Pump(tick, interval_s=0.05)
    started = time.monotonic()
    pump.start()
    pump.start()
    for _ in range(40):
        pump.wake()
        time.sleep(0.01)
    pump.stop()
    time.sleep(0.12)
    seen = len(ticks)
    assert 4 <= seen <= 1 + (time.monotonic() - started) / 0.05  # a busy machine makes the loop longer
    time.sleep(0.15)
    assert len(ticks) == seen and not pump.running


def test_the_pump_sleeps_when_nothing_goes_on_until_it_is_woken() -> None:
    ticks: list[float] = []
    pump = Pump(lambda: ticks.append(time.monotonic()) is not None, interval_s=0.01, idle_s=30)
    pump.start()
    time.sleep(0.2)
    assert len(ticks) == 1
    pump.wake()
    time.sleep(0.1)
    assert len(ticks) == 2
    pump.stop()


def test_a_tick_that_fails_ends_nothing() -> None:
    ticks: list[int] = []

    def tick() -> bool:
        ticks.append(1)
        raise RuntimeError("broken")

    pump = Pump(tick, interval_s=0.01, idle_s=0.02)
    pump.start()
    time.sleep(0.3)
    pump.stop()
    assert len(ticks) > 2


def test_save_writes_the_run_beside_the_notebook_and_says_so(
    live: Recorder, notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    live.command("shown")
    notebook.run(CELL)
    assert live.wait(lambda: live.board.figures["call_op"] == 38)
    for name in ("run-1.json", "run-2.json"):
        live.command("save")
        assert live.wait(lambda name=name: live.board.status["said"] == f"saved as {name}")
    run = runs.read("run-2.json")
    assert run.sample().figures == live.board.figures and run.sample().figures["kernels_us"] > 0
    monkeypatch.setattr(runs.Run, "save", _refuse)
    live.command("save")
    assert live.wait(lambda: "cannot write run-3.json" in live.board.status["said"])


def _refuse(self: Any, path: Any) -> None:
    raise runs.RunError(f"cannot write {path}")


def test_a_replay_sends_its_run_to_a_view_that_asks_and_keeps_only_its_end(live: Recorder, notebook: Notebook, tmp_path: Path) -> None:
    live.command("shown")
    notebook.run(CELL)
    assert live.wait(lambda: live.board.figures["call_op"] == 38 and live.board.figures["kernels_us"] > 0)
    live.board.save(tmp_path / "run.json")
    replay = live.board.replay(tmp_path / "run.json")
    sent: list[tuple[Any, Any]] = []
    replay.send = lambda content, buffers: sent.append((content, buffers))
    replay._receive(replay, {"version": protocol.VERSION, "command": "frames"}, [])
    replay._receive(replay, {"version": 99, "command": "frames"}, [])
    ((content, (frames,)),) = sent
    assert content["frames"] is True and json.loads(frames)[0]["at_ms"] == 0
    assert replay.last["figures"] == live.board.figures and len(replay.get_state()["last"]) < 10
    data, _ = replay._repr_mimebundle_()
    assert data["text/html"] == replay.report().html() and "38 tensor ops" in data["text/plain"]
    replay.close()
