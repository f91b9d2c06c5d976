"""Idle kernels go by themselves: by a thread that is there while something may go, in forks, beside calls, and at exit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import bcvm_core as bcvm
from bcvm_core import config
from bcvm_core.cache import memory, sweeper
from bcvm_core.cache.memory import CodeCache, Limits, code_cache
from bcvm_core.cache.sweeper import Sweeper
from bcvm_core.cache.tuning import Call, Kernel, replay
from bcvm_core.cachewatch import CacheWatch
from tests.cache.test_memory import Bench, FakeUse, X, chain, same
from tests.in_threads import in_threads
from tests.test_forks import child_ends_with

LONG_S = 60.0  # nothing takes as long
NEEDS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def until(holds: Callable[[], bool]) -> bool:
    """Whether something comes true."""
    deadline = time.monotonic() + LONG_S
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.002)
    return holds()


class Things:
    """What a sweeper looks after: a look takes all of it away."""

    def __init__(self, fails: int = 0) -> None:
        self.there: list[int] = []
        self.looks, self.fails = 0, fails
        self.sweeper = Sweeper(self.look, lambda: bool(self.there), lambda: 0.001)

    def look(self) -> None:
        self.looks += 1
        if self.looks <= self.fails:
            raise ValueError("not now")
        self.there.clear()

    def bring(self, thing: int) -> None:
        self.there.append(thing)
        self.sweeper.wanted()


def test_a_thread_is_there_while_something_is() -> None:
    things = Things()
    things.sweeper.wanted()
    assert things.sweeper.thread is None
    for _ in range(3):
        things.bring(1)
        assert until(lambda: things.sweeper.thread is None) and not things.there
    assert things.looks >= 3


def test_nothing_stays_however_it_comes_while_the_thread_ends() -> None:
    things = Things()

    def work(number: int) -> None:
        for k in range(300):
            things.bring(k)
            if k % 7 == number % 7:
                time.sleep(0.001)

    in_threads(4, work)
    assert until(lambda: not things.there and things.sweeper.thread is None)


def test_a_look_that_fails_is_not_the_last() -> None:
    things = Things(fails=3)
    things.bring(1)
    assert until(lambda: not things.there) and things.looks >= 4


def test_where_no_thread_starts_the_next_one_who_comes_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    things = Things()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        things.bring(1)
        assert things.sweeper.thread is None and things.there
    things.bring(2)
    assert until(lambda: not things.there)


def test_one_that_is_stopped_ends_at_once_and_begins_again_when_wanted() -> None:
    things = Things()
    things.sweeper = Sweeper(things.look, lambda: bool(things.there), lambda: 1000.0)
    things.bring(1)
    thread = things.sweeper.thread
    assert thread is not None and thread.daemon
    things.sweeper.stop(LONG_S)
    assert not thread.is_alive() and things.looks == 0
    things.bring(2)
    assert things.sweeper.thread not in (None, thread)
    things.sweeper.stop(LONG_S)


@pytest.mark.parametrize(("ttl_s", "pause_s"), [(300.0, 30.0), (80.0, 10.0), (1e9, 30.0), (float("inf"), 30.0), (0.0, 0.02), (-1.0, 0.02)])
def test_looks_are_an_eighth_of_the_time_apart_within_bounds(ttl_s: float, pause_s: float) -> None:
    assert sweeper.pause_of(ttl_s) == pause_s


# -- in the code cache --------------------------------------------------------------------------------


class Clock:
    """A cache that looks all the time, at a clock that a test turns."""

    def __init__(self, size: int = 10) -> None:
        self.now = 1000.0
        self.cache = CodeCache(lambda: Limits(size, 0.01, 10**6), lambda: self.now, by_itself=True)

    def turn(self, *called: FakeUse) -> None:
        """Much later, when those have just been called; no look lies between."""
        with self.cache._lock:
            self.now += 100.0
            for use in called:
                use.calls += 1

    @property
    def thread(self) -> threading.Thread | None:
        assert self.cache.sweeper is not None
        return self.cache.sweeper.thread


def test_expiry_needs_no_traffic() -> None:
    """Nobody adds anything, nobody asks: an idle entry goes, one that was called stays, and in the end no thread is left."""
    clock = Clock()
    idle, busy = FakeUse(), FakeUse()
    clock.cache.add("idle", idle)
    clock.cache.add("busy", busy)
    clock.turn(busy)
    assert until(lambda: idle.dropped) and not busy.dropped and clock.thread is not None
    clock.turn()
    assert until(lambda: clock.thread is None) and busy.dropped and clock.cache.held == (0, 0)
    clock.cache.add("again", again := FakeUse())
    assert clock.thread is not None and not again.dropped
    clock.turn()
    assert until(lambda: again.dropped and clock.thread is None)


def test_what_runs_goes_when_the_call_is_over() -> None:
    clock = Clock()
    clock.cache.add("running", running := FakeUse(running=True))
    clock.turn()
    assert until(lambda: clock.cache._put_off > 2) and clock.cache.held[0] == 1
    running.running = False
    assert until(lambda: running.dropped and clock.thread is None)


def test_what_is_pinned_stays_without_a_thread_until_it_is_unpinned() -> None:
    clock = Clock()
    kept, other = FakeUse(), FakeUse()
    clock.cache.add("kept", kept)
    clock.cache.pin(name := memory.name_of("kept"))
    clock.cache.add("other", other)
    clock.turn()
    assert until(lambda: other.dropped and clock.thread is None) and not kept.dropped
    clock.cache.unpin(name)
    assert until(lambda: kept.dropped and clock.thread is None)


def test_sites_that_are_gone_leave_no_thread() -> None:
    clock = Clock()
    clock.cache.add("k", FakeUse())
    assert until(lambda: clock.thread is None) and clock.cache.held == (0, 0)


def test_many_idle_entries_go_a_few_at_a_time() -> None:
    bench = Bench(size=100, ttl_s=100.0)
    uses = [bench.add(key) for key in range(20)]
    bench.now += 200
    bench.add("a")
    assert bench.cache.held[0] == 13, "a call that brings something waits for eight evictions at most"
    bench.add("b")
    assert bench.cache.held[0] == 6
    assert bench.keys == {"a", "b"}, "who asks sees none of them"
    clock = Clock(size=100)
    for key, use in enumerate(uses):
        use.dropped = False
        clock.cache.add(key, use)
    clock.turn()
    assert until(lambda: clock.thread is None) and all(use.dropped for use in uses)


@NEEDS_FORK
def test_a_child_lets_go_by_itself_what_it_has_from_its_parent() -> None:
    clock = Clock()
    clock.cache.add("k", use := FakeUse())

    def work() -> int:
        clock.turn()
        return 0 if until(lambda: use.dropped and clock.thread is None) else 1

    assert child_ends_with(work, 2 * LONG_S) == 0
    assert not use.dropped and clock.thread is not None
    clock.turn()
    assert until(lambda: use.dropped and clock.thread is None)


def test_a_replay_has_the_timer_too() -> None:
    kernel = Kernel("k", 100, 10.0)
    limits = Limits(10, 300.0, 10**6)
    assert replay([Call(0.0, kernel), Call(200.0, kernel), Call(450.0, kernel)], limits).again == 0
    assert replay([Call(0.0, kernel), Call(500.0, kernel), Call(1000.0, kernel)], limits).again == 2
    assert replay([Call(0.0, kernel), Call(500.0, kernel)], limits, pinned=["k"]).again == 0


# -- with kernels -------------------------------------------------------------------------------------


@pytest.fixture
def ready() -> Iterator[None]:
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")
    code_cache.clear()
    yield
    code_cache.clear()


def expired() -> int:
    """Evictions up to now, without a look."""
    return code_cache._evictions[memory.EXPIRED]


@pytest.mark.usefixtures("ready")
def test_kernels_are_freed_by_the_timer_beside_threads_that_call_them() -> None:
    functions = [chain(number) for number in (23, 29, 31, 37, 41, 43)]
    expected = [plain(X, X) for plain, _ in functions]
    before = expired()
    deadline = time.monotonic() + LONG_S

    def work(number: int) -> None:
        turn = number
        while expired() - before < 40 and time.monotonic() < deadline:
            turn = (turn * 5 + 3) % 6
            f, right = functions[turn][1], expected[turn]
            for _ in range(20):
                assert same(f(X, X), right)
            time.sleep(0.01 * (turn % 4))

    assert code_cache.sweeper is not None
    code_cache.sweeper.stop()  # it would wait for the time that was in force
    with config.override(cache_ttl_s=0.02):
        in_threads(4, work)
        assert expired() - before >= 40
        assert until(lambda: code_cache.held == (0, 0))
    for (_, f), right in zip(functions, expected, strict=True):
        assert same(f(X, X), right)


@NEEDS_FORK
@pytest.mark.usefixtures("ready")
def test_a_child_makes_again_what_the_timer_took_there() -> None:
    plain, f = chain(47)
    expected = plain(X, X)
    assert code_cache.sweeper is not None
    f(X, X)
    code_cache.pin(name := next(entry.name for entry in code_cache.entries()))
    code_cache.sweeper.stop()

    def work() -> int:
        with config.override(cache_ttl_s=0.02):
            code_cache.unpin(name)
            return 0 if until(lambda: code_cache.held == (0, 0)) and same(f(X, X), expected) else 1

    assert child_ends_with(work, LONG_S) == 0
    assert code_cache.held[0] == 1 and same(f(X, X), expected)
    code_cache.unpin(name)


@pytest.mark.usefixtures("ready")
def test_what_runs_for_people_is_what_was_called_since_they_looked() -> None:
    _, f = chain(53)
    f(X, X)
    watch = CacheWatch()
    watch.look()
    f(X, X)
    code_cache.look()  # the timer's
    assert [row.state for row in watch.look().rows] == ["running"]
    assert [row.state for row in watch.look().rows] == ["warm"]


PROGRAM = """
import sys, threading, time
import numpy as np
import bcvm_core as bcvm
assert not [t for t in threading.enumerate() if t.name == "bcvm-cache"], "an import starts nothing"
if not bcvm.ready():
    sys.exit(77)
