"""More of the matrix family: products added to a tensor, cross products, and NumPy's solvers.

Products follow `linear`: 16-bit floats are accumulated in float32 and rounded once, after the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Decline
from . import products, trees
from ._rows import AXIS, KEEPDIMS, X, elements, numpy, numpy_call, own, reduction
from .linalg import product_type, widened
from .numerics import quiet
from .registry import OpInfo, Param, Spelling

_Array = np.ndarray[Any, Any]
_Y = Param("y", "tensor")


def _combined(x: Any, product: _Array, result: np.dtype[Any], beta: Any, alpha: Any) -> Any:
    """beta * x + alpha * product. With beta 0 nothing of x comes through, not even NaN."""
    base = trees.tensor(x)
    kind = product_type(np.empty(0, result), base)
    if kind.kind in "biu" and (isinstance(alpha, float) or isinstance(beta, float)):
        raise TypeError("factors that are no integers need floating-point tensors")
    if alpha != 1:
        product = product * product.dtype.type(alpha)
    if beta == 0:
        shape = np.broadcast_shapes(base.shape, product.shape)
        return np.broadcast_to(product, shape).astype(kind)
    wide = widened(base)
    return ((wide if beta == 1 else wide * wide.dtype.type(beta)) + product).astype(kind, copy=False)


def _added(rank_a: int, rank_b: int, multiply: Callable[[_Array, _Array], Any]) -> Callable[..., Any]:
    """A definition of x * beta + (a times b) * alpha for operands of these ranks."""

    @quiet
    def definition(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        first, second = trees.tensor(a), trees.tensor(b)
        if first.ndim != rank_a or second.ndim != rank_b:
            raise ValueError(f"operands with {rank_a} and {rank_b} axes were expected, not {first.shape} and {second.shape}")
        result = product_type(first, second)
        return _combined(x, np.asarray(multiply(widened(first), widened(second))), result, beta, alpha)

    return definition


def _batch_total(a: _Array, b: _Array) -> Any:
    """The sum of all products of a stack: one product of matrices put side by side."""
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise ValueError(f"addbmm: shapes {a.shape} and {b.shape} are not (b, n, m) and (b, m, p)")
    return products.matmul(np.moveaxis(a, 0, 1).reshape(a.shape[1], -1), b.reshape(-1, b.shape[2]))


def _stacked(a: _Array, b: _Array) -> Any:
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"baddbmm: stacks of different lengths {a.shape} and {b.shape}")
    return products.matmul(a, b)


def _cross(x: Any, y: Any, *, axis: Any = -1) -> Any:
    """In three dimensions, in the operands' own type, each product rounded."""
    a, b = np.broadcast_arrays(trees.tensor(x), trees.tensor(y))
    if a.shape[trees.axis_of(axis, a)] != 3:
        raise ValueError(f"cross: axis {axis} of shape {a.shape} does not have 3 elements")
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    with np.errstate(all="ignore"):
        parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.stack(parts, axis)


def _triangular_solve(x: Any, b: Any, *, upper: Any = True, transpose: Any = False, unit: Any = False) -> Any:
    """The y with x y = b for the triangle of x alone, by substitution row after row."""
    a, right = trees.tensor(x), trees.tensor(b)
    if a.ndim < 2 or right.ndim < 2 or a.shape[-1] != a.shape[-2] or a.shape[-1] != right.shape[-2]:
        raise ValueError(f"triangular_solve: a square matrix and rows were expected, not {a.shape} and {right.shape}")
    result = product_type(a, right)
    if result.kind in "biu":
        result = trees.F64
    wide, rows = widened(a), widened(right)
    if transpose:
        wide, upper = np.swapaxes(wide, -1, -2), not upper
    kind = np.result_type(wide, rows, np.float32 if result != trees.F64 else np.float64)
    lead = np.broadcast_shapes(wide.shape[:-2], rows.shape[:-2])
    y = np.broadcast_to(rows, (*lead, *rows.shape[-2:])).astype(kind)
    n = wide.shape[-1]
    with np.errstate(all="ignore"):
        for i in range(n - 1, -1, -1) if upper else range(n):
            if not unit:
                y[..., i, :] = y[..., i, :] / wide[..., i, i, None]
            others = range(i) if upper else range(i + 1, n)
            for k in others:
                y[..., k, :] -= wide[..., k, i, None] * y[..., i, :]
    return y.astype(result, copy=False)


def _vector_norm(x: Any, *, ord: Any = 2, axis: Any = None, keepdims: Any = False) -> Any:  # noqa: A002
    """The p-norm over axes, of the flattened tensor where none are given; integers become float64."""
    from .losses_more import power_sum

    array = trees.tensor(x)
    if trees.accumulator(array.dtype) is None:
        array = array.astype(trees.F64)
    axes = trees.axes_of(tuple(axis) if isinstance(axis, list) else axis, array)
    kind = trees.accumulator(array.dtype)
    assert kind is not None
    with np.errstate(all="ignore"):
        wide = np.absolute(array.astype(kind, copy=False))
        found = np.asarray(power_sum(wide, float(ord), axes)).astype(np.empty(0, array.dtype).real.dtype)
    return found.reshape([1 if a in axes else d for a, d in enumerate(array.shape)]) if keepdims else found[()]


def _numpys(name: str) -> Callable[..., Any]:
    function = getattr(np.linalg, name)

    def definition(*operands: Any, **attrs: Any) -> Any:
        if any(trees.tensor(o).dtype in (trees.F16, trees.BF16) for o in operands):
            raise Decline("NumPy refuses 16-bit floats here")
        return function(*operands, **attrs)

    definition.__name__ = definition.__qualname__ = name
    return definition


