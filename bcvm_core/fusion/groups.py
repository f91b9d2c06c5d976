"""What the machine model is told of a few ops in a row: the values between them, and what each op does in numbers.

A group says nothing of how it runs. `splits` cuts it into kernels and predicts their times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..dtypes import BY_NAME
from ..ops import registry
from .chains import ROW_OPS
from .machine import ARITHMETIC, DIVISION, FUNCTION, PRODUCT
from .segments import Scalar, Segment, SegmentOp

Shape = tuple[int, ...]
_FUNCTION_FROM: Final = 10.0  # flops per element from which an elementwise op is a function like exp, below it is arithmetic


_DIVISIONS: Final = {"divide": 1.0, "reciprocal": 1.0, "sqrt": 1.5, "rsqrt": 2.5, "floor_divide": 2.0, "remainder": 2.0, "fmod": 2.0}


class MismatchError(ValueError):
    """The shapes of a group do not fit: the text names them."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor between ops. `in_order`: neighbours lie side by side in memory, as the last axis of a fresh result does."""

    shape: Shape
    dtype: str = "float32"
    in_order: bool = True

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * BY_NAME[self.dtype].numpy.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Step:
    """One op: its row's name, the numbers of its operands and of its result among the group's values, and attributes.

    `label` is how it is shown where the op's name says too little.
    """

    op: str
    operands: tuple[int, ...]
    result: int
    attrs: tuple[tuple[str, Any], ...] = ()
    label: str = ""

    @property
    def name(self) -> str:
        return self.label or self.op

    @property
    def kind(self) -> str:
        """As in the op table: "elementwise", "reduce", "matmul", "conv", "view", "none"."""
        return registry.row(self.op).fuse


@dataclass(frozen=True, slots=True)
class Group:
    """Ops in order. Values that no step makes are inputs; `outputs` are the values that are wanted."""

    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    @property
    def title(self) -> str:
        return ", ".join(step.name for step in self.steps)

    def work_at(self, step: Step, shape: Shape) -> tuple[str, float]:
        """(kind of work, operations) of a step; an elementwise one is done for every element of `shape`."""
        row = registry.row(step.op)
        if step.op in _DIVISIONS:  # far slower than their one operation says
            return DIVISION, _DIVISIONS[step.op] * math.prod(shape)
        if row.fuse == "elementwise":
            per_element = 1.0 if row.flops is None else float(row.flops(*[(1,)] * max(1, len(row.operands))))
            return FUNCTION if per_element >= _FUNCTION_FROM else ARITHMETIC, per_element * math.prod(shape)
        if row.flops is None:
            return ARITHMETIC, float(math.prod(shape))
        amount = float(row.flops(*[self.values[k].shape for k in step.operands], **dict(step.attrs)))
        if row.fuse in ("matmul", "conv"):
            return PRODUCT, amount
        return FUNCTION if amount >= _FUNCTION_FROM * max(1, math.prod(shape)) else ARITHMETIC, amount

    def reads_of(self, steps: Sequence[Step]) -> list[int]:
        """Values that steps take from outside of themselves, each once."""
        made = {step.result for step in steps}
        return list(dict.fromkeys(k for step in steps for k in step.operands if k not in made))

    def writes_of(self, steps: Sequence[Step]) -> list[int]:
        """Results of steps that are wanted outside of them."""
        inside = set(map(id, steps))
        later = {k for step in self.steps if id(step) not in inside for k in step.operands}
        return [step.result for step in steps if step.result in later or step.result in self.outputs]


def broadcast(*shapes: Shape) -> Shape:
    """The full shape. Raises MismatchError, "[2, 3] vs [4]"."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise MismatchError(" vs ".join(str(list(s)) for s in dict.fromkeys(shapes))) from None


def of_segment(segment: Segment, inputs: Sequence[Value]) -> Group:
    """The group of a segment whose inputs are such values; results are as large as broadcasting makes them. Raises MismatchError.

    A result's element type is taken to be the widest of its operands': enough to count bytes.
    """
    values = list(inputs)
    number = {register: k for k, register in enumerate(segment.inputs)}
    steps = []
    for op in segment.ops:
        operands = tuple(number[p] for p in op.operands if not isinstance(p, Scalar))
        given = [values[k] for k in operands]
        if op.op in ROW_OPS:
            number[op.dest] = len(values)
            steps.append(Step(op.op, operands, len(values), op.attrs))
            values.append(Value(_reduced(op, given[0].shape), given[0].dtype))
            continue
        widest = max(given, key=lambda v: BY_NAME[v.dtype].numpy.itemsize)
        number[op.dest] = len(values)
        steps.append(Step(op.op, operands, len(values), op.attrs))
        values.append(Value(broadcast(*[v.shape for v in given]), widest.dtype, all(v.in_order for v in given)))
    return Group(tuple(values), tuple(steps), tuple(number[r] for r in segment.outputs))


def _reduced(op: SegmentOp, shape: Shape) -> Shape:
    """The shape of the result of an op over rows."""
    row, attrs = ROW_OPS[op.op], dict(op.attrs)
    if row.fills:
        return shape
    axis = attrs.get("axis", row.axis)
    axes = range(len(shape)) if axis is None else [a % len(shape) for a in (axis if isinstance(axis, tuple) else (axis,))]
    if attrs.get("keepdims"):
        return tuple(1 if k in axes else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def attention(batch: int, heads: int, length: int, size: int, *, keys: int | None = None, dtype: str = "float32") -> Group:
    """Products of queries, keys and values with a softmax between: four-dimensional operands, `keys` positions to look at."""
    keys = length if keys is None else keys
    stack = (batch, heads)
    values = (
        Value((*stack, length, size), dtype),
        Value((*stack, size, keys), dtype),
        Value((*stack, keys, size), dtype),
        Value((*stack, length, keys), dtype),
        Value((*stack, length, keys), dtype),
        Value((*stack, length, size), dtype),
    )
    steps = (Step("matmul", (0, 1), 3, label="qk^T"), Step("softmax", (3,), 4), Step("matmul", (4, 2), 5, label="pv"))
    return Group(values, steps, (5,))
