"""Finding the source of functions, certain to compile to their code."""

from __future__ import annotations

import ast
import linecache

from bcvm_core.frontend.source import find

CELL = "import math\ndef area(r):\n    return math.pi * math.fabs(r)\n"


def test_statements_that_were_compiled_apart_are_found_in_the_text_of_their_cell() -> None:
    """A shell does so, and CPython compiles calls on a module otherwise where it sees its import."""
    filename = "<a cell compiled in parts>"
    linecache.cache[filename] = (len(CELL), None, CELL.splitlines(keepends=True), filename)
    names: dict[str, object] = {}
    for statement in ast.parse(CELL).body:
        exec(compile(ast.Module([statement], []), filename, "exec"), names)
    found = find(names["area"])
    assert (found.text, found.node.lineno, found.imported) == (CELL, 2, ())


def test_what_was_compiled_as_one_text_keeps_its_imports() -> None:
    filename = "<a module compiled at once>"
    linecache.cache[filename] = (len(CELL), None, CELL.splitlines(keepends=True), filename)
    names: dict[str, object] = {}
    exec(compile(CELL, filename, "exec"), names)
    found = find(names["area"])
    assert (found.text, found.imported) == (CELL, ("math",))
