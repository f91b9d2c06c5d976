"""What handlers share: MindSpore values as arrays and numbers, results as MindSpore values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mindspore as ms
import numpy as np

from .. import dtypes
from ..errors import Decline
from . import memory
from .memory import Array, DType

Kernel = Callable[..., Any]
Handler = Callable[[Kernel, Sequence[Any], dict[str, Any], str], Any]
"""(kernel, operands, attributes, dialect) -> result; may raise Decline."""

INT32, INT64, FLOAT32 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float32)
_LIMITS = {row.numpy: (int(np.iinfo(row.numpy).min), int(np.iinfo(row.numpy).max)) for row in dtypes.TABLE if row.kind in ("int", "uint")}
BFLOAT16 = dtypes.BY_NAME["bfloat16"].numpy


def wrap(result: Any, dtype: DType | None = None) -> Any:
    """What a kernel returned, as MindSpore values; arrays are converted to `dtype` first when it is given."""
    if isinstance(result, tuple | list):
        return tuple(wrap(item, dtype) for item in result)
    if isinstance(result, np.generic):
        result = np.asarray(result)
    if not isinstance(result, np.ndarray):
        return result
    if dtype is not None and result.dtype != dtype:
        result = result.astype(dtype)
    return memory.wrap(result)


def numpy_dtype(dtype: Any) -> DType:
    """The NumPy type of a dtype argument (MindSpore's, NumPy's, a name, a Python type). Raises Decline for others."""
    found = memory.TO_NUMPY.get(dtype) if isinstance(dtype, ms.Type) else None
    if found is None:
        try:
            found = np.dtype(dtype)
        except TypeError:
            raise Decline(f"the type {dtype!r} is left to MindSpore") from None
    if found not in memory.FROM_NUMPY:
        raise Decline(f"the type {dtype!r} is left to MindSpore")
    return found


def scalar(value: bool | int | float, dtype: DType) -> Any:
    """A Python number as MindSpore sees it: a float is a float32 number. Raises Decline for integers that do not fit."""
    if type(value) is float:
        return np.float32(value).astype(dtype)
    limits = _LIMITS.get(dtype, _LIMITS[INT64])
    if not limits[0] <= value <= limits[1]:
        raise Decline("an integer beyond the range of the tensor's type is left to MindSpore")
    return np.array(value, np.int64 if type(value) is int else np.bool_).astype(dtype)[()]


def tensor(value: Any) -> Array:
    if not isinstance(value, memory.TENSORS):
        raise Decline("the first operand is no MindSpore tensor")
    return memory.view(value)


def only(attrs: dict[str, Any], *names: str) -> dict[str, Any]:
    """The attributes called `names`; raises Decline when others were given a value."""
    if any(name not in names for name in attrs):
        raise Decline("an argument that is left to MindSpore")
    return attrs


def wide(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == BFLOAT16 else array
