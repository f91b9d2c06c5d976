"""Notes of calls that took long, as machine code writes them: start, duration, record of the site, thread.

A head holds the bound and the address of the page in use. Whoever takes the notes away puts an empty page in its place, which is
one write under the interpreter's lock, so none is lost between.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from typing import Any, Final

import numpy as np

from ... import locks
from . import offsets as c

NEVER: Final = c.N_NEVER
ROOM: Final = 16384

sites: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by the address of their record


class _Notes:
    def __init__(self) -> None:
        self.page = _page()
        self.head = ctypes.create_string_buffer(struct.pack("<qq", NEVER, ctypes.addressof(self.page)))
        self.lock = locks.lock()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.head))  # machine code may look at it when this module has gone


def _page() -> Any:
    page = ctypes.create_string_buffer(c.N_FIRST + c.NOTE_SIZE * ROOM)
    struct.pack_into("<qq", page, 0, 0, ROOM)
    return page


@locks.once
def _notes() -> _Notes:
    return _Notes()


def head() -> int:
    """The address of the notes' head."""
    return ctypes.addressof(_notes().head)


def set_bound(bound_ns: int) -> None:
    """Note calls that take at least so long from now on; `NEVER`: none."""
    struct.pack_into("<q", _notes().head, c.N_BOUND, bound_ns)


def fill() -> float:
    """How full the page is, from 0 to 1."""
    count: int = struct.unpack_from("<q", _notes().page, c.N_COUNT)[0]
    return count / ROOM


def take() -> Any:
    """The notes up to now, an array of rows (start_ns, duration_ns, address of the record, thread); they are gone then."""
    found = _notes()
    with found.lock:
        full, fresh = found.page, _page()
        struct.pack_into("<q", found.head, c.N_PAGE, ctypes.addressof(fresh))  # one write: a call notes before it or after it
        found.page = fresh
        count = struct.unpack_from("<q", full, c.N_COUNT)[0]
        return np.frombuffer(full, np.int64, 4 * count, c.N_FIRST).reshape(count, 4).copy()
