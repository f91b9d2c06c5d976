"""Matrix products and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.onnx_nodes.table import op, simple

simple(
    {
        "Det": lambda x: np.linalg.det(x),
        "MatMul": lambda x, y: np.matmul(x, y).astype(x.dtype, copy=False),  # NumPy multiplies bfloat16 as float32
    }
)


@op("Einsum")
def einsum(*arrays: Any, equation: str) -> Any:
    if arrays[0].dtype.kind == "V":  # NumPy's einsum knows no bfloat16
        wide = [a.astype(np.float32) for a in arrays]
        return np.einsum(equation, *wide).astype(arrays[0].dtype)
    return np.einsum(equation, *arrays)


@op("Gemm")
def gemm(a: Any, b: Any, c: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0) -> Any:
    if transA:
        a = a.T
    if transB:
        b = np.transpose(b)
    y = alpha * (a @ b)
    return y if c is None else y + beta * c
