"""Network ops against float64 references, with special values, layouts and 16-bit types."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import bcvm_core.ops as ops
from bcvm_core import fpstatus

FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def data(*shape: int, dtype: Any = np.float32, seed: int = 0, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def close(ours: Any, exact: Any, dtype: Any, factor: float = 4.0) -> None:
    assert ours.dtype == dtype
    eps = factor * float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(np.asarray(ours, np.float64), exact, rtol=eps, atol=eps)


def softmax64(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(axis: int, dtype: Any) -> None:
    x = data(3, 70, 2, dtype=dtype, scale=5)
    wide = x.astype(np.float64)
    close(ops.softmax(x, axis), softmax64(wide, axis), dtype)
    exact = wide - np.log(np.exp(wide - wide.max(axis, keepdims=True)).sum(axis, keepdims=True)) - wide.max(axis, keepdims=True)
    close(ops.log_softmax(x, axis), exact, dtype, 20)


def test_softmax_special_rows() -> None:
    ninf = -np.inf
    x = np.array([[ninf, ninf, ninf], [0, 0, 0], [1, ninf, 1], [np.inf, 0, 1], [np.nan, 0, 1], [1e4, 1e4, 0]], np.float32)
    with fpstatus.recording() as rec:
        y = ops.softmax(x)
    assert rec.kinds == []
    assert np.isnan(y[[0, 3, 4]]).all()
    np.testing.assert_allclose(y[1], 1 / 3, rtol=1e-7)
    assert y[2].tolist() == [0.5, 0, 0.5] and y[5].tolist() == [0.5, 0.5, 0]
    assert ops.softmax(x[1:2]).tobytes() == y[1:2].tobytes(), "rows do not see one another"
    assert ops.softmax(np.zeros((0, 3))).shape == (0, 3) and ops.softmax(np.zeros((3, 0))).shape == (3, 0)
    assert ops.log_softmax(np.zeros((3, 0))).shape == (3, 0)
    assert ops.softmax(np.array([1, 2])).dtype == np.float64
    with pytest.raises(TypeError):
        ops.softmax(np.array([1j]))
    with pytest.raises(np.exceptions.AxisError):
        ops.softmax(x, 2)


def test_bits_do_not_depend_on_layout_or_batch() -> None:
    x = data(6, 130, scale=3)
    for function in (ops.softmax, ops.log_softmax, ops.layer_norm, ops.rms_norm):
        whole = function(x)
        assert function(np.asfortranarray(x)).tobytes() == whole.tobytes()
        assert function(np.repeat(x, 2, 1)[:, ::2]).tobytes() == whole.tobytes()
        for i in range(6):
            assert function(x[i : i + 1]).tobytes() == whole[i : i + 1].tobytes()


def test_one_form_at_axis_0_and_axis_1() -> None:
    x = data(130, 5)
    assert ops.softmax(x, 0).T.tobytes() == ops.softmax(np.ascontiguousarray(x.T), 1).tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm(dtype: Any) -> None:
    x, w, b = data(4, 3, 50, dtype=dtype, scale=2), data(50, dtype=dtype, seed=1), data(50, dtype=dtype, seed=2)
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    close(ops.layer_norm(x), normal, dtype, 8)
    close(ops.layer_norm(x, (50,), w, b), normal * w.astype(np.float64) + b.astype(np.float64), dtype, 8)
    both = (wide - wide.mean((1, 2), keepdims=True)) / np.sqrt(wide.var((1, 2), keepdims=True) + 1e-3)
    close(ops.layer_norm(x, (3, 50), eps=1e-3), both, dtype, 8)
    rms = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    close(ops.rms_norm(x, 50, w), rms * w.astype(np.float64), dtype, 8)


def test_layer_norm_keeps_its_digits_when_the_mean_is_large() -> None:
    i = np.arange(8)
    x = np.stack([i / 64, 512 + i / 64, 4096 + i / 64, np.full(8, 11.0), -20000 + i / 8]).astype(np.float32)
    y = ops.layer_norm(x)
    wide = x.astype(np.float64)
    exact = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, exact, atol=2e-3)
    assert (y[3] == 0).all() and y[0].tobytes() == y[1].tobytes() == y[2].tobytes()


def test_norms_refuse_wrong_shapes() -> None:
    x = data(2, 6, 3)
    for bad in (lambda: ops.layer_norm(x, (4,)), lambda: ops.group_norm(x, 4), lambda: ops.batch_norm(x, np.zeros(3), np.ones(3)),
                lambda: ops.layer_norm(np.float32(1)), lambda: ops.batch_norm(data(3), np.zeros(3), np.ones(3))):  # fmt: skip
        with pytest.raises(ValueError):
            bad()


@pytest.mark.parametrize("dtype", FLOATS)
def test_group_and_batch_norm(dtype: Any) -> None:
    x, w, b = data(2, 6, 4, 5, dtype=dtype), data(6, dtype=dtype, seed=1), data(6, dtype=dtype, seed=2)
    wide = x.astype(np.float64)
    grouped = wide.reshape(2, 3, -1)
    normal = ((grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + 1e-5)).reshape(x.shape)
    w4, b4 = (v.astype(np.float64)[:, None, None] for v in (w, b))
    close(ops.group_norm(x, 3, w, b), normal * w4 + b4, dtype, 8)
    mean, var = data(6, seed=3), np.abs(data(6, seed=4)) + 0.5
    exact = (wide - mean[:, None, None]) / np.sqrt(var[:, None, None].astype(np.float64) + 1e-5)
    close(ops.batch_norm(x, mean, var, w, b), exact * w4 + b4, dtype, 8)
    assert ops.group_norm(x[:0], 3).shape == (0, 6, 4, 5)


def attention64(q: Any, k: Any, v: Any, mask: Any = None, scale: Any = None) -> Any:
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return softmax64(scores if mask is None else np.where(mask, scores, -np.inf)) @ v


@pytest.mark.parametrize("dtype", FLOATS)
def test_attention(dtype: Any) -> None:
    q, k, v = data(2, 4, 5, 8, dtype=dtype), data(2, 4, 7, 8, dtype=dtype, seed=1), data(2, 4, 7, 6, dtype=dtype, seed=2)
    close(ops.attention(q, k, v), attention64(q, k, v), dtype, 8)
    close(ops.attention(q, k, v, scale=0.1), attention64(q, k, v, scale=0.1), dtype, 8)
    mask = np.random.default_rng(3).random((5, 7)) < 0.6
    mask[:, 0] = True
    close(ops.attention(q, k, v, mask), attention64(q, k, v, mask), dtype, 8)
    additive = np.where(mask, 0, -np.inf).astype(np.float32)
    assert ops.attention(q, k, v, additive).tobytes() == ops.attention(q, k, v, mask).tobytes()
    close(ops.attention(q, k, v, causal=True), attention64(q, k, v, np.tri(5, 7, dtype=bool)), dtype, 8)


def test_attention_details() -> None:
    q, k, v = data(2, 4, 5, 8), data(2, 2, 5, 8, seed=1), data(2, 2, 5, 8, seed=2)
    grouped = ops.attention(q, k, v)
    assert grouped.tobytes() == ops.attention(q, np.repeat(k, 2, 1), np.repeat(v, 2, 1)).tobytes()
    mask = np.ones((5, 5), bool)
    mask[2] = False
    y = ops.attention(q, k, v, mask)
    assert np.isnan(y[:, :, 2]).all() and np.isfinite(np.delete(y, 2, 2)).all()
    assert ops.attention(q[0, 0], k[0, 0], v[0, 0]).shape == (5, 8)
    assert ops.attention(q[:, :, :0], k, v).shape == (2, 4, 0, 8)
    assert ops.attention(q[:0], k[:0], v[:0]).shape == (0, 4, 5, 8)
    for bad in ((q, k[..., :4], v), (q, k, v[..., :3, :]), (q, data(2, 3, 5, 8), data(2, 3, 5, 8))):
        with pytest.raises(ValueError):
            ops.attention(*bad)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(reduction: str) -> None:
    x, t = data(7, 5, scale=2), data(7, 5, seed=1)
    wide, goal = x.astype(np.float64), t.astype(np.float64)

    def check(ours: Any, exact: Any) -> None:
        np.testing.assert_allclose(ours, exact if reduction == "none" else getattr(np, reduction)(exact), rtol=2e-6, atol=1e-6)
        assert ours.dtype == np.float32 and (reduction == "none") == isinstance(ours, np.ndarray)

    d = np.abs(wide - goal)
    check(ops.mse_loss(x, t, reduction), d * d)
    check(ops.l1_loss(x, t, reduction), d)
    check(ops.smooth_l1_loss(x, t, 0.5, reduction), np.where(d < 0.5, d * d, d - 0.25))
    check(ops.smooth_l1_loss(x, t, 0, reduction), d)
    labels = (t > 0).astype(np.float32)
    p = 1 / (1 + np.exp(-wide))
    exact = -(labels * np.log(p) + (1 - labels) * np.log(1 - p))
    check(ops.bce_with_logits(x, labels, reduction=reduction), exact)
    check(ops.binary_cross_entropy(p.astype(np.float32), labels, reduction=reduction), exact)
    pos = np.array(3.0, np.float32)
    check(ops.bce_with_logits(x, labels, pos_weight=pos, reduction=reduction), -(3 * labels * np.log(p) + (1 - labels) * np.log(1 - p)))
    classes = np.array([0, 4, 2, 1, 3, 3, 0])
    logs = np.log(softmax64(wide))
    check(ops.cross_entropy(x, classes, reduction=reduction), -logs[np.arange(7), classes])


def test_losses_at_the_edges() -> None:
    assert ops.binary_cross_entropy(np.array([0.0, 1.0]), np.array([1.0, 0.0]), reduction="none").tolist() == [100, 100]
    assert ops.bce_with_logits(np.array([1000.0, -1000.0]), np.array([0.0, 1.0]), reduction="none").tolist() == [1000, 1000]
    assert np.isnan(ops.mse_loss(np.zeros(0), np.zeros(0))) and ops.mse_loss(np.zeros(0), np.zeros(0), "sum") == 0
    half = ops.mse_loss(data(5, dtype=np.float16), data(5, dtype=np.float16, seed=1))
    assert type(half) is np.float16
    with pytest.raises(ValueError):
        ops.mse_loss(np.zeros(2), np.zeros(2), "max")


def test_cross_entropy_details() -> None:
    x = data(6, 4, scale=2)
    wide = x.astype(np.float64)
    logs = np.log(softmax64(wide))
    classes = np.array([0, -100, 3, 1, -100, 2])
    w = np.array([1, 2, 0.5, 3], np.float32)
    kept = classes >= 0
    per = -logs[kept, classes[kept]] * w[classes[kept]]
    np.testing.assert_allclose(ops.cross_entropy(x, classes, w), per.sum() / w[classes[kept]].sum(), rtol=1e-6)
    assert ops.cross_entropy(x, classes, reduction="none")[~kept].tolist() == [0, 0]
    smooth = 0.9 * -logs[kept, classes[kept]] + 0.1 * -logs[kept].mean(1)
    np.testing.assert_allclose(ops.cross_entropy(x, classes, label_smoothing=0.1), smooth.mean(), rtol=1e-6)
    probabilities = softmax64(data(6, 4, seed=9).astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(ops.cross_entropy(x, probabilities), -(probabilities * logs).sum(1).mean(), rtol=1e-6)
    images = data(2, 4, 3, 3)
    target = np.random.default_rng(0).integers(0, 4, (2, 3, 3))
    exact = -np.take_along_axis(np.log(softmax64(images.astype(np.float64), 1)), target[:, None], 1)
    np.testing.assert_allclose(ops.cross_entropy(images, target, reduction="none"), exact[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ops.cross_entropy(x[0], np.array(2)), -logs[0, 2], rtol=1e-6)
    with pytest.raises(IndexError):
        ops.cross_entropy(x, np.full(6, 4))
    with pytest.raises(ValueError):
        ops.cross_entropy(x, np.zeros(5, int))
    with pytest.raises(ValueError):
        ops.cross_entropy(x, np.zeros(6, int), np.ones(3))


def test_embedding_gather_one_hot() -> None:
    weight, ids = data(5, 3), np.array([[0, 4], [2, 2]])
    assert ops.embedding(ids, weight).tobytes() == weight[ids].tobytes()
    assert ops.gather(weight, ids, 1 - 1).shape == (2, 2, 3)
    with pytest.raises(IndexError):
        ops.embedding(np.array([5]), weight)
    with pytest.raises(TypeError):
        ops.embedding(np.array([1.0]), weight)
    hot = ops.one_hot(np.array([0, 2, -1, 3]), 3)
    assert hot.dtype == np.float32 and hot.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert ops.one_hot(np.array(1), 2, on_value=7, off_value=1, dtype=np.int8).tolist() == [1, 7]
    with pytest.raises(TypeError):
        ops.one_hot(np.array([0.5]), 3)


def test_interpolate() -> None:
    x = np.arange(16.0, dtype=np.float32).reshape(1, 1, 4, 4)
    assert ops.interpolate(x, 2).tolist() == [[[[0, 2], [8, 10]]]]
    assert ops.interpolate(x, (8, 4))[0, 0, :, 0].tolist() == [0, 0, 4, 4, 8, 8, 12, 12]
    assert ops.interpolate(x, 2, "bilinear").tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    np.testing.assert_allclose(ops.interpolate(x, 7, "bilinear", align_corners=True)[0, 0, 0], np.linspace(0, 3, 7), rtol=1e-6)
    assert ops.interpolate(x, 4, "bilinear").tobytes() == x.tobytes()
    for bad in (lambda: ops.interpolate(x, 0), lambda: ops.interpolate(x[0, 0], 2), lambda: ops.interpolate(x, 2, "cubic")):
        with pytest.raises(ValueError):
            bad()
