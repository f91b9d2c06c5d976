"""From a function object to the syntax tree it was compiled from, found by code positions.

The text may be missing (`exec`), stale (an edited file, another cell under the same name) or
rewritten by another tool, so the found tree is recompiled and must give the very bytecode that the
function carries. Otherwise the tree is read back from the bytecode (see `recover`); where that
fails, too, the function cannot be lowered and runs as plain Python.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ..errors import LoweringError
from .nodes import children, copied
from .recompile import FunctionNode, compile_like, same_code

FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Scopes = tuple[ast.AST, ...]
Tree = TypeVar("Tree", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function's node, the scopes around it (outermost first), and the file's module-level imports.

    `imported` matters because CPython compiles calls on names imported at module level differently.
    `text` is the file's text, empty where the node was read back from bytecode.
    """

    node: FunctionNode
    enclosing: Scopes
    imported: tuple[str, ...]
    filename: str
    text: str = ""

    def fresh_tree(self) -> FunctionNode:
        """A copy of the node of the caller's own."""
        return copy_tree(self.node)


def copy_tree(node: Tree) -> Tree:
    """A deep copy of a syntax tree without the annotations of `frontend.regions`."""
    return cast("Tree", copied(node))


@dataclass(slots=True)
class _FileIndex:
    text: str
    functions: dict[int, list[tuple[FunctionNode, Scopes]]]
    imported: tuple[str, ...]


_indices: dict[str, _FileIndex] = {}


def _first_line(node: FunctionNode) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min(node.lineno, *(d.lineno for d in decorators)) if decorators else node.lineno


def _build_index(tree: ast.Module) -> _FileIndex:
    functions: dict[int, list[tuple[FunctionNode, Scopes]]] = {}
    imported: list[str] = []
    pending: list[tuple[ast.AST, Scopes]] = [(tree, ())]
    while pending:
        node, enclosing = pending.pop()
        for child in children(node):
            inner = enclosing
            if isinstance(child, FUNCTION_NODES):
                functions.setdefault(_first_line(child), []).append((child, enclosing))
                inner = (*enclosing, child)
            elif isinstance(child, ast.ClassDef):
                inner = (*enclosing, child)
            elif isinstance(child, ast.Import | ast.ImportFrom) and not enclosing:
                imported += [(a.asname or a.name).split(".")[0] for a in child.names if a.name != "*"]
            pending.append((child, inner))
    return _FileIndex("", functions, tuple(imported))


def _index_of(filename: str, module_globals: dict[str, Any]) -> _FileIndex:
    text = "".join(linecache.getlines(filename, module_globals))
    if not text:
        raise LoweringError(f"no source text for {filename}", fix="define the function in a file or a notebook cell")
    known = _indices.get(filename)
    if known is not None and known.text == text:
        return known
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise LoweringError(f"the source text of {filename} does not parse ({error.msg})") from error
    index = _build_index(tree)
    index.text = text
    if len(_indices) > 256:
        _indices.clear()
    _indices[filename] = index
    return index


Position = tuple[int, int]


def _span(node: FunctionNode) -> tuple[Position, Position]:
    body = node.body if isinstance(node, ast.Lambda) else node
    return (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)


def _extent(node: FunctionNode) -> tuple[int, int]:
    (line, column), (end_line, end_column) = _span(node)
    return end_line - line, end_column - column


def _tightest(candidates: Sequence[tuple[FunctionNode, Scopes]], code: types.CodeType) -> list[tuple[FunctionNode, Scopes]]:
    """Of several lambdas on a line: the smallest body that holds every instruction of the code."""
    positions = [p for p in code.co_positions() if None not in p and p[2:] != (0, 0)]

    def holds(node: FunctionNode) -> bool:
        start, end = _span(node)
        return all(start <= (line, column) and (end_line, end_column) <= end for line, end_line, column, end_column in positions)

    inside = sorted((c for c in candidates if holds(c[0])), key=lambda c: _extent(c[0]))
    return inside[:1]


def find(function: types.FunctionType) -> FunctionSource:
    """The source of `function`, certain to compile to its code. Raises LoweringError when there is none."""
    if not isinstance(function, types.FunctionType):
        raise LoweringError(f"{type(function).__name__} objects have no Python code to lower", fix="decorate a plain function")
    try:
        found = _in_text(function)
    except LoweringError as error:
        from .recover import recover  # seldom needed

        try:
            return recover(function)
        except LoweringError as unreadable:
            raise unreadable from error
    return found


def _in_text(function: types.FunctionType) -> FunctionSource:
    """The source as it stands in the file. Raises LoweringError when it is not there, or not what was compiled."""
    code = function.__code__
    index = _index_of(code.co_filename, function.__globals__)
    candidates = [c for c in index.functions.get(code.co_firstlineno, ()) if getattr(c[0], "name", "<lambda>") == code.co_name]
    if len(candidates) > 1:
        candidates = _tightest(candidates, code)
    if len(candidates) != 1:
        raise LoweringError(f"the source of {function.__qualname__} was not found in {code.co_filename}")
    node, enclosing = candidates[0]
    for imported in dict.fromkeys((index.imported, ())):  # a shell compiles the statements of a cell apart: none sees the imports
        found = FunctionSource(node, enclosing, imported, code.co_filename, index.text)
        if same_code(compile_like(found.fresh_tree(), found, code), code):
            return found
    raise LoweringError(f"the source of {function.__qualname__} is not what was compiled")
