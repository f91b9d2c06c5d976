"""Attention by machine code: right to rounding for every shape, mask and layout; the same bits however a call is cut or run."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcvm_core import config, ops
from bcvm_core.codegen import compiler, loader
from bcvm_core.codegen.attention import entry, kernel
from bcvm_core.codegen.stencils import target, threads
from bcvm_core.codegen.stencils.crew import crew
from bcvm_core.ops import heads
from tests.in_threads import share
from tests.reference.networks import attention as attention64

DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}

pytestmark = pytest.mark.skipif(target.host() is None, reason="there is no kernel for this processor")


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def by_kernel(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float | None = None, halves: bool = False) -> Any:
    """The kernel itself; fails where it steps aside."""
    arrays = (q, k, v) if mask is None else (q, k, v, mask)
    wide = 8 if q.dtype == np.float64 else 4
    plan = entry.plan(tuple((x.shape, x.strides) for x in arrays), wide, q.itemsize != wide, causal)
    assert plan is not None
    kind = np.float64 if wide == 8 else np.float32
    found = entry.attend(plan, q, k, v, mask, causal, float(kind(1 / np.sqrt(q.shape[-1]) if scale is None else scale)), halves)
    assert found is not None
    return found


def in_float64(q: Any, k: Any, v: Any, mask: Any, causal: bool) -> tuple[Any, Any]:
    """(the result, how far rounding may take a float32 or float64 result from it, in units of its precision)."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    count = q.shape[-3]
    k, v = (np.repeat(x, count // x.shape[-3], -3) for x in (k, v))
    mask = mask if mask is None or mask.dtype == bool else mask.astype(np.float64)
    with np.errstate(all="ignore"):
        exact = attention64(q, k, v, mask, causal)
    largest = (np.abs(q) @ np.swapaxes(np.abs(k), -1, -2)).max() / np.sqrt(q.shape[-1])
    return exact, (8 + 2 * largest + 0.1 * k.shape[-2]) * np.abs(v).max()


LAYOUTS = {
    "dense": lambda x: x,
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1],
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "columns": lambda x: np.ascontiguousarray(np.swapaxes(x, -1, -2)).swapaxes(-1, -2),
    "heads inside": lambda x: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3),
}


@st.composite
def calls(draw: Any) -> Any:
    """(queries, keys, values, mask, causal) of any shapes, types and layouts."""
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    batch, groups, share = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    lengths = st.one_of(st.integers(1, 20), st.sampled_from([63, 64, 65, 127, 128, 129, 150, 257]))
    n, m = draw(lengths), draw(lengths)
    d, e = (draw(st.one_of(st.integers(1, 40), st.sampled_from([64, 100, 257]))) for _ in range(2))
    seed = draw(st.integers(0, 1000))
    shapes = (batch, groups * share, n, d), (batch, groups, m, d), (batch, groups, m, e)
    operands = [LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](numbers(*s, dtype=dtype, seed=seed + k)) for k, s in enumerate(shapes)]
    mask = None
    how = draw(st.sampled_from(["none", "bool", "added"]))
    if how != "none":
        shape = [draw(st.sampled_from([1, full])) for full in (batch, groups * share, n, m)][draw(st.integers(0, 2)) :]
        mask = np.random.default_rng(seed).standard_normal(shape)
        mask = mask > -1 if how == "bool" else mask.astype(np.float64 if dtype == "float64" else np.float32)
        mask = mask[..., ::-1, ::-1] if draw(st.booleans()) else mask
    return (*operands, mask, draw(st.booleans()), dtype)


@settings(max_examples=150, deadline=None)
@given(calls())
def test_any_call_is_right_to_rounding(call: Any) -> None:
    q, k, v, mask, causal, dtype = call
    found = by_kernel(q, k, v, mask, causal)
    exact, bound = in_float64(q, k, v, mask, causal)
    assert found.dtype == q.dtype and found.shape == exact.shape
    wide = found.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(wide), np.isnan(exact))
    seen = ~np.isnan(exact)
    limit = bound * EPS["float64" if dtype == "float64" else "float32"] + EPS[dtype] * np.abs(exact[seen])
    assert (np.abs(wide[seen] - exact[seen]) <= limit).all()


