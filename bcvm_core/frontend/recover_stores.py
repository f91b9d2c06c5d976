"""Stores, and the functions, lambdas and decorators they bind: where trees on the stack become statements."""

from __future__ import annotations

import ast
import types
from typing import Any

from .recover_code import Ins, Position
from .recover_trees import Append, Augmented, Frame, Iterator, Made, Pending, Saved, Slot, Unpacking, Unreadable, placed, spot
from .recover_values import Values


class Stores(Values):
    """Handlers that bind, delete and evaluate for effect."""

    def store(self, target: ast.expr, frame: Frame) -> None:
        """Bind the top of the stack to `target`."""
        value = frame.raw()
        if isinstance(value, Saved):
            return
        if isinstance(value, Slot):
            self._fill(value, target, frame)
        elif frame.values and frame.values[-1] is value:
            if isinstance(value, Pending):
                frame.raw()
                value.targets.append(target)
                frame.push(value)
            else:
                frame.values[-1] = Pending(value, [target])
        elif isinstance(value, Augmented):
            if not isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
                raise Unreadable("an augmented assignment")
            frame.emit(placed(ast.AugAssign(target, value.op, value.right), None, target, value.right))
        elif isinstance(value, Made) and value.definition is not None:
            frame.emit(value.definition)
        else:
            self._assign(value, target, frame)

    def _assign(self, value: Any, target: ast.expr, frame: Frame) -> None:
        targets = [target]
        if isinstance(value, Pending):
            targets, value = [*value.targets, target], value.value
        frame.push(value)
        value = frame.pop()
        if frame.parallel or (frame.busy and frame.out is not None):
            if len(targets) > 1:
                raise Unreadable("several targets in a parallel assignment")
            frame.parallel.append((target, value))
            return self._end_parallel(frame)
        return frame.emit(placed(ast.Assign(targets, value), None, *targets, value))

    def _end_parallel(self, frame: Frame) -> None:
        """`a, b = x, y`: CPython stores without a tuple, in any order that is safe."""
        if frame.busy:
            return
        pairs = sorted(frame.parallel, key=lambda pair: spot(pair[1]) or (0, 0, 0, 0))
        frame.parallel.clear()
        targets, values = [p[0] for p in pairs], [p[1] for p in pairs]
        left = placed(ast.Tuple(targets, ast.Store()), None, *targets)
        right = placed(ast.Tuple(values, ast.Load()), None, *values)
        frame.emit(placed(ast.Assign([left], right), None, left, right))

    def _fill(self, slot: Slot, target: ast.expr, frame: Frame) -> None:
        owner = slot.owner
        if slot.index == owner.star:
            target = placed(ast.Starred(target, ast.Store()), None, target)
        owner.targets[slot.index] = target
        if all(t is not None for t in owner.targets):
            complete: list[Any] = owner.targets
            frame.push(owner.value)
            self.store(placed(ast.Tuple(complete, ast.Store()), owner.pos, *complete), frame)

    def _name(self, ins: Ins, frame: Frame) -> None:
        self.store(placed(ast.Name(ins.value, ast.Store()), ins.pos), frame)

    do_STORE_FAST = do_STORE_NAME = _name

    def do_STORE_DEREF(self, ins: Ins, frame: Frame) -> None:
        if ins.value in self.code.co_freevars:
            self.declared[ins.value] = ast.Nonlocal
        self._name(ins, frame)

    def do_STORE_GLOBAL(self, ins: Ins, frame: Frame) -> None:
        self.declared[ins.value] = ast.Global
        self._name(ins, frame)

    def do_STORE_ATTR(self, ins: Ins, frame: Frame) -> None:
        value = frame.pop()
        self.store(placed(ast.Attribute(value, ins.value, ast.Store()), ins.pos, value), frame)

    def do_STORE_SUBSCR(self, ins: Ins, frame: Frame) -> None:
        key, value = frame.pop(), frame.pop()
        self.store(placed(ast.Subscript(value, key, ast.Store()), ins.pos, value, key), frame)

    def do_STORE_SLICE(self, ins: Ins, frame: Frame) -> None:
        self.push_slice(frame)
        self.do_STORE_SUBSCR(ins, frame)

    def _unpack(self, ins: Ins, count: int, star: int, frame: Frame) -> None:
        unpacking = Unpacking(frame.raw(), ins.pos, [None] * count, star)
        for index in reversed(range(count)):
            frame.push(Slot(unpacking, index))

    def do_UNPACK_SEQUENCE(self, ins: Ins, frame: Frame) -> None:
        self._unpack(ins, ins.arg, -1, frame)

    def do_UNPACK_EX(self, ins: Ins, frame: Frame) -> None:
        before, after = ins.arg & 0xFF, ins.arg >> 8
        self._unpack(ins, before + 1 + after, before, frame)

    def _delete(self, target: ast.expr, frame: Frame) -> None:
        frame.emit(placed(ast.Delete([target]), None, target))

    def do_DELETE_FAST(self, ins: Ins, frame: Frame) -> None:
        self._delete(placed(ast.Name(ins.value, ast.Del()), ins.pos), frame)

    def do_DELETE_ATTR(self, ins: Ins, frame: Frame) -> None:
        value = frame.pop()
        self._delete(placed(ast.Attribute(value, ins.value, ast.Del()), ins.pos, value), frame)

    def do_DELETE_SUBSCR(self, ins: Ins, frame: Frame) -> None:
        key, value = frame.pop(), frame.pop()
        self._delete(placed(ast.Subscript(value, key, ast.Del()), ins.pos, value, key), frame)

    def do_POP_TOP(self, ins: Ins, frame: Frame) -> None:
        value = frame.pop()
        if frame.values:
            raise Unreadable("a value is dropped within an expression")
        frame.emit(placed(ast.Expr(value), None, value))

    def do_GET_ITER(self, ins: Ins, frame: Frame) -> None:
        frame.push(Iterator(frame.pop()))

    # -- functions --------------------------------------------------------------------------------

    def do_MAKE_FUNCTION(self, ins: Ins, frame: Frame) -> None:
        code = frame.raw()
        if not isinstance(code, types.CodeType):
            raise Unreadable(ins.op)
        if ins.arg & 8:
            frame.pop()  # the cells: the compiler finds them again
        if ins.arg & 4:
            raise Unreadable("annotations")
        keyword = frame.pop() if ins.arg & 2 else None
        plain = frame.pop() if ins.arg & 1 else None
        frame.push(self._made(code, plain, keyword, ins.pos))

    def _made(self, code: types.CodeType, plain: ast.expr | None, keyword: ast.expr | None, pos: Position | None) -> Made:
        if code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
            return Made(code, [])
        node = self.inner_function(code, pos)
        if not isinstance(plain, ast.Tuple | None) or not isinstance(keyword, ast.Dict | None):
            raise Unreadable("defaults")
        if plain is not None:
            node.args.defaults = list(plain.elts)
        if keyword is not None:
            given = {k.value: v for k, v in zip(keyword.keys, keyword.values, strict=True) if isinstance(k, ast.Constant)}
            node.args.kw_defaults = [given.get(a.arg) for a in node.args.kwonlyargs]
        if isinstance(node, ast.Lambda):
            return Made(code, [], lambda_node=node)
        return Made(code, [], definition=node)

    def inner_function(self, code: types.CodeType, pos: Position | None) -> ast.FunctionDef | ast.Lambda:
        """The node of a function made inside this one."""
        raise NotImplementedError

    def applied(self, function: Any, argument: Any, ins: Ins, frame: Frame) -> None:
        """Decorators (only plain names and calls) and comprehensions."""
        if isinstance(function, Made) and isinstance(argument, Iterator) and function.definition is None:
            return frame.push(self.comprehension(function.code, argument.value, ins.pos))
        if isinstance(function, ast.expr) and isinstance(argument, Made) and argument.definition is not None:
            argument.definition.decorator_list.insert(0, function)
            return frame.push(argument)
        if getattr(function, "of_assert", False) and isinstance(argument, ast.expr):
            call = placed(ast.Call(function, [argument], []), ins.pos)
            call.of_assert = True  # type: ignore[attr-defined]
            return frame.push(call)
        return self.refuse(ins)

    def comprehension(self, code: types.CodeType, iterable: ast.expr, pos: Position | None) -> ast.expr:
        """A comprehension from the code it runs and what it runs over."""
        raise NotImplementedError

    # -- inside comprehensions --------------------------------------------------------------------

    def _append(self, ins: Ins, frame: Frame) -> None:
        parts = frame.take(2 if ins.op == "MAP_ADD" else 1)
        if frame.values or ins.arg < 2:
            raise Unreadable(ins.op)
        frame.emit(Append(*parts))

    def do_LIST_APPEND(self, ins: Ins, frame: Frame) -> None:
        if frame.values[:-1] and ins.arg == 1 and isinstance(frame.values[-2], ast.List):
            element = frame.pop()  # `[*a, b]`
            frame.values[-1].elts.append(element)
            return
        self._append(ins, frame)

    def do_SET_ADD(self, ins: Ins, frame: Frame) -> None:
        if frame.values[:-1] and ins.arg == 1 and isinstance(frame.values[-2], ast.Set):
            element = frame.pop()
            frame.values[-1].elts.append(element)
            return
        self._append(ins, frame)

    do_MAP_ADD = _append
