"""Axes of one element: few elements go through code that a kernel has already, and come out with the same bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcvm_core.codegen.stencils import offsets
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.kernel import FusedKernel, kernel_for
from bcvm_core.testing import assert_same_bits

NODES = (Node("multiply", (0, 1)), Node("add", (2, Const(1.0))), Node("tanh", (3,)), Node("subtract", (0, 1)), Node("multiply", (4, 5)))
SHAPES = (((38, 1), (1,)), ((1,), (38, 1)), ((4, 1, 1), (1, 1)), ((1, 1), (1, 1)), ((1, 256), (1,)), ((7, 1, 5), (1, 1, 1)))
WAYS: dict[str, Callable[[FusedKernel], Callable[..., Any]]] = {"native": lambda k: k.entry, "Python": lambda k: k.call}


def graph(dtype: str, layout: str = "contiguous") -> FusedGraph:
    return FusedGraph((Input(dtype, layout), Input(dtype, layout)), NODES, (6,))


def special(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Numbers, infinities, zeros of both signs, small and subnormal ones."""
    chosen = np.array([0.5, -0.0, 0.0, np.inf, -np.inf, 1e-40, -3.25, 1.0, 7e-8, 88.0])
    return np.random.default_rng(seed).choice(chosen[[0, 1, 2, 6, 7, 8, 9]] if seed else chosen, shape).astype(dtype)


def learnt(mask: int) -> FusedKernel:
    """A kernel that has code of its own for the inputs that repeat."""
    kernel = kernel_for(graph("float32"))
    kernel.code(mask)
    return kernel


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_few_elements_need_no_code_of_their_own(shapes: Any, dtype: str, way: str) -> None:
    kernel = kernel_for(graph(dtype))
    own = kernel_for(graph(dtype))
    for mask in range(4):
        own.code(mask)
    entry, expected = WAYS[way](kernel), WAYS[way](own)
    for seeds in itertools.product(range(4), (1, 2)):
        x, y = (special(shape, dtype, seed) for shape, seed in zip(shapes, seeds, strict=True))
        with np.errstate(all="ignore"):
            found, wanted = entry(x, y), expected(x, y)
            assert (found is None) == (wanted is None)
            if found is not None:
                assert found.shape == np.broadcast_shapes(*shapes)
                assert_same_bits(found, wanted)
    assert list(kernel.codes) == [0]


@pytest.mark.parametrize("way", WAYS)
def test_many_elements_and_rows_get_code_of_their_own(way: str) -> None:
    more = offsets.GATHERED_MAX + 1
    for shapes in (((more, 1), (1,)), ((6, 8), (6, 1))):
        kernel = kernel_for(graph("float32"))
        x, y = (special(shape, "float32", 1) for shape in shapes)
        expected = learnt(2).call(x, y)
        assert_same_bits(WAYS[way](kernel)(x, y), expected)
        assert list(kernel.codes) == [0, 2]


def test_code_that_takes_other_inputs_as_repeated_does_not_stand_in() -> None:
    kernel = kernel_for(graph("float32", "column"))
    assert list(kernel.codes) == [3]
    x, y = special((38,), "float32", 1), special((1,), "float32", 2)
    assert_same_bits(kernel.entry(x, y), learnt(2).call(x, y))
    assert sorted(kernel.codes) == [2, 3]


def test_inputs_that_repeat_are_copied_for_code_that_takes_fewer_as_repeated() -> None:
    kernel = kernel_for(FusedGraph((Input("float32"), Input("float32", "scalar")), NODES, (6,)))
    assert list(kernel.codes) == [2]
    x, y = special((1, 1), "float32", 1), special((1,), "float32", 2)
    assert_same_bits(kernel.entry(x, y), learnt(3).call(x, y))
    assert list(kernel.codes) == [2]
