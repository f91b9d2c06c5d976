"""Rows that NumPy does not spell, against loops and formulas in float64; special values, layouts and element types."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import bcvm_core.ops as ops
from bcvm_core import fpstatus, testing
from bcvm_core.errors import Decline
from bcvm_core.ops import registry
from tests.mindspore import mint_reference as ref
from tests.samples import copied, samples

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((2, 3, 4))
P = RNG.uniform(0.2, 2.0, (3, 4))
IM = RNG.standard_normal((2, 4, 6, 6))
SEQ = RNG.standard_normal((2, 4, 9))
VOL = RNG.standard_normal((2, 2, 4, 4, 4))
ROWS3 = np.array([[2, 0, 1, 1], [0, 2, 1, 1]])
SIGNS = np.array([1.0, -1.0, 1.0])
SQ = RNG.standard_normal((3, 3)) + 3 * np.eye(3)
G4 = RNG.standard_normal(4)
K = RNG.standard_normal((3, 4, 3, 3))


def distance(a: Any, b: Any, p: float = 2.0) -> Any:
    return (np.abs(a - b + 1e-6) ** p).sum(-1) ** (1 / p)


def cubic(x: Any, place: float) -> Any:
    """One value between samples by the cubic convolution kernel with a = -0.75, edges repeated."""
    a, total, low = -0.75, 0.0, math.floor(place)
    for k in range(low - 1, low + 3):
        d = abs(place - k)
        w = (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        total += w * x[min(max(k, 0), len(x) - 1)]
    return total


CASES: dict[str, tuple[Any, Any]] = {
    "lerp": (lambda: ops.lerp(X, Y, 0.25), X + 0.25 * (Y - X)),
    "addcmul": (lambda: ops.addcmul(X, Y, P, 0.5), X + 0.5 * Y * P),
    "xlogy": (lambda: ops.xlogy(X, P), X * np.log(P)),
    "logit": (lambda: ops.logit(P / 3), np.log(P / 3 / (1 - P / 3))),
    "polar": (lambda: ops.polar(P, X), P * np.exp(1j * X)),
    "sinc": (lambda: ops.sinc(X), np.sinc(X)),
    "divide_rounded": (lambda: ops.divide_rounded(X, P, "trunc"), np.trunc(X / P)),
    "celu": (lambda: ops.celu(X, 1.5), np.where(X > 0, X, 1.5 * np.expm1(X / 1.5))),
    "tanhshrink": (lambda: ops.tanhshrink(X), X - np.tanh(X)),
    "gather_nd": (lambda: ops.gather_nd(IM, np.array([[0, 1], [1, 3]])), np.stack([IM[0, 1], IM[1, 3]])),
    "gather_elements": (lambda: ops.gather_elements(X, ROWS3, 0), np.stack([[X[ROWS3[i, j], j] for j in range(4)] for i in range(2)])),
    "scatter": (lambda: ops.scatter(X, ROWS3, Y, 0), ref.scatter(X, ROWS3, Y, False)),
    "scatter_add": (lambda: ops.scatter_add(X, ROWS3, Y, 0), ref.scatter(X, ROWS3, Y, True)),
    "index_add": (lambda: ops.index_add(X, np.array([2, 2]), Y[:2], 0, 0.5), X + 0.5 * np.stack([0 * G4, 0 * G4, Y[0] + Y[1]])),
    "index_fill": (lambda: ops.index_fill(X, np.array([2, 0]), 1.5, 1), np.where(np.isin(np.arange(4), [0, 2]), 1.5, X)),
    "scatter_nd": (lambda: ops.scatter_nd(np.array([[1], [1]]), Y[:2], (3, 4)), np.stack([0 * G4, Y[0] + Y[1], 0 * G4])),
    "tensor_scatter": (
        lambda: ops.tensor_scatter(X, np.array([[1], [1]]), Y[:2], "max"),
        np.stack([X[0], np.maximum(np.maximum(X[1], Y[0]), Y[1]), X[2]]),
    ),
    "topk": (lambda: ops.topk(X, 2), (-np.sort(-X)[:, :2], np.argsort(-X)[:, :2])),
    "kthvalue": (lambda: ops.kthvalue(X, 3, 0), (np.sort(X, 0)[2], np.argsort(X, 0)[2])),
    "lower_median": (lambda: ops.lower_median(X), np.sort(X.ravel())[5]),
    "cummax": (lambda: ops.cummax(X, 1), ref.running(np.maximum, X)),
    "cummin": (lambda: ops.cummin(X, 1), ref.running(np.minimum, X)),
    "histc": (lambda: ops.histc(X, 5, -1, 1), np.histogram(X, 5, (-1, 1))[0]),
    "bucketize": (lambda: ops.bucketize(X, np.array([-1.0, 0.0, 1.0])), (X > -1).astype(int) + (X > 0) + (X > 1)),
    "search_rows": (lambda: ops.search_rows(np.sort(X), Y[:, :2]), (np.sort(X)[:, None, :] < Y[:, :2, None]).sum(-1)),
    "kl_div": (lambda: ops.kl_div(X, P, "batchmean"), (P * (np.log(P) - X)).sum() / 3),
    "nll_loss": (lambda: ops.nll_loss(X, np.array([1, 3, 0]), P[0]), ref.cross_entropy_of(X, np.array([1, 3, 0]), P[0])),
    "huber_loss": (
        lambda: ops.huber_loss(X, Y, 0.5),
        np.where(abs(X - Y) < 0.5, (X - Y) ** 2 / 2, 0.5 * (abs(X - Y) - 0.25)).mean(),
    ),
    "hinge_embedding_loss": (
        lambda: ops.hinge_embedding_loss(X[:, 0], SIGNS, 0.5, "sum"),
        np.where(SIGNS == 1, X[:, 0], np.maximum(0.5 - X[:, 0], 0)).sum(),
    ),
    "margin_ranking_loss": (
        lambda: ops.margin_ranking_loss(X[:, 0], Y[:, 0], SIGNS, 0.5),
        np.maximum(-SIGNS * (X[:, 0] - Y[:, 0]) + 0.5, 0).mean(),
    ),
    "soft_margin_loss": (lambda: ops.soft_margin_loss(X[:, 0], SIGNS), np.log1p(np.exp(-SIGNS * X[:, 0])).mean()),
    "cosine_similarity": (lambda: ops.cosine_similarity(X, Y), ref.cosine(X, Y)),
    "pairwise_distance": (lambda: ops.pairwise_distance(X, Y, 3.0), distance(X, Y, 3.0)),
    "triplet_margin_loss": (
        lambda: ops.triplet_margin_loss(X, Y, P, swap=True),
        np.maximum(1 + distance(X, Y) - np.minimum(distance(X, P), distance(Y, P)), 0).mean(),
    ),
    "cdist": (lambda: ops.cdist(X, Y, 1.0), abs(X[:, None] - Y).sum(-1)),
    "normalize": (lambda: ops.normalize(X, 1.0), X / abs(X).sum(1, keepdims=True)),
    "poisson_nll_loss": (lambda: ops.poisson_nll_loss(X, P), (np.exp(X) - P * X).mean()),
    "gaussian_nll_loss": (lambda: ops.gaussian_nll_loss(X, Y, P), ((np.log(P) + (X - Y) ** 2 / P) / 2).mean()),
    "max_pool1d": (lambda: ops.max_pool1d(SEQ, 3, 2, 1, 1, True), ref.pool(SEQ, 1, 3, 2, 1, np.max, True)),
    "max_pool3d": (lambda: ops.max_pool3d(VOL, 2), ref.pool(VOL, 3, 2, 2, 0, np.max)),
    "max_pool2d": (lambda: ops.max_pool2d(IM, 3, 2, 1, ceil_mode=True), ref.pool(IM, 2, 3, 2, 1, np.max, True)),
    "avg_pool1d": (lambda: ops.avg_pool1d(SEQ, 3, 2, 1, True, False), ref.pool(SEQ, 1, 3, 2, 1, np.mean, True)),
    "avg_pool2d": (lambda: ops.avg_pool2d(IM, 3, 2, 1, False, ceil_mode=True), ref.pool(IM, 2, 3, 2, 1, np.mean, True)),
    "avg_pool3d": (lambda: ops.avg_pool3d(VOL, 3, 1, divisor_override=5), ref.pool(VOL, 3, 3, 1, 0, np.sum) / 5),
    "lp_pool2d": (lambda: ops.lp_pool2d(IM, 3.0, 2), ref.pool(abs(IM) ** 3, 2, 2, 2, 0, np.sum) ** (1 / 3)),
    "adaptive_max_pool3d": (lambda: ops.adaptive_max_pool3d(VOL, 3), ref.adaptive(VOL, (3, 3, 3), np.max)),
    "adaptive_avg_pool1d": (lambda: ops.adaptive_avg_pool1d(SEQ, 4), ref.adaptive(SEQ, (4,), np.mean)),
    "conv3d": (lambda: ops.conv3d(VOL, VOL[:, :, :2, :2, :2], stride=2, padding=1), ref.conv(VOL, VOL[:, :, :2, :2, :2], 0, 2, 1)),
    "conv_transpose2d": (
        lambda: ops.conv_transpose2d(IM, np.swapaxes(K, 0, 1), None, 2, 1, 1),
        ref.conv_transpose(IM, np.swapaxes(K, 0, 1), 2, 1, 1),
    ),
    "conv_transpose1d": (
        lambda: ops.conv_transpose1d(SEQ, np.swapaxes(K, 0, 1)[..., 0], None, 1, 1),
        ref.conv_transpose(SEQ[..., None], np.swapaxes(K, 0, 1)[..., :1], 1, 0, 0)[:, :, 1:-1, 0],
    ),
    "fold": (lambda: ops.fold(ops.unfold(IM, 2), (6, 6), 2), ref.folded(ref.columns(IM, 2), (6, 6), 2)),
    "pixel_unshuffle": (lambda: ops.pixel_shuffle(ops.pixel_unshuffle(IM, 2), 2), IM),
    "channel_shuffle": (lambda: ops.channel_shuffle(IM, 2), IM[:, [0, 2, 1, 3]]),
    "bicubic": (
        lambda: ops.interpolate(IM[:1, :1, :1], (1, 9), "bicubic")[0, 0, 0],
        [cubic(IM[0, 0, 0], (i + 0.5) * 6 / 9 - 0.5) for i in range(9)],
    ),
    "linear": (lambda: ops.interpolate(SEQ, 17, "linear", True)[1, 2], np.interp(np.linspace(0, 8, 17), np.arange(9), SEQ[1, 2])),
    "area": (lambda: ops.interpolate(IM, 4, "area"), ref.adaptive(IM, (4, 4), np.mean)),
    "grid_sample": (lambda: ops.grid_sample(IM, np.tanh(IM[:, :2, :, :2]), align_corners=True), ref.sampled(IM, np.tanh(IM[:, :2, :, :2]))),
    "addmv": (lambda: ops.addmv(X[:, 0], Y, G4, 0.5, 2), 0.5 * X[:, 0] + 2 * Y @ G4),
    "addr": (lambda: ops.addr(X, SIGNS, G4, 0.5, 2), 0.5 * X + 2 * np.outer(SIGNS, G4)),
    "cross": (lambda: ops.cross(SQ, X[:, :3], 0), np.cross(SQ, X[:, :3], axis=0)),
    "triangular_solve": (lambda: np.tril(SQ) @ ops.triangular_solve(SQ, X, False), X),
    "vector_norm": (lambda: ops.vector_norm(X, 3, 1), (abs(X) ** 3).sum(1) ** (1 / 3)),
    "instance_norm": (lambda: ops.instance_norm(IM, G4, G4), ref.norm_over(IM, (2, 3)) * ref.channels(G4) + ref.channels(G4)),
    "batch_norm_train": (
        lambda: ops.batch_norm_train(IM, G4, P[0], momentum=0.25),
        (ref.norm_over(IM, (0, 2, 3)), 0.75 * G4 + 0.25 * IM.mean((0, 2, 3)), 0.75 * P[0] + 0.25 * IM.var((0, 2, 3), ddof=1)),
    ),
    "var_mean": (lambda: ops.var_mean(X, 1, 1), (X.var(1, ddof=1), X.mean(1))),
    "embedding": (lambda: ops.embedding(np.array([2, 0]), X, 1), X[[2, 0]]),
}


def close(ours: Any, exact: Any) -> None:
    if isinstance(exact, tuple):
        assert isinstance(ours, tuple) and len(ours) == len(exact)
        for a, b in zip(ours, exact, strict=True):
            close(a, b)
    else:
        assert np.shape(ours) == np.shape(exact)
        np.testing.assert_allclose(ours, exact, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_against_numpy_in_float64(name: str) -> None:
    call, exact = CASES[name]
    close(call(), exact)


FAMILIES = ("elementwise_more", "rectifiers", "moments", "matrices")
FILES = ("indexed", "ranking", "pooling_more", "conv_more", "losses_more", "resize")


def _new_rows() -> list[str]:
    import importlib

    return [row.name for file in (*FAMILIES, *FILES) for row in importlib.import_module(f"bcvm_core.ops.{file}").ROWS]


def _relaid(value: Any, how: str) -> Any:
    """The same array with other strides."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    if how == "fortran":
        return np.asfortranarray(value)
    wide = np.repeat(value, 2, axis=-1)[..., ::2]
    return wide if how == "strided" else value[..., ::-1].copy()[..., ::-1]


