"""Instructions without control flow, run on a stack of syntax trees instead of values.

Every handler `do_<OP>` pops trees and pushes trees; a store appends a statement to `Frame.out`.
What is not understood raises `Unreadable`. Nothing here needs to be right for certain: a wrong tree
does not compile to the code it was read from, and is refused by `recover`.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Sequence
from typing import Any

from .recover_code import Ins, Position
from .recover_trees import Augmented, Frame, Null, Unreadable, constant, placed, spot

_UNARY: dict[str, type[ast.unaryop]] = {
    "UNARY_NEGATIVE": ast.USub,
    "UNARY_NOT": ast.Not,
    "UNARY_INVERT": ast.Invert,
    "UNARY_POSITIVE": ast.UAdd,
}
_BINARY: tuple[type[ast.operator], ...] = (  # in the order of the instruction's argument
    *(ast.Add, ast.BitAnd, ast.FloorDiv, ast.LShift, ast.MatMult, ast.Mult, ast.Mod),
    *(ast.BitOr, ast.Pow, ast.RShift, ast.Sub, ast.Div, ast.BitXor),
)
_COMPARE: dict[str, type[ast.cmpop]] = {"<": ast.Lt, "<=": ast.LtE, "==": ast.Eq, "!=": ast.NotEq, ">": ast.Gt, ">=": ast.GtE}
_CONVERSION = {0: -1, 1: ord("s"), 2: ord("r"), 3: ord("a")}


class Values:
    """The handlers. `module_imports` collects names whose calls were compiled as those of imported modules."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.names: tuple[str, ...] = ()
        self.module_imports: set[str] = set()
        self.declared: dict[str, type[ast.Global] | type[ast.Nonlocal]] = {}

    def simple(self, ins: Ins, frame: Frame) -> bool:
        """Run one instruction; False when it is none of ours."""
        handler: Callable[[Ins, Frame], None] | None = getattr(self, f"do_{ins.op}", None)
        if handler is None:
            return False
        handler(ins, frame)
        return True

    # -- names and constants ----------------------------------------------------------------------

    def do_LOAD_CONST(self, ins: Ins, frame: Frame) -> None:
        frame.push(ins.value if isinstance(ins.value, types.CodeType) else constant(ins.value, ins.pos))

    def do_LOAD_FAST(self, ins: Ins, frame: Frame) -> None:
        frame.push(placed(ast.Name(ins.value, ast.Load()), ins.pos))

    do_LOAD_DEREF = do_LOAD_NAME = do_LOAD_FAST

    def do_LOAD_CLOSURE(self, ins: Ins, frame: Frame) -> None:
        self.do_LOAD_FAST(ins, frame)

    def do_LOAD_GLOBAL(self, ins: Ins, frame: Frame) -> None:
        if ins.arg & 1:
            frame.push(Null())
        self.do_LOAD_FAST(ins, frame)

    def do_LOAD_ASSERTION_ERROR(self, ins: Ins, frame: Frame) -> None:
        frame.push(placed(ast.Name("AssertionError", ast.Load()), ins.pos))
        frame.values[-1].of_assert = True

    def do_PUSH_NULL(self, ins: Ins, frame: Frame) -> None:
        frame.push(Null())

    # -- operators --------------------------------------------------------------------------------

    def _unary(self, ins: Ins, frame: Frame) -> None:
        operand = frame.pop()
        frame.push(placed(ast.UnaryOp(_UNARY[ins.op](), operand), ins.pos, operand))

    do_UNARY_NEGATIVE = do_UNARY_NOT = do_UNARY_INVERT = do_UNARY_POSITIVE = _unary

    def do_BINARY_OP(self, ins: Ins, frame: Frame) -> None:
        right, left = frame.pop(), frame.pop()
        if ins.arg >= len(_BINARY):
            frame.push(Augmented(_BINARY[ins.arg - len(_BINARY)](), right))
        else:
            frame.push(placed(ast.BinOp(left, _BINARY[ins.arg](), right), ins.pos, left, right))

    def _compare(self, ins: Ins, frame: Frame) -> None:
        right, left = frame.pop(), frame.pop()
        node = ast.Compare(left, [self.operator(ins)], [right])
        if isinstance(left, ast.Compare) and hasattr(left, "open_chain"):
            node = ast.Compare(left.left, [*left.ops, *node.ops], [*left.comparators, right])
            node.dropped_at = left.open_chain  # type: ignore[attr-defined]
        frame.push(placed(node, ins.pos, left, right))

    do_COMPARE_OP = do_IS_OP = do_CONTAINS_OP = _compare

    def operator(self, ins: Ins) -> ast.cmpop:
        if ins.op == "IS_OP":
            return ast.IsNot() if ins.arg else ast.Is()
        if ins.op == "CONTAINS_OP":
            return ast.NotIn() if ins.arg else ast.In()
        return _COMPARE[ins.value]()

    # -- attributes and subscripts ----------------------------------------------------------------

    def _attribute(self, ins: Ins, frame: Frame) -> ast.Attribute:
        value = frame.pop()
        return placed(ast.Attribute(value, ins.value, ast.Load()), ins.pos, value)

    def do_LOAD_METHOD(self, ins: Ins, frame: Frame) -> None:
        node = self._attribute(ins, frame)
        frame.push(Null())
        frame.push(node)

    def do_LOAD_ATTR(self, ins: Ins, frame: Frame) -> None:
        node = self._attribute(ins, frame)
        if frame.values and isinstance(frame.values[-1], Null) and isinstance(node.value, ast.Name):
            self.module_imports.add(node.value.id)
        frame.push(node)

    def do_LOAD_SUPER_ATTR(self, ins: Ins, frame: Frame) -> None:
        """3.12: `super().name` in one instruction."""
        function, owner, instance = frame.take(3)
        call = placed(ast.Call(function, [owner, instance] if ins.arg & 2 else [], []), spot(instance), function)
        if ins.arg & 1:
            frame.push(Null())
        frame.push(placed(ast.Attribute(call, ins.value, ast.Load()), ins.pos, call))

    def do_BINARY_SUBSCR(self, ins: Ins, frame: Frame) -> None:
        key, value = frame.pop(), frame.pop()
        frame.push(placed(ast.Subscript(value, key, ast.Load()), ins.pos, value, key))

    def do_BUILD_SLICE(self, ins: Ins, frame: Frame) -> None:
        parts: list[ast.expr | None] = [*frame.take(ins.arg), *[None] * (3 - ins.arg)]
        frame.push(_slice(parts, ins.pos))

    def push_slice(self, frame: Frame) -> None:
        """Two bounds become a slice."""
        frame.push(_slice([*frame.take(2), None], None))

    def do_BINARY_SLICE(self, ins: Ins, frame: Frame) -> None:
        self.push_slice(frame)
        self.do_BINARY_SUBSCR(ins, frame)

    # -- displays and f-strings -------------------------------------------------------------------

    def _display(self, ins: Ins, frame: Frame) -> None:
        kind: Any = {"BUILD_TUPLE": ast.Tuple, "BUILD_LIST": ast.List, "BUILD_SET": ast.Set}[ins.op]
        elements = frame.take(ins.arg)
        node = kind(elements) if kind is ast.Set else kind(elements, ast.Load())
        frame.push(placed(node, ins.pos, *elements))

    do_BUILD_TUPLE = do_BUILD_LIST = do_BUILD_SET = _display

    def do_LIST_EXTEND(self, ins: Ins, frame: Frame) -> None:
        more, display = frame.pop(), frame.values[-1]
        if ins.arg != 1 or not isinstance(display, ast.List | ast.Set):
            raise Unreadable(ins.op)
        if isinstance(more, ast.Tuple | ast.Set) and spot(more) == spot(display):
            display.elts += more.elts
        else:
            display.elts.append(placed(ast.Starred(more, ast.Load()), None, more))

    do_SET_UPDATE = do_LIST_EXTEND

    def do_LIST_TO_TUPLE(self, ins: Ins, frame: Frame) -> None:
        display = frame.pop()
        if not isinstance(display, ast.List):
            raise Unreadable(ins.op)
        frame.push(placed(ast.Tuple(display.elts, ast.Load()), spot(display)))

    def do_BUILD_MAP(self, ins: Ins, frame: Frame) -> None:
        flat = frame.take(2 * ins.arg)
        frame.push(placed(ast.Dict(list(flat[::2]), flat[1::2]), ins.pos, *flat))

    def do_BUILD_CONST_KEY_MAP(self, ins: Ins, frame: Frame) -> None:
        keys, values = frame.pop(), frame.take(ins.arg)
        if not isinstance(keys, ast.Tuple):
            raise Unreadable(ins.op)
        frame.push(placed(ast.Dict(list(keys.elts), values), ins.pos, *values))

    def do_DICT_MERGE(self, ins: Ins, frame: Frame) -> None:
        more, display = frame.pop(), frame.values[-1]
        if ins.arg != 1 or not isinstance(display, ast.Dict):
            raise Unreadable(ins.op)
        display.keys.append(None)
        display.values.append(more)

    do_DICT_UPDATE = do_DICT_MERGE

    def do_FORMAT_VALUE(self, ins: Ins, frame: Frame) -> None:
        spec = frame.raw() if ins.arg & 4 else None
        if isinstance(spec, ast.Constant | ast.FormattedValue):
            spec = placed(ast.JoinedStr([spec]), spot(spec))
        if spec is not None and not isinstance(spec, ast.JoinedStr):
            raise Unreadable(ins.op)
        value = frame.pop()
        frame.push(placed(ast.FormattedValue(value, _CONVERSION[ins.arg & 3], spec), ins.pos, value))

    def do_BUILD_STRING(self, ins: Ins, frame: Frame) -> None:
        parts = [frame.raw() for _ in range(ins.arg)][::-1]
        if not all(isinstance(p, ast.Constant | ast.FormattedValue) for p in parts):
            raise Unreadable(ins.op)
        frame.push(placed(ast.JoinedStr(parts), ins.pos))

    # -- calls ------------------------------------------------------------------------------------

    def do_KW_NAMES(self, ins: Ins, frame: Frame) -> None:
        self.names = self.code.co_consts[ins.arg]

    def do_CALL(self, ins: Ins, frame: Frame) -> None:
        names, self.names = self.names, ()
        values = frame.take(ins.arg)
        plain = values[: len(values) - len(names)]
        named = [_keyword(n, v) for n, v in zip(names, values[len(plain) :], strict=True)]
        top, below = frame.raw(), frame.raw()
        if not isinstance(below, Null):
            return self.applied(below, top, ins, frame) if not values else self.refuse(ins)
        frame.push(top)
        function = frame.pop()
        call = placed(ast.Call(function, plain, named), ins.pos, function, *values)
        call.of_assert = getattr(function, "of_assert", False)  # type: ignore[attr-defined]
        frame.push(call)
        return None

    def refuse(self, ins: Ins) -> None:
        raise Unreadable(ins.op)

    def applied(self, function: Any, argument: Any, ins: Ins, frame: Frame) -> None:
        """`function(argument)` without Null: decorators, comprehensions."""
        self.refuse(ins)

    def do_CALL_FUNCTION_EX(self, ins: Ins, frame: Frame) -> None:
        named = _merged(frame.pop()) if ins.arg & 1 else []
        given = frame.pop()
        plain: list[ast.expr] = given.elts if isinstance(given, ast.Tuple) else [placed(ast.Starred(given, ast.Load()), None, given)]
        function = frame.pop()
        if not isinstance(frame.raw(), Null):
            raise Unreadable(ins.op)
        frame.push(placed(ast.Call(function, plain, named), ins.pos, function))

    # -- moving values ----------------------------------------------------------------------------

    def do_COPY(self, ins: Ins, frame: Frame) -> None:
        if ins.arg > len(frame.values):
            raise Unreadable(ins.op)
        frame.push(frame.values[-ins.arg])

    def do_SWAP(self, ins: Ins, frame: Frame) -> None:
        values = frame.values
        if ins.arg > len(values):
            raise Unreadable(ins.op)
        values[-1], values[-ins.arg] = values[-ins.arg], values[-1]


def _slice(parts: Sequence[ast.expr | None], pos: Position | None) -> ast.Slice:
    """None as a bound is a bound that is not there: both give the same code."""
    kept = [None if isinstance(p, ast.Constant) and p.value is None else p for p in parts]
    return placed(ast.Slice(*kept), pos, *(p for p in parts if p is not None))


def _keyword(name: str | None, value: ast.expr) -> ast.keyword:
    node: ast.keyword = placed(ast.keyword(name, value), None, value)
    if name is not None and hasattr(node, "col_offset"):
        node.col_offset = max(0, node.col_offset - len(name) - 1)
    return node


def _merged(given: ast.expr) -> list[ast.keyword]:
    if not isinstance(given, ast.Dict):
        return [_keyword(None, given)]
    keys = [None if k is None else k.value if isinstance(k, ast.Constant) else "" for k in given.keys]
    if not all(k is None or (isinstance(k, str) and k.isidentifier()) for k in keys):
        return [_keyword(None, given)]
    return [_keyword(k if isinstance(k, str) else None, v) for k, v in zip(keys, given.values, strict=True)]
