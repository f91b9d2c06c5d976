"""oneDNN's parts on our threads: the object that a library with the thread-pool runtime asks to run them.

It is a C++ object with virtual functions; here a table of callbacks. A call runs in one of the workers and the caller only waits, so
that an interrupt, which Python raises in the caller's code, never leaves parts undone. How many parts there are is fixed
(`library.SLICES`), so results do not depend on how many threads take them.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from ctypes import c_int, c_uint64, c_void_p
from typing import Any, Final

from ..stencils import threads
from .library import SLICES, Library

_INVOKER_AT: Final = 24  # in libstdc++'s std::function: 16 bytes of data, the manager, the invoker
_INVOKE: Final = ctypes.CFUNCTYPE(None, c_void_p, ctypes.POINTER(c_int), ctypes.POINTER(c_int))
_COUNT: Final = ctypes.CFUNCTYPE(c_int, c_void_p)
_IS: Final = ctypes.CFUNCTYPE(ctypes.c_bool, c_void_p)
_FOR: Final = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)
_FLAGS: Final = ctypes.CFUNCTYPE(c_uint64, c_void_p)
_NOTHING: Final = ctypes.CFUNCTYPE(None, c_void_p)


class _Inside(threading.local):
    part = False


_inside = _Inside()


def _parallel_for(_self: Any, count: int, function: int) -> None:
    """Call function(k, count) for every k below count."""
    invoke = _INVOKE(c_void_p.from_address(function + _INVOKER_AT).value or 0)

    def part(k: int) -> None:
        outer, _inside.part = _inside.part, True
        try:
            invoke(function, ctypes.byref(c_int(k)), ctypes.byref(c_int(count)))
        finally:
            _inside.part = outer

    threads.workers.run(part, range(count), threads.cores())


@functools.cache
def _pool() -> tuple[int, Any]:
    """(address of the object, what keeps it alive); its functions in the order in which oneDNN declares them."""
    functions = (
        _COUNT(lambda _self: SLICES),
        _IS(lambda _self: _inside.part),
        _FOR(_parallel_for),
        _FLAGS(lambda _self: 0),  # calls return when all is done
        _NOTHING(lambda _self: None),  # wait, or a destructor, which nobody calls
        _NOTHING(lambda _self: None),
        _NOTHING(lambda _self: None),
    )
    table = (c_void_p * len(functions))(*[ctypes.cast(f, c_void_p).value for f in functions])
    thing = (c_void_p * 1)(ctypes.addressof(table))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(functions))  # streams may outlive this module
    return ctypes.addressof(thing), (thing, table, functions)


@functools.cache
def stream(library: Library) -> c_void_p | None:
    """A stream whose parts run on our threads; None where the library has no place for it."""
    if not library.has_pool:
        return None
    return library.made(library.threadpool_interop_stream_create, library.engine, _pool()[0])


def run(library: Library, call: Any) -> None:
    """`call(stream)` with the parts on several threads where there are several cores, else with the library's own stream."""
    several = stream(library) if threads.cores() > 1 else None
    if several is None or not threads.workers.apart(lambda: call(several), threads.cores()):
        call(library.stream)
