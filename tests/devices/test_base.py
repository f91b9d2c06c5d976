"""Operand classes, adapters for foreign tensors, and devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from bcvm_core.devices import base
from bcvm_core.devices.cpu import cpu
from bcvm_core.devices.null import NullDevice, TensorSpec
from bcvm_core.errors import Decline
from bcvm_core.isa.signature import OperandClass
from bcvm_core.ops.registry import OpInfo, Param
from bcvm_core.tiers.select import CallSite, signature_of

ADD = OpInfo("add", "test", (Param("x", "tensor"), Param("y", "tensor")), np.add, "")
CONV = OpInfo("conv", "test", (Param("x", "tensor"), Param("w", "tensor")), np.add, "", shape_rule="conv")
CAT = OpInfo("cat", "test", (Param("xs", "tensors"),), np.concatenate, "", shape_rule="other")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.ones(3), "float64:contiguous:host"),
        (np.ones((3, 4)).T, "float64:strided:host"),
        (np.ones(4)[::2], "float64:strided:host"),
        (np.ones(()), "float64:contiguous:host"),
        (np.ones(3, ml_dtypes.bfloat16), "bfloat16:contiguous:host"),
        (np.float32(1), "float32:scalar:host"),
        (ml_dtypes.bfloat16(1), "bfloat16:scalar:host"),
        (True, "pybool:scalar:host"),
        (1, "pyint:scalar:host"),
        (1.0, "pyfloat:scalar:host"),
        (1j, "pycomplex:scalar:host"),
        ([1, 2], "pyobject:scalar:host"),
        (TensorSpec((2, 3), "float16", "cuda:0"), "float16:contiguous:device"),
        (TensorSpec((2, 3, 4, 5), layout="NCHW"), "float32:NCHW:host"),
    ],
    ids=str,
)
def test_classes(value: Any, text: str) -> None:
    assert str(base.classify(value)) == text


@pytest.mark.parametrize("value", [np.array([None]), b"a", {}, object(), np.ones(2, ">f4"), np.ma.ones(1), np.void(b"x")], ids=repr)
def test_left_to_python(value: Any) -> None:
    with pytest.raises(Decline):
        base.classify(value)


@pytest.mark.parametrize(
    ("shapes", "marks"),
    [
        (((2, 3), (3,)), (False, True)),
        (((2, 1), (1, 3)), (True, True)),
        (((2, 3), (2, 3)), (False, False)),
        (((), (4,), (1, 4)), (True, True, False)),
        (((0,), (1,)), (False, True)),
        (((2,), (3,)), (False, False)),
        ((), ()),
    ],
)
def test_stretched(shapes: tuple[tuple[int, ...], ...], marks: tuple[bool, ...]) -> None:
    assert base.stretched(shapes) == marks


def _layouts(op: OpInfo, *operands: Any, **attrs: Any) -> list[str]:
    return [c.layout for c in base.classify_all(op, operands, attrs)]


def test_broadcast_is_an_operand_that_is_stretched() -> None:
    assert _layouts(ADD, np.ones((2, 3)), np.ones(3)) == ["contiguous", "broadcast"]
    assert _layouts(ADD, np.ones((2, 3)).T, 1.0) == ["strided", "scalar"]
    assert _layouts(ADD, np.float64(1), np.ones(3)) == ["scalar", "contiguous"]


def test_images_are_named_by_their_order_in_memory() -> None:
    x = np.ones((2, 3, 5, 7))
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    w = np.ones((4, 3, 3, 3))
    assert _layouts(CONV, x, w) == ["NCHW", "NCHW"]
    assert _layouts(CONV, last.transpose(0, 3, 1, 2), w) == ["NHWC", "NCHW"]
    assert _layouts(CONV, last, w, layout="NHWC") == ["NHWC", "NHWC"]
    assert _layouts(CONV, x.transpose(0, 2, 3, 1), w, data_format="NHWC")[0] == "NCHW"
    assert _layouts(CONV, x.transpose(3, 2, 1, 0), w)[0] == "strided"
    assert _layouts(CONV, np.ones((3, 4)), w)[0] == "contiguous"


# --- foreign tensors -----------------------------------------------------------------------------


class Foreign:
    """A tensor of another library."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


class FurtherForeign(Foreign):
    pass


class _Adapter:
    def classify(self, value: Foreign) -> OperandClass:
        return base.classify(value.value)

    def call(self, op: OpInfo, kernel_call: Callable[..., Any], operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        return Foreign(kernel_call(*[v.value if isinstance(v, Foreign) else v for v in operands], **attrs))


@pytest.fixture
def adapter() -> Iterator[_Adapter]:
    made = _Adapter()
    base.adapters[Foreign] = made
    base.forget_unadapted()
    yield made
    for tp in [tp for tp in base.adapters if issubclass(tp, Foreign)]:
        del base.adapters[tp]


def test_foreign_tensors_run_the_same_kernel(adapter: _Adapter) -> None:
    site = CallSite(ADD)
    result = site(Foreign([1.0, 2.0]), 1)
    assert type(result) is Foreign
    assert result.value.tolist() == [2, 3]
    assert site.signature == signature_of(ADD, (np.ones(2), 1))
    assert site(FurtherForeign([1.0]), np.ones(1)).value.tolist() == [2]


def test_a_foreign_target_is_rebound(adapter: _Adapter) -> None:
    x = Foreign([1.0, 2.0])
    result = CallSite(ADD)(x, 1, out=x)
    assert result is not x
    assert x.value.tolist() == [1, 2]


def test_a_door_is_opened_when_its_tensors_are_met() -> None:
    opened = []

    def door() -> None:
        opened.append(1)
        base.adapters[Foreign] = _Adapter()

    base.door_hooks[Foreign.__module__.partition(".")[0]] = door
    try:
        assert base.is_tensor(Foreign(1))
        assert base.is_tensor(FurtherForeign(1))
        assert opened == [1]
    finally:
        base.door_hooks.pop(Foreign.__module__.partition(".")[0], None)
        for tp in (Foreign, FurtherForeign):
            base.adapters.pop(tp, None)


def test_specs_have_no_data() -> None:
    with pytest.raises(Decline):
        CallSite(ADD)(TensorSpec((2,)), TensorSpec((2,)))
    with pytest.raises(ValueError, match="no dtype"):
        TensorSpec((2,), "float31")


# --- devices -------------------------------------------------------------------------------------


def test_devices() -> None:
    x = np.ones((2, 3), np.float32)
    assert cpu.put(x) is x
    assert cpu.describe()["cores"] >= 1
    gpu = NullDevice()
    assert gpu.put(x) == TensorSpec((2, 3), "float32", "cuda:0")
    assert (gpu.memory, gpu.describe()["present"]) == ("device", False)
