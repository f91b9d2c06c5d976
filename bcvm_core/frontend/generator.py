"""The generator: an analysed function or cell becomes a Program.

Control flow and tensor work become instructions, everything else CALL_HOST with the source it
stands for. `generate` runs `BytecodeGenerator` until it is settled which names live in registers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..isa.hints import ANY, ShapeHint
from ..isa.program import Arg, Program
from ..ops import registry
from . import fusemarks
from .codebuilder import CodeBuilder, Emitted, Label
from .expressions import Expressions
from .hostblocks import FoundSite, SiteFinder, cut_statements, make_block, touched
from .leaving import leaves, mode_of_body, own_statements
from .lowering import location_of
from .naming import private_class
from .pythonform import SET_ITEM
from .regions import Classifier, Kind
from .scopes import Scope
from .variables import Variables

_ROUNDS = 16


@dataclass(slots=True)
class Analysed:
    """What the generator needs to know of a function (or of a cell: `kind` "cell", `node` a Module).

    `name` is the qualified name. `text` is the file's text. `hints`: shape hints of parameters.
    `find_sites`: finds tensor work inside host code. `free`: names of enclosing functions.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
    scope: Scope
    classifier: Classifier
    name: str
    filename: str = "<bcvm>"
    text: str = ""
    kind: str = "function"
    hints: Mapping[str, ShapeHint] = field(default_factory=dict)
    find_sites: SiteFinder | None = None
    free: frozenset[str] = frozenset()
    future: tuple[str, ...] = ()


def generate(analysed: Analysed) -> Program:
    """The Program of an analysed function or cell."""
    kind = mode_of_body(analysed.node, analysed.scope, analysed.kind)
    if kind != analysed.kind or (analysed.kind == "function" and analysed.scope.reads_frame):
        return _whole_body(analysed, kind)
    exposed: set[str] = set()
    native: set[str] | None = None
    for _ in range(_ROUNDS):
        generator = BytecodeGenerator(analysed, exposed, native)
        generator.run()
        settled = not generator.variables.grew and generator.variables.read_names == native
        exposed, native = generator.variables.exposed, generator.variables.read_names
        if settled:
            break
    return generator.program()


def _whole_body(analysed: Analysed, kind: str) -> Program:
    """A body that needs a real frame (a generator, a coroutine, a reader of its own locals): one host block."""
    node = analysed.node
    body = node.body if isinstance(node.body, list) else [ast.copy_location(ast.Return(node.body), node.body)]
    sites: list[FoundSite] = []
    if analysed.find_sites is not None and not isinstance(node, ast.Lambda):
        sites = analysed.find_sites(body, frozenset(analysed.scope.params))
    lines = [] if isinstance(node, ast.Lambda) else analysed.text.split("\n")
    reads, writes = touched(body)
    local = analysed.scope.local if analysed.kind != "cell" else set()
    shown = analysed.scope.local | analysed.free
    builder = CodeBuilder()
    piece = cut_statements(body, lines if analysed.text else [])
    block, programs = make_block(analysed.name, piece, body, sites, 0, sorted(reads & shown), sorted(writes & shown))
    builder.hosts, builder.nested = [block], list(programs)
    result = builder.register()
    builder.emit("CALL_HOST", result, 0, at=body[0])
    builder.emit("RETURN", result, at=body[0])
    code, _ = builder.close(builder.items)
    return Program(
        analysed.name, analysed.scope.params, code, kind, (), (), tuple(builder.hosts), tuple(builder.nested),
        tuple(sorted(local - set(analysed.scope.params))), analysed.filename, _first_line(node), {"future": analysed.future},
    )  # fmt: skip