from bcvm_core.cache.memory import code_cache
f = bcvm.jit(lambda x, y: np.tanh(x * y) + 1.0)
x = np.ones((4, 4), np.float32)
expected = f(x, x)
"""
WAITS = """
deadline = time.monotonic() + 60
while code_cache.held[0] and time.monotonic() < deadline:
    time.sleep(0.005)
assert code_cache.held == (0, 0) and code_cache.figures().evictions == {"expired": 1}
while code_cache.sweeper.thread is not None and time.monotonic() < deadline:
    time.sleep(0.005)
assert [t.name for t in threading.enumerate() if t.name == "bcvm-cache"] == []
assert (f(x, x) == expected).all()
"""
LEAVES = """
assert code_cache.sweeper.thread is not None
import atexit
atexit.register(f, x.astype(np.float64), x.astype(np.float64))
"""
LEAVES_AT_WORK = """
from tests.cache.test_memory import chain
functions = [chain(k)[1] for k in range(40)]
deadline = time.monotonic() + 60
while code_cache._evictions["expired"] < 100 and time.monotonic() < deadline:
    for f in functions:
        f(x, x)
    time.sleep(0.02)
assert code_cache._evictions["expired"] >= 100
"""


@pytest.mark.parametrize(
    ("text", "ttl"),
    [(WAITS, "0.05"), (WAITS, "0"), (LEAVES, "300"), (LEAVES_AT_WORK, "0.01")],
    ids=["waits", "waits-0", "leaves", "leaves-at-work"],
)
def test_a_process_with_this_time_to_live_lets_go_and_ends(repository: Path, text: str, ttl: str) -> None:
    environment = {**os.environ, "BCVM_CACHE_TTL": ttl}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + text], cwd=repository, env=environment, capture_output=True, text=True, check=False, timeout=180
    )
    if done.returncode == 77:
        pytest.skip("there are no stencils for this machine")
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_begins_once_the_interpreter_is_about_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    things = Things()
    monkeypatch.setattr(sweeper, "_closed", closed := threading.Event())
    closed.set()
    things.bring(1)
    assert things.sweeper.thread is None and things.there
