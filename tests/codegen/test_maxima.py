"""Maxima of windows in machine code: the bits of NumPy's two passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core.codegen import loops
from bcvm_core.codegen.pooling import maxima
from bcvm_core.codegen.stencils.driver import driver
from bcvm_core.ops import pooling, windows

CASES = [
    ((1, 9, 7, 16), 2, {}),
    ((2, 8, 9, 64), 3, {"stride": 2, "padding": 1}),
    ((3, 5, 5, 80), (3, 2), {"stride": (1, 2), "padding": (1, 0)}),
    ((1, 11, 10, 48), 3, {"stride": 1, "dilation": 2, "padding": 1}),
    ((2, 6, 6, 144), 5, {"stride": 2, "padding": 2}),
    ((1, 1, 1, 16), 2, {"padding": 1}),
    ((4, 40, 41, 32), 3, {"stride": 2, "padding": "same"}),
]


@pytest.fixture(autouse=True)
def code() -> None:
    loop = loops.made("maxima", "float32")
    if not loop.ready:
        pytest.skip(loop.failed)
    driver()
    loops.wait()


def images(shape: tuple[int, ...]) -> Any:
    """Numbers with many ties, zeros of both signs, infinities and NaNs of different payloads."""
    rng = np.random.default_rng(sum(shape))
    x = rng.integers(-3, 4, shape).astype(np.float32)
    x[x == 0] *= np.where(rng.random(int((x == 0).sum())) < 0.5, np.float32(-1), np.float32(1))
    special = rng.random(shape)
    x[special < 0.02] = -np.inf
    x[special > 0.99] = np.inf
    bits = x.view(np.uint32)
    nan = (special > 0.5) & (special < 0.52)
    bits[nan] = 0x7FC00000 + rng.integers(0, 1000, int(nan.sum())).astype(np.uint32)
    return x


def by_numpy(monkeypatch: pytest.MonkeyPatch, x: Any, kernel: Any, attrs: dict[str, Any]) -> Any:
    with monkeypatch.context() as changed:
        changed.setattr(pooling, "by_kernel", lambda *_: None)
        return pooling._max_pool2d(x, kernel, layout="NHWC", **attrs)


@pytest.mark.parametrize(("shape", "kernel", "attrs"), CASES)
@pytest.mark.parametrize("shared", [False, True])
def test_bits_are_those_of_numpy(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], kernel: Any, attrs: dict[str, Any], shared: bool
) -> None:
    x = images(shape)
    seen = []

    def kept(*arguments: Any) -> Any:
        seen.append(maxima.largest_of_windows(*arguments))
        return seen[-1]

    monkeypatch.setattr(pooling, "by_kernel", kept)
    monkeypatch.setattr(maxima.crews.Crew, "worth", lambda _self, _ns: shared)
    found = pooling._max_pool2d(x, kernel, layout="NHWC", **attrs)
    assert seen[0] is found
    wanted = by_numpy(monkeypatch, x, kernel, attrs)
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


def test_what_it_leaves_to_numpy() -> None:
    rows = windows.axis_of(4, 2, 2, 1, 0, 2)
    wide = windows.axis_of(16, 9, 1, 1, 0, 8)
    x = np.zeros((1, 4, 4, 16), np.float32)
    assert maxima.largest_of_windows(x, rows, rows) is not None
    assert maxima.largest_of_windows(x.astype(np.float64), rows, rows) is None
    assert maxima.largest_of_windows(x[..., :15].copy(), rows, rows) is None
    assert maxima.largest_of_windows(x[:, ::-1], rows, rows) is None
    assert maxima.largest_of_windows(x[:0], rows, rows) is None
    assert maxima.largest_of_windows(np.zeros((1, 16, 4, 16), np.float32), wide, rows) is None


def test_a_nan_raises_no_flag() -> None:
    rows = windows.axis_of(4, 2, 2, 1, 0, 2)
    x = np.full((1, 4, 4, 16), np.nan, np.float32)
    with np.errstate(all="raise"):
        assert np.isnan(maxima.largest_of_windows(x, rows, rows)).all()
        assert np.add(np.float32(1), np.float32(1)) == 2
    assert np.isnan(bcvm.ops.max_pool2d(x, 2, layout="NHWC")).all()
