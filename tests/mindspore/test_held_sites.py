"""The short way of a CALL_OP in a flat program: the same results, and the adapter's own way wherever something differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

import bcvm_core as bcvm
from bcvm_core.codegen import loops
from bcvm_core.mindspore import adapter, cells, held_sites
from bcvm_core.tiers.pool import pool

RNG = np.random.default_rng(3)


def data(*shape: int) -> Any:
    return RNG.standard_normal(shape, np.float32)


class Block(nn.Cell):
    """Products, norms, views and casts."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm = nn.Dense(8, 8), nn.LayerNorm([8])

    def construct(self, x: Any) -> Any:
        y = self.norm(self.dense(x)).transpose(1, 0, 2).swapaxes(1, 2).reshape(-1, 8)
        return ops.softmax(ops.relu(y.astype(x.dtype)) + y[:1], -1)


@pytest.fixture
def block() -> Iterator[Block]:
    cell = Block()
    cell.set_train(False)
    with bcvm.enable():
        yield cell


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops that went the adapter's way."""
    seen: list[str] = []
    before = adapter.Adapter.call

    def call(self: Any, op: Any, *rest: Any) -> Any:
        seen.append(op.name)
        return before(self, op, *rest)

    monkeypatch.setattr(adapter.Adapter, "call", call)
    return seen


def _same(cell: Any, x: Any) -> None:
    """The cell's result now has the bits that it has when nothing is remembered."""
    ours = cell(Tensor(x)).asnumpy()
    for program in cells.runner.site(cell).programs:
        for step in vars_of(program):
            step.recipes, step.version = {}, -1
    np.testing.assert_array_equal(ours, cell(Tensor(x)).asnumpy())


def vars_of(program: Any) -> list[held_sites.HeldSite]:
    return [v for v in program.run.__globals__.values() if type(v) is held_sites.HeldSite]


def test_warm_calls_take_the_short_way_for_every_shape(block: Block, long_way: list[str]) -> None:
    for _ in range(3):
        block(Tensor(data(2, 3, 8)))
        loops.wait(60)
    long_way.clear()
    for shape in ((2, 3, 8), (4, 1, 8), (1, 7, 8)):
        block(Tensor(data(*shape)))
    assert set(long_way) <= {"getitem"}  # a slice among the operands
    for shape in ((2, 3, 8), (4, 1, 8), (1, 7, 8)):
        _same(block, data(*shape))


def test_parameters_are_read_at_each_run(block: Block) -> None:
    x = data(2, 3, 8)
    for _ in range(3):
        block(Tensor(x))
    before = block(Tensor(x)).asnumpy()
    block.dense.weight.set_data(Tensor(data(8, 8)))
    changed = block(Tensor(x)).asnumpy()
    assert (changed != before).any()
    _same(block, x)
    block.norm.gamma.asnumpy()[...] *= 2  # shows the memory
    assert (block(Tensor(x)).asnumpy() != changed).any()
    _same(block, x)
    block.dense.weight = ms.Parameter(Tensor(data(8, 8)))
    _same(block, x)


def test_other_element_types_and_ranks_are_other_recipes(block: Block) -> None:
    for _ in range(2):
        block(Tensor(data(2, 3, 8)))
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        block(Tensor(data(2, 3, 8).astype(np.float64)))  # MindSpore refuses the product, and so does the call
    _same(block, data(2, 3, 8))


def test_kernels_of_the_users_own_are_asked(block: Block) -> None:
    x = data(2, 3, 8)
    for _ in range(3):
        before = block(Tensor(x)).asnumpy()
    name = pool.kernels("bias_add")[0].name
    definition = pool.entry(name).fn
    calls: list[int] = []

    def own(*operands: Any, **attrs: Any) -> Any:
        calls.append(1)
        return definition(*operands, **attrs)

    pool.swap(name, own)
    try:
        np.testing.assert_array_equal(block(Tensor(x)).asnumpy(), before)
        assert calls
    finally:
        pool.restore(name)
    calls.clear()
    np.testing.assert_array_equal(block(Tensor(x)).asnumpy(), before)
    assert not calls


class Strided(nn.Cell):
    """A cast that shares memory only where it is contiguous."""

    def construct(self, x: Any, y: Any) -> Any:
        z = (x * 2).transpose(1, 0)
        return z.astype(ms.float32), y.astype(ms.float32)


def test_a_cast_to_the_same_type_of_memory_that_is_not_contiguous() -> None:
    cell = Strided()
    x, y = data(3, 4), data(3, 4)
    with bcvm.enable():
        for _ in range(3):
            first, second = cell(Tensor(x), Tensor(y))
            np.testing.assert_array_equal(first.asnumpy(), x.T * 2)
            np.testing.assert_array_equal(second.asnumpy(), y)
            assert first.is_contiguous()


@pytest.mark.parametrize(
    "call", [lambda x: ops.mean(x), lambda x: ops.mean(x, -1), lambda x: x.max(), lambda x: x.reshape(-1)[0] + x.mean()]
)
def test_results_without_axes(call: Callable[[Any], Any]) -> None:
    class Reduced(nn.Cell):
        def construct(self, x: Any) -> Any:
            return call(x)

    cell, x = Reduced(), data(3, 4)
    theirs = cell(Tensor(x)).asnumpy()
    with bcvm.enable():
        for _ in range(3):
            ours = cell(Tensor(x))
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours.asnumpy(), theirs, rtol=1e-6)
