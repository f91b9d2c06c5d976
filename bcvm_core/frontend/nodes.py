"""Syntax trees walked and copied: what `ast` does in general, for trees of plain nodes and without its generators."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

_names: dict[type, tuple[str, ...]] = {}  # node class -> its fields and attributes


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right under a node, in the order of its fields."""
    own = node.__dict__
    found: list[ast.AST] = []
    for name in node._fields:
        value = own.get(name)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [item for item in value if isinstance(item, ast.AST)]
    return found


def walk(root: ast.AST) -> Iterator[ast.AST]:
    """A node and all under it, in no certain order."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += children(node)


def copied(node: Any) -> Any:
    """A deep copy of what a syntax tree means: fields and positions, nothing that tools hang on nodes.

    (Some hang parents on every node, also on the context and operator objects that all trees share.)
    """
    kind = node.__class__
    names = _names.get(kind)
    if names is None:
        names = _names[kind] = (*node._fields, *node._attributes)
    if not names:
        return node  # Load, Add, ...: shared by all trees
    new = kind.__new__(kind)
    own, its = node.__dict__, new.__dict__
    for name in names:
        if name in own:
            value = own[name]
            if isinstance(value, list):
                value = [copied(item) if isinstance(item, ast.AST) else item for item in value]
            elif isinstance(value, ast.AST):
                value = copied(value)
            its[name] = value
    return new


def located(root: ast.AST) -> None:
    """`ast.fix_missing_locations`: nodes without a position get that of the node above."""
    _locate(root, 1, 0, 1, 0)


def _locate(node: ast.AST, line: int, column: int, end_line: int, end_column: int) -> None:
    own = node.__dict__
    if node._attributes:
        line = own.setdefault("lineno", line)
        column = own.setdefault("col_offset", column)
        if own.get("end_lineno") is None:
            own["end_lineno"] = end_line
        if own.get("end_col_offset") is None:
            own["end_col_offset"] = end_column
        end_line, end_column = own["end_lineno"], own["end_col_offset"]
    for child in children(node):
        if child._attributes or child._fields:
            _locate(child, line, column, end_line, end_column)
