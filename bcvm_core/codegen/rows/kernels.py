"""Row kernels as kernels of ops: `kernel_for(op, dtype)` by the op's calling convention.

What a kernel does not take (other layouts, attributes, values that NumPy warns about) goes to the
op's definition, as everything does until the code is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...dtypes import BY_NAME
from ...ops import registry
from ...ops._rows import UNSET
from ...ops.layer_forms import check_layer, layer_moments
from ...ops.losses import class_axis, cross_entropy_of
from ...ops.nn import affine
from ...ops.numerics import quiet
from ..loops import compiler_is_there
from ..stencils.driver import driver
from .direct import Direct, Resolve
from .entry import Call, entry_for
from .loop import row_loop
from .types import FLOATS, INTEGERS, result_name

Kernel = Callable[..., Any]
_F: Final = frozenset(FLOATS)
_ALL: Final = frozenset((*FLOATS, *INTEGERS))
_NARROW: Final = _ALL - {"int64", "uint64"}  # NumPy's own loops are as fast for these
_COST_NS: Final = {"softmax": 0.5, "log_softmax": 0.5, "logsumexp": 0.35, "layer_norm": 0.4, "rms_norm": 0.35}  # an element, about
_WIDE_NS: Final = 0.2


def cost_ns(op: str, dtype: str) -> float:
    """About how long an element of a row takes; only to tell large calls from small ones."""
    return _COST_NS.get(op, _WIDE_NS) * (2.5 if dtype == "float64" else 1.0)


class _Entries:
    """The functions of one recipe's kernel, by how it is called; None for a call that there is no kernel for yet."""

    __slots__ = ("loop", "dtype", "result", "ns", "known")

    def __init__(self, recipe: str, dtype: str, op: str) -> None:
        self.loop = row_loop(recipe, dtype)
        self.dtype, self.result = BY_NAME[dtype].numpy, BY_NAME[result_name(recipe, dtype)].numpy
        self.ns = cost_ns(op, dtype)
        self.known: dict[Any, Kernel] = {}  # functions that were made

    def find(self, key: Any, how: Call) -> Kernel | None:
        """The function for a call, made at its first use."""
        found = self.known.get(key)
        if found is None and self.loop.ready and driver().ready:
            found = entry_for(self.loop, how, self.dtype, self.result, self.ns)
            if found is not None:
                self.known[key] = found
        return found


def _over_axis(op: str, dtype: str) -> Kernel:
    """softmax and its kin: a result like the input."""
    entries = _Entries(op, dtype, op)
    known, definition = entries.known, registry.row(op).definition

    def resolve(_x: Any, *, axis: Any = -1) -> Kernel | None:
        return entries.find(axis, Call(axis, axis, 0, True)) if type(axis) is int else None

    def kernel(x: Any, *, axis: Any = -1) -> Any:
        if type(axis) is int:
            entry = known.get(axis) or entries.find(axis, Call(axis, axis, 0, True))
            if entry is not None:
                result = entry(x)
                if result is not None:
                    return result
        return definition(x, axis=axis)

    return _with_direct(kernel, resolve)


