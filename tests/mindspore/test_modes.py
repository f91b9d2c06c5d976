"""`enable`, `disable`, `set_mode`, `jit` of a model: when models run through the VM, and what is counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

import bcvm_core as bcvm
from bcvm_core.errors import LoweringError
from bcvm_core.isa.text import assemble, disassemble
from bcvm_core.isa.verifier import verify
from bcvm_core.vm.stats import Stats

X = ms.Tensor(np.linspace(-2.0, 2.0, 24, dtype=np.float32).reshape(4, 6))


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(6, 8)
        self.rest = nn.SequentialCell([nn.ReLU(), nn.Dense(8, 3)])

    def construct(self, x: Any, scale: float = 1.0) -> Any:
        return ops.softmax(self.rest(self.first(x)) * scale, -1)


class Counting(nn.Cell):
    """Has an effect, so it stays with Python; its ops do not."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.ReLU()
        self.calls = 0

    def construct(self, x: Any) -> Any:
        self.calls += 1
        return self.part(x) * 2.0


@pytest.fixture(autouse=True)
def _off_afterwards() -> Iterator[None]:
    yield
    while bcvm.enabled():
        bcvm.disable()
    ms.set_context(mode=ms.PYNATIVE_MODE)


def since(before: Stats) -> Stats:
    return bcvm.stats().since(before)


def test_a_model_runs_by_call_op_while_enabled() -> None:
    net = Net()
    expected = net(X).asnumpy()
    before = bcvm.stats()
    net(X)
    assert since(before).call_op == 0
    with bcvm.enable():
        assert bcvm.enabled()
        found = net(X)
    assert type(found) is ms.Tensor
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5)  # MindSpore rounds matmul its own way
    ran = since(before)
    assert ran.call_op > 0
    assert ran.call_host == 0
    assert not bcvm.enabled()
    net(X)
    assert since(before).call_op == ran.call_op


def test_enabling_nests() -> None:
    with bcvm.enable():
        with bcvm.enable():
            pass
        assert bcvm.enabled()
    assert not bcvm.enabled()
    bcvm.disable()
    assert not bcvm.enabled()


def test_set_mode() -> None:
    bcvm.set_mode(bcvm.BYTECODE_VM)
    assert bcvm.enabled()
    assert ms.get_context("mode") == ms.PYNATIVE_MODE
    bcvm.set_mode(ms.GRAPH_MODE)
    assert not bcvm.enabled()
    assert ms.get_context("mode") == ms.GRAPH_MODE
    bcvm.set_mode(ms.PYNATIVE_MODE)
    assert ms.get_context("mode") == ms.PYNATIVE_MODE
    with pytest.raises(ValueError, match="BYTECODE_VM"):
        bcvm.set_mode(7)


def test_jit_of_one_model() -> None:
    net, other = Net(), Net()
    assert bcvm.jit(net) is net
    before = bcvm.stats()
    net(X)
    assert since(before).call_op > 0
    before = bcvm.stats()
    other(X)
    assert since(before).call_op == 0


def test_the_program_of_a_model() -> None:
    net = Net()
    with pytest.raises(LoweringError, match="not been called"):
        bcvm.program_of(net)
    program = bcvm.program_of(net, X)
    verify(program)
    assert assemble(disassemble(program)) == program
    assert "self.rest.cell_list._1.weight" in program.params
    assert "1 runs" in bcvm.explain(net)
    assert len(program.instructions) == len(bcvm.program_of(net).instructions)


def test_a_new_batch_size_needs_no_new_program() -> None:
    net = Net()
    with bcvm.enable():
        before = bcvm.stats()
        for n in (1, 2, 5, 0, 31):
            assert net(ms.Tensor(np.ones((n, 6), np.float32))).shape == (n, 3)
    assert since(before).bound == 1


def test_what_stays_with_mindspore_is_explained_and_its_ops_are_not() -> None:
    net = Counting()
    before = bcvm.stats()
    with bcvm.enable():
        for _ in range(3):
            np.testing.assert_array_equal(net(X).asnumpy(), np.maximum(X.asnumpy(), 0) * 2)
        assert net.calls == 3
        assert since(before).share() == 1.0
        assert "a write into an object" in bcvm.explain(net)
        assert "ReLU" in bcvm.explain(net)
        with pytest.raises(LoweringError, match="write into an object"):
            bcvm.program_of(net)


def test_disabling_gives_constructs_their_code_back() -> None:
    code = Counting.construct.__code__
    with bcvm.enable():
        Counting()(X)
        assert Counting.construct.__code__ is not code
    assert Counting.construct.__code__ is code


def test_a_cell_is_not_kept_alive() -> None:
    import gc
    import weakref

    net = Net()
    with bcvm.enable():
        net(X)
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_the_input_itself_comes_out_as_itself() -> None:
    class Same(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x, [x, x + 1], {"x": x}

    with bcvm.enable():
        for _ in range(2):
            first, (second, _), table = Same()(X)
            assert first is X
            assert second is X
            assert table["x"] is X


def test_outputs_are_views_where_mindspore_gives_views() -> None:
    class Turned(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x.transpose(1, 0)

    x = ms.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    with bcvm.enable():
        turned = Turned()(x)
    np.testing.assert_array_equal(turned.asnumpy(), x.asnumpy().T)


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16, ms.float32, ms.float64])
def test_element_types(dtype: Any) -> None:
    class Mix(nn.Cell):
        def construct(self, x: Any) -> Any:
            y = x.astype(ms.float32) * 2 if x.dtype == ms.float16 else x + 1
            return y - x, x.dtype

    x = X.astype(dtype)
    net = Mix()
    expected, kind = net(x)
    with bcvm.enable():
        for _ in range(2):
            found, found_kind = net(x)
            assert found.dtype == expected.dtype
            assert found_kind == kind
            np.testing.assert_array_equal(found.float().asnumpy(), expected.float().asnumpy())
