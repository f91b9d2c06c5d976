"""Values that Python may look at while a call is flattened: what comes of it is the same each time, and no user code runs."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from ...isa.constants import identical
from ...ops import registry
from .values import UnflattenableError

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range})
_MAX_DEPTH = 10


def require_plain(value: Any, identity: bool = False, depth: int = 0) -> None:
    """Raises UnflattenableError for values that may run user code or hold what may change unseen.

    `identity`: the value is only hashed and compared, so objects that are equal to none but themselves may be among it.
    """
    tp = type(value)
    if tp in _PLAIN:
        return
    if depth > _MAX_DEPTH:
        raise UnflattenableError("containers are nested too deeply")
    if tp in (list, tuple, frozenset):
        items: Any = value
    elif tp is dict:
        items = value.items()
    elif tp is slice:
        items = (value.start, value.stop, value.step)
    elif isinstance(value, np.generic | np.dtype) or _is_element_type(value) or (identity and by_identity(value)):
        return
    else:
        raise UnflattenableError(f"Python looks at a {tp.__name__}")
    for item in items:
        require_plain(item, identity, depth + 1)


def _is_element_type(value: Any) -> bool:
    """An object of a library's own that has no state (`mindspore.float32`)."""
    tp = type(value)
    if tp.__module__.partition(".")[0] != "mindspore" or registry.personality_of(tp) is not None:
        return False
    return not tp.__dictoffset__ and not isinstance(value, type)


def by_identity(value: Any) -> bool:
    """Whether the object is equal to none but itself, by its class."""
    tp: Any = type(value)
    hashed = tp.__hash__ is object.__hash__ or (isinstance(value, enum.Enum) and tp.__hash__ is enum.Enum.__hash__)
    return hashed and tp.__eq__ is object.__eq__


def differs(found: Any, expected: Any) -> bool:
    """The test of a CHECK: another type or other bits. 1 is not True, -0.0 not 0.0; NaN is NaN."""
    return found is not expected and not identical(found, expected)


__all__ = ["by_identity", "differs", "require_plain"]
