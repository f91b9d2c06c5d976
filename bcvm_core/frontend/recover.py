"""A function's syntax tree from its code object, for functions whose source text is nowhere.

The tree that is read back is compiled as the function was and must give the identical code object,
positions and all; that, not the reading, makes it right. Otherwise the function is refused.
"""

from __future__ import annotations

import ast
import inspect
import types

from ..errors import LoweringError
from .recompile import compile_like, identical_code
from .recover_code import Position
from .recover_comps import Comprehensions, without_handlers
from .recover_flow import strip_end
from .recover_trees import Append, Unreadable, placed
from .source import FunctionSource, Scopes

_NO_FRAME = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def recover(function: types.FunctionType) -> FunctionSource:
    """The tree that `function` was compiled from. Raises LoweringError where it cannot be told for certain."""
    code = function.__code__
    try:
        reader = Reader(code)
        node = reader.function(None)
        imported = reader.module_imports | {n for r in reader.readers for n in r.module_imports}
        found = FunctionSource(node, _enclosing(code), tuple(sorted(imported)), code.co_filename)
        again = compile_like(found.fresh_tree(), found, code)
    except (Unreadable, LoweringError, SyntaxError, ValueError, TypeError, IndexError, AttributeError, KeyError, RecursionError) as error:
        raise _refused(function) from error
    if not identical_code(again, code):
        raise _refused(function)
    return found


def _refused(function: types.FunctionType) -> LoweringError:
    return LoweringError(
        f"the source of {function.__qualname__} is not available and its bytecode could not be read back",
        fix="define the function in a file or a notebook cell",
    )


def _enclosing(code: types.CodeType) -> Scopes:
    """The scopes that the qualified name tells of: `f.<locals>.` is a function, `A.` a class."""
    parts = code.co_qualname.split(".")[:-1]
    scopes: list[ast.AST] = []
    for name, following in zip(parts, [*parts[1:], ""], strict=False):
        if name == "<locals>":
            continue
        if following == "<locals>":
            scopes.append(ast.FunctionDef(name=name, args=_no_arguments(), body=[], decorator_list=[]))
        else:
            scopes.append(ast.ClassDef(name=name, bases=[], keywords=[], body=[], decorator_list=[]))
    return tuple(scopes)


def _no_arguments() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[])


class Reader(Comprehensions):
    """Reads one code object, and the functions and comprehensions in it."""

    def __init__(self, code: types.CodeType) -> None:
        super().__init__(code)
        self.readers: list[Reader] = []

    def function(self, pos: Position | None) -> ast.FunctionDef | ast.Lambda:
        """The node of this code; `pos` is where the definition stands."""
        code = self.code
        if code.co_flags & _NO_FRAME or "<" in code.co_name.replace("<lambda>", ""):
            raise Unreadable(code.co_name)
        pos = pos or (code.co_firstlineno, 0, code.co_firstlineno, 0)
        body = strip_end(self.block(0, without_handlers(self.ins), frozenset(), None))
        arguments = self._arguments(pos)
        if code.co_name == "<lambda>":
            if len(body) != 1 or not isinstance(body[0], ast.Return):
                raise Unreadable("a lambda of statements")
            value = body[0].value or placed(ast.Constant(None), pos)
            return self._finished(placed(ast.Lambda(arguments, value), pos))
        body = [*self._prelude(pos), *body] or [placed(ast.Pass(), pos)]
        node = ast.FunctionDef(code.co_name, arguments, body, [], None, None)
        node.type_params = []  # type: ignore[attr-defined]  # a field since Python 3.12
        return self._finished(placed(node, pos))

    def _finished(self, node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
        if any(isinstance(n, Append) for n in ast.walk(node)):
            raise Unreadable("an element outside of a comprehension")
        return ast.fix_missing_locations(node)

    def _prelude(self, pos: Position) -> list[ast.stmt]:
        """The docstring and the declarations, which leave no instructions."""
        first = self.code.co_consts[0] if self.code.co_consts else None
        found: list[ast.stmt] = []
        if isinstance(first, str):
            found.append(placed(ast.Expr(placed(ast.Constant(first), pos)), pos))
        for kind in (ast.Global, ast.Nonlocal):
            names = sorted(n for n, k in self.declared.items() if k is kind)
            if names:
                found.append(placed(kind(names), pos))
        return found

    def _arguments(self, pos: Position) -> ast.arguments:
        code = self.code
        names = [placed(ast.arg(n), pos) for n in code.co_varnames]
        positional, keyword = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        out = _no_arguments()
        out.posonlyargs, out.args = names[: code.co_posonlyargcount], names[code.co_posonlyargcount : positional]
        out.kwonlyargs = names[positional:keyword]
        out.kw_defaults = [None] * code.co_kwonlyargcount
        if code.co_flags & inspect.CO_VARARGS:
            out.vararg = names[keyword]
            keyword += 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            out.kwarg = names[keyword]
        return out

    def inner_function(self, code: types.CodeType, pos: Position | None) -> ast.FunctionDef | ast.Lambda:
        return self.inner_reader(code).function(pos)

    def inner_reader(self, code: types.CodeType) -> Reader:
        inner = Reader(code)
        self.readers.append(inner)
        return inner
