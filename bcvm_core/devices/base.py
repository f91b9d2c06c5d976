"""Operand classes of run-time values, and the doors through which foreign tensors come in.

A value is classified by what kernels care about: element type, layout, memory; never by its shape.
Values that BCVM leaves to Python (array subclasses, object and text arrays, foreign byte order,
unknown types) raise `errors.Decline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .. import dtypes
from ..errors import Decline
from ..isa.signature import OperandClass
from ..ops.registry import OpInfo

_PYTHON_CLASSES: dict[type, str] = {bool: "pybool", int: "pyint", float: "pyfloat", complex: "pycomplex"}
# NumPy converts these the same way whoever calls, or they are indices.
_PLAIN_OBJECTS: tuple[type, ...] = (list, tuple, type(None), slice, type(Ellipsis), str, range)

_classes: dict[tuple[str, str, str], OperandClass] = {}


def operand_class(dtype: str, layout: str, memory: str = "host") -> OperandClass:
    """One shared OperandClass per combination."""
    key = (dtype, layout, memory)
    found = _classes.get(key)
    if found is None:
        found = _classes.setdefault(key, OperandClass(dtype, layout, memory))
    return found


# --- foreign tensors ---------------------------------------------------------------------------


class Direct(Protocol):
    """A function in the place of a region that one kernel does whole; whatever it does not know, it hands to the region."""

    function: Callable[..., Any]
    owner: Any  # whose kernel it runs, None: nobody has said so; and the hits before it did
    base: int
    entry: Any  # of the kernel that it runs; None: none

    @property
    def hits(self) -> int:
        """Runs of the kernel by the function."""

    def use(self, entry: Any) -> None:
        """Run another kernel from now on."""

    def drop(self) -> bool:
        """Run none until `use`; False, and nothing is done, while a call is in the kernel."""


class TensorAdapter(Protocol):
    """How tensors of another library take part in CALL_OP."""

    def classify(self, value: Any) -> OperandClass:
        """The class of one foreign tensor."""

    def array(self, value: Any) -> np.ndarray[Any, Any]:
        """The memory of one foreign tensor as an array, not a copy. Raises Decline where there is none to show."""

    def call(self, op: OpInfo, kernel_call: Callable[..., Any], operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Unwrap (without copying), promote as the library does, run `kernel_call(*arrays, **attrs)`, wrap the result."""

    def fused(self, kernel: Callable[..., Any], rows: bool = False) -> Callable[..., Any]:
        """`kernel`, which takes arrays and gives arrays or None, as a function of the library's tensors; None where it must not run.

        `rows`: it reduces rows, so the order of axes matters to it.
        """

    def direct(self, region: Callable[..., Any], entry: Any, tensors: Sequence[Any], guards: Sequence[Any], in_tuple: bool) -> Direct:
        """The form in which `entry`, of a kernel, takes a region's place for tensors like these. Raises ValueError where there is none."""


adapters: dict[type, TensorAdapter] = {}
"""Adapters by exact type; doors fill it, `adapter_for` adds subclasses as they are met."""

makers: dict[str, TensorAdapter] = {}
"""Adapters by the `dialect` of a spelling: who runs a call that makes a tensor of its library out of no tensor."""

door_hooks: dict[str, Callable[[], object]] = {}
"""Top-level module name -> function that installs its adapters. Called once, when a value of that module is first met."""

_no_adapter: set[type] = set()


def adapter_for(tp: type) -> TensorAdapter | None:
    """The adapter of a type or of its nearest base class; opens the door of its module when there is one."""
    found = adapters.get(tp)
    if found is not None or tp in _no_adapter:
        return found
    for root in {base.__module__.partition(".")[0] for base in tp.__mro__} & door_hooks.keys():
        door_hooks.pop(root)()
    for base in tp.__mro__:
        if base in adapters:
            return adapters.setdefault(tp, adapters[base])
    if not door_hooks:  # a door that is still to come may bring one
        _no_adapter.add(tp)
    return None


def forget_unadapted() -> None:
    """Look again for adapters of types that had none; a door calls it after adding to `adapters`."""
    _no_adapter.clear()


# --- classes -----------------------------------------------------------------------------------


def is_tensor(value: Any) -> bool:
    """Whether BCVM takes `value` as a tensor: an exact ndarray, a NumPy scalar, or an adapted foreign tensor."""
    tp = type(value)
    return tp is np.ndarray or isinstance(value, np.generic) or adapter_for(tp) is not None


