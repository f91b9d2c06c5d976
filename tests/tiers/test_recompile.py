"""Tier 3 end to end: hot kernels, candidates, the exchange, what is dropped or abandoned, and that nobody waits."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from bcvm_core import config
from bcvm_core.codegen.search import backend, worker
from bcvm_core.codegen.stencils import arena, target
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.kernel import FusedKernel
from bcvm_core.events import FellBack, Recompiled, bus
from bcvm_core.readiness import ready
from bcvm_core.tiers import hot, recompile
from tests.in_threads import in_threads

N = 1 << 15
ADD_RELU_MUL = (Node("add", (0, 1)), Node("maximum", (2, Const(0))), Node("multiply", (3, 1)))
PLACE = "tests.tiers.backends"


@pytest.fixture(autouse=True, scope="module")
def _stencils() -> None:
    if target.host() is None or not ready():
        pytest.skip("no stencils for this processor")


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    """Everything is hot, nothing is known, and a worker of its own for every test."""
    hot.forget()
    recompile.figures.worker_cpu_s = 0.0
    with config.override(hot_threshold_ms=0.0, recompile=True):
        yield
    assert recompile.wait()
    worker.shared().stop()
    worker.shared().failures = 0


def kernel_of(nodes: tuple[Node, ...] = ADD_RELU_MUL, inputs: int = 2, outputs: tuple[int, ...] = (4,)) -> FusedKernel:
    made = FusedKernel(FusedGraph((Input("float32"),) * inputs, nodes, outputs))
    hot.watch(made, tuple(node.op for node in nodes))
    return made


def data(n: int = N) -> list[Any]:
    rng = np.random.default_rng(n)
    return [rng.normal(size=n).astype(np.float32) for _ in range(2)]


def until(kernel: FusedKernel, arrays: list[Any], state: str, calls: int = 4000) -> hot.Verdict:
    """Call a kernel until its class has got so far, and see that all results are alike."""
    expected = kernel(arrays).tobytes()  # type: ignore[union-attr]
    for _ in range(calls):
        assert kernel(arrays).tobytes() == expected  # type: ignore[union-attr]
        (found,) = kernel.heat.classes.values()  # type: ignore[union-attr]
        if found.verdict.state == state and found.race is None:
            return found.verdict
        if found.verdict.state == "searching":
            assert recompile.wait()
    raise AssertionError(kernel.heat.lines())  # type: ignore[union-attr]


@pytest.fixture
def easy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any candidate that is not ten times as slow is good enough: what is tested is the exchange, not the machine."""
    monkeypatch.setattr("bcvm_core.tiers.race.ENOUGH", 10.0)


@pytest.fixture
def hard(monkeypatch: pytest.MonkeyPatch) -> None:
    """No candidate is good enough."""
    monkeypatch.setattr("bcvm_core.tiers.race.ENOUGH", 0.001)


def test_ten_hot_runs_in_a_row_ask_for_candidates(hard: None) -> None:
    kernel, arrays = kernel_of(), data()
    for _ in range(hot.HOT_RUNS - 1):
        kernel(arrays)
    assert not hot.verdicts()
    kernel(arrays)
    assert recompile.wait()
    (verdict,) = hot.verdicts()
    assert verdict.ops == ("add", "maximum", "multiply") and verdict.state == "measuring"


def test_one_short_run_starts_the_count_again() -> None:
    kernel, arrays = kernel_of(), data()
    for _ in range(3):
        for _ in range(hot.HOT_RUNS - 1):
            kernel(arrays)
        with config.override(hot_threshold_ms=10_000.0):
            kernel(arrays)
    assert not hot.verdicts()


def test_a_winner_takes_the_place_with_the_same_bits(easy: None) -> None:
    seen: list[Any] = []
    remove = bus.subscribe(seen.append)
    try:
        kernel, arrays = kernel_of(), data()
        verdict = until(kernel, arrays, hot.KEPT)
    finally:
        remove()
    assert kernel.heat is not None and kernel.heat.recompiled
    assert "lanes" in verdict.reason and len(verdict.profile) == 3
    (event,) = [e for e in seen if isinstance(e, Recompiled)]
    assert event.kept and event.candidate and event.ops == verdict.ops and event.duration_us > 0
    spliced = FusedKernel(kernel.graph)
    for n in (1, 7, 31, 33, 64, 1000, N - 1, N, N + 1, 3 * N):
        x, b = data(n)
        x[::5], b[::7] = np.nan, -np.inf
        with np.errstate(all="ignore"):
            old, new = spliced.outcome([x, b]), kernel.outcome([x, b])
        assert old is not None and new is not None
        assert old[0][0].tobytes() == new[0][0].tobytes() and (bool(old[1]), old[2]) == (bool(new[1]), new[2])