def _first_line(node: Any) -> int:
    if isinstance(node, ast.Module):
        return node.body[0].lineno if node.body else 1
    return int(min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", ())]))


@dataclass(slots=True)
class _Loop:
    """Where `continue` and `break` go, and the paths that got there."""

    next: Label
    leave: Label
    broken: list[Any] = field(default_factory=list)


class BytecodeGenerator(Expressions, ast.NodeVisitor):
    """One round of generation. `visit` emits a statement; `value` (see `Expressions`) an expression."""

    def __init__(self, analysed: Analysed, exposed: set[str], native: set[str] | None) -> None:
        self.analysed = analysed
        self.builder = CodeBuilder()
        self.classifier = analysed.classifier
        self.name = analysed.name
        self.filename = analysed.filename
        self.short_name = "<module>" if analysed.kind == "cell" else analysed.name.rpartition(".")[2]
        self.owner = private_class(analysed.name)
        self.lines = analysed.text.split("\n") if analysed.text else []
        namespace = analysed.kind == "cell"
        self.variables = Variables(analysed.scope, self.builder, namespace=namespace, exposed=exposed)
        self.native = native
        self.loops: list[_Loop] = []
        self.end = Label()
        self.result: int | None = None
        self.loaded: dict[str, int] = {}

    # -- the whole --------------------------------------------------------------------------------

    def run(self) -> None:
        """Generate the code."""
        self._parameters()
        node = self.analysed.node
        if isinstance(node, ast.Lambda):
            self.builder.emit("RETURN", self.value(node.body), at=node.body)
        elif isinstance(node, ast.Module):
            self._cell(node)
        else:
            self._function(node)

    def program(self) -> Program:
        """The finished Program."""
        analysed = self.analysed
        items = fusemarks.mark(self.builder.items, self._movable)
        code, forms = self.builder.close(items)
        dims = dict.fromkeys(d for i in code if i.opcode == "LOAD_TENSOR" for d in i.operands[2].names)
        local = () if analysed.kind == "cell" else tuple(sorted(analysed.scope.local - set(analysed.scope.params)))
        params = () if analysed.kind == "cell" else analysed.scope.params
        return Program(
            analysed.name, params, code, analysed.kind, tuple(dims), tuple(self.builder.consts), tuple(self.builder.hosts),
            tuple(self.builder.nested), local, analysed.filename, _first_line(analysed.node), {"python": forms, "future": analysed.future},
        )  # fmt: skip

    def _movable(self, item: Emitted) -> bool:
        """A load that cannot fail may be done earlier: a parameter, or a global that is there now."""
        if item.opcode != "LOAD_VAR":
            return False
        name = item.operands[1]
        return name not in self.analysed.scope.stores and repr(self.classifier.lookup(name)) != "<missing>"

    def _parameters(self) -> None:
        """Load tensor parameters at the top, in order, with their hints."""
        if self.analysed.kind == "cell":
            return
        arguments = getattr(self.analysed.node, "args", None)
        packed = {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None} if isinstance(arguments, ast.arguments) else set()
        for name in self.analysed.scope.params:
            hint = self.analysed.hints.get(name)
            used = self.native is None or name in self.native
            self.variables.bound.add(name)
            if hint is None and not (used and (self.variables.in_register(name) or name not in packed)):
                continue
            if not used and hint is None:
                continue
            register = self.variables.home(name) if self.variables.in_register(name) else self.builder.register()
            kind = self.classifier.kind_of_name(name)
            place = self._parameter_node(name)
            if hint is not None or (kind is not Kind.PYTHON and name not in packed):
                self.builder.emit("LOAD_TENSOR", register, name, hint or ANY, at=place)
            else:
                self.builder.emit("LOAD_VAR", register, name, at=place)
            if not self.variables.in_register(name):
                self.variables.known[name] = register

    def _parameter_node(self, name: str) -> ast.AST:
        return next(n for n in ast.walk(self.analysed.node.args) if isinstance(n, ast.arg) and n.arg == name)  # type: ignore[union-attr]

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        returns = [s for s in own_statements(node.body) if isinstance(s, ast.Return)]
        last = node.body[-1]
        if any(s is not last for s in returns) or _leaves_by_host(node.body):
            self.result = self.builder.register()
        self.block(node.body)
        if self.builder.reachable:
            if self.result is None:
                self.builder.emit("RETURN", None, at=last)
            else:
                self.builder.emit("LOAD_CONST", self.result, self.builder.const(None), at=last)
        if self.end.used:
            self.builder.place(self.end)
            self.builder.emit("RETURN", self.result, at=last)
        elif self.builder.reachable and self.result is not None:
            self.builder.emit("RETURN", self.result, at=last)

    def _cell(self, node: ast.Module) -> None:
        """A cell's value is that of its last expression."""
        body = list(node.body)
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        self.block(body)
        if isinstance(last, ast.Expr):
            self.builder.emit("RETURN", self.value(last.value), at=last)
        elif self.builder.reachable:
            self.builder.emit("RETURN", None, at=node.body[-1] if node.body else None)

    def find_sites(self, what: Sequence[ast.stmt] | ast.expr) -> list[FoundSite]:
        """Tensor work inside host code; none where the analysis brought no finder."""
        if self.analysed.find_sites is None or not self.builder.reachable:
            return []
        return self.analysed.find_sites(what, frozenset(self.variables.bound))

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
            return self.analysed.kind != "cell" and isinstance(node.target, ast.Name)
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
        self.builder.emit("CALL_OP", self.builder.register(), "setitem", 0, args, at=target, form=SET_ITEM)

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
        self.builder.emit("CALL_OP", self.builder.register(), "setitem", 0, args, at=node, form=SET_ITEM)

    def bound_read(self, target: ast.Subscript) -> registry.BoundCall:
        """The read half of an augmented store."""
        row = registry.by_operator("Subscript")
        assert row is not None
        return registry.BoundCall(row, (target.value, target.slice), {})

    def _in_place(self, op: str, old: int, node: ast.AugAssign, dest: int | None) -> int:
        args = (Arg(False, old), self.argument(node.value), Arg(False, old, "out"))
        return self._into("CALL_OP", dest, op, 0, args, at=node)

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
        loop, otherwise, body = _Loop(Label(), Label()), Label(), Label()
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
        loop, otherwise = _Loop(Label(), Label()), Label()
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

    def _body(self, node: ast.For | ast.While, loop: _Loop, head: Label) -> None:
        self.loops.append(loop)
        self.block(node.body)
        self.loops.pop()
        self.builder.place(loop.next)
        self.builder.reachable = True  # a loop has its end, even where every path leaves it before
        self.builder.emit("LOOP_END", head, at=node)

    def _after(self, node: ast.For | ast.While, loop: _Loop, otherwise: Label, before: Any, *, reachable: bool) -> None:
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


def _leaves_by_host(body: Sequence[ast.stmt]) -> bool:
    """May a host block return from the function?"""
    return any(not isinstance(s, ast.If | ast.For | ast.While | ast.Return) and "return" in leaves([s]) for s in own_statements(body))


Generate = Callable[[Analysed], Program]
__all__ = ["Analysed", "BytecodeGenerator", "generate", "location_of"]
