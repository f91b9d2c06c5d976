"""Profiles: what they count is what ran, at its place and tier; outside a block nothing of them runs."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core.codegen.stencils import notes
from bcvm_core.profiler import COUNTERS, Profile
from bcvm_core.vm.latency import latency
from bcvm_core.vm.region import Region
from tests.vm.native_support import warmed

X = np.linspace(-3.0, 3.0, 24, dtype=np.float32).reshape(4, 6)


@pytest.fixture(scope="module", autouse=True)
def _stencils() -> None:
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")


def fused() -> Callable[..., Any]:
    def f(x: Any, b: Any) -> Any:
        return np.maximum(x + b, 0) * 2.0

    return bcvm.jit(f)


def mixed() -> Callable[..., Any]:
    def g(x: Any, y: Any) -> Any:
        return (x @ y).max()

    return bcvm.jit(g)


def python_calls(function: Callable[..., Any], *args: Any) -> list[str]:
    """The Python functions that a call runs."""
    seen: list[str] = []

    def look(frame: Any, event: str, _arg: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_qualname)

    sys.setprofile(look)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return seen


def test_off_a_warm_call_runs_no_python_function() -> None:
    f = fused()
    warmed(f, X, X)
    before = python_calls(f, X, X)
    with bcvm.profile():
        f(X, X)
    after = python_calls(f, X, X)
    assert before == after == ["fused.<locals>.f"]


def test_on_machine_code_times_itself() -> None:
    f = fused()
    region = warmed(f, X, X)
    hits = region.native.hits  # type: ignore[union-attr]
    with bcvm.profile() as p:
        assert python_calls(f, X, X) == ["fused.<locals>.f"]
        for _ in range(9):
            f(X, X)
    assert region.native.hits == hits + 10  # type: ignore[union-attr]
    (row,) = [row for row in p.rows if row.where.startswith("fused.<locals>.f")]
    assert (row.op, row.tier, row.calls) == ("add+maximum+multiply", 2, 10)
    assert 0 < row.total_us < p.as_dict()["wall_us"]


def test_calls_and_times_per_site_tier_and_region() -> None:
    g = mixed()
    y = np.ascontiguousarray(X.T)
    with bcvm.profile() as p:
        for _ in range(7):
            g(X, y)
    rows = {row.op: row for row in p.rows}
    assert {op: (row.tier, row.calls) for op, row in rows.items()} == {"matmul": (1, 7), "max": (1, 7)}
    assert rows["matmul"].kernel == "matmul.blas"
    assert rows["matmul"].where == f"mixed.<locals>.g ({Path(__file__).name}:{g.__code__.co_firstlineno + 1})"
    assert all(0 < row.mean_us <= row.longest_us for row in rows.values())
    (region,) = p.regions
    assert region.calls == 7 and region.total_us > sum(row.total_us for row in p.rows)
    assert p.tiers()[1].count == 14 and p.tiers()[2].count == 0


def test_compile_work_is_counted_once_and_only_in_the_block() -> None:
    f, g = fused(), mixed()
    warmed(f, X, X)
    g(X, X.T)
    with bcvm.profile() as p:
        f(X, X)
        g(X, X.T)
    found = p.as_dict()
    assert found["counts"]["bcvm_fusion_compile_time"] == found["counts"]["bcvm_kernel_select_time"] == 0
    assert found["chosen_again"]["count"] == 2
    with bcvm.profile() as p:
        f(X.astype(np.float64), X.astype(np.float64))
        g(X.astype(np.float64), X.T.astype(np.float64))
    found = p.as_dict()
    assert found["counts"]["bcvm_fusion_compile_time"] == 1
    assert found["counts"]["bcvm_kernel_select_time"] == 2
    assert found["bcvm_fusion_compile_time"] > 0 < found["bcvm_kernel_select_time"]
    fused()(X, X)
    assert p.as_dict() == found


def test_what_is_left_to_python_is_counted_with_its_reason() -> None:
    g = mixed()
    strange = np.array([[1, 2]], object)
    with bcvm.profile() as p:
        for _ in range(2):
            g(strange, strange.T)
    (reason,) = p.handed_back
    assert p.handed_back[reason] == 2
    assert reason in p.table()


def test_the_three_counters_have_their_names() -> None:
    assert {"bcvm_kernel_select_time", "bcvm_fusion_compile_time", "bcvm_recompile_time"} <= set(COUNTERS)
    from bcvm_core.events import Recompiled, bus

    with bcvm.profile() as p:
        bus.emit(Recompiled(("add", "exp"), kept=False, reason="8% faster, 15% are wanted", duration_us=1500.0))
    assert p.as_dict()["bcvm_recompile_time"] == 1500.0
    assert "bcvm_recompile_time" in p.table() and "1.500 ms" in p.table()


def test_a_trace_holds_every_call_and_all_compile_work(tmp_path: Path) -> None:
    f, g = fused(), mixed()
    with bcvm.profile() as p:
        for _ in range(20):
            f(X, X)
            g(X, X.T)
    p.chrome_trace(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert {"pid", "tid", "cat", "name", "ts", "dur"} <= set(slices[0])
    calls = [event for event in slices if event["cat"] == "region"]
    assert len(calls) == 40
    assert {event["name"].partition(": ")[2] for event in calls} == {"add+maximum+multiply", "matmul+max"}
    assert {event["cat"] for event in slices} == {"region", "bcvm_kernel_select_time", "bcvm_fusion_compile_time", "bcvm_binding_time"}
    wall = p.as_dict()["wall_us"]
    assert all(event["dur"] >= 0 and event["ts"] > -1e5 and event["ts"] + event["dur"] <= wall for event in slices)
    for name, total in document["otherData"].items():
        assert name == "lost_calls" or total == p.as_dict()[name]


def test_more_calls_than_machine_code_has_room_for_lose_none() -> None:
    f = fused()
    warmed(f, X, X)
    count = 2 * notes.ROOM + 100
    with bcvm.profile() as p:
        for _ in range(count):
            f(X, X)
    assert len(p._calls) == sum(row.calls for row in p.regions) == count
    assert p.lost_calls == 0
    with bcvm.profile(max_calls=50) as p:
        for _ in range(60):
            f(X, X)
    assert (len(p._calls), p.lost_calls, p.regions[0].calls) == (50, 10, 60)


def test_threads_are_told_apart(tmp_path: Path) -> None:
    f = fused()
    warmed(f, X, X)
    with bcvm.profile() as p:
        threads = [threading.Thread(target=lambda: [f(X, X) for _ in range(50)]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        f(X, X)
    assert len(p._calls) == 151
    assert threading.get_ident() in {call.thread for call in p._calls}


def test_blocks_nest_and_each_counts_its_own() -> None:
    f = fused()
    warmed(f, X, X)
    with bcvm.profile() as outer:
        f(X, X)
        with bcvm.profile(max_calls=0) as inner:
            f(X, X)
        f(X, X)
    assert outer.rows[0].calls == 3 and inner.rows[0].calls == 1
    assert len(outer._calls) == 3 and inner._calls == []
    assert "__call__" in vars(Region) and Region.__call__.__name__ == "__call__"  # put back
    assert latency.bound == notes.NEVER


def test_it_can_be_read_within_the_block_and_not_entered_twice() -> None:
    f = fused()
    p = Profile()
    assert p.rows == [] and p.as_dict()["wall_us"] == 0.0
    with p:
        f(X, X)
        assert p.rows[0].calls == 1
    with pytest.raises(RuntimeError, match="one block"), p:
        pass


def test_a_block_that_raises_is_over() -> None:
    with pytest.raises(ZeroDivisionError), bcvm.profile() as p:
        fused()(X, X)
        raise ZeroDivisionError
    assert p.rows[0].calls == 1
    assert latency.bound == notes.NEVER


def test_results_are_the_same_with_it() -> None:
    f = fused()
    bare = f(X, X)
    with bcvm.profile():
        cold = fused()(X, X)
        warm = f(X, X)
    assert bare.tobytes() == cold.tobytes() == warm.tobytes()


def test_as_text_and_html() -> None:
    f = fused()
    with bcvm.profile() as p:
        f(X, X)
    text = p.table()
    assert "bcvm_fusion_compile_time" in text and "add+maximum+multiply" in text
    page = p._repr_html_()
    assert page.count("<table>") == 2 and "add+maximum+multiply" in page and "&lt;locals&gt;" in page
    json.dumps(p.as_dict())