def memory_order(shape: Sequence[int], strides: Sequence[int], channels_last: bool) -> str:
    """Layout of a 4-D image operand; `channels_last` says which axis of `shape` holds the channels.

    The name is the order in memory: an NCHW-shaped view whose channels lie innermost is "NHWC".
    """
    nchw_axes = (0, 3, 1, 2) if channels_last else (0, 1, 2, 3)
    nhwc_axes = (0, 1, 2, 3) if channels_last else (0, 2, 3, 1)
    first, second = ("NHWC", "NCHW") if channels_last else ("NCHW", "NHWC")
    by_name = {"NCHW": nchw_axes, "NHWC": nhwc_axes}
    for name in (first, second):
        order = by_name[name]
        steps = [strides[axis] for axis in order if shape[axis] != 1]
        if all(a >= b for a, b in zip(steps, steps[1:], strict=False)):
            return name
    return "strided"


def classify(value: Any, *, broadcast: bool = False, image: str | None = None) -> OperandClass:
    """The class of one operand.

    `broadcast`: its shape is stretched to that of a wider operand. `image`: "NCHW" or "NHWC", how
    the axes of a 4-D image operand are to be read. Raises Decline for values left to Python.
    """
    tp = type(value)
    if tp is np.ndarray:
        name = dtypes.name_of(value.dtype)
        if name is None:
            raise Decline(f"arrays of dtype {value.dtype} are left to Python")
        if image is not None and value.ndim == 4:
            return operand_class(name, memory_order(value.shape, value.strides, image == "NHWC"))
        if broadcast:
            return operand_class(name, "broadcast")
        return operand_class(name, "contiguous" if value.flags.c_contiguous else "strided")
    python = _PYTHON_CLASSES.get(tp)
    if python is not None:
        return operand_class(python, "scalar")
    if isinstance(value, np.generic):
        name = dtypes.name_of(value.dtype) if type(value).__module__ in ("numpy", "ml_dtypes") else None
        if name is None:
            raise Decline(f"scalars of type {tp.__name__} are left to Python")
        return operand_class(name, "scalar")
    if tp in _PLAIN_OBJECTS:
        return operand_class("pyobject", "scalar")
    adapter = adapter_for(tp)
    if adapter is not None:
        return adapter.classify(value)
    raise Decline(f"values of type {tp.__module__}.{tp.__qualname__} are left to Python")


def stretched(shapes: Iterable[Sequence[int]]) -> tuple[bool, ...]:
    """For each shape, whether broadcasting against the others stretches it; False for all when they don't agree."""
    shapes = tuple(tuple(s) for s in shapes)
    width = max((len(s) for s in shapes), default=0)
    wide = [1] * width
    for shape in shapes:
        for axis, size in enumerate(shape, width - len(shape)):
            if size != 1:
                if wide[axis] not in (1, size):
                    return (False,) * len(shapes)
                wide[axis] = size
    target = tuple(wide)
    return tuple(shape != target for shape in shapes)


def _has_shape(tp: type) -> bool:
    """Whether values of a type are arrays or foreign tensors (others are asked nothing: that might run user code)."""
    return tp is np.ndarray or (not issubclass(tp, np.generic) and adapter_for(tp) is not None)


IMAGE_ATTRS = ("layout", "data_format")
"""Attributes by which conv-like ops say how the axes of an image operand are ordered."""


def classify_all(op: OpInfo, operands: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[OperandClass, ...]:
    """The classes of a call's operands (flattened where one is a sequence of tensors).

    Raises Decline for operands left to Python.
    """
    if op.shape_rule == "conv":
        image = next((attrs[name] for name in IMAGE_ATTRS if isinstance(attrs.get(name), str)), "NCHW")
        return tuple(classify(value, image=image) for value in operands)
    if op.shape_rule == "elementwise" and len(operands) > 1:
        shaped = [_has_shape(type(value)) for value in operands]
        marks = iter(stretched(value.shape for value, has_shape in zip(operands, shaped, strict=True) if has_shape))
        return tuple(
            classify(value, broadcast=next(marks)) if has_shape else classify(value)
            for value, has_shape in zip(operands, shaped, strict=True)
        )
    return tuple(classify(value) for value in operands)


# --- devices -----------------------------------------------------------------------------------


class Device(Protocol):
    """A place where tensors live and kernels run."""

    name: str  # "cpu:0"
    memory: str  # memory type of its tensors in signatures: "host", "device"

    def put(self, value: Any) -> Any:
        """`value` on this device; a tensor that is already here stays the same object."""

    def describe(self) -> dict[str, Any]:
        """Limits of the hardware, for cost decisions and listings."""