def test_only_the_hot_class_is_exchanged(easy: None) -> None:
    kernel = kernel_of()
    until(kernel, data(), hot.KEPT)
    kernel(data(100))
    states = {bits: found.code is not None for (_, bits), found in kernel.heat.classes.items()}  # type: ignore[union-attr]
    assert states == {N.bit_length(): True, 7: False}


def test_what_is_not_worth_it_is_dropped_and_asked_for_less_often(hard: None) -> None:
    kernel, arrays = kernel_of(), data()
    verdict = until(kernel, arrays, hot.DROPPED)
    assert verdict.needed == 2 * hot.HOT_RUNS and len(verdict.profile) == 3 and not kernel.heat.recompiled  # type: ignore[union-attr]
    searches = recompile.figures.searches
    for _ in range(2 * hot.HOT_RUNS - 1):
        kernel(arrays)
    assert recompile.figures.searches == searches
    kernel(arrays)
    assert recompile.wait() and recompile.figures.searches == searches + 1


def test_a_rejection_outlives_its_kernel(hard: None) -> None:
    until(kernel_of(), data(), hot.DROPPED)
    gc.collect()
    again, arrays = kernel_of(), data()
    for _ in range(hot.HOT_RUNS):
        again(arrays)
    assert recompile.wait()
    (verdict,) = hot.verdicts()
    assert verdict.state == hot.DROPPED and verdict.needed == 2 * hot.HOT_RUNS
    assert any(hot.DROPPED in line for line in again.heat.lines())  # type: ignore[union-attr]


def test_a_kernel_that_goes_while_it_is_measured_leaves_the_way_free(easy: None) -> None:
    kernel, arrays = kernel_of(), data()
    for _ in range(hot.HOT_RUNS):
        kernel(arrays)
    assert recompile.wait()
    (verdict,) = hot.verdicts()
    assert verdict.state == "measuring"
    del kernel
    gc.collect()
    until(kernel_of(), arrays, hot.KEPT)
    assert verdict.state == hot.KEPT


def test_a_kernel_that_goes_while_candidates_are_made_is_forgotten(monkeypatch: pytest.MonkeyPatch, easy: None) -> None:
    asked, answered = threading.Event(), threading.Event()
    request = worker.Worker.request

    def late(self: worker.Worker, *args: Any) -> Any:
        asked.set()
        answered.wait(30)
        return request(self, *args)

    monkeypatch.setattr(worker.Worker, "request", late)
    kernel, arrays = kernel_of(), data()
    for _ in range(hot.HOT_RUNS):
        kernel(arrays)
    assert asked.wait(30)
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None
    answered.set()
    assert recompile.wait()
    assert not hot.verdicts()
    until(kernel_of(), arrays, hot.KEPT)


def settled_at(good: Callable[[int], bool]) -> bool:
    """Whether the memory in use becomes what it should be: threads let go of their last call a moment after it."""
    for _ in range(100):
        gc.collect()
        if good(arena.shared().used_bytes):
            return True
        time.sleep(0.01)
    return False


def test_memory_of_the_code_goes_with_the_kernel(easy: None) -> None:
    spliced = kernel_of()
    gc.collect()
    time.sleep(0.1)
    before = arena.shared().used_bytes
    kernel = kernel_of()  # shares the spliced code
    until(kernel, data(), hot.KEPT)
    assert settled_at(lambda used: before < used < before + 65536)
    del kernel
    assert settled_at(lambda used: used == before)
    del spliced


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Crashes", "compile_crash"), ("CrashesWhenRun", "compile_crash"), ("Ends", "compile_crash"), ("Hangs", "compile_timeout")],
)
def test_a_compile_that_crashes_or_hangs_is_abandoned(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompile, "DEADLINE_S", 0.5)
    backend.register(name, f"{PLACE}:{name}")
    seen: list[Any] = []
    remove = bus.subscribe(seen.append)
    with config.override(search=name):
        kernel, arrays = kernel_of(), data()
        verdict = until(kernel, arrays, hot.ABANDONED)
    remove()
    assert verdict.reason.startswith(kind) and verdict.needed == 2 * hot.HOT_RUNS
    assert [e.reason for e in seen if isinstance(e, FellBack)] == [verdict.reason]
    assert worker.shared().pid is None


def test_after_a_crash_the_next_search_has_a_new_worker(easy: None) -> None:
    backend.register("crashes", f"{PLACE}:Crashes")
    with config.override(search="crashes"):
        until(kernel_of(), data(), hot.ABANDONED)
    until(kernel_of((Node("subtract", (0, 1)), Node("multiply", (2, 1))), 2, (3,)), data(), hot.KEPT)
    assert worker.shared().failures == 1


def test_a_worker_that_always_fails_is_not_started_for_ever() -> None:
    backend.register("crashes", f"{PLACE}:Crashes")
    worker.shared().failures = worker.RESTARTS + 1
    with config.override(search="crashes"):
        verdict = until(kernel_of(), data(), hot.ABANDONED)
    assert verdict.reason.startswith("compile_unavailable") and worker.shared().pid is None


