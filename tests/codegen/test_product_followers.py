"""Products with a bias and an activation, one or several of the same rows: the bits of the ops one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcvm_core.codegen import loader, templates
from bcvm_core.codegen.loops import made
from bcvm_core.codegen.products import job_code as c
from bcvm_core.codegen.products import jobs, matrices
from bcvm_core.codegen.stencils import offsets, threads
from bcvm_core.codegen.stencils.target import host
from tests.in_threads import share

from .split_products import by_definition

pytestmark = pytest.mark.skipif(host() is None or bool(loader.obstacle()), reason="no code for products here")
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 1e-42, 3e38, -3e38)


def data(shape: Any, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def activation(op: str, dtype: str = "float32") -> int:
    loop = made(op, dtype)
    assert isinstance(loop, templates.TemplateLoop)
    assert loop.entry
    return loop.entry


def expected(x: Any, w: Any, bias: Any, op: str | None) -> Any:
    with np.errstate(all="ignore"):
        y = by_definition(x, w.T)
        if bias is not None:
            y = y + bias
    if op is not None:
        out = np.empty_like(y)
        templates.loop_for(op, y.dtype.name)(y.ravel(), out.ravel())
        y = out
    return y


def together(x: Any, layers: Any, op: str | None = None) -> tuple[list[Any], int]:
    tasks = []
    for w, bias in layers:
        plan = matrices.plan_of(x, w.T)
        assert plan is not None
        tasks.append((plan, x, w.T, matrices.More(bias, 0 if op is None else activation(op, x.dtype.name))))
    return matrices.together(tasks)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", [None, "gelu", "tanh", "silu", "sigmoid"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 31), (14, 300, 32), (15, 257, 65), (40, 96, 800), (130, 40, 777), (300, 20, 33)])
def test_bias_and_activation(shape: tuple[int, int, int], op: str | None, dtype: str) -> None:
    rows, depth, columns = shape
    x, w, bias = data((rows, depth), 1, dtype), data((columns, depth), 2, dtype), data(columns, 3, dtype)
    for given_bias in (bias, None):
        (y,), _ = together(x, [(w, given_bias)], op)
        np.testing.assert_array_equal(y, expected(x, w, given_bias, op))


@pytest.mark.parametrize("rows", [2, 16, 40, 200])
def test_several_products_of_the_same_rows_on_threads(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    x = data((rows, 300), 1)
    layers = [(data((n, 300), n), None if n == 97 else data(n, n + 1)) for n in (512, 97, 1003)]
    wanted = [expected(x, w, b, "gelu") for w, b in layers]
    monkeypatch.setattr(jobs, "SEVERAL", 1.0)
    share(monkeypatch)
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "cores", lambda count=count: count)
        for _ in range(3):
            found, events = together(x, layers, "gelu")
            for y, value in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(y, value)
            assert not events & offsets.EVENTS


@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 2**31), st.sampled_from([None, "gelu", "tanh"]))
def test_special_values(rows: int, columns: int, seed: int, op: str | None) -> None:
    rng = np.random.default_rng(seed)
    x, w, bias = data((rows, 9), seed), data((columns, 9), seed + 1), data(columns, seed + 2)
    for array in (x, w, bias):
        array.flat[rng.integers(0, array.size, 3)] = rng.choice(SPECIAL, 3)
    (y,), _ = together(x, [(w, bias)], op)
    np.testing.assert_array_equal(y, expected(x, w, bias, op))
    np.testing.assert_array_equal(np.signbit(y[y == 0]), np.signbit(expected(x, w, bias, op)[y == 0]))


def test_events_of_sums_are_told_and_those_within_an_activation_are_not() -> None:
    x, w = np.ones((4, 2), np.float32), np.ones((40, 2), np.float32)
    assert together(x, [(w, np.full(40, 1e-3, np.float32))], "gelu")[1] & (offsets.EVENTS | c.MET) == 0
    big = np.full((40, 2), 3e38 / 2, np.float32)
    assert together(x, [(big, np.full(40, 3e38, np.float32))])[1] & 8  # overflow of the addition alone
    assert together(x, [(-w, np.full(40, -11.4, np.float32))], "gelu")[1] & c.MET  # gelu(-13.4) is subnormal
