"""What samples are made of: the same numbers every time, element types, and the form of a call."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from bcvm_core import dtypes

Sample = tuple[tuple[Any, ...], dict[str, Any]]

FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
DTYPES = (*FLOATS, np.int32, np.uint8, np.bool_, np.complex64)
EVERY_DTYPE = tuple(row.numpy for row in dtypes.TABLE)
INTEGERS = tuple(dtype for dtype in EVERY_DTYPE if dtype.kind in "biu")


def tensor(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0, low: float = 0.05, high: float = 2.0) -> np.ndarray[Any, Any]:
    """Positive numbers without zeros, the same every time."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype) == np.bool_:
        return rng.random(shape) > 0.5
    if np.dtype(dtype).kind in "iu":
        return rng.integers(1, 9, shape).astype(dtype)
    values = rng.uniform(low, high, shape)
    return values.astype(np.float64).astype(dtype)


def matrix(dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return tensor((3, 4), dtype, 1)


def images(seed: int = 2) -> np.ndarray[Any, Any]:
    return tensor((2, 4, 5, 6), np.float32, seed)


def key() -> Any:
    return 7


def call(*operands: Any, **attrs: Any) -> Sample:
    return operands, attrs


def volume() -> np.ndarray[Any, Any]:
    return tensor((2, 2, 3, 4, 5), np.float32, 6)


def square() -> np.ndarray[Any, Any]:
    return tensor((3, 3), np.float64, 7) + 2 * np.eye(3)


INDEX = np.array([2, 0, 1])
