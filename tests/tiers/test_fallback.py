"""A compile over its budget: calls run op by op and say so, nobody waits, and what hangs or fails is given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import bcvm_core as bcvm
from bcvm_core import config
from bcvm_core.codegen import loops
from bcvm_core.codegen.stencils import library, target
from bcvm_core.events import FellBack, bus
from bcvm_core.jit import linker_of
from bcvm_core.vm.region import Region


def act(x: Any, b: Any) -> Any:
    return np.maximum(x + b, 0) * 2


X, B = np.linspace(-1, 1, 50, dtype=np.float32), np.ones(50, np.float32)


class Gate:
    """Holds up the compile of stencils until it is opened; then it goes on, or fails."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.error: BaseException | None = None


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A process without stencils, on an empty disk cache."""
    if target.host() is None:
        pytest.skip("no stencils for this processor")
    held = Gate()
    compile_now = library.Family.compile

    def compile_later(family: library.Family) -> None:
        held.opened.wait(60)
        if held.error is not None:
            raise held.error
        compile_now(family)

    loops.forget()
    monkeypatch.setattr(library.Family, "compile", compile_later)
    with config.override(cache_dir=str(tmp_path), use_llvm=True):
        yield held
        held.opened.set()
        assert loops.wait(60)
        loops.forget()


def test_calls_run_op_by_op_and_say_so_when_the_budget_is_over(gate: Gate) -> None:
    seen: list[Any] = []
    remove = bus.subscribe(seen.append)
    with config.override(compile_budget_ms=50.0):
        f = bcvm.jit(act)
        expected = act(X, B).tobytes()
        assert f(X, B).tobytes() == expected
        assert f.stats().fallbacks == {}  # the compile is within its budget still
        time.sleep(0.1)
        for _ in range(5):
            started = time.perf_counter()
            assert f(X, B).tobytes() == expected
            assert time.perf_counter() - started < 5  # the compile would wait for a minute
        assert f.stats().fallbacks == {"compile_timeout": 5}
        assert f.stats().as_dict()["fallbacks"] == {"compile_timeout": 5}
        assert "fallback_reason=compile_timeout: 5 calls" in f.explain()
        assert "fallback_reason=compile_timeout" in f.stats().table()
        gate.opened.set()
        for _ in range(20):  # what a kernel needs is asked for one after the other
            assert loops.wait(60)
            time.sleep(0.06)  # the next look at whether it is there
            assert f(X, B).tobytes() == expected
            if "spliced at first use" in f.explain():
                break
        counted = f.stats().fallbacks["compile_timeout"]
        assert "spliced at first use" in f.explain() and f(X, B).tobytes() == expected
        assert f.stats().fallbacks == {"compile_timeout": counted}
        (region,) = [s for s in linker_of(f).table.live if isinstance(s, Region)]  # type: ignore[union-attr]
        assert [s.waiting_ns for runner in region.plans.values() for s in runner.segments.values()] == [0]  # what comes later waits anew
    remove()
    assert [e.reason for e in seen if isinstance(e, FellBack)] == ["compile_timeout"]


def test_a_compile_that_raises_is_given_up_and_others_come(gate: Gate) -> None:
    gate.error = KeyError("of ours")
    f = bcvm.jit(act)
    f(X, B)
    gate.opened.set()
    assert loops.wait(60)
    assert "KeyError: 'of ours'" in library.family(4).failed
    time.sleep(0.06)
    assert f(X, B).tobytes() == act(X, B).tobytes()
    other = bcvm.jit(lambda x: np.exp(x))
    assert np.allclose(other(X), np.exp(X))


def test_a_compile_that_hangs_is_given_up(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "DEADLINE_S", 0.3)
    f = bcvm.jit(act)
    for _ in range(200):
        assert f(X, B).tobytes() == act(X, B).tobytes()
        if library.family(4).failed:
            break
        time.sleep(0.01)
    assert library.family(4).failed.startswith("compile_timeout")
    assert not library.family(4).ready


def test_stats_are_added_and_taken_apart() -> None:
    stats = linker_of(bcvm.jit(act)).stats  # type: ignore[union-attr]
    stats.count_fallback("compile_timeout")
    before = stats.snapshot()
    stats.count_fallback("compile_timeout")
    assert stats.since(before).fallbacks == {"compile_timeout": 1}
    assert before.merge(stats).fallbacks == {"compile_timeout": 3}
    stats.reset()
    assert stats.fallbacks == {}


def test_chains_say_so_too(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    with config.override(compile_budget_ms=20.0):
        f = bcvm.jit(lambda x: (np.exp(x - x.max(axis=-1, keepdims=True)) * 2).sum(axis=-1))
        x = np.ones((4, 50), np.float32)
        expected = f(x).tobytes()
        time.sleep(0.05)
        for _ in range(3):
            assert f(x).tobytes() == expected
        assert f.stats().fallbacks.get("compile_timeout", 0) >= 3
