"""The element types BCVM knows: one table, every other spelling is derived from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True)
class DTypeRow:
    """One element type: `code` is its number in binary signatures and never changes."""

    name: str
    code: int
    numpy: np.dtype[Any]
    kind: str  # "bool", "int", "uint", "float", "complex"


def _row(name: str, code: int, kind: str, scalar: Any = None) -> DTypeRow:
    return DTypeRow(name, code, np.dtype(scalar if scalar is not None else name), kind)


TABLE: tuple[DTypeRow, ...] = (
    _row("bool", 1, "bool"),
    _row("int8", 2, "int"),
    _row("int16", 3, "int"),
    _row("int32", 4, "int"),
    _row("int64", 5, "int"),
    _row("uint8", 6, "uint"),
    _row("uint16", 7, "uint"),
    _row("uint32", 8, "uint"),
    _row("uint64", 9, "uint"),
    _row("float16", 10, "float"),
    _row("bfloat16", 11, "float", ml_dtypes.bfloat16),
    _row("float32", 12, "float"),
    _row("float64", 13, "float"),
    _row("complex64", 14, "complex"),
    _row("complex128", 15, "complex"),
)

BY_NAME = {row.name: row for row in TABLE}
BY_CODE = {row.code: row for row in TABLE}
BY_NUMPY = {row.numpy: row for row in TABLE}


def name_of(dtype: np.dtype[Any]) -> str | None:
    """The table's name of a NumPy dtype, or None when tensors of it are not ours (object, str, ...)."""
    row = BY_NUMPY.get(dtype)
    return row.name if row is not None and dtype.isnative else None
