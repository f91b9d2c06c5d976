"""Ops in the form that layers hold, on NumPy arrays: against their definitions in float64, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bcvm_core import ops

RNG = np.random.default_rng(9)
X, IMG = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 4, 6, 6))
VOLUME = RNG.normal(size=(2, 3, 3, 4, 5))
ROW, CHANNELS = RNG.normal(size=4), np.abs(RNG.normal(size=4)) + 0.1


def _batch_norm(x: Any) -> Any:
    shape = (1, -1, 1, 1)
    a, b, m, v = (p.reshape(shape) for p in (ROW, CHANNELS, ROW, CHANNELS))
    return (x - m) / np.sqrt(v + 1e-5) * a + b


def _lrn(x: Any) -> Any:
    sums = np.stack([(x[:, max(0, c - 2) : c + 3] ** 2).sum(1) for c in range(x.shape[1])], 1)
    return x / (1.5 + 0.25 * sums) ** 0.75


def _softmax(x: Any) -> Any:
    e = np.exp(x)
    return e / e.sum(1, keepdims=True)


CASES: dict[str, tuple[Any, Any]] = {
    "bias_add": (lambda t: ops.bias_add(t(IMG), t(ROW)), IMG + ROW[:, None, None]),
    "bias_add last": (lambda t: ops.bias_add(t(X), t(ROW), axis=-1), X + ROW),
    "matmul_transposed": (lambda t: ops.matmul_transposed(t(X), t(X), transpose_y=True), X @ X.T),
    "matmul_transposed x": (lambda t: ops.matmul_transposed(t(IMG), t(IMG), True), np.einsum("abji,abjk->abik", IMG, IMG)),
    "squared_difference": (lambda t: ops.squared_difference(t(X), t(ROW)), (X - ROW) ** 2),
    "fast_gelu": (lambda t: ops.fast_gelu(t(X)), X / (1 + np.exp(-1.702 * X))),
    "l2_normalize": (lambda t: ops.l2_normalize(t(X), axis=1), X / np.sqrt((X**2).sum(1, keepdims=True))),
    "l2_loss": (lambda t: ops.l2_loss(t(X)), (X**2).sum() / 2),
    "batch_norm_parts": (lambda t: ops.batch_norm_parts(t(IMG), *map(t, (ROW, CHANNELS, ROW, CHANNELS)))[0], _batch_norm(IMG)),
    "layer_norm_parts": (
        lambda t: ops.layer_norm_parts(t(X), t(ROW), t(CHANNELS), eps=1e-5)[0],
        (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5) * ROW + CHANNELS,
    ),
    "layer_norm_parts mean": (lambda t: ops.layer_norm_parts(t(X), t(ROW), t(ROW))[1], X.mean(1, keepdims=True)),
    "layer_norm_parts variance": (lambda t: ops.layer_norm_parts(t(X), t(ROW), t(ROW))[2], X.var(1, keepdims=True)),
    "local_response_norm": (lambda t: ops.local_response_norm(t(IMG), radius=2, bias=1.5, alpha=0.25, beta=0.75), _lrn(IMG)),
    "crop": (lambda t: ops.crop(t(X), (1, 0), (-1, 3)), X[1:, :3]),
    "strided_slice": (lambda t: ops.strided_slice(t(X), (0, 3), (3, 0), (2, -2), begin_mask=0, end_mask=2), X[0:3:2, 3::-2]),
    "strided_slice masks": (
        lambda t: ops.strided_slice(t(IMG), (0, 0, 1), (0, 0, 3), (1, 1, 1), ellipsis_mask=1, new_axis_mask=2),
        IMG[..., None, 1:3],
    ),
    "depth_to_space": (lambda t: ops.depth_to_space(t(IMG), 2)[:, 0, 1::2, 0::2], IMG[:, 2]),
    "space_to_depth": (lambda t: ops.space_to_depth(t(IMG), 3)[:, 4 * 5 + 1], IMG[:, 1, 1::3, 2::3]),
    "reverse_sequence": (
        lambda t: ops.reverse_sequence(t(X), np.array([0, 2, 4]), 1),
        np.stack([X[0], np.r_[X[1, 1::-1], X[1, 2:]], X[2, ::-1]]),
    ),
    "unsorted_segment": (lambda t: ops.unsorted_segment(t(X), np.array([1, -1, 1]), 3), np.stack([X[0] * 0, X[0] + X[2], X[0] * 0])),
    "unsorted_segment max": (lambda t: ops.unsorted_segment(t(X), np.array([0, 0, 0]), 1, mode="max"), X.max(0, keepdims=True)),
    "embedding_lookup": (lambda t: ops.embedding_lookup(t(X), np.array([4, 1, 0]), 2), np.stack([X[2], X[0] * 0, X[0] * 0])),
    "softmax_cross_entropy": (lambda t: ops.softmax_cross_entropy(t(X), t(X * 0 + 0.25))[0], -0.25 * np.log(_softmax(X)).sum(1)),
    "softmax_cross_entropy gradient": (lambda t: ops.softmax_cross_entropy(t(X), t(X * 0 + 0.25))[1], _softmax(X) - 0.25),
    "add_all": (lambda t: ops.add_all((t(X), t(X), t(X))), 3 * X),
}  # fmt: skip
TOLERANCE = {np.float64: 1e-12, np.float32: 2e-5, np.float16: 1e-2}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_definition(name: str, dtype: Any) -> None:
    call, wanted = CASES[name]
    result = call(lambda values: np.asarray(values, dtype))
    accumulated = name in ("layer_norm_parts mean", "layer_norm_parts variance") and dtype is np.float16
    assert result.dtype == (np.float32 if accumulated else dtype)
    np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("stride", "padding", "more", "groups"), [(1, 0, 0, 1), (2, 1, 1, 1), ((2, 1, 2), (1, 0, 1), 0, 1), (2, 0, 0, 3)])
def test_conv_transpose3d_is_the_transpose_of_conv3d(stride: Any, padding: Any, more: Any, groups: int) -> None:
    """<conv3d(y, w), x> = <y, conv_transpose3d(x, w)> for all y."""
    w = RNG.normal(size=(3, 2, 2, 3, 2))
    y = ops.conv_transpose3d(VOLUME, w, stride=stride, padding=padding, output_padding=more, groups=groups)
    other = RNG.normal(size=y.shape)
    there = ops.conv3d(other, w, stride=stride, padding=padding, groups=groups)
    assert there.shape == VOLUME.shape
    np.testing.assert_allclose((there * VOLUME).sum(), (other * y).sum(), rtol=1e-10)


@pytest.mark.parametrize(("stride", "padding"), [(1, "valid"), (2, "same"), ((2, 3), ((1, 0), (0, 2))), (1, 2)])
def test_conv2d_input_is_the_transpose_of_conv2d(stride: Any, padding: Any) -> None:
    w, shape = RNG.normal(size=(5, 4, 3, 3)), (2, 4, 7, 9)
    other = RNG.normal(size=shape)
    there = ops.conv2d(other, w, stride=stride, padding=padding)
    x = RNG.normal(size=there.shape)
    y = ops.conv2d_input(x, w, shape, stride=stride, padding=padding)
    assert y.shape == shape
    np.testing.assert_allclose((there * x).sum(), (other * y).sum(), rtol=1e-10)


def test_divide_no_nan() -> None:
    x, y = np.array([1.0, 0.0, np.nan, np.inf]), np.array([0.0, 0.0, 0.0, 2.0])
    np.testing.assert_array_equal(ops.divide_no_nan(x, y), [0, 0, 0, np.inf])


def test_special_values() -> None:
    assert np.isnan(ops.fast_gelu(np.array([np.nan]))).all() and ops.fast_gelu(np.array([np.inf, -1e4])).tolist() == [np.inf, 0]
    losses, gradient = ops.softmax_cross_entropy(np.array([[1e4, -1e4]]), np.array([[1.0, 0.0]]))
    assert losses.tolist() == [0] and gradient.tolist() == [[0, 0]]
    assert ops.l2_loss(np.zeros((0, 3))) == 0


REFUSED = {
    "bias": lambda: ops.bias_add(X, np.ones(3)),
    "crop": lambda: ops.crop(X, (0, 0), (4, 1)),
    "step": lambda: ops.strided_slice(X, (0,), (1,), (0,)),
    "lengths": lambda: ops.strided_slice(X, (0, 1), (1,), (1,)),
    "channels": lambda: ops.depth_to_space(IMG[:, :3], 2),
    "pixels": lambda: ops.space_to_depth(IMG, 4),
    "sequence": lambda: ops.reverse_sequence(X, np.array([1, 2, 5]), 1),
    "size": lambda: ops.conv2d_input(IMG, np.ones((4, 3, 3, 3)), (2, 3, 5, 5)),
    "shapes": lambda: ops.add_all((X, X.T)),
    "vectors": lambda: ops.matmul_transposed(ROW, X),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    with pytest.raises(ValueError, match="."):
        REFUSED[what]()
    with pytest.raises(IndexError):
        ops.unsorted_segment(X, np.array([0, 1, 2]), 2)