# Their bits are the library's, which goes by strides too.
BLAS = "addmm addmv addbmm baddbmm inverse det solve cholesky qr conv3d".split()


@pytest.mark.parametrize("how", ["fortran", "strided", "backwards"])
@pytest.mark.parametrize("name", [n for n in _new_rows() if n not in BLAS])
def test_bits_do_not_depend_on_strides(name: str, how: str) -> None:
    op = registry.row(name)
    for operands, attrs in samples(op):
        expected = op.definition(*copied(operands), **attrs)
        other = {key: _relaid(value, how) for key, value in attrs.items()}
        testing.assert_same_bits(op.definition(*(_relaid(value, how) for value in operands), **other), expected)


SILENT = [name for name in _new_rows() if not registry.row(name).exact]


@pytest.mark.parametrize("name", SILENT)
def test_nan_and_infinities_come_through_without_events(name: str) -> None:
    op = registry.row(name)
    for operands, attrs in samples(op):
        for special in (np.nan, np.inf, -np.inf):
            spoiled = copied(operands)
            for value in spoiled:
                if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
                    value.flat[0] = special
            with fpstatus.recording() as seen:
                try:
                    op.definition(*spoiled, **attrs)
                except ValueError:
                    assert name == "histc", "only a range needs finite numbers"
            assert seen.kinds == []


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("name", [n for n in SILENT if n not in ("polar", "cholesky", "qr")])
def test_narrow_floats_are_rounded_once(name: str, dtype: Any) -> None:
    """The result has the operands' type and is that of the wider type, rounded; accumulation is in float32."""
    op = registry.row(name)
    for operands, attrs in samples(op):
        if all(isinstance(v, np.ndarray) and v.dtype.kind in "iubc" for v in operands):
            continue

        def cast(value: Any, to: Any) -> Any:
            if isinstance(value, np.ndarray) and value.dtype.kind in "fV":
                return value.astype(dtype).astype(to)
            return value

        narrow = op.definition(*(cast(v, dtype) for v in operands), **{k: cast(v, dtype) for k, v in attrs.items()})
        exact = op.definition(*(cast(v, np.float64) for v in operands), **{k: cast(v, np.float64) for k, v in attrs.items()})
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (narrow, exact)), strict=True):
            if a is None or np.asarray(a).dtype.kind in "iub":
                continue
            assert np.asarray(a).dtype == dtype
            eps = float(ml_dtypes.finfo(dtype).eps)
            factor = 40 if dtype == np.float32 else 1
            np.testing.assert_allclose(np.asarray(a, np.float64), b, rtol=factor * eps, atol=factor * eps)


