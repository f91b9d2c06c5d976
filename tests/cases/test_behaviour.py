"""The recorded cases that are told as steps: caching, forks, shapes and lifetimes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

from bcvm_core import config
from bcvm_core.cache.memory import code_cache
from bcvm_core.events import Lowered, Spliced, bus
from bcvm_core.jit import jit
from tests.bench.code_memory import resident_kb


@jit
def doubled_sum(x: Any) -> Any:
    return (x * 2).sum()


@jit
def exponential(x: Any) -> Any:
    return np.exp(x).sum()


def _in_child() -> None:
    ok = doubled_sum(np.arange(1000.0)) == 999000.0 and doubled_sum(np.arange(10.0)) == 90.0
    ok = ok and bool(np.isclose(exponential(np.zeros(5)), 5.0)) and bool(np.isclose(np.log(exponential(np.zeros(3))), np.log(3.0)))
    os._exit(0 if ok else 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_c52_forked_children_do_not_hang() -> None:
    exponential(np.ones(100))  # a kernel may be on its way in the background
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_in_child) for _ in range(4)]
    for child in children:
        child.start()
    assert doubled_sum(np.arange(1000.0)) == 999000.0
    for child in children:
        child.join(10)
        assert child.exitcode == 0
    assert np.isclose(exponential(np.zeros(4)), 4.0)


def test_c58_functions_and_their_constants_die() -> None:
    references = []
    for round_ in range(300):
        data = np.ones(1000)

        @jit
        def f(x: Any, data: Any = data) -> Any:
            return data.sum() * x

        assert f(1.0) == 1000.0
        references.append(weakref.ref(data))
        del f, data
        if round_ % 50 == 49:
            gc.collect()
    gc.collect()
    assert sum(r() is not None for r in references) == 0


def test_c61_sizes_one_and_zero_pin_nothing() -> None:
    @jit
    def f(x: Any) -> Any:
        return x / x.shape[0] + x.mean()

    for n in [*range(1, 11), 1]:
        assert np.allclose(f(np.ones((n, 3))), 1 / n + 1)
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert f(np.ones((0, 3))).shape == (0, 3)
    assert f.stats().bound <= 3


def test_c83_new_shapes_are_no_new_versions() -> None:
    @jit
    def f(x: Any, a: Any) -> Any:
        return np.maximum(2 * x + a, a - x).sum(-1)

    def check(i: int, j: int) -> None:
        result = f(np.full((i, 3, 4), 1.0, np.float32), np.full((j, 3, 4), 2.0, np.float32))
        assert result.shape == (max(i, j), 3) and (result == 16.0).all()

    for i in range(1, 10):
        check(i, i)
    assert f.stats().bound <= 3
    before = f.stats().bound
    for i in range(1, 10):
        check(i, i)
    check(1, 5)
    assert f.stats().bound == before
    assert f.stats().share() == 1.0


def test_c54_five_hundred_shapes_are_a_few_kernels() -> None:
    @jit
    def f(x: Any) -> Any:
        return ((x * 2 + 1) / (x.shape[0] + 1)).sum(0)

    memory = {}
    with config.override(cache_size=64):
        before = code_cache.figures()
        for n in range(1, 501):
            np.testing.assert_allclose(f(np.ones((n, 4), np.float32)), np.full(4, 3 * n / (n + 1)), rtol=1e-5)
            if n in (100, 500):
                memory[n] = resident_kb()
        after = code_cache.figures()
    assert sum(after.misses.values()) - sum(before.misses.values()) <= 3
    assert after.entries <= 64
    assert f.stats().bound <= 3
    assert memory[500] - memory[100] < 20 << 10


def test_c59_values_make_no_versions_of_inner_functions() -> None:
    @jit
    def h(x: Any, k: int) -> Any:
        return x * k

    @jit
    def g(x: Any, k: int) -> Any:
        return h(x, k) + 1

    @jit
    def f(x: Any, k: int) -> Any:
        return g(x, k) - 1

    heard: list[object] = []
    stop = bus.subscribe(lambda event: heard.append(event) if isinstance(event, Lowered | Spliced) else None)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for k in range(1, 51):
                assert f(np.ones(3), k).tolist() == [k] * 3
    finally:
        stop()
    assert len(heard) <= 10
    assert len(told) <= 1
