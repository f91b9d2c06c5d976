"""Whether data from a file has the form that a TypedDict of the protocol says."""

from __future__ import annotations

import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict


class MisfitError(ValueError):
    """The data has another form; the message says where."""


@cache
def _fields(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def check(value: Any, kind: Any, place: str = "") -> None:
    """Raise MisfitError unless `value` is a `kind`: a TypedDict (all its fields, any others, too), list, dict, Literal, union, type."""
    if is_typeddict(kind):
        if not isinstance(value, dict):
            raise MisfitError(f"{place} is no object")
        for name, field in _fields(kind).items():
            if name not in value:
                raise MisfitError(f"{place}.{name} is missing")
            check(value[name], field, f"{place}.{name}")
        return
    origin, inside = get_origin(kind), get_args(kind)
    if origin is list:
        _check_all(value, list, enumerate(value) if isinstance(value, list) else (), inside[0], place)
    elif origin is dict:
        _check_all(value, dict, value.items() if isinstance(value, dict) else (), inside[1], place)
    elif origin is Literal:
        if value not in inside:
            raise MisfitError(f"{place} is {value!r:.40}")
    elif origin in (Union, types.UnionType):
        _check_any(value, inside, place)
    elif kind is float:
        if type(value) not in (int, float):
            raise MisfitError(f"{place} is no number")
    elif kind is not Any and type(value) is not kind:
        raise MisfitError(f"{place} is no {kind.__name__}")


def _check_all(value: Any, kind: type, items: Any, inside: Any, place: str) -> None:
    if type(value) is not kind:
        raise MisfitError(f"{place} is no {kind.__name__}")
    for key, each in items:
        check(each, inside, f"{place}[{key!r}]")


def _check_any(value: Any, kinds: tuple[Any, ...], place: str) -> None:
    for kind in kinds:
        try:
            check(value, kind, place)
        except MisfitError:
            continue
        return
    raise MisfitError(f"{place} is none of what it may be")
