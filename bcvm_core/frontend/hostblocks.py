"""Host blocks: the verbatim source of Python that is no tensor work, the names it touches, the sites in it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..isa.program import HostBlock, HostSite, Program
from .scopes import Scope


@dataclass(frozen=True, slots=True)
class FoundSite:
    """Tensor work inside host code: `span` in the file, and the sub-Program that does it. See `HostSite`."""

    form: str
    span: tuple[int, int, int, int]
    program: Program
    targets: tuple[str, ...] = ()


SiteFinder = Callable[[Sequence[ast.stmt] | ast.expr, frozenset[str]], list[FoundSite]]
"""Finds the sites in statements or in an expression, given the names that are bound for certain there."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Source cut out of a file: `kind` and `source` as in HostBlock; `node` is what the source parses to."""

    kind: str
    source: str
    line: int
    column: int
    tree: ast.AST


def cut_statements(statements: Sequence[ast.stmt], lines: Sequence[str]) -> Piece:
    """The dedented source of consecutive statements; where the text cannot be cut cleanly, they are written anew."""
    first, last = statements[0], statements[-1]
    line = min([first.lineno] + [d.lineno for d in getattr(first, "decorator_list", ())])
    column = first.col_offset
    wanted = ast.dump(ast.Module(list(statements), []))
    if lines and last.end_lineno is not None and last.end_lineno <= len(lines):
        for source in _cuts(statements, lines, line, column):
            tree = _parsed(source)
            if tree is not None and ast.dump(tree) == wanted:
                return Piece("stmt", source, line, column, tree)
    source = ast.unparse(ast.Module(list(statements), []))
    return Piece("stmt", source, line, 0, ast.parse(source))


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _cuts(statements: Sequence[ast.stmt], lines: Sequence[str], line: int, column: int) -> list[str]:
    last = statements[-1]
    end_line, end_column = last.end_lineno or line, last.end_col_offset or 0
    text = [lines[n - 1] for n in range(line, end_line + 1)]
    text[-1] = text[-1].encode()[:end_column].decode()
    head = text[0].encode()[column:].decode() if line == statements[0].lineno else text[0].lstrip()
    indents = [s.col_offset for s in statements if not lines[s.lineno - 1].encode()[: s.col_offset].strip()]
    indent = min(indents, default=len(text[0]) - len(text[0].lstrip()))
    fixed = _string_lines(statements)
    rest = [t if n in fixed else _dedented(t, indent) for n, t in enumerate(text[1:], line + 1)]
    cuts = ["\n".join([head, *rest])]
    if head.startswith("elif"):
        cuts.append("\n".join([head[2:], *rest]))
    return cuts


def _dedented(text: str, indent: int) -> str:
    return text[indent:] if not text[:indent].strip() else text


def _string_lines(statements: Sequence[ast.stmt]) -> set[int]:
    """Lines that begin inside a string: their indentation is part of the value."""
    found: set[int] = set()
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)):
                found.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    return found


def cut_expression(node: ast.expr, lines: Sequence[str]) -> Piece:
    """The source of an expression, as it stands in the file."""
    wanted = ast.dump(node)
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    if lines and end_line <= len(lines):
        text = [lines[n - 1] for n in range(node.lineno, end_line + 1)]
        text[-1] = text[-1].encode()[:end_column].decode()
        text[0] = text[0].encode()[node.col_offset :].decode()
        source = "\n".join(text)
        tree = parse_expression(source)
        if tree is not None and ast.dump(tree) == wanted:
            return Piece("expr", source, node.lineno, node.col_offset, tree)
    source = ast.unparse(node)
    tree = parse_expression(source)
    assert tree is not None, source
    return Piece("expr", source, node.lineno, node.col_offset, tree)


def parse_expression(source: str) -> ast.expr | None:
    """An expression as it stood within the user's brackets; positions are those of the source alone."""
    try:
        tree = ast.parse(f"({source}\n)", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if hasattr(node, "col_offset"):
            node.col_offset -= node.lineno == 1  # type: ignore[attr-defined]
            node.end_col_offset -= node.end_lineno == 1  # type: ignore[attr-defined]
    return tree


def touched(nodes: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """(names read, names bound) by code, inner scopes included in the reads."""
    body = [n if isinstance(n, ast.stmt) else ast.copy_location(ast.Expr(n), n) for n in nodes]  # type: ignore[arg-type]
    scope = Scope(ast.Module(body, []))
    reads = set(scope.loads) | scope.inner
    return reads, set(scope.stores) | _walrus(nodes) | (scope.declared & scope.inner)


def _walrus(nodes: Sequence[ast.AST]) -> set[str]:
    return {n.target.id for root in nodes for n in ast.walk(root) if isinstance(n, ast.NamedExpr)}


def make_block(
    name: str,
    piece: Piece,
    original: Sequence[ast.AST],
    sites: Sequence[FoundSite],
    first_program: int,
    reads: Sequence[str],
    writes: Sequence[str],
) -> tuple[HostBlock, tuple[Program, ...]]:
    """The block of program `name`, its sites at positions of its own source, and the sub-Programs they refer to."""
    starts, ends = _position_maps(original, piece)
    nodes = (n for n in ast.walk(piece.tree) if isinstance(n, ast.expr))
    spans = {(n.lineno, n.col_offset, n.end_lineno, n.end_col_offset) for n in nodes}  # a part of `a < b < c` is no expression
    kept: list[HostSite] = []
    programs: list[Program] = []
    for site in sites:
        start, end = starts.get(site.span[:2]), ends.get(site.span[2:])
        if start is not None and end is not None and (site.form == "run" or (*start, *end) in spans):
            number = first_program + len(programs)
            kept.append(HostSite(*start, *end, site.form, number, site.targets))
            programs.append(replace(site.program, name=f"{name}.{number}"))
    block = HostBlock(piece.kind, piece.source, tuple(reads), tuple(writes), piece.line, piece.column, tuple(kept))
    return block, tuple(programs)


Position = tuple[int, int]


def _position_maps(original: Sequence[ast.AST], piece: Piece) -> tuple[dict[Position, Position], dict[Position, Position]]:
    """Where starts and ends of nodes in the file lie in the piece; both trees are equal but for positions."""
    roots = piece.tree.body if isinstance(piece.tree, ast.Module) else [piece.tree]
    starts: dict[Position, Position] = {}
    ends: dict[Position, Position] = {}
    for old_root, new_root in zip(original, roots, strict=True):
        for old, new in zip(ast.walk(old_root), ast.walk(new_root), strict=True):
            if hasattr(old, "lineno") and hasattr(old, "end_lineno"):
                starts[old.lineno, old.col_offset] = (new.lineno, new.col_offset)  # type: ignore[attr-defined]
                ends[old.end_lineno, old.end_col_offset] = (new.end_lineno, new.end_col_offset)  # type: ignore[attr-defined]
    return starts, ends
