"""The matrix family: NumPy's own products (and so its BLAS), chosen by shape and element type alone.

`linear` and `bmm` accumulate float16 and bfloat16 in float32 and round once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import config
from . import products, trees
from ._rows import X, elements, method, numpy, own
from .registry import OpInfo, Param, Spelling

Y = Param("y", "tensor")
BIAS = Param("bias", "tensor", None)


def _matmul(x: Any, y: Any, *, dtype: Any = None, out: Any = None) -> Any:
    if config.current.reproducible and (dtype is None or np.dtype(dtype).kind == "f"):
        made = _reproducible(x, y, dtype)
        if out is None:
            return made
        if np.shape(made) == np.shape(out):
            np.copyto(out, made, casting="same_kind")
            return out
    if out is not None:
        if out is x:
            out @= y
            return out
        return np.matmul(x, y, out=out)
    return np.matmul(x, y) if dtype is None else np.matmul(x, y, dtype=dtype)


def _reproducible(x: Any, y: Any, dtype: Any) -> Any:
    if dtype is None:
        return products.matmul(x, y)
    return products.matmul(*(np.asarray(v).astype(dtype, casting="same_kind", copy=False) for v in (x, y)))


def _dot(x: Any, y: Any) -> Any:
    return products.dot(x, y)


def _vdot(x: Any, y: Any) -> Any:
    return products.vdot(x, y)


def _inner(x: Any, y: Any) -> Any:
    return products.inner(x, y)


def _outer(x: Any, y: Any) -> Any:
    return np.outer(x, y)


def _kron(x: Any, y: Any) -> Any:
    return np.kron(x, y)


def _tensordot(x: Any, y: Any, *, axes: Any = 2) -> Any:
    return products.tensordot(x, y, axes)


def _einsum(operands: Any, *, optimize: Any = False) -> Any:
    return products.einsum(*operands, optimize=optimize)


def _trace(x: Any, *, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None) -> Any:
    return np.trace(x, offset, axis1, axis2, dtype)


def widened(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`x` in the type in which products of it are accumulated: float32 for the 16-bit floats."""
    return x.astype(trees.F32) if x.dtype in (trees.F16, trees.BF16) else x


def product_type(*arrays: np.ndarray[Any, Any]) -> np.dtype[Any]:
    """The element type of a product of these arrays; of two 16-bit float types float32, as NumPy cannot promote them."""
    found = {a.dtype for a in arrays}
    if found == {trees.F16, trees.BF16}:
        return trees.F32
    return np.result_type(*found)


def _bmm(x: Any, y: Any) -> Any:
    a, b = trees.tensor(x), trees.tensor(y)
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise ValueError(f"bmm: shapes {a.shape} and {b.shape} are not (b, n, m) and (b, m, p)")
    return products.matmul(widened(a), widened(b)).astype(product_type(a, b), copy=False)


def _linear(x: Any, weight: Any, *, bias: Any = None) -> Any:
    a, w = trees.tensor(x), trees.tensor(weight)
    if w.ndim != 2 or a.ndim < 1 or a.shape[-1] != w.shape[1]:
        raise ValueError(f"linear: a weight (out, in) was expected for x {a.shape}, not {w.shape}")
    wide, result = widened(a), product_type(a, w)
    # One product over all leading dims: a stack of small ones would be slower, and round by its own blocks.
    rows, wide_w, shape = wide.reshape(-1, w.shape[1]), widened(w), (*a.shape[:-1], w.shape[0])
    b = None if bias is None else trees.tensor(bias)
    whole = None if b is None else products.with_bias(rows, wide_w, b)
    if whole is not None and b is not None:
        return whole.reshape(shape).astype(product_type(np.empty(0, result), b), copy=False)
    out = products.of_weights(rows, wide_w).reshape(shape)
    if b is not None:
        result = product_type(np.empty(0, result), b)
        fits = b.dtype == out.dtype and b.shape == out.shape[out.ndim - b.ndim :]
        out = np.add(out, b, out=out) if fits else out + widened(b)
    return out.astype(result, copy=False)


def _matmul_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    x, y = shapes[0], shapes[1]
    if not x or not y:
        return float(elements(x) * elements(y))
    rows = 1 if len(x) == 1 else x[-2]
    columns = 1 if len(y) == 1 else y[-1]
    return 2.0 * rows * x[-1] * columns * elements(np.broadcast_shapes(x[:-2], y[:-2]))


def _linear_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    return 2.0 * elements(shapes[0]) * shapes[1][0]


def _outer_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    return float(elements(shapes[0]) * elements(shapes[1]))


def _einsum_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    """An upper bound: the product of all operand sizes is far above it; the largest times two is typical."""
    return 2.0 * max((elements(s) for s in shapes), default=0)


def _tensordot_flops(*shapes: tuple[int, ...], axes: Any = 2, **_attrs: Any) -> float:
    summed = shapes[0][len(shapes[0]) - axes :] if isinstance(axes, int) else [shapes[0][a] for a in np.atleast_1d(axes[0])]
    return 2.0 * elements(shapes[0]) * elements(shapes[1]) / max(1, elements(summed))


