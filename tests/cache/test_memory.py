"""The code cache in memory: its bounds, what it counts, and that what it lets go is really gone and comes back right."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core import config
from bcvm_core.cache import memory
from bcvm_core.cache.memory import CodeCache, Limits, code_cache
from bcvm_core.codegen.stencils import arena
from bcvm_core.jit import linker_of
from bcvm_core.vm.region import Region
from tests.vm.native_support import warmed


class FakeUse:
    """A use with `calls` that a test turns up."""

    def __init__(self, size: int = 100, running: bool = False) -> None:
        self.calls, self.size, self.running, self.dropped = 1, size, running, False
        self.where, self.hot = None, False

    def total(self) -> int:
        return self.calls

    def sizes(self) -> list[tuple[int, int]]:
        return [(id(self), self.size)]

    def drop(self) -> bool:
        self.dropped = not self.running
        return self.dropped


class Bench:
    """A cache with limits and a clock of its own."""

    def __init__(self, size: int = 3, ttl_s: float = 300.0, code_bytes: int = 10**6) -> None:
        self.now = 1000.0
        self.limits = Limits(size, ttl_s, code_bytes)
        self.cache = CodeCache(lambda: self.limits, lambda: self.now)
        self.kept: dict[Any, FakeUse] = {}

    def add(self, key: Any, **how: Any) -> FakeUse:
        self.now += 1
        self.kept[key] = use = FakeUse(**how)
        self.cache.add(key, use)
        return use

    @property
    def keys(self) -> set[Any]:
        return {entry.key for entry in self.cache.entries()}


def test_the_least_recently_used_goes_first() -> None:
    bench = Bench()
    uses = {key: bench.add(key) for key in "abc"}
    bench.now += 1
    uses["a"].calls += 1
    bench.add("d")
    assert bench.keys == {"a", "c", "d"} and uses["b"].dropped
    uses["c"].calls += 1
    bench.add("e")
    assert bench.keys == {"c", "d", "e"}
    assert bench.cache.figures().evictions == {memory.COUNT: 2}


def test_the_newest_stays_even_where_all_others_were_called_since_the_last_look() -> None:
    bench = Bench()
    uses = [bench.add(key) for key in "abc"]
    for use in uses:
        use.calls += 5
    bench.add("d")
    assert "d" in bench.keys and len(bench.keys) == 3


def test_a_request_for_what_was_evicted_says_so() -> None:
    bench = Bench(size=1)
    bench.add("a")
    bench.add("b")
    bench.add("a")
    assert bench.cache.figures().misses == {memory.FIRST: 2, "evicted: too many": 1}


def test_what_nobody_calls_expires_and_what_is_called_stays() -> None:
    bench = Bench(ttl_s=10.0)
    idle, busy = bench.add("idle"), bench.add("busy")
    for _ in range(4):
        bench.now += 6
        busy.calls += 1
        bench.cache.look()
    assert bench.keys == {"busy"} and idle.dropped and not busy.dropped
    bench.add("idle")
    figures = bench.cache.figures()
    assert figures.evictions == {memory.EXPIRED: 1}
    assert figures.misses == {memory.FIRST: 2, "evicted: expired": 1}


def test_expiry_needs_no_look_from_outside() -> None:
    bench = Bench(ttl_s=10.0)
    idle = bench.add("idle")
    bench.now += 20
    bench.add("new")
    assert idle.dropped


def test_bytes_are_bounded_and_the_newest_stays() -> None:
    bench = Bench(size=50, code_bytes=1000)
    for number in range(20):
        bench.add(number, size=300)
        assert bench.cache.figures().code_bytes <= 1000
    assert bench.keys == {17, 18, 19}
    bench.add("huge", size=5000)
    assert bench.keys == {"huge"}
    assert bench.cache.figures().evictions == {memory.BYTES: 20}


def test_what_runs_now_is_pinned() -> None:
    bench = Bench(size=1)
    running = bench.add("running", running=True)
    bench.add("b")
    assert bench.keys == {"running", "b"} and bench.cache.figures().put_off >= 1
    running.running = False
    bench.add("c")
    assert bench.keys == {"c"} and running.dropped


def test_equal_code_is_one_entry_of_many_sites() -> None:
    bench = Bench()
    one = bench.add("k")
    other = FakeUse()
    bench.cache.add("k", other)
    one.calls, other.calls = 5, 7
    figures = bench.cache.figures()
    assert (figures.entries, figures.shared, figures.hits, figures.misses) == (1, 1, 12, {memory.FIRST: 1})
    bench.cache.clear()
    assert one.dropped and other.dropped and bench.cache.figures().hits == 12


def test_sites_that_are_gone_leave_nothing_but_their_hits() -> None:
    bench = Bench()
    bench.add("k").calls = 9
    bench.cache.look()
    bench.kept.clear()
    gc.collect()
    figures = bench.cache.figures()
    assert (figures.entries, figures.code_bytes, figures.hits, figures.evictions) == (0, 0, 9, {})


def test_smaller_limits_hold_from_the_next_look() -> None:
    bench = Bench(size=50)
    for number in range(40):
        bench.add(number)
    bench.limits = Limits(16, 300.0, 10**6)
    assert bench.cache.figures().entries <= 16


def test_refusals_are_counted_by_reason_and_bounded() -> None:
    bench = Bench()
    for number in range(200):
        bench.cache.refused(f"reason {number}")
    bench.cache.refused("reason 0")
    misses = bench.cache.figures().misses
    assert misses["no kernel: reason 0"] == 2
    assert len(misses) <= 65 and sum(misses.values()) == 201


# -- with kernels -------------------------------------------------------------------------------------

X = np.linspace(-3.0, 3.0, 24, dtype=np.float32).reshape(4, 6)
OPS = (np.add, np.subtract, np.multiply, np.maximum, np.minimum)


@pytest.fixture
def stencils() -> Iterator[None]:
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")
    code_cache.clear()
    yield
    code_cache.clear()


def chain(number: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function of five ops, one for each number below 3,125, and the same for BCVM."""
    names = []
    for _ in range(5):
        number, digit = divmod(number, len(OPS))
        names.append(OPS[digit].__name__)
    body = "x"
    for name in names:
        body = f"np.{name}({body}, y)"
    made = []
    for _ in range(2):
        space: dict[str, Any] = {"np": np}
        code = f"def f(x, y):\n    return {body}\n"
        import linecache

        filename = f"<chain {body} {len(made)}>"
        linecache.cache[filename] = (len(code), None, code.splitlines(True), filename)
        exec(compile(code, filename, "exec"), space)
        made.append(space["f"])
    return made[0], bcvm.jit(made[1])


