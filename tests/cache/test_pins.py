"""What a person does to the code cache: pin, unpin, evict, clear; and that no rule takes what is pinned or runs."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core import config
from bcvm_core.cache import CacheError, memory
from bcvm_core.cache.memory import code_cache
from bcvm_core.cache.tuning import Call, Kernel, replay
from bcvm_core.events import Evicted, bus
from tests.cache.test_memory import Bench, chain, same

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies
KEYS = "abcdefgh"


def name(key: str) -> str:
    return memory.name_of(key)


def test_a_pin_outlives_every_rule_and_ends_with_unpin() -> None:
    bench = Bench(size=2, ttl_s=10.0)
    kept = bench.add("kept")
    bench.cache.pin(name("kept"))
    for key in "abc":
        bench.add(key)
    bench.now += 100
    bench.cache.look()
    assert bench.cache.clear() == 0 and bench.keys == {"kept"} and not kept.dropped
    with pytest.raises(CacheError, match="is pinned; unpin it first"):
        bench.cache.evict(name("kept"))
    assert bench.cache.figures().pinned == 1
    bench.cache.unpin(name("kept"))
    bench.cache.look()
    assert bench.keys == set() and kept.dropped
    assert bench.cache.figures().put_off == 0, "that is said of kernels that run"


def test_a_pin_belongs_to_the_code() -> None:
    bench = Bench()
    bench.add("k")
    bench.cache.pin(name("k"))
    bench.kept.clear()
    gc.collect()
    assert bench.keys == set(), "its functions are gone, and with them the code"
    bench.add("k")
    assert [entry.pinned for entry in bench.cache.entries()] == [True]
    bench.cache.clear()
    assert bench.keys == {"k"}


def test_where_all_are_pinned_the_newest_is_there_too() -> None:
    bench = Bench(size=2)
    for key in "ab":
        bench.add(key)
        bench.cache.pin(name(key))
    bench.add("c")
    assert bench.keys == {"a", "b", "c"}
    bench.add("d")
    assert bench.keys == {"a", "b", "d"}


def test_an_entry_is_evicted_by_hand_unless_it_runs() -> None:
    bench = Bench()
    idle, busy = bench.add("idle"), bench.add("busy", running=True)
    assert bench.cache.evict(name("idle")[:10]).key == "idle"
    with pytest.raises(CacheError, match="runs now; try again when the call is over"):
        bench.cache.evict(name("busy"))
    assert idle.dropped and not busy.dropped and bench.keys == {"busy"}
    bench.add("idle")
    figures = bench.cache.figures()
    assert figures.evictions == {memory.BY_HAND: 1} and figures.misses["evicted: by hand"] == 1


@pytest.mark.parametrize("wrong", ["", "nothing", "0"])
def test_names_that_tell_no_kernel_are_refused(wrong: str) -> None:
    bench = Bench()
    bench.add("a")
    for act in (bench.cache.pin, bench.cache.unpin, bench.cache.evict):
        with pytest.raises(CacheError, match="has no kernel"):
            act(wrong)
    assert bench.keys == {"a"}


def test_a_name_that_tells_two_kernels_is_refused() -> None:
    first: dict[str, int] = {}
    twice = next((k, first[name(str(k))[0]]) for k in range(40) if first.setdefault(name(str(k))[0], k) != k)
    bench = Bench()
    for key in twice:
        bench.add(str(key))
    with pytest.raises(CacheError, match="2 kernels in the code cache"):
        bench.cache.evict(name(str(twice[0]))[0])


def test_evictions_are_told_with_reasons_to_whoever_looks_or_listens() -> None:
    bench, heard = Bench(size=2), list[Any]()
    stop = bus.subscribe(heard.append)
    try:
        for key in "abcd":
            bench.add(key).calls += 4
        bench.cache.look()
        bench.now += 1000
        bench.cache.look()
    finally:
        stop()
    told = [event for event in heard if isinstance(event, Evicted)]
    _, _, gone = bench.cache.seen()
    assert [(g.number, g.name, g.reason) for g in gone] == [
        (1, name("a"), memory.COUNT),
        (2, name("b"), memory.COUNT),
        (3, name("c"), memory.EXPIRED),
        (4, name("d"), memory.EXPIRED),
    ]
    assert [(e.name, e.reason, e.hits) for e in told] == [(g.name, g.reason, g.hits) for g in gone]
    assert gone[0].hits == 5 and gone[0].code_bytes == 100 and gone[3].lived_s >= 1000


def test_a_listener_may_hold_a_lock_that_another_thread_wants_inside_the_cache() -> None:
    """Events are told when the cache's lock is free again."""
    bench, lock, inside = Bench(size=1), threading.Lock(), threading.Event()

    def listen(event: Any) -> None:
        if isinstance(event, Evicted):
            inside.set()
            with lock:
                pass

    stop = bus.subscribe(listen)
    try:
        with lock:
            bench.add("a")
            adding = threading.Thread(target=bench.add, args=("b",))
            adding.start()
            assert inside.wait(10)
            assert bench.cache.figures().entries == 1  # would wait for ever
        adding.join(10)
        assert not adding.is_alive()
    finally:
        stop()


