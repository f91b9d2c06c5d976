"""A native function in the place of a region: it checks what the region would check, then calls the kernel.

Made of generated code over a *record* (`site_code.py`). Whatever it does not know it hands to
the region: other types, sizes that vary for the first time (for hints), a tracing debugger, a switched-off VM.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from ... import config
from . import notes
from . import offsets as c
from .driver import driver
from .entry import _address, method_at, runtime

_always: Final = ctypes.c_int64(config.OFF)  # in the place of `config.plain`: everything is the region's
_LOOKS: Final = 16  # ways in which shapes vary that are told to the region before it is left alone with them


class _Record(bytes):
    """The memory of a site. Pickled by value, it is a stranger to whatever process it arrives in: plain Python runs there."""

    def __reduce__(self) -> Any:
        return _Nothing, ()


class _Nothing:
    """What a site is elsewhere: its attribute is a function that leaves everything to Python."""

    @staticmethod
    def site(*_args: Any) -> None:
        return None


assert c.WATCHED == config.WATCHED


@cache
def _clock() -> int:
    """The address of the system's clock."""
    found = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
    assert found is not None
    return found


@cache
def _trace_offset() -> int:
    """Where a thread state keeps the function given to `sys.settrace`; -1 where it was not found."""
    if sys.implementation.name != "cpython" or sys.gettrace() is not None:
        return -1
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p

    def trace(*_args: Any) -> None:
        return None

    state = get()
    sys.settrace(trace)
    found = [offset for offset in range(0, 512, 8) if ctypes.c_uint64.from_address(state + offset).value == id(trace)]
    sys.settrace(None)
    if len(found) != 1 or ctypes.c_uint64.from_address(state + found[0]).value:
        return -1
    return found[0]


@cache
def _ident_offset() -> int:
    """Where a thread state keeps the number that `threading.get_ident` gives; the one of a field that is always there otherwise."""
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    state, ident = get(), threading.get_ident()
    return next((offset for offset in range(0, 512, 8) if ctypes.c_uint64.from_address(state + offset).value == ident), 0)


class NativeSite:
    """The native form of one region. `function` goes where the region was; `hits` counts what it ran itself."""

    def __init__(self, region: Callable[..., Any], entry: Any, arrays: Sequence[Any], guards: Sequence[Any], in_tuple: bool) -> None:
        """`entry`: of a kernel for arrays like these, as `entry_for` makes it. Raises ValueError where a native form is not to be had."""
        if not available(entry) or len(arrays) > c.INPUTS_MAX or len(guards) > c.GUARDS_MAX:
            raise ValueError("no native form")
        self.region = region
        self.entry = entry
        self.owner: Any = None  # whose kernel it runs, and the hits before it did
        self.base = 0
        self.guards = tuple(guards)
        self.record = _Record(c.S_SIZE)
        self._write(
            (c.S_PLAIN, ctypes.addressof(config.plain)),
            (c.S_THREAD, _address("PyThreadState_Get")),
            (c.S_TRACE, _trace_offset()),
            (c.S_REGION, id(region)),
            *_kernel_words(entry),
            (c.S_INPUTS, len(arrays)),
            (c.S_GUARDS, len(guards)),
            (c.S_TUPLE, int(in_tuple)),
            (c.S_LOOKS, _LOOKS),
            (c.S_RUNTIME, runtime()),
            (c.S_CLOCK, _clock()),
            (c.S_NOTES, notes.head()),
            (c.S_IDENT, _ident_offset()),
            *((c.S_GUARD + 8 * k, id(guard)) for k, guard in enumerate(guards)),
        )
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
        self.function: Callable[..., Any] = make(method_at(b"site", driver().site, b"A region in machine code."), self.record, self)
        notes.sites[id(self.record) + c.BYTES_HEAD] = self

    def _write(self, *values: tuple[int, int]) -> None:
        at = id(self.record) + c.BYTES_HEAD
        for offset, value in values:
            ctypes.c_int64.from_address(at + offset).value = value

    def know(self, before: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> None:
        """Note the shapes that the region has seen last, so that it is not asked for them; sizes that differ from those `before` vary."""
        for k, shape in enumerate(shapes):
            old = before[k] if k < len(before) else None
            known = old if old is not None and len(old) == len(shape) else shape
            sizes = [size if size == known[d] else c.VARIES for d, size in enumerate(shape[: c.SHAPE_DIMS])]
            at = c.S_SHAPES + c.SHAPE_SIZE * k
            self._write((at, len(shape)), *((at + 8 + 8 * d, size) for d, size in enumerate(sizes)))

    @property
    def timed(self) -> tuple[int, int, int, int]:
        """Of the calls that machine code has timed: (how many, what they took in all, the latest, the longest), in nanoseconds."""
        calls, total, last, longest = struct.unpack_from("<4q", self.record, c.S_TIMED)
        return calls, total, last, longest

    @property
    def hits(self) -> int:
        """Runs of the kernel by this function."""
        return int(struct.unpack_from("<q", self.record, c.S_HITS)[0])

    @property
    def running(self) -> int:
        """Calls that are in the kernel now."""
        return int(struct.unpack_from("<q", self.record, c.S_RUNNING)[0])

    def use(self, entry: Any) -> None:
        """Run another kernel from now on. A call that has given the lock away holds on to the one that it is in."""
        if entry is not self.entry and available(entry):
            self._write(*_kernel_words(entry), (c.S_PLAIN, ctypes.addressof(config.plain)))
            self.entry = entry

    def drop(self) -> bool:
        """Leave all calls to the region until `use`; False, and nothing is done, while a call is in the kernel."""
        self._write((c.S_PLAIN, ctypes.addressof(_always)))  # no call begins from here on
        if self.running:
            self._write((c.S_PLAIN, ctypes.addressof(config.plain)))
            return False
        self.entry = None
        return True


def _kernel_words(entry: Any) -> tuple[tuple[int, int], ...]:
    """What a record says of the kernel: its memory, and the function that runs it where that is not `entry` of the driver."""
    return (c.S_KERNEL, id(entry.__self__)), (c.S_CHAIN, driver().addresses["chain"] if entry.__name__ == "chain" else 0)


def available(entry: Any) -> bool:
    """Whether a native form can be made around a kernel's entry."""
    if not isinstance(getattr(entry, "__self__", None), bytes):  # the kernel's Python call, where there is no native one
        return False
    return bool(driver().site) and bool(runtime()) and _trace_offset() >= 0
