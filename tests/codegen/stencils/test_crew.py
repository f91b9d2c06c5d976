"""Threads that share the parts of a call: every part runs once, whoever takes it, and callers do not wait for each other."""

from __future__ import annotations

import _thread
import ctypes
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bcvm_core.codegen import loops
from bcvm_core.codegen.loops import address
from bcvm_core.codegen.stencils import crew as crews
from bcvm_core.codegen.stencils import crew_code as w
from bcvm_core.codegen.stencils import threads
from bcvm_core.codegen.stencils.driver import driver
from tests.in_threads import in_threads, share

COPY = ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value or 0
SLEEP = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value or 0


@pytest.fixture(autouse=True)
def _native() -> None:
    driver()
    loops.wait(60.0)
    if not driver().addresses:
        pytest.skip(driver().failed)


@pytest.fixture(params=[2, 3, 7])
def crew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[crews.Crew]:
    """One of its own."""
    monkeypatch.setattr(threads, "cores", lambda: request.param)
    yield crews.Crew()


def copies(count: int, size: int) -> tuple[Any, Any, Any]:
    """(table of copies, source, target)."""
    source = np.random.default_rng(count).integers(0, 256, count * size, np.uint8)
    target = np.zeros_like(source)
    rows = crews.table(count)
    rows[:, 0] = address(target) + np.arange(count) * size
    rows[:, 1] = address(source) + np.arange(count) * size
    rows[:, 2] = size
    return rows, source, target


@pytest.mark.parametrize("count", [0, 1, 2, 3, 64, 1000])
def test_every_part_runs_once(crew: crews.Crew, count: int) -> None:
    for size in (1, 100, 30_000 if count < 100 else 10):
        rows, source, target = copies(count, size)
        for _ in range(20):
            target[:] = 0
            rows[:, crews.RETURNED] = 0
            crew.run(COPY, rows)
            np.testing.assert_array_equal(target, source)
            np.testing.assert_array_equal(rows[:, crews.RETURNED], rows[:, 0])


def test_threads_that_sleep_are_woken(crew: crews.Crew) -> None:
    rows, source, target = copies(40, 1000)
    crew.run(COPY, rows)
    for pause in (0.0, 0.001, 0.02):
        time.sleep(pause)
        target[:] = 0
        crew.run(COPY, rows)
        np.testing.assert_array_equal(target, source)


def test_parts_run_at_the_same_time(crew: crews.Crew) -> None:
    meeting = threading.Barrier(crew.members)

    def meet(*_: int) -> int:
        meeting.wait(60.0)  # in vain unless every thread is here
        return 1

    part = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_int64,) * 6)(meet)
    rows = crews.table(crew.members)
    crew.run(ctypes.cast(part, ctypes.c_void_p).value or 0, rows)
    assert (rows[:, crews.RETURNED] == 1).all() and not meeting.broken


def test_a_range_is_swept(crew: crews.Crew) -> None:
    seen = np.zeros(64, np.int64)

    def fill(a: int, b: int, first: int, last: int) -> int:
        seen[first:last] = a + b
        return 0

    note = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_int64,) * 4)(fill)
    function = ctypes.cast(note, ctypes.c_void_p).value or 0
    for start, share_, end in ((0, 1, 64), (3, 5, 64), (10, 7, 24), (0, 100, 64)):
        for ns in (0.0, 1e12):  # in one go, and part by part
            seen[:] = 0
            crew.sweep(function, (40, 2), crews.NOTHING, (start, share_, end), ns)
            assert (seen[start:end] == 42).all() and not seen[:start].any() and not seen[end:].any()


