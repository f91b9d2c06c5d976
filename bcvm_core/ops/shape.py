"""Indexing and views. Every definition calls NumPy on the original objects: views stay views.

Rows for attributes and for the builtins that tensor code uses (len, int, float, ...) are in `inspection.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ._rows import ARRAYS, AXIS, DTYPE, NUMPY_2, UNSET, X, method, numpy, numpy_call, optional, own, own_method, shape_row, view_row
from .indexed import ROWS as _INDEXED
from .inspection import ROWS as _INSPECTION
from .joining import ROWS as _JOINING
from .ranking import ROWS as _RANKING
from .registry import OpInfo, Param, Spelling


def _setitem(x: Any, key: Any, value: Any) -> None:
    x[key] = value


def _fill(x: Any, value: Any) -> None:
    x.fill(value)


def _reshape(x: Any, *, shape: Any = UNSET, dims: Any = None, order: Any = "C") -> Any:
    if dims is not None or shape is UNSET:
        return x.reshape(*(dims or ()), order=order)
    return np.reshape(x, shape, order=order)


def _transpose(x: Any, *, axes: Any = None, dims: Any = None) -> Any:
    return x.transpose(*dims) if dims is not None else np.transpose(x, axes)


def _swapaxes(x: Any, axis1: Any, axis2: Any) -> Any:
    return np.swapaxes(x, axis1, axis2)


def _permute(x: Any, *, dims: Any) -> Any:
    return np.transpose(x, dims)


def _broadcast_arrays(arrays: Any) -> Any:
    return np.broadcast_arrays(*arrays)


def _gather(x: Any, index: Any, *, axis: Any = 0) -> Any:
    """Entries of `x` along `axis`; the index may have any shape and replaces that axis."""
    return np.take(x, index, axis=axis)


def _atleast(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def definition(arrays: Any) -> Any:
        return function(*arrays)

    definition.__name__ = definition.__qualname__ = name
    return definition


_RESHAPE = "a, /, shape, order='C', *, copy=None" if NUMPY_2 else "a, newshape, order='C'"
_RESHAPE_NAMES = {"a": "x"} if NUMPY_2 else {"a": "x", "newshape": "shape"}

_INDEXING = (
    view_row(
        "getitem",
        operator.getitem,
        "x[key] with the semantics of x's own type: basic indexing gives views, arrays and masks give copies.",
        (X, Param("key", "tensor")),
        (Spelling("operator.Subscript", "x, key", kind="operator"),),
        result="any",
        scalar=operator.getitem,
        pure_python=True,
        gradient="scatter(zeros_like(x), key, g)",
    ),
    shape_row(
        "setitem",
        _setitem,
        "x[key] = value in place.",
        (X, Param("key", "tensor"), Param("value", "tensor")),
        (),
        shape_rule="same",
        result="python",
        scalar=operator.setitem,
        writes=True,
        pure_python=True,
        gradient="g with zeros at key; g[key]",
        fp_name="cast",
    ),
    shape_row(
        "fill",
        _fill,
        "Set every element in place.",
        (X, Param("value")),
        method("fill", "value, /"),
        writes=True,
        result="python",
        fp_name="cast",
    ),
    shape_row(
        "take",
        numpy_call(np.take),
        "Entries along an axis, or of the flattened tensor, by index.",
        (X, Param("indices", "tensor"), AXIS, *optional(mode="raise")),
        (
            numpy("take", "a, indices, axis=None, out=None, mode='raise'", a="x"),
            *method("take", "indices, axis=None, out=None, mode='raise'"),
        ),
        gradient="scatter_add(zeros_like(x), indices, g)",
    ),
    shape_row(
        "take_along_axis",
        numpy_call(np.take_along_axis, "axis"),
        "Entries along an axis by an index of the same rank.",
        (X, Param("indices", "tensor"), Param("axis") if not NUMPY_2 else Param("axis", default=-1)),
        (numpy("take_along_axis", "arr, indices, axis" + ("=-1" if NUMPY_2 else ""), arr="x"),),
        gradient="scatter_add(zeros_like(x), indices, g)",
    ),
    shape_row(
        "gather",
        _gather,
        "Entries of `x` along `axis`; the index may have any shape and replaces that axis.",
        (X, Param("index", "tensor"), Param("axis", default=0)),
        (own("gather", "x, index, axis=0"),),
        gradient="scatter_add(zeros_like(x), index, g)",
    ),
    shape_row(
        "nonzero",
        np.nonzero,
        "Indices of non-zero elements, one tensor per axis.",
        (X,),
        (numpy("nonzero", "a", a="x"), *method("nonzero")),
        dtype_rule="index",
    ),
    shape_row(
        "argwhere", np.argwhere, "Indices of non-zero elements, one row each.", (X,), (numpy("argwhere", "a", a="x"),), dtype_rule="index"
    ),
    shape_row(
        "flatnonzero", np.flatnonzero, "Flat indices of non-zero elements.", (X,), (numpy("flatnonzero", "a", a="x"),), dtype_rule="index"
    ),
)

_VIEWS = (
    view_row(
        "reshape",
        _reshape,
        "The same elements in another shape; a view where strides allow it.",
        (X, Param("shape", default=UNSET), Param("dims", default=None), Param("order", default="C")),
        (Spelling("numpy.reshape", _RESHAPE, _RESHAPE_NAMES), *method("reshape", "*shape, order='C'", shape="dims")),
        gradient="reshape(g, x.shape)",
    ),
    view_row(
        "transpose",
        _transpose,
        "Axes permuted, reversed by default.",
        (X, Param("axes", default=None), Param("dims", default=None)),
        (numpy("transpose", "a, axes=None", a="x"), *method("transpose", "*axes", axes="dims")),
        gradient="transpose(g, argsort(axes))",
    ),
    view_row(
        "permute",
        _permute,
        "Axes in a given order.",
        (X, Param("dims")),
        (own("permute", "x, dims"),),
        gradient="transpose(g, argsort(dims))",
    ),
    view_row(
        "swapaxes",
        _swapaxes,
        "Two axes exchanged.",
        (X, Param("axis1"), Param("axis2")),
        (numpy("swapaxes", "a, axis1, axis2", a="x"), *method("swapaxes", "axis1, axis2, /")),
        gradient="swapaxes(g, axis1, axis2)",
    ),
    view_row(
        "moveaxis",
        numpy_call(np.moveaxis, "source", "destination"),
        "Axes moved to other places.",
        (X, Param("source"), Param("destination")),
        (numpy("moveaxis", "a, source, destination", a="x"),),
        gradient="moveaxis(g, destination, source)",
    ),
    view_row(
        "squeeze",
        numpy_call(np.squeeze),
        "Axes of length 1 removed.",
        (X, AXIS),
        (numpy("squeeze", "a, axis=None", a="x"), *method("squeeze", "axis=None")),
        gradient="reshape(g, x.shape)",
    ),
    view_row(
        "expand_dims",
        numpy_call(np.expand_dims, "axis"),
        "Axes of length 1 inserted.",
        (X, Param("axis")),
        (numpy("expand_dims", "a, axis", a="x"),),
        gradient="reshape(g, x.shape)",
    ),
    view_row(
        "ravel",
        numpy_call(np.ravel),
        "One axis; a view where strides allow it.",
        (X, *optional(order="C")),
        (numpy("ravel", "a, order='C'", a="x"), *method("ravel", "order='C'")),
        gradient="reshape(g, x.shape)",
    ),
    shape_row(
        "flatten",
        own_method("flatten"),
        "One axis, always a copy.",
        (X, Param("order", default="C")),
        method("flatten", "order='C'"),
        gradient="reshape(g, x.shape)",
    ),
    view_row(
        "broadcast_to",
        numpy_call(np.broadcast_to, "shape"),
        "A read-only view in a larger shape.",
        (X, Param("shape")),
        (numpy("broadcast_to", "array, shape, subok=False", array="x"),),
        gradient="sum over the broadcast axes of g",
    ),
    view_row(
        "broadcast_arrays",
        _broadcast_arrays,
        "Views of all arguments in their common shape.",
        (ARRAYS,),
        (numpy("broadcast_arrays", "*args, subok=False", args="arrays"),),
        result="any",
    ),
    view_row(
        "flip",
        numpy_call(np.flip),
        "Order reversed along axes; a view.",
        (X, AXIS),
        (numpy("flip", "m, axis=None", m="x"),),
        gradient="flip(g)",
    ),
    view_row("flipud", np.flipud, "Order reversed along axis 0; a view.", (X,), (numpy("flipud", "m", m="x"),), gradient="flipud(g)"),
    view_row("fliplr", np.fliplr, "Order reversed along axis 1; a view.", (X,), (numpy("fliplr", "m", m="x"),), gradient="fliplr(g)"),
    view_row(
        "diagonal",
        numpy_call(np.diagonal),
        "A diagonal as a view.",
        (X, *optional(offset=0, axis1=0, axis2=1)),
        (numpy("diagonal", "a, offset=0, axis1=0, axis2=1", a="x"), *method("diagonal", "offset=0, axis1=0, axis2=1")),
    ),
    view_row(
        "view",
        own_method("view"),
        "The same bytes under another element type.",
        (X, DTYPE),
        method("view", "dtype=None, type=None"),
        dtype_rule="attr",
    ),
    view_row(
        "atleast_1d", _atleast("atleast_1d"), "At least one axis.", (ARRAYS,), (numpy("atleast_1d", "*arys", arys="arrays"),), result="any"
    ),
    view_row(
        "atleast_2d", _atleast("atleast_2d"), "At least two axes.", (ARRAYS,), (numpy("atleast_2d", "*arys", arys="arrays"),), result="any"
    ),
    view_row(
        "atleast_3d",
        _atleast("atleast_3d"),
        "At least three axes.",
        (ARRAYS,),
        (numpy("atleast_3d", "*arys", arys="arrays"),),
        result="any",
    ),
    view_row(
        "ascontiguousarray",
        numpy_call(np.ascontiguousarray),
        "The tensor itself when C-contiguous, else a copy that is.",
        (X, *optional(dtype=None)),
        (numpy("ascontiguousarray", "a, dtype=None, *, like=None", a="x"),),
        gradient="g",
    ),
)

ROWS: tuple[OpInfo, ...] = _INDEXING + _VIEWS + _JOINING + _INSPECTION + _INDEXED + _RANKING
