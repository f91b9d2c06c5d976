"""The short way to kernels over rows: calls as they were made before go from the call to the machine code, attributes and all.

`Direct.function(x, **attrs)` gives the result, or None for a call that is not known, or that the kernel does not take. What a call
means is asked once, of the kernel's `resolve`; from then on calls with the same names and the same objects as values are known.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from ... import locks
from ..stencils import offsets as c
from ..stencils.driver import driver
from ..stencils.entry import method_at, new_function, runtime

Resolve = Callable[..., Any]  # (x, **attrs) -> the entry of a kernel for calls with these attributes, or None
_FLAGS: Final = 0x80 | 0x2  # METH_FASTCALL | METH_KEYWORDS
_LEARNT_MAX: Final = 64  # calls whose attributes are never the same objects are not learnt for ever
_lock = locks.lock()


class Direct:
    """The known calls of one kernel. `parameters`: names whose values are operands of it, in order."""

    __slots__ = ("resolve", "parameters", "table", "function", "kept", "learnt", "__weakref__")

    def __init__(self, resolve: Resolve, parameters: tuple[str, ...] = ()) -> None:
        self.resolve, self.parameters = resolve, parameters
        self.table = b""
        self.function: Callable[..., Any] | None = None  # once there is a driver
        self.kept: list[Any] = [None] * c.FORMS_MAX  # what forms refer to
        self.learnt = 0

    def learn(self, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> bool:
        """Make a call known; False where it can't be."""
        if self.learnt >= _LEARNT_MAX or len(operands) != 1 or len(attrs) > c.FORM_NAMES_MAX or not _ready():
            return False
        tensors = [name for name in self.parameters if attrs.get(name) is not None]
        if not all(name in tensors or _is_constant(value) for name, value in attrs.items()):
            return False
        entry = self.resolve(*operands, **attrs)
        if entry is None or not isinstance(entry.__self__, bytes):
            return False
        words: list[int] = []
        for name, value in attrs.items():
            words += (id(name), 1 + tensors.index(name) if name in tensors else id(value))
        with _lock:
            self._write(entry, list(attrs), 1 + len(tensors), words, [v for n, v in attrs.items() if n not in tensors])
        return True

    def _write(self, entry: Any, names: list[str], count: int, words: list[int], values: list[Any]) -> None:
        if self.function is None:
            self.table = bytes(c.K_FORM + c.FORM_SIZE * c.FORMS_MAX)
            self._put(c.K_RUNTIME, runtime())
            method = method_at(b"keyed", driver().addresses["keyed"], b"A kernel over rows, called as it was before, or None.", _FLAGS)
            self.function = new_function(method, self.table, self)
        slot = self.learnt % c.FORMS_MAX
        at = c.K_FORM + c.FORM_SIZE * slot
        self._put(at + c.K_NAMES, -1)  # no call finds it half written
        self.kept[slot] = (entry, names, values)
        for k, word in enumerate((count, id(entry.__self__))):
            self._put(at + c.K_COUNT + 8 * k, word)
        for k, word in enumerate(words):
            self._put(at + c.K_NAME + 8 * k, word)
        self._put(at + c.K_NAMES, len(names))
        self.learnt += 1
        self._put(c.K_FORMS, min(self.learnt, c.FORMS_MAX))

    def _put(self, offset: int, value: int) -> None:
        ctypes.c_int64.from_address(id(self.table) + c.BYTES_HEAD + offset).value = value


def _is_constant(value: Any) -> bool:
    """Whether a value will be the same as long as it is the same object."""
    return value is None or type(value) in (bool, int, float) or (type(value) is tuple and all(type(v) is int for v in value))


@cache
def _tuples_hold() -> bool:
    """Whether tuples are laid out as the generated code takes them to be."""
    probe = ("a", "b")
    found: tuple[int, ...] = struct.unpack("<3q", ctypes.string_at(id(probe) + c.TUPLE_SIZE, 24))
    return found == (2, id(probe[0]), id(probe[1]))


def _ready() -> bool:
    return bool(driver().ready and runtime()) and _tuples_hold()
