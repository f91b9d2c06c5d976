"""Reading attributes of Python objects without running user code."""

from __future__ import annotations

import types
from typing import Any

from ..errors import Decline

_PLAIN_GETATTRIBUTE: Any = object.__getattribute__


class UnsafeAttribute(Decline):
    """Reading this attribute may run user code (a property, `__getattr__`, ...)."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"reading .{name} may run user code")


def read_attribute(value: Any, name: str) -> Any:
    """`value.name` where that is a plain lookup; raises UnsafeAttribute where it might be more."""
    if isinstance(value, types.ModuleType):
        found = value.__dict__.get(name, UnsafeAttribute)
        if found is UnsafeAttribute:
            raise UnsafeAttribute(name)
        return found
    tp = type(value)
    if tp.__getattribute__ is not _PLAIN_GETATTRIBUTE:
        raise UnsafeAttribute(name)
    in_class = UnsafeAttribute
    for base in tp.__mro__:
        if name in base.__dict__:
            in_class = base.__dict__[name]
            break
    if in_class is not UnsafeAttribute and hasattr(type(in_class), "__get__"):
        if isinstance(in_class, types.MemberDescriptorType):
            return in_class.__get__(value)
        raise UnsafeAttribute(name)
    instance = getattr(value, "__dict__", None)
    if type(instance) is dict and name in instance:
        return instance[name]
    if in_class is UnsafeAttribute:
        raise UnsafeAttribute(name)
    return in_class
