"""The statements of functions whose calls are flattened."""

from __future__ import annotations

import ast
import operator
import types
from collections.abc import Iterator, Sequence
from typing import Any

from ...ops import registry
from .objects import Reader
from .values import Items, Known, Local, Stream, Table, Traced, UnflattenableError, Value, current, sources_of

_MAX_ROUNDS = 10_000  # of one loop


class Frame:
    """The names of one function call under evaluation."""

    def __init__(
        self, name: str, filename: str, space: dict[str, Any], closure: dict[str, types.CellType], path: str, outer: Frame | None = None
    ) -> None:
        self.name = name
        self.filename = filename
        self.globals = space
        self.closure = closure
        self.path = path
        self.outer = outer
        self.names: dict[str, Value] = {}
        self.locals: frozenset[str] = frozenset()  # bound somewhere in the function: no names of outer scopes
        self.is_comprehension = False
        self.owner: Known | None = None  # what `super()` starts from
        self.depth = 0


def unchanged(sources: Sequence[tuple[Items | Table, list[Any], bool]], done: int) -> None:
    """Raises UnflattenableError where a list or dict that is gone through has other items now than when that began.

    Those it has given already may be others: `for key, value in table.items(): table[key] = ...` is usual.
    """
    for source, before, forwards in sources:
        now = current(source)
        first = done * (isinstance(source, Table) + 1) if forwards else 0
        if len(now) != len(before) or any(map(operator.is_not, now[first:], before[first:])):
            raise UnflattenableError("a list or dict that changes while it is iterated over")


def _is_written(value: Value) -> bool:
    """Whether an augmented assignment writes into the value instead of making another."""
    if isinstance(value, Traced):
        return type(value.actual) is list or registry.personality_of(type(value.actual)) == "numpy"
    if isinstance(value, Known):
        return type(value.value) not in (bool, int, float, complex, str, tuple, bytes)
    return isinstance(value, Table | Stream)


class _Leave(Exception):
    """Break or continue."""


class _Break(_Leave):
    pass


class _Continue(_Leave):
    pass


class _Return(Exception):
    def __init__(self, value: Value) -> None:
        self.value = value


