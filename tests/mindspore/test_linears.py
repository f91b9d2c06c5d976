"""Products by weights with bias and activation as one step of a flat program: which there are, their bits, and when their ops run alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

import bcvm_core as bcvm
from bcvm_core import config, testing
from bcvm_core.codegen.products import jobs
from bcvm_core.codegen.stencils import threads
from bcvm_core.codegen.stencils.target import host
from bcvm_core.fusion import linears
from bcvm_core.mindspore import held_linears
from bcvm_core.tiers import effort
from bcvm_core.tiers.beside import beside
from tests.in_threads import in_threads, share

pytestmark = [pytest.mark.mindspore, pytest.mark.skipif(host() is None, reason="no code for products here")]
F32 = np.float32
WIDE = 384  # weights of 384 x 384 elements are products of our own


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    with bcvm.enable():
        yield


def data(shape: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


class Block(nn.Cell):
    """Three layers of the same rows, of which one has no bias; one with an activation behind a view; one whose result two read."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Dense(WIDE, WIDE), nn.Dense(WIDE, WIDE, has_bias=False), nn.Dense(WIDE, 2 * WIDE)
        self.up, self.down = nn.Dense(WIDE, 2 * WIDE), nn.Dense(2 * WIDE, WIDE)
        self.gelu, self.silu = nn.GELU(approximate=False), nn.SiLU()
        rng = np.random.default_rng(5)
        for p in self.get_parameters():
            p.set_data(ms.Tensor((rng.standard_normal(p.shape) * 0.05).astype(F32)))

    def construct(self, x: Any) -> Any:
        q, k, v = self.q(x), self.k(x), self.v(x)
        wide = self.gelu(self.up(q + k))
        y = self.down(wide)
        return self.silu(y), y, v


def built() -> Block:
    made = Block()
    made.set_train(False)
    return made


@pytest.fixture
def net() -> Block:
    return built()


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call of a linear: whether it ran whole."""
    found: list[bool] = []
    call = held_linears.HeldLinear.__call__

    def noted(self: Any, *values: Any) -> Any:
        result = call(self, *values)
        found.append(result is not None)
        return result

    monkeypatch.setattr(held_linears.HeldLinear, "__call__", noted)
    return found


def results(net: Any, x: Any) -> list[Any]:
    return [part.asnumpy() for part in net(ms.Tensor(x))]


def one_by_one(net: Any, x: Any) -> list[Any]:
    with config.override(fuse=False):
        return results(net, x)


def same(ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_array_equal(a.view(np.int32)[~np.isnan(a)], b.view(np.int32)[~np.isnan(b)])


def warm(net: Any) -> None:
    for _ in range(2):
        results(net, data((2, 5, WIDE)))


def found_in(net: Any) -> list[linears.Linear]:
    program = bcvm.program_of(net)
    kept = frozenset(i.operands[0] for i in program.instructions if i.opcode in ("LOAD_VAR", "LOAD_TENSOR"))
    asking = frozenset(
        pc
        for pc, i in enumerate(program.instructions)
        if linears.name_of(i) in ("shape", "len", "not_equal", "getitem") or (linears.name_of(i) == "add" and i.operands[2] == 0)
    )
    return linears.find(program, asking, kept, [])


def test_linears_of_a_program(net: Block) -> None:
    results(net, data((2, 5, WIDE)))
    found = found_in(net)
    assert [(x.bias is not None, x.activation and x.activation[0], x.forwarded is not None) for x in found] == [
        (True, None, False),
        (False, None, False),
        (True, None, False),
        (True, "gelu", True),
        (True, None, False),  # two read what it gives
    ]
    assert [x.leader and x.leader[1] for x in found] == [0, 1, 2, None, None]
    assert [len(x.beside) for x in found] == [2, 0, 0, 0, 0]


@pytest.mark.parametrize("cores", [1, 2])
def test_bits_of_one_op_after_the_other(net: Block, done: list[bool], monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(threads, "cores", lambda: cores)
    if cores > 1:
        monkeypatch.setattr(jobs, "SEVERAL", 1.0)
        share(monkeypatch)
    warm(net)
    done.clear()
    for seed, shape in enumerate([(2, 5, WIDE), (1, 2, WIDE), (3, 11, WIDE), (1, 300, WIDE)]):
        x = data(shape, seed)
        for special in (None, np.nan, -np.inf, -0.0, 1e-42):
            if special is not None:
                x[0, 0, :3] = special
            wanted = one_by_one(net, x)
            done.clear()
            for _ in range(3):  # the weights are packed meanwhile
                same(results(net, x), wanted)
            assert done == [True] * 15


def test_rows_that_are_no_product_of_ours_run_one_by_one(net: Block, done: list[bool]) -> None:
    warm(net)
    x = data((1, 1, WIDE))
    wanted = one_by_one(net, x)
    done.clear()
    same(results(net, x), wanted)
    assert done == [False] * 5


def test_rows_as_they_are_without_a_view(done: list[bool]) -> None:
    net = built()
    for _ in range(2):
        results(net, data((6, WIDE)))
    done.clear()
    for shape in ((6, WIDE), (40, WIDE)):
        x = data(shape, 3)
        for values in (x, np.asfortranarray(x), np.repeat(x, 2, 0)[::2]):
            wanted = one_by_one(net, values)
            done.clear()
            same(results(net, values), wanted)
            assert True in done


def test_parameters_that_change_are_seen(net: Block, done: list[bool]) -> None:
    warm(net)
    x = data((2, 9, WIDE))
    for name, parameter in net.parameters_and_names():
        before = results(net, x)
        parameter.set_data(ms.Tensor(data(parameter.shape, 7) * F32(0.1)))
        after = results(net, x)
        same(after, one_by_one(net, x))
        assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True)), name
    for parameter in net.get_parameters():  # in place
        parameter.asnumpy()
        ops.assign_add(parameter, ms.Tensor(np.full(parameter.shape, 0.01, F32)))
        same(results(net, x), one_by_one(net, x))


class Between(nn.Cell):
    """Two layers of one operand that is written between them."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Dense(WIDE, WIDE), nn.Dense(WIDE, WIDE)
        self.state = ms.Parameter(ms.Tensor(data((8, WIDE))), name="state")

    def construct(self, x: Any) -> Any:
        y = x + 0.0
        first = self.a(y)
        y[2:4] = 1.5
        return first, self.b(y)


