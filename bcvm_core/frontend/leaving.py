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