def _cubed(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    return 2.0 * elements(shapes[0]) * (shapes[0][-1] if shapes[0] else 1)


def _added_flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
    return 2.0 * elements(shapes[1]) * (shapes[2][-1] if shapes[2] else 1)


def _row(
    name: str, definition: Callable[..., Any], doc: str, params: tuple[Param, ...], spellings: tuple[Spelling, ...], **rest: Any
) -> OpInfo:
    fields: dict[str, Any] = {"shape_rule": "other", "fp_name": name, "flops": _cubed, **rest}
    return OpInfo(name=name, family="linalg", params=params, definition=definition, doc=doc, spellings=spellings, **fields)


def _added_row(name: str, a: str, b: str, doc: str, definition: Callable[..., Any], gradient: str) -> OpInfo:
    def named(x: Any, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        return definition(x, first, second, beta=beta, alpha=alpha)

    params = (X, Param(a, "tensor"), Param(b, "tensor"), Param("beta", default=1), Param("alpha", default=1))
    spelling = own(name, f"x, {a}, {b}, beta=1, alpha=1")
    return _row(name, named, doc, params, (spelling,), flops=_added_flops, fuse="matmul", policy=2, gradient=gradient)


_SQUARE = (Param("a", "tensor"),)

ROWS: tuple[OpInfo, ...] = (
    _added_row(
        "addmm",
        "mat1",
        "mat2",
        "beta * x + alpha * (mat1 @ mat2).",
        _added(2, 2, products.matmul),
        "beta * g; alpha * g @ mat2.T; alpha * mat1.T @ g",
    ),
    _added_row(
        "addmv",
        "mat",
        "vec",
        "beta * x + alpha * (mat @ vec).",
        _added(2, 1, products.matmul),
        "beta * g; alpha * outer(g, vec); alpha * mat.T @ g",
    ),
    _added_row(
        "addr",
        "vec1",
        "vec2",
        "beta * x + alpha * outer(vec1, vec2).",
        _added(1, 1, np.multiply.outer),
        "beta * g; alpha * g @ vec2; alpha * g.T @ vec1",
    ),
    _added_row(
        "addbmm",
        "batch1",
        "batch2",
        "beta * x + alpha * the sum of the products of two stacks.",
        _added(3, 3, _batch_total),
        "beta * g; alpha * g @ batch2.T; alpha * batch1.T @ g",
    ),
    _added_row(
        "baddbmm",
        "batch1",
        "batch2",
        "beta * x + alpha * the products of two stacks.",
        _added(3, 3, _stacked),
        "beta * g; alpha * g @ batch2.T; alpha * batch1.T @ g",
    ),
    _row(
        "cross",
        _cross,
        "Vector product of vectors with 3 elements along an axis.",
        (X, _Y, Param("axis", default=-1)),
        (own("cross", "x, y, axis=-1"),),
        dtype_rule="promote",
        flops=lambda *shapes, **_attrs: 3.0 * elements(shapes[0]),
        gradient="cross(y, g); cross(g, x)",
    ),
    _row(
        "triangular_solve",
        _triangular_solve,
        "The y with x y = b for a triangular x, by substitution.",
        (X, Param("b", "tensor"), *(Param(n, default=v) for n, v in (("upper", True), ("transpose", False), ("unit", False)))),
        (own("triangular_solve", "x, b, upper=True, transpose=False, unit=False"),),
        dtype_rule="float",
        exact=False,
        gradient="-solve(x.T, g) y.T; solve(x.T, g)",
    ),
    _row(
        "inverse",
        _numpys("inv"),
        "The inverse of square matrices.",
        _SQUARE,
        (numpy("linalg.inv", "a"),),
        dtype_rule="float",
        gradient="-out.T @ g @ out.T",
    ),
    _row("det", _numpys("det"), "Determinants.", _SQUARE, (numpy("linalg.det", "a"),), dtype_rule="float", gradient="g * out * inv(a).T"),
    _row(
        "solve",
        _numpys("solve"),
        "The y with a y = b.",
        (*_SQUARE, Param("b", "tensor")),
        (numpy("linalg.solve", "a, b"),),
        dtype_rule="float",
        gradient="-solve(a.T, g) y.T; solve(a.T, g)",
    ),
    _row(
        "cholesky",
        _numpys("cholesky"),
        "The lower triangular root of a positive definite matrix.",
        _SQUARE,
        (numpy("linalg.cholesky", "a" + (", /, *, upper=False" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "")),),
        dtype_rule="float",
    ),
    _row(
        "qr",
        numpy_call(np.linalg.qr),
        "(orthogonal, upper triangular) factors; mode as numpy.linalg.qr takes it.",
        (*_SQUARE, Param("mode", default="reduced")),
        (numpy("linalg.qr", "a, mode='reduced'"),),
        dtype_rule="float",
        result="any",
    ),
    reduction(
        "vector_norm",
        _vector_norm,
        "The p-norm over axes, of the flattened tensor where none are given.",
        (Param("ord", default=2), AXIS, KEEPDIMS),
        (own("vector_norm", "x, ord=2, axis=None, keepdims=False"),),
        dtype_rule="float",
        exact=False,
        cost=2.0,
        gradient="broadcast(g) * x * absolute(x) ** (ord - 2) / broadcast(out) ** (ord - 1)",
    ),
)
