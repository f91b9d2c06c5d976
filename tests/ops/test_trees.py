"""The reduction tree against its description element by element; bits do not depend on layout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcvm_core.errors import Decline
from bcvm_core.ops import trees

LENGTHS = (1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 1000, 1023, 1024, 1025, 1088, 2048, 3000, 5121)


def described(values: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Steps 1 to 4 as the module's text says them, one number at a time."""
    blocks = []
    for start in range(0, len(values), 1024):
        block = values[start : start + 1024]
        partials = list(block[:64])
        for i in range(64, len(block)):
            partials[i % 64] = combine(partials[i % 64], block[i])
        for half in (32, 16, 8, 4, 2, 1):
            for j in range(half):
                if j + half < len(partials):
                    partials[j] = combine(partials[j], partials[j + half])
            del partials[half:]
        blocks.append(partials[0])
    while len(blocks) > 1:
        paired = [combine(a, b) for a, b in zip(blocks[::2], blocks[1::2], strict=False)]
        blocks = paired + ([blocks[-1]] if len(blocks) % 2 else [])
    return blocks[0]


def _times(a: Any, b: Any) -> Any:
    return type(a)(complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)) if np.iscomplexobj(a) else a * b


def numbers(shape: Any, dtype: Any = np.float32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape)).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(x).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("n", LENGTHS)
def test_sum_and_product_follow_the_description(n: int, dtype: Any) -> None:
    x = numbers(n, dtype)
    assert bits(trees.total(x, (0,))) == bits(described(x, np.add) + dtype(0))
    factors = (x / np.maximum(np.abs(x), dtype(0.1).real)).astype(dtype)
    assert bits(trees.product(factors, (0,))) == bits(described(factors, _times))


def test_a_sum_may_be_filled_with_zeros() -> None:
    for n in LENGTHS:
        x = numbers(n)
        filled = np.zeros(-(-n // 1024) * 1024, np.float32)
        filled[:n] = x
        assert bits(trees.total(x, (0,))) == bits(trees.total(filled, (0,)))


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": np.ascontiguousarray,
    "fortran": np.asfortranarray,
    "negative strides": lambda x: x[tuple(slice(None, None, -1) for _ in x.shape)].copy()[tuple(slice(None, None, -1) for _ in x.shape)],
    "every second": lambda x: _inside(x, 2),
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "unaligned": lambda x: _unaligned(x),
    "broadcast axis": lambda x: np.broadcast_to(x[None], (1, *x.shape))[0],
}


def _inside(x: Any, step: int) -> Any:
    wide = np.full([d * step + 1 for d in x.shape], np.nan, x.dtype)
    view = wide[tuple(slice(1, None, step) for _ in x.shape)]
    view[...] = x
    return view


def _unaligned(x: Any) -> Any:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    assert x.itemsize == 1 or not x.size or not view.flags.aligned
    return view


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 70, 3), (1, 1030, 2), (70, 2, 1), (5, 1100), (4, 1, 66, 2), (1500,)])
def test_bits_do_not_depend_on_layout(shape: tuple[int, ...], layout: str) -> None:
    x = numbers(shape)
    y = LAYOUTS[layout](x)
    for k in range(len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), k):
            expected = trees.total(x, axes)
            assert bits(trees.total(y, axes)) == bits(expected)
            for index in np.ndindex(expected.shape):
                kept = iter(index)
                line = x[tuple(slice(None) if a in axes else next(kept) for a in range(x.ndim))]
                assert bits(expected[index]) == bits(described(line.ravel(), np.add) + np.float32(0))
                break  # the first result stands for all: the loop below is over layouts


@pytest.mark.parametrize("n", [7, 64, 1030, 2500])
def test_bits_do_not_depend_on_the_batch(n: int) -> None:
    x = numbers((17, n, 3))
    whole = trees.total(x, (1,))
    for i, j in ((0, 0), (5, 1), (16, 2)):
        assert bits(whole[i, j]) == bits(trees.total(np.ascontiguousarray(x[i, :, j]), (0,)))
    assert bits(whole[3:4]) == bits(trees.total(x[3:4], (1,)))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_special_values() -> None:
    assert not np.signbit(trees.total(np.array([-0.0, -0.0]), (0,)))
    assert np.signbit(trees.product(np.array([-0.0, 1.0]), (0,)))
    assert np.isnan(trees.total(np.array([np.inf, -np.inf] * 40), (0,)))
    assert trees.total(np.array([np.inf] * 70), (0,)) == np.inf
    assert np.isnan(trees.total(np.array([1.0] * 2000 + [np.nan]), (0,)))
    assert bits(trees.total(np.empty((0, 3), np.float32), (0,))) == bits(np.zeros(3, np.float32))
    assert bits(trees.product(np.empty((3, 0), np.float32), (1,))) == bits(np.ones(3, np.float32))
    assert trees.total(np.empty((0, 3)), (1,)).shape == (0,)
    assert trees.total(np.empty((2, 0, 3)), (0, 2)).shape == (0,)


def test_the_result_never_aliases_the_operand() -> None:
    for axes in ((), (0,), (1,)):
        x = np.ones((1, 1))
        result = trees.product(x, axes)
        result[...] = 5
        assert x[0, 0] == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [100, 1000, 30000, 1_000_000])
def test_error_is_no_worse_than_pairwise(n: int, dtype: Any) -> None:
    ours, theirs = 0.0, 0.0
    for seed in range(5):
        x = np.random.default_rng(seed).random(n).astype(dtype)
        exact = math.fsum(x.tolist())
        ours = max(ours, abs(float(trees.total(x, (0,))) - exact) / exact)
        theirs = max(theirs, abs(float(np.sum(x)) - exact) / exact)
    assert ours <= max(1.5 * theirs, 2 * float(np.finfo(dtype).eps))
    depth = 16 + 6 + max(0, math.ceil(math.log2(max(1, n / 1024))))
    assert ours <= depth * float(np.finfo(dtype).eps)


@given(st.integers(1, 4000), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_any_length_and_width(n: int, width: int, seed: int) -> None:
    x = numbers((n, width), np.float32, seed)
    for j in range(width):
        assert bits(trees.total(x, (0,))[j]) == bits(described(x[:, j], np.add) + np.float32(0))


@pytest.mark.parametrize("axis", [0, -1, (0,), (0, 1), (), None, np.int64(1)])
def test_axes(axis: Any) -> None:
    x = np.ones((2, 3))
    axes = trees.axes_of(axis, x)
    shape = tuple(d for a, d in enumerate(x.shape) if a not in axes)
    assert shape == np.sum(x, axis=axis).shape


@pytest.mark.parametrize("axis", [2, -3, (0, 0), (0, -2), (0, 5), "a", 1.0, [0], (0.5,), object(), True])
def test_wrong_axes_raise_as_numpy_does(axis: Any) -> None:
    x = np.ones((2, 3))
    with pytest.raises(Exception) as theirs:
        np.sum(x, axis=axis)
    with pytest.raises(type(theirs.value)) as ours:
        trees.axes_of(axis, x)
    assert str(ours.value) == str(theirs.value)


def test_accumulators() -> None:
    assert trees.accumulator(np.dtype(np.float16)) == np.float32
    assert trees.accumulator(np.dtype(ml_dtypes.bfloat16)) == np.float32
    assert trees.accumulator(np.dtype(np.int64)) is None and trees.accumulator(np.dtype(object)) is None
    with pytest.raises(Decline):
        trees.tensor(np.ma.masked_array([1.0]))
