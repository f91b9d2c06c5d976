"""Recorded workloads: shapes and sites but no data, and what replaying them recommends."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core import cli, config, workload
from bcvm_core.cache.memory import Limits, code_cache
from bcvm_core.cache.tuning import Call, Kernel, replay, tune
from bcvm_core.tiers.recorded import recorded as on_call
from tests.vm.native_support import warmed

SECRET = 987654.5625


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The file of a small program: 40 calls of two functions, on 20 shapes."""
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")
    path = tmp_path / "workload.rec"

    @bcvm.jit
    def f(x: Any) -> Any:
        return np.maximum(x + 1.0, 0) * 2.0

    @bcvm.jit
    def g(x: Any) -> Any:
        return np.minimum(x, 3.0) - 1.0

    warmed(f, np.ones((2, 2), np.float32))
    with bcvm.record(path) as r:
        for n in range(1, 21):
            x = np.full((n, 3), SECRET, np.float32)
            assert f(x).tobytes() == (np.maximum(x + np.float32(1), 0) * np.float32(2)).tobytes()
            g(x)
    assert r.calls == 40
    f(np.ones((50, 50), np.float32))
    return path


def test_a_file_holds_sites_and_shapes_and_no_data(recorded: Path) -> None:
    text = recorded.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    told = json.dumps([[line[0], *line[2:]] if line[0] == "call" else line for line in lines])  # times of calls have any digits
    assert "987654" not in told and str(SECRET) not in text and "[50,50]" not in text
    assert lines[0][:2] == ["workload", workload.FORMAT]
    assert [line[0] for line in lines].count("kernel") == 2
    assert sorted(line[3] for line in lines if line[0] == "site") == ["add+maximum+multiply", "minimum+subtract"]
    calls = workload.read(recorded)
    assert len(calls) == 40 and {call.shapes for call in calls} == {(("float32", (n, 3)),) for n in range(1, 21)}
    assert all(call.kernel.code_bytes > 0 and call.kernel.splice_us > 0 for call in calls)
    assert [call.at_s for call in calls] == sorted(call.at_s for call in calls)


def test_nothing_is_left_of_recording(recorded: Path) -> None:
    assert not on_call.on
    assert not config.plain.value & config.RECORDED
    size = recorded.stat().st_size
    bcvm.jit(lambda x: x + 1.0)(np.ones(3))
    assert recorded.stat().st_size == size


def test_chains_of_rows_are_recorded_too(tmp_path: Path) -> None:
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")

    @bcvm.jit
    def f(x: Any) -> Any:
        return ((x * 2.0 + 1.0) ** 2).sum(axis=-1)

    deadline = time.monotonic() + 120
    while "spliced at first use" not in f.explain() and time.monotonic() < deadline:
        f(np.ones((4, 6), np.float32))
        time.sleep(0.02)
    with bcvm.record(tmp_path / "chains.rec") as r:
        for n in range(2, 12):
            f(np.ones((n, 6), np.float32))
    assert r.calls == 10
    assert {call.kernel.code_bytes > 0 for call in workload.read(tmp_path / "chains.rec")} == {True}


def test_replaying_with_room_splices_what_the_program_spliced(recorded: Path) -> None:
    outcome = replay(workload.read(recorded), Limits(200, 300.0, 1 << 20))
    assert (outcome.calls, outcome.spliced, outcome.again, outcome.peak_entries) == (40, 2, 0, 2)
    outcome = replay(workload.read(recorded), Limits(1, 300.0, 1 << 20))
    assert (outcome.spliced, outcome.again, outcome.peak_entries) == (40, 38, 1)


def test_the_command_recommends(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cache", "tune", str(recorded)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("40 calls in ") and "2 call sites, 40 different shapes at them, 2 kernels" in text
    assert "recommended: BCVM_CACHE_SIZE=2 BCVM_CACHE_TTL=30" in text
    assert "<- now" in text


def test_the_recommendation_follows_the_workload() -> None:
    kernels = [Kernel(f"k{number}", 1000, 100.0) for number in range(60)]
    cyclic = [Call(step * 0.01, kernels[step % 60]) for step in range(3000)]
    _, best = tune(cyclic, Limits(20, 300.0, 1 << 20))
    assert best.limits.size == 60 and best.again == 0
    bursts = []
    for burst in range(5):  # five kernels, then ten minutes with something new each minute, by which the cache sees that they are idle
        bursts += [Call(600.0 * burst + step * 0.01, kernels[step % 5]) for step in range(100)]
        bursts += [Call(600.0 * burst + 60.0 * k, Kernel(f"new{burst}.{k}", 1000, 100.0)) for k in range(1, 10)]
    _, best = tune(bursts, Limits(200, 300.0, 1 << 20))
    assert best.limits.ttl_s == 3600.0 and best.again == 0, "only a longer life spares the splices after ten minutes"
    passing = [Call(step * 0.01, kernels[step // 50]) for step in range(3000)]
    outcomes, best = tune(passing, Limits(200, 300.0, 1 << 20))
    assert best.limits.size == 10 and best.peak_bytes == min(o.peak_bytes for o in outcomes)


def test_a_replay_agrees_with_what_the_cache_did(tmp_path: Path) -> None:
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")
    x = np.ones((3, 3), np.float32)
    space: dict[str, Any] = {"np": np}
    functions = []
    import linecache

    for number in range(12):
        body = "x" + "".join(f" {'+-*'[number // 3**k % 3]} x" for k in range(3))
        name = f"<workload {number}>"
        source = f"def f(x):\n    return np.maximum({body}, x)\n"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        exec(compile(source, name, "exec"), space)
        functions.append(bcvm.jit(space["f"]))
    code_cache.clear()
    before = code_cache.figures()
    with config.override(cache_size=5), bcvm.record(tmp_path / "w.rec"):
        for _ in range(4):
            for f in functions:
                f(x)
        spliced = sum(code_cache.figures().misses.values()) - sum(before.misses.values())
    outcome = replay(workload.read(tmp_path / "w.rec"), Limits(5, 300.0, 32 << 20))
    assert outcome.spliced == spliced == 48


def test_other_files_are_refused_and_a_torn_last_line_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str], recorded: Path) -> None:
    for content in (
        b"",
        b"x",
        b"[1]",
        b'["workload",99]',
        b'["workload",1,"0"]\n["call",0,1,2,3]\n',
        b"\x00\xff",
        b'{"a":1}',
        b'["workload",1]\nx\ny',
    ):
        (tmp_path / "other").write_bytes(content)
        assert cli.main(["cache", "tune", str(tmp_path / "other")]) == 2
        assert "no recorded workload" in capsys.readouterr().err
    assert cli.main(["cache", "tune", str(tmp_path / "none")]) == 2
    whole = workload.read(recorded)
    recorded.write_bytes(recorded.read_bytes()[:-9])
    assert workload.read(recorded) == whole[:-1]
    (tmp_path / "empty").write_text('["workload",1,"0"]\n')
    assert cli.main(["cache", "tune", str(tmp_path / "empty")]) == 0
