"""Algorithms that compute in float32: the builder's exact operations, and the bits of the compiled forms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bcvm_core.ops import evaluate
from bcvm_core.ops.algorithms import ALGORITHMS
from bcvm_core.ops.algorithms_f32 import SINGLE
from tests.ops.elementwise_arguments import special
from tests.ops.test_elementwise_ulp import arguments, run, ulps, worst_allowed

B = evaluate.NumpySingleBuilder()


def rounded(value: Fraction) -> np.float32:
    """A rational number rounded to float32, ties to even, by integer arithmetic."""
    if value == 0:
        return np.float32(0)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - 23, -149)
    whole, rest = divmod(size, unit)
    if rest * 2 > unit or (rest * 2 == unit and whole % 2):
        whole += 1
    return np.float32(float(whole * unit) * (1 if value > 0 else -1))


def triples(kind: str, count: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(len(kind))
    bits = rng.integers(1, 1 << 24, (3, count)).astype(np.float64) * rng.choice([-1, 1], (3, count))
    if kind == "anything":
        scales = 2.0 ** rng.integers(-60, 20, (3, count))
    elif kind == "near ties":  # the sum ends close to the middle between two numbers
        scales = np.array([2.0**-10, 2.0**-38, 2.0**0])[:, None] * np.ones((3, count))
    elif kind == "cancelling":
        a, c = (bits[:2] * 2.0**-24).astype(np.float32)
        return a, c, (-(a.astype(np.float64) * c)).astype(np.float32)
    else:  # "subnormal"
        scales = np.array([2.0**-90, 2.0**-80, 2.0**-170])[:, None] * 2.0 ** rng.integers(-4, 5, (3, count))
    a, c, d = (bits * scales).astype(np.float32)
    return a, c, d


@pytest.mark.parametrize("kind", ["anything", "near ties", "cancelling", "subnormal"])
def test_the_fused_step_rounds_once(kind: str) -> None:
    a, c, d = triples(kind, 4000)
    with np.errstate(all="ignore"):
        actual = B.fma(a, c, d)
    for k in range(a.size):
        wanted = rounded(Fraction(float(a[k])) * Fraction(float(c[k])) + Fraction(float(d[k])))
        assert actual[k] == wanted, (a[k], c[k], d[k])


def test_the_fused_step_takes_constants() -> None:
    a = np.array([0.1, -3.0, 7e5], np.float32)
    constant = 1.4426950408889634  # rounded to float32 before it is used
    wanted = [rounded(Fraction(float(v)) * Fraction(float(np.float32(constant))) + Fraction(12582912)) for v in a]
    assert B.fma(a, constant, 12582912.0).tolist() == wanted


def test_scaling_rounds_once() -> None:
    rng = np.random.default_rng(4)
    y = rng.uniform(0.5, 2, 3000).astype(np.float32)
    n = rng.integers(-170, 140, 3000).astype(np.float32)
    with np.errstate(all="ignore"):
        actual = B.scale(y, n)
    for k in range(y.size):
        exact = Fraction(float(y[k])) * Fraction(2) ** int(n[k])
        assert actual[k] == (rounded(exact) if exact < Fraction(2) ** 128 else np.inf)


@pytest.mark.parametrize("name", SINGLE)
def test_they_are_algorithms_of_the_table(name: str) -> None:
    assert name in ALGORITHMS


@pytest.mark.parametrize("name", SINGLE)
def test_every_exponent_beside_the_algorithm_in_double(name: str) -> None:
    """Both signs, subnormal numbers among them; the algorithm in double is within 2 of its own last places."""
    mantissas = np.random.default_rng(11).integers(0, 1 << 23, (2, 255, 160))
    patterns = mantissas | (np.arange(255) << 23)[:, None] | (np.array([0, 1]) << 31)[:, None, None]
    x = arguments(name, patterns.ravel().astype(np.uint32).view(np.float32))
    errors = ulps(run(name, x), run(name, x.astype(np.float64)).astype(np.longdouble))
    worst = int(np.argmax(errors))
    assert errors[worst] < worst_allowed(name, np.float32), f"{float(errors[worst]):.3f} ulp at {x[worst]!r}"


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_the_tail_ends_in_a_negative_zero(name: str) -> None:
    x = np.float32([-15.5, -40, -3e38])
    y = run(name, x)
    assert (y == 0).all() and np.signbit(y).all()
    assert run(name, np.float32([-0.0]))[0] == 0 and np.signbit(run(name, np.float32([-0.0])))[0]


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_an_open_gate_gives_the_argument_itself(name: str) -> None:
    x = np.float32([5.75, 6, 14.75, 20, 1e30, np.inf])
    np.testing.assert_array_equal(run(name, x), x)


@pytest.mark.parametrize("name", ["exp", "tanh", "log", "erf", "gelu", "gelu_tanh", "exp2", "softplus"])
def test_nan_keeps_its_bits(name: str) -> None:
    x = special("float32")
    x = x[np.isnan(x)]
    x = x[~np.signbit(x)] if name == "log" else x
    y = np.empty_like(x)
    evaluate.numpy_loop(name)(x, y)
    np.testing.assert_array_equal(y.view(np.uint32), x.view(np.uint32))


def test_monotone_where_the_function_is() -> None:
    """Neighbouring arguments near the joints of a formula: no step back by more than the error allows."""
    for name, at in (("tanh", 0.55), ("exp", 0.34657359), ("sigmoid", 0.0), ("log", 1.0)):
        x = np.float32(at) + np.arange(-2000, 2000, dtype=np.float32) * np.spacing(np.float32(max(at, 0.1)))
        y = np.empty_like(x)
        evaluate.numpy_loop(name)(x, y)
        assert (np.diff(y.astype(np.float64)) >= -2.5 * np.spacing(np.absolute(y[1:]).astype(np.float32))).all(), name
