"""The compiled reduction tree has the bits of the NumPy formulation, and steps aside where it should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bcvm_core import config, fpstatus
from bcvm_core.codegen import loops, templates, tree_sums
from bcvm_core.ops import numerics, registry, trees

DTYPES = [np.float32, np.float64]
LENGTHS = [
    1,
    2,
    3,
    7,
    15,
    16,
    17,
    31,
    33,
    63,
    64,
    65,
    80,
    127,
    128,
    129,
    511,
    1000,
    1023,
    1024,
    1025,
    1087,
    1088,
    1089,
    2048,
    3000,
    5121,
    70000,
]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    pytest.importorskip("llvmlite")
    for dtype in DTYPES:
        tree_sums.total(np.ones(1, dtype), (0,))
    templates.wait()
    for dtype in DTYPES:
        loop = tree_sums._loop(np.dtype(dtype))
        assert loop is not None and loop.ready, "the loops compile"


def numbers(shape: Any, dtype: Any, seed: int = 0) -> Any:
    x = np.random.default_rng(seed).standard_normal(shape) * 10.0 ** np.random.default_rng(seed + 1).integers(-3, 4, shape)
    return x.astype(dtype)


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(x).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS)
def test_rows(n: int, dtype: Any) -> None:
    x = numbers((3, n), dtype, n)
    ours = tree_sums.total(x, (1,))
    assert ours is not None and bits(ours) == bits(trees.total(x, (1,)))
    whole = tree_sums.total(x[0].copy(), (0,))
    assert type(whole) is dtype and bits(whole) == bits(trees.total(x[0], (0,)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS[:-2])
def test_columns(n: int, dtype: Any) -> None:
    for outer, inner in ((1, 1), (1, 2), (2, 15), (1, 16), (2, 17), (1, 50)):
        x = numbers((outer, n, inner), dtype, n)
        ours = tree_sums.total(x, (1,))
        assert ours is not None and bits(ours) == bits(trees.total(x, (1,)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS)
def test_deviations(n: int, dtype: Any) -> None:
    x = numbers((3, n), dtype, n)
    mean = trees.total(x, (1,)) / dtype(n)
    ours = tree_sums.deviations(x, (1,), mean)
    difference = x - mean[:, None]
    assert ours is not None and bits(ours) == bits(trees.total(difference * difference, (1,)))
    whole = tree_sums.deviations(x[0].copy(), (0,), mean[0])
    assert type(whole) is dtype and bits(whole) == bits(ours[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_several_axes(dtype: Any) -> None:
    x = numbers((3, 5, 7, 70), dtype)
    for axes in ((0,), (1,), (2,), (3,), (0, 1), (1, 2), (2, 3), (0, 1, 2), (1, 2, 3), (0, 1, 2, 3)):
        ours = tree_sums.total(x, axes)
        assert ours is not None and bits(ours) == bits(trees.total(x, axes)) and np.shape(ours) == np.shape(trees.total(x, axes))


def test_what_is_left_to_numpy() -> None:
    x = numbers((4, 6), np.float32)
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32)
    for y, axes in (
        (x.T, (0,)),
        (x[:, ::2], (1,)),
        (x, ()),
        (x[:0], (0,)),
        (x.astype(np.float16), (0,)),
        (x.astype(np.complex64), (0,)),
        (x.reshape(4, 3, 2), (0, 2)),
        (unaligned, (0,)),
    ):
        assert tree_sums.total(y, axes) is None
    assert tree_sums.deviations(x, (0,), x[0]) is None
    with config.override(use_llvm=False):
        assert tree_sums.total(x, (0,)) is None and tree_sums.deviations(x, (1,), x[:, 0]) is None
    assert tree_sums.total(np.ones((1100, 2048)), (0,)) is None, "wide columns of large tensors"
    assert tree_sums.total(np.array([-0.0, -0.0]), (0,)).tobytes() == np.array([0.0]).tobytes()


@pytest.mark.parametrize("shape, axes", [((5, 70), (1,)), ((70, 5), (0,)), ((350,), (0,))])
def test_events_are_numpys_to_report(shape: Any, axes: Any) -> None:
    for value, kinds in ((3e38, ["overflow"]), (np.nan, []), (np.inf, [])):
        x = np.full(shape, value, np.float32)
        assert tree_sums.total(x, axes) is None
        with fpstatus.recording() as rec:
            numerics.total(x, axes)
        assert rec.kinds == kinds
    x = np.zeros(shape, np.float32)
    x.flat[:2] = np.inf, -np.inf
    x = x.reshape(shape)
    with fpstatus.recording() as rec:
        numerics.total(x, tuple(range(x.ndim)))
    assert rec.kinds == ["invalid"]


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "norm", "softmax", "log_softmax", "layer_norm", "rms_norm", "logsumexp"])
def test_ops_have_the_same_bits_without_machine_code(name: str) -> None:
    for dtype in (np.float16, *DTYPES):
        scale = dtype(0.01)  # the squares of float16 numbers stay in range
        for x in (numbers((5, 130), dtype) * scale, numbers((5, 130), dtype).T * scale, numbers((2, 3, 1030), dtype)[:, ::2] * scale):
            fast = registry.row(name).definition(x)
            with config.override(use_llvm=False):
                slow = registry.row(name).definition(x)
            assert bits(fast) == bits(slow)


def test_what_is_no_array_or_lacks_the_axes_is_never_read_as_one() -> None:
    """Generated code reads array objects: a NumPy scalar, or an axis that is not there, must not get that far."""
    loops.wait()
    for x, axes in ((np.float32(1.5), (-1,)), (np.float64(2.0), (0,)), (np.ones(3), (1,)), (np.ones((2, 3)), (0, 2)), (np.ones(3), (-1,))):
        assert tree_sums.total(x, axes) is None
        assert tree_sums.deviations(x, axes, np.zeros(1)) is None
