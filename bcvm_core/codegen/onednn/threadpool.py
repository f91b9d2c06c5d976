"""oneDNN's parts on our threads: the object that a library with the thread-pool runtime asks to run them.

It is a C++ object with virtual functions; here a table of the native functions of `stencils/crew_code.py`, so a call never comes back to
Python before all is done, whatever interrupts it. How many parts there are is fixed (`library.SLICES`), so results do not depend on how
many threads take them.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from ctypes import c_int64, c_void_p
from typing import Final

from ..stencils import crew as crews
from ..stencils.crew_code import POOL_COUNT, POOL_CREW, POOL_PART
from ..stencils.driver import driver
from .columns import Run
from .library import SLICES, Library

_RATE: Final = 100.0  # operations of a convolution per nanosecond, on one core
# In the order in which oneDNN declares them: how many parts, whether this is one, run them, flags (0: calls return when all is done), wait,
# and two destructors, which nobody calls.
_FUNCTIONS: Final = ("pool_count", "pool_inside", "pool_for", "pool_nothing", "pool_nothing", "pool_nothing", "pool_nothing")


class _Pool:
    """The object, and the stream that uses it; `set(crew)` before each use."""

    def __init__(self, library: Library) -> None:
        native = driver().addresses
        table = (c_int64 * len(_FUNCTIONS))(*[native[name] for name in _FUNCTIONS])
        self._object = (c_int64 * 4)(ctypes.addressof(table))
        self._object[POOL_COUNT // 8] = SLICES
        self._object[POOL_PART // 8] = native["pool_part"]
        ctypes.pythonapi.Py_IncRef(ctypes.py_object((table, self._object)))  # streams may outlive this module
        self.stream: c_void_p = library.made(library.threadpool_interop_stream_create, library.engine, ctypes.addressof(self._object))

    def set(self, crew: int) -> None:
        """Parts run by this crew from now on."""
        self._object[POOL_CREW // 8] = crew


@functools.cache
def _pool(library: Library) -> _Pool:
    return _Pool(library)


def stream(library: Library) -> c_void_p | None:
    """A stream whose parts run on our threads; None where the library has no place for it, or there is no native code yet."""
    return _pool(library).stream if library.has_pool and driver().addresses else None


def run(library: Library, primitive: Run, places: Sequence[int], operations: float) -> bool | None:
    """`primitive(places)` with its parts on several threads where that is worth it, else in this one. Raises OneDNNError."""
    if not library.has_pool:
        with library.limits(1):
            return primitive(places)
    crew = crews.crew
    if not crew.worth(operations / _RATE):
        return primitive(places)
    pool = _pool(library)
    pool.set(crew.block)
    return primitive(places, pool.stream)
