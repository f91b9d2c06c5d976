"""E1, E2 for stencils: every op over every type has the bits, and reports the events, of its definition."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest

from bcvm_core.codegen.stencils import offsets as c
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node, NotFusable
from bcvm_core.codegen.stencils.kernel import FusedKernel, kernel_for
from bcvm_core.dtypes import BY_NAME
from bcvm_core.ops import registry
from bcvm_core.ops.algorithms import ALGORITHMS
from bcvm_core.testing import assert_same_bits
from tests.codegen.stencils.data import FLOATS, REAL, elementwise_rows, numbers, one_by_one, ordinary, same
from tests.ops.elementwise_arguments import special, wide

COUNT = int(os.environ.get("BCVM_TEST_STENCIL_ELEMENTS", "600"))
PAIRS = int(os.environ.get("BCVM_TEST_STENCIL_PAIRS", "12"))  # of two types, per op; 156 are all
CONSTANTS = (2, 0, -1, 0.5, True, 1e30, float("nan"))
ATTRIBUTES: dict[str, tuple[dict[str, Any], ...]] = {
    "clip": ({"a_min": -1.0, "a_max": 2.0}, {"a_min": 0, "a_max": 6}),
    "clip_method": ({"min": 1, "max": 3},),
    "leaky_relu": ({}, {"negative_slope": 0.2}),
    "elu": ({}, {"alpha": 0.5}),
    "gelu": ({}, {"approximate": "tanh"}),
    "softplus": ({}, {"beta": 2.0, "threshold": 10.0}),
    "hardtanh": ({}, {"min_val": -2.0}),
    "celu": ({}, {"alpha": 1.5}),
    "threshold": ({"threshold": 0.1, "value": 20.0},),
    "softshrink": ({}, {"lambd": 0.25}),
    "logit": ({}, {"eps": 0.01}),
    "cast": ({"dtype": np.float16},),
    "astype": ({"dtype": np.float32}, {"dtype": np.int64}, {"dtype": np.bool_}),
    "add_scaled": ({"alpha": 2},),
    "addcmul": ({}, {"value": 0.5}),
}


def one_op(op: str, dtypes: tuple[str, ...], attrs: dict[str, Any] | None = None, constant: Any = None, first: bool = False) -> FusedGraph:
    """A graph of one op; `constant` is one more operand, behind the others or before them."""
    operands: tuple[Any, ...] = tuple(range(len(dtypes)))
    if constant is not None:
        operands = (Const(constant), *operands) if first else (*operands, Const(constant))
    return FusedGraph(tuple(map(Input, dtypes)), (Node(op, operands, tuple(sorted((attrs or {}).items()))),), (len(dtypes),))


def compiled(graph: FusedGraph) -> FusedKernel | None:
    try:
        return kernel_for(graph)
    except NotFusable:
        return None


def check(graph: FusedGraph, arrays: list[Any]) -> bool:
    """Compare a graph with its ops run one by one; False when it is not fusable. Elements that differ must be reported."""
    kernel = compiled(graph)
    if kernel is None:
        return False
    expected, kinds = one_by_one(graph, arrays)
    done = kernel.outcome(arrays)
    assert done is not None
    made, word, status = done
    for actual, wanted in zip(made, expected, strict=True):
        for at in np.flatnonzero(~same(actual, wanted)):
            alone = kernel.outcome([x[at : at + 1] for x in arrays])
            assert alone is not None and (alone[1] or alone[2] & c.HARD), (
                f"{graph}: {[x[at] for x in arrays]}: {actual[at]}, not {wanted[at]}"
            )
    if kinds - {"underflow"}:
        assert word or status & c.HARD, f"{graph}: {kinds} went by"
    if "underflow" in kinds:
        assert word or status & c.EVENTS, f"{graph}: an underflow went by"
    return True


ROWS = {row.name: row for row in elementwise_rows()}
ARITY = {name: len(row.operands) for name, row in ROWS.items()}


@pytest.mark.parametrize("op", sorted(name for name, arity in ARITY.items() if arity == 1))
def test_one_operand(op: str) -> None:
    fused = sum(check(one_op(op, (dtype,), attrs), [numbers(dtype, COUNT, 3)]) for dtype in REAL for attrs in ATTRIBUTES.get(op, ({},)))
    assert fused > 0 or op in LIBM, f"{op} is never fused"


LIBM = {  # what NumPy computes with functions that are not ours
    *("cbrt", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "arcsinh", "arccosh", "arctanh"),
    *(
        "fmod",
        "pow",
        "power",
        "arctan2",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "float_power",
        "gcd",
        "lcm",
        "heaviside",
        "nan_to_num",
        "polar",
    ),
}


@pytest.mark.parametrize("op", sorted(name for name, arity in ARITY.items() if arity == 2))
def test_two_operands(op: str) -> None:
    pairs = list(itertools.permutations(REAL, 2))
    rng = np.random.default_rng(len(op))
    chosen = [(dtype, dtype) for dtype in REAL] + [pairs[k] for k in rng.permutation(len(pairs))[:PAIRS]]
    fused = sum(check(one_op(op, pair), [numbers(pair[0], COUNT, 4), numbers(pair[1], COUNT, 5)]) for pair in chosen)
    assert fused > 0 or op in LIBM, f"{op} is never fused"


@pytest.mark.parametrize("op", sorted(name for name, arity in ARITY.items() if arity == 2 and name not in LIBM - {"pow"}))
def test_a_number_and_a_tensor(op: str) -> None:
    for dtype in REAL:
        x = numbers(dtype, COUNT // 2, 6)
        for constant in CONSTANTS:
            for first in (False, True):
                check(one_op(op, (dtype,), None, constant, first), [x])


@pytest.mark.parametrize("op", sorted(name for name, arity in ARITY.items() if arity == 3))
def test_three_operands(op: str) -> None:
    fused = 0
    for dtype in REAL:
        dtypes = ("bool" if op == "where" else dtype, "bool" if op == "masked_fill" else dtype, dtype)
        fused += check(one_op(op, dtypes), [numbers(d, COUNT, k) for k, d in enumerate(dtypes)])
    assert fused > 0


@pytest.mark.parametrize("exponent", [2, 0.5, -1, 1, 3, 2.0, 0])
def test_the_operator_of_powers_takes_its_short_cuts(exponent: Any) -> None:
    fused = [check(one_op("pow", (dtype,), None, exponent), [numbers(dtype, COUNT, 8)]) for dtype in FLOATS]
    assert any(fused) == (exponent in (2, 0.5, -1, 1)) or exponent == 0


def test_every_cast() -> None:
    for source, result in itertools.product(REAL, repeat=2):
        assert check(one_op("cast", (source,), {"dtype": BY_NAME[result].numpy}), [numbers(source, COUNT, 9)]) or source == result


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", sorted(ALGORITHMS.keys() & ROWS.keys()))
def test_algorithms_over_the_whole_range(op: str, dtype: str) -> None:
    x = np.concatenate([special(dtype), wide(dtype, count=3000)])
    if op in ("sin", "cos"):
        x = x[~(np.absolute(x) > 1e6)]  # larger ones are handed back
    kernel = kernel_for(one_op(op, (dtype,)))
    done = kernel.outcome([x])
    assert done is not None
    with np.errstate(all="ignore"):
        assert_same_bits(done[0][0], registry.row(op).definition(x))


@pytest.mark.parametrize("dtype", REAL)
def test_ordinary_numbers_raise_no_events(dtype: str) -> None:
    """Otherwise every call would be computed twice."""
    x = ordinary(dtype, 100, 1)
    for name, arity in ARITY.items():
        if name in ("arccosh", "arctanh", "logit", "erfinv"):
            continue
        dtypes = ("bool" if name == "where" else dtype, "bool" if name == "masked_fill" else dtype, dtype)[:arity]
        kernel = compiled(one_op(name, dtypes, ATTRIBUTES.get(name, ({},))[0]))
        if kernel is not None:
            done = kernel.outcome([x if d == dtype else ordinary(d, 100, 2) for d in dtypes])
            assert done is not None
            assert done[1] == 0 and done[2] & c.HARD == 0, name


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["maximum", "minimum", "fmax", "fmin"])
def test_extremes_of_two_nans_and_of_two_zeros(op: str, dtype: str) -> None:
    """Which of two that differ in their sign alone comes out is settled, by the type."""
    values = np.array([np.nan, -np.nan, 0.0, -0.0]).astype(BY_NAME[dtype].numpy)
    x, y = np.repeat(values, 4), np.tile(values, 4)
    check(one_op(op, (dtype, dtype)), [x, y])
    for constant in (float("nan"), 0.0, -0.0):
        for first in (False, True):
            check(one_op(op, (dtype,), None, constant, first), [values])


def test_nan_alone_raises_no_event_in_plain_arithmetic() -> None:
    """Missing values are common: they must not send every call back."""
    x = np.array([1.0, np.nan, -2.0] * 30, np.float32)
    for op, constant in (("add", 1.0), ("maximum", 0.0), ("less", 0.5), ("multiply", 2.0), ("equal", 1.0)):
        done = kernel_for(one_op(op, ("float32",), None, constant)).outcome([x])
        assert done is not None and done[1:] == (0, 0), op
    for op in ("relu", "isnan", "absolute", "negative", "square", "sqrt"):
        done = kernel_for(one_op(op, ("float32",))).outcome([np.absolute(x)])
        assert done is not None and done[1:] == (0, 0), op


def test_a_refusal_names_the_op_and_the_reason() -> None:
    for graph, words in (
        (one_op("arctan2", ("float32", "float32")), "arctan2"),
        (one_op("subtract", ("bool", "bool")), "boolean subtract"),
        (one_op("sum", ("float32",)), "not elementwise"),
        (one_op("exp", ("complex64",)), "complex64"),
    ):
        with pytest.raises(NotFusable, match=words):
            kernel_for(graph)
