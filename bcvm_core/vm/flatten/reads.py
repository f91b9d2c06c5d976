"""What a flattened program took for granted: entries of dictionaries, contents of lists, code of functions.

CPython gives a dictionary a new version number with every change. While the numbers of all
dictionaries that were read stand, nothing has changed; one loop of machine code compares them. When
one differs, the entries that were read are looked at again.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import types
from collections.abc import Callable
from typing import Any

from ...codegen import versions

MISSING: Any = object()


@functools.cache
def _versions_hold() -> bool:
    """Whether a dictionary keeps its version number where we look for it (CPython 3.11 and 3.12)."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in ((3, 11), (3, 12)):
        return False
    probe: dict[str, int] = {"a": 1}
    before = _version(probe)
    unchanged = _version(probe) == before
    probe["a"] = 2
    return unchanged and _version(probe) != before


def _version(mapping: dict[str, Any]) -> int:
    return ctypes.c_uint64.from_address(id(mapping) + versions.DICT_VERSION).value


class Reads:
    """The reads of one flattened program, and whether they would give the same again."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}  # id -> (dictionary, key -> what was read)
        self.lists: dict[int, tuple[list[Any], list[Any]]] = {}
        self.code: dict[int, tuple[types.FunctionType, types.CodeType, Any]] = {}
        self.cells: dict[int, tuple[Any, Any]] = {}
        self.whole: dict[int, tuple[dict[Any, Any], list[Any], list[Any]]] = {}
        self._numbers: Any = None
        self._changed: Callable[[], bool] = self._compare

    # -- recording ----------------------------------------------------------------------------------

    def entry(self, mapping: dict[str, Any], key: str) -> Any:
        """`mapping[key]`, or MISSING; the program holds while that stays so."""
        value = mapping.get(key, MISSING)
        self.entries.setdefault(id(mapping), (mapping, {}))[1][key] = value
        return value

    def all_of(self, mapping: dict[Any, Any]) -> dict[Any, Any]:
        """A copy of a dictionary whose keys and values, in order, must stay."""
        self.whole[id(mapping)] = (mapping, list(mapping), list(mapping.values()))
        return dict(mapping)

    def contents(self, items: list[Any]) -> list[Any]:
        """A copy of a list that must stay."""
        self.lists[id(items)] = (items, list(items))
        return list(items)

    def function(self, function: types.FunctionType, code: types.CodeType) -> None:
        """A function that was inlined: its code (as written) and defaults must stay."""
        self.code[id(function)] = (function, code, (function.__defaults__, function.__kwdefaults__))

    def closure(self, cell: types.CellType) -> Any:
        """The contents of a closure cell."""
        try:
            value = cell.cell_contents
        except ValueError:
            value = MISSING
        self.cells[id(cell)] = (cell, value)
        return value

    # -- checking -----------------------------------------------------------------------------------

    def seal(self) -> None:
        """Take the versions as they are now."""
        if not _versions_hold():
            return
        mappings = [m for m, _ in self.entries.values()] + [m for m, *_ in self.whole.values()]
        packed = b"".join(struct.pack("<QQ", id(m) + versions.DICT_VERSION, _version(m)) for m in mappings)
        self._numbers = ctypes.create_string_buffer(packed, len(packed))
        compare = versions.comparer()
        if compare is not None:
            table, count = ctypes.addressof(self._numbers), len(mappings)
            self._changed = lambda: compare(table, count) != 0

    def hold(self) -> bool:
        """Whether everything that was read is as it was."""
        for items, copy in self.lists.values():
            if len(items) != len(copy) or any(map(_differ, items, copy)):
                return False
        for function, code, defaults in self.code.values():
            if function.__code__ is not code and not _same_function(function, code):
                return False
            if function.__defaults__ is not defaults[0] or function.__kwdefaults__ is not defaults[1]:
                return False
        for cell, value in self.cells.values():
            try:
                if cell.cell_contents is not value:
                    return False
            except ValueError:
                if value is not MISSING:
                    return False
        if not self._changed():
            return True
        if not self._entries_hold():
            return False
        self.seal()
        return True

    def _compare(self) -> bool:
        """Compare without machine code: every entry."""
        return True

    def _entries_hold(self) -> bool:
        for mapping, read in self.entries.values():
            for key, value in read.items():
                if mapping.get(key, MISSING) is not value:
                    return False
        for known, keys, values in self.whole.values():
            if len(known) != len(keys) or any(map(_differ, known, keys)) or any(map(_differ, known.values(), values)):
                return False
        return True


def _differ(one: Any, other: Any) -> bool:
    return one is not other


def _same_function(function: types.FunctionType, code: types.CodeType) -> bool:
    """Whether only we have exchanged the function's code (for its linked form)."""
    linker = function.__dict__.get("__bcvm__")
    return linker is not None and linker.original is code and linker.code is function.__code__
