"""`bcvm.explain`: what became of functions and Cells, and how their ops were cut into kernels."""

from __future__ import annotations

from typing import Any

from . import grouping, modes
from .errors import LoweringError
from .jit import linker_of


def explain(target: Any = None) -> str:
    """What became of a function or Cell under BCVM, with the decisions about its kernels: predicted times, and measured ones beside.

    A function that was lowered: its statements, and why some were left to Python. A Cell: its programs, or why it was left to MindSpore,
    and the same of its parts then. Without a target: the latest decisions of the process. Raises LoweringError for anything else.
    """
    if target is None:
        from .fusion import decisions

        found = [*grouping.lines(), *(line for record in decisions.latest() for line in record.lines())]
        return "\n".join(found) or "nothing was decided yet"
    if modes.is_model(target):
        return modes.explain(target)
    linker = linker_of(target)
    if linker is None:
        raise LoweringError(f"{target!r} was not lowered", fix="decorate the function with @bcvm.jit, or pass a Cell")
    return linker.explain()
