"""Products by chains of multiply-adds: bits that depend on a row and a column alone, whoever computes them and what beside."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
import bcvm_core.ops as ops
from bcvm_core import config
from bcvm_core.codegen import loader
from bcvm_core.codegen.products import jobs, matrices, product
from bcvm_core.codegen.stencils import threads
from bcvm_core.codegen.stencils.target import host
from bcvm_core.ops import chains, products
from tests.in_threads import share

from ..in_threads import in_threads

pytestmark = pytest.mark.skipif(host() is None or bool(loader.obstacle()), reason="no code for products here")
TYPES = ("float32", "float64")
SHAPES = (
    (1, 5, 3),
    (7, 3, 5),
    (15, 17, 33),
    (29, 300, 65),
    (3, 513, 100),
    (16, 16, 16),
    (1, 1, 1),
    (2, 1, 40),
    (40, 600, 1),
    (130, 20, 31),
)


def data(shape: Any, dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def same(x: Any, y: Any) -> bool:
    """Equal bits."""
    return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()


def by_code(a: Any, b: Any) -> Any:
    made = product.multiply(a, b)
    assert made is not None
    return made


# -- the kernel and its definition ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_code_and_numpy_formulation_agree_in_every_layout(dtype: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = data((m, k), dtype), data((k, n), dtype, 1)
    expected = chains.multiply(a, b)
    np.testing.assert_allclose(expected, a.astype("f8") @ b.astype("f8"), rtol=1e-4, atol=1e-4 if dtype == "float32" else 1e-12)
    wide = data((2 * m, 3 * k), dtype, 2)
    wide[::2, ::3] = a
    back, down = np.ascontiguousarray(a[::-1]), np.ascontiguousarray(b[:, ::-1])
    for left in (a, np.asfortranarray(a), wide[::2, ::3], back[::-1]):
        for right in (b, np.asfortranarray(b), down[:, ::-1], np.repeat(b, 2, 0)[::2]):
            assert same(by_code(left, right), expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_stacks_are_broadcast(dtype: str) -> None:
    a, b = data((3, 1, 5, 7), dtype), data((4, 7, 6), dtype, 1)
    made = by_code(a, b)
    assert made.shape == (3, 4, 5, 6)
    for i, j in np.ndindex(3, 4):
        assert same(made[i, j], by_code(a[i, 0], b[j]))
    assert same(by_code(np.broadcast_to(a[0, 0], (3, 5, 7)), b[:3]), made[0, :3])


@pytest.mark.parametrize("dtype", TYPES)
def test_special_values(dtype: str) -> None:
    tiny, huge = (1e-45, 1e38) if dtype == "float32" else (5e-324, 1e308)
    values = np.array([huge, -huge, tiny, -tiny, 1e-17, -1e20, -0.0, 0.0, 1.0, np.inf, -np.inf, np.nan], dtype)
    with np.errstate(all="ignore"):
        for x, y in itertools.product(values, repeat=2):
            a, b = np.array([[x, values[4], x]], dtype), np.array([[y], [values[8]], [-y]], dtype)
            made, expected = by_code(a, b), chains.multiply(a, b)
            assert np.array_equal(made, expected, equal_nan=True), (x, y)
            assert np.isnan(made).all() or np.signbit(made).tolist() == np.signbit(expected).tolist(), (x, y)


def test_multiply_add_rounds_once() -> None:
    """Cases in which rounding the product, or rounding twice, gives another result; expected by exact arithmetic."""
    from fractions import Fraction

    rng = np.random.default_rng(3)
    for dtype, bits in (("float32", 24), ("float64", 53)):
        a = rng.integers(1 << bits - 1, 1 << bits, 400).astype(dtype)
        b = rng.integers(1 << bits - 1, 1 << bits, 400).astype(dtype)
        first, second = np.stack([a, -a], 1)[:, None, :], np.stack([b, np.nextafter(b, np.inf, dtype=dtype)], 1)[:, :, None]
        made = by_code(first, second)[:, 0, 0]
        for x, y, z, found in zip(a, b, second[:, 1, 0], made, strict=True):
            head = np.array(float(Fraction(float(x)) * Fraction(float(y))), dtype)  # the first product rounded
            exact = Fraction(float(head)) - Fraction(float(x)) * Fraction(float(z))
            assert found == np.array(float(exact), dtype), (x, y)


# -- what bits depend on --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_do_not_depend_on_other_rows(dtype: str) -> None:
    a, b = data((150, 530), dtype), data((530, 70), dtype, 1)
    for right in (b, np.asfortranarray(b)):
        whole = by_code(a, right)
        order = np.random.default_rng(5).permutation(len(a))
        assert same(by_code(a[order], right), whole[order])
        for first, last in ((0, 1), (1, 3), (3, 17), (17, 46), (46, 150)):
            assert same(by_code(a[first:last], right), whole[first:last])
        assert same(by_code(a, right[:, 5:38]), np.ascontiguousarray(whole[:, 5:38]))


@pytest.mark.parametrize("shape", [(300, 64, 40), (7, 90, 900), (9, 5, 64, 50)])
def test_bits_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    a, b = data(shape[:-1]), data((*shape[:-3], shape[-2], shape[-1]), seed=1)
    alone = by_code(a, b)
    monkeypatch.setattr(jobs, "SEVERAL", 0.0)
    share(monkeypatch)
    for count in (2, 3, 8):
        monkeypatch.setattr(threads, "cores", lambda count=count: count)
        assert same(by_code(a, b), alone)


def test_pieces_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = data((300, 20)), data((20, 7), seed=1)
    whole = by_code(a, b)
    monkeypatch.setattr(matrices, "_plans", {})
    monkeypatch.setattr(jobs, "ROWS_MAX", 33)
    monkeypatch.setattr(jobs, "_AHEAD_ROWS", 9)
    assert same(by_code(a, b), whole)


def test_calls_from_several_threads() -> None:
    a, b = data((200, 300)), data((300, 150), seed=1)
    expected = by_code(a, b)

    def work(number: int) -> None:
        for _ in range(5):
            assert same(by_code(a[number:], b), expected[number:])

    in_threads(4, work)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("depth", [50, 768, 5000])
def test_error_is_no_larger_than_that_of_blas(dtype: str, depth: int) -> None:
    """Of BLAS at sizes for which it has no kernels of its own for small matrices (those have two chains per sum)."""
    kind = np.longdouble if dtype == "float64" else np.float64
    a, b = data((200, depth), dtype), data((depth, 200), dtype, 1)
    exact = a.astype(kind) @ b.astype(kind)
    ours, blas = (float(np.sqrt(np.mean((x.astype(kind) - exact) ** 2))) for x in (by_code(a, b), a @ b))
    assert ours <= 1.05 * blas


# -- floating-point events ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("multiply", [by_code, chains.multiply], ids=["code", "numpy"])
def test_events_are_reported_as_numpy_does(dtype: str, multiply: Any) -> None:
    huge = np.finfo(dtype).max
    a, one = np.ones((3, 5), dtype), np.ones((5, 3), dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        multiply(a, one)
        multiply(np.full_like(a, np.nan), one)
        multiply(np.full_like(a, np.inf), one)
    with pytest.warns(RuntimeWarning, match="overflow encountered in matmul"):
        multiply(np.full_like(a, huge), one)
    with pytest.warns(RuntimeWarning, match="invalid value encountered in matmul"):
        multiply(np.array([[np.inf, 1, 1, 1, -np.inf]], dtype), one)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        multiply(np.full_like(a, huge), one)


# -- the setting ----------------------------------------------------------------------------------


def cut_rows(f: Any, x: Any, *rest: Any) -> None:
    """f of parts of x gives parts of f(x)."""
    whole = f(x, *rest)
    assert same(np.concatenate([f(x[:1], *rest), f(x[1:4], *rest), f(x[4:], *rest)]), whole)


@pytest.mark.parametrize("dtype", TYPES)
def test_all_products_are_chained_under_the_setting(dtype: str) -> None:
    x, w, y = data((21, 320), dtype), data((50, 320), dtype, 1), data((21, 320, 6), dtype, 2)
    with config.override(reproducible=True):
        expected = by_code(x, w.T)
        for made in (
            ops.linear(x, w),
            bcvm.jit(lambda a, b: np.matmul(a, b))(x, w.T),
            bcvm.jit(lambda a, b: a @ b)(x, w.T),
            bcvm.jit(lambda a, b: np.dot(a, b))(x, w.T),
            bcvm.jit(lambda a, b: np.inner(a, b))(x, w),
            bcvm.jit(lambda a, b: np.tensordot(a, b, ((1,), (1,))))(x, w),
            bcvm.jit(lambda a, b: np.einsum("ij,kj->ik", a, b))(x, w),
            bcvm.jit(lambda a, b: a.dot(b))(x, w.T),
        ):
            assert same(made, expected)
        assert same(ops.bmm(x[:, None], y), by_code(x[:, None], y))
        cut_rows(ops.linear, x, w, w[:, 0])
        cut_rows(lambda a: np.asarray(bcvm.jit(lambda p, q: p @ q)(a, w[0])), x)
        cut_rows(lambda a: ops.bmm(a[None], y[:1])[0], x)


@pytest.mark.parametrize(
    "shapes", [((5,), (5,)), ((5,), (5, 3)), ((4, 5), (5,)), ((2, 4, 5), (5,)), ((5,), (2, 5, 3)), ((2, 1, 4, 5), (3, 5, 2))]
)
def test_matmul_has_numpys_shapes(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = data(shapes[0], "float64"), data(shapes[1], "float64", 1)
    expected = np.matmul(a, b)
    with config.override(reproducible=True):
        made = products.matmul(a, b)
    assert type(made) is type(expected)
    np.testing.assert_allclose(made, expected)


@pytest.mark.parametrize("shapes", [((0, 5), (5, 3)), ((4, 5), (5, 0)), ((4, 0), (0, 3)), ((0, 4, 5), (5, 2)), ((0,), (0,))])
def test_operands_without_elements(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = np.ones(shapes[0], np.float32), np.ones(shapes[1], np.float32)
    with config.override(reproducible=True):
        assert same(np.asarray(products.matmul(a, b)), np.asarray(np.matmul(a, b)))


@pytest.mark.parametrize("shapes", [((3, 4), (5, 6)), ((), (3, 3)), ((2, 3, 4), (3, 4, 5)), ((3,), (4,))])
def test_wrong_shapes_are_numpys_errors(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = np.ones(shapes[0]), np.ones(shapes[1])
    with config.override(reproducible=True), pytest.raises(ValueError):
        products.matmul(a, b)


def test_mixed_types_promote_as_in_numpy() -> None:
    a, b = data((3, 4)), data((4, 2), "float64", 1)
    with config.override(reproducible=True):
        assert same(products.matmul(a, b), by_code(a.astype("f8"), b))
        whole = np.arange(12).reshape(3, 4)
        assert same(products.matmul(whole, b), by_code(whole.astype("f8"), b))
        assert same(products.matmul(whole, whole.T), np.matmul(whole, whole.T))
        assert same(products.matmul(b.T + 0j, b), np.matmul(b.T + 0j, b))


FORMULAS = (
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ij,kj->ki", (3, 4), (5, 4)),
    ("bhqd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 3, 5)),
    ("i,i->", (7,), (7,)),
    ("ij,jk", (3, 4), (4, 5)),
    ("abc,bcd->da", (2, 3, 4), (3, 4, 5)),
)


@pytest.mark.parametrize(("formula", "left", "right"), FORMULAS)
def test_einsum_of_two_is_a_product(formula: str, left: tuple[int, ...], right: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = data(left, "float64"), data(right, "float64", 1)
    asked = []
    monkeypatch.setattr(products, "by_kernel", lambda x, y: asked.append(x.shape) or product.multiply(x, y))
    with config.override(reproducible=True):
        made = products.einsum(formula, a, b)
        assert len(asked) == 1
        for odd in ("ii,ij->j", "ij,ij->ij", "ij,jk,kl->il"):
            many = [np.eye(4)] * (odd.count(",") + 1)
            np.testing.assert_allclose(products.einsum(odd, *many, optimize=True), np.einsum(odd, *many))
        assert len(asked) == 1
    np.testing.assert_allclose(made, np.einsum(formula, a, b))


def test_tiers_agree_under_the_setting() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        return np.maximum(x @ w + b, 0) * 0.5

    x, w, b = data((33, 300)), data((300, 40), seed=1), data(40, seed=2)
    with config.override(reproducible=True):
        expected = f(by_code(x, w), np.eye(40, dtype="f4"), b)
        assert same(expected, f(by_code(x, w), np.eye(40, dtype="f4"), b))
        for change in ({}, {"force_tier": "interpreter"}, {"fuse": False}, {"fusion_engine": "tape"}, {"use_llvm": False}):
            with config.override(**change):
                made = bcvm.jit(lambda x, w, b: np.maximum(x @ w + b, 0) * 0.5)
                for _ in range(3):
                    assert same(made(x, w, b), np.maximum(by_or_chains(x, w) + b, 0) * np.float32(0.5))


def by_or_chains(a: Any, b: Any) -> Any:
    found = product.multiply(a, b)
    return chains.multiply(a, b) if found is None else found


def test_without_the_setting_products_are_numpys() -> None:
    x, w = data((33, 300)), data((300, 40), seed=1)
    assert same(products.matmul(x, w), np.matmul(x, w))
    assert same(bcvm.jit(lambda a, b: a @ b)(x, w), x @ w)


def test_which_weights_are_chained_follows_from_types_and_rows() -> None:
    x, w = data((33, 300)), data((500, 300), seed=1)
    assert same(ops.linear(x, w), by_code(x, w.T))
    assert same(ops.linear(x.reshape(3, 11, 300), w), by_code(x, w.T).reshape(3, 11, 500))
    assert same(ops.linear(x, w[:40]), np.matmul(x, w[:40].T))
    assert same(ops.linear(x[:1], w), np.matmul(x[:1], w.T))
    assert same(ops.linear(x.astype("f8"), w.astype("f8")), np.matmul(x.astype("f8"), w.astype("f8").T))
    with config.override(use_llvm=False):
        assert same(ops.linear(x, w), np.matmul(x, w.T))


def test_without_code_the_setting_holds_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = data((5, 300)), data((500, 300), seed=1)
    expected = by_code(x, w.T)
    monkeypatch.setattr(matrices, "_plans", {})
    monkeypatch.setattr(jobs, "code", lambda _dtype: None)
    with config.override(reproducible=True):
        assert same(ops.linear(x, w), expected)
    assert same(ops.linear(x, w), np.matmul(x, w.T))


def test_in_place_and_out() -> None:
    a, b = data((4, 4)), data((4, 4), seed=1)

    def f(x: Any, y: Any) -> Any:
        x @= y
        return x

    with config.override(reproducible=True):
        expected = by_code(a, b)
        target = np.empty_like(a)
        assert bcvm.jit(lambda p, q, r: np.matmul(p, q, out=r))(a, b, target) is target
        assert same(target, expected)
        assert same(bcvm.jit(f)(a.copy(), b), expected)


_OTHER_LEVEL = """
import sys
from bcvm_core.codegen import store
store.cpu_level = lambda: sys.argv[1]
import numpy as np
from bcvm_core.codegen.products import jobs, matrices, product
a, b = (np.random.default_rng(k).standard_normal(s).astype(sys.argv[2]) for k, s in ((0, (45, 300)), (1, (77, 300))))
made = product.multiply(a, b.T)
assert jobs.code(sys.argv[2]).form.lanes == int(sys.argv[3])
sys.stdout.write(made.tobytes().hex())
"""


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 8), ("float64", 4)])
def test_bits_do_not_depend_on_the_width_of_vectors(dtype: str, lanes: int, tmp_path: Path) -> None:
    environment = {**os.environ, "BCVM_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _OTHER_LEVEL, "x86-64-v3", dtype, str(lanes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == by_code(data((45, 300), dtype), data((77, 300), dtype, 1).T).tobytes().hex()


def test_constants_that_stand_in_two_places_agree() -> None:
    """The language of generated functions takes a name once, so what its modules share is written again."""
    from bcvm_core.codegen.products import job_code
    from bcvm_core.codegen.stencils import offsets
    from bcvm_core.ops import chains

    assert job_code.DEPTH == chains.DEPTH
    assert (job_code.JOB_WORD, job_code.JOB_STATUS) == (offsets.J_WORD, offsets.J_STATUS)
    assert job_code.ALL_FLAGS == offsets.ALL_EVENTS


@pytest.mark.parametrize("shape", [(2, 400, 400), (17, 300, 500), (3, 5, 512, 300), (1, 512, 300), (300, 520, 260)])
@pytest.mark.parametrize("reproducible", [False, True])
def test_linear_adds_its_bias_in_the_same_pass(shape: tuple[int, ...], reproducible: bool) -> None:
    *lead, depth, columns = shape
    x, w, bias = data((*lead, depth)), data((columns, depth), seed=1), data((columns,), seed=2)
    with config.override(reproducible=reproducible):
        for array in (bias, np.repeat(bias, 2)[::2], bias.astype(np.float64), bias[None]):
            expected = ops.linear(x, w) + array
            found = ops.linear(x, w, bias=array)
            assert found.dtype == expected.dtype
            assert same(found, expected)
        assert same(ops.linear(x.astype(np.float64), w, bias=bias), ops.linear(x.astype(np.float64), w) + bias)
        with pytest.warns(RuntimeWarning, match="overflow encountered in (add|linear)"):
            big = ops.linear(np.ones_like(x), np.full_like(w, 1e35), bias=np.full_like(bias, 3.4e38))
        assert np.isinf(big).all()
