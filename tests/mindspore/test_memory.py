"""Tensors' memory goes in and out of NumPy without copies."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import array, by_site, numpy_type, tensor

from bcvm_core import dtypes
from bcvm_core.devices import base
from bcvm_core.errors import Decline
from bcvm_core.mindspore import memory
from bcvm_core.tiers.select import CallSite

pytestmark = pytest.mark.mindspore
NAMES = [row.name for row in dtypes.TABLE]


def address(value: np.ndarray) -> int:
    return int(value.ctypes.data)


@pytest.mark.parametrize("name", NAMES)
def test_view_and_wrap_share_memory(name: str) -> None:
    source = np.array([[0, 1, 2], [3, 4, 5]]).astype(numpy_type(name))
    t = ms.Tensor.from_numpy(source)
    seen = memory.view(t)
    assert seen.dtype == source.dtype and address(seen) == address(source) == t.data_ptr()
    assert (seen == source).all() and seen.flags.writeable
    back = memory.wrap(source)
    assert back.data_ptr() == address(source) and back.dtype == t.dtype


VIEWS = {
    "whole": lambda t: t,
    "rows": lambda t: t[1:],
    "column": lambda t: t[:, 1],
    "step": lambda t: t[:, ::2],
    "transposed": lambda t: t.T,
    "element": lambda t: t[1, 2],
    "broadcast": lambda t: t[:1].broadcast_to((3, 4)),
    "expanded": lambda t: t.expand_dims(1),
    "piece of a piece": lambda t: t[1:].T[1:],
}


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS.keys())
def test_mindspore_views_are_seen_in_place(make: Any) -> None:
    t = tensor(np.arange(12).reshape(3, 4))
    v = make(t)
    seen = memory.view(v)
    assert seen.shape == v.shape and address(seen) == v.data_ptr()
    assert np.shares_memory(seen, memory.view(t))
    assert (seen == v.asnumpy()).all()


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS.keys())
def test_views_go_back_as_views(make: Any) -> None:
    t = tensor(np.arange(12).reshape(3, 4))
    back = memory.wrap(memory.view(make(t)))
    assert back.data_ptr() == make(t).data_ptr() and list(back.stride()) == list(make(t).stride())
    memory.view(t)[...] = 7.0
    assert (back.asnumpy() == 7.0).all()


def test_steps_backwards_are_copied() -> None:
    t = tensor([1, 2, 3])
    back = memory.wrap(memory.view(t)[::-1])
    assert back.asnumpy().tolist() == [3, 2, 1] and back.is_contiguous()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), ()])
def test_empty_and_zero_dimensional(shape: tuple[int, ...]) -> None:
    t = tensor(np.ones(shape))
    seen = memory.view(t)
    assert seen.shape == shape and memory.wrap(seen).shape == shape
    assert CallSite("add")(t, 1).shape == shape


def test_the_tensor_lives_as_long_as_the_array() -> None:
    source = np.arange(4, dtype=np.float32)
    reference = weakref.ref(source)
    seen = memory.view(ms.Tensor.from_numpy(source))
    del source
    gc.collect()
    assert reference() is not None and seen.tolist() == [0, 1, 2, 3]
    del seen
    gc.collect()
    assert reference() is None


def test_a_view_result_outlives_its_source() -> None:
    t = tensor(np.arange(6).reshape(2, 3))
    v = CallSite("transposed")(t)
    del t
    gc.collect()
    assert v.asnumpy().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_results_are_not_copied_out() -> None:
    made: list[np.ndarray] = []

    class Site:
        def __call__(self, *operands: Any, **attrs: Any) -> Any:
            made.append(np.add(*operands))
            return made[-1]

    from bcvm_core.mindspore.adapter import ADAPTER
    from bcvm_core.ops import registry

    result = ADAPTER.call(registry.row("add"), Site(), (tensor([1, 2]), tensor([3, 4])), {})
    assert result.data_ptr() == address(made[0])


def test_operands_are_not_copied_in() -> None:
    seen: list[int] = []
    t = tensor(np.arange(6).reshape(2, 3)).T
    from bcvm_core.mindspore.adapter import ADAPTER
    from bcvm_core.ops import registry

    def site(x: np.ndarray) -> np.ndarray:
        seen.append(address(x))
        return np.exp(x)

    ADAPTER.call(registry.row("exp"), site, (t,), {})
    assert seen == [t.data_ptr()]


def test_parameters_come_in_and_plain_tensors_go_out() -> None:
    p = ms.Parameter(tensor([1.0, 2.0]), name="weight")
    assert base.adapter_for(type(p)) is base.adapter_for(ms.Tensor)
    assert memory.view(p).ctypes.data == p.data_ptr()
    result = CallSite("add")(p, 1)
    assert type(result) is ms.Tensor and result.asnumpy().tolist() == [2, 3]
    assert CallSite("transposed")(p) is p, "MindSpore's T of a vector is the vector"
    assert type(CallSite("transposed")(ms.Parameter(tensor([[1.0, 2.0]]), name="matrix"))) is ms.Tensor


def test_pending_work_is_waited_for() -> None:
    ms.set_context(pynative_synchronize=False)
    try:
        t = tensor(np.ones(200_000))
        for _ in range(20):
            t = t + 1
        assert (memory.view(t) == 21).all()
    finally:
        ms.set_context(pynative_synchronize=True)


def test_writes_reach_every_view() -> None:
    t = tensor(np.zeros((2, 3)))
    row = t[1]
    CallSite("setitem")(t, (1, slice(0, 2)), 5)
    assert array(row).tolist() == [5, 5, 0]
    CallSite("setitem")(row, 2, tensor(7, np.float64))
    assert array(t).tolist() == [[0, 0, 0], [5, 5, 7]]


def test_element_is_a_view_as_in_mindspore() -> None:
    t = tensor([[1.0, 2.0], [3.0, 4.0]])
    corner = by_site("t[1, 1]", t=t)
    t[1, 1] = 9.0
    assert corner.shape == () and float(corner.asnumpy()) == 9.0


def test_unknown_element_types_are_left_alone() -> None:
    with pytest.raises(Decline):
        CallSite("add")(ms.Tensor(shape=(2,), dtype=ms.qint4x2), 1)


def test_gradients_are_mindspores() -> None:
    def loss(x: Any) -> Any:
        with pytest.raises(Decline, match="records"):
            CallSite("multiply")(x, x)
        return (x * x).sum()

    value, gradient = ms.value_and_grad(loss)(tensor([1.0, 2.0]))
    assert float(value) == 5.0 and gradient.asnumpy().tolist() == [2.0, 4.0]
