"""What people see of the code cache: kernels in words, the map of the memory for code, recorded calls and what-ifs."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core import cachewatch, config
from bcvm_core.cache.memory import code_cache
from bcvm_core.cachewatch import BURST, CacheWatch, Memory
from bcvm_core.codegen.stencils import arena
from bcvm_core.tiers.clock import clock
from bcvm_core.tiers.recorded import recorded
from tests.cache.test_memory import X, chain, same


@pytest.fixture
def watch() -> Iterator[CacheWatch]:
    """An open one, with an empty cache."""
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")
    code_cache.clear()
    made = CacheWatch(moment_s=None)
    made.open()
    made.look()
    yield made
    made.close()
    code_cache.clear()
    assert not recorded.on and not config.plain.value & config.RECORDED


def test_a_kernel_in_words(watch: CacheWatch) -> None:
    _, f = chain(401)
    for _ in range(5):
        f(X, X)
    (row,) = watch.look().rows
    entry = code_cache.entries()[0]
    assert (row.name, row.label, row.hits, row.sites, row.pinned, row.hot) == (entry.name, entry.label, 5, 1, False, False)
    assert row.where is not None and row.where[0] == "f" and row.where[2] == 2
    assert (row.operands, row.shapes) == ("float32:contiguous, float32:contiguous", "[4, 6], [4, 6]")
    assert row.state == "running" and row.splice_us > 0
    assert sum(size for _, size in row.blocks) == row.code_bytes
    assert watch.look().rows[0].state == "warm"
    f(X[:2], X[:2])
    assert watch.look().rows[0].shapes == "[2, 6], [2, 6]", "the latest that was met"


def test_what_is_idle_for_a_quarter_of_its_time_is_cold(watch: CacheWatch) -> None:
    chain(402)[1](X, X)
    with config.override(cache_ttl_s=0.4):
        watch.look()
        time.sleep(0.15)
        assert [row.state for row in watch.look().rows] == ["cold"]
        time.sleep(0.35)
        state = watch.look()
    assert state.rows == () and [(g.reason, g.hits) for g in state.gone[-1:]] == [("expired", 1)]


def test_the_map_is_that_of_the_arena(watch: CacheWatch) -> None:
    functions = [chain(410 + n)[1] for n in range(6)]
    for f in functions:
        f(X, X)
    rows = watch.look().rows
    for row in rows[::2]:
        bcvm.cache.evict(row.name)
    del functions
    gc.collect()
    memory = watch.look().memory
    figures = arena.shared().figures()
    assert memory is not None
    assert memory.free_bytes == figures["free_bytes"] and memory.unused_bytes == figures["unused_bytes"]
    assert memory.fragmentation == pytest.approx(figures["fragmentation"])
    taken = [block for row in watch.look().rows for block in row.blocks]
    assert all(at + size <= gap or gap + free <= at for at, size in taken for gap, free in memory.gaps), "code lies in no gap"
    assert list(memory.gaps) == sorted(memory.gaps)


def test_a_map_without_gaps_is_not_fragmented() -> None:
    assert Memory(1000, (), 5).fragmentation == 0.0
    assert Memory(1000, ((0, 30), (100, 10)), 5).fragmentation == 0.25


def test_calls_are_written_down_in_order_a_burst_after_each_look(watch: CacheWatch) -> None:
    (_, f), (_, g) = chain(420), chain(421)
    f(X, X)
    g(X, X)
    watch.look()
    assert watch.recorded[0] == 2
    names = {entry.uses[0].use().where[1]: entry.name for entry in code_cache.entries()}  # type: ignore[index, union-attr]
    assert len(names) == 2
    for _ in range(3 * BURST):
        f(X, X)
        g(X, X)
    watch.look()
    assert watch.recorded[0] == 2 + BURST
    keys = [call.kernel.key for call in watch._calls]
    assert set(keys) == set(names.values()) and keys[2:][::2] == [keys[2]] * (BURST // 2) and keys[2] != keys[3]
    times = [call.at_s for call in watch._calls]
    assert times == sorted(times) and times[0] >= 0
    assert all(call.kernel.code_bytes > 0 and call.kernel.splice_us > 0 for call in watch._calls)


def test_kernels_that_are_called_after_the_burst_are_there_once(watch: CacheWatch) -> None:
    (_, f), (_, g) = chain(422), chain(423)
    f(X, X)
    g(X, X)
    watch.look()
    for _ in range(BURST + 5):
        f(X, X)
    for _ in range(10):
        g(X, X)
    watch.look()
    assert watch.recorded[0] == 2 + BURST + 1


def test_machine_code_that_times_itself_is_written_down_too(watch: CacheWatch) -> None:
    _, f = chain(424)
    clock.start()
    try:
        for _ in range(30):
            f(X, X)
        watch.look()
        before = watch.recorded[0]
        for _ in range(20):
            f(X, X)
        watch.look()
    finally:
        clock.stop()
    assert before == 30 and watch.recorded[0] == 50


def test_closed_it_hears_nothing_and_keeps_what_it_has(watch: CacheWatch) -> None:
    _, f = chain(425)
    f(X, X)
    watch.look()
    watch.close()
    assert not recorded.on
    f(X, X)
    watch.look()
    assert watch.recorded[0] == 1
    watch.open()
    f(X, X)
    watch.look()
    assert watch.recorded[0] == 2


def test_a_look_writes_down_what_other_threads_call_meanwhile_and_nothing_later(watch: CacheWatch) -> None:
    _, f = chain(426)
    f(X, X)
    watch.close()
    short, stop = CacheWatch(), threading.Event()

    def run() -> None:
        while not stop.is_set():
            f(X, X)

    short.open()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        for _ in range(50):
            short.look()
            assert not recorded.on, "machine code is left alone again"
    finally:
        stop.set()
        thread.join()
        short.close()
    assert 50 < short.recorded[0] <= 51 * BURST


def test_where_nothing_is_called_hardly_any_look_waits(watch: CacheWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    watch.close()
    quiet, waits = CacheWatch(), list[float]()
    monkeypatch.setattr(cachewatch.time, "sleep", waits.append)
    quiet.open()
    for _ in range(100):
        quiet.look()
    quiet.close()
    assert len(waits) == len((1, 3, 7, 15, 31, 47, 63, 79, 95))


def test_memory_is_bounded(watch: CacheWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cachewatch, "_NAMED", 2)
    for number in range(430, 434):
        chain(number)[1](X, X)
    watch.look()
    assert len(watch._kernels) == 2 and watch.recorded[0] == 2
    assert watch._calls.maxlen == cachewatch.KEPT


def test_a_what_if_is_the_replay_of_what_was_recorded(watch: CacheWatch) -> None:
    assert watch.what_if() is None
    functions = [chain(440 + n)[1] for n in range(4)]
    for _ in range(5):
        for f in functions:
            f(X, X)
    watch.look()
    one = watch.what_if(1, 300.0)
    now = watch.what_if()
    assert one is not None and now is not None
    assert (one.outcome.calls, one.outcome.hits, one.outcome.spliced, one.outcome.again) == (20, 0, 20, 16)
    assert (now.outcome.hits, now.outcome.spliced, now.kernels) == (16, 4, 4)
    assert one.now == now.now == now.outcome
    assert [(o.limits.size, o.hits) for o in now.sizes] == [(1, 0), (2, 0), (4, 16)]
    pinned = code_cache.entries()[0].name
    bcvm.cache.pin(pinned)
    watch.look()
    try:
        kept = watch.what_if(1, 300.0)
    finally:
        bcvm.cache.unpin(pinned)
    assert kept is not None and kept.outcome.hits == 4, "what is pinned is made once"


def test_a_what_if_tries_no_more_sizes_when_its_time_is_over(watch: CacheWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [chain(460 + n)[1] for n in range(6)]
    for f in functions:
        f(X, X)
    watch.look()
    monkeypatch.setattr(cachewatch, "BUDGET_S", 0.0)
    found = watch.what_if(2)
    assert found is not None and [o.limits.size for o in found.sizes] == [6] and found.outcome.limits.size == 2


def test_recording_changes_no_result(watch: CacheWatch) -> None:
    for number in (450, 451, 452):
        plain, f = chain(number)
        for _ in range(BURST + 9):
            assert same(f(X, X), plain(X, X))
            watch.look()


def test_a_workload_is_recorded_beside_it(watch: CacheWatch, tmp_path: Any) -> None:
    _, f = chain(453)
    f(X, X)
    with bcvm.record(tmp_path / "w.rec") as r:
        for _ in range(3 * BURST):
            f(X, X)
    assert r.calls == 3 * BURST, "the burst's end is not the recording's"
    watch.look()
    assert watch.recorded[0] == BURST
    assert watch.what_if(1, 0.0) is not None and np.isfinite(watch.recorded[1])
