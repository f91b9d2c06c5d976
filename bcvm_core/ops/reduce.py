"""The reduction family.

Floating-point sums, products and what is made of them (mean, var, std, norm, logsumexp) follow the
one tree of `trees.py`. Integer reductions, minima, maxima, counts, truth and scans are NumPy's own.
The mean of nothing warns as NumPy's does; other inputs for which NumPy's Python code warns raise
Decline, so that Python warns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import fpstatus
from ..errors import Decline
from . import trees
from ._rows import AXIS, DTYPE, KEEPDIMS, UNSET, method, numpy, reduction
from .norms import ROWS as _NORMS
from .numerics import deviations, numpy_methods, spread, total
from .outcome import accumulated, finish, reduction_types
from .registry import OpInfo, Param, Spelling

_Array = np.ndarray[Any, Any]

INITIAL = Param("initial", default=UNSET)
WHERE = Param("where", "tensor", UNSET)
DDOF = Param("ddof", default=0)


def _by_tree(tree: Callable[..., Any], own_way: Callable[..., Any], x: Any, axis: Any, dtype: Any, keepdims: Any) -> Any:
    array = trees.tensor(x)
    types = reduction_types(array.dtype, dtype)
    if types is None or array.ndim == 0:
        return own_way(x, axis=axis, dtype=dtype, keepdims=keepdims)
    axes = trees.axes_of(axis, array)
    return finish(tree(accumulated(array, *types), axes), array, axes, types[1], keepdims)


def _sum(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    return _by_tree(total, np.sum, x, axis, dtype, keepdims)


def _prod(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    return _by_tree(trees.product, np.prod, x, axis, dtype, keepdims)


def _nansum(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    array = trees.tensor(x)
    if trees.accumulator(array.dtype) is None or array.ndim == 0:
        return np.nansum(x, axis=axis, dtype=dtype, keepdims=keepdims)
    return _sum(np.where(np.isnan(array), array.dtype.type(0), array), axis=axis, dtype=dtype, keepdims=keepdims)


def _float_result(array: _Array, dtype: Any) -> Any:
    """The `dtype` that means use: float64 for integers and truth values unless one is given."""
    return trees.F64 if dtype is None and array.dtype.kind in "biu" else dtype


def _divided(sums: Any, divisor: float) -> Any:
    """Totals divided in their own type; in place when they are an array."""
    divisor = sums.dtype.type(divisor)
    return np.true_divide(sums, divisor, out=sums) if sums.ndim else np.true_divide(sums, divisor)


def mean_of(x: _Array, axes: tuple[int, ...]) -> Any:
    """Tree sum divided by the count, in the accumulation type that `x` already has."""
    return _divided(total(x, axes), trees.count(x, axes))


def var_of(x: _Array, axes: tuple[int, ...], divisor: float, mean: Any = None) -> Any:
    """Two-pass variance in the accumulation type that `x` already has; real for complex numbers."""
    if mean is None:
        mean = mean_of(x, axes)
    if x.dtype.kind != "c":
        return _divided(deviations(x, axes, mean), divisor)
    deviation = x - spread(mean, x.shape, axes)
    return _divided(total(deviation.real * deviation.real + deviation.imag * deviation.imag, axes), divisor)


def _mean(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    array = trees.tensor(x)
    types = reduction_types(array.dtype, _float_result(array, dtype))
    if types is None or array.ndim == 0:
        return np.mean(x, axis=axis, dtype=dtype, keepdims=keepdims)
    axes = trees.axes_of(axis, array)
    if trees.count(array, axes) == 0:
        return _mean_of_nothing(array, axes, types[1], keepdims)
    return finish(mean_of(accumulated(array, *types), axes), array, axes, types[1], keepdims)


@functools.cache
def _empty_mean_text() -> str:
    """The installed NumPy's wording, which has changed between releases."""
    texts = [c for c in numpy_methods()._mean.__code__.co_consts if isinstance(c, str) and c.startswith("Mean of")]
    return texts[0] if texts else "Mean of empty slice."


def _mean_of_nothing(array: Any, axes: Any, dtype: Any, keepdims: Any) -> Any:
    """0 / 0 in every element there is, with NumPy's two warnings."""
    shape = tuple(n for i, n in enumerate(array.shape) if i not in axes)
    with np.errstate(invalid="ignore"):  # divided, for the sign that the processor gives this NaN
        nothing = np.true_divide(np.zeros(shape, dtype), dtype.type(0))
    result = finish(nothing, array, axes, dtype, keepdims)
    fpstatus.warn(_empty_mean_text())
    if np.size(result):
        fpstatus.note("invalid", "divide" if isinstance(result, np.ndarray) else "scalar divide")
    return result


