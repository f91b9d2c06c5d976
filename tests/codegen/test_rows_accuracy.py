"""Errors of row kernels against float64, beside those of the same formula in NumPy's float32."""

from __future__ import annotations

import numpy as np
import pytest

from bcvm_core import ops
from bcvm_core.codegen import loops
from tests.codegen.accuracy import CASES, INPUTS, LONG, NOT_LONG, errors
from tests.codegen.test_rows import definition, made

HALF_ULP = 2.0**-24
NOISE = 1.1  # two formulas of the same quality differ by as much over some hundred rows


@pytest.fixture(scope="module", autouse=True)
def _made() -> None:
    """Machine code, where it can be had, for all of them."""
    for case in CASES.values():
        errors(case, INPUTS["(4096, 64)"], 1)
    assert loops.wait(120)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("op", CASES)
def test_errors_are_no_larger_than_those_of_numpy(op: str, name: str) -> None:
    ours, theirs = errors(CASES[op], INPUTS[name])
    assert ours <= max(NOISE * theirs, HALF_ULP), (ours, theirs)


@pytest.mark.parametrize("op", [op for op in CASES if op not in NOT_LONG])
def test_errors_over_ten_million_elements(op: str) -> None:
    ours, theirs = errors(CASES[op], LONG, 1)
    assert ours <= max(NOISE * theirs, HALF_ULP), (ours, theirs)


@pytest.mark.parametrize("op", [op for op in CASES if op not in ("cross_entropy", "cumsum", "prod")])
def test_nan_stays_where_it_is(op: str) -> None:
    """A NaN makes what it is part of NaN, and changes nothing else."""
    x = INPUTS["(256, 1000)"](np.random.default_rng(1)).astype(np.float32)
    clean = CASES[op].ours(x)
    x[7, 3] = np.nan
    found, wanted = CASES[op].ours(x), CASES[op].numpy(x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    assert np.isnan(found).any() and not np.isnan(found).all()
    np.testing.assert_array_equal(found[~np.isnan(found)], clean[~np.isnan(found)])


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
