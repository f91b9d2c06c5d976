"""What a flattened program took for granted: attributes, names, contents of lists and dictionaries, code of functions.

Each of these is also a word in memory that differs after a change (see `words`); one loop of machine code
compares them. When one differs, everything that was read is looked at again.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from . import words

MISSING: Any = object()
HEAP_TYPE = 1 << 9  # flag of classes that can change


def namespace(value: Any) -> dict[str, Any] | None:
    """The `__dict__` of an object, without running its code."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if type(found) is dict else None


class _Object:
    """An object whose class and attributes were read."""

    __slots__ = ("value", "type", "read")

    def __init__(self, value: Any, tp: type) -> None:
        self.value = value  # None: the object that is called, which the program must not keep alive
        self.type = tp
        self.read: dict[str, Any] = {}


class Reads:
    """The reads of one flattened program, and whether they would give the same again. `root` is the object that is called."""

    def __init__(self, root: Any = None) -> None:
        self._root = id(root)
        self.objects: dict[int, _Object] = {}
        self.entries: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}  # id -> (dictionary, key -> what was read)
        self.lists: dict[int, tuple[list[Any], list[Any]]] = {}
        self.code: dict[int, tuple[types.FunctionType, types.CodeType, Any]] = {}
        self.cells: dict[int, tuple[Any, Any]] = {}
        self.whole: dict[int, tuple[dict[Any, Any], list[Any], list[Any]]] = {}
        self.mros: dict[int, tuple[type, tuple[type, ...]]] = {}
        self.titles: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self._changed: Callable[[], bool] = _always

    # -- recording ----------------------------------------------------------------------------------

    def attribute(self, value: Any, name: str) -> Any:
        """`value.__dict__[name]`, or MISSING; also the object's class must stay."""
        space = namespace(value)
        if space is None and not type(value).__flags__ & HEAP_TYPE:
            return MISSING  # neither can change
        known = self.objects.get(id(value))
        if known is None:
            known = self.objects[id(value)] = _Object(None if id(value) == self._root else value, type(value))
        found = known.read[name] = MISSING if space is None else space.get(name, MISSING)
        return found

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
        if function.__kwdefaults__:
            self.all_of(function.__kwdefaults__)

    def closure(self, cell: types.CellType) -> Any:
        """The contents of a closure cell."""
        try:
            value = cell.cell_contents
        except ValueError:
            value = MISSING
        self.cells[id(cell)] = (cell, value)
        return value

    def mro(self, cls: type) -> tuple[type, ...]:
        """The classes a class inherits from."""
        if cls.__flags__ & HEAP_TYPE:
            self.mros[id(cls)] = (cls, cls.__mro__)
        return cls.__mro__

    def title(self, value: Any, name: str) -> Any:
        """`__name__` and its like of a class or function."""
        found = getattr(value, name)
        self.titles[id(value), name] = (value, name, found)
        return found

    # -- checking -----------------------------------------------------------------------------------

    def seal(self, root: Any) -> bool:
        """Note the words as they are now; False where something has changed since it was read."""
        compare = words.comparer()
        taken = self._words(root) if compare is not None else None
        if not self._same(root):
            return False
        self._changed = _always if compare is None or taken is None else words.watcher(taken, compare)
        return True

    def hold(self, root: Any) -> bool:
        """Whether everything that was read is as it was. `root` is the object that is called."""
        if not self._changed() and (not self.titles or self._titles_hold()):
            return True
        return self.seal(root)

    def _words(self, root: Any) -> list[words.Word] | None:
        """All words. Those of pointers come first: what they point at is there as long as they are the same."""
        pointers: list[words.Word | None] = []
        spaces: list[dict[Any, Any]] = []
        for known in self.objects.values():
            value = root if known.value is None else known.value
            pointers.append(words.type_of(value))
            space = namespace(value)
            if space is not None:
                pointers.append(words.namespace_of(value, space))
                spaces.append(space)
        pointers += [words.mro_of(cls) for cls, _ in self.mros.values()]
        for items, _ in self.lists.values():
            pointers += words.contents(items)
        for function, *_ in self.code.values():
            pointers += words.function(function)
        pointers += [words.cell(cell, value, value is MISSING) for cell, value in self.cells.values()]
        spaces += [m for m, _ in self.entries.values()] + [m for m, *_ in self.whole.values()]
        found = [word for word in pointers if word is not None]
        if len(found) < len(pointers):
            return None
        return found + [word for space in spaces for word in words.version(space)]

    def _same(self, root: Any) -> bool:
        return self._objects_hold(root) and self._dictionaries_hold() and self._functions_hold()

    def _objects_hold(self, root: Any) -> bool:
        for known in self.objects.values():
            value = root if known.value is None else known.value
            if type(value) is not known.type:
                return False
            space = namespace(value) or {}
            for name, found in known.read.items():
                if space.get(name, MISSING) is not found:
                    return False
        return all(cls.__mro__ is mro for cls, mro in self.mros.values()) and self._titles_hold()

    def _titles_hold(self) -> bool:
        return all(getattr(value, name) == found for value, name, found in self.titles.values())

    def _dictionaries_hold(self) -> bool:
        for mapping, read in self.entries.values():
            for key, value in read.items():
                if mapping.get(key, MISSING) is not value:
                    return False
        for known, keys, values in self.whole.values():
            if len(known) != len(keys) or any(map(_differ, known, keys)) or any(map(_differ, known.values(), values)):
                return False
        return not any(len(items) != len(copy) or any(map(_differ, items, copy)) for items, copy in self.lists.values())

    def _functions_hold(self) -> bool:
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
        return True


def _always() -> bool:
    """Nothing is watched by machine code: look at everything."""
    return True


def _differ(one: Any, other: Any) -> bool:
    return one is not other


def _same_function(function: types.FunctionType, code: types.CodeType) -> bool:
    """Whether only we have exchanged the function's code (for its linked form)."""
    linker = function.__dict__.get("__bcvm__")
    return linker is not None and linker.original is code and linker.code is function.__code__