def _var(x: Any, *, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False) -> Any:
    array = trees.tensor(x)
    types = reduction_types(array.dtype, _float_result(array, dtype))
    axes = trees.axes_of(axis, array) if array.ndim else ()
    n = trees.count(array, axes)
    if n == 0 or n - ddof <= 0:
        raise Decline("NumPy warns about degrees of freedom")
    if types is None or array.ndim == 0:
        return np.var(x, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
    if types[1].kind == "c" and array.dtype.kind != "c":
        raise Decline("a complex variance of real numbers")
    result = np.empty(0, types[1]).real.dtype
    return finish(var_of(accumulated(array, *types), axes, n - ddof), array, axes, result, keepdims)


def _std(x: Any, *, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False) -> Any:
    variance = _var(x, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
    return np.sqrt(variance)


def _passed(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not UNSET}


def _max(x: Any, *, axis: Any = None, keepdims: Any = False, initial: Any = UNSET, where: Any = UNSET) -> Any:
    return np.max(x, axis=axis, keepdims=keepdims, **_passed(initial=initial, where=where))


def _min(x: Any, *, axis: Any = None, keepdims: Any = False, initial: Any = UNSET, where: Any = UNSET) -> Any:
    return np.min(x, axis=axis, keepdims=keepdims, **_passed(initial=initial, where=where))


def _any(x: Any, *, axis: Any = None, keepdims: Any = False, where: Any = UNSET) -> Any:
    return np.any(x, axis=axis, keepdims=keepdims, **_passed(where=where))


def _all(x: Any, *, axis: Any = None, keepdims: Any = False, where: Any = UNSET) -> Any:
    return np.all(x, axis=axis, keepdims=keepdims, **_passed(where=where))


def _argmax(x: Any, *, axis: Any = None, keepdims: Any = False) -> Any:
    return np.argmax(x, axis=axis, keepdims=keepdims)


def _argmin(x: Any, *, axis: Any = None, keepdims: Any = False) -> Any:
    return np.argmin(x, axis=axis, keepdims=keepdims)


def _ptp(x: Any, *, axis: Any = None, keepdims: Any = False) -> Any:
    return np.ptp(x, axis=axis, keepdims=keepdims)


def _count_nonzero(x: Any, *, axis: Any = None, keepdims: Any = False) -> Any:
    return np.count_nonzero(x, axis=axis, keepdims=keepdims)


def _cumsum(x: Any, *, axis: Any = None, dtype: Any = None) -> Any:
    return np.cumsum(x, axis=axis, dtype=dtype)


def _cumprod(x: Any, *, axis: Any = None, dtype: Any = None) -> Any:
    return np.cumprod(x, axis=axis, dtype=dtype)


_NUMPY_TAIL = "keepdims=False, initial=0, where=True"
_STAT_TAIL = "keepdims=False, *, where=True, mean=0, correction=0"


def _spell(name: str, parameters: str, *aliases: str) -> tuple[Spelling, ...]:
    functions = tuple(numpy(alias, f"a, {parameters}", a="x") for alias in (name, *aliases))
    return functions + method(name, parameters)


ROWS: tuple[OpInfo, ...] = (
    reduction(
        "sum",
        _sum,
        "Sum over axes; floats by the fixed tree.",
        (AXIS, DTYPE, KEEPDIMS),
        _spell("sum", f"axis=None, dtype=None, out=None, {_NUMPY_TAIL}"),
        dtype_rule="other",
        gradient="broadcast(g)",
        exact=False,
    ),
    reduction(
        "prod",
        _prod,
        "Product over axes; floats by the fixed tree.",
        (AXIS, DTYPE, KEEPDIMS),
        _spell("prod", f"axis=None, dtype=None, out=None, {_NUMPY_TAIL}"),
        dtype_rule="other",
        gradient="broadcast(g * out) / x",
        exact=False,
    ),
    reduction(
        "nansum",
        _nansum,
        "Sum over axes with NaN counted as zero.",
        (AXIS, DTYPE, KEEPDIMS),
        (numpy("nansum", f"a, axis=None, dtype=None, out=None, {_NUMPY_TAIL}", a="x"),),
        dtype_rule="other",
        gradient="where(isnan(x), 0, broadcast(g))",
        exact=False,
    ),
    reduction(
        "mean",
        _mean,
        "Arithmetic mean: the tree's sum divided by the count.",
        (AXIS, DTYPE, KEEPDIMS),
        _spell("mean", "axis=None, dtype=None, out=None, keepdims=False, *, where=True"),
        dtype_rule="float",
        gradient="broadcast(g) / n",
        exact=False,
    ),
    reduction(
        "var",
        _var,
        "Variance in two passes: mean, then the mean of squared deviations.",
        (AXIS, DTYPE, DDOF, KEEPDIMS),
        _spell("var", f"axis=None, dtype=None, out=None, ddof=0, {_STAT_TAIL}"),
        dtype_rule="float",
        gradient="broadcast(g) * 2 * (x - mean(x)) / (n - ddof)",
        exact=False,
        cost=4.0,
    ),
    reduction(
        "std",
        _std,
        "Standard deviation: the square root of `var`.",
        (AXIS, DTYPE, DDOF, KEEPDIMS),
        _spell("std", f"axis=None, dtype=None, out=None, ddof=0, {_STAT_TAIL}"),
        dtype_rule="float",
        gradient="broadcast(g / out) * (x - mean(x)) / (n - ddof)",
        exact=False,
        cost=4.0,
    ),
    reduction(
        "max",
        _max,
        "Largest element over axes; NaN wins.",
        (AXIS, KEEPDIMS, INITIAL, WHERE),
        _spell("max", "axis=None, out=None, keepdims=False, initial=0, where=True", "amax"),
        dtype_rule="same",
        gradient="broadcast(g) * (x == broadcast(out)) / count",
    ),
    reduction(
        "min",
        _min,
        "Smallest element over axes; NaN wins.",
        (AXIS, KEEPDIMS, INITIAL, WHERE),
        _spell("min", "axis=None, out=None, keepdims=False, initial=0, where=True", "amin"),
        dtype_rule="same",
        gradient="broadcast(g) * (x == broadcast(out)) / count",
    ),
    reduction(
        "ptp",
        _ptp,
        "Largest minus smallest element over axes.",
        (AXIS, KEEPDIMS),
        _spell("ptp", "axis=None, out=None, keepdims=False"),
        dtype_rule="same",
        cost=2.0,
    ),
    reduction(
        "any",
        _any,
        "True where any element over axes is.",
        (AXIS, KEEPDIMS, WHERE),
        _spell("any", "axis=None, out=None, keepdims=False, *, where=True"),
        dtype_rule="bool",
    ),
    reduction(
        "all",
        _all,
        "True where all elements over axes are.",
        (AXIS, KEEPDIMS, WHERE),
        _spell("all", "axis=None, out=None, keepdims=False, *, where=True"),
        dtype_rule="bool",
    ),
    reduction(
        "argmax",
        _argmax,
        "Index of the first largest element, in logical order; NaN counts as largest.",
        (AXIS, KEEPDIMS),
        _spell("argmax", "axis=None, out=None, *, keepdims=False"),
        dtype_rule="index",
        fuse="none",
    ),
    reduction(
        "argmin",
        _argmin,
        "Index of the first smallest element, in logical order; NaN counts as smallest.",
        (AXIS, KEEPDIMS),
        _spell("argmin", "axis=None, out=None, *, keepdims=False"),
        dtype_rule="index",
        fuse="none",
    ),
    reduction(
        "count_nonzero",
        _count_nonzero,
        "How many elements are not zero; a Python int over all axes, as NumPy's.",
        (AXIS, KEEPDIMS),
        (numpy("count_nonzero", "a, axis=None, *, keepdims=False", a="x"),),
        dtype_rule="index",
        fuse="none",
        result="any",
    ),
    reduction(
        "cumsum",
        _cumsum,
        "Running sums along an axis, or over the flattened tensor, in order.",
        (AXIS, DTYPE),
        _spell("cumsum", "axis=None, dtype=None, out=None"),
        shape_rule="other",
        dtype_rule="other",
        fuse="none",
        gradient="flip(cumsum(flip(g)))",
        fp_name="accumulate",
    ),
    reduction(
        "cumprod",
        _cumprod,
        "Running products along an axis, or over the flattened tensor, in order.",
        (AXIS, DTYPE),
        _spell("cumprod", "axis=None, dtype=None, out=None"),
        shape_rule="other",
        dtype_rule="other",
        fuse="none",
        fp_name="accumulate",
    ),
    *_NORMS,
)