def test_what_is_written_between_two_layers_of_the_same_rows() -> None:
    net = Between()
    net.set_train(False)
    x = data((8, WIDE), 1)
    wanted = one_by_one(net, x)
    for _ in range(4):
        same(results(net, x), wanted)


class Views(nn.Cell):
    """The same tensor in two shapes: rows that are not the same."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Dense(WIDE, WIDE), nn.Dense(WIDE, WIDE)

    def construct(self, x: Any) -> Any:
        return self.a(x.reshape(-1, WIDE)), self.b(x.reshape(WIDE, -1).reshape(-1, WIDE)), self.b(x.transpose().reshape(-1, WIDE))


def test_views_of_one_tensor() -> None:
    net = Views()
    net.set_train(False)
    for _ in range(4):
        x = data((8, WIDE), 1)
        same(results(net, x), one_by_one(net, x))


def test_gelu_by_tanh_and_other_activations() -> None:
    for act in (nn.GELU(approximate=True), nn.GELU(approximate=False), nn.SiLU(), nn.Sigmoid(), nn.Tanh(), nn.ReLU()):
        net = nn.SequentialCell(nn.Dense(WIDE, WIDE), act, nn.Dense(WIDE, WIDE))
        x = data((12, WIDE), 2)
        with config.override(fuse=False):
            wanted = net(ms.Tensor(x)).asnumpy()
        for _ in range(4):
            np.testing.assert_array_equal(net(ms.Tensor(x)).asnumpy(), wanted)


def test_memory_that_is_a_weight_of_two_shapes() -> None:
    from bcvm_core.codegen.products import product

    net = nn.SequentialCell(nn.Dense(WIDE, 2 * WIDE, has_bias=False))
    x, turned = data((12, WIDE), 2), data((12, 2 * WIDE), 3)
    for _ in range(3):
        net(ms.Tensor(x))
    w = net[0].weight.asnumpy()
    other = w.reshape(WIDE, 2 * WIDE)
    for _ in range(3):  # the same memory, packed in another order
        product.multiply(turned, other.T)
    with config.override(fuse=False):
        wanted = net(ms.Tensor(x)).asnumpy()
    for _ in range(3):
        np.testing.assert_array_equal(net(ms.Tensor(x)).asnumpy(), wanted)
    assert jobs.known_kept(w) is not None or jobs.known_kept(other) is not None


def test_exchanged_kernels_are_used(net: Block, done: list[bool]) -> None:
    warm(net)
    x = data((2, 5, WIDE))
    results(net, x)
    assert done[-1]
    for op in ("matmul_transposed.blas", "bias_add.numpy", "gelu.template.float32"):
        with testing.corrupt_kernel(op, lambda r: r * 2):
            corrupt = results(net, x)
            same(corrupt, one_by_one(net, x))
        assert not np.array_equal(corrupt[1], results(net, x)[1]), op
    same(results(net, x), one_by_one(net, x))


def test_a_long_call_that_can_be_interrupted_runs_by_its_ops(net: Block, done: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    warm(net)
    x = data((2, 50, WIDE))
    wanted = results(net, x)
    monkeypatch.setattr(effort, "LONG_FLOPS", 1)
    beside.start()
    try:
        done.clear()
        same(results(net, x), wanted)
        assert done == [False] * 5
    finally:
        beside.stop()


def test_the_same_runs_while_somebody_measures(net: Block, done: list[bool]) -> None:
    warm(net)
    x = data((2, 50, WIDE))
    wanted = results(net, x)
    with bcvm.profile() as profile:
        results(net, x)  # sites choose again
        done.clear()
        same(results(net, x), wanted)
    assert done == [True] * 5
    whole = [row.op for row in profile.rows if "+" in row.op]
    assert sorted(whole)[:3] == ["matmul_transposed+bias_add"] * 3
    assert whole.count("matmul_transposed+bias_add+gelu") == 1


def test_counted_as_calls_of_their_ops(net: Block, done: list[bool]) -> None:
    warm(net)
    x = data((2, 5, WIDE))
    results(net, x)
    before = bcvm.stats()
    results(net, x)
    assert done[-5:] == [True] * 5
    assert bcvm.stats().since(before).share() == 1.0


def test_from_several_threads(net: Block) -> None:
    warm(net)
    inputs = [data((2, 3 + k, WIDE), k) for k in range(4)]
    wanted = [one_by_one(net, x) for x in inputs]

    def work(k: int) -> None:
        for _ in range(10):
            same(results(net, inputs[k]), wanted[k])

    in_threads(4, work)
