"""Chains over one array: a batch of one is no other kind than a batch of several, whichever came first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from bcvm_core import ops
from bcvm_core.codegen import loops
from bcvm_core.codegen.stencils import target
from bcvm_core.codegen.stencils.driver import driver
from bcvm_core.codegen.stencils.library import family
from tests.tiers.chain_support import chain_of, deviation, length, less_logsumexp, one_by_one, same_bits, softmax_written_out, warmed


@pytest.fixture(autouse=True, scope="module")
def _ready() -> None:
    if target.host() is None:
        pytest.skip("no stencils for this processor")
    for found in (family(4), family(8), driver()):
        loops.wait()
        assert found.failed == ""


def total(x: Any) -> Any:
    return np.sum(x * 2)


def kept(x: Any) -> Any:
    return ops.softmax(x * 0.5) + 1


def added(x: Any, y: Any) -> Any:
    return np.sum(x + y, axis=-1)


def some(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


SHAPES = ((4, 9, 33), (1, 9, 33), (4, 1, 33), (1, 1, 33), (8, 9, 33))


@pytest.mark.parametrize("function", [kept, less_logsumexp, softmax_written_out, length, deviation], ids=lambda f: f.__name__)
@pytest.mark.parametrize("first", [(4, 9, 33), (1, 9, 33), (1, 1, 33)], ids=str)
def test_a_batch_of_one_runs_by_the_same_chain(function: Any, first: tuple[int, ...]) -> None:
    jitted = warmed(function, some(first))
    site = chain_of(jitted)
    for seed, shape in enumerate(SHAPES):
        x = some(shape, seed)
        expected = one_by_one(function, x)
        same_bits(jitted(x), expected)
        same_bits(site(x), expected)  # None, had the ops to run one by one
    x = some((4, 9, 66))[:, ::2, ::2][:1]  # rows that don't lie side by side
    same_bits(jitted(x), one_by_one(function, x))
    assert len([made for made in site.chains.values() if made is not None]) == 1


def test_rows_of_one_element_are_another_kind() -> None:
    jitted = warmed(kept, some((4, 9, 33)))
    x = some((4, 9, 1))
    same_bits(jitted(x), one_by_one(kept, x))
    site = chain_of(jitted)
    assert len(site.chains) == 2


def test_where_all_axes_make_the_row_one_element_along_one_is_another_kind() -> None:
    jitted = warmed(total, some((4, 33)))
    x = some((1, 33))
    same_bits(jitted(x), one_by_one(total, x))
    assert len(chain_of(jitted).chains) == 2


def test_operands_that_are_broadcast_against_each_other_have_kinds_by_their_axes() -> None:
    jitted = warmed(added, some((4, 9, 33)), some((4, 9, 33)))
    for shapes in (((1, 9, 33), (4, 9, 33)), ((1, 9, 33), (1, 9, 33)), ((4, 9, 33), (1, 9, 33))):
        x, y = some(shapes[0], 1), some(shapes[1], 2)
        same_bits(jitted(x, y), one_by_one(added, x, y))
    assert len(chain_of(jitted).chains) == 4
