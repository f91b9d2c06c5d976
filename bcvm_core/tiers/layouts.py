"""How an operand repeats in the shape that a fused kernel computes."""

from __future__ import annotations

from typing import Any


def layout_of(value: Any, full: tuple[int, ...]) -> str:
    """One of `graph.LAYOUTS`."""
    if value.size == 1:
        return "scalar"
    if value.shape == full:
        return "contiguous" if value.flags.forc else "strided"
    if value.shape[-1] == full[-1] and value.flags.c_contiguous:
        return "row"
    return "column" if value.shape[-1] == 1 else "strided"