def same(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())


@pytest.mark.usefixtures("stencils")
def test_an_evicted_kernel_is_freed_and_made_again_at_the_next_call() -> None:
    plain, f = chain(7)
    expected = plain(X, X)
    region = warmed(f, X, X, calls=4)
    native = region.native
    assert native is not None
    used = arena.shared().used_bytes
    before = code_cache.figures()
    code_cache.clear()
    gc.collect()
    assert arena.shared().used_bytes < used
    assert native.entry is None and region.native is native
    for _ in range(3):
        assert same(f(X, X), expected)
    hits = native.hits
    assert same(f(X, X), expected)
    assert native.hits == hits + 1, "machine code is back in its place"
    after = code_cache.figures()
    assert after.misses.get("evicted: cleared", 0) == before.misses.get("evicted: cleared", 0) + 1
    assert after.hits == before.hits + 4
    assert f.stats().call_op == 8 * 5


@pytest.mark.usefixtures("stencils")
def test_chains_of_rows_are_kept_and_evicted_like_other_kernels() -> None:
    @bcvm.jit
    def f(x: Any, y: Any) -> Any:
        return bcvm.ops.softmax(x * 2.0 + y, axis=-1)

    expected = bcvm.ops.softmax(X * np.float32(2.0) + X, axis=-1)
    assert same(f(X, X), expected)
    (region,) = [s for s in linker_of(f).table.live if isinstance(s, Region)]  # type: ignore[union-attr]

    def until_native() -> Any:
        """Call until machine code runs the chain in the region's place; its kernel over rows may still be on its way."""
        deadline = time.monotonic() + 120
        while (region.native is None or region.native.entry is None) and time.monotonic() < deadline:
            assert same(f(X, X), expected)
            time.sleep(0.02)
        assert region.native is not None and region.native.entry is not None
        assert same(f(X, X), expected)
        return region.native

    def chains() -> list[str]:
        return [entry.label for entry in code_cache.entries() if "softmax" in entry.label]

    native = until_native()
    before = code_cache.figures()
    assert chains() == ["multiply+add+softmax"] and before.code_bytes > 0
    code_cache.clear()
    assert chains() == [] and native.entry is None
    assert until_native() is native
    after = code_cache.figures()
    assert chains() == ["multiply+add+softmax"]
    assert after.misses["evicted: cleared"] == before.misses.get("evicted: cleared", 0) + 1
    assert after.hits > before.hits


