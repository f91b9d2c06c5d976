"""Limits for programs from elsewhere: how many instructions they may run, how much memory they may hold.

Memory is estimated *before* an op runs: an allocation that is too large may kill the process
instead of raising, so it must not be tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import LimitError, Where
from ..ops import registry

_WORD = 16  # bytes of the widest element type; estimates never look at result types
_SAME_SIZE = {"elementwise", "same", "reduce", "view"}


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_steps` instructions (of nested programs too); `max_bytes` held by registers or made by one op."""

    max_steps: int | None = None
    max_bytes: int | None = None


class Budget:
    """What is left of `Limits` during one run."""

    __slots__ = ("limits", "steps")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.steps = 0

    def step(self, where: Where) -> None:
        """Count one instruction. Raises LimitError past the limit."""
        self.steps += 1
        limit = self.limits.max_steps
        if limit is not None and self.steps > limit:
            raise LimitError(f"more than {limit} steps", where=where, fix="raise max_steps, or look for an endless loop")

    def before_op(self, op: str, operands: Iterable[Any], attrs: Mapping[str, Any], where: Where) -> None:
        """Refuse an op whose result may be larger than the limit."""
        limit = self.limits.max_bytes
        if limit is None:
            return
        operands = list(operands)
        if op == "setitem" and isinstance(operands[0], list | dict) and isinstance(operands[-1], list | tuple | dict):
            raise LimitError("a container may come to hold itself", where=where, fix="run the program without max_bytes")
        self.container([*operands, *attrs.values()], where)
        self._refuse_objects([*operands, *attrs.values()], op, where)
        need = estimate(op, operands, dict(attrs))
        if need > limit:
            raise LimitError(f"{op} may need {_amount(need)} bytes, more than max_bytes={limit}", where=where, fix="raise max_bytes")

    def container(self, items: Iterable[Any], where: Where) -> None:
        """Refuse nested sequences that stand for too many elements: shared parts count as often as they are reached."""
        limit = self.limits.max_bytes
        if limit is not None and _reaches(items, limit // 8):
            raise LimitError(f"a container reaches more than {limit // 8} elements", where=where, fix="raise max_bytes")

    def _refuse_objects(self, values: Iterable[Any], what: str, where: Where) -> None:
        """The elements of an object array are Python's: how large they grow, and how long that takes, cannot be told."""
        if any(isinstance(v, np.ndarray | np.generic) and v.dtype.hasobject for v in values):
            raise LimitError(f"{what} works on arrays of objects", where=where, fix="run it without max_bytes")

    def held(self, registers: Iterable[Any], where: Where) -> None:
        """Refuse to go on when the registers hold more than the limit."""
        limit = self.limits.max_bytes
        if limit is None:
            return
        self._refuse_objects(registers, "a program", where)
        total = sum(a.nbytes for a in {id(r): r for r in registers if isinstance(r, np.ndarray)}.values())
        if total > limit:
            raise LimitError(f"registers hold {total} bytes, more than max_bytes={limit}", where=where, fix="raise max_bytes")


def _reaches(items: Iterable[Any], most: int) -> bool:
    pending = list(items)
    count = 0
    while pending:
        item = pending.pop()
        count += 1
        if isinstance(item, list | tuple):
            pending += item
        elif isinstance(item, dict):
            pending += [*item.keys(), *item.values()]
        if count + len(pending) > most:
            return True
    return False


def _amount(need: float) -> str:
    return f"{need:.0f}" if need < 1e18 else "more than 1e18"


def estimate(op: str, operands: list[Any], attrs: dict[str, Any]) -> float:
    """An upper bound of the bytes an op's result takes; generous, so limits should be too."""
    row = registry.row(op)
    everything = [*operands, *attrs.values()]
    if _python_growth(op, everything) > 0:
        return _python_growth(op, everything)
    shapes = [_shape(v) for v in _tensors(everything)]
    elements = sum(math.prod(s) for s in shapes)
    if row.shape_rule == "elementwise":
        return _WORD * _broadcast(shapes)
    if row.shape_rule in _SAME_SIZE and op != "broadcast_to":
        return _WORD * max(elements, 1.0)
    # Creation, joining, repeating, products: every integer among the arguments may be a factor.
    factor = math.prod(max(i, 1.0) for i in _integers(everything))
    largest = [max((s[a] for s in shapes if len(s) > a), default=1) for a in range(max((len(s) for s in shapes), default=0))]
    crossed = math.prod(float(math.prod(s)) or 1.0 for s in shapes) if row.shape_rule in ("matmul", "conv") else 1.0
    return _WORD * max(elements * factor, factor, math.prod(map(float, largest)), min(crossed, 1e300))


def _tensors(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, np.ndarray):
            found.append(value)
        elif isinstance(value, list | tuple) and len(value) <= 64:
            found += _tensors(value)
        elif isinstance(value, list | tuple):
            found.append(np.empty(len(value), np.int8))
    return found


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape)


def _broadcast(shapes: list[tuple[int, ...]]) -> float:
    rank = max((len(s) for s in shapes), default=0)
    return math.prod(float(max((s[len(s) - rank + i] for s in shapes if len(s) - rank + i >= 0), default=1)) for i in range(rank))


def _integers(values: Iterable[Any]) -> list[float]:
    found: list[float] = []
    for value in values:
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int | float | np.integer | np.floating):
            found.append(_size(value))
        elif isinstance(value, list | tuple):
            found += _integers(value)
    return found


def _has_long_integer(values: Iterable[Any]) -> bool:
    return any(
        value.bit_length() > 64 if isinstance(value, int) else isinstance(value, list | tuple) and _has_long_integer(value)
        for value in values
    )


def _size(value: Any) -> float:
    """The magnitude of a number as a float that never overflows."""
    if isinstance(value, int):
        return 1e300 if value.bit_length() > 990 else float(abs(value))
    size = abs(float(value))
    return size if size < 1e300 else 1e300


def _python_growth(op: str, values: list[Any]) -> float:
    """Bytes of results that Python makes: long integers, repeated strings and sequences."""
    if op in ("power", "pow", "left_shift") and _has_long_integer(values):
        return 1e300  # beyond NumPy's integers these run on Python's
    ints = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    if len(ints) == len(values) == 2:
        left, right = ints
        if op in ("power", "pow"):
            return left.bit_length() * _size(right) / 8 if right > 0 else 0.0
        if op == "left_shift":
            return left.bit_length() / 8 + _size(right) / 8
        return (left.bit_length() + right.bit_length()) / 8
    sequences = [v for v in values if isinstance(v, str | bytes | list | tuple)]
    if sequences and ints and op == "multiply":
        return 8.0 * len(sequences[0]) * _size(ints[0])
    return 0.0
