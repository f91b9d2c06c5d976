"""Statements to instructions: assignments, branches and loops; what is no tensor work goes to the host in blocks."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..isa.program import Arg
from ..ops import registry
from .codebuilder import Label
from .expressions import Expressions
from .leaving import leaves
from .pythonform import StatementForm
from .regions import Kind
from .variables import Snapshot


@dataclass(slots=True)
class Loop:
    """Where `continue` and `break` go, and the paths that got there."""

    next: Label
    leave: Label
    broken: list[Snapshot] = field(default_factory=list)


class Statements(Expressions, ast.NodeVisitor):
    """The statement half of the generator; `visit` emits one. `end` and `result`: where returns go, see `generator`."""

    cell: bool
    loops: list[Loop]
    end: Label
    result: int | None

    # -- blocks -----------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Emit statements; neighbours that go to the host share one block."""
        waiting: list[ast.stmt] = []
        for statement in body:
            if not self.is_native(statement) and not leaves([statement]):
                waiting.append(statement)
                continue
            self._flush(waiting)
            self.visit(statement)
        self._flush(waiting)

    def _flush(self, waiting: list[ast.stmt]) -> None:
        if waiting:
            self.host_statements(list(waiting), None)
            waiting.clear()

    def is_native(self, node: ast.stmt) -> bool:
        """Does the statement become instructions? Compound ones do when there is something in it to see."""
        if isinstance(node, ast.Pass | ast.Global | ast.Nonlocal | ast.Return | ast.Break | ast.Continue):
            return True
        if isinstance(node, ast.Expr):
            return isinstance(node.value, ast.Constant) or self.bound(node.value) is not None
        if isinstance(node, ast.Assign):
            return all(self._simple_target(t) for t in node.targets)
        if isinstance(node, ast.AnnAssign):
            return not self.cell and isinstance(node.target, ast.Name)
        if isinstance(node, ast.AugAssign):
            return self._augmentable(node)
        if isinstance(node, ast.If | ast.While):
            return self.has_tensor_work(node) or bool(leaves([node]))
        if isinstance(node, ast.For):
            return self._simple_target(node.target, store=False) and (self.has_tensor_work(node) or bool(leaves([node])))
        return False

    def _simple_target(self, target: ast.expr, store: bool = True) -> bool:
        if isinstance(target, ast.Name):
            return True
        if isinstance(target, ast.Tuple | ast.List):
            return all(self._simple_target(e, False) for e in target.elts)
        if isinstance(target, ast.Subscript) and store:
            return self.classifier.info(target.value) is not None and self.classifier.info(target.slice) is not None
        return False

    def _augmentable(self, node: ast.AugAssign) -> bool:
        if registry.by_operator(type(node.op).__name__) is None:
            return False
        if isinstance(node.target, ast.Name):
            return True
        return isinstance(node.target, ast.Subscript) and self._simple_target(node.target)

    def has_tensor_work(self, node: ast.AST) -> bool:
        """Is there an op in the statement that may meet a tensor?"""
        for inner in ast.walk(node):
            if isinstance(inner, ast.expr) and self.bound(inner) is not None and self.classifier.value_kind(inner) is not Kind.PYTHON:
                return True
            if isinstance(inner, ast.AugAssign) and self.classifier.value_kind(inner.value) is not Kind.PYTHON:
                return True
        return False

    # -- statements -------------------------------------------------------------------------------

    def generic_visit(self, node: ast.AST) -> None:
        """A statement that goes to the host, perhaps leaving the function or a loop from its middle."""
        assert isinstance(node, ast.stmt)
        kinds = leaves([node])
        if not kinds:
            self.host_statements([node], None)
            return
        outcome = self.builder.register()
        self.host_statements([node], outcome)
        self._dispatch(outcome, kinds, node)

    def _dispatch(self, outcome: int, kinds: set[str], node: ast.stmt) -> None:
        """Go where a host block says: None, on; else (value, is_return, is_break)."""
        left, following = Label(), Label()
        self.builder.emit("COND_JUMP", outcome, left, at=node)
        self.builder.emit("JUMP", following, at=node)
        self.builder.place(left)
        value, returns, breaks = (self.builder.register() for _ in range(3))
        self.builder.emit("UNPACK", (value, returns, breaks), outcome, at=node)
        targets = {"break": (breaks, self._break_label), "return": (returns, None)}
        returned = Label()
        if "return" in kinds:
            self.builder.emit("COND_JUMP", returns, returned, at=node)
        if "break" in kinds:
            self.loops[-1].broken.append(self.variables.snapshot())
            self.builder.emit("COND_JUMP", targets["break"][0], self._break_label(), at=node)
        if "continue" in kinds:
            self.builder.emit("JUMP", self.loops[-1].next, at=node)
        else:
            self.builder.emit("JUMP", following, at=node)  # never taken: one of the flags is set
        if "return" in kinds:
            self.builder.place(returned)
            self._leave_with(value, node)
        self.place(following)

    def _break_label(self) -> Label:
        return self.loops[-1].leave

    def _leave_with(self, register: int, at: ast.AST) -> None:
        if self.result is None:
            self.builder.emit("RETURN", register, at=at)
            return
        if register != self.result:
            self.builder.emit("MOVE", self.result, register, at=at)
        self.builder.emit("JUMP", self.end, at=at)

    def visit_Pass(self, node: ast.stmt) -> None:
        """No code."""

    visit_Global = visit_Nonlocal = visit_Pass

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if self.bound(node.value) is None:
            self.generic_visit(node)
        else:
            self.value(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        if self.result is None:
            register = None if node.value is None else self.value(node.value)
            self.builder.emit("RETURN", register, at=node)
            return
        value = node.value if node.value is not None else ast.copy_location(ast.Constant(None), node)
        self._leave_with(self.value(value, self.result), node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not self.is_native(node):
            self.generic_visit(node)
            return
        first = node.targets[0]
        dest = self.variables.target(first.id) if isinstance(first, ast.Name) else None
        register = self.value(node.value, dest)
        for target in node.targets:
            self.assign(target, register)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not self.is_native(node):
            self.generic_visit(node)
        elif node.value is not None and isinstance(node.target, ast.Name):
            register = self.value(node.value, self.variables.target(node.target.id))
            self.assign(node.target, register)

    def assign(self, target: ast.expr, register: int) -> None:
        """Bind a target to the value in a register."""
        if isinstance(target, ast.Name):
            self.variables.write(target.id, register, target)
        elif isinstance(target, ast.Subscript):
            self._store_item(target, register)
        else:
            assert isinstance(target, ast.Tuple | ast.List)
            parts = [self._part_register(e) for e in target.elts]
            if len(set(parts)) < len(parts):  # a, a = pair
                parts = [self.builder.register() for _ in parts]
            self.builder.emit("UNPACK", tuple(parts), register, at=target)
            for element, part in zip(target.elts, parts, strict=True):
                self.assign(element, part)

    def _part_register(self, target: ast.expr) -> int:
        home = self.variables.target(target.id) if isinstance(target, ast.Name) else None
        return self.builder.register() if home is None else home

    def _store_item(self, target: ast.Subscript, register: int) -> None:
        base, index = self.argument(target.value), self.argument(target.slice)
        args = (base, index, Arg(False, register))
        self.builder.emit("CALL_OP", self.builder.register(), "setitem", 0, args, at=target, form=self._statement_form(target))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not self._augmentable(node):
            self.generic_visit(node)
            return
        op = registry.by_operator(type(node.op).__name__)
        assert op is not None
        if isinstance(node.target, ast.Name):
            old = self.variables.read(node.target.id, node.target)
            dest = self.variables.target(node.target.id)
            self.assign(node.target, self._in_place(op.name, old, node, dest))
            return
        assert isinstance(node.target, ast.Subscript)
        base, index = self.argument(node.target.value), self.argument(node.target.slice)
        old = self.builder.register()
        form = self._form(_read(node.target), self.bound_read(node.target))
        self.builder.emit("CALL_OP", old, "getitem", 0, (base, index), at=node.target, form=form)
        new = self._in_place(op.name, old, node, None)
        args = (base, index, Arg(False, new))
        self.builder.emit("CALL_OP", self.builder.register(), "setitem", 0, args, at=node, form=self._statement_form(node.target))

    def bound_read(self, target: ast.Subscript) -> registry.BoundCall:
        """The read half of an augmented store."""
        row = registry.by_operator("Subscript")
        assert row is not None
        return registry.BoundCall(row, (target.value, target.slice), {})

    def _in_place(self, op: str, old: int, node: ast.AugAssign, dest: int | None) -> int:
        args = (Arg(False, old), self.argument(node.value), Arg(False, old, "out"))
        return self._into("CALL_OP", dest, op, 0, args, at=node, form=self._statement_form(node))

    def _statement_form(self, node: ast.AST) -> StatementForm:
        return StatementForm(node, self.filename, self.short_name)

    # -- control flow -----------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> None:
        then, end = Label(), Label()
        self.condition(node.test, then)
        before = self.variables.snapshot()
        self.block(node.orelse)
        after_else = self.variables.snapshot()
        self.builder.emit("JUMP", end, at=node)
        self.variables.restore(before)
        self.builder.place(then)
        self.block(node.body)
        self.variables.join(after_else)
        self.builder.place(end)

    def visit_While(self, node: ast.While) -> None:
        loop, otherwise, body = Loop(Label(), Label()), Label(), Label()
        head = self._head(None, None, otherwise, node)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if not endless:
            self.condition(node.test, body)
            self.builder.emit("JUMP", otherwise, at=node)
        before = self.variables.snapshot()
        self.place(body)
        self._body(node, loop, head)
        self._after(node, loop, otherwise, before, reachable=not endless)

    def visit_For(self, node: ast.For) -> None:
        if not self._simple_target(node.target, store=False):
            self.generic_visit(node)
            return
        loop, otherwise = Loop(Label(), Label()), Label()
        source = self.value(node.iter)
        iterator = self.builder.register()
        self.builder.emit("GET_ITER", iterator, source, at=node.iter)
        item = self._part_register(node.target)
        before = self.variables.snapshot()
        head = self._head(item, iterator, otherwise, node)
        self.assign(node.target, item)
        self._body(node, loop, head)
        self._after(node, loop, otherwise, before, reachable=True)

    def _head(self, item: int | None, iterator: int | None, leave: Label, node: ast.stmt) -> Label:
        head = Label()
        head.used = True
        self.place(head)
        self.builder.emit("LOOP_START", item, iterator, leave, at=node)
        return head

    def _body(self, node: ast.For | ast.While, loop: Loop, head: Label) -> None:
        self.loops.append(loop)
        self.block(node.body)
        self.loops.pop()
        self.builder.place(loop.next)
        self.builder.reachable = True  # a loop has its end, even where every path leaves it before
        self.builder.emit("LOOP_END", head, at=node)

    def _after(self, node: ast.For | ast.While, loop: Loop, otherwise: Label, before: Snapshot, *, reachable: bool) -> None:
        """The else branch, then where `break` goes."""
        self.variables.restore(before)
        self.variables.forget()
        self.builder.items.append(otherwise)
        self.builder.reachable = reachable
        self.block(node.orelse)
        self.variables.join(*loop.broken)
        self.builder.place(loop.leave)

    def visit_Break(self, node: ast.Break) -> None:
        self.loops[-1].broken.append(self.variables.snapshot())
        self.builder.emit("JUMP", self.loops[-1].leave, at=node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.builder.emit("JUMP", self.loops[-1].next, at=node)


def _read(target: ast.Subscript) -> ast.Subscript:
    return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
