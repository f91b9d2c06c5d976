"""Compiling one function's tree so that the code object comes out as the original's did.

A skeleton of the enclosing scopes is compiled and never run: classes keep their names (private names
are mangled, `__qualname__` is right), enclosing functions take the free variables as parameters (so
closure cells and `__class__` resolve).
"""

from __future__ import annotations
import __future__

import ast
import types
from collections.abc import Sequence
from typing import Any, Protocol

from ..errors import LoweringError
from .nodes import located
from .quiet import muted

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_FUTURE_FLAGS = 0
for _feature in __future__.all_feature_names:
    _FUTURE_FLAGS |= getattr(__future__, _feature).compiler_flag


class Surroundings(Protocol):
    """What the compiler looks at outside of the function: see `source.FunctionSource`."""

    @property
    def enclosing(self) -> Sequence[ast.AST]: ...
    @property
    def imported(self) -> Sequence[str]: ...


def _skeleton(node: FunctionNode, source: Surroundings, free_names: tuple[str, ...]) -> ast.Module:
    inner: Any = ast.copy_location(ast.Expr(node), node) if isinstance(node, ast.Lambda) else node
    for scope in reversed(source.enclosing):
        if isinstance(scope, ast.ClassDef):
            outer: Any = ast.ClassDef(name=scope.name, bases=[], keywords=[], body=[inner], decorator_list=[])
        else:
            arguments = ast.arguments(posonlyargs=[], args=[ast.arg(arg=n) for n in free_names], kwonlyargs=[], kw_defaults=[], defaults=[])
            name = getattr(scope, "name", "<lambda>")
            outer = ast.FunctionDef(name=name, args=arguments, body=[inner], decorator_list=[])
        outer.type_params = []  # a field since Python 3.12
        inner = ast.copy_location(outer, node)
    body: list[Any] = [inner]
    if source.imported:  # CPython compiles calls on names imported in the same module differently
        names = [ast.alias(n) for n in source.imported]
        body.insert(0, ast.copy_location(ast.Import(names), node))
    module = ast.Module(body=body, type_ignores=[])
    located(module)
    return module


def _pick(code: types.CodeType, like: types.CodeType) -> types.CodeType | None:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            same = const.co_name == like.co_name and const.co_firstlineno == like.co_firstlineno
            if same and const.co_qualname == like.co_qualname:
                return const
            found = _pick(const, like)
            if found is not None:
                return found
    return None


def compile_like(node: FunctionNode, source: Surroundings, like: types.CodeType) -> types.CodeType:
    """The code object of `node`, compiled as `like` was. Raises LoweringError when it does not come out."""
    module = _skeleton(node, source, like.co_freevars)
    with muted():  # what the compiler warns about was said when the user's text was compiled
        whole = compile(module, like.co_filename, "exec", flags=like.co_flags & _FUTURE_FLAGS, dont_inherit=True)
    code = _pick(whole, like)
    if code is None:
        raise LoweringError(f"{like.co_qualname} was not found again after compiling it")
    return code


def same_code(a: types.CodeType, b: types.CodeType) -> bool:
    """Is the text still what was compiled? (stale files, other syntax rewriters)"""
    fields = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars")
    if any(getattr(a, f) != getattr(b, f) for f in fields) or len(a.co_consts) != len(b.co_consts):
        return False
    return all(_same_const(x, y) for x, y in zip(a.co_consts, b.co_consts, strict=True))


def _same_const(x: Any, y: Any) -> bool:
    if isinstance(x, types.CodeType) and isinstance(y, types.CodeType):
        return same_code(x, y)
    return type(x) is type(y) and (x is y or repr(x) == repr(y))


def identical_code(a: types.CodeType, b: types.CodeType) -> bool:
    """`same_code`, and alike in everything that calls, handlers and tracebacks see: flags, positions, exception tables."""
    return same_code(a, b) and _same_frame(a, b)


def _same_frame(a: types.CodeType, b: types.CodeType) -> bool:
    fields = "co_flags co_exceptiontable co_argcount co_posonlyargcount co_kwonlyargcount co_name co_qualname co_firstlineno".split()
    if any(getattr(a, f) != getattr(b, f) for f in fields) or list(a.co_positions()) != list(b.co_positions()):
        return False
    pairs = zip(a.co_consts, b.co_consts, strict=True)
    return all(_same_frame(x, y) for x, y in pairs if isinstance(x, types.CodeType))
