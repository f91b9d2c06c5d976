"""A segment and its operands as the splicer takes them, and the pattern that they make.

The *pattern* of a call is the element type of each operand and the way it repeats (as it lies, one
element, along a row, down a column, strided), numbered in mixed radix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .. import dtypes
from ..codegen.stencils.graph import LAYOUTS, Const, FusedGraph, Input, Node, NotFusable
from ..fusion.segments import Scalar, Segment

_TYPES: Final = tuple(row.name for row in dtypes.TABLE)
_RADIX: Final = len(_TYPES) * len(LAYOUTS)
_DIGITS: Final = {(name, layout): k for k, (name, layout) in enumerate((n, x) for n in _TYPES for x in LAYOUTS)}
_REPEATED: Final = ("scalar", "column")  # layouts whose elements stay the same along a row


def numbered(segment: Segment) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    """The nodes and outputs of a segment's graph."""
    number = {register: k for k, register in enumerate(segment.inputs)}
    nodes = []
    for op in segment.ops:
        nodes.append(Node(op.op, tuple([Const(p.value) if type(p) is Scalar else number[p] for p in op.operands]), op.attrs))  # type: ignore[index]
        number[op.dest] = len(segment.inputs) + len(nodes) - 1
    return tuple(nodes), tuple([number[r] for r in segment.outputs])


def graph_of(segment: Segment, inputs: Sequence[Input]) -> FusedGraph:
    """The segment as the splicer takes it."""
    return FusedGraph(tuple(inputs), *numbered(segment))


def inputs_of(values: Sequence[Any]) -> tuple[Input, ...]:
    """The inputs of a graph for operands like these. Raises NotFusable for nameless types and shapes that do not broadcast."""
    full = full_shape(values)
    return tuple([Input(type_name(value), layout_of(value, full)) for value in values])


def layout_of(value: Any, full: tuple[int, ...]) -> str:
    """How an operand repeats in the full shape: one of `graph.LAYOUTS`."""
    if value.size == 1:
        return "scalar"
    if value.shape == full:
        return "contiguous" if value.flags.forc else "strided"
    if value.shape[-1] == full[-1] and value.flags.c_contiguous:
        return "row"
    return "column" if value.shape[-1] == 1 else "strided"


def pattern_of(inputs: Sequence[Input]) -> int:
    """The number of a pattern."""
    number = 0
    for name, layout in inputs:
        number = number * _RADIX + _DIGITS[name, layout]
    return number


def pattern_text(inputs: Sequence[Input]) -> str:
    """A pattern in words, "float32:contiguous, float32:row"."""
    return ", ".join(f"{name}:{layout}" for name, layout in inputs)


def repeated(inputs: Sequence[Input]) -> int:
    """The inputs, as bits, whose elements stay the same along a row: a kernel has code for each such set."""
    return sum(1 << k for k, (_, layout) in enumerate(inputs) if layout in _REPEATED)


def type_name(value: Any) -> str:
    name = dtypes.name_of(value.dtype)
    if name is None:
        raise NotFusable(f"no stencils for the type {value.dtype}")
    return name


def full_shape(values: Sequence[Any]) -> tuple[int, ...]:
    shape: tuple[int, ...] = values[0].shape
    for value in values:
        if value.shape != shape:
            break
    else:
        return shape
    try:
        return np.broadcast_shapes(*(v.shape for v in values))
    except ValueError as error:
        raise NotFusable(f"shape mismatch: {shapes_text(values)}") from error


def shapes_text(values: Sequence[Any]) -> str:
    """Shapes against each other, as refusals show them: "[2, 3] vs [4]"."""
    return " vs ".join(str(list(v.shape)) for v in values)
