"""The short way to small attention: who takes it, and that it gives what the long way gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bcvm_core import config, ops, testing
from bcvm_core.codegen import loader
from bcvm_core.codegen.attention import entry
from bcvm_core.codegen.stencils import target
from bcvm_core.ops import heads
from bcvm_core.tiers import attending, attending_again, select

pytestmark = pytest.mark.skipif(target.host() is None or bool(loader.obstacle()), reason="no code for attention here")


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """For each call of the short way: whether it gave a result."""
    found: list[bool] = []
    function = attending_again.Again.function

    def noted(self: Any, *values: Any, **attrs: Any) -> Any:
        result = function(self, *values, **attrs)
        found.append(result is not None)
        return result

    monkeypatch.setattr(attending_again.Again, "function", noted)
    monkeypatch.setattr(heads.attention, "direct", attending_again.Again())  # type: ignore[attr-defined]
    monkeypatch.setattr(select, "_eager", {})  # sites of before know the other
    yield found


def data(n: int, m: int, *, size: int = 16, dtype: Any = np.float32) -> list[Any]:
    shapes = (1, 3, n, size), (1, 3, m, size), (1, 3, m, size)
    return [np.random.default_rng(k).standard_normal(shape).astype(dtype) for k, shape in enumerate(shapes)]


def long_way(q: Any, k: Any, v: Any, **more: Any) -> Any:
    return heads.attention(q, k, v, **more)


def test_calls_like_one_that_was_made(taken: list[bool]) -> None:
    for n, m in ((7, 9), (16, 16), (7, 9), (1, 1)):
        q, k, v = data(n, m)
        for _ in range(3):
            np.testing.assert_array_equal(ops.attention(q, k, v), long_way(q, k, v))
    assert taken.count(True) >= 7


def test_other_calls_take_the_long_way(taken: list[bool]) -> None:
    q, k, v = data(7, 9)
    for _ in range(3):
        ops.attention(q, k, v)
    assert taken[-1]
    mask = np.arange(9) < 5
    for given, more in (
        ((q, k, v), {"mask": mask[None, :]}),
        ((q, k, v), {"causal": True}),
        ((q, k, v), {"scale": 0.5}),
        ((q.astype(np.float64), k.astype(np.float64), v.astype(np.float64)), {}),
        ((q[:, :, :5], k, v), {}),
        ((q, k[:, :, ::-1], v), {}),
    ):
        taken.clear()
        np.testing.assert_array_equal(ops.attention(*given, **more), long_way(*given, **more))
        assert True not in taken
    with pytest.raises(ValueError, match="attention"):
        ops.attention(q, k[..., :5], v)


def test_a_large_call_is_not_kept() -> None:
    q, k, v = data(300, 300, size=64)
    ops.attention(q, k, v)
    assert attending.short(q, k, v) is None


def test_without_generated_code(taken: list[bool]) -> None:
    q, k, v = data(7, 9)
    for _ in range(3):
        ops.attention(q, k, v)
    taken.clear()
    with config.override(use_llvm=False):
        np.testing.assert_allclose(ops.attention(q, k, v), long_way(q, k, v), rtol=1e-5)
    assert True not in taken
    assert entry.function_for(q.dtype) is not None


def test_kernels_of_others_run() -> None:
    q, k, v = data(7, 9)
    for _ in range(3):
        expected = ops.attention(q, k, v)
    with testing.corrupt_kernel("attention.numpy", lambda r: r * 2):
        np.testing.assert_array_equal(ops.attention(q, k, v), expected * 2)
    np.testing.assert_array_equal(ops.attention(q, k, v), expected)
