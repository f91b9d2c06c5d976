"""Tensors without data: enough to lower, verify and list programs for hardware that is not here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import Decline
from ..isa.signature import OperandClass
from ..ops.registry import OpInfo
from . import base


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor's outside. `dtype` is a name of the dtype table; `layout` overrides what the shape says."""

    shape: tuple[int, ...]
    dtype_name: str = "float32"
    device: str = "cpu:0"
    layout: str | None = None

    def __post_init__(self) -> None:
        if self.dtype_name not in dtypes.BY_NAME:
            raise ValueError(f"no dtype {self.dtype_name!r}; known: {', '.join(dtypes.BY_NAME)}")

    @property
    def dtype(self) -> np.dtype[Any]:
        return dtypes.BY_NAME[self.dtype_name].numpy

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def memory(self) -> str:
        return "host" if self.device.startswith("cpu") else "device"


class _SpecAdapter:
    """Classifies specs; there is nothing to run."""

    def classify(self, value: TensorSpec) -> OperandClass:
        return base.operand_class(value.dtype_name, value.layout or "contiguous", value.memory)

    def array(self, value: TensorSpec) -> np.ndarray[Any, Any]:
        raise Decline("a tensor specification has no data")

    def call(self, op: OpInfo, kernel_call: Callable[..., Any], operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        raise Decline("a tensor specification has no data to run on")

    def fused(self, kernel: Callable[..., Any], rows: bool = False) -> Callable[..., Any]:
        return lambda *values: None

    def direct(self, region: Callable[..., Any], entry: Any, tensors: Sequence[Any], guards: Sequence[Any], in_tuple: bool) -> base.Direct:
        raise ValueError("a tensor specification has no data to run on")


class NullDevice:
    """A device of which only the name and the memory type exist."""

    def __init__(self, name: str = "cuda:0") -> None:
        self.name = name
        self.memory = "host" if name.startswith("cpu") else "device"

    def put(self, value: Any) -> TensorSpec:
        """The outside of `value`, as a tensor of this device."""
        dtype = dtypes.name_of(np.dtype(value.dtype))
        if dtype is None:
            raise Decline(f"tensors of dtype {value.dtype} are left to Python")
        return TensorSpec(tuple(value.shape), dtype, self.name)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "present": False}


base.adapters[TensorSpec] = _SpecAdapter()
