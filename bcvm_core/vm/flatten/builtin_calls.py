"""Builtin functions, and methods of lists and dicts, within a call that is flattened."""

from __future__ import annotations

import ast
import builtins
import functools
import math
from collections.abc import Callable
from typing import Any

from ...ops import registry
from .expressions import Expressions
from .values import Items, Known, Local, Method, MethodOf, Table, Traced, UnflattenableError, Value, actual_of, type_of

_PURE: frozenset[Any] = frozenset(
    {
        len,
        int,
        float,
        bool,
        str,
        complex,
        abs,
        round,
        min,
        max,
        sum,
        tuple,
        list,
        dict,
        sorted,
        range,
        divmod,
        pow,
        repr,
        slice,
        any,
        all,
        functools.partial,
    }
    | {value for name, value in vars(math).items() if not name.startswith("_") and callable(value)}
)
CONTAINER_METHODS = frozenset(
    {(str, n) for n in ("lower", "upper", "startswith", "endswith", "split", "strip", "replace", "format", "join")}
    | {(dict, n) for n in ("get", "keys", "values", "items")}
    | {(kind, n) for kind in (list, tuple) for n in ("index", "count")}
)


class BuiltinCalls(Expressions):
    """Evaluates calls of what Python itself brings."""

    # -- builtins -----------------------------------------------------------------------------------

    def _of_builtin(self, target: Any, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value | None:
        """Builtins that look at the form of their arguments."""
        name = getattr(target, "__name__", "")
        if keywords or getattr(builtins, name, None) is not target:
            return None
        handler: Callable[..., Value] | None = getattr(self, f"_builtin_{name}", None)
        return None if handler is None else handler(at, *args)

    def _special(self, target: Any, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value | None:
        """Pure builtins and methods of containers: what they are given must be known."""
        owner = getattr(target, "__self__", None)
        if (type(owner), getattr(target, "__name__", "")) in CONTAINER_METHODS or _hashed_in(target, _PURE):
            plain = [self.constant(a, at) for a in args]
            named = {name: self.constant(v, at) for name, v in keywords.items()}
            return self._again(target, plain, named)
        return None

    @staticmethod
    def _again(target: Any, plain: list[Any], named: dict[str, Any]) -> Value:
        found = target(*plain, **named)
        if type(found) in (type({}.keys()), type({}.values()), type({}.items())):
            return Items(tuple, [Known(v) if type(v) is not tuple else Items(tuple, [Known(x) for x in v]) for v in found])
        return Known(found)

    def _builtin_len(self, at: ast.AST, value: Value) -> Value:
        if isinstance(value, Items | Table):
            return Known(len(value.values))
        if isinstance(value, Known):
            return Known(len(self.iterate(value, at)))
        return self.recorder.op(registry.row("len"), [value], syntax=False, at=at)

    def _seen(self, value: Value) -> type:
        return self.reader.library.stands_for(type_of(value))

    def _builtin_isinstance(self, at: ast.AST, value: Value, classes: Value) -> Value:
        return Known(issubclass(self._seen(value), self.constant(classes, at)))

    def _builtin_type(self, at: ast.AST, value: Value) -> Value:
        return Known(self._seen(value))

    def _builtin_getattr(self, at: ast.AST, owner: Value, name: Value, *default: Value) -> Value:
        try:
            return self.attribute(owner, self.constant(name, at), at)
        except UnflattenableError:
            if default and isinstance(owner, Known) and not hasattr(owner.value, self.constant(name, at)):
                return default[0]
            raise

    def _builtin_hasattr(self, at: ast.AST, owner: Value, name: Value) -> Value:
        if isinstance(owner, Traced):
            return Known(hasattr(self._seen(owner), self.constant(name, at)))
        try:
            self.attribute(owner, self.constant(name, at), at)
        except UnflattenableError:
            if isinstance(owner, Known) and not hasattr(owner.value, self.constant(name, at)):
                return Known(False)
            raise
        return Known(True)

    def _builtin_callable(self, at: ast.AST, value: Value) -> Value:
        if isinstance(value, Known):
            return Known(callable(value.value))
        return Known(isinstance(value, Method | MethodOf | Local))

    def _builtin_enumerate(self, at: ast.AST, value: Value, start: Value = Known(0)) -> Value:  # noqa: B008 (immutable)
        first = self.constant(start, at)
        return Items(tuple, [Items(tuple, [Known(first + i), item]) for i, item in enumerate(self.iterate(value, at))])

    def _builtin_zip(self, at: ast.AST, *values: Value) -> Value:
        rows = zip(*(self.iterate(v, at) for v in values), strict=False)
        return Items(tuple, [Items(tuple, list(row)) for row in rows])

    def _builtin_reversed(self, at: ast.AST, value: Value) -> Value:
        return Items(tuple, self.iterate(value, at)[::-1])

    def _builtin_tuple(self, at: ast.AST, *values: Value) -> Value:
        return Items(tuple, self.iterate(values[0], at) if values else [])

    def _builtin_list(self, at: ast.AST, *values: Value) -> Value:
        return Items(list, self.iterate(values[0], at) if values else [])

    def _builtin_dict(self, at: ast.AST, *values: Value) -> Value:
        return Table(dict(self.table_of(values[0]).values)) if values else Table()

    def _builtin_range(self, at: ast.AST, *values: Value) -> Value:
        return Known(range(*(self.constant(v, at) for v in values)))

    # -- methods of what is being built -------------------------------------------------------------

    def _list_method(self, items: Items, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        if items.kind is not list or keywords:
            raise UnflattenableError(f"the method {name} of a tuple")
        if name == "append" and len(args) == 1:
            items.values.append(args[0])
        elif name == "extend" and len(args) == 1:
            items.values.extend(self.iterate(args[0], ast.Pass()))
        elif name == "insert" and len(args) == 2 and isinstance(args[0], Known):
            items.values.insert(args[0].value, args[1])
        elif name == "pop" and all(isinstance(a, Known) for a in args):
            return items.values.pop(*map(actual_of, args))
        elif name == "reverse":
            items.values.reverse()
        elif name == "copy":
            return Items(list, list(items.values))
        else:
            raise UnflattenableError(f"the list method {name}")
        return Known(None)

    def _table_method(self, table: Table, name: str, args: list[Value]) -> Value:
        if name == "get" and args and isinstance(args[0], Known):
            return table.values.get(args[0].value, args[1] if len(args) > 1 else Known(None))
        if name == "keys" and not args:
            return Items(tuple, [Known(k) for k in table.values])
        if name == "values" and not args:
            return Items(tuple, list(table.values.values()))
        if name == "items" and not args:
            return Items(tuple, [Items(tuple, [Known(k), v]) for k, v in table.values.items()])
        if name == "pop" and args and isinstance(args[0], Known) and args[0].value in table.values:
            return table.values.pop(args[0].value)
        if name == "update" and len(args) == 1:
            table.values.update(self.table_of(args[0]).values)
            return Known(None)
        raise UnflattenableError(f"the dict method {name}")


def _hashed_in(value: Any, known: frozenset[Any]) -> bool:
    try:
        return value in known
    except TypeError:
        return False