def _row(
    name: str, definition: Callable[..., Any], doc: str, params: tuple[Param, ...], spellings: tuple[Spelling, ...], **rest: Any
) -> OpInfo:
    fields: dict[str, Any] = {"shape_rule": "matmul", "fuse": "matmul", "policy": 2, "fp_name": name, "flops": _matmul_flops, **rest}
    return OpInfo(name=name, family="linalg", params=params, definition=definition, doc=doc, spellings=spellings, **fields)


ROWS: tuple[OpInfo, ...] = (
    _row(
        "matmul",
        _matmul,
        "Matrix product with broadcast leading dims; the operator `@`.",
        (X, Y, Param("dtype", default=None)),
        (
            numpy("matmul", "x1, x2, /, out=None, *, dtype=None", x1="x", x2="y"),
            Spelling("operator.MatMult", "x, y", kind="operator"),
        ),
        scalar=operator.matmul,
        gradient="g @ swapaxes(y, -1, -2); swapaxes(x, -1, -2) @ g",
    ),
    _row(
        "dot",
        _dot,
        "NumPy's dot: inner product, matrix product, or sum over the last and the second-last axis.",
        (X, Y),
        (numpy("dot", "a, b, out=None", a="x", b="y"), *method("dot", "b, /, out=None", b="y")),
        gradient="dot(g, y.T); dot(x.T, g)",
    ),
    _row(
        "vdot",
        _vdot,
        "Dot product of the flattened operands, the first conjugated.",
        (X, Y),
        (numpy("vdot", "a, b, /", a="x", b="y"),),
        flops=lambda *shapes, **_attrs: 2.0 * elements(shapes[0]),
        gradient="g * y; g * x",
    ),
    _row(
        "inner",
        _inner,
        "Sum of products over the last axes.",
        (X, Y),
        (numpy("inner", "a, b, /", a="x", b="y"),),
        flops=lambda *shapes, **_attrs: 2.0 * elements(shapes[0]) * elements(shapes[1]) / max(1, shapes[0][-1] if shapes[0] else 1),
        gradient="tensordot(g, y); tensordot(g, x)",
    ),
    _row(
        "outer",
        _outer,
        "All products of the elements of two flattened operands.",
        (X, Y),
        (numpy("outer", "a, b, out=None", a="x", b="y"),),
        shape_rule="other",
        fuse="none",
        policy=0,
        flops=_outer_flops,
        gradient="g @ ravel(y); ravel(x) @ g",
        fp_name="multiply",
    ),
    _row(
        "kron",
        _kron,
        "Kronecker product.",
        (X, Y),
        (numpy("kron", "a, b", a="x", b="y"),),
        shape_rule="other",
        fuse="none",
        policy=0,
        flops=_outer_flops,
        fp_name="multiply",
    ),
    _row(
        "tensordot",
        _tensordot,
        "Sum of products over chosen axes of both operands.",
        (X, Y, Param("axes", default=2)),
        (numpy("tensordot", "a, b, axes=2", a="x", b="y"),),
        shape_rule="other",
        flops=_tensordot_flops,
        gradient="tensordot(g, y); tensordot(x, g)",
        fp_name="dot",
    ),
    _row(
        "einsum",
        _einsum,
        "Sum of products in Einstein's notation; the first operand is the formula.",
        (Param("operands", "tensors"), Param("optimize", default=False)),
        (numpy("einsum", "*operands, out=None, optimize=False"),),
        shape_rule="other",
        fuse="none",
        flops=_einsum_flops,
        gradient="einsum(swapped formula, g, the other operands)",
    ),
    _row(
        "trace",
        _trace,
        "Sum along a diagonal, by NumPy's own order.",
        (X, Param("offset", default=0), Param("axis1", default=0), Param("axis2", default=1), Param("dtype", default=None)),
        (
            numpy("trace", "a, offset=0, axis1=0, axis2=1, dtype=None, out=None", a="x"),
            *method("trace", "offset=0, axis1=0, axis2=1, dtype=None, out=None"),
        ),
        shape_rule="reduce",
        dtype_rule="other",
        fuse="none",
        policy=0,
        flops=lambda *shapes, **_attrs: float(min(shapes[0], default=0)),
        gradient="g * eye(x.shape)",
        fp_name="reduce",
    ),
    _row(
        "bmm",
        _bmm,
        "Matrix products of two equally long stacks, without broadcasting.",
        (X, Y),
        (own("bmm", "x, y"),),
        gradient="g @ swapaxes(y, -1, -2); swapaxes(x, -1, -2) @ g",
        fp_name="matmul",
    ),
    _row(
        "linear",
        _linear,
        "x @ weight.T + bias for a weight (out, in).",
        (X, Param("weight", "tensor"), BIAS),
        (own("linear", "x, weight, bias=None"),),
        flops=_linear_flops,
        gradient="g @ weight; g.T @ x; sum(g, leading axes)",
        fp_name="matmul",
    ),
)
