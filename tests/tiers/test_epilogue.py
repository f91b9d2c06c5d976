"""Products and what follows them: the same bits as one op after the other, whatever is chosen, and the choice can be asked for."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import bcvm_core as bcvm
import bcvm_core.ops as ops
from bcvm_core import config
from bcvm_core.codegen import loops
from bcvm_core.codegen.products import jobs, product
from bcvm_core.codegen.stencils import kernel as kernels
from bcvm_core.codegen.stencils import target, threads
from bcvm_core.codegen.stencils.driver import driver
from bcvm_core.codegen.stencils.graph import FusedGraph, Input, Node
from bcvm_core.codegen.stencils.library import family
from bcvm_core.fusion import decisions, epilogue_decisions
from bcvm_core.jit import linker_of
from bcvm_core.tiers.clock import clock
from bcvm_core.tiers.epilogue import EpilogueSite
from bcvm_core.vm.region import Region
from bcvm_core.watch import Watch
from tests.codegen.test_products import data, same


@pytest.fixture(autouse=True)
def _ready(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stencils, and blocks for smaller products than those that gain by them."""
    monkeypatch.setattr(epilogue_decisions, "SMALL", 1 << 14)
    if target.host() is None:
        pytest.skip("no stencils for this processor")
    for found in (family(4), family(8), driver()):
        loops.wait()
        assert found.failed == ""
    decisions.clear()
    yield
    decisions.clear()


def bias_gelu(x: Any, w: Any, b: Any, r: Any) -> Any:
    return ops.gelu(ops.linear(x, w, b))


def named_bias(x: Any, w: Any, b: Any, r: Any) -> Any:
    return ops.relu(ops.linear(x, weight=w, bias=b))


def residual(x: Any, w: Any, b: Any, r: Any) -> Any:
    return ops.linear(x, w, b) + r


def swish(x: Any, w: Any, b: Any, r: Any) -> Any:
    y = ops.linear(x, w) + b
    return y * ops.sigmoid(y)


def silu_tanh(x: Any, w: Any, b: Any, r: Any) -> Any:
    return np.tanh(ops.silu(ops.linear(x, w) * 0.5 + 1) - r)


def by_numpy(x: Any, w: Any, b: Any, r: Any) -> Any:
    return np.maximum(x @ w.T + b, 0) + r


def layer_form(x: Any, w: Any, b: Any, r: Any) -> Any:
    return ops.relu(ops.bias_add(ops.matmul_transposed(x, w, transpose_x=False, transpose_y=True), b))


TAILS = (bias_gelu, named_bias, residual, swish, silu_tanh, by_numpy, layer_form)


def operands(rows: Any, dtype: str = "float32", depth: int = 260, columns: int = 530) -> tuple[Any, Any, Any, Any]:
    shape = (rows,) if isinstance(rows, int) else rows
    weight = data((columns, depth), dtype, 1) / np.array(np.sqrt(depth), dtype)
    return data((*shape, depth), dtype), weight, data(columns, dtype, 2), data((*shape, columns), dtype, 3)


def epilogues_of(function: Any) -> list[EpilogueSite]:
    linker = linker_of(function)
    assert linker is not None
    return [s for region in linker.table.live if isinstance(region, Region) for s in region.fused if isinstance(s, EpilogueSite)]


def one_by_one(function: Callable[..., Any], *args: Any) -> Any:
    with config.override(force_tier="interpreter"):
        return bcvm.jit(function)(*args)


def called(function: Callable[..., Any], *args: Any) -> tuple[Any, int]:
    """(the function after a few calls, how many of them ran a product with its tail)."""
    made = bcvm.jit(function)
    for _ in range(3):
        result = made(*args)
        time.sleep(0.001)
    return result, sum(site.calls for site in epilogues_of(made))


