"""The clock: nothing is touched while it is off, every call is measured while it is on, and results never change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core.jit import linker_of
from bcvm_core.tiers.clock import EACH, Timing, clock
from bcvm_core.tiers.pool import pool
from bcvm_core.tiers.select import CallSite
from bcvm_core.vm.latency import Note, latency
from bcvm_core.vm.region import Region


@pytest.fixture
def x() -> Any:
    return np.arange(6, dtype=np.float32)


@pytest.fixture
def measuring() -> Any:
    clock.start()
    yield
    clock.stop()


def latency_regions(function: Any) -> list[Region]:
    linker = linker_of(function)
    assert linker is not None
    return [site for site in linker.table.live if isinstance(site, Region)]


def test_a_site_holds_the_kernel_itself_while_nobody_looks(x: Any) -> None:
    site = CallSite("add")
    site(x, x)
    (plan,) = site._state[1].values()
    assert plan.fn is pool.slot(site.signature).kernels[0].fn
    assert clock.timing(site) is None


def test_calls_are_counted_and_measured_while_it_is_on(x: Any, measuring: None) -> None:
    site = CallSite("exp")
    for _ in range(3):
        site(x)
    timing = clock.timing(site)
    assert timing is not None and timing.calls == 3
    assert 0 < timing.last_ns <= timing.total_ns


def test_a_site_that_ran_before_is_measured_from_its_next_call_and_let_go_again(x: Any) -> None:
    site = CallSite("tanh")
    before = site(x)
    clock.start()
    during = site(x)
    clock.stop()
    after = site(x)
    timing = clock.timing(site)
    assert timing is not None and timing.calls == 1
    assert before.tobytes() == during.tobytes() == after.tobytes()
    (plan,) = site._state[1].values()
    assert plan.fn.__qualname__ != "Clock.timed.<locals>.call"


def test_two_watchers_share_it(x: Any) -> None:
    clock.start()
    clock.start()
    clock.stop()
    assert clock.on
    clock.stop()
    clock.stop()  # once too often
    assert not clock.on
    clock.start()
    assert clock.on
    clock.stop()


def test_writing_in_place_is_measured(x: Any, measuring: None) -> None:
    site = CallSite("add")
    assert site(x, x, out=x) is x
    timing = clock.timing(site)
    assert timing is not None and timing.calls == 1
    assert x.tolist() == [0, 2, 4, 6, 8, 10]


def test_a_call_that_raises_counts_no_time(x: Any, measuring: None) -> None:
    site = CallSite("add")
    with pytest.raises(ValueError, match="broadcast"):
        site(x, np.ones(7, np.float32))
    timing = clock.timing(site)
    assert timing is not None and timing.calls == 0


def test_the_pool_tells_which_kernels_ran(x: Any) -> None:
    site = CallSite("sqrt")
    site(x)
    assert pool.ran(site.signature) == (pool.slot(site.signature).kernels[0].name,)
    assert pool.ran(0) == ()


@pytest.mark.parametrize("spent_ns, measured", [(1_000, 3), (1_000_000, 96)])
def test_of_short_calls_that_come_later_some_stand_for_the_others(spent_ns: int, measured: int) -> None:
    timing = Timing()
    for _ in range(EACH):
        timing.add(spent_ns)
    found = 0
    for _ in range(96):
        if timing.rest > 0:
            timing.rest -= 1
        else:
            found += 1
            timing.add(spent_ns)
    assert found == measured
    assert timing.settled().calls == EACH + 96
    assert timing.total_ns == spent_ns * timing.calls


def test_calls_by_machine_code_are_counted_all_though_few_are_measured(x: Any, measuring: None) -> None:
    pytest.importorskip("llvmlite")
    assert bcvm.ready()

    @bcvm.jit
    def act(x: Any) -> Any:
        return np.maximum(x * 2.0, 0.0) + 1.0

    noted: list[Note] = []
    for _ in range(1000):
        act(x)
    (region,) = latency_regions(act)
    before = latency.timing(region)
    assert before.calls >= 990  # the first ones went through Python, whose calls nobody listened to
    latency.start(noted.extend, 0)
    for _ in range(100):
        act(x)
    latency.stop(noted.extend)
    assert len([note for note in noted if note.region is region]) == 100, "whoever listens hears of each"
    assert latency.timing(region).calls == before.calls + 100
