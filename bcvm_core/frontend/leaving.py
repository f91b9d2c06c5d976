"""Statements that leave their block, and bodies that need a frame of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from .scopes import Scope

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_INNER = (*_SCOPES, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def leaves(statements: Iterable[ast.AST], in_loop: bool = False) -> set[str]:
    """Which of "return", "break", "continue" can leave these statements; loops inside keep their own."""
    found: set[str] = set()
    for node in statements:
        if isinstance(node, ast.Return):
            found.add("return")
        elif isinstance(node, ast.Break | ast.Continue):
            if not in_loop:
                found.add("break" if isinstance(node, ast.Break) else "continue")
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            found |= leaves(node.body, True) | leaves(node.orelse, in_loop)
        elif not isinstance(node, _SCOPES) and not isinstance(node, ast.expr):
            found |= leaves(ast.iter_child_nodes(node), in_loop)
    return found


def own_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a scope, those of inner scopes left out."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, _SCOPES) and not isinstance(node, ast.expr):
            pending.extend(ast.iter_child_nodes(node))


_CATCHES_NAME_ERRORS = frozenset({"NameError", "UnboundLocalError", "Exception", "BaseException"})


def sees_unbound_names(body: Sequence[ast.stmt], scope: Scope) -> bool:
    """May the scope itself catch the error of reading a local name too early? Such an error must be the local's own."""
    params = set(scope.params)
    for node in own_statements(body):
        if isinstance(node, ast.Try) and any(_catches_name_errors(h) for h in node.handlers):
            reader = _Reader(scope.local - scope.declared, params)
            for statement in body:
                reader.visit(statement)
            return reader.early
    return False


def _catches_name_errors(handler: ast.ExceptHandler) -> bool:
    named = [n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)] if handler.type is not None else ["Exception"]
    return not _CATCHES_NAME_ERRORS.isdisjoint(named)


class _Reader(ast.NodeVisitor):
    """Follows the text in order of evaluation: `early` when a name may be read before it is bound.

    Branches count as taken only for what they read, so that the answer errs to "may".
    """

    def __init__(self, local: set[str], bound: set[str]) -> None:
        self.local = local
        self.bound = set(bound)
        self.early = False

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.bound.add(node.id)
            return
        if node.id in self.local and node.id not in self.bound:
            self.early = True
        if isinstance(node.ctx, ast.Del):
            self.bound.discard(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self.early = self.early or (node.target.id in self.local and node.target.id not in self.bound)
        else:
            self.visit(node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._perhaps([node.target], node.body)
        self._perhaps(node.orelse)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._perhaps(node.body)
        self._perhaps(node.orelse)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before = set(self.bound)
        self._all(node.body)
        after = self.bound
        self.bound = before
        self._all(node.orelse)
        self.bound &= after

    def visit_Try(self, node: ast.Try) -> None:
        before = set(self.bound)
        self._all(node.body)
        self._all(node.orelse)
        for handler in node.handlers:
            self.bound = before | ({handler.name} if handler.name else set())
            self._all(handler.body)
        self.bound = set(before)
        self._all(node.finalbody)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            names = {n.name for n in ast.walk(case.pattern) if isinstance(n, ast.MatchAs | ast.MatchStar) and n.name}
            before = set(self.bound)
            self.bound |= names
            self._all([case.guard] if case.guard is not None else [])
            self._all(case.body)
            self.bound = before

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.bound.add(node.name)  # what its body reads is a free variable there

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """What its body reads is a free variable there."""

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.bound |= {(a.asname or a.name).split(".")[0] for a in node.names}

    visit_Import = visit_ImportFrom = _import

    def _comprehension(self, node: ast.AST) -> None:
        targets = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        before = set(self.bound)
        self.bound |= targets
        self.generic_visit(node)
        self.bound = before

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _perhaps(self, *bodies: Sequence[ast.AST]) -> None:
        before = set(self.bound)
        for body in bodies:
            self._all(body)
        self.bound = before


def mode_of_body(node: ast.AST, scope: Scope, kind: str) -> str:
    """The program kind: `kind`, or that of a generator or coroutine."""
    body = node.body if isinstance(node.body, list) else [node.body]  # type: ignore[attr-defined]
    yields, awaits = _suspends(body)
    if isinstance(node, ast.AsyncFunctionDef) or (kind == "cell" and awaits):
        return "async_generator" if yields else "coroutine"
    return "generator" if yields else kind


def _suspends(body: Iterable[ast.AST]) -> tuple[bool, bool]:
    """Does the scope itself yield; does it await?"""
    yields = awaits = False
    pending = list(body)
    while pending:
        node = pending.pop()
        yields |= isinstance(node, ast.Yield | ast.YieldFrom)
        awaits |= isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith)
        if isinstance(node, ast.comprehension):
            awaits |= bool(node.is_async)
        if isinstance(node, _SCOPES):
            continue
        pending.extend(ast.iter_child_nodes(node))
    return yields, awaits