@pytest.mark.usefixtures("stencils")
def test_a_chain_made_after_an_eviction_takes_no_other_chains_place() -> None:
    @bcvm.jit
    def f(x: Any, y: Any) -> Any:
        return bcvm.ops.softmax(x * 2.0 + y, axis=-1)

    kinds = [(3, 7), (1, 7), (2, 3, 7)]
    for shape in kinds:
        x = np.ones(shape, np.float32)
        deadline = time.monotonic() + 120
        while f.explain().count("spliced at first use") <= kinds.index(shape) and time.monotonic() < deadline:
            f(x, x)
            time.sleep(0.02)
        if shape == kinds[1]:
            (region,) = [s for s in linker_of(f).table.live if isinstance(s, Region)]  # type: ignore[union-attr]
            (site,) = [s for runner in region.plans.values() if runner is not None for s in runner.chains.values()]
            site.forget(next(iter(site.uses.values())))
            f(np.ones(kinds[0], np.float32), np.ones(kinds[0], np.float32))
    made = [c for c in site.chains.values() if c is not None]
    assert len(made) == 3 and {id(c) for c in made} == {id(p.kernel) for p in site.patterns.values()}


@pytest.mark.usefixtures("stencils")
def test_more_functions_than_it_keeps_all_give_the_right_results() -> None:
    with config.override(cache_size=8):
        functions = [chain(number * 37) for number in range(24)]
        for _ in range(3):
            for plain, f in functions:
                assert same(f(X, X), plain(X, X))
                assert same(f(X, X), plain(X, X))
            figures = code_cache.figures()
            assert figures.entries <= 8
        assert figures.misses.get("evicted: too many", 0) >= 24


@pytest.mark.usefixtures("stencils")
def test_functions_with_equal_code_share_an_entry() -> None:
    before = code_cache.figures()
    functions = [chain(11)[1] for _ in range(5)]
    for f in functions:
        for _ in range(3):
            f(X, X)
    after = code_cache.figures()
    assert after.entries == 1
    assert after.shared == before.shared + 4
    assert after.hits == before.hits + 15


@pytest.mark.usefixtures("stencils")
def test_another_element_type_is_a_miss_with_its_reason() -> None:
    _, f = chain(13)
    before = code_cache.figures().misses
    f(X, X)
    f(X.astype(np.float64), X.astype(np.float64))
    after = code_cache.figures().misses
    assert after[memory.SITE] == before.get(memory.SITE, 0) + 1


@pytest.mark.usefixtures("stencils")
def test_a_kernel_that_runs_in_another_thread_is_not_freed() -> None:
    big = np.linspace(0.0, 1.0, 1_000_000, dtype=np.float32)

    @bcvm.jit
    def f(x: Any) -> Any:
        return np.tanh(np.tanh(np.tanh(x) + 0.5) + 0.25)

    region = warmed(f, X)
    expected = f(big)
    stop, wrong = threading.Event(), []

    def run() -> None:
        while not stop.is_set():
            if not same(f(big), expected) or not same(f(X), f(X)):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 1.5
    number = 0
    while time.monotonic() < deadline:
        code_cache.clear()
        chain(number % 3000)[1](X, X)  # puts other code where some was freed
        number += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and number > 5
    assert region.native is not None


@pytest.mark.usefixtures("stencils")
def test_a_child_process_has_a_cache_that_works() -> None:
    plain, f = chain(17)
    expected = plain(X, X)
    f(X, X)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with code_cache._lock:
            held.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    child = os.fork()
    if not child:
        code_cache.clear()
        os._exit(0 if same(f(X, X), expected) and code_cache.figures().entries == 1 else 1)
    done.set()
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert same(f(X, X), expected)


@pytest.mark.usefixtures("stencils")
def test_ten_thousand_shapes_need_one_kernel() -> None:
    _, f = chain(19)
    before = code_cache.figures()
    for rows in range(1, 101):
        for columns in range(1, 101):
            f(np.ones((rows, columns), np.float32), np.ones((rows, columns), np.float32))
    after = code_cache.figures()
    assert sum(after.misses.values()) - sum(before.misses.values()) == 1
    (region,) = [s for s in linker_of(f).table.live if isinstance(s, Region)]  # type: ignore[union-attr]
    assert region.hits == 10_000
