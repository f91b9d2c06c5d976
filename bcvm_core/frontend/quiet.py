"""Compiling code a second time: Python gave its warnings when it compiled the user's own text."""

from __future__ import annotations

import ast
import types
import warnings
from typing import cast


def compile_quietly(tree: ast.Module | ast.Expression, filename: str, mode: str, flags: int = 0) -> types.CodeType:
    """`compile` without SyntaxWarnings and without this module's own `__future__` flags."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return cast(types.CodeType, compile(tree, filename, mode, flags=flags, dont_inherit=True))
