"""Which calls may take long: an estimate from the shapes, cheap enough to be made at every call.

A call is long from a few milliseconds on. What is far below that must not count as long; what takes a tenth of a second or two must.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..ops.registry import OpInfo

Judge = Callable[[Sequence[Any], Mapping[str, Any]], bool]

LONG_ELEMENTS: Final = 1 << 22
LONG_FLOPS: Final = 1 << 26
SHORT: Final = 1 << 18  # calls whose operands' sizes multiply to less are short, whatever they do
_KNOWN: Final = 4096
# Attributes by which a result is larger than the operands.
_SIZES: Final = frozenset({"shape", "args", "num", "N", "M", "n", "size", "depth", "reps", "repeats", "num_samples"})
_GROWS: Final = frozenset({"tile", "repeat", "one_hot", "multinomial", "interpolate"})
_COPIES: Final = frozenset({"reshape", "ravel", "ascontiguousarray", "flatten_axes", "view"})  # where strides demand it

_ndarray = np.ndarray


def judge(op: OpInfo) -> Judge | None:
    """What tells whether a call of `op` is long; None when none is, or when it writes into an operand of the user's."""
    if op.writes or (op.family == "shape" and op.result == "python"):
        return None
    if op.shape_rule == "create" or op.name in _GROWS:
        return _by_attributes
    if op.name in _COPIES:
        return _copies
    if op.name == "getitem":
        return lambda operands, _: any(value.size >= LONG_ELEMENTS for value in _arrays(operands[1:]))
    if op.name == "einsum":
        return lambda operands, _: _einsum_elements(operands) >= LONG_ELEMENTS
    return None if op.shape_rule == "view" else _by_shapes(op)


def size_alone(op: OpInfo) -> bool:
    """Whether calls of `op` are short when the sizes of its operands multiply to less than `SHORT`."""
    return not (op.shape_rule in ("create", "view") or op.name in _GROWS)


def _arrays(values: Sequence[Any]) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays among values, and in the tuples and lists among them."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple | list):
            yield from (item for item in value if isinstance(item, np.ndarray))


# --- by the shapes of the operands -------------------------------------------------------------


def _by_shapes(op: OpInfo) -> Judge:
    known: dict[Any, bool] = {}  # for calls without attributes

    def is_long(operands: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
        shapes = tuple([value.shape for value in _arrays(operands)])
        if attrs:
            return _is_long(op, shapes, attrs)
        found = known.get(shapes)
        if found is None:
            if len(known) >= _KNOWN:
                known.clear()
            found = known[shapes] = _is_long(op, shapes, attrs)
        return found

    return is_long


def _is_long(op: OpInfo, shapes: tuple[tuple[int, ...], ...], attrs: Mapping[str, Any]) -> bool:
    if sum(map(math.prod, shapes)) >= LONG_ELEMENTS:
        return True
    try:
        if op.shape_rule == "elementwise":
            result = np.broadcast_shapes(*shapes)
            if math.prod(result) >= LONG_ELEMENTS:
                return True
            shapes = (result,) * len(shapes)
        return op.flops is not None and op.flops(*shapes, **attrs) >= LONG_FLOPS
    except Exception:  # shapes that don't fit: the op will say so
        return False


# --- by something else -------------------------------------------------------------------------


def _copies(operands: Sequence[Any], _attrs: Mapping[str, Any]) -> bool:
    x = operands[0]
    return type(x) is _ndarray and x.size >= LONG_ELEMENTS and not x.flags.c_contiguous


def _by_attributes(operands: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
    """Elements of the operands times every number that says how much larger the result is."""
    elements = math.prod(value.size for value in _arrays(operands) if value.size)
    for name, value in attrs.items():
        if name in _SIZES:
            elements *= max(1, _size(value))
    return elements >= LONG_ELEMENTS


def _size(value: Any) -> int:
    """The product of the numbers of an attribute, by their absolute values and without zeros; 1 for anything else."""
    if isinstance(value, int | np.integer):
        return abs(int(value)) or 1
    if isinstance(value, tuple | list):
        return math.prod(_size(item) for item in value)
    if isinstance(value, float | np.floating) and math.isfinite(value):  # of arange
        return math.ceil(abs(float(value))) or 1
    return int(value.max()) if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iu" else 1


def _einsum_elements(operands: Sequence[Any]) -> int:
    """The steps of the loop over all letters of the formula; of all sizes where it has other signs, or is none."""
    flat = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], tuple | list) else list(operands)
    arrays = list(_arrays(flat))
    terms = flat[0].replace(" ", "").partition("->")[0].split(",") if flat and isinstance(flat[0], str) else []
    if len(terms) != len(arrays) or not all(map(str.isalpha, filter(None, terms))):
        return math.prod(value.size for value in arrays)
    lengths: dict[str, int] = {}
    for term, array in zip(terms, arrays, strict=True):
        for letter, length in zip(term, array.shape, strict=False):
            lengths[letter] = max(length, lengths.get(letter, 1))
    return math.prod(lengths.values())
