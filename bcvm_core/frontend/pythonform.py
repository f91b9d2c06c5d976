"""One op as the user wrote it: what runs when an op's operands turn out to be Python's business.

The form takes operands that are evaluated already, so nothing is evaluated twice, and carries the
user's file name and line, so that what it raises points there.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..ops import registry
from ..ops.registry import BoundCall, personality_of
from .lowering import leaf_key, literal
from .quiet import compile_quietly
from .regions import MISSING


class Variables(Protocol):
    """What a form needs of a frame."""

    globals: dict[str, Any]

    def load(self, name: str) -> Any:
        """The value of a variable."""


class PythonForm:
    """The user's expression for one op.

    `function`: it is a call of a function. `receiver`: it is a method or attribute of its first
    operand, whose tensors are `personality`'s. `callee`: the leaf key and the value of the function
    it called when the program was made.
    """

    __slots__ = ("function", "receiver", "personality", "callee", "_node", "_call", "_filename", "_name", "_function")

    def __init__(
        self, node: ast.expr, call: BoundCall, filename: str, name: str, callee: tuple[str, Any] | None, personality: str = "numpy"
    ) -> None:
        self.function = isinstance(node, ast.Call) and call.op.scalar is not None and not call.op.pure_python
        self.receiver = callee is None and isinstance(node, ast.Call | ast.Attribute)
        self.personality = personality
        self.callee = callee
        self._node = node
        self._call = call
        self._filename = filename
        self._name = name
        self._function: types.FunctionType | None = None

    def applies(self, frame: Variables, operands: Sequence[Any]) -> bool:
        """Does the op still stand for what the user wrote: same callee, a receiver of the right kind?"""
        if self.callee is not None:
            return self._callee_now(frame) is self.callee[1] and self._has_needed(operands)
        return not self.receiver or (bool(operands) and personality_of(type(operands[0])) == self.personality)

    def _has_needed(self, operands: Sequence[Any]) -> bool:
        assert self.callee is not None
        found = registry.by_callable(self.callee[1])
        return found is None or registry.has_needed(found[1], operands)

    def _callee_now(self, frame: Variables) -> Any:
        assert self.callee is not None
        try:
            first, *attributes = self.callee[0].split(".")
            value = frame.load(first)
            for attribute in attributes:
                value = getattr(value, attribute)
        except (NameError, AttributeError):
            return MISSING
        return value

    def evaluate(self, frame: Variables, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The value Python gives for these operands; raises what Python raises, at the user's line."""
        if self._function is None or self._function.__globals__ is not frame.globals:
            self._function = self._compile(frame.globals)
        values = [*operands, *(attrs[name] for name in self._call.attrs)]
        if self.callee is None:
            return self._function(*values)
        first, *attributes = self.callee[0].split(".")
        callee = frame.load(first)
        for attribute in attributes:
            callee = getattr(callee, attribute)
        return self._function(*values, callee)

    def _compile(self, module_globals: dict[str, Any]) -> types.FunctionType:
        parts = [*self._call.operands, *self._call.attrs.values()]
        replaced = _Operands(parts, self._node.func if self.callee is not None and isinstance(self._node, ast.Call) else None)
        body = replaced.visit(self._node)
        names = [f"_{i}" for i in range(len(parts))] + (["_callee"] if self.callee is not None else [])
        arguments = ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[])
        for argument in arguments.args:
            ast.copy_location(argument, self._node)
        function = ast.copy_location(ast.Lambda(arguments, body), self._node)
        code = compile_quietly(ast.Expression(function), self._filename, "eval")
        inner = next(c for c in code.co_consts if isinstance(c, types.CodeType))
        return types.FunctionType(inner.replace(co_name=self._name, co_qualname=self._name), module_globals)


class _Operands:
    """Copies a tree with operand nodes replaced by parameters."""

    def __init__(self, parts: Sequence[Any], callee: ast.expr | None) -> None:
        self.by_id: dict[int, tuple[int, int | None]] = {}
        self.callee = callee
        for position, part in enumerate(parts):
            self.by_id[id(part)] = (position, None)
            if isinstance(part, ast.Tuple):  # a variadic part is a tuple that is not in the user's text
                for item, element in enumerate(part.elts):
                    self.by_id.setdefault(id(element), (position, item))

    def visit(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.visit(item) for item in node]
        if not isinstance(node, ast.AST):
            return node
        if self.callee is not None and node is self.callee:
            return ast.copy_location(ast.Name("_callee", ast.Load()), self.callee)
        found = self.by_id.get(id(node))
        if found is not None and not literal(node)[0]:  # type: ignore[arg-type]
            name = ast.copy_location(ast.Name(f"_{found[0]}", ast.Load()), node)
            if found[1] is None:
                return name
            index = ast.copy_location(ast.Constant(found[1]), node)
            return ast.copy_location(ast.Subscript(name, index, ast.Load()), node)
        new = node.__class__(**{field: self.visit(value) for field, value in ast.iter_fields(node)})
        return ast.copy_location(new, node)


class StatementForm:
    """A statement that writes: `x op= y`, whose operands are x and y, or `x[i] = y`, whose operands are x, i and y."""

    __slots__ = ("function", "_node", "_filename", "_name", "_compiled")

    def __init__(self, node: ast.AST, filename: str, name: str) -> None:
        self.function = False
        self._node = node  # an AugAssign, or the Subscript that is assigned to
        self._filename = filename
        self._name = name
        self._compiled: types.FunctionType | None = None

    def applies(self, frame: Variables, operands: Sequence[Any]) -> bool:
        """The statement means what it says whatever its operands are."""
        return True

    def evaluate(self, frame: Variables, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Write as Python does; gives what the name is bound to."""
        if self._compiled is None or self._compiled.__globals__ is not frame.globals:
            self._compiled = self._compile(frame.globals)
        return self._compiled(*operands)

    def _compile(self, module_globals: dict[str, Any]) -> types.FunctionType:
        names = ["_0", "_1"] if isinstance(self._node, ast.AugAssign) else ["_0", "_1", "_2"]
        statement: ast.stmt
        if isinstance(self._node, ast.AugAssign):
            statement = ast.AugAssign(ast.Name("_0", ast.Store()), self._node.op, ast.Name("_1", ast.Load()))
        else:
            target = ast.Subscript(ast.Name("_0", ast.Load()), ast.Name("_1", ast.Load()), ast.Store())
            statement = ast.Assign([target], ast.Name("_2", ast.Load()))
        body: list[ast.stmt] = [statement, ast.Return(ast.Name("_0", ast.Load()))]
        arguments = ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[])
        function = ast.FunctionDef(name="form", args=arguments, body=body, decorator_list=[])
        function.type_params = []  # type: ignore[attr-defined, unused-ignore]  # from 3.12 on
        for part in ast.walk(function):
            if "lineno" in part._attributes:
                ast.copy_location(part, self._node)
        code = compile_quietly(ast.Module([function], []), self._filename, "exec")
        inner = next(c for c in code.co_consts if isinstance(c, types.CodeType))
        return types.FunctionType(inner.replace(co_name=self._name, co_qualname=self._name), module_globals)


def callee_of(node: ast.expr, resolved: Any) -> tuple[str, Any] | None:
    """What a call's form must guard: the path and value of a function, None for methods and operators."""
    if not isinstance(node, ast.Call) or resolved is MISSING:
        return None
    key = leaf_key(node.func)
    return None if key is None else (key, resolved)
