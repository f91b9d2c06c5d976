"""What forming regions needs everywhere: the context of a scope, identities of sites, and the shared state."""

from __future__ import annotations

import ast
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ..frontend.lowering import RegionCode
from ..frontend.nodes import walk
from ..frontend.regions import MISSING, Classifier, Kind, Lookup
from ..frontend.scopes import FRAME_READERS, Scope, parameters
from ..frontend.source import copy_tree
from ..isa.hints import ShapeHint

UNREADABLE = "\x00bcvm:unreadable"  # placeholder of the exceptions that reading a region's names may raise
SiteKey = tuple[str, int, int, int, int]
Relower = Callable[[str], RegionCode | None]
Node = TypeVar("Node", bound=ast.AST)


class SiteFactory(Protocol):
    """Makes the objects that stand in the code; returns the placeholder constant for each."""

    dead: set[SiteKey]

    def region(self, key: SiteKey, code: RegionCode, relower: Relower) -> str: ...

    def value(self, key: SiteKey, kind: str, op: str | None) -> str: ...


class LoopSwitches(Protocol):
    """Makes the switch of a loop; returns the placeholders of its `peel`, `live` and `rest`, and of the builtin `iter`."""

    def sites_before(self) -> int: ...

    def switch(self, sites_before: int) -> tuple[str, str, str, str] | None: ...


@dataclass(slots=True)
class FormerContext:
    """What one function or cell statement is formed with."""

    name: str
    filename: str
    lookup: Lookup
    factory: SiteFactory
    hints: dict[str, ShapeHint] = field(default_factory=dict)
    seeds: dict[str, Kind] = field(default_factory=dict)
    unsafe_attributes: frozenset[str] = frozenset()
    namespace_scope: bool = False
    switches: LoopSwitches | None = None  # cells only: how loops over unknown values are watched


def site_key(form: str, first: ast.AST, last: ast.AST | None = None) -> SiteKey:
    """A site's identity within its function: its form and source span."""
    start, end = first.__dict__.get("bcvm_span", (first, last or first))
    return (form, start.lineno, start.col_offset, end.end_lineno or 0, end.end_col_offset or 0)


class Former(ABC):
    """The state of forming one scope's regions; `runs`, `trees` and `rewrite` add what they form."""

    def __init__(
        self, node: ast.AST, context: FormerContext, *, outer_kinds: dict[str, Kind] | None = None, bound: Iterable[str] = ()
    ) -> None:
        self.context = context
        self.scope = Scope(node)
        self.outer_kinds = dict(outer_kinds or {})
        self.classifier = self._classifier("numpy")
        arguments = getattr(node, "args", None)
        self.bound = set(bound) | (set(parameters(arguments)) if isinstance(arguments, ast.arguments) else set())
        self.observable = self.scope.inner | self.scope.declared
        self.deleted = set(_deleted_names(node))
        self.reads_frame = self.scope.reads_frame or any(self._is_frame_reader(n) for n in (*self.scope.loads, *self.scope.inner))

    def _classifier(self, personality: str) -> Classifier:
        return Classifier(
            self.scope,
            self.context.lookup,
            outer_kinds=self.outer_kinds,
            seeds=self.context.seeds,
            personality=personality,
            unsafe_attributes=self.context.unsafe_attributes,
            namespace_scope=self.context.namespace_scope,
        )

    def _is_frame_reader(self, name: str) -> bool:
        """Is it another name of a function that looks at its caller's frame?"""
        value = self.context.lookup(name)
        return isinstance(value, types.FunctionType | types.BuiltinFunctionType) and value.__name__ in FRAME_READERS

    @abstractmethod
    def statement(self, node: ast.stmt) -> ast.stmt:
        """Form the regions inside a statement that is no member of a run."""

    @abstractmethod
    def expression(self, node: ast.expr) -> ast.expr:
        """Form the regions of an expression."""

    @abstractmethod
    def inner(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        """Form the regions of a function defined in this scope, in place."""

    def _may_be_unbound(self, statement: ast.stmt | ast.expr, defined: Container[str]) -> bool:
        """Could reading a name raise? A region reads all its names first, so the error might come too early."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and (isinstance(node.ctx, ast.Load) or isinstance(statement, ast.AugAssign)):
                if node.id in defined:
                    continue
                if node.id in self.deleted:
                    return True  # a loop may come back to before the `del`
                if node.id in self.bound or node.id in self.classifier.outer_kinds:
                    continue  # `classifier.outer_kinds` also holds the targets of the comprehensions around
                if self.classifier.is_local(node.id) or self.context.lookup(node.id) is MISSING:
                    return True
        return False

    def _call(self, placeholder: str, code: RegionCode, at: ast.AST) -> ast.Call:
        """The call of a region: its inputs, then the callables it was formed with."""
        nodes = [copy_tree(n) for n in (*code.input_nodes, *code.callable_nodes)]
        for node in nodes:
            for part in ast.walk(node):
                if isinstance(part, ast.Name):
                    part.ctx = ast.Load()
                if getattr(part, "lineno", None) != at.lineno:  # type: ignore[attr-defined]
                    ast.copy_location(part, at)  # later lines must not fire line events early
        return ast.copy_location(ast.Call(callee(placeholder, at), nodes, []), at)

    def visible_kinds(self) -> dict[str, Kind]:
        """Kinds of the names that inner scopes see."""
        kinds = dict(self.outer_kinds)
        if not self.context.namespace_scope:
            kinds.update(dict.fromkeys(self.scope.local, Kind.UNKNOWN))
            kinds.update(self.classifier.kinds)
        return kinds


def callee(placeholder: str, place: ast.AST) -> ast.expr:
    """A placeholder where it is called. The compiler warns about calling a constant, so it does not see one at first."""
    return at(ast.IfExp(at(ast.Constant(True), place), at(ast.Constant(placeholder), place), at(ast.Constant(None), place)), place)


def at(node: Node, place: ast.AST) -> Node:
    """`node`, placed where `place` stands."""
    return ast.copy_location(node, place)


def _deleted_names(root: ast.AST) -> Iterable[str]:
    """Names that a scope or one inside it unbinds."""
    for node in walk(root):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            yield node.id
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def stored_names(target: ast.AST) -> list[str]:
    """Names that a target binds or deletes."""
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)]
