"""Memory of large results that is used again: NumPy's allocator for them, in generated code.

Arrays own such memory as they own any other; when one goes, its block is kept for the next result
of about that size, up to `config.recycled_bytes` in all.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import Any, Final

import numpy as np

from ... import config
from ...locks import once
from . import offsets as c
from . import recycle_code as r
from .driver import driver

_SET_HANDLER_INDEX: Final = 304  # PyDataMem_SetHandler in NumPy's table of functions


@cache
def numpy_function(index: int) -> int:
    """The address of a function in NumPy's table."""
    module = (np._core if hasattr(np, "_core") else np.core)._multiarray_umath
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    table = get(module._ARRAY_API, None)
    found = ctypes.c_void_p.from_address(table + 8 * index).value
    assert found is not None
    return found


def recycling() -> tuple[int, int]:
    """(NumPy's function that chooses the allocator, ours), or zeros where large results are not recycled."""
    if config.current.recycled_bytes <= 0:
        return 0, 0
    try:
        return numpy_function(_SET_HANDLER_INDEX), id(_handler())
    except (AttributeError, KeyError, ValueError):
        return 0, 0


class _Allocator(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("pool", "malloc", "calloc", "realloc", "free"))


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = (("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator))


@once
def pool() -> Any:
    """The free blocks of large results: `recycle_code.py`."""
    libc = ctypes.CDLL(None)
    names = ("free", "aligned_alloc", "calloc", "realloc", "madvise")
    *functions, advise = [ctypes.cast(getattr(libc, name), ctypes.c_void_p).value for name in names]
    usable = getattr(libc, "malloc_usable_size", None)
    block = ctypes.create_string_buffer(r.P_BLOCKS + 16 * (r.BLOCKS_MAX + 1))
    struct.pack_into("<5q", block, 0, *functions, config.current.recycled_bytes)
    struct.pack_into("<2q", block, r.P_ADVISE, advise, ctypes.cast(usable, ctypes.c_void_p).value or 0 if usable is not None else 0)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(block))  # arrays may outlive this module
    return block


@once
def _handler() -> Any:
    """NumPy's description of the allocator."""
    found = driver().addresses
    functions = (found[f"block_{name}"] for name in ("malloc", "calloc", "realloc", "free"))
    handler = _Handler(b"bcvm", 1, _Allocator(ctypes.addressof(pool()), *functions))
    name = ctypes.create_string_buffer(b"mem_handler")
    for kept in (handler, name):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))  # arrays may outlive this module
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
    return make(ctypes.addressof(handler), ctypes.addressof(name), None)


@cache
def _set_handler() -> Any:
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(numpy_function(_SET_HANDLER_INDEX))


def empty(shape: tuple[int, ...] | list[int], dtype: Any) -> Any:
    """`numpy.empty`, in recycled memory where the array is large."""
    size = dtype.itemsize
    for dim in shape:
        size *= dim
    if not c.RECYCLED_MIN <= size <= c.RECYCLED_MAX or not recycling()[0]:
        return np.empty(shape, dtype)
    choose = _set_handler()
    before = choose(_handler())
    try:
        return np.empty(shape, dtype)
    finally:
        choose(before)


def figures() -> dict[str, int]:
    """What is held now: bytes and blocks; and how often a block was used again."""
    held, count, reused = struct.unpack_from("<3q", pool(), r.P_HELD)
    return {"held_bytes": held, "blocks": count, "reused": reused}