@pytest.mark.parametrize("function", TAILS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("reproducible", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_are_those_of_one_op_after_the_other(function: Any, reproducible: bool, dtype: str) -> None:
    args = operands(300, dtype)
    with config.override(reproducible=reproducible):
        made, count = called(function, *args)
        chained = reproducible or (function is not by_numpy and dtype == "float32")
        assert bool(count) == chained
        assert same(made, one_by_one(function, *args))
        with config.override(fusion_engine="tape"):
            assert same(bcvm.jit(function)(*args), made)


@pytest.mark.parametrize("function", [bias_gelu, residual, swish], ids=lambda f: f.__name__)
def test_leading_axes(function: Any) -> None:
    args = operands((5, 3, 40))
    made, count = called(function, *args)
    assert count
    assert same(made, one_by_one(function, *args))


@pytest.mark.parametrize("reproducible", [False, True])
@pytest.mark.parametrize("function", [bias_gelu, residual, silu_tanh], ids=lambda f: f.__name__)
def test_bits_do_not_depend_on_threads(function: Any, reproducible: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    args = operands(700)
    with config.override(reproducible=reproducible):
        expected = one_by_one(function, *args)
        for cores in (1, 2, 5):
            monkeypatch.setattr(threads, "cores", lambda cores=cores: cores)
            made, count = called(function, *args)
            assert count
            assert same(made, expected)


def test_small_products_run_apart() -> None:
    args = operands(20)
    made, count = called(bias_gelu, *args)
    assert count == 0
    assert same(made, one_by_one(bias_gelu, *args))
    lines = [line for record in decisions.latest() for line in record.lines()]
    assert any("small: up to" in line and "[REJECTED]" in line for line in lines)


@pytest.mark.parametrize(
    "change",
    [
        lambda x, w, b, r: (x[::-1], w[:, ::-1], b[::2].repeat(2), r[:, ::-1]),
        lambda x, w, b, r: (np.asfortranarray(x), np.asfortranarray(w), b, np.asfortranarray(r)),
        lambda x, w, b, r: (x, w, b[None, :], r[:1]),
        lambda x, w, b, r: (x, w, b, r[:, :1]),
    ],
)
def test_operands_in_other_orders(change: Any) -> None:
    args = change(*operands(300))
    for function in (residual, swish, by_numpy):
        made, _ = called(function, *args)
        assert same(np.ascontiguousarray(made), np.ascontiguousarray(one_by_one(function, *args)))


def test_operands_are_left_alone() -> None:
    args = operands(300)
    before = [v.copy() for v in args]
    for function in TAILS:
        called(function, *args)
    assert all(map(same, args, before))


def test_a_product_that_is_read_again_is_kept() -> None:
    def both(x: Any, w: Any, b: Any, r: Any) -> Any:
        y = ops.linear(x, w)
        z = np.maximum(y + b, 0)
        return y, z

    args = operands(300)
    made, count = called(both, *args)
    assert count == 0
    for found, expected in zip(made, one_by_one(both, *args), strict=True):
        assert same(found, expected)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 3e38, -0.0, 1e-45])
def test_special_values(special: float) -> None:
    x, w, b, r = operands(300)
    x[7, 5], w[20, 3], b[9], r[4, 4] = special, special, special, special
    for function in (bias_gelu, residual, swish):
        with warnings.catch_warnings(record=True) as first:
            warnings.simplefilter("always")
            made, _ = called(function, x, w, b, r)
        with warnings.catch_warnings(record=True) as second:
            warnings.simplefilter("always")
            expected = one_by_one(function, x, w, b, r)
        assert np.array_equal(made, expected, equal_nan=True)
        assert {str(w.message) for w in first} == {str(w.message) for w in second}


def test_wrong_shapes_are_the_ops_errors() -> None:
    x, w, b, r = operands(300)
    made = bcvm.jit(residual)
    made(x, w, b, r)
    with pytest.raises(ValueError):
        made(x, w[:, 1:], b, r)
    with pytest.raises(ValueError):
        made(x, w, b, r[:, 1:])
    assert "[REJECTED] shape mismatch: [300, 530] vs [530] vs [300, 529]" in bcvm.explain(made)
    wide = data((2, *r.shape))
    assert same(made(x, w, b, wide), one_by_one(residual, x, w, b, wide))
    assert "[REJECTED] the tail is of shape [2, 300, 530], the product [300, 530]" in bcvm.explain(made)


def test_deep_products_and_those_of_blas_run_apart() -> None:
    for function, args, reason in (
        (bias_gelu, operands(130, depth=1100), "deep: after sums of more than 1024 terms"),
        (by_numpy, operands(300), "the product is that of BLAS"),
    ):
        made = bcvm.jit(function)
        made(*args)
        assert [site.calls for site in epilogues_of(made)] == [0]
        text = bcvm.explain(made)
        assert f"[REJECTED] {reason}" in text


def test_measured_it_runs_as_it_does_otherwise_and_is_shown_as_one() -> None:
    made, args = bcvm.jit(bias_gelu), operands(300)
    expected = made(*args)
    watch = Watch(None, (made,))
    watch.open()
    try:
        for _ in range(3):
            assert same(made(*args), expected)
        (site,) = epilogues_of(made)
        timing = clock.timing(site)
        (unit,) = watch.units()
        shown = {unit.instructions[k].op: m for k, m in unit.measures().instructions.items()}
    finally:
        watch.close()
    assert site.calls == 4
    assert timing is not None and timing.calls == 3 and timing.total_ns > 0
    assert {op: measure.fused for op, measure in shown.items()} == dict.fromkeys(("linear", "gelu"), ("linear", "add", "gelu"))
    assert shown["linear"].timed == 3 and not shown["gelu"].timed


def test_decision_can_be_asked_for() -> None:
    made = bcvm.jit(bias_gelu)
    made(*operands(300))
    text = bcvm.explain(made)
    assert "policy_002: linear, then add, gelu on its blocks:" in text
    assert "one kernel, predicted" in text
    assert "linear | add, gelu: predicted" in text


@pytest.mark.parametrize("cores", [1, 3])
def test_each_element_is_handed_on_once_and_in_blocks(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tail that counts: y becomes y * y + 1, which shows how often it ran; blocks are a tile wide here."""
    monkeypatch.setattr(threads, "cores", lambda: cores)
    monkeypatch.setattr(jobs, "_HOT", 1)
    graph = FusedGraph(
        (Input("float32", "contiguous"), Input("float32", "row")), (Node("multiply", (0, 0), ()), Node("add", (2, 1), ())), (3,)
    )
    kernel = kernels.kernel_for(graph)
    assert type(kernel) is kernels.FusedKernel
    blocks = []

    def after(result: Any) -> Any:
        blocks.append(kernel.blocks([result, np.arange(1111, dtype=np.float32)], result))
        return blocks[0]

    made = product.multiply(np.ones((1100, 7), "f4"), np.ones((7, 1111), "f4"), after)
    assert same(made, np.broadcast_to(np.arange(1111, dtype=np.float32) + 49, (1100, 1111)).copy())
    assert not blocks[0].failed


def test_events_of_product_and_tail_are_told_apart() -> None:
    graph = FusedGraph((Input("float32", "contiguous"),), (Node("add", (0, 0), ()), Node("multiply", (1, 1), ())), (2,))
    kernel = kernels.kernel_for(graph)
    assert type(kernel) is kernels.FusedKernel
    blocks = []

    def after(result: Any) -> Any:
        blocks.append(kernel.blocks([result], result))
        return blocks[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        product.multiply(np.full((40, 1), 1e30, "f4"), np.ones((1, 70), "f4"), after)
    assert blocks[0].failed
    with pytest.warns(RuntimeWarning, match="overflow encountered in matmul"):
        product.multiply(np.full((40, 1), 1e30, "f4"), np.full((1, 70), 1e30, "f4"), after)
    assert not blocks[1].failed


def test_users_own_kernels_are_asked() -> None:
    from bcvm_core.tiers.pool import pool

    args = operands(300)
    made = bcvm.jit(residual)
    made(*args)
    pool.swap("linear.blas", lambda x, w, bias=None: np.full((*x.shape[:-1], len(w)), 5, x.dtype))
    try:
        assert same(made(*args), args[3] + np.float32(5))
    finally:
        pool.restore("linear.blas")


def test_segments_that_straddle_are_left_alone() -> None:
    def before_and_after(x: Any, w: Any, b: Any, r: Any) -> Any:
        y = np.maximum(r, 0) * 2
        return ops.linear(x, w) + y * b

    args = operands(300)
    made, _ = called(before_and_after, *args)
    assert same(made, one_by_one(before_and_after, *args))
