"""A segment and its operands as the splicer takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codegen.stencils.graph import Const, FusedGraph, Input, Node
from ..fusion.segments import Scalar, Segment


def layout_of(value: Any, full: tuple[int, ...]) -> str:
    """How an operand repeats in the full shape: one of `graph.LAYOUTS`."""
    if value.size == 1:
        return "scalar"
    if value.shape == full:
        return "contiguous" if value.flags.forc else "strided"
    if value.shape[-1] == full[-1] and value.flags.c_contiguous:
        return "row"
    return "column" if value.shape[-1] == 1 else "strided"


def graph_of(segment: Segment, inputs: Sequence[Input]) -> FusedGraph:
    """The segment as the splicer takes it."""
    number = {register: k for k, register in enumerate(segment.inputs)}
    nodes = []
    for op in segment.ops:
        operands = tuple(Const(p.value) if isinstance(p, Scalar) else number[p] for p in op.operands)
        nodes.append(Node(op.op, operands, op.attrs))
        number[op.dest] = len(inputs) + len(nodes) - 1
    return FusedGraph(tuple(inputs), tuple(nodes), tuple(number[r] for r in segment.outputs))
