"""Indexing, layout and rearrangement. Every definition calls NumPy on the original objects: views stay views.

Rows for attributes and for the builtins that tensor code uses (len, int, float, ...) are in `inspection.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ._rows import AXIS, DTYPE, NUMPY_2, X, method, moves_only, numpy, own, per_input
from .inspection import ROWS as _INSPECTION
from .registry import OpInfo, Param, Spelling

_UNSET = np._NoValue  # type: ignore[attr-defined]  # NumPy's own mark for "not passed"


def _call(function: Callable[..., Any], *required: str) -> Callable[..., Any]:
    """A definition that passes `required` attributes by position and the others that were given by keyword."""

    def definition(*operands: Any, **attrs: Any) -> Any:
        positional = [attrs.pop(name) for name in required if name in attrs]
        return function(*operands, *positional, **{name: value for name, value in attrs.items() if value is not _UNSET})

    definition.__name__ = definition.__qualname__ = function.__name__
    return definition


def _optional(*names: str) -> tuple[Param, ...]:
    return tuple(Param(name, default=_UNSET) for name in names)


def _setitem(x: Any, key: Any, value: Any) -> None:
    x[key] = value


def _fill(x: Any, value: Any) -> None:
    x.fill(value)


def _reshape(x: Any, *, shape: Any = None, dims: Any = None, order: Any = "C") -> Any:
    return x.reshape(*dims, order=order) if dims is not None else np.reshape(x, shape, order=order)


def _transpose(x: Any, *, axes: Any = None, dims: Any = None) -> Any:
    return x.transpose(*dims) if dims is not None else np.transpose(x, axes)


def _own_method(name: str) -> Callable[..., Any]:
    def definition(x: Any, **attrs: Any) -> Any:
        return getattr(x, name)(**attrs)

    definition.__name__ = definition.__qualname__ = name
    return definition


def _swapaxes(x: Any, axis1: Any, axis2: Any) -> Any:
    return np.swapaxes(x, axis1, axis2)


def _permute(x: Any, *, dims: Any) -> Any:
    return np.transpose(x, dims)


def _broadcast_arrays(arrays: Any) -> Any:
    return np.broadcast_arrays(*arrays)


def _meshgrid(arrays: Any, *, copy: Any = True, sparse: Any = False, indexing: Any = "xy") -> Any:
    return np.meshgrid(*arrays, copy=copy, sparse=sparse, indexing=indexing)


def _pad(x: Any, pad_width: Any, *, mode: Any = "constant", constant_values: Any = _UNSET) -> Any:
    return np.pad(x, pad_width, mode) if constant_values is _UNSET else np.pad(x, pad_width, mode, constant_values=constant_values)


def _gather(x: Any, index: Any, *, axis: Any = 0) -> Any:
    """Entries of `x` along `axis`; the index may have any shape and replaces that axis."""
    return np.take(x, index, axis=axis)


def _atleast(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def definition(arrays: Any) -> Any:
        return function(*arrays)

    definition.__name__ = definition.__qualname__ = name
    return definition


def _row(name: str, definition: Callable[..., Any], doc: str, params: tuple[Param, ...], spellings: tuple[Spelling, ...], **rest: Any) -> OpInfo:
    fields: dict[str, Any] = {"shape_rule": "other", "dtype_rule": "same", "flops": moves_only, **rest}
    return OpInfo(name=name, family="shape", params=params, definition=definition, doc=doc, spellings=spellings, **fields)


def _view(name: str, definition: Callable[..., Any], doc: str, params: tuple[Param, ...], spellings: tuple[Spelling, ...], **rest: Any) -> OpInfo:
    return _row(name, definition, doc, params, spellings, **{"shape_rule": "view", "fuse": "view", **rest})


_ARRAYS = Param("arrays", "tensors")
_SEQUENCE_DTYPE = ", *, dtype=None, casting='same_kind'"
_RESHAPE = "a, /, shape=None, order='C', *, newshape=None, copy=None" if hasattr(np, "concat") else "a, newshape, order='C'"
_RESHAPE_NAMES = {"a": "x"} if hasattr(np, "concat") else {"a": "x", "newshape": "shape"}
_SORT_TAIL = ", *, stable=None" if NUMPY_2 else ""

_INDEXING = (
    _view(
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
    _row(
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
    _row("fill", _fill, "Set every element in place.", (X, Param("value")), method("fill", "value"), writes=True, result="python", fp_name="cast"),
    _row(
        "take",
        _call(np.take),
        "Entries along an axis, or of the flattened tensor, by index.",
        (X, Param("indices", "tensor"), AXIS, *_optional("mode")),
        (
            numpy("take", "a, indices, axis=None, out=None, mode='raise'", a="x"),
            *method("take", "indices, axis=None, out=None, mode='raise'"),
        ),
        gradient="scatter_add(zeros_like(x), indices, g)",
    ),
    _row(
        "take_along_axis",
        _call(np.take_along_axis, "axis"),
        "Entries along an axis by an index of the same rank.",
        (X, Param("indices", "tensor"), Param("axis") if not NUMPY_2 else Param("axis", default=-1)),
        (numpy("take_along_axis", "arr, indices, axis" + ("=-1" if NUMPY_2 else ""), arr="x"),),
        gradient="scatter_add(zeros_like(x), indices, g)",
    ),
    _row(
        "gather",
        _gather,
        "Entries of `x` along `axis`; the index may have any shape and replaces that axis.",
        (X, Param("index", "tensor"), Param("axis", default=0)),
        (own("gather", "x, index, axis=0"),),
        gradient="scatter_add(zeros_like(x), index, g)",
    ),
    _row(
        "nonzero", np.nonzero, "Indices of non-zero elements, one tensor per axis.", (X,), (numpy("nonzero", "a", a="x"), *method("nonzero")),
        dtype_rule="index",
    ),
    _row("argwhere", np.argwhere, "Indices of non-zero elements, one row each.", (X,), (numpy("argwhere", "a", a="x"),), dtype_rule="index"),
    _row(
        "flatnonzero", np.flatnonzero, "Flat indices of non-zero elements.", (X,), (numpy("flatnonzero", "a", a="x"),), dtype_rule="index"
    ),
)

_VIEWS = (
    _view(
        "reshape",
        _reshape,
        "The same elements in another shape; a view where strides allow it.",
        (X, Param("shape", default=None), Param("dims", default=None), Param("order", default="C")),
        (Spelling("numpy.reshape", _RESHAPE, _RESHAPE_NAMES), *method("reshape", "*shape, order='C'", shape="dims")),
        gradient="reshape(g, x.shape)",
    ),
    _view(
        "transpose",
        _transpose,
        "Axes permuted, reversed by default.",
        (X, Param("axes", default=None), Param("dims", default=None)),
        (numpy("transpose", "a, axes=None", a="x"), *method("transpose", "*axes", axes="dims")),
        gradient="transpose(g, argsort(axes))",
    ),
    _view(
        "permute",
        _permute,
        "Axes in a given order.",
        (X, Param("dims")),
        (own("permute", "x, dims"),),
        gradient="transpose(g, argsort(dims))",
    ),
    _view(
        "swapaxes",
        _swapaxes,
        "Two axes exchanged.",
        (X, Param("axis1"), Param("axis2")),
        (numpy("swapaxes", "a, axis1, axis2", a="x"), *method("swapaxes", "axis1, axis2, /")),
        gradient="swapaxes(g, axis1, axis2)",
    ),
    _view(
        "moveaxis",
        _call(np.moveaxis, "source", "destination"),
        "Axes moved to other places.",
        (X, Param("source"), Param("destination")),
        (numpy("moveaxis", "a, source, destination", a="x"),),
        gradient="moveaxis(g, destination, source)",
    ),
    _view(
        "squeeze",
        _call(np.squeeze),
        "Axes of length 1 removed.",
        (X, AXIS),
        (numpy("squeeze", "a, axis=None", a="x"), *method("squeeze", "axis=None")),
        gradient="reshape(g, x.shape)",
    ),
    _view(
        "expand_dims",
        _call(np.expand_dims, "axis"),
        "Axes of length 1 inserted.",
        (X, Param("axis")),
        (numpy("expand_dims", "a, axis", a="x"),),
        gradient="reshape(g, x.shape)",
    ),
    _view(
        "ravel",
        _call(np.ravel),
        "One axis; a view where strides allow it.",
        (X, *_optional("order")),
        (numpy("ravel", "a, order='C'", a="x"), *method("ravel", "order='C'")),
        gradient="reshape(g, x.shape)",
    ),
    _row("flatten", _own_method("flatten"), "One axis, always a copy.", (X, Param("order", default="C")), method("flatten", "order='C'"),
         gradient="reshape(g, x.shape)"),
    _view(
        "broadcast_to",
        _call(np.broadcast_to, "shape"),
        "A read-only view in a larger shape.",
        (X, Param("shape")),
        (numpy("broadcast_to", "array, shape, subok=False", array="x"),),
        gradient="sum over the broadcast axes of g",
    ),
    _view(
        "broadcast_arrays",
        _broadcast_arrays,
        "Views of all arguments in their common shape.",
        (_ARRAYS,),
        (numpy("broadcast_arrays", "*args, subok=False", args="arrays"),),
        result="any",
    ),
    _view("flip", _call(np.flip), "Order reversed along axes; a view.", (X, AXIS), (numpy("flip", "m, axis=None", m="x"),), gradient="flip(g)"),
    _view("flipud", np.flipud, "Order reversed along axis 0; a view.", (X,), (numpy("flipud", "m", m="x"),), gradient="flipud(g)"),
    _view("fliplr", np.fliplr, "Order reversed along axis 1; a view.", (X,), (numpy("fliplr", "m", m="x"),), gradient="fliplr(g)"),
    _view(
        "diagonal",
        _call(np.diagonal),
        "A diagonal as a view.",
        (X, *_optional("offset", "axis1", "axis2")),
        (numpy("diagonal", "a, offset=0, axis1=0, axis2=1", a="x"), *method("diagonal", "offset=0, axis1=0, axis2=1")),
    ),
    _view("view", _own_method("view"), "The same bytes under another element type.", (X, DTYPE), method("view", "dtype=None, type=None"),
          dtype_rule="attr"),
    _view(
        "atleast_1d", _atleast("atleast_1d"), "At least one axis.", (_ARRAYS,), (numpy("atleast_1d", "*arys", arys="arrays"),), result="any"
    ),
    _view(
        "atleast_2d", _atleast("atleast_2d"), "At least two axes.", (_ARRAYS,), (numpy("atleast_2d", "*arys", arys="arrays"),), result="any"
    ),
    _view(
        "atleast_3d", _atleast("atleast_3d"), "At least three axes.", (_ARRAYS,), (numpy("atleast_3d", "*arys", arys="arrays"),), result="any"
    ),
    _view(
        "ascontiguousarray",
        _call(np.ascontiguousarray),
        "The tensor itself when C-contiguous, else a copy that is.",
        (X, *_optional("dtype")),
        (numpy("ascontiguousarray", "a, dtype=None, *, like=None", a="x"),),
        gradient="g",
    ),
)

_JOINING = (
    _row(
        "concatenate",
        _call(np.concatenate),
        "Tensors joined along an axis.",
        (_ARRAYS, *_optional("axis", "dtype", "casting")),
        tuple(
            numpy(name, "arrays, /, axis=0, out=None" + _SEQUENCE_DTYPE) for name in ("concatenate", *(("concat",) if hasattr(np, "concat") else ()))
        ),
        dtype_rule="promote",
        gradient="split(g)",
        fp_name="cast",
    ),
    _row(
        "stack",
        _call(np.stack),
        "Tensors joined along a new axis.",
        (_ARRAYS, *_optional("axis", "dtype", "casting")),
        (numpy("stack", "arrays, axis=0, out=None" + _SEQUENCE_DTYPE),),
        dtype_rule="promote",
        gradient="g along the new axis",
        fp_name="cast",
    ),
    *(
        _row(
            name,
            _call(getattr(np, name)),
            doc,
            (_ARRAYS, *(_optional("dtype", "casting") if tail else ())),
            (numpy(name, "tup" + tail, tup="arrays"),),
            dtype_rule="promote",
            gradient="split(g)",
            fp_name="cast",
        )
        for name, doc, tail in (
            ("hstack", "Tensors joined side by side.", _SEQUENCE_DTYPE),
            ("vstack", "Tensors joined as rows.", _SEQUENCE_DTYPE),
            ("dstack", "Tensors joined along the third axis.", ""),
            ("column_stack", "Vectors joined as columns.", ""),
        )
    ),
    *(
        _view(
            name,
            _call(getattr(np, name), "indices_or_sections"),
            doc,
            (X, Param("indices_or_sections"), *_optional("axis")),
            (numpy(name, "ary, indices_or_sections, axis=0", ary="x"),),
            result="any",
            gradient="concatenate(g)",
        )
        for name, doc in (("split", "A list of equal parts, as views."), ("array_split", "A list of nearly equal parts, as views."))
    ),
)

_REARRANGING = (
    _row("tile", _call(np.tile, "reps"), "The tensor repeated as a whole.", (X, Param("reps")), (numpy("tile", "A, reps", A="x"),),
         gradient="sum over repeats of g"),
    _row(
        "repeat",
        _call(np.repeat, "repeats"),
        "Each element repeated.",
        (X, Param("repeats"), AXIS),
        (numpy("repeat", "a, repeats, axis=None", a="x"), *method("repeat", "repeats, axis=None")),
        gradient="sum over repeats of g",
    ),
    _row("roll", _call(np.roll, "shift"), "Elements shifted around an axis.", (X, Param("shift"), AXIS),
         (numpy("roll", "a, shift, axis=None", a="x"),), shape_rule="same", gradient="roll(g, -shift)"),
    _view("rot90", _call(np.rot90), "A quarter turn, as a view.", (X, *_optional("k", "axes")), (numpy("rot90", "m, k=1, axes=(0, 1)", m="x"),),
          gradient="rot90(g, -k)"),
    _row(
        "pad",
        _pad,
        "Borders added: constant (`constant_values`), edge, reflect, symmetric, wrap, ...",
        (X, Param("pad_width"), Param("mode", default="constant"), *_optional("constant_values")),
        (numpy("pad", "array, pad_width, mode='constant', *, constant_values=0", array="x"),),
        gradient="the inner part of g",
        fp_name="cast",
    ),
    _row("triu", _call(np.triu), "The part on and above a diagonal.", (X, *_optional("k")), (numpy("triu", "m, k=0", m="x"),), gradient="triu(g)"),
    _row("tril", _call(np.tril), "The part on and below a diagonal.", (X, *_optional("k")), (numpy("tril", "m, k=0", m="x"),), gradient="tril(g)"),
    _row("diag", _call(np.diag), "A diagonal, or a matrix with it.", (X, *_optional("k")), (numpy("diag", "v, k=0", v="x"),), gradient="diag(g)"),
    _row("meshgrid", _meshgrid, "Coordinate tensors from vectors.", (_ARRAYS, Param("copy", default=True), Param("sparse", default=False),
         Param("indexing", default="xy")), (numpy("meshgrid", "*xi, copy=True, sparse=False, indexing='xy'", xi="arrays"),), result="any"),
    _row("copy", _call(np.copy), "A copy; numpy.copy.", (X, *_optional("order")), (numpy("copy", "a, order='K', subok=False", a="x"),),
         shape_rule="same", gradient="g"),
    _row("copy_method", _own_method("copy"), "A copy; the method.", (X, Param("order", default="C")), method("copy", "order='C'"),
         shape_rule="same", gradient="g"),
    _row("diff", _call(np.diff), "Differences of neighbours.", (X, *_optional("n", "axis")), (numpy("diff", "a, n=1, axis=-1, prepend=0, append=0", a="x"),),
         flops=per_input(1.0), fp_name="subtract"),
)

_ORDERING = (
    _row(
        "sort",
        _call(np.sort),
        "A sorted copy along an axis.",
        (X, *_optional("axis", "kind")),
        (numpy("sort", "a, axis=-1, kind=None, order=None" + _SORT_TAIL, a="x"),),
        shape_rule="same",
        flops=per_input(20.0),
        gradient="put_along_axis(g, argsort(x))",
    ),
    _row(
        "argsort",
        _call(np.argsort),
        "Indices that sort along an axis.",
        (X, *_optional("axis", "kind")),
        (
            numpy("argsort", "a, axis=-1, kind=None, order=None" + _SORT_TAIL, a="x"),
            *method("argsort", "axis=-1, kind=None, order=None" + _SORT_TAIL),
        ),
        shape_rule="same",
        dtype_rule="index",
        flops=per_input(20.0),
    ),
    _row(
        "unique",
        _call(np.unique),
        "Sorted distinct elements, with indices and counts on request.",
        (X, *_optional("return_index", "return_inverse", "return_counts", "axis", "equal_nan")),
        (
            numpy(
                "unique",
                "ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True"
                + (", sorted=True" if NUMPY_2 else ""),
                ar="x",
            ),
        ),
        result="any",
        flops=per_input(20.0),
    ),
    _row(
        "searchsorted",
        _call(np.searchsorted),
        "Where values would be inserted into a sorted vector.",
        (X, Param("v", "tensor"), *_optional("side", "sorter")),
        (
            numpy("searchsorted", "a, v, side='left', sorter=None", a="x"),
            *method("searchsorted", "v, side='left', sorter=None"),
        ),
        dtype_rule="index",
        result="any",
        flops=lambda *shapes, **_attrs: 10.0 * float(np.prod(shapes[1])) if len(shapes) > 1 else 10.0,
    ),
)

ROWS: tuple[OpInfo, ...] = _INDEXING + _VIEWS + _JOINING + _REARRANGING + _ORDERING + _INSPECTION
