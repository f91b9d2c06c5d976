"""The reduction family.

Floating-point sums, products and what is made of them (mean, var, std, norm, logsumexp) follow the
one tree of `trees.py`. Integer reductions, minima, maxima, counts, truth and scans are NumPy's own.
The mean of nothing warns as NumPy's does; other inputs for which NumPy's Python code warns raise
Decline, so that Python warns.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import fpstatus
from ..errors import Decline
from . import nans, trees
from ._rows import AXIS, DTYPE, KEEPDIMS, NUMPY_2, UNSET, method, numpy, reduction
from .chosen import counts, given, keep, mask_of, start_of
from .norms import ROWS as _NORMS
from .numerics import deviations, numpy_methods, spread, total
from .outcome import accumulated, finish, reduction_types
from .registry import OpInfo, Param, Spelling

_Array = np.ndarray[Any, Any]

INITIAL = Param("initial", default=UNSET)
WHERE = Param("where", "tensor", UNSET)
DDOF = Param("ddof", default=0)


def _by_tree(own: np.ufunc, x: Any, axis: Any, dtype: Any, keepdims: Any, chosen: dict[str, Any]) -> Any:
    """Totals by the tree of `own`, add or multiply; `chosen` has `initial` and `where` if they were passed."""
    array = trees.tensor(x)
    types = reduction_types(array.dtype, dtype)
    if types is None or array.ndim == 0:
        return (np.sum if own is np.add else np.prod)(x, axis=axis, dtype=dtype, keepdims=keepdims, **chosen)
    axes = trees.axes_of(axis, array)
    values, tree = accumulated(array, *types), (total if own is np.add else trees.product)
    if not chosen:
        return finish(tree(values, axes), array, axes, types[1], keepdims)
    mask, start = mask_of(chosen.get("where", UNSET), array), start_of(chosen.get("initial", UNSET), values.dtype)
    value = tree(keep(values, mask, own.identity), axes)
    return finish(value if start is None else own(value, start), array, axes, types[1], keepdims)


def _sum(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: Any = False, initial: Any = UNSET, where: Any = UNSET) -> Any:
    return _by_tree(np.add, x, axis, dtype, keepdims, given(initial=initial, where=where))


def _prod(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: Any = False, initial: Any = UNSET, where: Any = UNSET) -> Any:
    return _by_tree(np.multiply, x, axis, dtype, keepdims, given(initial=initial, where=where))


def _nansum(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: Any = False, initial: Any = UNSET, where: Any = UNSET) -> Any:
    array = trees.tensor(x)
    chosen = given(initial=initial, where=where)
    if trees.accumulator(array.dtype) is None or array.ndim == 0:
        return np.nansum(x, axis=axis, dtype=dtype, keepdims=keepdims, **chosen)
    return _by_tree(np.add, np.where(np.isnan(array), array.dtype.type(0), array), axis, dtype, keepdims, chosen)


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


def _mean(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: Any = False, where: Any = UNSET) -> Any:
    array = trees.tensor(x)
    types = reduction_types(array.dtype, _float_result(array, dtype))
    if types is None or array.ndim == 0:
        return np.mean(x, axis=axis, dtype=dtype, keepdims=keepdims, **given(where=where))
    axes = trees.axes_of(axis, array)
    mask = mask_of(where, array)
    if mask is not None:
        return finish(_chosen_mean(accumulated(array, *types), axes, mask)[0], array, axes, types[1], keepdims)
    if trees.count(array, axes) == 0:
        return _mean_of_nothing(array, axes, types[1], keepdims)
    return finish(mean_of(accumulated(array, *types), axes), array, axes, types[1], keepdims)


def _chosen_mean(values: _Array, axes: tuple[int, ...], mask: _Array, ddof: Any = 0) -> tuple[Any, Any]:
    """(mean of the elements that the mask keeps, how many there are less `ddof`). Raises Decline where none are left: NumPy warns."""
    left = counts(mask, axes)
    if (left == 0).any() or (left - ddof <= 0).any():
        raise Decline("NumPy warns about too few elements")
    return np.true_divide(total(keep(values, mask, 0), axes), left.astype(values.dtype)), (left - ddof).astype(values.real.dtype)


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


def _var(x: Any, *, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False, where: Any = UNSET) -> Any:
    array = trees.tensor(x)
    types = reduction_types(array.dtype, _float_result(array, dtype))
    axes = trees.axes_of(axis, array) if array.ndim else ()
    n = trees.count(array, axes)
    if n == 0 or n - ddof <= 0:
        raise Decline("NumPy warns about degrees of freedom")
    if types is None or array.ndim == 0:
        return np.var(x, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, **given(where=where))
    if types[1].kind == "c" and array.dtype.kind != "c":
        raise Decline("a complex variance of real numbers")
    result, values, mask = np.empty(0, types[1]).real.dtype, accumulated(array, *types), mask_of(where, array)
    if mask is None:
        return finish(var_of(values, axes, n - ddof), array, axes, result, keepdims)
    mean, left = _chosen_mean(values, axes, mask, ddof)
    values = np.where(mask, values, spread(mean, values.shape, axes))  # an element that is left out deviates by nothing
    return finish(np.true_divide(var_of(values, axes, 1, mean), left), array, axes, result, keepdims)


def _std(x: Any, *, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False, where: Any = UNSET) -> Any:
    variance = _var(x, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=where)
    return np.sqrt(variance)


def _max(x: Any, *, axis: Any = None, keepdims: Any = False, initial: Any = UNSET, where: Any = UNSET) -> Any:
    return np.max(x, axis=axis, keepdims=keepdims, **given(initial=initial, where=where))


def _min(x: Any, *, axis: Any = None, keepdims: Any = False, initial: Any = UNSET, where: Any = UNSET) -> Any:
    return np.min(x, axis=axis, keepdims=keepdims, **given(initial=initial, where=where))


def _any(x: Any, *, axis: Any = None, keepdims: Any = False, where: Any = UNSET) -> Any:
    return np.any(x, axis=axis, keepdims=keepdims, **given(where=where))


def _all(x: Any, *, axis: Any = None, keepdims: Any = False, where: Any = UNSET) -> Any:
    return np.all(x, axis=axis, keepdims=keepdims, **given(where=where))


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
_STAT_TAIL = "keepdims=False, *, where=True" + (", mean=0, correction=0" if NUMPY_2 else "")


_RENAME = {"correction": "ddof"} if NUMPY_2 else {}  # the newer name


def _spell(name: str, parameters: str, *aliases: str) -> tuple[Spelling, ...]:
    rename = _RENAME if "ddof" in parameters else {}
    functions = tuple(numpy(alias, f"a, {parameters}", a="x", **rename) for alias in (name, *aliases))
    return functions + method(name, parameters, **rename)


ROWS: tuple[OpInfo, ...] = (
    reduction(
        "sum",
        _sum,
        "Sum over axes; floats by the fixed tree.",
        (AXIS, DTYPE, KEEPDIMS, INITIAL, WHERE),
        _spell("sum", f"axis=None, dtype=None, out=None, {_NUMPY_TAIL}"),
        dtype_rule="other",
        gradient="broadcast(g)",
        exact=False,
    ),
    reduction(
        "prod",
        _prod,
        "Product over axes; floats by the fixed tree.",
        (AXIS, DTYPE, KEEPDIMS, INITIAL, WHERE),
        _spell("prod", f"axis=None, dtype=None, out=None, {_NUMPY_TAIL}"),
        dtype_rule="other",
        gradient="broadcast(g * out) / x",
        exact=False,
    ),
    reduction(
        "nansum",
        _nansum,
        "Sum over axes with NaN counted as zero.",
        (AXIS, DTYPE, KEEPDIMS, INITIAL, WHERE),
        (numpy("nansum", f"a, axis=None, dtype=None, out=None, {_NUMPY_TAIL}", a="x"),),
        dtype_rule="other",
        gradient="where(isnan(x), 0, broadcast(g))",
        exact=False,
    ),
    reduction(
        "mean",
        _mean,
        "Arithmetic mean: the tree's sum divided by the count.",
        (AXIS, DTYPE, KEEPDIMS, WHERE),
        _spell("mean", "axis=None, dtype=None, out=None, keepdims=False, *, where=True"),
        dtype_rule="float",
        gradient="broadcast(g) / n",
        exact=False,
    ),
    reduction(
        "var",
        _var,
        "Variance in two passes: mean, then the mean of squared deviations.",
        (AXIS, DTYPE, DDOF, KEEPDIMS, WHERE),
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
        (AXIS, DTYPE, DDOF, KEEPDIMS, WHERE),
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
    *nans.rows(_mean, _var, _std, _prod),
)
