"""What the splicer takes: a small frozen graph of elementwise ops.

Values are numbered: the inputs first, then the nodes in order. Operands are such numbers or
`Const`. Ops are names of rows of the op table, with the meaning that the rows' definitions have
for arrays of these types under the installed NumPy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

LAYOUTS = ("contiguous", "scalar", "row", "column", "strided")


class NotFusable(Exception):
    """A graph, or one of its ops for these types, has no stencils. The text says what and why."""


class Const(NamedTuple):
    """A Python number, or a NumPy scalar, as an operand."""

    value: Any


Operand = int | Const


class Input(NamedTuple):
    """An operand from outside. `dtype`: a name of `bcvm_core.dtypes`.

    `layout` says what to prepare for: "contiguous" (the full shape), "scalar" (one element), "row"
    (the last axis of the full shape), "column" (constant along the last axis), "strided".
    """

    dtype: str
    layout: str = "contiguous"


class Node(NamedTuple):
    """One op: its row's name, operands, and attributes as sorted (name, value) pairs."""

    op: str
    operands: tuple[Operand, ...]
    attrs: tuple[tuple[str, Any], ...] = ()


class FusedGraph(NamedTuple):
    """An elementwise DAG. `outputs`: numbers of the values that are wanted."""

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
