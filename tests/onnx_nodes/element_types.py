"""Element types of ONNX that are BCVM's too."""

from __future__ import annotations

from typing import Any

import onnx


class NotOurs(Exception):
    """An element type, a value or a form that tensors here do not have; the text says which."""


def numpy_type(code: int) -> Any:
    """The NumPy type of an ONNX type number."""
    return onnx.helper.tensor_dtype_to_np_dtype(code)
