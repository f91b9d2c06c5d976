"""Products beyond NumPy's own spelling, and FLOP counts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import bcvm_core.ops as ops
from bcvm_core.ops import registry


def data(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def test_matmul_in_place() -> None:
    x, y = data(3, 4), data(4, 4)
    expected = x @ y
    definition = registry.row("matmul").definition
    assert definition(x, y, out=x) is x
    np.testing.assert_array_equal(x, expected)
    z = np.empty((4, 4), np.float32)
    assert definition(y, y, out=z) is z and z.tobytes() == (y @ y).tobytes()
    with pytest.raises(ValueError):
        definition(x, data(4, 5), out=x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (0,), (2, 0, 3)])
def test_linear(lead: tuple[int, ...], dtype: Any) -> None:
    x, w, b = data(*lead, 5).astype(dtype), data(4, 5).astype(dtype), data(4).astype(dtype)
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    eps = 4 * float(ml_dtypes.finfo(dtype).eps)
    for result, expected in ((ops.linear(x, w), exact), (ops.linear(x, w, b), exact + b.astype(np.float64))):
        assert result.dtype == dtype and result.shape == (*lead, 4)
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=eps, atol=eps)


def test_linear_and_bmm_refuse_wrong_shapes() -> None:
    for x, w in ((data(3, 4), data(2, 5)), (data(3, 4), data(4)), (np.float32(1), data(2, 2))):
        with pytest.raises(ValueError):
            ops.linear(x, w)
    for x, y in ((data(2, 3, 4), data(3, 4, 5)), (data(2, 3, 4), data(2, 3, 4)), (data(3, 4), data(4, 5))):
        with pytest.raises(ValueError):
            ops.bmm(x, y)
    assert ops.bmm(data(2, 3, 4), data(2, 4, 5)).tobytes() == (data(2, 3, 4) @ data(2, 4, 5)).tobytes()
    half = data(2, 3, 4).astype(np.float16)
    assert ops.bmm(half, half.transpose(0, 2, 1)).dtype == np.float16


def test_mixed_types() -> None:
    assert ops.linear(data(2, 3).astype(np.float16), data(4, 3).astype(ml_dtypes.bfloat16)).dtype == np.float32
    assert ops.linear(data(2, 3), data(4, 3).astype(np.float16)).dtype == np.float32
    assert ops.linear(np.ones((2, 3), int), data(4, 3)).dtype == np.float64


@pytest.mark.parametrize(
    "name, shapes, attrs, expected",
    [
        ("matmul", ((3, 4), (4, 5)), {}, 120),
        ("matmul", ((2, 1, 3, 4), (7, 4, 5)), {}, 120 * 14),
        ("matmul", ((4,), (4, 5)), {}, 40),
        ("matmul", ((3, 4), (4,)), {}, 24),
        ("dot", ((), (3,)), {}, 3),
        ("outer", ((3,), (4,)), {}, 12),
        ("inner", ((2, 3), (4, 3)), {}, 48),
        ("tensordot", ((2, 3), (3, 4)), {"axes": 1}, 48),
        ("tensordot", ((2, 3), (4, 3)), {"axes": ([1], [1])}, 48),
        ("linear", ((2, 3), (5, 3)), {}, 60),
        ("bmm", ((2, 3, 4), (2, 4, 5)), {}, 240),
        ("sum", ((3, 4),), {}, 12),
        ("reshape", ((3, 4),), {}, 0),
        ("attention", ((2, 3, 4), (2, 5, 4), (2, 5, 6)), {}, 2 * 30 * 10 + 25 * 30),
    ],
)
def test_flops(name: str, shapes: Any, attrs: Any, expected: float) -> None:
    flops = registry.row(name).flops
    assert flops is not None and flops(*shapes, **attrs) == expected


def test_flops_of_every_row_are_numbers() -> None:
    for op in registry.rows():
        if op.family in ("reduce", "shape") and op.flops is not None and [p.role for p in op.operands] == ["tensor"]:
            assert op.flops((3, 4)) >= 0
