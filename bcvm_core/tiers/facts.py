"""What a selection program may ask about a call: one table of facts, each an integer.

A fact reads sizes, strides and types of the operands; it never reads their elements and changes nothing.
An operand that a call does not have counts as a Python value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dtypes

_KINDS = {"bool": 0, "int": 1, "uint": 2, "float": 3, "complex": 4}
_PYTHON_KINDS: dict[type, int] = {bool: 0, int: 1, float: 3, complex: 4}
MAX_AXIS = 32  # axes run from -MAX_AXIS to MAX_AXIS - 1; an axis that is not there has size 1, as broadcasting sees it


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


def _at(operands: Sequence[Any], i: int) -> Any:
    """An operand; None when the call has fewer."""
    return operands[i] if i < len(operands) else None


def _axis(values: Sequence[int], axis: int, absent: int) -> int:
    return int(values[axis]) if -len(values) <= axis < len(values) else absent


def _ndim(o: Sequence[Any], i: int, _: int) -> int:
    return len(_shape(_at(o, i)))


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def _size(o: Sequence[Any], i: int, _: int) -> int:
    return _elements(_shape(_at(o, i)))


def _dim(o: Sequence[Any], i: int, axis: int) -> int:
    return _axis(_shape(_at(o, i)), axis, 1)


def _stride(o: Sequence[Any], i: int, axis: int) -> int:
    return _axis(getattr(_at(o, i), "strides", ()), axis, 0)


def _dtype_of(value: Any) -> np.dtype[Any] | None:
    dtype = getattr(value, "dtype", None)
    return dtype if isinstance(dtype, np.dtype) else None


def _itemsize(o: Sequence[Any], i: int, _: int) -> int:
    dtype = _dtype_of(_at(o, i))
    return 0 if dtype is None else dtype.itemsize


def _dtype(o: Sequence[Any], i: int, _: int) -> int:
    dtype = _dtype_of(_at(o, i))
    row = None if dtype is None else dtypes.BY_NUMPY.get(dtype)
    return 0 if row is None else row.code


def _kind(o: Sequence[Any], i: int, _: int) -> int:
    dtype = _dtype_of(_at(o, i))
    if dtype is None:
        return _PYTHON_KINDS.get(type(_at(o, i)), 5)
    row = dtypes.BY_NUMPY.get(dtype)
    return 5 if row is None else _KINDS[row.kind]


def _contiguous(o: Sequence[Any], i: int, _: int) -> int:
    return int(_at(o, i).flags.c_contiguous) if isinstance(_at(o, i), np.ndarray) else 1


def _fortran(o: Sequence[Any], i: int, _: int) -> int:
    return int(_at(o, i).flags.f_contiguous) if isinstance(_at(o, i), np.ndarray) else 1


def _alignment(o: Sequence[Any], i: int, _: int) -> int:
    if not isinstance(_at(o, i), np.ndarray):
        return 1
    address = int(_at(o, i).__array_interface__["data"][0])
    return min(64, address & -address) if address else 64


def _operands(o: Sequence[Any], _i: int, _: int) -> int:
    return len(o)


def _nbytes(o: Sequence[Any], _i: int, _: int) -> int:
    return sum(int(getattr(value, "nbytes", 0)) for value in o)


def _widest(o: Sequence[Any], _i: int, _: int) -> int:
    return max((_elements(_shape(value)) for value in o), default=0)


def _m(o: Sequence[Any], _i: int, _: int) -> int:
    return _axis(_shape(_at(o, 0)), -2, 1)


def _k(o: Sequence[Any], _i: int, _: int) -> int:
    return _axis(_shape(_at(o, 0)), -1, 1)


def _n(o: Sequence[Any], _i: int, _: int) -> int:
    shape = _shape(_at(o, 1))
    return shape[-1] if len(shape) > 1 else 1


def _batch(o: Sequence[Any], _i: int, _: int) -> int:
    shapes = [_shape(value)[:-2] for value in o[:2]]
    return max((_elements(shape) for shape in shapes), default=1)


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact. `indices` is the number of subscripts it takes: none, [operand], or [operand, axis]."""

    name: str
    indices: int
    doc: str
    read: Callable[[Sequence[Any], int, int], int]


TABLE: tuple[Fact, ...] = (
    Fact("operands", 0, "number of operands", _operands),
    Fact("bytes", 0, "bytes of all operands together", _nbytes),
    Fact("widest", 0, "elements of the largest operand", _widest),
    Fact("m", 0, "rows of the left matrix", _m),
    Fact("n", 0, "columns of the right matrix", _n),
    Fact("k", 0, "length of the contracted axis", _k),
    Fact("batch", 0, "number of matrices", _batch),
    Fact("ndim", 1, "number of axes", _ndim),
    Fact("size", 1, "number of elements", _size),
    Fact("itemsize", 1, "bytes of one element, 0 for Python values", _itemsize),
    Fact("dtype", 1, "code of the element type in the dtype table, 0 for Python values", _dtype),
    Fact("kind", 1, "0 bool, 1 int, 2 unsigned, 3 float, 4 complex, 5 other", _kind),
    Fact("contiguous", 1, "1 when the elements lie in C order without gaps", _contiguous),
    Fact("fortran", 1, "1 when the elements lie in Fortran order without gaps", _fortran),
    Fact("alignment", 1, "largest power of two up to 64 that divides the address", _alignment),
    Fact("dim", 2, "length of an axis, 1 when there is no such axis", _dim),
    Fact("stride", 2, "bytes from one element to the next along an axis, 0 when there is no such axis", _stride),
)

BY_NAME: dict[str, Fact] = {fact.name: fact for fact in TABLE}
