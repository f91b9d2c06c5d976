"""Checks of host blocks: that their source parses and that their sites are places in it. Nothing is executed."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from .program import MAX_PLACE, HostBlock, HostSite

FORMS = ("run", "tree", "value")
Span = tuple[int, int, int, int]


def is_path(name: object) -> bool:
    """Whether `name` names a variable: an identifier, or a dotted path such as `self.w` (an input of a region)."""
    return isinstance(name, str) and all(part.isidentifier() for part in name.split("."))


def problem(block: Any, programs: int) -> str | None:
    """Why the HostBlock can't run, given that there are `programs` nested Programs; None when it can. Trusts no field of it."""
    if block.kind not in ("stmt", "expr") or not isinstance(block.source, str):
        return f"a host block is 'stmt' or 'expr' with a source, not {block.kind!r}"
    if not all(type(number) is int and 0 <= number < MAX_PLACE for number in (block.line, block.column)):
        return "its line or column is no number"
    for names in (block.reads, block.writes):
        if not isinstance(names, tuple) or not all(map(is_path, names)):
            return "the names it reads or writes are no identifiers"
    if not isinstance(block.sites, tuple) or not all(isinstance(site, HostSite) for site in block.sites):
        return "its sites are malformed"
    try:
        tree = parse(block)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"its source does not parse: {error}"
    return _sites_problem(block, tree, programs) if block.sites else None


def parse(block: HostBlock) -> ast.Module | ast.Expression:
    """The syntax tree of a block. Raises what `ast.parse` raises; warnings were given where the code was written.

    An expression may span lines as it did within the user's brackets: it is parsed within brackets
    again, and positions are those of the source alone.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if block.kind == "stmt":
            return ast.parse(block.source)
        tree = ast.parse(f"({block.source}\n)", mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            node.col_offset -= node.lineno == 1
            node.end_col_offset = (node.end_col_offset or 0) - (node.end_lineno == 1)
    return tree


def may_leave(block: HostBlock) -> bool:
    """Whether statements of the block may leave it by return, break or continue; its value then says how it was left."""
    try:
        return any(isinstance(node, ast.Return | ast.Break | ast.Continue) for node in ast.walk(parse(block)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True  # another rule refuses the source


def _sites_problem(block: Any, tree: ast.AST, programs: int) -> str | None:
    expressions, statements = _spans(tree)
    taken: list[tuple[Span, str]] = []
    for number, site in enumerate(block.sites):
        span = (site.line, site.column, site.end_line, site.end_column)
        if site.form not in FORMS:
            return f"site {number} has the form {site.form!r}; forms are {', '.join(FORMS)}"
        if type(site.program) is not int or not 0 <= site.program < programs:
            return f"site {number} refers to nested program {site.program!r} of {programs}"
        if not isinstance(site.targets, tuple) or not all(isinstance(name, str) and name.isidentifier() for name in site.targets):
            return f"site {number} has targets that are no names"
        if span not in (statements if site.form == "run" else expressions):
            return f"site {number} ({site.form}) is not the span of {'statements' if site.form == 'run' else 'an expression'} of the block"
        if any(_clash(span, site.form, *other) for other in taken):
            return f"site {number} overlaps another one"
        taken.append((span, site.form))
    return None


def _clash(one: Span, one_form: str, two: Span, two_form: str) -> bool:
    """Whether two sites overlap. The operands of a "value" site are the host's, so they may hold further sites."""
    if one[2:] <= two[:2] or two[2:] <= one[:2]:
        return False
    outer, form, inner = (one, one_form, two) if one[:2] <= two[:2] and two[2:] <= one[2:] else (two, two_form, one)
    return form != "value" or outer == inner


def _spans(tree: ast.AST) -> tuple[set[Span], _Runs]:
    expressions: set[Span] = set()
    runs = _Runs()
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None:
            expressions.add((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset))
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                runs.add(value)
    return expressions, runs


class _Runs:
    """Spans of consecutive statements of one body."""

    def __init__(self) -> None:
        self._starts: dict[tuple[int, int], tuple[int, int]] = {}
        self._ends: dict[tuple[int, int], tuple[int, int]] = {}
        self._bodies = 0

    def add(self, body: list[ast.stmt]) -> None:
        self._bodies += 1
        for position, node in enumerate(body):
            self._starts[node.lineno, node.col_offset] = (self._bodies, position)
            if node.end_lineno is not None and node.end_col_offset is not None:
                # a compound statement ends where its last one does: keep the end for each body
                self._ends[self._bodies, position] = (node.end_lineno, node.end_col_offset)

    def __contains__(self, span: Span) -> bool:
        start = self._starts.get(span[:2])
        if start is None:
            return False
        body, position = start
        while (end := self._ends.get((body, position))) is not None:
            if end == span[2:]:
                return True
            position += 1
        return False
