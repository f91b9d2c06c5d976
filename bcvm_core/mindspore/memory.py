"""The memory of MindSpore tensors as NumPy arrays, and back: no element is copied either way.

`view` gives an array over a tensor's own memory; it keeps the tensor alive and writes through.
`wrap` gives a tensor over an array's memory. An array that is a view of a tensor becomes a
MindSpore view of that tensor (which shares the storage and its lifetime), as MindSpore's own
reshape or transpose would give.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import mindspore as ms
import numpy as np
from mindspore.ops.auto_generate import as_strided

from .. import dtypes
from ..errors import Decline
from ..ops.order import channels_innermost

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]

TO_NUMPY: dict[Any, DType] = {getattr(ms, row.name if row.name != "bool" else "bool_"): row.numpy for row in dtypes.TABLE}
FROM_NUMPY: dict[DType, Any] = {numpy: mindspore for mindspore, numpy in TO_NUMPY.items()}
NAMES: dict[Any, str] = {mindspore: dtypes.BY_NUMPY[numpy].name for mindspore, numpy in TO_NUMPY.items()}

HOST = frozenset(("CPU", "CPU:0"))
_LIBRARY = ms.Tensor.__mro__[1]  # MindSpore's native class, whose methods the ones of Tensor call
data_ptr = getattr(_LIBRARY, "_data_ptr", ms.Tensor.data_ptr)
from_contiguous = getattr(_LIBRARY, "from_numpy", ms.Tensor.from_numpy)
"""A tensor over the memory of an array that is contiguous in C's order."""


def _host_only() -> bool:
    try:
        return not any(map(ms.hal.is_available, ("Ascend", "GPU")))
    except (AttributeError, ValueError, RuntimeError):  # another release
        return False


HOST_ONLY = _host_only()
"""Whether this MindSpore knows no device but the host, so that no tensor needs to be asked where it lies."""

_MAX_DIMS = 8  # of MindSpore's views


Anywhere: Any = ctypes.c_char * (1 << 62)  # memory of unknown length


class _Memory(Anywhere):  # type: ignore[misc]
    """A tensor's memory from its first element on; the array's `base`, so the tensor lives as long as the array.

    The length says nothing: an array over it is bounded by its own shape and strides.
    """

    tensor: Any


class Held:
    """A MindSpore tensor within a flat program: its memory as an array. It becomes a tensor when it leaves the program.

    To the ops it is a tensor like any other; making one costs nothing, while a MindSpore view costs up to a millisecond.
    """

    __slots__ = ("array", "tensor", "is_view")

    def __init__(self, array: Array, tensor: Any = None) -> None:
        self.array = array
        self.tensor = tensor  # the tensor that came in, which goes out again as itself
        self.is_view = tensor is not None  # else the array may lie in memory otherwise than MindSpore's tensor would

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def dtype(self) -> Any:
        return FROM_NUMPY[self.array.dtype]

    def is_contiguous(self) -> bool:
        return not self.is_view or self.array.flags.c_contiguous

    def to_tensor(self) -> Any:
        """The tensor: the one that came in, or one made now (once)."""
        if self.tensor is None:
            self.tensor = _show(self.array) if self.is_view else wrap(self.array)
        return self.tensor


TENSORS = (ms.Tensor, Held)


class _Within(threading.local):
    program = False


within = _Within()
"""`within.program`: a flat program runs in this thread, so that results are held."""


def view(tensor: Any) -> Array:
    """An array over the tensor's memory, with its shape, strides and offset; waits for pending work on it.

    Raises Decline for tensors that are not in the host's memory and for element types that BCVM does not know.
    """
    if type(tensor) is Held:
        return tensor.array
    numpy = TO_NUMPY.get(tensor.dtype)
    if numpy is None:
        raise Decline(f"MindSpore tensors of type {tensor.dtype} are left to MindSpore")
    if not HOST_ONLY and tensor.device not in HOST:
        raise Decline(f"a tensor on {tensor.device} is left to MindSpore")
    shape = tensor.shape
    pointer = data_ptr(tensor)
    if not pointer:
        if 0 in shape:
            return np.empty(shape, numpy)
        raise Decline("a tensor without memory (lazily initialised) is left to MindSpore")
    memory = _Memory.from_address(pointer)
    memory.tensor = tensor
    if tensor.is_contiguous():
        return np.ndarray(shape, numpy, memory)
    size = numpy.itemsize
    return np.ndarray(shape, numpy, memory, 0, tuple(step * size for step in tensor.stride()))


def owner(array: Array) -> Any:
    """The tensor whose memory the array shows, or None when the memory is the array's own."""
    base: Any = array.base
    while type(base) is np.ndarray:
        base = base.base
    return base.tensor if type(base) is _Memory else None


def wrap(array: Array) -> Any:
    """A tensor with the array's elements.

    It shares the memory, except where MindSpore can't show it: element types reinterpreted, steps
    backwards, and arrays of NumPy's own that are not contiguous, whose copy is contiguous as
    MindSpore's own results are.
    """
    if within.program:
        return Held(array)
    source = owner(array)
    if source is None or not array.size:
        return ms.Tensor.from_numpy(array)
    return _within(array, source)


def _within(array: Array, source: Any) -> Any:
    """A MindSpore view of the tensor whose memory the array shows; a copy where MindSpore has no such view."""
    size = array.itemsize
    steps = list(array.strides)
    for axis in range(array.ndim - 1, -1, -1):
        if array.shape[axis] == 1 and not steps[axis]:  # NumPy's new axes; MindSpore's step over the rest
            steps[axis] = steps[axis + 1] * array.shape[axis + 1] if axis + 1 < array.ndim else size
    if array.ndim > _MAX_DIMS or TO_NUMPY[source.dtype] != array.dtype or any(s < 0 or s % size for s in steps):
        return ms.Tensor.from_numpy(array.copy())
    moved, rest = divmod(array.ctypes.data - source.data_ptr(), size)
    if rest:
        return ms.Tensor.from_numpy(array.copy())
    return as_strided(source, array.shape, tuple(s // size for s in steps), source.storage_offset() + moved)


def _root(array: Array) -> Array:
    """The array whose memory this one shows."""
    while type(array.base) is np.ndarray:
        array = array.base
    return array


def _show(array: Array) -> Any:
    """As `wrap`, for what MindSpore would give as a view of an earlier result: in the memory of that result, as it lies there."""
    root = _root(array)
    if type(root.base) is _Memory or root is array or not array.size or not root.flags.c_contiguous or root.dtype != array.dtype:
        return wrap(array)
    if array.flags.c_contiguous and array.ctypes.data == root.ctypes.data:
        return ms.Tensor.from_numpy(array)
    return _within(array, ms.Tensor.from_numpy(root))


def lay_out(operands: Any) -> None:
    """Before a view is made of them, results lie in memory as MindSpore's would."""
    for value in operands:
        if type(value) is Held and not value.is_view and not value.array.flags.c_contiguous:
            value.array = np.ascontiguousarray(value.array)


def make_plain(operands: Any) -> None:
    """Results whose channels lie innermost, also those within sequences, are brought into plain order."""
    for value in operands:
        if type(value) is Held:
            if not value.is_view and channels_innermost(value.array):
                value.array = np.ascontiguousarray(value.array)
        elif type(value) in (tuple, list):
            make_plain(value)


def note_views(operands: Any, results: Any) -> None:
    """Mark those results that show the memory of the first operand."""
    if not operands or type(operands[0]) is not Held:
        return
    root = _root(operands[0].array)
    for result in results if type(results) in (tuple, list) else (results,):
        if type(result) is Held and _root(result.array) is root:
            result.is_view = True
