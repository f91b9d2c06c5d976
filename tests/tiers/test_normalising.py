"""batch_norm by given statistics as one kernel has the bits of its formula, and is not asked where it cannot know them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bcvm_core.ops as ops
from bcvm_core import config
from bcvm_core.codegen import loops
from bcvm_core.ops import nn
from bcvm_core.ops.order import FIRST, channels_innermost
from bcvm_core.tiers import normalising

F32 = np.float32
SHAPES = [(3, 5), (2, 16, 9), (2, 7, 5, 6), (1, 64, 14, 14), (2, 3, 4, 5, 6), (1, 1, 1, 1)]


def data(shape: Any, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def formula(x: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    shape = (-1, *[1] * (x.ndim - 2))
    with np.errstate(all="ignore"):
        y = (x - mean.reshape(shape)) / np.sqrt(variance + F32(eps)).reshape(shape)
        y = y if weight is None else y * weight.reshape(shape)
        return y if bias is None else y + bias.reshape(shape)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call of the kernel: whether it ran. Kernels are there from the second call on."""
    found: list[bool] = []

    def noted(x: Any, steps: Any) -> Any:
        made = normalising.normalise(x, steps)
        found.append(made is not None)
        return made

    monkeypatch.setattr(nn, "by_kernel", noted)
    return found


def same(ours: Any, theirs: Any) -> None:
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    np.testing.assert_array_equal(ours[~np.isnan(theirs)].view(np.int32), theirs[~np.isnan(theirs)].view(np.int32))


@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True), (False, False)])
def test_bits_of_the_formula(asked: list[bool], given: tuple[bool, bool]) -> None:
    for seed, shape in enumerate(SHAPES):
        mean, weight, bias = (data(shape[1], seed + k) for k in range(1, 4))
        variance = np.abs(data(shape[1], seed + 5))
        w, b = weight if given[0] else None, bias if given[1] else None
        for special in (None, np.nan, np.inf, -0.0, 1e-42, 3e38):
            x = data(shape, seed)
            if special is not None:
                x.reshape(-1)[0] = special
            layouts = [x, np.asfortranarray(x)]
            if x.ndim == 4:
                layouts.append(np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(FIRST))
            for laid in layouts:
                for _ in range(2):
                    ours = ops.batch_norm(laid, mean, variance, weight=w, bias=b)
                    assert loops.wait(120)
                    same(ours, formula(x, mean, variance, w, b, 1e-5))
                    assert not channels_innermost(laid) or channels_innermost(ours)
    assert asked.count(True) > len(SHAPES) * 6


def test_what_the_kernel_is_not_asked(asked: list[bool]) -> None:
    x, v = data((2, 4, 3), 0), np.abs(data(4, 1))
    ops.batch_norm(x.astype(np.float64), v, v)
    ops.batch_norm(x, v, v, weight=v.astype(np.float64))
    ops.batch_norm(x[:0], v, v)
    assert not asked
    with pytest.raises(ValueError):
        ops.batch_norm(x, v, v, weight=v[:3])
    same(ops.batch_norm(x, v, v, weight=v[:1]), formula(x, v, v, np.full(4, v[0]), None, 1e-5))  # stretched, as ever
    assert not asked


def test_statistics_that_make_no_sense_set_no_events(asked: list[bool]) -> None:
    x, mean = data((1, 4, 8, 8), 0), data(4, 1)
    variance = np.array([-1.0, 0.0, np.inf, np.nan], F32)
    with np.errstate(all="raise"):
        for _ in range(3):
            same(ops.batch_norm(x, mean, variance, eps=0.0), formula(x, mean, variance, None, None, 0.0))
            assert loops.wait(120)


def test_without_fusion_it_is_the_formula(asked: list[bool]) -> None:
    x, v = data((1, 4, 8, 8), 0), np.abs(data(4, 1))
    expected = ops.batch_norm(x, v, v)
    with config.override(fuse=False):
        same(ops.batch_norm(x, v, v), expected)
    assert asked[-1] is False
