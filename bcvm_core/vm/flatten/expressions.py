"""The expressions of functions whose calls are flattened."""

from __future__ import annotations

import ast
import operator
from typing import Any

from ...ops import registry
from .looking import PLAIN, Looking
from .objects import NoAttributeError, PropertyRead
from .plain import require_plain
from .reads import MISSING
from .statements import Frame
from .values import (
    Items,
    Known,
    Local,
    Method,
    MethodOf,
    Table,
    Traced,
    UnflattenableError,
    Value,
    actual_of,
    fresh,
    is_known,
    type_of,
)

_OPERATORS: dict[str, Any] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv, "FloorDiv": operator.floordiv,
    "Mod": operator.mod, "Pow": operator.pow, "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor,
    "LShift": operator.lshift, "RShift": operator.rshift, "USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert,
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
}  # fmt: skip
_NAMES = {"Mult": "mul", "Div": "truediv", "BitAnd": "and", "BitOr": "or", "BitXor": "xor", "USub": "neg", "UAdd": "pos",
          "NotEq": "ne", "LtE": "le", "GtE": "ge"}  # fmt: skip
METHODS = {name: tuple(f"__{form}{_NAMES.get(name, name.lower())}__" for form in ("", "r", "i")) for name in _OPERATORS}


class Expressions(Looking):
    """Evaluates expressions; calls are the subclass's."""

    def call(self, function: Value, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value:
        raise NotImplementedError

    def inline(self, method: Method, args: list[Value], keywords: dict[str, Value], at: ast.AST) -> Value:
        raise NotImplementedError

    def evaluate(self, node: ast.expr) -> Value:
        """The value of an expression. Raises UnflattenableError."""
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is None:
            raise UnflattenableError(f"an expression `{type(node).__name__.lower()}` in {self._place(node)}")
        result: Value = handler(node)
        return result

    # -- leaves -------------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Value:
        return Known(node.value)

    def _name(self, node: ast.Name) -> Value:
        frame: Any = self.frame
        while frame is not None:
            if node.id in frame.names:
                found: Value = frame.names[node.id]
                return found
            if node.id in frame.locals:
                raise UnflattenableError(f"the name {node.id} is not bound")
            if node.id in frame.closure:
                value = self.recorder.reads.closure(frame.closure[node.id])
                if value is MISSING:
                    raise UnflattenableError(f"the name {node.id} is not bound")
                return self.reader.hold(value, node.id)
            frame = frame.outer
        return self.reader.name(node.id, self.frame.globals)

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.evaluate(node.value), node.attr, node)

    def attribute(self, owner: Value, name: str, at: ast.AST) -> Value:
        """`owner.name`."""
        if name.startswith("__") and not name.endswith("__"):
            raise UnflattenableError(f"a private name, {name}")
        if isinstance(owner, Known) and registry.personality_of(type(owner.value)) is not None:
            owner = self.recorder.capture(owner.value, owner.path)
        if isinstance(owner, Traced):
            self.require_own([owner], name)
            row = registry.attribute_spelling_for(type(owner.actual), name)
            if row is not None:
                return self.recorder.op(row[0], [owner], dict(self._fixed(row[1])), syntax=True, at=at)
            if not self.has_method(owner, name):
                raise UnflattenableError(f"the attribute {name} of a {type(owner.actual).__name__}")
            return MethodOf(owner, name)
        if isinstance(owner, Items | Table):
            if not hasattr(type_of(owner), name):
                raise NoAttributeError(f"a {type_of(owner).__name__} has no attribute {name}")
            return MethodOf(owner, name)
        if not isinstance(owner, Known):
            raise UnflattenableError(f"an attribute {name} of a function")
        try:
            return self.reader.attribute(owner, name)
        except PropertyRead as found:
            return self.inline(found.getter, [], {}, at)

    def has_method(self, owner: Traced, name: str) -> bool:
        """Whether the library's method of that name is what the attribute is, and no other that somebody put in its place."""
        tp = type(owner.actual)
        if registry.personality_of(tp) is None:
            return callable(getattr(tp, name, None))
        return registry.method_spelling_for(tp, name) is not None

    @staticmethod
    def _fixed(spelling: registry.Spelling) -> dict[str, Value]:
        return {name: Known(value) for name, value in spelling.fixed.items()}

    # -- displays -----------------------------------------------------------------------------------

    def _tuple(self, node: ast.Tuple) -> Value:
        return Items(tuple, self.spread(node.elts))

    def _list(self, node: ast.List) -> Value:
        return Items(list, self.spread(node.elts))

    def spread(self, nodes: list[ast.expr]) -> list[Value]:
        """The values of a display or argument list, `*x` taken apart."""
        values: list[Value] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values += self.iterate(self.evaluate(node.value), node)
            else:
                values.append(self.evaluate(node))
        return values

    def _dict(self, node: ast.Dict) -> Value:
        table = Table()
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                table.values.update(self.table_of(self.evaluate(value)).values)
            else:
                table.values[self.key(self.evaluate(key), key)] = self.evaluate(value)
        return table

    def table_of(self, value: Value) -> Table:
        """A dict, as a table."""
        if isinstance(value, Table):
            return value
        if isinstance(value, Known) and type(value.value) is dict:
            require_plain(list(value.value), identity=True)
            return Table({key: Known(v) for key, v in value.value.items()})
        raise UnflattenableError("a mapping that depends on the operands")

    def _slice(self, node: ast.Slice) -> Value:
        parts = [Known(None) if p is None else self.evaluate(p) for p in (node.lower, node.upper, node.step)]
        if all(map(is_known, parts)):
            return Known(slice(*map(actual_of, parts)))
        names = ("start", "stop", "step")
        return self.recorder.op(registry.row("slice"), [], dict(zip(names, parts, strict=True)), syntax=True, at=node)

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        texts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                if part.conversion not in (-1, ord("s")) or part.format_spec is not None:
                    raise UnflattenableError("a formatted text")
                found = self.constant(self.evaluate(part.value), part)
                texts.append(str(found) if part.conversion == ord("s") else format(found))
            else:
                assert isinstance(part, ast.Constant)
                texts.append(str(part.value))
        return Known("".join(texts))

    def _listcomp(self, node: ast.ListComp) -> Value:
        return Items(list, self._comprehend(node.elt, node.generators))

    def _generatorexp(self, node: ast.GeneratorExp) -> Value:
        raise UnflattenableError(f"a generator expression that is not used up at once, in {self._place(node)}")

    def _comprehend(self, element: ast.expr, generators: list[ast.comprehension]) -> list[Value]:
        """The values of a comprehension: a scope of its own, in which only the first iterable is not evaluated."""
        outer = self.frame
        first = generators[0]
        source = self.evaluate(first.iter)
        frame = Frame(outer.name, outer.filename, outer.globals, outer.closure, outer.path, outer)
        frame.depth, frame.is_comprehension = outer.depth, True
        frame.locals = frozenset(n.id for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name))
        self.frame = frame
        try:
            return self._rounds(element, source, generators)
        finally:
            self.frame = outer

    def _rounds(self, element: ast.expr, source: Value, generators: list[ast.comprehension]) -> list[Value]:
        first, *rest = generators
        if first.is_async:
            raise UnflattenableError("an asynchronous comprehension")
        values: list[Value] = []
        for item in self.steps(source, first.iter):
            self.assign(first.target, item)
            if all(self.truth(self.evaluate(test), test) for test in first.ifs):
                values += self._rounds(element, self.evaluate(rest[0].iter), rest) if rest else [self.evaluate(element)]
        return values

    def _lambda(self, node: ast.Lambda) -> Value:
        return Local(node, self.frame, tuple(self.evaluate(d) for d in node.args.defaults))

    # -- operators ----------------------------------------------------------------------------------

    def _binop(self, node: ast.BinOp) -> Value:
        return self.operate(node.op, [self.evaluate(node.left), self.evaluate(node.right)], node)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            return Known(not self.truth(value, node))
        return self.operate(node.op, [value], node)

    def operate(self, op: ast.AST, operands: list[Value], at: ast.AST) -> Value:
        """An operator of the syntax."""
        name = type(op).__name__
        if all(isinstance(v, Known) and type(v.value) in PLAIN for v in operands):
            for value in operands:
                if name not in ("Add", "Mult"):  # which do not look at items
                    require_plain(actual_of(value))
            return fresh(_OPERATORS[name](*map(actual_of, operands)))
        joined = self._sequences(name, operands)
        if joined is not None:
            return joined
        row = registry.by_operator(name)
        if row is None:
            raise UnflattenableError(f"the operator {name}")
        self.require_own(operands, *METHODS.get(name, ()))
        return self.recorder.op(row, operands, syntax=True, at=at)

    @staticmethod
    def _sequences(name: str, operands: list[Value]) -> Value | None:
        """Tuples and lists under construction, joined or repeated."""
        if len(operands) != 2 or not any(isinstance(v, Items) for v in operands):
            return None
        left, right = operands
        if name == "Add":
            parts = [_parts(v) for v in operands]
            if parts[0] is not None and parts[1] is not None and type_of(left) is type_of(right):
                return Items(type_of(left), [*parts[0], *parts[1]])
        if name == "Mult" and isinstance(left, Items) and isinstance(right, Known) and type(right.value) is int:
            return Items(left.kind, left.values * right.value)
        return None

    def _compare(self, node: ast.Compare) -> Value:
        left = self.evaluate(node.left)
        result: Value = Known(True)
        for i, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.evaluate(right_node)
            result = self._comparison(op, left, right, node)
            if i + 1 < len(node.ops) and not self.truth(result, node):
                return result
            left = right
        return result

    def _comparison(self, op: ast.cmpop, left: Value, right: Value, at: ast.expr) -> Value:
        if isinstance(op, ast.Is | ast.IsNot):
            return Known(self._same(left, right, at) is isinstance(op, ast.Is))
        if isinstance(op, ast.In | ast.NotIn):
            item, holder = self.key(left, at), self.key(right, at)
            return Known((item in holder) is isinstance(op, ast.In))
        if self._of_python(left) and self._of_python(right):
            return Known(_OPERATORS[type(op).__name__](self.key(left, at), self.key(right, at)))
        return self.operate(op, [left, right], at)

    @staticmethod
    def _of_python(value: Value) -> bool:
        """Neither a number nor a tensor: compared as it is (element types, texts, tuples)."""
        found = type_of(value)
        return found not in (bool, int, float, complex) and registry.personality_of(found) is None and not _holds_tensor(value)

    def _same(self, left: Value, right: Value, at: ast.expr) -> bool:
        if isinstance(left, Known) and isinstance(right, Known):
            return left.value is right.value
        for one, other in ((left, right), (right, left)):
            if isinstance(other, Known) and (other.value is None or type(other.value) is bool):
                if other.value is None or type_of(one) is not bool:
                    return type_of(one) is type(other.value) and actual_of(one) is other.value
                return self.constant(one, at) is other.value
        raise UnflattenableError("an identity of values that depend on the operands")

    def _boolop(self, node: ast.BoolOp) -> Value:
        stop = isinstance(node.op, ast.Or)
        value: Value = Known(None)
        for part in node.values:
            value = self.evaluate(part)
            if part is not node.values[-1] and self.truth(value, part) is stop:
                return value
        return value

    def _ifexp(self, node: ast.IfExp) -> Value:
        return self.evaluate(node.body if self.truth(self.evaluate(node.test), node.test) else node.orelse)

    def _namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.evaluate(node.value)
        frame: Any = self.frame
        while frame.is_comprehension:
            frame = frame.outer
        self.bind(frame, node.target.id, value)
        return value


def _parts(value: Value) -> list[Value] | None:
    if isinstance(value, Items):
        return value.values
    if isinstance(value, Known) and type(value.value) in (tuple, list):
        return [Known(v) for v in value.value]
    return None


def _holds_tensor(value: Value) -> bool:
    if isinstance(value, Items):
        return any(map(_holds_tensor, value.values))
    return registry.personality_of(type_of(value)) is not None