@pytest.mark.parametrize("in_job", [False, True])
def test_each_thread_has_scratch_memory_of_its_own(crew: crews.Crew, in_job: bool) -> None:
    count, step = 200, 128
    source, memory = np.arange(count), np.zeros(step * crew.members // 8, np.int64)
    rows, jobs = crews.table(count), np.zeros((count, 3), np.int64)
    rows[:, 1], rows[:, 2] = address(source) + 8 * np.arange(count), 8
    if in_job:  # the copy's target is the job, the word that is moved lies behind
        rows[:, 0] = address(jobs) + 24 * np.arange(count)
        jobs[:, 2] = address(memory)
        crew.run(COPY, rows, crews.Moved(16, 1, step, True))
        used = jobs[:, 2]
    else:
        rows[:, 0] = address(memory)
        crew.run(COPY, rows, crews.Moved(0, 1, step, False))
        used = rows[:, 0]
        assert set(memory[:: step // 8][np.unique((used - address(memory)) // step)]) <= set(source)
    assert set((used - address(memory)) % step) == {0} and (used - address(memory)).min() >= 0
    assert ((used - address(memory)) // step).max() < crew.members


def test_flags_that_parts_raise_are_the_callers(crew: crews.Crew) -> None:
    library = ctypes.PyDLL("libm.so.6")
    invalid, raises = 1, ctypes.cast(library.feraiseexcept, ctypes.c_void_p).value or 0
    rows = crews.table(64)
    for raised in (0, invalid):
        for number in (0, 17, 63):  # whoever takes it
            rows[:, 0] = 0
            rows[number, 0] = raised
            library.feclearexcept(invalid)
            crew.run(raises, rows)
            assert library.fetestexcept(invalid) == raised
    library.feclearexcept(invalid)


def test_callers_do_not_disturb_each_other(crew: crews.Crew) -> None:
    def work(number: int) -> None:
        rows, source, target = copies(10 + number, 500)
        for _ in range(200):
            target[:] = 0
            crew.run(COPY, rows)
            assert (target == source).all()

    in_threads(5, work)


def test_an_interrupt_comes_between_portions(crew: crews.Crew, pythons_interrupts: None) -> None:
    rows = crews.table(1000)
    rows[:, 0] = 20_000
    killer = threading.Timer(0.2, _thread.interrupt_main)
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        crew.run(SLEEP, rows, ns=1000 * 20e6)
    killer.join()
    rows, source, target = copies(30, 100)
    crew.run(COPY, rows)
    np.testing.assert_array_equal(target, source)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "cores", lambda: 3)
    rows, source, target = copies(50, 1000)
    crews.crew.run(COPY, rows)
    child = os.fork()
    if child == 0:
        target[:] = 0
        crews.crew.run(COPY, rows)
        os._exit(0 if (target == source).all() and crews.crew.members == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_short_calls_are_shared_by_threads_that_are_awake(crew: crews.Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    block = crew.block
    sleepers = ctypes.c_int64.from_address(block + w.W_SLEEPERS)
    while sleepers.value < crew.members - 1:
        time.sleep(0.001)
    short = float(crews.SHARED_NS)
    assert not crew.worth(short - 1) and not crew.worth(short) and crew.worth(crews.WAKE_NS)
    monkeypatch.setattr(crews, "_ROW_NS", 10**12)
    asked = [crew.worth(short) for _ in range(20)]
    assert not asked[0] and asked[-1]  # many in a row
    ctypes.c_int64.from_address(block + w.W_QUIET).value = time.perf_counter_ns() + 10**12
    assert not crew.worth(short) and not crew.worth(crews.WAKE_NS) and crew.worth(crews.LARGE_NS)
    monkeypatch.setattr(threads, "cores", lambda: 1)
    assert not crew.worth(1e12)


def test_late_parts_keep_short_calls_alone_for_longer_each_time(crew: crews.Crew) -> None:
    quiet, quiet_ns = (ctypes.c_int64.from_address(crew.block + at) for at in (w.W_QUIET, w.W_QUIET_NS))
    rows = crews.table(2)
    rows[:, 0] = 1, 30_000  # one of two is late
    least, late = quiet_ns.value, 0
    for _ in range(100):
        before = quiet.value, quiet_ns.value
        crew.run(SLEEP, rows)
        if quiet.value != before[0]:  # another thread took the late part
            late += 1
            assert quiet_ns.value == 2 * before[1] and quiet.value - time.perf_counter_ns() <= before[1]
        if late == 3:
            break
    assert late == 3
    most = quiet_ns.value
    rows, _source, _target = copies(2, 10)
    found = []
    for _ in range(200):
        crew.run(COPY, rows)
        found.append(quiet_ns.value)
    assert least <= min(found) < most


def test_sharing_is_forced_in_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "cores", lambda: 2)
    share(monkeypatch)
    assert crews.crew.worth(0)
    share(monkeypatch, float("inf"))
    assert not crews.crew.worth(1e18)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads can't be kept on cores here")
def test_threads_are_kept_off_the_core_of_whoever_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    here, moved = [0], []

    class Thread:
        native_id = 7

    own = crews.Crew()
    own._threads, own._members = [Thread()], 2  # type: ignore[list-item]
    monkeypatch.setattr(threads, "cores", lambda: 2)
    monkeypatch.setattr(crews, "_cpu", lambda: lambda: here[0])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr(os, "sched_setaffinity", lambda *args: moved.append(args))
    for cpu in (0, 0, 1, 1, -1, 0):
        here[0] = cpu
        assert own.block == 0
    assert moved == [(7, {1}), (7, {0}), (7, {1})]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {1})
    here[0] = 1
    assert own.block == 0
    assert len(moved) == 3  # there is no other core
