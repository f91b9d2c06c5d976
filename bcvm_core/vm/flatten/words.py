"""Where CPython keeps what a flattened program depends on: 64-bit words in memory that differ once it has changed.

A word is (address, value now). Functions here give None where this interpreter keeps the thing elsewhere; then it is looked at in Python.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import struct
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from ...codegen import versions

Word = tuple[int, int]
_TYPE = 8  # ob_type, after the reference count
_CODE, _DEFAULTS, _KEYWORD_DEFAULTS = 48, 56, 64  # of a function
_CONTENTS = 16  # of a closure cell
_SIZE, _ITEMS = 16, 24  # of a list
_ORDER = 88  # of an OrderedDict: a number that every change of the order counts up
_MRO = 344  # of a class
_MANAGED = 1 << 4  # flag of a class whose objects keep the pointer to their __dict__ before their head
_MANAGED_DICT = -24


def peek(address: int) -> int:
    """The word at an address that is known to be readable."""
    return ctypes.c_uint64.from_address(address).value


@functools.cache
def known_layout() -> bool:
    """Whether this is an interpreter whose objects lie as described here (CPython 3.11 and 3.12, tried out)."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in ((3, 11), (3, 12)) or struct.calcsize("P") != 8:
        return False
    probe: dict[str, int] = {"a": 1}
    before = version(probe)
    unchanged = version(probe) == before
    probe["a"] = 2
    ordered: Any = collections.OrderedDict(a=1, b=2)
    order = peek(id(ordered) + _ORDER)
    same_order = peek(id(ordered) + _ORDER) == order
    ordered.move_to_end("a")
    return unchanged and version(probe) != before and same_order and peek(id(ordered) + _ORDER) != order


def version(mapping: dict[Any, Any]) -> tuple[Word, ...]:
    """CPython gives a dictionary a new number with every change."""
    address = id(mapping) + versions.DICT_VERSION
    words: tuple[Word, ...] = ((address, peek(address)),)
    if isinstance(mapping, collections.OrderedDict):
        words += ((id(mapping) + _ORDER, peek(id(mapping) + _ORDER)),)
    return words


def _pointer(address: int, target: Any) -> Word | None:
    """The word, if it is the address of `target`."""
    return (address, id(target)) if peek(address) == id(target) else None


def type_of(value: Any) -> Word | None:
    """Which class an object has."""
    return _pointer(id(value) + _TYPE, type(value))


def namespace_of(value: Any, namespace: dict[str, Any]) -> Word | None:
    """Which dictionary is the object's `__dict__`."""
    tp = type(value)
    offset = _MANAGED_DICT if tp.__flags__ & _MANAGED else tp.__dictoffset__
    return _pointer(id(value) + offset, namespace) if offset > 0 or offset == _MANAGED_DICT else None


def mro_of(cls: type) -> Word | None:
    """Which classes a class inherits from."""
    return _pointer(id(cls) + _MRO, cls.__mro__)


def cell(value: types.CellType, contents: Any, empty: bool) -> Word | None:
    """What a closure cell holds."""
    if empty:
        return (id(value) + _CONTENTS, 0) if peek(id(value) + _CONTENTS) == 0 else None
    return _pointer(id(value) + _CONTENTS, contents)


def function(value: types.FunctionType) -> tuple[Word | None, ...]:
    """Code and defaults of a function."""
    parts = ((_CODE, value.__code__), (_DEFAULTS, value.__defaults__), (_KEYWORD_DEFAULTS, value.__kwdefaults__))
    return tuple(
        _pointer(id(value) + at, part) if part is not None else ((id(value) + at, 0) if peek(id(value) + at) == 0 else None)
        for at, part in parts
    )


def contents(items: list[Any]) -> tuple[Word | None, ...]:
    """Length and items of a list, in an order in which none is read where there is none any more."""
    start = peek(id(items) + _ITEMS)
    words: list[Word | None] = [(id(items) + _SIZE, len(items)), (id(items) + _ITEMS, start)]
    if peek(id(items) + _SIZE) != len(items):
        return (None,)
    return (*words, *(_pointer(start + 8 * i, item) for i, item in enumerate(items)))


def comparer() -> Callable[[int, int], int] | None:
    """What compares words; None where the layout of objects is not known, and where there is no machine code (yet)."""
    return versions.comparer() if known_layout() else None


def watcher(words: Sequence[Word], compare: Callable[[int, int], int]) -> Callable[[], bool]:
    """A function that says whether any of the words has changed since."""
    packed = b"".join(struct.pack("<QQ", *word) for word in words)
    table, count = ctypes.create_string_buffer(packed, len(packed)), len(words)
    address = ctypes.addressof(table)

    def changed(_table: Any = table) -> bool:  # which lives as long as this function
        return compare(address, count) != 0

    return changed