EMPTY = [
    (lambda e: ops.selu(e), (0, 3)), (lambda e: ops.glu(np.zeros((0, 4))), (0, 2)), (lambda e: ops.erfinv(e), (0, 3)),
    (lambda e: ops.masked_select(e, e > 0), (0,)), (lambda e: ops.scatter_add(e, np.zeros((0, 3), int), e, 0), (0, 3)),
    (lambda e: ops.index_select(e, np.zeros(0, int), 1), (0, 0)), (lambda e: ops.unique_consecutive(e), (0,)),
    (lambda e: ops.addmm(np.zeros((2, 3)), np.zeros((2, 0)), e), (2, 3)), (lambda e: ops.cdist(e, np.ones((2, 3))), (0, 2)),
    (lambda e: ops.normalize(e), (0, 3)), (lambda e: ops.topk(e, 0, 0)[0], (0, 3)), (lambda e: ops.cummax(e, 1)[0], (0, 3)),
    (lambda e: ops.instance_norm(np.zeros((0, 2, 3))), (0, 2, 3)), (lambda e: ops.lerp(e, e, 0.5), (0, 3)),
    (lambda e: ops.chunk(e, 3, 1)[0], (0, 1)), (lambda e: ops.flatten_axes(e), (0,)), (lambda e: ops.prelu(e, np.ones(3)), (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(EMPTY)))
def test_nothing_gives_nothing(number: int) -> None:
    call, shape = EMPTY[number]
    assert np.shape(call(np.zeros((0, 3)))) == shape


def test_losses_of_nothing_are_nan_in_the_mean_and_zero_in_the_sum() -> None:
    e = np.zeros((0, 3))
    for loss in (ops.huber_loss, ops.kl_div, ops.soft_margin_loss, ops.poisson_nll_loss):
        assert np.isnan(loss(e, e)) and loss(e, e, reduction="sum") == 0
    assert np.isnan(ops.nll_loss(e, np.zeros(0, int)))


def test_special_values() -> None:
    nan, inf = np.nan, np.inf
    assert np.array_equal(ops.erfinv(np.array([0.0, -0.0, 1, -1, 2, nan])), [0, -0.0, inf, -inf, nan, nan], equal_nan=True)
    assert math.copysign(1, ops.erfinv(np.float64(-0.0))) == -1
    assert ops.xlogy(np.zeros(3), np.array([0.0, inf, nan]))[:2].tolist() == [0, 0] and np.isnan(ops.xlogy(0.0, np.float64(nan)))
    assert ops.lerp(np.array([1e30]), np.array([-5.0]), 1.0).tolist() == [-5.0], "the end itself"
    assert ops.addmm(np.full((1, 1), nan), np.ones((1, 1)), np.ones((1, 1)), beta=0).tolist() == [[1.0]]
    assert ops.selu(np.array([-inf, inf])).tolist() == [-1.0507009873554805 * 1.6732632423543772, inf]
    assert ops.softshrink(np.array([nan, 0.5, -0.5])).tolist()[1:] == [0, 0] and np.isnan(ops.softshrink(np.float64(nan)))
    assert ops.is_close(np.array([inf, nan, 1]), np.array([inf, nan, inf])).tolist() == [True, False, False]
    assert ops.is_neg_inf(np.array([-inf, inf, nan])).tolist() == [True, False, False]
    assert ops.frac(np.array([-1.5])).tolist() == [-0.5] and ops.sinc(np.float64(0)) == 1


def test_nan_is_the_largest_number() -> None:
    x = np.array([1.0, np.nan, 3.0, 3.0])
    values, index = ops.topk(x, 3)
    assert np.isnan(values[0]) and index.tolist() == [1, 2, 3], "equal elements keep their order"
    assert ops.topk(x, 2, largest=False)[1].tolist() == [0, 2]
    assert ops.sort_pairs(x, descending=True)[1].tolist() == [1, 2, 3, 0] and ops.sort_pairs(x)[1].tolist() == [0, 2, 3, 1]
    assert ops.max_pairs(x, 0)[1] == 1 and ops.min_pairs(x, 0)[1] == 1, "NaN wins in extremes"
    assert np.isnan(ops.cummax(x, 0)[0][1:]).all() and ops.cummax(x, 0)[1].tolist() == [0, 1, 1, 1]
    assert ops.cummax(np.array([2, 2, 1]), 0)[1].tolist() == [0, 1, 1], "the latest of equals"
    assert ops.lower_median(x, 0)[1] == 1 and np.isnan(ops.lower_median(x))
    pooled, where = ops.max_pool1d(x[None, None], 2, return_indices=True)
    assert np.isnan(pooled[0, 0, 0]) and where.tolist() == [[[1, 2]]]


def test_zero_dimensions_and_one_element() -> None:
    one = np.float32(2.5)
    assert ops.topk(one, 1)[1] == 0 and ops.cummax(one, 0)[0] == one and ops.kthvalue(one, 1)[0] == one
    assert type(ops.selu(one)) is np.float32 and ops.flatten_axes(np.array(3.0)).shape == (1,)
    assert ops.unbind(np.ones((1, 3)))[0].shape == (3,) and ops.std_mean(np.ones(1))[0] == 0
    with pytest.raises(Decline):
        registry.row("var_mean").definition(np.ones(1), ddof=1)


def test_views_share_memory_and_operands_stay() -> None:
    x = X.copy()
    for view in (ops.narrow(x, 1, 1, 2), ops.select(x, 0, 1), ops.unbind(x)[0], ops.chunk(x, 2)[1], ops.flatten_axes(x)):
        assert np.shares_memory(view, x)
    for changed in (ops.scatter(x, ROWS3, Y, 0), ops.index_add(x, np.array([0]), Y[:1], 0), ops.masked_fill(x, x > 0, 9)):
        assert not np.shares_memory(changed, x)
    assert np.array_equal(x, X)


ERRORS = [
    lambda: ops.scatter(X, ROWS3 + 5, Y, 0), lambda: ops.gather_elements(X, ROWS3[0], 0), lambda: ops.gather_nd(X, np.zeros((1, 3), int)),
    lambda: ops.index_select(X, ROWS3, 0), lambda: ops.masked_select(X, ROWS3), lambda: ops.narrow(X, 1, 3, 2), lambda: ops.chunk(X, 0),
    lambda: ops.topk(X, 5), lambda: ops.kthvalue(X, 0), lambda: ops.histc(X, 0), lambda: ops.glu(X[:, :3]), lambda: ops.prelu(X, G4[:2]),
    lambda: ops.nll_loss(X, np.array([1, 9, 0])), lambda: ops.nll_loss(X, SIGNS), lambda: ops.huber_loss(X, Y, 0),
    lambda: ops.max_pool1d(X[0], 2), lambda: ops.avg_pool3d(VOL, 9), lambda: ops.adaptive_max_pool2d(IM, 0),
    lambda: ops.max_unpool2d(IM[:, :, :1, :1], np.full((2, 4, 1, 1), 99), 2), lambda: ops.conv3d(IM, K),
    lambda: ops.conv_transpose2d(IM, K), lambda: ops.fold(SEQ, (6, 6), 2), lambda: ops.pixel_shuffle(IM, 3),
    lambda: ops.interpolate(IM), lambda: ops.interpolate(IM, 3, "trilinear"), lambda: ops.grid_sample(IM, IM),
    lambda: ops.addmm(X, X, X), lambda: ops.cross(X, Y), lambda: ops.triangular_solve(X, X), lambda: ops.batch_norm_train(G4),
    lambda: ops.embedding(np.array([0]), X, 3), lambda: ops.multinomial(-P, 1, 3), lambda: ops.multinomial(P, 9, 3),
    lambda: ops.bernoulli(P * 9, 3), lambda: ops.kl_div(X, P, "median"), lambda: ops.scatter(X, ROWS3, Y, 0, "no"),
    lambda: ops.add_scaled(ROWS3, ROWS3, 0.5), lambda: ops.addmm(ROWS3, ROWS3, ROWS3.T @ ROWS3, 0.5),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_wrong_arguments_are_refused(number: int) -> None:
    with pytest.raises((ValueError, IndexError, TypeError)):
        ERRORS[number]()


def test_erfinv_is_within_two_units_in_the_last_place() -> None:
    import mpmath

    x = np.concatenate([np.linspace(-1, 1, 301)[1:-1], 1 - np.logspace(-16, -1, 60), np.logspace(-300, -1, 40)])
    worst = 0.0
    with mpmath.workdps(40):
        for argument, ours in zip(x, ops.erfinv(x), strict=True):
            truth = mpmath.erfinv(mpmath.mpf(float(argument)))
            if truth:
                worst = max(worst, abs(float(mpmath.mpf(float(ours)) - truth)) / np.spacing(abs(float(truth))))
    assert worst <= 2


def test_random_rows_draw_by_key() -> None:
    weights = np.array([0.0, 1.0, 3.0])
    drawn = ops.multinomial(weights, 4000, 1, True)
    assert (drawn == ops.multinomial(weights, 4000, 1, True)).all() and not (drawn == 0).any() and abs((drawn == 2).mean() - 0.75) < 0.05
    assert sorted(ops.multinomial(weights[1:], 2, 5).tolist()) == [0, 1], "without replacement each once"
    assert ops.multinomial(np.stack([weights, weights]), 2, 1).shape == (2, 2)
    assert sorted(ops.permutation(9, 2).tolist()) == list(range(9)) and abs(ops.bernoulli(np.full(4000, 0.25), 1).mean() - 0.25) < 0.05
    assert set(ops.randint(2, 5, (1000,), 1).tolist()) == {2, 3, 4}
    dropped = ops.dropout_channels(np.ones((50, 20, 3)), 0.5, key=1)
    assert set(np.unique(dropped)) == {0.0, 2.0} and (dropped.min(2) == dropped.max(2)).all(), "channels as a whole"
    twin, rng = np.random.default_rng(1), np.random.default_rng(1)
    assert (ops.randint(0, 9, (5,), rng) == twin.integers(0, 9, 5)).all() and (ops.permutation(5, rng) == twin.permutation(5)).all()
