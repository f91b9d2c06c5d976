"""Compiling one function's tree so that the code object is the twin of the original's.

Site objects get in as constants: a placeholder string is compiled (see `frontend.recompile`) and
swapped in `co_consts`, so no global, local or cell is added.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from ..frontend.recompile import compile_like

__all__ = ["compile_like", "make_twin", "put_constants"]


def put_constants(code: types.CodeType, table: Mapping[str, Any]) -> types.CodeType:
    """Swap placeholder strings for the objects they stand for, in the code and the codes inside it."""
    consts = tuple(_swap(c, table) for c in code.co_consts)
    changed = any(a is not b for a, b in zip(consts, code.co_consts, strict=True))
    return code.replace(co_consts=consts) if changed else code


def _swap(const: Any, table: Mapping[str, Any]) -> Any:
    if type(const) is str:
        return table.get(const, const)
    return put_constants(const, table) if isinstance(const, types.CodeType) else const


def make_twin(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    """A function like `function` in everything but its code."""
    closure = function.__closure__
    if closure is not None:
        by_name = dict(zip(function.__code__.co_freevars, closure, strict=True))
        closure = tuple(by_name[name] for name in code.co_freevars)
    twin = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    for attribute in ("__kwdefaults__", "__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__"):
        if hasattr(function, attribute):
            setattr(twin, attribute, getattr(function, attribute))
    twin.__dict__.update(function.__dict__)
    return twin
