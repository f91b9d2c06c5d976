"""A function run by the reference interpreter, called like the function itself."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from ..isa.program import Program
from . import interpreter
from .limits import Limits
from .programs import parameter_names, plain_function, program_of
from .stats import Stats


class Interpreted:
    """What hangs on an interpreted function as `__bcvm_interpreted__`: its program and its counters."""

    def __init__(self, function: types.FunctionType, program: Program, stats: Stats) -> None:
        self.function = function
        self.program = program
        self.stats = stats
        self.closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def interpreted(function: Any, *, stats: Stats | None = None, limits: Limits | None = None) -> Callable[..., Any]:
    """A function that does what `function` does, by interpreting its Program.

    The Program is generated at the first call, with that call's arguments as example values, and kept.
    Raises LoweringError when the function's source cannot be found, at once.
    """
    plain = plain_function(function)
    program = program_of(plain)  # also finds out at once whether it can be lowered
    state = Interpreted(plain, program, Stats() if stats is None else stats)
    bind = binder(plain)
    seen = False

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal seen
        values = bind(*args, **kwargs)
        if not seen:
            seen = True
            state.program = program_of(plain, values)
        return interpreter.run(
            state.program, values, globals=plain.__globals__, closure=state.closure, limits=limits, trusted=True, stats=state.stats
        )

    call.__dict__["__bcvm_interpreted__"] = state
    return call


def binder(function: types.FunctionType) -> Callable[..., dict[str, Any]]:
    """A function with the parameters and defaults of `function` that gives its arguments by name.

    Wrong arguments raise the TypeError that calling `function` raises.
    """
    code = function.__code__
    names = parameter_names(function)
    positional = code.co_varnames[: code.co_argcount]
    keyword = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    parts = list(positional)
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    packed = [n for n in names if n not in positional and n not in keyword]
    stars = iter(packed)
    if code.co_flags & 4:
        parts.append(f"*{next(stars)}")
    elif keyword:
        parts.append("*")
    parts += keyword
    if code.co_flags & 8:
        parts.append(f"**{next(stars)}")
    space: dict[str, Any] = {}
    exec(f"def bound({', '.join(parts)}): return {{{', '.join(f'{n!r}: {n}' for n in names)}}}", space)
    made = space["bound"]
    bound = types.FunctionType(made.__code__.replace(co_name=code.co_name, co_qualname=function.__qualname__), space)
    bound.__defaults__ = function.__defaults__
    bound.__kwdefaults__ = function.__kwdefaults__
    return bound
