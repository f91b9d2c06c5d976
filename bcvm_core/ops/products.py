"""Products of floats: NumPy's and so its BLAS, or chains whose bits depend on neither the number of threads nor that of rows.

Every element of a chained product is a sum of partial sums of 256 terms, one after the other; each partial sum is one chain of fused
multiply-adds from 0. So it depends on its row of the one operand and its column of the other alone, not on what else is computed or by
whom. All products are chained under `config.reproducible`; `of_weights`, which NumPy does not spell, is where that is the faster way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from .. import config
from . import trees

_Array = np.ndarray[Any, Any]
_FLOATS: Final = (trees.F32, trees.F64)
FEW_ROWS: Final = 2  # fewer are a matter of reading the weight once, which BLAS does as fast
LARGE: Final = 1 << 17  # elements of a weight from which on the way to our code pays


def _no_kernel(_a: _Array, _b: _Array) -> _Array | None:
    return None


by_kernel: Callable[[_Array, _Array], _Array | None] = _no_kernel
"""The chained product of (..., m, k) and (..., k, n), both float32 or both float64, k > 0; None where no code can be made for it."""


def _no_layer(_x: _Array, _weight: _Array, _bias: _Array) -> _Array | None:
    return None


layer_by_kernel: Callable[[_Array, _Array, _Array], _Array | None] = _no_layer
"""The chained product of (m, k) and the transpose of (n, k), plus (n,), in one pass; None where no code can be made for it, or where
floating-point events were met that the product and the addition must tell of."""


def matmul(x: Any, y: Any) -> Any:
    """`numpy.matmul` of two arrays."""
    if not config.current.reproducible:
        return np.matmul(x, y)
    a, b = np.asarray(x), np.asarray(y)
    if not (_is_chained(a, b) and a.ndim and b.ndim and a.shape[-1] == b.shape[max(b.ndim - 2, 0)]):
        return np.matmul(x, y)
    kind = np.result_type(a, b)
    left, right = (v.astype(kind, copy=False) for v in (a, b))
    left, right = left[None, :] if a.ndim == 1 else left, right[:, None] if b.ndim == 1 else right
    try:
        np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        return np.matmul(x, y)
    made = chained(left, right)
    if b.ndim == 1:
        made = made[..., 0]
    if a.ndim == 1:
        made = made[..., 0] if b.ndim == 1 else made[..., 0, :]
    return made if made.ndim else made[()]


def chained(a: _Array, b: _Array) -> Any:
    """The chained product of (..., m, k) and (..., k, n) of one type."""
    if not a.shape[-1]:
        return np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), a.dtype)
    made = by_kernel(a, b)
    if made is not None:
        return made
    from . import chains  # where there is no machine code

    return chains.multiply(a, b)


def is_chained_weight(x: _Array, weight: _Array) -> bool:
    """Whether `of_weights` asks for a chained product of these."""
    if config.current.reproducible:
        return _is_chained(x, weight)
    fits = x.dtype == weight.dtype == trees.F32 and x.shape[1] == weight.shape[1]
    return fits and x.shape[0] >= FEW_ROWS and weight.size >= LARGE


def of_weights(x: _Array, weight: _Array) -> Any:
    """x (m, k) times the transpose of a weight (n, k): float32 is chained where there is code for it, and a few rows."""
    if config.current.reproducible:
        return matmul(x, weight.T)
    if is_chained_weight(x, weight):
        made = by_kernel(x, weight.T)
        if made is not None:
            return made
    return np.matmul(x, weight.T)


def with_bias(x: _Array, weight: _Array, bias: _Array) -> Any:
    """`of_weights`, and a number for each column added to it; None where that is not one pass."""
    if not bias.dtype == weight.dtype == x.dtype or bias.shape != weight.shape[:1] or not is_chained_weight(x, weight):
        return None
    return layer_by_kernel(x, weight, bias)


def _is_chained(a: _Array, b: _Array) -> bool:
    """Whether a product of these is one of floats that is chained when it must be."""
    return a.dtype.isnative and b.dtype.isnative and a.dtype.kind in "fiub" and b.dtype.kind in "fiub" and np.result_type(a, b) in _FLOATS


# -- other ways to ask for a product -------------------------------------------------------------------


def dot(x: Any, y: Any) -> Any:
    """`numpy.dot`."""
    a, b = np.asarray(x), np.asarray(y)
    if not config.current.reproducible or not a.ndim or not b.ndim or not _is_chained(a, b):
        return np.dot(x, y)
    return matmul(a, b) if b.ndim == 1 else tensordot(a, b, ((-1,), (-2,)))


def inner(x: Any, y: Any) -> Any:
    """`numpy.inner`."""
    a, b = np.asarray(x), np.asarray(y)
    if not config.current.reproducible or not a.ndim or not b.ndim or not _is_chained(a, b):
        return np.inner(x, y)
    return matmul(a, b) if a.ndim == b.ndim == 1 else tensordot(a, b, ((-1,), (-1,)))


def vdot(x: Any, y: Any) -> Any:
    """`numpy.vdot`."""
    a, b = np.asarray(x), np.asarray(y)
    return matmul(a.ravel(), b.ravel()) if config.current.reproducible and a.size == b.size and _is_chained(a, b) else np.vdot(x, y)


def tensordot(x: Any, y: Any, axes: Any = 2) -> Any:
    """`numpy.tensordot`."""
    a, b = np.asarray(x), np.asarray(y)
    if config.current.reproducible and _is_chained(a, b):
        try:
            summed = _axes(axes, a.ndim)
            first, second = (_placed(given, v.ndim) for given, v in zip(summed, (a, b), strict=True))
            if [a.shape[k] for k in first] == [b.shape[k] for k in second]:
                return _contracted(a, first, b, second)
        except (TypeError, ValueError, IndexError):
            pass  # NumPy says what is wrong with them
    return np.tensordot(x, y, axes)


def _axes(axes: Any, ndim: int) -> Any:
    if isinstance(axes, int):
        return tuple(range(ndim - axes, ndim)), tuple(range(axes))
    return tuple((given,) if isinstance(given, int) else tuple(given) for given in axes)


def _placed(axes: Sequence[int], ndim: int) -> list[int]:
    found = [trees.axis_of(axis, np.empty((1,) * ndim)) for axis in axes]
    if len(set(found)) != len(found):
        raise ValueError("an axis twice")
    return found


def _contracted(a: _Array, first: list[int], b: _Array, second: list[int]) -> Any:
    rows = [k for k in range(a.ndim) if k not in first]
    columns = [k for k in range(b.ndim) if k not in second]
    depth = int(np.prod([a.shape[k] for k in first], dtype=int))
    shape = [a.shape[k] for k in rows] + [b.shape[k] for k in columns]
    left = a.transpose(rows + first).reshape(int(np.prod([a.shape[k] for k in rows], dtype=int)), depth)
    right = b.transpose(second + columns).reshape(depth, int(np.prod([b.shape[k] for k in columns], dtype=int)))
    made = matmul(left, right).reshape(shape)
    return made if shape else made[()]


def einsum(*operands: Any, optimize: Any = False) -> Any:
    """`numpy.einsum`; under `config.reproducible` formulas of two operands in which each letter stands once per operand are products."""
    if config.current.reproducible:
        if len(operands) == 3 and isinstance(operands[0], str):
            made = _as_product(operands[0].replace(" ", ""), np.asarray(operands[1]), np.asarray(operands[2]))
            if made is not None:
                return made
        optimize = False  # NumPy's own loops, without BLAS
    return np.einsum(*operands, optimize=optimize)


def _as_product(formula: str, a: _Array, b: _Array) -> Any:
    """The formula as stacked products; None where it is none."""
    left, arrow, out = formula.partition("->")
    first, comma, second = left.partition(",")
    if not arrow:
        out = "".join(sorted(letter for letter in first + second if (first + second).count(letter) == 1))
    letters = (first, second, out)
    if not comma or not all(t.isalpha() or not t for t in letters) or any(len(set(t)) != len(t) for t in letters) or not _is_chained(a, b):
        return None
    sizes = dict(zip(first, a.shape, strict=False))
    fits = (len(first), len(second)) == (a.ndim, b.ndim) and all(sizes.get(x, n) == n for x, n in zip(second, b.shape, strict=True))
    if not fits or not set(out) <= set(first + second):
        return None
    sizes.update(zip(second, b.shape, strict=True))
    stack = [x for x in first if x in second and x in out]
    summed = [x for x in first if x in second and x not in out]
    rows, columns = ([x for x in own if x not in other] for own, other in ((first, second), (second, first)))
    if not summed or not set(rows + columns) <= set(out):
        return None
    grouped = [[int(np.prod([sizes[x] for x in part], dtype=int)) for part in parts] for parts in ((rows, summed), (summed, columns))]
    made = matmul(
        a.transpose([first.index(x) for x in stack + rows + summed]).reshape([sizes[x] for x in stack] + grouped[0]),
        b.transpose([second.index(x) for x in stack + summed + columns]).reshape([sizes[x] for x in stack] + grouped[1]),
    )
    order = stack + rows + columns
    found = np.asarray(made).reshape([sizes[x] for x in order]).transpose([order.index(x) for x in out])
    return found if out else found[()]
