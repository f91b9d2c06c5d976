"""The generator: an analysed function or cell becomes a Program.

Control flow and tensor work become instructions, everything else CALL_HOST with the source it
stands for. `generate` runs `BytecodeGenerator` until it is settled which names live in registers.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..isa.hints import ANY, ShapeHint
from ..isa.program import Program
from . import fusemarks
from .codebuilder import CodeBuilder, Emitted, Label
from .hostblocks import FoundSite, SiteFinder, cut_statements, make_block, touched
from .leaving import leaves, mode_of_body, own_statements, sees_unbound_names
from .naming import private_class
from .regions import MISSING, Classifier, Kind
from .scopes import FRAME_READERS, Scope
from .statements import Statements
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
    if kind != analysed.kind or (analysed.kind == "function" and _needs_frame(analysed)):
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


def _needs_frame(analysed: Analysed) -> bool:
    """Does the body look at its own frame, or at errors that only a real local variable raises?"""
    node = analysed.node
    if any(_is_frame_reader(analysed.classifier.lookup(n)) for n in (*analysed.scope.loads, *analysed.scope.inner)):
        return True
    return analysed.scope.reads_frame or (not isinstance(node, ast.Lambda) and sees_unbound_names(node.body, analysed.scope))


def _is_frame_reader(value: Any) -> bool:
    """Is it `locals` or its like, by whatever name?"""
    return isinstance(value, types.FunctionType | types.BuiltinFunctionType) and value.__name__ in FRAME_READERS


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


class BytecodeGenerator(Statements):
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
        self.cell = analysed.kind == "cell"
        self.variables = Variables(analysed.scope, self.builder, namespace=self.cell, exposed=exposed)
        self.native = native
        self.loops = []
        self.end = Label()
        self.result = None
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
        return name not in self.analysed.scope.stores and self.classifier.lookup(name) is not MISSING

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


def _leaves_by_host(body: Sequence[ast.stmt]) -> bool:
    """May a host block return from the function?"""
    return any(not isinstance(s, ast.If | ast.For | ast.While | ast.Return) and "return" in leaves([s]) for s in own_statements(body))
