"""Builtin functions, and methods of lists and dicts, within a call that is flattened."""

from __future__ import annotations

import abc
import ast
import builtins
import functools
import math
import types
from collections.abc import Callable
from typing import Any

from ...ops import registry
from .expressions import Expressions
from .objects import NoAttributeError
from .plain import require_plain
from .reads import MISSING
from .values import (
    Items,
    Known,
    Local,
    Method,
    MethodOf,
    Stream,
    Table,
    Traced,
    UnflattenableError,
    Value,
    actual_of,
    fresh,
    sources_of,
    type_of,
)

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
_CONSUMERS = frozenset({sum, tuple, list, any, all, max, min, sorted})
_VIEWS: frozenset[type] = frozenset({type({}.keys()), type({}.values()), type({}.items())})
_METACLASSES = frozenset({"builtins", "enum", "abc", "pybind11_builtins", "mindspore.common.tensor", "mindspore.common.parameter"})
_ABSTRACT = frozenset({"collections.abc", "numbers"})
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
        if not isinstance(target, type | types.BuiltinFunctionType):
            return None
        name = target.__name__
        if keywords or getattr(builtins, name, None) is not target:
            return None
        handler: Callable[..., Value] | None = getattr(self, f"_builtin_{name}", None)
        return None if handler is None else handler(at, *args)

    def _special(self, target: Any, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value | None:
        """Pure builtins and methods of containers: what they are given must be known."""
        if type(target) is types.BuiltinFunctionType and not isinstance(target.__self__, types.ModuleType | None):
            owner: Any = target.__self__
            if (type(owner), target.__name__) not in CONTAINER_METHODS:
                return None
            require_plain(list(owner) if type(owner) is dict else owner, identity=True)
        elif not isinstance(target, type | types.BuiltinFunctionType) or not _hashed_in(target, _PURE):
            return None
        if "key" in keywords:
            raise UnflattenableError(f"a key for {target.__name__}")
        look = self.key if target is functools.partial or target.__name__ in ("get", "index", "count") else self.constant
        plain = [look(a, at) for a in args]
        named = {name: look(v, at) for name, v in keywords.items()}
        return made_by(target, target(*plain, **named))

    def used_up(self, target: Any, args: list[Value], at: ast.AST) -> list[Value]:
        """The arguments of a call, iterators as sequences where it does nothing else than going through them."""
        if not any(isinstance(a, Stream) for a in args) or not is_consumer(target):
            return args
        return [Items(tuple, self.iterate(a, at)) if isinstance(a, Stream) else a for a in args]

    def _builtin_len(self, at: ast.AST, value: Value) -> Value:
        if isinstance(value, Items | Table):
            return Known(len(value.values))
        if isinstance(value, Known):
            return Known(len(self.iterate(value, at)))
        if not isinstance(value, Traced):
            raise UnflattenableError("the length of an iterator")
        self.require_own([value], "__len__")
        return self.recorder.op(registry.row("len"), [value], syntax=False, at=at)

    def _seen(self, value: Value, at: ast.AST) -> type:
        """The class of a value, the same in every run."""
        if isinstance(value, Known):
            return self.reader.class_of(value.value)
        if not isinstance(value, Traced):
            return type_of(value)
        if value.is_tensor:
            return self.reader.library.class_of(value.actual, self.recorder.is_settled(value))
        return type(value.actual) if self.recorder.is_settled(value) else type(self.recorder.expect(value, at))

    def _builtin_isinstance(self, at: ast.AST, value: Value, classes: Value) -> Value:
        union = isinstance(classes, Known) and type(classes.value) is types.UnionType
        found: Any = actual_of(classes) if union else self.key(classes, at)
        for cls in _one_by_one(found):
            meta = type(cls)
            if meta.__module__ not in _METACLASSES or (meta is abc.ABCMeta and cls.__module__ not in _ABSTRACT):
                raise UnflattenableError(f"{getattr(cls, '__name__', cls)} may have a way of its own to know its instances")
        return Known(issubclass(self._seen(value, at), found))

    def _builtin_type(self, at: ast.AST, value: Value) -> Value:
        return Known(self._seen(value, at))

    def _builtin_getattr(self, at: ast.AST, owner: Value, name: Value, *default: Value) -> Value:
        try:
            return self.attribute(owner, self.constant(name, at), at)
        except NoAttributeError:
            if default:
                return default[0]
            raise

    def _builtin_hasattr(self, at: ast.AST, owner: Value, name: Value) -> Value:
        wanted = self.constant(name, at)
        if isinstance(owner, Traced):
            found = getattr(self._seen(owner, at), wanted, None)  # not in the class: it may be in the object
            if not isinstance(found, types.FunctionType | types.MethodDescriptorType | types.GetSetDescriptorType | property):
                raise UnflattenableError(f"whether a {type(owner.actual).__name__} has an attribute {wanted}")
            return Known(True)
        try:
            self.attribute(owner, wanted, at)
        except NoAttributeError:
            return Known(False)
        return Known(True)

    def _builtin_callable(self, at: ast.AST, value: Value) -> Value:
        if isinstance(value, Known):
            return Known(self.reader.in_class(self.reader.class_of(value.value), "__call__") is not MISSING)
        if isinstance(value, Traced | Stream):
            raise UnflattenableError("whether a value can be called")
        return Known(isinstance(value, Method | MethodOf | Local))

    def _builtin_enumerate(self, at: ast.AST, value: Value, start: Value = Known(0)) -> Value:  # noqa: B008 (immutable)
        first, sources = self.constant(start, at), sources_of(value)
        return Stream([Items(tuple, [Known(first + i), item]) for i, item in enumerate(self.iterate(value, at))], sources)

    def _builtin_zip(self, at: ast.AST, *values: Value) -> Value:
        sources = [source for v in values for source in sources_of(v)]
        rows = zip(*(self.iterate(v, at) for v in values), strict=False)
        return Stream([Items(tuple, list(row)) for row in rows], sources)

    def _builtin_reversed(self, at: ast.AST, value: Value) -> Value:
        if isinstance(value, Stream):
            raise UnflattenableError("an iterator backwards")
        return Stream(self.iterate(value, at)[::-1], sources_of(value, forwards=False))

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
        elif name == "insert" and len(args) == 2:
            items.values.insert(self.constant(args[0], ast.Pass()), args[1])
        elif name == "pop":
            return items.values.pop(*(self.constant(a, ast.Pass()) for a in args))
        elif name == "reverse" and not args:
            items.values.reverse()
        elif name == "copy" and not args:
            return Items(list, list(items.values))
        else:
            raise UnflattenableError(f"the list method {name}")
        return Known(None)

    def _table_method(self, table: Table, name: str, args: list[Value]) -> Value:
        if name == "get" and args:
            return table.values.get(self.key(args[0], ast.Pass()), args[1] if len(args) > 1 else Known(None))
        if name == "keys" and not args:
            return Stream([Known(k) for k in table.values], sources_of(table))
        if name == "values" and not args:
            return Stream(list(table.values.values()), sources_of(table))
        if name == "items" and not args:
            return Stream([Items(tuple, [Known(k), v]) for k, v in table.values.items()], sources_of(table))
        if name == "pop" and len(args) == 1:
            return table.values.pop(self.key(args[0], ast.Pass()))
        if name == "update" and len(args) == 1:
            table.values.update(self.table_of(args[0]).values)
            return Known(None)
        raise UnflattenableError(f"the dict method {name}")


def made_by(target: Any, found: Any) -> Value:
    """The result of a builtin: an object of its own, except where it picks one of those it was given."""
    if type(found) in _VIEWS:
        return Stream([Known(v) if type(v) is not tuple else Items(tuple, [Known(x) for x in v]) for v in found])
    return Known(found) if target.__name__ in ("get", "min", "max") else fresh(found)


def is_consumer(target: Any) -> bool:
    """Whether a builtin goes through its arguments at once and does nothing else with them."""
    if type(target) is types.BuiltinFunctionType and isinstance(target.__self__, str):
        return target.__name__ == "join"
    return isinstance(target, type | types.BuiltinFunctionType) and _hashed_in(target, _CONSUMERS)


def _one_by_one(classes: Any) -> list[Any]:
    if type(classes) is tuple:
        return [cls for part in classes for cls in _one_by_one(part)]
    return list(classes.__args__) if isinstance(classes, types.UnionType) else [classes]


def _hashed_in(value: Any, known: frozenset[Any]) -> bool:
    try:
        return value in known
    except TypeError:
        return False
