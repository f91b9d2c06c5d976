"""`bcvm_core.testing` breaks what it says, puts it back, and its comparisons assert."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import pytest

from bcvm_core import config, testing
from bcvm_core.errors import PoolError
from bcvm_core.ops import registry
from bcvm_core.tiers.pool import pool
from bcvm_core.tiers.select import CallSite

X = np.arange(1, 5, dtype=np.float32)


@pytest.fixture(scope="module", autouse=True)
def _op_table() -> None:
    if not registry.rows():
        registry.load_families()


def test_corrupt_kernel() -> None:
    site = CallSite("add")
    with testing.corrupt_kernel("add.numpy"):
        wrong = site(X, X)
        assert (wrong != X + X).sum() == 1
        assert wrong[0] == np.nextafter(np.float32(2), np.float32(3))
        with testing.corrupt_kernel("add.numpy", "zero"):
            assert not site(X, X).any()
        assert (site(X, X) == wrong).all()
    assert (site(X, X) == X + X).all()
    with testing.corrupt_kernel("add.numpy", lambda result: result + 100):
        assert site(X, X)[0] == 102


def test_put_back_after_errors() -> None:
    with pytest.raises(KeyError), testing.corrupt_kernel("add.numpy"), testing.force_tier("interpreter"), testing.small_caches():
        raise KeyError
    assert (CallSite("add")(X, X) == X + X).all()
    assert (config.current.force_tier, config.current.site_cache) == (None, 64)
    assert not pool.is_swapped("add.numpy")


def test_slow_and_failing_kernels() -> None:
    site = CallSite("add")
    with testing.slow_kernel("add.numpy", 0.03):
        started = time.perf_counter()
        assert (site(X, X) == X + X).all()
        assert time.perf_counter() - started >= 0.03
    with testing.fail_kernel("add.numpy", MemoryError), pytest.raises(MemoryError, match=r"add\.numpy"):
        site(X, X)
    assert (site(X, X) == X + X).all()


def test_bad_requests() -> None:
    with pytest.raises(PoolError, match="no kernel"), testing.corrupt_kernel("no.such"):
        pass
    with pytest.raises(ValueError, match="how must be"):
        testing.corrupt_kernel("add.numpy", "somehow")
    with pytest.raises(ValueError, match="no tier"), testing.force_tier("seventh"):
        pass
    with pytest.raises(TypeError, match="no such knob"), testing.thresholds(colour=1):
        pass


def test_knobs() -> None:
    assert "prune_after" in testing.knobs()
    with testing.thresholds(prune_after=1):
        assert config.current.prune_after == 1
    with testing.force_tier("plain"):
        assert config.current.force_tier == "plain"
    with testing.forbid_executable_memory():
        assert not config.current.use_llvm
    assert config.current.use_llvm
    with testing.small_caches():
        site = CallSite("add")
        for x in (X, X.astype(np.float64), X):
            assert (site(x, x) == x + x).all()
            assert len(site._state[1]) == 1


def test_same_bits_with_and_without_generated_code() -> None:
    x = np.linspace(-3, 3, 101, dtype=np.float32)
    for name in ("exp", "tanh", "sigmoid"):
        generated = CallSite(name)(x)
        with testing.forbid_executable_memory():
            plain = CallSite(name)
            testing.assert_same_bits(plain(x), generated)
            assert not any(entry.origin == "template" for entry in pool.kernels(name))


DIFFERENT = [
    (np.float32(1), np.float64(1)),
    (1, True),
    (1, np.int64(1)),
    (0.0, -0.0),
    (np.zeros(2), -np.zeros(2)),
    (np.zeros(2), np.zeros((1, 2))),
    (np.zeros(2), np.zeros(2, np.float32)),
    ([1, 2], (1, 2)),
    ([1, 2], [1]),
    ({"a": 1}, {"b": 1}),
    ({"a": np.ones(2)}, {"a": np.array([1, np.nextafter(1, 2)])}),
    (np.array([np.nan]), np.array([np.inf])),
    (np.zeros(1, ml_dtypes.bfloat16), np.zeros(1, np.float16)),
    ("a", "b"),
]


@pytest.mark.parametrize(("a", "b"), DIFFERENT, ids=[str(i) for i in range(len(DIFFERENT))])
def test_same_bits_asserts(a: object, b: object) -> None:
    testing.assert_same_bits(a, a)
    testing.assert_same_bits(b, b)
    with pytest.raises(AssertionError):
        testing.assert_same_bits(a, b)


def test_same_bits_says_where() -> None:
    with pytest.raises(AssertionError, match=r"value\['x'\]\[1\]: 1 of 6 elements differ, first at \(1, 2\)"):
        x = np.zeros((2, 3))
        y = x.copy()
        y[1, 2] = 1e-320
        testing.assert_same_bits({"x": [1, x]}, {"x": [1, y]})


def test_close_ulp() -> None:
    one = np.float32(1)
    up = np.nextafter(np.nextafter(one, np.float32(2)), np.float32(2))
    testing.assert_close_ulp(up, one)
    testing.assert_close_ulp(np.array([0.0, np.nan]), np.array([-0.0, np.nan]), 0)
    testing.assert_close_ulp(np.array([5e-324]), np.array([-5e-324]), 2)
    testing.assert_close_ulp(np.array([], np.float32), np.array([], np.float32))
    for a, b in [
        (up, one),
        (np.float32(np.nan), one),
        (one, np.float64(1)),
        (np.ones(2), np.ones(1)),
        (np.complex64(1), np.complex64(1 + 1e-6j)),
    ]:
        with pytest.raises(AssertionError):
            testing.assert_close_ulp(a, b, 1)
    assert testing.ulp_distance(ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(1.0078125)) == 1


@pytest.mark.parametrize(
    "value",
    [
        np.ones(3),
        np.zeros((2, 0)),
        np.float16(2),
        True,
        3,
        2.5,
        1j,
        (1, np.ones(2)),
        [np.zeros(3, bool)],
        np.ones((2, 2), ml_dtypes.bfloat16),
        np.ones((3, 4)).T,
        None,
        "a",
    ],
    ids=repr,
)
@pytest.mark.parametrize("spoil", [testing.flip_last_bit, testing.zeros_of])
def test_spoiled_values_differ(value: object, spoil: object) -> None:
    wrong = spoil(value)  # type: ignore[operator]
    if isinstance(value, np.ndarray) and value.size == 0:
        return
    with pytest.raises(AssertionError):
        testing.assert_same_bits(wrong, value)
