"""Calls within a call that is flattened: ops become instructions, Python functions are evaluated in place."""

from __future__ import annotations

import ast
import functools
import inspect
import types
import weakref
from collections.abc import Iterable
from typing import Any

from ...errors import LoweringError
from ...frontend import source as sources
from ...frontend.scopes import Scope
from ...ops import registry
from ...ops.registry import BoundCall, OpInfo, Spelling
from .builtin_calls import CONTAINER_METHODS, BuiltinCalls, is_consumer, made_by
from .objects import Library, Reader
from .recorder import Origin, Recorder
from .statements import Frame
from .values import Items, Known, Local, Method, MethodOf, Stream, Table, Traced, UnflattenableError, Value

_MAX_DEPTH = 100


class Flattener(BuiltinCalls):
    """Evaluates one call of a model part (or function) into a `Recorder`."""

    def __init__(self, library: Library, recorder: Recorder) -> None:
        self.recorder = recorder
        self.reader = Reader(library, recorder.reads)
        self.library = library
        self.frame = Frame("<call>", "<bcvm>", {}, {}, "")

    # -- calls --------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Value:
        function = self._callee(node)
        if node.args and isinstance(node.args[0], ast.GeneratorExp) and isinstance(function, Known) and is_consumer(function.value):
            first = node.args[0]
            args = [Items(tuple, self._comprehend(first.elt, first.generators)), *self.spread(node.args[1:])]
        else:
            args = self.spread(node.args)
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                given = self.table_of(self.evaluate(keyword.value)).values
            else:
                given = {keyword.arg: self.evaluate(keyword.value)}
            if not keywords.keys().isdisjoint(given) or not all(isinstance(name, str) for name in given):
                raise UnflattenableError(f"an argument given twice in {self._place(node)}")
            keywords.update(given)
        return self.call(function, args, keywords, node)

    def _callee(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self._is_super(node.func):
            raise UnflattenableError("super() that is not read at once")
        func = node.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call):
            inner = func.value
            if isinstance(inner.func, ast.Name) and inner.func.id == "super" and not inner.keywords and self._is_super(inner.func):
                return self._super(inner, func.attr)
        return self.evaluate(func)

    def _is_super(self, node: ast.Name) -> bool:
        found = self._name(node)
        return isinstance(found, Known) and found.value is super

    def _super(self, node: ast.Call, name: str) -> Value:
        if node.args:
            cls, owner = (self.evaluate(a) for a in node.args)
        else:
            cell = self.frame.closure.get("__class__")
            if cell is None or self.frame.owner is None:
                raise UnflattenableError("super() outside of a method")
            cls, owner = Known(self.recorder.reads.closure(cell)), self.frame.owner
        if not isinstance(cls, Known) or not isinstance(owner, Known):
            raise UnflattenableError("super() of something that depends on the operands")
        return self.reader.after(owner, cls.value, name)

    def call(self, function: Value, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value:
        """The value of a call."""
        if isinstance(function, MethodOf):
            return self._call_method(function, args, keywords, at)
        if isinstance(function, Method):
            return self.inline(function, args, keywords, at)
        if isinstance(function, Local):
            return self._call_local(function, args, keywords)
        if not isinstance(function, Known):
            raise UnflattenableError("calling a value that depends on the operands")
        return self._call_known(function, args, keywords, at)

    def _call_known(self, function: Known, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value:
        target = function.value
        args = self.used_up(target, args, at)
        built = self._of_builtin(target, args, keywords, at)
        if built is not None:
            return built
        found = registry.by_callable(target)
        if found is not None and registry.takes(found[1], self._personality(args, keywords)):
            result = self._call_op(found, args, keywords, registry.REQUIRED, at)
            if result is not None:
                return result
        if self.library.is_module(target):
            return self._call_module(function, args, keywords, at)
        if isinstance(target, types.MethodType) and isinstance(target.__func__, types.FunctionType):
            return self.inline(Method(self.reader.hold(target.__self__, function.path), target.__func__), args, keywords, at)
        if type(target) is functools.partial:
            bound = {name: self.reader.hold(v) for name, v in self.recorder.reads.all_of(target.keywords).items()}
            first: list[Value] = [self.reader.hold(v) for v in target.args]
            return self.call(self.reader.hold(target.func, function.path), [*first, *args], {**bound, **keywords}, at)
        special = self._special(target, args, keywords, at)
        if special is not None:
            return special
        if self.library.is_pure(target):
            plain = [self.key(a, at) for a in args]
            return Known(target(*plain, **{k: self.key(v, at) for k, v in keywords.items()}), function.path)
        if isinstance(target, types.FunctionType):
            return self.inline(target, args, keywords, at)
        return self._call_object(function, args, keywords, at)

    def _personality(self, args: list[Value], keywords: dict[str, Value]) -> str:
        """Whose tensors are among the arguments; of the library where there are none."""
        for value in (*args, *keywords.values()):
            if isinstance(value, Traced) and value.is_tensor:
                return str(registry.personality_of(type(value.actual)))
        return self.library.personality

    def _call_object(self, function: Known, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value:
        """An object whose class has a `__call__` in Python."""
        target = function.value
        if isinstance(target, type | types.BuiltinFunctionType):
            raise UnflattenableError(f"a call of {target.__qualname__ if type(target) is not type else target.__name__}")
        self.recorder.reads.attribute(target, "__class__")  # which stays
        found = self.reader.in_class(type(target), "__call__")
        if not isinstance(found, types.FunctionType):
            raise UnflattenableError(f"a call of {function.path or type(target).__name__}")
        return self.inline(Method(function, found), args, keywords, at)

    def _call_module(self, module: Known, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value:
        name = self.library.entry(module.value, self.recorder.reads)
        return self.call(self.attribute(module, name, at), args, keywords, at)

    # -- ops ----------------------------------------------------------------------------------------

    def _call_op(
        self, found: tuple[OpInfo, Spelling], args: list[Value], keywords: dict[str, Value], receiver: Any, at: ast.AST
    ) -> Value | None:
        bound = registry.bind(*found, args, keywords, receiver)
        if bound is None:
            return None
        if bound.op.family == "random" or bound.op.writes:
            raise UnflattenableError(f"{bound.op.name} has an effect of its own")
        if not registry.has_needed(found[1], _members([*bound.operands, *bound.attrs.values()])):
            raise UnflattenableError(f"no tensor of the library among the operands of {bound.op.name}")
        return self._emit(bound, at)

    def _emit(self, bound: BoundCall, at: ast.AST) -> Value:
        operands = [_value(v) for v in bound.operands]
        attrs = {name: _value(v) for name, v in bound.attrs.items() if v != ()}
        if bound.op.pure_python and not attrs and all(isinstance(v, Items | Table) for v in operands):
            short = self._of_display(bound.op.name, operands)
            if short is not None:
                return short
        return self.recorder.op(bound.op, operands, attrs, syntax=False, at=at)

    def _of_display(self, name: str, operands: list[Value]) -> Value | None:
        """`len`, `tuple`, `list` of what is being built."""
        if len(operands) != 1:
            return None
        (value,) = operands
        if name == "len":
            return Known(len(value.values))  # type: ignore[union-attr]
        if name in ("tuple", "list") and isinstance(value, Items):
            return Items(tuple if name == "tuple" else list, list(value.values))
        return None

    def _call_method(self, method: MethodOf, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value:
        receiver, name = method.receiver, method.name
        if isinstance(receiver, Items):
            return self._list_method(receiver, name, args, keywords)
        if isinstance(receiver, Table):
            if keywords:
                raise UnflattenableError(f"parameters of the dict method {name}")
            return self._table_method(receiver, name, args)
        if not receiver.is_tensor:
            if (type(receiver.actual), name) in CONTAINER_METHODS and not keywords:
                plain = [self.constant(v, at) for v in (receiver, *args)]
                method_of = getattr(plain[0], name)
                return made_by(method_of, method_of(*plain[1:]))
            raise UnflattenableError(f"the method {name} of a {type(receiver.actual).__name__}")
        found = registry.method_spelling_for(type(receiver.actual), name)
        if found is None or name.endswith("_"):
            raise UnflattenableError(f"the tensor method {name}")
        result = self._call_op(found, args, keywords, receiver, at)
        if result is None:
            raise UnflattenableError(f"parameters of the tensor method {name}")
        return result

    # -- Python functions ---------------------------------------------------------------------------

    def inline(self, target: Method | types.FunctionType, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value:
        """Evaluate a Python function in place of its call."""
        function = target.function if isinstance(target, Method) else target
        found = registry.by_callable(function)
        if found is not None and not isinstance(target, Method):
            raise UnflattenableError(f"parameters of {function.__qualname__}")
        if getattr(function, "__bcvm_nojit__", False) or not self.library.inlines(function):
            raise UnflattenableError(f"{function.__module__}.{function.__qualname__} is left to Python")
        source, code = source_of(function)
        self.recorder.reads.function(function, code)
        if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            raise UnflattenableError(f"{function.__qualname__} is a generator or coroutine")
        receiver: list[Value] = [target.receiver] if isinstance(target, Method) else []
        names = self._bind(function, [*receiver, *args], keywords)
        closure = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        path = target.receiver.path if isinstance(target, Method) else self.frame.path
        frame = Frame(function.__qualname__, source.filename, function.__globals__, closure, path)
        frame.names = names
        frame.locals = local_names(source.node)
        first = next(iter(names.values()), None)
        frame.owner = first if isinstance(first, Known) else None
        return self._run(frame, source.node)

    def _bind(self, function: types.FunctionType, args: list[Value], keywords: dict[str, Value]) -> dict[str, Value]:
        try:
            bound = signature_of(function).bind(*args, **keywords)
        except TypeError as error:
            raise UnflattenableError(str(error)) from None
        names: dict[str, Value] = {}
        for name, parameter in signature_of(function).parameters.items():
            if name not in bound.arguments:
                default = parameter.default
                if parameter.kind is parameter.VAR_POSITIONAL:
                    names[name] = Items(tuple, [])
                elif parameter.kind is parameter.VAR_KEYWORD:
                    names[name] = Table()
                else:
                    names[name] = self.reader.hold(default, name)
            elif parameter.kind is parameter.VAR_POSITIONAL:
                names[name] = Items(tuple, list(bound.arguments[name]))
            elif parameter.kind is parameter.VAR_KEYWORD:
                names[name] = Table(dict(bound.arguments[name]))
            else:
                names[name] = bound.arguments[name]
        return names

    def _call_local(self, function: Local, args: list[Value], keywords: dict[str, Value]) -> Value:
        """A function defined during the call."""
        arguments = function.node.args
        plain = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or len(args) > len(plain):
            raise UnflattenableError("a local function with parameters of a special kind")
        defaults = zip(plain[len(plain) - len(function.defaults) :], function.defaults, strict=True)
        given = dict(zip(plain, args, strict=False))
        names = dict(defaults) | given | keywords
        if set(names) != set(plain) or not given.keys().isdisjoint(keywords) or arguments.posonlyargs:
            raise UnflattenableError("a local function called with other arguments")
        outer = function.frame
        frame = Frame(getattr(function.node, "name", "<lambda>"), outer.filename, outer.globals, outer.closure, outer.path, outer)
        frame.names = names
        frame.locals = local_names(function.node)
        return self._run(frame, function.node)

    def _run(self, frame: Frame, node: ast.AST) -> Value:
        outer, origin = self.frame, self.recorder.origin
        frame.depth = outer.depth + 1
        if frame.depth > _MAX_DEPTH:
            raise UnflattenableError("calls are nested too deeply")
        self.frame, self.recorder.origin = frame, Origin(frame.filename, frame.path)
        try:
            body: Any = node.body  # type: ignore[attr-defined]
            return self.evaluate(body) if isinstance(node, ast.Lambda) else self.body(body)
        finally:
            self.frame, self.recorder.origin = outer, origin


def _value(value: Any) -> Value:
    """An argument as `registry.bind` gives it: a value, a tuple of values (`*args`), or a plain object (fixed attributes)."""
    if isinstance(value, Known | Traced | Items | Table | Stream | Method | MethodOf | Local):
        return value
    if isinstance(value, tuple) and value and not all(map(_is_plain, value)):
        return Items(tuple, [_value(v) for v in value])
    return Known(value)


def _members(values: Iterable[Any]) -> list[Any]:
    """What arguments are in this run, those in displays one by one."""
    found: list[Any] = []
    for value in map(_value, values):
        if isinstance(value, Items):
            found += _members(value.values)
        elif isinstance(value, Known | Traced):
            found.append(value.value if isinstance(value, Known) else value.actual)
    return found


def _is_plain(value: Any) -> bool:
    return not isinstance(value, Known | Traced | Items | Table | Stream | Method | MethodOf | Local)


def signature_of(function: types.FunctionType) -> inspect.Signature:
    """The parameters of the function itself (not of what it wraps, nor what it says of itself)."""
    bare = types.FunctionType(function.__code__, {}, function.__name__, function.__defaults__, function.__closure__)
    bare.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(bare)


@functools.lru_cache(maxsize=1024)
def local_names(node: ast.AST) -> frozenset[str]:
    """The local variables of a function."""
    return frozenset(Scope(node).local)


_sources: weakref.WeakKeyDictionary[types.CodeType, sources.FunctionSource] = weakref.WeakKeyDictionary()


def source_of(function: types.FunctionType) -> tuple[sources.FunctionSource, types.CodeType]:
    """A function's source, and the code it was compiled to. Raises UnflattenableError."""
    linker = function.__dict__.get("__bcvm__")
    if linker is not None and function.__code__ in (linker.code, linker.original):
        return linker.source, linker.original
    code = function.__code__
    if code not in _sources:
        try:
            _sources[code] = sources.find(function)
        except LoweringError as error:
            raise UnflattenableError(str(error)) from None
    return _sources[code], code