class Statements:
    """Evaluates statements; expressions are the subclass's."""

    reader: Reader
    frame: Frame

    def evaluate(self, node: ast.expr) -> Value:
        raise NotImplementedError

    def key(self, value: Value, at: ast.AST) -> Any:
        raise NotImplementedError

    def truth(self, value: Value, at: ast.AST) -> bool:
        raise NotImplementedError

    def iterate(self, value: Value, at: ast.AST) -> list[Value]:
        raise NotImplementedError

    def steps(self, value: Value, at: ast.AST) -> Iterator[Value]:
        """The items of an iterable, one by one. Raises UnflattenableError when it changes meanwhile."""
        sources = sources_of(value)
        items = self.iterate(value, at)
        for done, item in enumerate(items):
            yield item
            unchanged(sources, done + 1)

    def operate(self, op: ast.AST, operands: list[Value], at: ast.AST) -> Value:
        raise NotImplementedError

    # -- bodies -------------------------------------------------------------------------------------

    def body(self, statements: list[ast.stmt]) -> Value:
        """Evaluate a function's body; its result."""
        try:
            self.block(statements)
        except _Return as done:
            return done.value
        return Known(None)

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            handler = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if handler is None:
                raise UnflattenableError(f"a statement `{type(statement).__name__.lower()}` in {self._place(statement)}")
            handler(statement)

    def _place(self, node: ast.AST) -> str:
        return f"{self.frame.name} (line {getattr(node, 'lineno', '?')} of {self.frame.filename.rpartition('/')[2]})"

    def _expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.evaluate(node.value)

    def _pass(self, node: ast.Pass) -> None:
        return None

    def _return(self, node: ast.Return) -> None:
        raise _Return(Known(None) if node.value is None else self.evaluate(node.value))

    def _break(self, node: ast.Break) -> None:
        raise _Break

    def _continue(self, node: ast.Continue) -> None:
        raise _Continue

    def _raise(self, node: ast.Raise) -> None:
        raise UnflattenableError(f"an exception is raised in {self._place(node)}")

    def _assert(self, node: ast.Assert) -> None:
        if not self.truth(self.evaluate(node.test), node):
            raise UnflattenableError(f"an assertion fails in {self._place(node)}")

    def _functiondef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list or any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(node)):
            raise UnflattenableError(f"a decorated function or a generator in {self._place(node)}")
        self.bind(self.frame, node.name, Local(node, self.frame, tuple(self.evaluate(d) for d in node.args.defaults)))

    def _if(self, node: ast.If) -> None:
        self.block(node.body if self.truth(self.evaluate(node.test), node.test) else node.orelse)

    def _for(self, node: ast.For) -> None:
        for item in self.steps(self.evaluate(node.iter), node.iter):
            self.assign(node.target, item)
            try:
                self.block(node.body)
            except _Continue:
                continue
            except _Break:
                return
        self.block(node.orelse)

    def _while(self, node: ast.While) -> None:
        for _ in range(_MAX_ROUNDS):
            if not self.truth(self.evaluate(node.test), node.test):
                self.block(node.orelse)
                return
            try:
                self.block(node.body)
            except _Continue:
                continue
            except _Break:
                return
        raise UnflattenableError(f"more than {_MAX_ROUNDS} rounds in {self._place(node)}")

    # -- binding names ------------------------------------------------------------------------------

    def _assign(self, node: ast.Assign) -> None:
        value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise UnflattenableError(f"a write into an object in {self._place(node)}")
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        old, value = self.evaluate(read), self.evaluate(node.value)
        if isinstance(old, Items) and old.kind is list:
            if not isinstance(node.op, ast.Add):
                raise UnflattenableError(f"a write in place in {self._place(node)}")
            old.values.extend(self.iterate(value, node))
            return
        if _is_written(old):
            raise UnflattenableError(f"a write in place in {self._place(node)}")
        self.bind(self.frame, node.target.id, self.operate(node.op, [old, value], node))

    def bind(self, frame: Frame, name: str, value: Value) -> None:
        """Bind a local name."""
        if name not in frame.locals:
            raise UnflattenableError(f"a write to {name}, which is no local variable of {frame.name}")
        frame.names[name] = value

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a target."""
        if isinstance(target, ast.Name):
            self.bind(self.frame, target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value)
        elif isinstance(target, ast.Subscript):
            self._store_item(target, value)
        else:
            raise UnflattenableError(f"a write into an object in {self._place(target)}")

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        star = next((i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)), None)
        if star is None:
            parts = self.items_of(value, len(target.elts), target)
        else:
            parts = self.iterate(value, target)
            after = len(target.elts) - star - 1
            if len(parts) < len(target.elts) - 1:
                raise UnflattenableError(f"too few values in {self._place(target)}")
            middle = parts[star : len(parts) - after]
            parts = [*parts[:star], Items(list, middle), *parts[len(parts) - after :]]
        if len(parts) != len(target.elts):
            raise UnflattenableError(f"another number of values in {self._place(target)}")
        for part, item in zip(target.elts, parts, strict=True):
            self.assign(part.value if isinstance(part, ast.Starred) else part, item)

    def items_of(self, value: Value, count: int, at: ast.AST) -> list[Value]:
        """The items of something that is unpacked into `count` names."""
        return self.iterate(value, at)

    def _store_item(self, target: ast.Subscript, value: Value) -> None:
        """An item of a list or dict that was made during the call."""
        holder = self.evaluate(target.value)
        index = self.evaluate(target.slice)
        if isinstance(holder, Table) and isinstance(index, Known):
            holder.values[self.key(index, target)] = value
        elif isinstance(holder, Items) and holder.kind is list and isinstance(index, Known) and type(index.value) is int:
            if not -len(holder.values) <= index.value < len(holder.values):
                raise UnflattenableError(f"an index out of range in {self._place(target)}")
            holder.values[index.value] = value
        else:
            raise UnflattenableError(f"a write into an object in {self._place(target)}")
