"""Convolution and pooling against naive loops in float64."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import bcvm_core.ops as ops
from bcvm_core import config
from bcvm_core.codegen.onednn import library as onednn
from bcvm_core.ops import registry, windows


@pytest.fixture(autouse=True, params=["onednn", "im2col"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test runs on both paths; where there is no oneDNN, once."""
    if request.param == "onednn" and onednn.library() is None:
        pytest.skip(onednn.state()[1])
    with config.override(onednn=config.current.onednn if request.param == "onednn" else "0"):
        yield request.param


def naive(x: Any, w: Any, stride: Any, edges: Any, dilation: Any, groups: int) -> Any:
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *edges))
    n, c, h, width = x.shape
    o, per, kh, kw = w.shape
    rows = (h - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    columns = (width - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    out = np.zeros((n, o, rows, columns))
    for b, k, i, j in np.ndindex(out.shape):
        g = k // (o // groups)
        for ci, di, dj in np.ndindex(per, kh, kw):
            out[b, k, i, j] += x[b, g * per + ci, i * stride[0] + di * dilation[0], j * stride[1] + dj * dilation[1]] * float(
                w[k, ci, di, dj]
            )
    return out


def data(shape: Any, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


CASES = [
    ((2, 3, 7, 6), (4, 3, 3, 3), {}, 1),
    ((2, 3, 7, 6), (4, 3, 3, 2), {"stride": 2, "padding": 1}, 1),
    ((1, 3, 9, 8), (2, 3, 3, 3), {"dilation": (2, 1), "padding": (2, 1)}, 1),
    ((2, 4, 5, 5), (6, 2, 3, 3), {"groups": 2, "padding": ((1, 0), (0, 2))}, 2),
    ((2, 4, 6, 5), (4, 1, 3, 3), {"groups": 4, "padding": 1}, 4),
    ((2, 4, 6, 5), (8, 1, 3, 3), {"groups": 4, "stride": (1, 2)}, 4),
    ((3, 5, 4, 4), (2, 5, 1, 1), {}, 1),
    ((3, 5, 4, 4), (2, 5, 1, 1), {"stride": 2}, 1),
    ((1, 2, 5, 5), (3, 2, 5, 5), {}, 1),
    ((2, 1, 1, 9), (1, 1, 1, 4), {"padding": "same"}, 1),
    ((2, 3, 7, 7), (2, 3, 3, 3), {"padding": "same", "stride": 2}, 1),
    ((2, 3, 7, 7), (2, 3, 3, 3), {"padding": "valid", "stride": 3}, 1),
    ((0, 3, 5, 5), (2, 3, 3, 3), {}, 1),
    ((2, 0, 5, 5), (2, 0, 3, 3), {}, 1),
]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape, kernel, attrs, groups", CASES)
def test_conv2d(shape: Any, kernel: Any, attrs: Any, groups: int, layout: str) -> None:
    x, w, b = data(shape), data(kernel, seed=1), data(kernel[0], seed=2)
    stride, dilation = windows.pair(attrs.get("stride", 1), ""), windows.pair(attrs.get("dilation", 1), "")
    edges = windows.border(attrs.get("padding", 0), shape[2:], kernel[2:], stride, dilation)
    expected = naive(x, w, stride, edges, dilation, groups) + b[:, None, None]
    given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    result = ops.conv2d(given, w, b, **attrs, layout=layout)
    assert result.dtype == np.float32 and result.flags.c_contiguous
    np.testing.assert_allclose(result if layout == "NCHW" else result.transpose(0, 3, 1, 2), expected, rtol=2e-5, atol=2e-5)
    flops = registry.row("conv2d").flops
    assert flops is not None
    assert flops(given.shape, w.shape, **attrs, layout=layout) == 2.0 * expected.size * np.prod(w.shape[1:])


def test_same_keeps_the_size() -> None:
    for n, k, s, d in itertools.product((5, 6, 7, 8), (1, 2, 3, 4), (1, 2, 3), (1, 2)):
        edges = windows.border("same", (n, n), (k, k), (s, s), (d, d))
        assert windows.output_size((n, n), edges, (k, k), (s, s), (d, d)) == (-(-n // s),) * 2
        assert 0 <= edges[0][1] - edges[0][0] <= 1


def test_bits_depend_on_values_not_on_strides() -> None:
    x, w = data((3, 4, 8, 9)), data((5, 4, 3, 3), seed=1)
    plain = ops.conv2d(x, w, padding=1)
    assert plain.tobytes() == ops.conv2d(np.asfortranarray(x), np.asfortranarray(w), padding=1).tobytes()
    assert plain.tobytes() == ops.conv2d(x[:, :, ::-1][:, :, ::-1], w, padding=1).tobytes()
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    assert ops.conv2d(nhwc, w, layout="NHWC").tobytes() == ops.conv2d(x.transpose(0, 2, 3, 1), w, layout="NHWC").tobytes()


def test_chunks_of_images_do_not_change_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    from bcvm_core.ops import conv

    x, w = data((5, 4, 8, 9)), data((6, 2, 3, 3), seed=1)
    whole = ops.conv2d(x, w, groups=2)
    monkeypatch.setattr(conv, "_CHUNK_BYTES", 1)
    assert ops.conv2d(x, w, groups=2).tobytes() == whole.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64, np.int32])
def test_element_types(dtype: Any) -> None:
    x, w = (data((2, 3, 6, 6)) * 4).astype(dtype), (data((4, 3, 3, 3), seed=1) * 4).astype(dtype)
    result = ops.conv2d(x, w)
    assert result.dtype == dtype
    exact = naive(x, w, (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    eps = 0 if np.dtype(dtype).kind == "i" else float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(result.astype(np.float64), exact, rtol=2 * eps, atol=4e-5 if eps else 0)
    assert ops.conv2d(x, w.astype(np.float64)).dtype == (np.float64)


def test_special_values_pass() -> None:
    x = np.zeros((1, 1, 3, 3), np.float32)
    x[0, 0, 1, 1] = np.nan
    assert np.isnan(ops.conv2d(x, np.ones((1, 1, 2, 2), np.float32))).all()


BAD = [
    (((2, 3, 5, 5), (4, 2, 3, 3)), {}),
    (((2, 3, 5), (4, 3, 3, 3)), {}),
    (((2, 3, 5, 5), (4, 3, 6, 3)), {}),
    (((2, 4, 5, 5), (3, 2, 3, 3)), {"groups": 2}),
    (((2, 3, 5, 5), (4, 3, 3, 3)), {"layout": "HWCN"}),
    (((2, 3, 5, 5), (4, 3, 3, 3)), {"padding": "full"}),
    (((2, 3, 5, 5), (4, 3, 3, 3)), {"padding": -1}),
    (((2, 3, 5, 5), (4, 3, 3, 3)), {"stride": 0}),
    (((2, 3, 5, 5), (4, 3, 3, 3)), {"stride": (1, 2, 3)}),
    (((2, 3, 5, 5), (4, 3, 3, 3)), {"bias": np.ones(3)}),
]


@pytest.mark.parametrize("shapes, attrs", BAD)
def test_bad_calls_raise_value_error(shapes: Any, attrs: Any) -> None:
    with pytest.raises(ValueError):
        ops.conv2d(np.ones(shapes[0], np.float32), np.ones(shapes[1], np.float32), **attrs)


def test_conv1d() -> None:
    x, w, b = data((2, 3, 9)), data((4, 3, 3), seed=1), data(4, seed=2)
    for attrs in ({}, {"stride": 2, "padding": 1}, {"dilation": (2,)}, {"padding": "same"}):
        expected = ops.conv2d(
            x[:, :, None],
            w[:, :, None],
            b,
            stride=(1, attrs.get("stride", 1)),
            dilation=(1, 2 if "dilation" in attrs else 1),
            padding=attrs["padding"] if attrs.get("padding") == "same" else (0, attrs.get("padding", 0)),
        )[:, :, 0]
        assert ops.conv1d(x, w, b, **attrs).tobytes() == expected.tobytes()
    flops = registry.row("conv1d").flops
    assert flops is not None and flops((2, 3, 9), (4, 3, 3)) == 2.0 * 2 * 4 * 7 * 9
    with pytest.raises(ValueError):
        ops.conv1d(x[0], w)


def naive_pool(x: Any, kernel: Any, stride: Any, pad: Any, function: Any, fill: float) -> Any:
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    rows, columns = ((x.shape[2 + a] - kernel[a]) // stride[a] + 1 for a in (0, 1))
    out = np.empty((*x.shape[:2], rows, columns))
    for i, j in np.ndindex(rows, columns):
        cell = x[:, :, i * stride[0] : i * stride[0] + kernel[0], j * stride[1] : j * stride[1] + kernel[1]]
        out[:, :, i, j] = function(cell, axis=(2, 3))
    return out


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kernel, stride, pad", [(2, None, 0), ((3, 2), (2, 1), 1), (3, 1, 1), (5, None, 0), (1, 2, 0)])
def test_pools(kernel: Any, stride: Any, pad: int, layout: str) -> None:
    x = data((2, 3, 7, 8))
    k = windows.pair(kernel, "")
    s = k if stride is None else windows.pair(stride, "")
    given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))

    def back(y: Any) -> Any:
        assert y.dtype == np.float32
        return y if layout == "NCHW" else y.transpose(0, 3, 1, 2)

    attrs = {"stride": stride, "padding": pad, "layout": layout}
    np.testing.assert_array_equal(back(ops.max_pool2d(given, kernel, **attrs)), naive_pool(x, k, s, pad, np.max, -np.inf))
    np.testing.assert_allclose(back(ops.avg_pool2d(given, kernel, **attrs)), naive_pool(x, k, s, pad, np.mean, 0), rtol=1e-5, atol=1e-6)
    inside = back(ops.avg_pool2d(given, kernel, count_include_pad=False, **attrs))
    np.testing.assert_allclose(inside, naive_pool(x, k, s, pad, np.nanmean, np.nan), rtol=1e-5, atol=1e-6)


def test_pool_details() -> None:
    x = data((2, 3, 6, 6))
    assert ops.avg_pool2d(x, 6)[:, :, 0, 0].tobytes() == ops.mean(x, (2, 3)).tobytes(), "a whole image: the mean, to the bit"
    assert ops.adaptive_avg_pool2d(x, 1)[:, :, 0, 0].tobytes() == ops.mean(x, (2, 3)).tobytes()
    np.testing.assert_allclose(ops.adaptive_avg_pool2d(x, (3, None)), x.reshape(2, 3, 3, 2, 6).mean(3), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ops.adaptive_avg_pool2d(x, (4, 5))[:, :, 1, 4], x[:, :, 1:3, 4:6].mean((2, 3)), rtol=1e-5, atol=1e-6)
    nhwc = x.transpose(0, 2, 3, 1)
    assert (
        ops.adaptive_avg_pool2d(nhwc, (4, 5), layout="NHWC").transpose(0, 3, 1, 2).tobytes() == ops.adaptive_avg_pool2d(x, (4, 5)).tobytes()
    )
    with_nan = x.copy()
    with_nan[0, 0, 0, 0] = np.nan
    assert np.isnan(ops.max_pool2d(with_nan, 2)[0, 0, 0, 0])
    assert ops.max_pool2d(np.full((1, 1, 2, 2), -np.inf), 2, padding=1).tolist() == np.full((1, 1, 2, 2), -np.inf).tolist()
    assert ops.max_pool2d(np.full((1, 1, 4, 4), -128, np.int8), 3, padding=1).dtype == np.int8
    assert ops.max_pool2d(np.arange(25.0).reshape(1, 1, 5, 5), 2, stride=1, dilation=3).tolist() == [[[[18, 19], [23, 24]]]]
    assert ops.avg_pool2d(np.arange(4).reshape(1, 1, 2, 2), 2).dtype == np.float64
    for bad in ({"padding": 2}, {"stride": 0}, {"layout": "X"}):
        with pytest.raises(ValueError):
            ops.max_pool2d(x, 2, **bad)
    with pytest.raises(ValueError):
        ops.adaptive_avg_pool2d(x, 0)
    with pytest.raises(ValueError):
        ops.avg_pool2d(x[0], 2)