def test_candidates_with_other_bits_are_never_used(easy: None) -> None:
    backend.register("wrong", f"{PLACE}:Wrong")
    with config.override(search="wrong"):
        kernel, arrays = kernel_of(), data()
        verdict = until(kernel, arrays, hot.DROPPED)
    assert not kernel.heat.recompiled  # type: ignore[union-attr]
    reasons = "\n".join(verdict.profile)
    assert "subtracts: [REJECTED] other bits" in reasons and "idle: [REJECTED] other bits" in reasons
    assert "overruns: [REJECTED] it wrote beyond the end" in reasons


def test_a_fault_of_a_back_end_is_a_reason() -> None:
    backend.register("raises", f"{PLACE}:Raises")
    with config.override(search="raises"):
        verdict = until(kernel_of(), data(), hot.DROPPED)
    assert "KeyError: 'schedule'" in verdict.profile[0]


def test_no_more_than_three_candidates_are_looked_at(easy: None) -> None:
    backend.register("same", f"{PLACE}:Same")
    with config.override(search="same"):
        verdict = until(kernel_of(), data(), hot.KEPT)
    assert [line.partition(" (")[0] for line in verdict.profile] == ["copy 0", "copy 1", "copy 2"]


def test_a_back_end_that_nobody_knows_is_a_reason() -> None:
    with config.override(search="nobody"):
        verdict = until(kernel_of(), data(), hot.ABANDONED)
    assert "nobody" in verdict.reason and "llvm" in verdict.reason
    with pytest.raises(ValueError, match="module:attribute"):
        backend.register("half", "module")


def test_no_call_waits_for_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompile, "DEADLINE_S", 1.5)
    backend.register("hangs", f"{PLACE}:Hangs")
    with config.override(search="hangs"):
        kernel, arrays = kernel_of(), data()
        started = time.monotonic()
        for _ in range(100):
            kernel(arrays)
        spent = time.monotonic() - started
        (verdict,) = hot.verdicts()
        assert verdict.state == "searching" and spent < 1.0


def test_the_worker_may_use_a_twentieth_of_the_time(easy: None) -> None:
    kernel, arrays = kernel_of(), data()
    recompile.figures.worker_cpu_s = 1e6
    postponed = recompile.figures.postponed
    for _ in range(hot.HOT_RUNS):
        kernel(arrays)
    assert recompile.wait()
    assert recompile.figures.postponed == postponed + 1 and not hot.verdicts()
    recompile.figures.worker_cpu_s = 0.0
    until(kernel, arrays, hot.KEPT)


def test_threads_share_the_exchange(easy: None) -> None:
    kernel, arrays = kernel_of(), data()
    expected = kernel(arrays).tobytes()  # type: ignore[union-attr]
    wrong: list[int] = []

    def work() -> None:
        for k in range(300):
            if kernel(arrays).tobytes() != expected:  # type: ignore[union-attr]
                wrong.append(k)

    for _ in range(4):
        in_threads(4, lambda _: work())
        assert recompile.wait()
    assert not wrong
    until(kernel, arrays, hot.KEPT)


def test_switched_off_nothing_is_counted() -> None:
    with config.override(recompile=False):
        kernel, arrays = kernel_of(), data()
        assert kernel.heat is None
        for _ in range(2 * hot.HOT_RUNS):
            kernel(arrays)
    assert not hot.verdicts()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_a_worker_of_its_own(easy: None) -> None:
    until(kernel_of(), data(), hot.KEPT)
    parents = worker.shared().pid
    pid = os.fork()
    if not pid:
        status = 1
        try:
            assert worker.shared().pid is None
            until(kernel_of((Node("multiply", (0, 1)), Node("add", (2, 1))), 2, (3,)), data(), hot.KEPT)
            status = 0 if worker.shared().pid not in (None, parents) else 2
            worker.shared().close()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert worker.shared().pid == parents
    until(kernel_of((Node("subtract", (0, 1)), Node("add", (2, 1))), 2, (3,)), data(), hot.KEPT)


def test_a_worker_that_is_killed_is_a_crash(easy: None) -> None:
    until(kernel_of(), data(), hot.KEPT)
    pid = worker.shared().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    until(kernel_of((Node("multiply", (0, 1)), Node("subtract", (2, 1))), 2, (3,)), data(), hot.KEPT)
    assert worker.shared().pid not in (None, pid)


_ENDING = """
import os
from bcvm_core.codegen.search import worker
shared = worker.shared()
try:
    shared.request("tests.tiers.backends:Nothing", None, 20.0)
except worker.WorkerError:
    pass
shared._start()
print(shared.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_worker_ends_with_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", _ENDING], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]:
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the worker lives on")
