"""The native entry of a kernel: a function of the interpreter made of generated code.

It reads array objects and calls the interpreter by address, so everything it relies on is checked
once against real objects; where something differs, `entry_for` gives the kernel's Python call.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from . import offsets as c
from .driver import driver
from .kernel import FusedKernel, underflow_ignored
from .recycle import numpy_function, recycling

_FASTCALL: Final = 0x80
_RETURN_INDEX: Final = 76  # PyArray_Return
_EMPTY_INDEX: Final = 184  # PyArray_Empty in NumPy's table of functions


class MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_kept: list[Any] = []  # what native code refers to for ever


def _address(name: str) -> int:
    found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert found is not None
    return found


def _layout_holds() -> bool:
    """Whether objects are laid out as the generated code takes them to be."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    probe = np.arange(24, dtype=np.float32).reshape(4, 6)[1:3, ::2]
    at = id(probe)
    word = ctypes.c_uint64.from_address
    dims, strides = word(at + c.DIMS).value, word(at + c.STRIDES).value
    code = bytes(range(40, 60))
    return (
        word(at + c.TYPE).value == id(np.ndarray)
        and word(at + c.DATA).value == probe.__array_interface__["data"][0]
        and ctypes.c_int32.from_address(at + c.NDIM).value == 2
        and [word(dims + 8 * k).value for k in range(2)] == list(probe.shape)
        and [word(strides + 8 * k).value for k in range(2)] == list(probe.strides)
        and word(at + c.DESCR).value == id(probe.dtype)
        and ctypes.c_int32.from_address(at + c.FLAGS).value & 3 == 0
        and ctypes.c_int32.from_address(id(np.ones(3)) + c.FLAGS).value & 3 == 3
        and ctypes.c_int32.from_address(id(np.ones((2, 3))) + c.FLAGS).value & 3 == 1
        and ctypes.c_int32.from_address(id(np.ones((2, 3), order="F")) + c.FLAGS).value & 3 == 2
        and ctypes.string_at(id(code) + c.BYTES_HEAD, len(code)) == code
    )


def _allocation_works(function: int) -> bool:
    """Whether the function at an address makes empty arrays."""
    dims = (ctypes.c_int64 * 2)(3, 5)
    dtype = np.dtype(np.float32)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(function)
    for order, flag in ((0, "c_contiguous"), (1, "f_contiguous")):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))
        made = make(2, ctypes.addressof(dims), id(dtype), order)
        if type(made) is not np.ndarray or made.shape != (3, 5) or made.dtype is not dtype or not getattr(made.flags, flag):
            return False
    return True


def _scalars_work(function: int) -> bool:
    """Whether the function at an address takes a reference to an array without axes and makes a scalar of it."""
    probe = np.array(2.5, np.float32)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(probe))
    made = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(function)(id(probe))
    return type(made) is np.float32 and made == probe and sys.getrefcount(probe) == 2


@cache
def runtime() -> int:
    """The address of the block of addresses; 0 where native entries can't be made."""
    try:
        if not (_layout_holds() and _allocation_works(numpy_function(_EMPTY_INDEX)) and _scalars_work(numpy_function(_RETURN_INDEX))):
            return 0
        values = (
            id(np.ndarray),
            numpy_function(_EMPTY_INDEX),
            id(None),
            id(True),
            _address("Py_IncRef"),
            _address("Py_DecRef"),
            _address("PyObject_Vectorcall"),
            _address("PyTuple_New"),
            _address("PyTuple_SetItem"),
            _address("PyEval_SaveThread"),
            _address("PyEval_RestoreThread"),
            *recycling(),
            numpy_function(_RETURN_INDEX),
        )
    except (AttributeError, ValueError, TypeError, AssertionError):
        return 0
    block = ctypes.create_string_buffer(struct.pack("<14q", *values))
    _kept.append(block)
    return ctypes.addressof(block)


@cache
def method_at(name: bytes, function: int, doc: bytes, flags: int = _FASTCALL) -> int:
    """The address of the interpreter's description of a native function, kept for ever."""
    definition = MethodDef(name, function, flags, doc)
    _kept.append(definition)
    return ctypes.addressof(definition)


class _Held:
    """What the entry of a kernel refers to, kept as long as the function lives (it is the function's module)."""

    __slots__ = ("kernel", "codes", "descriptor", "slow")

    def __init__(self, kernel: FusedKernel) -> None:
        self.codes = list(kernel.codes.values())
        self.kernel = (kernel.constants, kernel.inputs, kernel.outputs)
        self.slow = _Slow(kernel)
        self.descriptor = _descriptor(kernel, self.slow, self)
        self.slow.descriptor = self.descriptor


class _Slow:
    """Takes the calls that the native code does not, and teaches it new patterns."""

    __slots__ = ("call", "codes", "descriptor", "__weakref__")

    def __init__(self, kernel: FusedKernel) -> None:
        self.call = kernel.call
        self.codes = kernel.codes
        self.descriptor: bytes | None = None

    def __call__(self, *arrays: Any) -> Any:
        known = len(self.codes)
        result = self.call(*arrays)
        if len(self.codes) != known and self.descriptor is not None:
            _write_codes(self.descriptor, self.codes)
        return result


@cache
def _packer(words: int) -> Callable[..., bytes]:
    return struct.Struct(f"<{words}q").pack


def _descriptor(kernel: FusedKernel, slow: _Slow, held: _Held) -> bytes:
    words = [
        len(kernel.inputs),
        len(kernel.outputs),
        runtime(),
        ctypes.addressof(kernel.constants),
        id(slow),
        id(underflow_ignored),
        kernel.limit,
        kernel.release,
        id(held),
        *_code_words(kernel.codes),
    ]
    for dtype in kernel.inputs:
        words += (id(dtype), dtype.itemsize)
    for dtype in kernel.outputs:
        words += (id(dtype), dtype.itemsize)
    return _packer(len(words))(*words)


def _code_words(codes: dict[int, Any]) -> list[int]:
    """The kernel's codes as a descriptor holds them: how many, then each, the one without repeated inputs first."""
    masks = sorted(codes)[: c.CODES_MAX] if len(codes) > 1 else codes
    words = [len(masks)]
    for mask in masks:
        code = codes[mask]
        words += (mask, code.address, code.context_bytes)
    words += [0] * ((c.D_OPERANDS - c.D_CODES) // 8 - len(words))
    return words


def _write_codes(descriptor: bytes, codes: dict[int, Any]) -> None:
    """Let the native code know of new codes (the interpreter's lock is held, so no call is looking)."""
    words = _code_words(codes)
    block = _packer(len(words))(*words)
    ctypes.memmove(id(descriptor) + c.BYTES_HEAD + c.D_CODES, block, len(block))


new_function: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def entry_for(kernel: FusedKernel) -> Callable[..., Any]:
    """The fastest function `(*arrays)` for a kernel."""
    if not runtime() or len(kernel.inputs) + len(kernel.outputs) > 16 or not driver().entry:
        return kernel.call
    held = _Held(kernel)
    method = method_at(b"fused", driver().entry, b"A fused kernel: arrays in, a fresh array out, or None.")
    function: Callable[..., Any] = new_function(method, held.descriptor, held)
    return function