def _layer_norm(op: str, dtype: str) -> Kernel:
    variants = [_Entries(f"layer_norm{k}", dtype, op) for k in range(3)]
    definition = registry.row(op).definition

    def resolve(_x: Any, *, normalized_shape: Any = None, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Kernel | None:
        if normalized_shape is not None or type(eps) is not float or (weight is None and bias is not None):
            return None
        count = (weight is not None) + (bias is not None)
        return variants[count].find((1, eps), Call(-1, -1, 0, True, count, eps))

    def kernel(x: Any, *, normalized_shape: Any = None, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
        axes = _normalized(x, normalized_shape)
        if axes and type(eps) is float and (bias is None or weight is not None):
            given = () if weight is None else (weight,) if bias is None else (weight, bias)
            entries = variants[len(given)]
            entry = entries.known.get((axes, eps)) or entries.find((axes, eps), Call(-axes, -1, 0, True, len(given), eps))
            if entry is not None:
                result = entry(x, *given)
                if result is not None:
                    return result
        return definition(x, normalized_shape=normalized_shape, weight=weight, bias=bias, eps=eps)

    return _with_direct(kernel, resolve, "weight", "bias")


def _with_moments(op: str, dtype: str) -> Kernel:
    """layer_norm_parts: what layer_norm gives, and the means and variances where they are wanted."""
    norm, definition = _layer_norm("layer_norm", dtype), registry.row(op).definition

    def kernel(x: Any, weight: Any, bias: Any, *, axis: Any = -1, eps: Any = 1e-7, rest: Any = True) -> Any:
        if type(x) is not np.ndarray or type(weight) is not np.ndarray or type(bias) is not np.ndarray or type(axis) is not int:
            return definition(x, weight, bias, axis=axis, eps=eps, rest=rest)
        first = check_layer(x, weight, bias, axis)
        normal = norm(x, normalized_shape=x.shape[first:], weight=weight, bias=bias, eps=eps)
        return (normal, *layer_moments(x, tuple(range(first, x.ndim)))) if rest else (normal, None, None)

    return kernel


def _of_groups(op: str, dtype: str) -> Kernel:
    """group_norm: rows of a group's channels; parameters stand per channel and are applied afterwards."""
    entries, definition = _Entries("layer_norm0", dtype, "layer_norm"), registry.row(op).definition
    exact = dtype in ("float32", "float64")  # otherwise the result is rounded after the parameters

    def kernel(x: Any, num_groups: Any, *, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
        plain = weight is None and bias is None
        usual = type(x) is np.ndarray and x.ndim >= 2 and x.size and type(num_groups) is int and type(eps) is float
        if usual and num_groups > 0 and not x.shape[1] % num_groups and (plain or exact):
            normal = _standardized(entries, x, (x.shape[0], num_groups, -1), eps)
            if normal is not None:
                return normal if plain else _per_channel(normal, weight, bias)
        return definition(x, num_groups, weight=weight, bias=bias, eps=eps)

    return kernel


def _of_instances(op: str, dtype: str) -> Kernel:
    """instance_norm: the same with a group per channel."""
    of_groups, definition = _of_groups("group_norm", dtype), registry.row(op).definition

    def kernel(x: Any, *, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
        if type(x) is np.ndarray and x.ndim >= 3 and x.size and x.flags.c_contiguous:
            return of_groups(x, x.shape[1], weight=weight, bias=bias, eps=eps)
        return definition(x, weight=weight, bias=bias, eps=eps)

    return kernel


def _cross_entropy(op: str, dtype: str) -> Kernel:
    """The log-probabilities by their kernel; the rest picks one of them per row."""
    entries, definition = _Entries("log_softmax", dtype, "log_softmax"), registry.row(op).definition

    def kernel(x: Any, target: Any, **attrs: Any) -> Any:
        logs = None
        if type(x) is np.ndarray and x.ndim:
            axis = class_axis(x)
            entry = entries.known.get(axis) or entries.find(axis, Call(axis, axis, 0, True))
            logs = None if entry is None else entry(x)
        return definition(x, target, **attrs) if logs is None else cross_entropy_of(logs, x, target, **attrs)

    return kernel


def _standardized(entries: _Entries, x: Any, rows: tuple[int, ...], eps: float) -> Any:
    """`x` seen as `rows`, normalised without parameters, in its own shape; None where the kernel does not take it."""
    entry = entries.known.get((1, eps)) or entries.find((1, eps), Call(-1, -1, 0, True, 0, eps))
    normal = None if entry is None or not x.flags.c_contiguous else entry(x.reshape(rows))
    return None if normal is None else normal.reshape(x.shape)


@quiet
def _per_channel(normal: Any, weight: Any, bias: Any) -> Any:
    return affine(normal, weight, bias, [1, -1] + [1] * (normal.ndim - 2), normal.dtype)


def _rms_norm(op: str, dtype: str) -> Kernel:
    variants = [_Entries(f"rms_norm{k}", dtype, op) for k in range(2)]
    definition = registry.row(op).definition

    def resolve(_x: Any, *, normalized_shape: Any = None, weight: Any = None, eps: Any = 1e-6) -> Kernel | None:
        if normalized_shape is not None or type(eps) is not float:
            return None
        count = int(weight is not None)
        return variants[count].find((1, eps), Call(-1, -1, 0, True, count, eps))

    def kernel(x: Any, *, normalized_shape: Any = None, weight: Any = None, eps: Any = 1e-6) -> Any:
        axes = _normalized(x, normalized_shape)
        if axes and type(eps) is float:
            given = () if weight is None else (weight,)
            entries = variants[len(given)]
            entry = entries.known.get((axes, eps)) or entries.find((axes, eps), Call(-axes, -1, 0, True, len(given), eps))
            if entry is not None:
                result = entry(x, *given)
                if result is not None:
                    return result
        return definition(x, normalized_shape=normalized_shape, weight=weight, eps=eps)

    return _with_direct(kernel, resolve, "weight")


def _normalized(x: Any, normalized_shape: Any) -> int:
    """How many axes at the end `normalized_shape` names; 0 where the definition must look at it."""
    if normalized_shape is None:
        return 1
    if type(normalized_shape) is int:
        normalized_shape = (normalized_shape,)
    if type(normalized_shape) not in (tuple, list) or type(x) is not np.ndarray:
        return 0
    count = len(normalized_shape)
    return count if 0 < count <= x.ndim and x.shape[x.ndim - count :] == tuple(normalized_shape) else 0


def _span(axis: Any) -> tuple[int, int] | None:
    """(first, last) of the reduced axes when they are neighbours and the call says so in a usual way."""
    if axis is None:
        return 0, -1
    if type(axis) is int:
        return axis, axis
    if type(axis) is tuple and axis and all(type(a) is int for a in axis) and list(axis) == list(range(axis[0], axis[0] + len(axis))):
        return (axis[0], axis[-1]) if axis[0] >= 0 or axis[-1] < 0 else None
    return None


def _find(entries: _Entries, axis: Any, keepdims: bool, quiet: bool, less: int = 0) -> Kernel | None:
    """The function of a reduction over an axis; by its type too, since True and 1 are not the same axis."""
    key = (type(axis), axis, keepdims, less)
    try:
        found = entries.known.get(key)
    except TypeError:
        return None
    if found is None:
        span = _span(axis)
        if span is not None:
            found = entries.find(key, Call(*span, 2 if keepdims else 1, quiet, less=less))
    return found


def _reducing(entries: _Entries, quiet: bool) -> Resolve:
    """What calls of a reduction mean, for `Direct`."""

    def resolve(_x: Any, *, axis: Any = None, keepdims: Any = False, ddof: Any = 0, dtype: Any = None) -> Kernel | None:
        usual = dtype is None and type(ddof) is int and (keepdims is False or keepdims is True)
        return _find(entries, axis, keepdims, quiet, ddof) if usual else None

    return resolve


def _with_direct(kernel: Kernel, resolve: Resolve, *parameters: str) -> Kernel:
    """A kernel that knows the short way, as its attribute `direct`."""
    kernel.direct = Direct(resolve, parameters)  # type: ignore[attr-defined]
    return kernel


def _untyped(op: str, dtype: str) -> Kernel:
    """Reductions whose result has a type of its own: logsumexp, and argmax and argmin along an axis that is not the last one."""
    entries, definition = _Entries(op, dtype, op), registry.row(op).definition
    one_axis = op != "logsumexp"

    def kernel(x: Any, *, axis: Any = None, keepdims: Any = False) -> Any:
        if (keepdims is False or keepdims is True) and not (one_axis and type(axis) is not int):
            entry = _find(entries, axis, keepdims, True)
            result = None if entry is None else entry(x)
            if result is not None:
                return result
        return definition(x, axis=axis, keepdims=keepdims)

    return kernel if one_axis else _with_direct(kernel, _reducing(entries, True))


def _totals(op: str, dtype: str) -> Kernel:
    """sum and prod."""
    entries, definition = _Entries("total" if dtype in INTEGERS else op, dtype, op), registry.row(op).definition

    def kernel(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: Any = False, initial: Any = UNSET, where: Any = UNSET) -> Any:
        if dtype is None and initial is UNSET and where is UNSET and (keepdims is False or keepdims is True):
            entry = _find(entries, axis, keepdims, False)
            result = None if entry is None else entry(x)
            if result is not None:
                return result
        return definition(x, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    return _with_direct(kernel, _reducing(entries, False))


def _mean(op: str, dtype: str) -> Kernel:
    entries, definition = _Entries(op, dtype, op), registry.row(op).definition

    def kernel(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: Any = False, where: Any = UNSET) -> Any:
        if dtype is None and where is UNSET and (keepdims is False or keepdims is True):
            entry = _find(entries, axis, keepdims, False)
            result = None if entry is None else entry(x)
            if result is not None:
                return result
        return definition(x, axis=axis, dtype=dtype, keepdims=keepdims, where=where)

    return _with_direct(kernel, _reducing(entries, False))


def _spread(op: str, dtype: str) -> Kernel:
    """var and std."""
    entries, definition = _Entries(op, dtype, op), registry.row(op).definition

    def kernel(x: Any, *, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False, where: Any = UNSET) -> Any:
        if dtype is None and where is UNSET and type(ddof) is int and (keepdims is False or keepdims is True):
            entry = _find(entries, axis, keepdims, False, ddof)
            result = None if entry is None else entry(x)
            if result is not None:
                return result
        return definition(x, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=where)

    return _with_direct(kernel, _reducing(entries, False))


def _running(op: str, dtype: str) -> Kernel:
    """cumsum and cumprod along an axis that is not the last one."""
    entries, definition = _Entries(op, dtype, op), registry.row(op).definition
    known = entries.known

    def kernel(x: Any, *, axis: Any = None, dtype: Any = None) -> Any:
        if type(axis) is int and dtype is None:
            entry = known.get(axis) or entries.find(axis, Call(axis, axis, 0, False))
            result = None if entry is None else entry(x)
            if result is not None:
                return result
        return definition(x, axis=axis, dtype=dtype)

    return kernel


_MAKERS: Final[dict[str, tuple[Callable[[str, str], Kernel], frozenset[str]]]] = {
    "softmax": (_over_axis, _ALL),
    "log_softmax": (_over_axis, _ALL),
    "logsumexp": (_untyped, _ALL),
    "layer_norm": (_layer_norm, _F),
    "layer_norm_parts": (_with_moments, _F),
    "rms_norm": (_rms_norm, _F),
    "group_norm": (_of_groups, _F),
    "instance_norm": (_of_instances, _F),
    "cross_entropy": (_cross_entropy, frozenset(("float32", "float64"))),
    "sum": (_totals, _NARROW),
    "prod": (_totals, _F),
    "mean": (_mean, _ALL),
    "var": (_spread, _ALL),
    "std": (_spread, _ALL),
    "argmax": (_untyped, _ALL - {"float16", "bfloat16"}),
    "argmin": (_untyped, _ALL - {"float16", "bfloat16"}),
    "cumsum": (_running, frozenset(("float32", "float64"))),
    "cumprod": (_running, frozenset(("float32", "float64"))),
}
OPS: Final = frozenset(_MAKERS)


def kernel_for(op: str, dtype: str) -> Kernel | None:
    """The row kernel of an op for one element type; None: there is none, or code may not or can't be made."""
    found = _MAKERS.get(op)
    if found is None or dtype not in found[1] or not (driver().ready or compiler_is_there()) or driver().failed:
        return None
    kernel = found[0](op, dtype)
    kernel.__name__ = kernel.__qualname__ = op
    return kernel
