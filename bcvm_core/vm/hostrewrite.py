"""Syntax-tree work on host blocks: nested sites become calls, statements that leave the block become results.

Only the block's own scope is rewritten; functions, lambdas and classes inside it keep their own
`return`, their own variables and their own loops. Sites, though, may lie anywhere in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from ..isa.program import HostSite

SITE_MARK = "\0bcvm.site:"  # a constant that is replaced in the code object; no name is added to the user's scope
SLICE_MARK = "\0bcvm.slice"  # the same for the builtin `slice`, whatever that name means to the user
_RESULT = "_bcvm_result"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def parse_block(kind: str, source: str) -> list[ast.stmt]:
    """The statements of a block; an expression block becomes one `return` of its value.

    An expression may span lines as it did within the user's brackets, so it is parsed within
    brackets again; positions are those of the source alone.
    """
    if kind == "stmt":
        return ast.parse(source).body
    tree = ast.parse(f"({source}\n)", mode="eval")
    for node in ast.walk(tree):
        if getattr(node, "lineno", None) == 1:
            node.col_offset -= 1  # type: ignore[attr-defined]
        if getattr(node, "end_lineno", None) == 1:
            node.end_col_offset -= 1  # type: ignore[attr-defined]
    return [ast.copy_location(ast.Return(tree.body), tree.body)]


class StoredNames(ast.NodeVisitor):
    """Names that a block's own scope binds or deletes, and those it declares global or nonlocal."""

    def __init__(self, body: Iterable[ast.AST]) -> None:
        self.names: set[str] = set()
        self.declared: set[str] = set()
        for node in body:
            self.visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def _definition(self, node: Any) -> None:
        self.names.add(node.name)
        for outside in (*node.decorator_list, *getattr(node, "bases", ()), *getattr(node, "keywords", ())):
            self.visit(outside)
        if hasattr(node, "args"):
            self._defaults(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition

    def _defaults(self, node: Any) -> None:
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
            self.visit(default)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node)

    def _comprehension(self, node: ast.AST) -> None:
        for inner in ast.walk(node):  # only `:=` binds outside of a comprehension
            if isinstance(inner, ast.NamedExpr):
                self.names.add(inner.target.id)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.names.add(node.name)
        self.generic_visit(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.names |= {(a.asname or a.name).split(".")[0] for a in node.names if a.name != "*"}

    visit_Import = visit_ImportFrom = _import

    def _capture(self, node: Any) -> None:
        name = getattr(node, "rest", None) or getattr(node, "name", None)
        if name:
            self.names.add(name)
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_MatchMapping = _capture

    def _declare(self, node: ast.Global | ast.Nonlocal) -> None:
        self.declared |= set(node.names)

    visit_Global = visit_Nonlocal = _declare


Span = tuple[int, int, int, int]


def _span(first: Any, last: Any | None = None) -> Span:
    last = first if last is None else last
    return first.lineno, first.col_offset, last.end_lineno or 0, last.end_col_offset or 0


class SiteCalls(ast.NodeTransformer):
    """Replaces the spans of `sites` by calls into sub-Programs.

    A call gives None when the sub-Program declined or failed: then the original code runs, which
    raises the user's own exception at the user's own line.
    """

    def __init__(self, sites: Sequence[HostSite], params: Sequence[tuple[str, ...]]) -> None:
        self.params = params  # parameters of each site's sub-Program
        self.found: set[int] = set()
        self.kinds: dict[int, str] = {}  # of "value" sites: "call" or "operator"
        spans = [((s.line, s.column, s.end_line, s.end_column), k) for k, s in enumerate(sites)]
        self.runs = {span: k for span, k in spans if sites[k].form == "run"}
        self.trees = {span: k for span, k in spans if sites[k].form == "tree"}
        self.values = {span: k for span, k in spans if sites[k].form == "value"}
        self.sites = sites

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite one statement list: runs first, then what lies inside the rest."""
        out: list[ast.stmt] = []
        i = 0
        while i < len(body):
            length, site = self._run_at(body, i)
            if site is not None:
                out.append(self._run(site, body[i : i + length]))
                i += length
                continue
            out.append(self.visit(body[i]))
            i += 1
        return out

    def _run_at(self, body: list[ast.stmt], start: int) -> tuple[int, int | None]:
        for length in range(len(body) - start, 0, -1):
            site = self.runs.get(_span(body[start], body[start + length - 1]))
            if site is not None:
                return length, site
        return 0, None

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self.block(value))
            elif isinstance(value, list):
                setattr(node, field, [self.visit(v) if isinstance(v, ast.AST) else v for v in value])
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        return node

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.expr):
            span = _span(node)
            if span in self.trees and self.trees[span] not in self.found:
                return self._tree(self.trees[span], node)
            if span in self.values and self.values[span] not in self.found:
                return self._value(self.values[span], node)
        return super().visit(node)

    def _call(self, site: int, operands: Sequence[ast.expr], at: ast.AST) -> ast.expr:
        # `constant @ (a, b)`: calling a constant, or subscripting one, makes the compiler warn.
        self.found.add(site)
        mark = ast.copy_location(ast.Constant(f"{SITE_MARK}{site}"), at)
        given = ast.copy_location(ast.Tuple(list(operands), ast.Load()), at)
        return ast.copy_location(ast.BinOp(mark, ast.MatMult(), given), at)

    def _names(self, site: int, at: ast.AST) -> list[ast.expr]:
        return [_path(name, at) for name in self.params[site]]

    def _run(self, site: int, original: list[ast.stmt]) -> ast.stmt:
        first = original[0]
        targets = self.sites[site].targets
        pattern: ast.pattern = ast.MatchSequence([ast.MatchAs(None, n) for n in targets])
        done: ast.stmt = ast.Pass()
        if targets == ("return",):
            pattern = ast.MatchSequence([ast.MatchAs(None, _RESULT)])
            done = ast.Return(ast.Name(_RESULT, ast.Load()))
        elif "_" in targets:  # no pattern can capture that name
            names: list[ast.expr] = [ast.Name(n, ast.Store()) for n in targets]
            pattern, done = ast.MatchAs(None, _RESULT), ast.Assign([ast.Tuple(names, ast.Store())], ast.Name(_RESULT, ast.Load()))
        call = self._call(site, self._names(site, first), first)
        cases = [ast.match_case(ast.MatchSingleton(None), None, original), ast.match_case(pattern, None, [done])]
        return _fixed(ast.copy_location(ast.Match(call, cases), first))

    def _tree(self, site: int, node: ast.expr) -> ast.expr:
        call = self._call(site, self._names(site, node), node)
        either = ast.BoolOp(ast.Or(), [call, ast.Tuple([node], ast.Load())])
        return _fixed(ast.copy_location(ast.Subscript(either, ast.Constant(0), ast.Load()), node))

    def _value(self, site: int, node: ast.expr) -> ast.expr:
        """`V(operands)()`: the outer call pops the result, or does in the user's own frame what Python would have done."""
        self.found.add(site)
        self.kinds[site] = "call" if isinstance(node, ast.Call) else "operator"
        operands = [self.visit(o) for o in value_operands(node)]
        keywords = [self.visit(k) for k in node.keywords] if isinstance(node, ast.Call) else []
        mark = ast.copy_location(ast.Constant(f"{SITE_MARK}{site}"), node)
        call = ast.copy_location(ast.Call(mark, operands, keywords), node)
        return _fixed(ast.copy_location(ast.Call(call, [], []), node))


def _path(name: str, at: ast.AST) -> ast.expr:
    """The expression of a leaf: a name, or attributes of one ("self.w")."""
    first, *attributes = name.split(".")
    node: ast.expr = ast.copy_location(ast.Name(first, ast.Load()), at)
    for attribute in attributes:
        node = ast.copy_location(ast.Attribute(node, attribute, ast.Load()), at)
    return node


def value_operands(node: ast.expr) -> list[ast.expr]:
    """What the host evaluates for a "value" site, in Python's order: of a call the callee first."""
    if isinstance(node, ast.Call):
        return [node.func, *node.args]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    return [node.value, _index(node.slice)] if isinstance(node, ast.Subscript) else []


def _index(node: ast.expr) -> ast.expr:
    """An index as an ordinary expression: slices become `slice(...)` objects."""
    if isinstance(node, ast.Slice):
        bounds: list[ast.expr] = [p if p is not None else ast.Constant(None) for p in (node.lower, node.upper, node.step)]
        return _fixed(ast.copy_location(ast.Call(ast.Constant(SLICE_MARK), bounds, []), node))
    if isinstance(node, ast.Tuple):
        return ast.copy_location(ast.Tuple([_index(e) for e in node.elts], ast.Load()), node)
    return node


Node = TypeVar("Node", bound=ast.AST)


def _fixed(node: Node) -> Node:
    """`node` with missing positions below it filled in; those that are there stay."""
    for child in ast.walk(node):
        if "lineno" in child._attributes and not hasattr(child, "lineno"):
            ast.copy_location(child, node)
    return node


class LeavingStatements(ast.NodeTransformer):
    """`return`, `break` and `continue` that leave the block become its result.

    The result of a statement block is None when it ran to its end, else
    ``(value, is_return, is_break)``; `continue` has neither flag.
    """

    def __init__(self) -> None:
        self.loops = 0
        self.leaves = False

    def _result(self, value: ast.expr | None, returns: bool, breaks: bool, at: ast.AST) -> ast.stmt:
        self.leaves = True
        parts: list[ast.expr] = [value or ast.Constant(None), ast.Constant(returns), ast.Constant(breaks)]
        return _fixed(ast.copy_location(ast.Return(ast.Tuple(parts, ast.Load())), at))

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        return self._result(node.value, True, False, node)

    def visit_Break(self, node: ast.Break) -> ast.stmt:
        return node if self.loops else self._result(None, False, True, node)

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return node if self.loops else self._result(None, False, False, node)

    def _loop(self, node: Any) -> Any:
        self.loops += 1
        node.body = [self.visit(s) for s in node.body]
        self.loops -= 1
        node.orelse = [self.visit(s) for s in node.orelse]
        return node

    visit_For = visit_While = visit_AsyncFor = _loop

    def _inner_scope(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _inner_scope


class OwnScope(ast.NodeTransformer):
    """What the block's own scope cannot say when its variables are the frame's.

    Annotations of plain names are never evaluated in a function and not allowed on nonlocal names;
    `super()` and declarations need the enclosing function's place.
    """

    def __init__(self, first_param: str | None, annotations: bool) -> None:
        self.first_param = first_param
        self.annotations = annotations  # are annotations of plain names to be dropped?

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if not self.annotations or not isinstance(node.target, ast.Name):
            return node
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def _declaration(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)  # the block's own prelude declares what it writes

    visit_Global = visit_Nonlocal = _declaration

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        bare = isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and not node.keywords
        if bare and self.first_param is not None:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name(self.first_param, ast.Load())]
            _fixed(node)
        return node

    def _inner_scope(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _inner_scope