# -- whatever is done in whatever order -----------------------------------------------------------------

ACTS = st.one_of(
    st.tuples(st.sampled_from(["add", "call", "pin", "unpin", "evict", "run", "rest"]), st.sampled_from(KEYS)),
    st.tuples(st.just("wait"), st.floats(0, 30)),
    st.tuples(st.sampled_from(["clear", "look"]), st.none()),
)


class Model:
    """A bench whose steps are checked: what each rule may take, and what never goes."""

    def __init__(self, size: int, ttl_s: float, code_bytes: int) -> None:
        self.bench = Bench(size, ttl_s, code_bytes)
        self.pinned: set[str] = set()
        self.calls = 0
        self.seen = 0

    def do(self, act: str, what: Any) -> None:
        bench, there = self.bench, set(self.bench.cache._entries)
        running = {key for key in there if bench.kept[key].running}
        match act:
            case "add" if what not in there:
                bench.add(what, size=10 + 7 * KEYS.index(what))
                self.calls += 1
            case "call" if what in there:
                bench.kept[what].calls += 1
                self.calls += 1
            case "run" | "rest" if what in there:
                bench.kept[what].running = act == "run"
            case "pin" if what in there:
                bench.cache.pin(name(what))
                self.pinned.add(what)
            case "unpin" if what in there:
                bench.cache.unpin(name(what))
                self.pinned.discard(what)
            case "evict" if what in there:
                try:
                    bench.cache.evict(name(what))
                    assert what not in self.pinned | running
                except CacheError:
                    assert what in self.pinned | running
            case "wait":
                bench.now += what
            case "clear":
                count = bench.cache.clear()
                assert set(bench.cache._entries) == there & (self.pinned | running) and count == len(there - self.pinned - running)
            case "look":
                bench.cache.look()
        self.check(there, running)

    def check(self, there: set[str], running: set[str]) -> None:
        bench = self.bench
        now = set(bench.cache._entries)
        assert there & (self.pinned | running) <= now, "what is pinned or runs was taken"
        gone = [g for g in bench.cache._log if g.number > self.seen]
        self.seen += len(gone)
        stays = self.pinned | {key for key in now if bench.kept[key].running}
        for g in gone:
            assert g.reason != memory.EXPIRED or g.idle_s > bench.limits.ttl_s
            if g.reason == memory.COUNT:  # none that was used before it, and could have gone, is left
                free = [e for e in bench.cache._entries.values() if e.key not in stays and e.number != bench.cache._number]
                assert all(g.at_s - g.idle_s <= e.used_s for e in free)
        if len(now) > bench.limits.size:
            newest = max(bench.cache._entries.values(), key=lambda e: e.number).key
            assert now - stays <= {newest} or not gone, "there was more to take"
        assert bench.cache.held == (len(now), sum(bench.kept[key].size for key in now))
        assert {e.key for e in bench.cache._entries.values() if e.pinned} == self.pinned & now

    def total(self) -> int:
        """Calls that the cache knows of; it is asked when all is done, for asking is a look."""
        return self.bench.cache.figures().hits


