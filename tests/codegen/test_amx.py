"""Products by the processor's matrix unit: the bits of their definition, whoever computes them, and no larger errors than BLAS's."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcvm_core import config
from bcvm_core.codegen import loader, loops, scratch, store, templates
from bcvm_core.codegen.products import amx as amx_ir
from bcvm_core.codegen.products import job_code, jobs, matrices, product
from bcvm_core.codegen.stencils import offsets, threads
from bcvm_core.devices import amx
from bcvm_core.ops import chains
from tests.in_threads import share

from .split_products import DEPTH, by_definition, by_unit

pytestmark = pytest.mark.skipif(not amx.allowed() or bool(loader.obstacle()), reason="no matrix unit here")
F32 = np.float32
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-40, 3.4e38, -3.4e38, 1e-20, -1e30, 1.2e-38, 2.0**-51, 2.0**50, 2.0**-52], F32
)
FINITE = SPECIAL[np.isfinite(SPECIAL) & (np.abs(SPECIAL) < 1e18)]


def data(shape: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def wide(depth: int, more: int = 0) -> int:
    """So many columns make a weight of this depth large enough."""
    return -(-jobs.AMX_LEAST // depth) + more


def sprinkled(x: Any, numbers: Any, share_of: float, seed: int) -> Any:
    """x with some of its numbers replaced."""
    rng = np.random.default_rng(seed)
    x = x.copy()
    at = rng.random(x.shape) < share_of
    x[at] = rng.choice(numbers, int(at.sum()))
    return x


def times(a: Any, b: Any) -> Any:
    assert jobs.unit(a.shape[0], b)
    made = product.multiply(a, b)
    assert made is not None
    return made


# -- bits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["weight", "rows"])
@pytest.mark.parametrize("depth", [32, 33, 63, 100, 256, 257, 300, 1030])
@pytest.mark.parametrize("rows", [48, 65, 81, 127])
def test_bits_are_those_of_the_definition(rows: int, depth: int, order: str) -> None:
    a, w = data((rows, depth), 1), data((wide(depth, rows % 40), depth), 2)
    b = w.T if order == "weight" else np.ascontiguousarray(w.T)
    np.testing.assert_array_equal(times(a, b), by_unit(a, b))


@pytest.mark.parametrize("columns", [512, 513, 527, 528, 529, 543])
@pytest.mark.parametrize("rows", [256, 257, 300, 530])
def test_many_rows_and_any_number_of_columns(rows: int, columns: int) -> None:
    a, w = data((rows, 260), 1), data((columns, 260), 2)
    made = times(a, w.T)
    some = np.r_[0:3, 14:18, 250 : min(rows, 262), rows - 3 : rows]
    np.testing.assert_array_equal(made[some], by_unit(a[some], w.T))


def test_a_depth_whose_rows_are_split_piece_by_piece() -> None:
    a, w = data((300, 2100), 1), data((70, 2100), 2)
    some = np.array([0, 17, 255, 256, 299])
    for _ in range(4):  # from the second time on the weight is kept
        np.testing.assert_array_equal(times(a, w.T)[some], by_unit(a[some], w.T))


def test_more_rows_than_one_plan_takes() -> None:
    a, w = data((jobs.ROWS_MAX + 100, 256), 1), data((512, 256), 2)
    some = np.array([0, 255, 256, 4095, 4096, 4195])
    np.testing.assert_array_equal(times(a, w.T)[some], by_unit(a[some], w.T))


@given(st.integers(48, 140), st.integers(32, 600), st.integers(0, 60), st.integers(0, 2**31), st.sampled_from([0.0, 1e-3, 0.02, 0.5]))
def test_special_values(rows: int, depth: int, more: int, seed: int, share_of: float) -> None:
    a = sprinkled(data((rows, depth), seed), SPECIAL, share_of, seed + 1)
    w = sprinkled(data((wide(depth, more), depth), seed + 2), SPECIAL, share_of * (seed % 3) / 50, seed + 3)
    with np.errstate(all="ignore"):
        made = times(a, w.T)
    rng = np.random.default_rng(seed)
    some, across = rng.integers(0, rows, 4), rng.integers(0, len(w), 40)
    expected = by_unit(a[some], w[across].T)
    np.testing.assert_array_equal(made[np.ix_(some, across)], expected)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(made[np.ix_(some, across)][zeros]), np.signbit(expected[zeros]))


def test_rows_have_no_say_in_each_other() -> None:
    a, w = sprinkled(data((200, 300), 1), SPECIAL, 0.001, 5), data((500, 300), 2)
    with np.errstate(all="ignore"):
        whole = times(a, w.T)
        for row in (0, 63, 199):
            alone = times(np.repeat(a[row : row + 1], 50, 0), w.T)
            np.testing.assert_array_equal(alone, np.repeat(whole[row : row + 1], 50, 0))
        np.testing.assert_array_equal(times(a[::2][:90], w.T), whole[::2][:90])


@pytest.mark.parametrize("rows", [66, 300])
@pytest.mark.parametrize("op", [None, "gelu"])
def test_threads_bias_and_activation(monkeypatch: pytest.MonkeyPatch, rows: int, op: str | None) -> None:
    loop: Any = None if op is None else templates.loop_for(op, "float32")
    assert loops.wait(60)
    entry = 0 if loop is None else loop.entry
    x = data((rows, 300), 1)
    layers = [(data((n, 300), n), None if n == 600 else data(n, n + 1)) for n in (512, 600, 1003)]
    wanted = []
    for w, bias in layers:
        y = times(x, w.T) if bias is None else times(x, w.T) + bias
        if loop is not None:
            out = np.empty_like(y)
            loop(y.ravel(), out.ravel())
            y = out
        wanted.append(y)
    monkeypatch.setattr(jobs, "SEVERAL", 1.0)
    share(monkeypatch)
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "cores", lambda count=count: count)
        tasks = []
        for w, bias in layers:
            plan = matrices.plan_of(x, w.T)
            assert plan is not None
            assert plan.by_unit
            tasks.append((plan, x, w.T, matrices.More(bias, entry)))
        for _ in range(3):
            found, events = matrices.together(tasks)
            for y, value in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(y, value)
            assert not events & offsets.EVENTS


def test_a_bias_comes_after_numbers_that_were_left_out() -> None:
    x = sprinkled(data((70, 300), 1), FINITE, 0.02, 3)
    w, bias = sprinkled(data((517, 300), 2), FINITE, 0.001, 4), data(517, 5)
    plan = matrices.plan_of(x, w.T)
    assert plan is not None
    for _ in range(3):
        (made,), _events = matrices.together(((plan, x, w.T, matrices.More(bias)),))
        np.testing.assert_array_equal(made, times(x, w.T) + bias)


@pytest.mark.parametrize("stale", [0x7F800001, 0x7F7FFFFF, 1])  # a signalling NaN, the largest number, the least one
def test_a_bias_of_columns_that_fill_no_panel_takes_nothing_from_old_memory(monkeypatch: pytest.MonkeyPatch, stale: int) -> None:
    x, w, bias = data((70, 300), 1), data((517, 300), 2), data(517, 5)
    plan = matrices.plan_of(x, w.T)
    assert plan is not None
    memory = scratch.Scratch()
    monkeypatch.setattr(jobs, "scratch", memory)
    memory.at(plan.layout.size)
    start = memory.address - loops.address(memory.memory)
    memory.memory[start : start + plan.layout.size].view(np.uint32)[:] = stale
    made = np.empty(plan.shape, F32)
    assert not plan.into((plan, x, w.T, matrices.More(bias)), made) & offsets.EVENTS
    np.testing.assert_array_equal(made, times(x, w.T) + bias)


def test_a_weight_that_turns_odd_is_seen() -> None:
    x, w = data((70, 300), 1), data((500, 300), 2)
    for _ in range(3):
        np.testing.assert_array_equal(times(x, w.T), by_unit(x, w.T))
    w[7, 5] = 1e-30  # no longer all split
    for _ in range(3):
        np.testing.assert_array_equal(times(x, w.T), by_unit(x, w.T))


# -- which products ---------------------------------------------------------------------------------


def test_which_products_the_unit_takes() -> None:
    w = data((512, 256), 1)
    least = jobs.AMX_ROWS
    assert jobs.unit(least, w.T)
    assert not jobs.unit(least - 1, w.T)
    assert not jobs.unit(least, w[:511].T)
    assert not jobs.unit(least, w.astype(np.float64).T)
    assert not jobs.unit(least, data((5000, 31)).T)
    assert not jobs.unit(least, w.T[None])


def test_narrower_vectors_have_no_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "cpu_level", lambda: "x86-64-v3")
    loop = amx_ir.AmxLoop(amx_ir.OP, "float32")
    assert not loop.load()
    assert "no matrix unit" in loop.failed


@pytest.mark.parametrize("settings", [{"reproducible": True}, {"amx": False}])
def test_settings_that_leave_it_out(settings: dict[str, bool]) -> None:
    x, w = data((70, 300), 1), data((500, 300), 2)
    with_unit = times(x, w.T)
    with config.override(**settings):
        made = product.multiply(x, w.T)
        np.testing.assert_array_equal(made, chains.multiply(x, w.T))
    np.testing.assert_array_equal(times(x, w.T), with_unit)
    assert not np.array_equal(made, with_unit)


def test_the_environment_says_so_too() -> None:
    code = "from bcvm_core import config; print(config.current.amx)"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "BCVM_AMX": "0"}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_numbers_of_the_definition() -> None:
    assert job_code.DEPTH == DEPTH == chains.DEPTH


# -- errors and events ------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [32, 100, 768, 3072])
@pytest.mark.parametrize("kind", ["normal", "wide", "positive"])
def test_the_error_is_no_larger_than_that_of_blas(depth: int, kind: str) -> None:
    x, w = data((96, depth), depth), data((max(64, wide(depth)), depth), depth + 1)
    if kind == "wide":
        x = x * np.exp2(np.random.default_rng(3).integers(-30, 30, x.shape)).astype(F32)
        w = w * np.exp2(np.random.default_rng(4).integers(-15, 15, w.shape)).astype(F32)
    if kind == "positive":
        x, w = np.abs(x), np.abs(w)
    exact = x.astype(np.float64) @ w.T.astype(np.float64)
    sizes = np.abs(x).astype(np.float64) @ np.abs(w).T.astype(np.float64)
    errors = [np.sqrt(np.mean(((y - exact) / sizes) ** 2)) for y in (times(x, w.T), x @ w.T)]
    assert errors[0] <= errors[1]


def test_events_are_those_of_the_numbers_alone() -> None:
    x, w = data((70, 300), 1), data((500, 300), 2)
    plan = matrices.plan_of(x, w.T)
    assert plan is not None

    def events(x: Any, w: Any) -> int:
        return matrices.together(((plan, x, w.T, matrices.NOTHING),))[1] & offsets.EVENTS

    assert not events(x, w)
    assert not events(sprinkled(x, np.array([np.nan, 1e-20, 0.0], F32), 0.01, 1), w)
    infinite = x.copy()
    infinite[3, 4] = np.inf
    assert not events(infinite, w)
    zero = w.copy()
    zero[9, 4] = 0
    assert events(infinite, zero) == 1  # inf times 0: invalid
    large = x.copy()
    large[5] = 3e38
    assert events(large, w) & 8  # overflow


def _in_child(queue: Any, x: Any, w: Any) -> None:
    queue.put(times(x, w.T))


def test_a_forked_child_may_use_it() -> None:
    x, w = data((70, 300), 1), data((500, 300), 2)
    expected = times(x, w.T)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue, x, w))
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=60), expected)
    child.join(60)
    assert child.exitcode == 0


def test_definitions_meet_where_both_are_exact() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-200, 200, shape).astype(F32) for shape in ((66, 256), (512, 256)))
    np.testing.assert_array_equal(times(x, w.T), chains.multiply(x, w.T))
    assert by_definition(x[:5], w.T).tobytes() == times(x, w.T)[:5].tobytes()
