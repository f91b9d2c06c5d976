"""What the stack holds while bytecode is read back: trees, and values that wait for their store."""

from __future__ import annotations

import ast
import math
import types
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .recover_code import Position

_LITERALS = (int, float, str, bytes, bool, type(None), type(...))


class Unreadable(Exception):
    """The bytecode is not (or not only) what the reader knows."""


@dataclass(slots=True)
class Frame:
    """The stack of one statement list (or of one expression, when `out` is None)."""

    values: list[Any] = field(default_factory=list)
    out: list[ast.stmt] | None = None
    parallel: list[tuple[ast.expr, ast.expr]] = field(default_factory=list)

    def push(self, value: Any) -> None:
        self.values.append(value)

    def raw(self) -> Any:
        if not self.values:
            raise Unreadable("the stack is empty")
        return self.values.pop()

    def pop(self) -> ast.expr:
        """The top as an expression: what was stored and kept is a `:=`, a lone formatted value an f-string."""
        value = self.raw()
        if isinstance(value, Pending) and len(value.targets) == 1 and isinstance(value.targets[0], ast.Name):
            return placed(ast.NamedExpr(value.targets[0], value.value), None, value.targets[0], value.value)
        if isinstance(value, ast.FormattedValue):
            return placed(ast.JoinedStr([value]), spot(value))
        if isinstance(value, Made) and value.lambda_node is not None:
            return value.lambda_node
        if not isinstance(value, ast.expr):
            raise Unreadable(f"a {type(value).__name__} is no expression")
        return value

    def take(self, count: int) -> list[ast.expr]:
        return [self.pop() for _ in range(count)][::-1]

    @property
    def busy(self) -> bool:
        """Are there values of an unfinished statement?"""
        return any(not isinstance(v, Saved) for v in self.values)

    def emit(self, statement: ast.stmt) -> None:
        if self.out is None:
            raise Unreadable("a statement within an expression")
        self.out.append(statement)


class Null:
    """What CPython pushes before a plain callable."""


@dataclass(eq=False)
class Pending:
    """A value that was stored and kept: `a = b = value`, or `(a := value)`."""

    value: Any
    targets: list[ast.expr]


@dataclass(eq=False)
class Augmented:
    """The result of an in-place operator, waiting for its store."""

    op: ast.operator
    right: ast.expr


@dataclass(eq=False)
class Unpacking:
    """`a, b = value`: the targets come one by one. `value` may be a slot of another unpacking."""

    value: Any
    pos: Position | None
    targets: list[ast.expr | None]
    star: int = -1


@dataclass(eq=False)
class Slot:
    """One value of an unpacking."""

    owner: Unpacking
    index: int


class Saved:
    """What a name held before a comprehension that runs in place; put back after it."""


@dataclass(eq=False)
class Iterator:
    """The result of `iter(value)`."""

    value: ast.expr


class Item(ast.expr):
    """What a loop's iterator gave, waiting for its target."""


@dataclass(eq=False)
class Made:
    """A function object made from a code constant."""

    code: types.CodeType
    defaults: list[ast.expr]
    lambda_node: ast.Lambda | None = None
    definition: ast.FunctionDef | None = None


class Append(ast.stmt):
    """Pseudo-statement of comprehensions: the element (or key and value) that is added."""

    def __init__(self, *parts: ast.expr) -> None:
        super().__init__()
        self.parts = list(parts)


_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def spot(node: ast.AST) -> Position | None:
    """The position of a node, when it has one."""
    if getattr(node, "end_lineno", None) is None:
        return None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


Node = TypeVar("Node", bound=ast.AST)


def placed(node: Node, pos: Position | None, *parts: ast.AST) -> Node:
    """`node` put where its instruction says, widened to hold its parts. (Positions of calls over several lines start late.)"""
    spots = [p for p in (pos, *map(spot, parts)) if p is not None]
    if spots:
        start, end = min(p[:2] for p in spots), max(p[2:] for p in spots)
        for name, value in zip(_PLACE, (*start, *end), strict=True):
            setattr(node, name, value)
    return node


def constant(value: Any, pos: Position | None) -> ast.expr:
    """The display of a constant: negative numbers and tuples as they are written."""
    if type(value) in (int, float) and (value < 0 or (value == 0 and math.copysign(1, value) < 0)):
        return placed(ast.UnaryOp(ast.USub(), placed(ast.Constant(-value), pos)), pos)
    if type(value) is tuple:
        return placed(ast.Tuple([constant(v, pos) for v in value], ast.Load()), pos)
    if type(value) is frozenset:
        return placed(ast.Set([constant(v, pos) for v in value]), pos)
    imaginary = type(value) is complex and repr(value).startswith(tuple("0123456789"))
    if imaginary or (type(value) in _LITERALS and value == value):
        return placed(ast.Constant(value), pos)
    raise Unreadable(f"constant {value!r}")
