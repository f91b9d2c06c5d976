"""Errors of row kernels against float64, beside those of the same formula in NumPy's float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcvm_core import ops
from tests.codegen.test_rows import attrs_of, definition, made

HALF_ULP = 2.0**-24
NOISE = 1.15  # two formulas of the same quality differ by as much over some hundred rows


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _log_softmax(x: Any) -> Any:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _layer_norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(1e-5))


def _rms_norm(x: Any) -> Any:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + x.dtype.type(1e-6))


def _logsumexp(x: Any) -> Any:
    most = x.max(-1, keepdims=True)
    return np.log(np.exp(x - most).sum(-1)) + most[..., 0]


Formula = Callable[[Any], Any]
FORMULAS: dict[str, tuple[Formula, Callable[[Any, Any], Any]]] = {  # NumPy's way, and what an error is measured against
    "softmax": (_softmax, lambda x, true: np.maximum(true, 1e-30)),
    "log_softmax": (_log_softmax, lambda x, true: np.maximum(np.abs(true), 1)),
    "layer_norm": (_layer_norm, lambda x, true: 1.0),
    "rms_norm": (_rms_norm, lambda x, true: np.abs(true)),
    "logsumexp": (_logsumexp, lambda x, true: np.abs(true)),
    "sum": (lambda x: x.sum(-1), lambda x, true: np.abs(x).sum(-1)),
    "mean": (lambda x: x.mean(-1), lambda x, true: np.abs(x).mean(-1)),
    "var": (lambda x: x.var(-1), lambda x, true: true),
    "std": (lambda x: x.std(-1), lambda x, true: true),
}


def _inputs() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found = {
        "rows of 1,000": rng.standard_normal((256, 1000)),
        "rows of 32,000": rng.standard_normal((32, 32000)),
        "rows of 64": rng.standard_normal((4096, 64)),
        "the mean far above the deviation": rng.standard_normal((512, 1000)) + 1e4,
        "positive": rng.random((256, 1000)),
        "1e7 in a row": rng.random((1, 10**7)),
    }
    return {name: x.astype(np.float32) for name, x in found.items()}


@pytest.mark.parametrize("op", FORMULAS)
def test_errors_are_no_larger_than_those_of_numpy(op: str) -> None:
    kernel, (formula, measure) = made(op, "float32"), FORMULAS[op]
    for name, x in _inputs().items():
        wide = x.astype(np.float64)
        true = formula(wide)
        scale = measure(wide, true)
        ours, theirs = (np.sqrt(np.square((y.astype(np.float64) - true) / scale).mean()) for y in (kernel(x, **attrs_of(op)), formula(x)))
        assert ours <= max(NOISE * theirs, HALF_ULP), (name, ours, theirs)


def test_rows_that_softmax_masks_out_do_not_touch_others() -> None:
    x = np.zeros((6, 100), np.float32)
    x[2] = -np.inf
    x[4, 1:] = -np.inf
    found = ops.softmax(x)
    assert np.isnan(found[2]).all()
    assert found[4, 0] == 1.0 and not found[4, 1:].any()
    np.testing.assert_array_equal(found[[0, 1, 3, 5]], np.float32(0.01))
    assert np.isneginf(ops.logsumexp(x, axis=-1)[2])


def test_variance_where_the_mean_is_large() -> None:
    x = np.float64(1e9) + np.arange(4000.0) % 7
    for kernel in (made("var", "float64"), lambda v: definition("var", v)):
        assert kernel(x) == pytest.approx(np.var(np.arange(4000.0) % 7), rel=1e-9)
