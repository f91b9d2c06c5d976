"""What names mean in one scope: bound where, read where, touched by inner scopes or by the frame."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable

# Names through which code can look at its own frame: then every local variable is observable.
FRAME_READERS = frozenset({"locals", "vars", "eval", "exec", "dir", "globals", "breakpoint", "_getframe", "currentframe"})


def parameters(arguments: ast.arguments) -> list[str]:
    """Names of all parameters, in order."""
    every = arguments.posonlyargs + arguments.args + ([arguments.vararg] if arguments.vararg else [])
    every += arguments.kwonlyargs + ([arguments.kwarg] if arguments.kwarg else [])
    return [a.arg for a in every]


class Scope(ast.NodeVisitor):
    """The bindings of one function, lambda or cell (not of the scopes inside it).

    `stores` counts binding statements per name, parameters not included; `reads` counts loads by
    position in the tree; `inner` are names that inner scopes mention; `declared` global or nonlocal.
    """

    def __init__(self, node: ast.AST) -> None:
        self.node = node
        arguments = getattr(node, "args", None)
        self.params = tuple(parameters(arguments)) if isinstance(arguments, ast.arguments) else ()
        self.stores: Counter[str] = Counter()
        self.loads: dict[str, list[ast.Name]] = {}
        self.inner: set[str] = set()
        self.declared: set[str] = set()
        self.reads_frame = False
        body = node.body  # type: ignore[attr-defined]
        for statement in body if isinstance(body, list) else [body]:
            self.visit(statement)
        self.local = (set(self.params) | set(self.stores)) - self.declared

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in FRAME_READERS:
            self.reads_frame = True
        if isinstance(node.ctx, ast.Store):
            self.stores[node.id] += 1
        else:
            self.loads.setdefault(node.id, []).append(node)
            if isinstance(node.ctx, ast.Del):
                self.stores[node.id] += 1

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in FRAME_READERS:
            self.reads_frame = True
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.loads.setdefault(node.target.id, []).append(node.target)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.declared |= set(node.names)

    visit_Nonlocal = visit_Global

    def _inner_scope(self, node: ast.AST) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                self.inner.add(inner.id)
                if inner.id in FRAME_READERS:
                    self.reads_frame = True
            elif isinstance(inner, ast.Nonlocal | ast.Global):
                self.inner |= set(inner.names)
            elif isinstance(inner, ast.Attribute) and inner.attr in FRAME_READERS:
                self.reads_frame = True
            elif isinstance(inner, ast.NamedExpr) and isinstance(inner.target, ast.Name):
                self.stores[inner.target.id] += 1  # in a comprehension it binds here; elsewhere one store too many is harmless
        name = getattr(node, "name", None)
        if name:
            self.stores[name] += 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _inner_scope
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _inner_scope

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.stores[node.name] += 2  # bound on entry, deleted on exit
            self.inner.add(node.name)
        self.generic_visit(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self.stores[(alias.asname or alias.name).split(".")[0]] += 1

    visit_Import = visit_ImportFrom = _import

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.stores[node.name] += 1
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.stores[node.rest] += 1
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.generic_visit(node)

    def reads_outside(self, name: str, region: Iterable[ast.AST]) -> bool:
        """Is `name` read at a place that lies in none of the given subtrees?"""
        inside = {id(n) for root in region for n in ast.walk(root)}
        return any(id(n) not in inside for n in self.loads.get(name, ()))