@settings(max_examples=60, deadline=None)
@given(calls())
def test_bits_do_not_depend_on_layout_halves_or_cuts(call: Any) -> None:
    q, k, v, mask, causal, _ = call
    whole = by_kernel(q, k, v, mask, causal)
    assert by_kernel(q, k, v, mask, causal, halves=True).tobytes() == whole.tobytes()
    dense = [np.ascontiguousarray(x) for x in (q, k, v)]
    assert by_kernel(*dense, None if mask is None else np.ascontiguousarray(mask), causal).tobytes() == whole.tobytes()
    share = q.shape[1] // k.shape[1]
    assert by_kernel(q, np.repeat(k, share, 1), np.repeat(v, share, 1), mask, causal).tobytes() == whole.tobytes()
    full = None if mask is None else np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))
    for b in range(len(q)):
        part = None if full is None else full[b : b + 1]
        assert by_kernel(q[b : b + 1], k[b : b + 1], v[b : b + 1], part, causal).tobytes() == whole[b : b + 1].tobytes()
    if not causal:
        for at in {0, q.shape[2] - 1}:
            part = None if full is None else full[:, :, at : at + 1]
            assert by_kernel(q[:, :, at : at + 1], k, v, part).tobytes() == whole[:, :, at : at + 1].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
def test_bits_do_not_depend_on_threads(dtype: str, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (numbers(2, 6, 200, 64, dtype=dtype, seed=s) for s in range(3))
    share(monkeypatch)
    found = set()
    for cores in (1, 2, 3, 5):
        monkeypatch.setattr(threads, "cores", lambda cores=cores: cores)
        found.add(by_kernel(q, k, v, causal=causal).tobytes())
        found.add(by_kernel(q, k, v, causal=causal, halves=True).tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_narrower_registers_give_the_same_bits(dtype: str) -> None:
    found = []
    for level in ("x86-64-v3", "x86-64-v4"):
        if level > target.host().level:  # type: ignore[union-attr]
            pytest.skip("the processor has no wider registers")
        text = kernel.Attention(target.by_level(level), dtype).text()  # type: ignore[arg-type]
        function = entry._CALL(loader.load(compiler.compile_ir(text, True))[f"attention_{dtype}"])
        q, k, v = numbers(3, 70, 33, dtype=dtype), numbers(3, 150, 33, dtype=dtype, seed=1), numbers(3, 150, 40, dtype=dtype, seed=2)
        mask = numbers(70, 150, seed=3) > -1
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(entry._functions, q.dtype, function)
            found.append((by_kernel(q, k, v).tobytes(), by_kernel(q, k, v, mask, True).tobytes()))
    assert found[0] == found[1]


SPECIAL = [np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0, 1e-45]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("where", ["q", "k", "v", "mask"])
@pytest.mark.parametrize("value", SPECIAL)
def test_special_values_go_where_the_formula_takes_them(value: float, where: str, causal: bool) -> None:
    given = {"q": numbers(2, 3, 70, 16), "k": numbers(2, 3, 140, 16, seed=1), "v": numbers(2, 3, 140, 24, seed=2), "mask": None}
    if where == "mask":
        given["mask"] = numbers(70, 140, seed=3)
    for at in ((3, 5), (69, 130 if where == "mask" else 7)):
        given[where][(..., *at)] = value
    if where == "v":
        given["v"][0, 1, 139, 20] = value  # no query sees it when causal: 0 times it counts all the same
    found = by_kernel(given["q"], given["k"], given["v"], given["mask"], causal).astype(np.float64)
    exact, bound = in_float64(given["q"], given["k"], given["v"], given["mask"], causal)
    if abs(value) == 3e38 and where in "qk":
        return  # scores overflow in float32, not in float64: the next test has them
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(exact))
    seen = np.isfinite(exact)
    assert (np.abs(found[seen] - exact[seen]) <= (bound if np.isfinite(bound) else 1e3) * EPS["float32"]).all()


def test_scores_that_overflow() -> None:
    q, k, v = np.full((1, 2), 3e38, np.float32), np.array([[1, 1], [3, 3], [-3, -3]], np.float32), np.eye(3, dtype=np.float32)
    assert np.isnan(by_kernel(q, k, v, scale=1.0)).all()  # inf - inf
    np.testing.assert_array_equal(by_kernel(q, -np.abs(k[1:]) * np.float32([[0.1], [1]]), v[:2, :2], scale=1.0), [[1, 0]])


def test_rows_that_see_nothing_are_nan_and_others_are_not() -> None:
    q, k, v = (numbers(2, 40, 16, seed=s) for s in range(3))
    mask = np.ones((40, 40), bool)
    mask[7] = False
    for found in (by_kernel(q, k, v, mask), by_kernel(q, k, v, np.where(mask, 0, -np.inf).astype(np.float32))):
        assert np.isnan(found[:, 7]).all() and not np.isnan(np.delete(found, 7, 1)).any()


def test_distant_scores_have_no_weight() -> None:
    q, k = np.ones((1, 1), np.float32), np.array([[0.0], [-86.0], [-88.0], [-104.0], [-1000.0]], np.float32)
    weights = by_kernel(q, k, np.eye(5, dtype=np.float32), scale=1.0)[0]
    assert weights[0] == 1 and weights[1] == np.exp(-86.0).astype(np.float32)
    assert not weights[2:].any()


def test_scores_are_never_whole_in_memory() -> None:
    q, k, v = (numbers(4, 1500, 32, seed=s) for s in range(3))
    by_kernel(q[:, :10], k[:, :10], v[:, :10])
    entry._scratch.__init__()  # type: ignore[misc]
    tracemalloc.start()
    found = by_kernel(q, k, v)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    of_a_thread = 500_000
    assert peak < found.nbytes + of_a_thread * crew.members and of_a_thread < 4 * 1500 * 1500 * 4 / 50
    by_kernel(q[:, :1], np.repeat(k, 8, 1), np.repeat(v, 8, 1))
    assert entry._scratch.size < 64 * 12_000 * 4 * crew.members


def test_the_op_reaches_the_kernel_however_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (numbers(2, 4, 9, 8, seed=s) for s in range(3))
    whole = by_kernel(q, k, v)
    monkeypatch.setattr(heads, "_whole", None)  # whatever calls it fails
    assert ops.attention(q, k, v).tobytes() == whole.tobytes()
    assert ops.attention(q, k, v, scale=1 / np.sqrt(8)).tobytes() == whole.tobytes()
    assert ops.attention(q, k, v, scale=np.float32(1 / np.sqrt(8))).tobytes() == whole.tobytes()
    assert ops.attention(q, k, v, np.ones(9, bool)).tobytes() == whole.tobytes()
    assert ops.attention(q, k, v, np.zeros((9, 9), np.float16)).tobytes() == whole.tobytes()
    assert ops.attention(q[0, 0], k[0, 0], v[0, 0]).tobytes() == whole[0, 0].tobytes()
    mixed = ops.attention(q, k.astype(np.float16), v)
    assert mixed.tobytes() == by_kernel(q, k.astype(np.float16).astype(np.float32), v).tobytes()
    whole_numbers = ops.attention(np.arange(6).reshape(2, 3), np.ones((4, 3), np.int8), v[0, 0, :4].astype(np.float64))
    assert whole_numbers.dtype == np.float64


def test_what_the_kernel_leaves_to_the_definition() -> None:
    q, k, v = (numbers(2, 4, 9, 8, seed=s) for s in range(3))
    assert ops.attention(q[:, :, :0], k, v).shape == (2, 4, 0, 8)
    assert np.isnan(ops.attention(q, k[:, :, :0], v[:, :, :0])).all()
    np.testing.assert_allclose(ops.attention(q[..., :0], k[..., :0], v)[0, 0, 0], np.full(8, np.nan))
    larger = ops.attention(q[:, :, :1], k, v, np.ones((5, 9), bool))  # the mask makes rows of the scores
    assert larger.shape == (2, 4, 5, 8)


def test_addresses_where_array_objects_are_laid_out_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v, mask = *(numbers(2, 4, 30, 16, seed=s) for s in range(3)), numbers(30, 30, seed=4) > -1
    wanted = by_kernel(q, k, v, mask), by_kernel(q, k, v)
    monkeypatch.setattr(entry, "data_offset_holds", lambda: False)
    assert by_kernel(q, k, v, mask).tobytes() == wanted[0].tobytes()
    assert by_kernel(q, k, v).tobytes() == wanted[1].tobytes()


def test_events_stay_in_the_kernel() -> None:
    q, k, v = (numbers(1, 4, 8, seed=s) for s in range(3))
    q[0, 0, 0] = np.inf
    with np.errstate(all="raise"):
        assert np.isnan(ops.attention(q, k, v)[0, 0]).all()
        np.add(1.0, 1.0)


def test_without_generated_code_the_formula_is_computed_whole() -> None:
    q, k, v = (numbers(2, 4, 30, 16, seed=s) for s in range(3))
    with config.override(use_llvm=False):
        slow = ops.attention(q, k, v, causal=True)
    np.testing.assert_allclose(slow, ops.attention(q, k, v, causal=True), rtol=1e-5, atol=1e-6)
