"""Values whose use runs no code of the user's: only with those may a region run, since it may be replayed.

NumPy asks objects for `__array__`, `__index__`, `__len__` and more wherever an argument may stand, and it
empties iterators. Such calls are left to Python, which makes them once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import Decline
from ..ops import registry

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, type, np.ndarray)
_CONTAINERS = frozenset({list, tuple, set, frozenset, dict, slice})
_LIBRARIES = frozenset({"bcvm_core", "mindspore", "ml_dtypes", "numpy"})

_trusted: set[type] = set(_PLAIN)


def is_container(tp: type) -> bool:
    """Whether values of the type are no user code themselves, but may hold some."""
    return tp in _CONTAINERS


def is_trusted(tp: type) -> bool:
    """Whether using a value of the type, as operand or attribute of an op, runs no code of the user's."""
    if tp in _trusted:
        return True
    root = tp.__module__.partition(".")[0]
    if root in _LIBRARIES and not (root == "numpy" and not issubclass(tp, np.generic | np.dtype)):
        _trusted.add(tp)
        return True
    return registry.personality_of(tp) == "mindspore"  # subclasses of the user's: not kept alive here


def check(value: Any) -> None:
    """Raises Decline for values, and containers of values, that may run user code."""
    tp = type(value)
    if tp in _trusted:
        return
    if tp not in _CONTAINERS:
        if not is_trusted(tp):
            raise Decline(f"values of type {tp.__module__}.{tp.__qualname__} are left to Python")
        return
    items: Any = value
    if tp is dict:
        items = [*value, *value.values()]
    elif tp is slice:
        items = (value.start, value.stop, value.step)
    if not _trusted.issuperset(map(type, items)):
        for item in items:
            check(item)
