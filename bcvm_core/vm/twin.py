"""Compiling one function's tree so that the code object is the twin of the original's.

Site objects get in as constants: a placeholder string is compiled (see `frontend.recompile`) and
swapped in `co_consts`, so no global, local or cell is added.
"""

from __future__ import annotations

import sys
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


def is_unheld(code: types.CodeType, ours: int) -> bool:
    """Whether nothing holds a code but `ours` references of the callers and the frames that run it.

    Counted, since asking the garbage collector who holds it means going through all objects there are, which takes milliseconds. Where
    it is not sure the answer is False.
    """
    before = sys.getrefcount(code)
    running = _frames_of(code)
    held = sys.getrefcount(code)
    return before == held and held - 2 - running == ours  # two: the parameters, here and of the count


def _frames_of(code: types.CodeType) -> int:
    """How many frames of all threads run a code."""
    found, frames = 0, list(sys._current_frames().values())
    while frames:
        at: types.FrameType | None = frames.pop()
        while at is not None:
            found += at.f_code is code
            at = at.f_back
    return found  # no variable holds a frame any more: this one's own would keep itself, and all below, alive