@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(st.integers(1, 6), st.sampled_from([5.0, 50.0, 1e9]), st.sampled_from([60, 10**6]), st.lists(ACTS, max_size=60))
def test_whatever_is_done_nothing_pinned_or_running_goes_and_the_rules_hold(
    size: int, ttl_s: float, code_bytes: int, acts: list[Any]
) -> None:
    model = Model(size, ttl_s, code_bytes)
    for act in acts:
        model.do(*act)
    assert model.total() == model.calls
    model.bench.cache.look()
    left = model.bench.cache._entries.values()
    free = [e for e in left if not e.pinned and not model.bench.kept[e.key].running]
    assert all(model.bench.now - e.used_s <= ttl_s for e in free)
    assert len(left) <= size or len(free) <= 1


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(st.lists(st.sampled_from(KEYS), min_size=1, max_size=200), st.integers(1, 6), st.sets(st.sampled_from(KEYS)))
def test_a_replay_never_makes_pinned_code_twice_and_room_for_all_makes_none_twice(keys: list[str], size: int, pinned: set[str]) -> None:
    kernels = {key: Kernel(key, 100, 50.0) for key in KEYS}
    calls = [Call(0.5 * n, kernels[key]) for n, key in enumerate(keys)]
    outcome = replay(calls, memory.Limits(size, 1e9, 10**6), pinned)
    assert outcome.hits + outcome.spliced == outcome.calls == len(keys)
    alone = [call for call in calls if call.kernel.key not in pinned]
    others = len(set(keys) & pinned)
    assert outcome.spliced - others <= len(alone)
    assert replay([call for call in calls if call.kernel.key in pinned], memory.Limits(size, 1.0, 10**6), pinned).again == 0
    assert replay(calls, memory.Limits(len(KEYS), 1e9, 10**6), pinned).again == 0


# -- with kernels ---------------------------------------------------------------------------------------

X = np.linspace(-3.0, 3.0, 24, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def kernels() -> Iterator[Callable[[int], tuple[Any, Any, str]]]:
    """Makes kernels: (the plain function, the one of BCVM, the name of its code)."""
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")
    code_cache.clear()
    made = list[str]()

    def make(number: int) -> tuple[Any, Any, str]:
        plain, f = chain(number)
        assert same(f(X, X), plain(X, X))
        made.append(max(code_cache.entries(), key=lambda entry: entry.number).name)
        return plain, f, made[-1]

    yield make
    for found in code_cache.entries():
        if found.name in made:
            code_cache.unpin(found.name)
    code_cache.clear()


def test_the_public_functions_act_on_the_cache(kernels: Callable[[int], Any]) -> None:
    plain, f, kept = kernels(301)
    _, other, name_of_other = kernels(302)
    bcvm.cache.pin(kept[:8])
    assert bcvm.cache.clear() == 1
    rows = bcvm.cache_info().as_dict()["entries"]
    assert [(row["name"], row["pinned"]) for row in rows] == [(kept, True)]
    assert "pinned" in bcvm.cache_info().table() and kept[:8] in bcvm.cache_info().table()
    assert rows[0]["operands"] == "float32:contiguous, float32:contiguous" and rows[0]["shapes"] == "[4, 6], [4, 6]"
    with pytest.raises(CacheError, match="pinned"):
        bcvm.cache.evict(kept)
    bcvm.cache.unpin(kept)
    bcvm.cache.evict(kept)
    assert [row["name"] for row in bcvm.cache_info().as_dict()["entries"]] == []
    assert same(f(X, X), plain(X, X)), "the next call makes it again"
    other(X, X)
    assert {entry.name for entry in code_cache.entries()} == {kept, name_of_other}


def test_pinned_code_stays_where_many_others_come(kernels: Callable[[int], Any]) -> None:
    plain, f, kept = kernels(311)
    bcvm.cache.pin(kept)
    with config.override(cache_size=4, cache_ttl_s=0.0):
        before = sum(code_cache.figures().misses.values())
        for number in range(312, 330):
            kernels(number)
        assert sum(code_cache.figures().misses.values()) == before + 18
        assert same(f(X, X), plain(X, X))
        assert sum(code_cache.figures().misses.values()) == before + 18, "it was there"
        assert kept in {entry.name for entry in code_cache.entries()}


def test_threads_may_pin_evict_and_call_at_once(kernels: Callable[[int], Any]) -> None:
    made = [kernels(number) for number in range(340, 346)]
    expected, wrong, stop = [plain(X, X) for plain, _, _ in made], list[str](), threading.Event()

    def call() -> None:
        while not stop.is_set():
            for (_, f, _), result in zip(made, expected, strict=True):
                if not same(f(X, X), result):
                    wrong.append("another result")

    def act(which: int) -> None:
        for n in range(300):
            for do in (bcvm.cache.evict, bcvm.cache.pin, bcvm.cache.evict, bcvm.cache.unpin):
                with contextlib.suppress(CacheError):
                    do(made[(n + which) % len(made)][2])

    callers = [threading.Thread(target=call) for _ in range(2)]
    actors = [threading.Thread(target=act, args=(which,)) for which in range(2)]
    for thread in (*callers, *actors):
        thread.start()
    for thread in actors:
        thread.join()
    stop.set()
    for thread in callers:
        thread.join()
    assert not wrong
    assert code_cache.figures().evictions[memory.BY_HAND] > 0
