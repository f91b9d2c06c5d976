"""Joining, splitting, rearranging and ordering. Every definition calls NumPy on the original objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._rows import ARRAYS, AXIS, NUMPY_2, X, method, numpy, numpy_call, optional, own_method, per_input, shape_row, view_row
from .registry import OpInfo, Param


def _meshgrid(arrays: Any, *, copy: Any = True, sparse: Any = False, indexing: Any = "xy") -> Any:
    return np.meshgrid(*arrays, copy=copy, sparse=sparse, indexing=indexing)


def _pad(x: Any, pad_width: Any, *, mode: Any = "constant", **attrs: Any) -> Any:
    return np.pad(x, pad_width, mode, **attrs)


_SEQUENCE_DTYPE = ", *, dtype=None, casting='same_kind'"
_SORT_TAIL = ", *, stable=None" if NUMPY_2 else ""
_STABLE = {"stable": None} if NUMPY_2 else {}

_JOINING = (
    shape_row(
        "concatenate",
        numpy_call(np.concatenate),
        "Tensors joined along an axis.",
        (ARRAYS, *optional(axis=0, dtype=None, casting="same_kind")),
        tuple(
            numpy(name, "arrays, /, axis=0, out=None" + _SEQUENCE_DTYPE)
            for name in ("concatenate", *(("concat",) if hasattr(np, "concat") else ()))
        ),
        dtype_rule="promote",
        gradient="split(g)",
        fp_name="cast",
    ),
    shape_row(
        "stack",
        numpy_call(np.stack),
        "Tensors joined along a new axis.",
        (ARRAYS, *optional(axis=0, dtype=None, casting="same_kind")),
        (numpy("stack", "arrays, axis=0, out=None" + _SEQUENCE_DTYPE),),
        dtype_rule="promote",
        gradient="g along the new axis",
        fp_name="cast",
    ),
    *(
        shape_row(
            name,
            numpy_call(getattr(np, name)),
            doc,
            (ARRAYS, *(optional(dtype=None, casting="same_kind") if tail else ())),
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
        view_row(
            name,
            numpy_call(getattr(np, name), "indices_or_sections"),
            doc,
            (X, Param("indices_or_sections"), *optional(axis=0)),
            (numpy(name, "ary, indices_or_sections, axis=0", ary="x"),),
            result="any",
            gradient="concatenate(g)",
        )
        for name, doc in (("split", "A list of equal parts, as views."), ("array_split", "A list of nearly equal parts, as views."))
    ),
    *(
        view_row(
            name,
            numpy_call(getattr(np, name), "indices_or_sections"),
            f"A list of equal parts along the {axis} axis, as views.",
            (X, Param("indices_or_sections")),
            (numpy(name, "ary, indices_or_sections", ary="x"),),
            result="any",
            gradient="concatenate(g)",
        )
        for name, axis in (("hsplit", "second (of vectors the first)"), ("vsplit", "first"), ("dsplit", "third"))
    ),
)

_REARRANGING = (
    shape_row(
        "tile",
        numpy_call(np.tile, "reps"),
        "The tensor repeated as a whole.",
        (X, Param("reps")),
        (numpy("tile", "A, reps", A="x"),),
        gradient="sum over repeats of g",
    ),
    shape_row(
        "repeat",
        numpy_call(np.repeat, "repeats"),
        "Each element repeated.",
        (X, Param("repeats"), AXIS),
        (numpy("repeat", "a, repeats, axis=None", a="x"), *method("repeat", "repeats, axis=None")),
        gradient="sum over repeats of g",
    ),
    shape_row(
        "roll",
        numpy_call(np.roll, "shift"),
        "Elements shifted around an axis.",
        (X, Param("shift"), AXIS),
        (numpy("roll", "a, shift, axis=None", a="x"),),
        shape_rule="same",
        gradient="roll(g, -shift)",
    ),
    view_row(
        "rot90",
        numpy_call(np.rot90),
        "A quarter turn, as a view.",
        (X, *optional(k=1, axes=(0, 1))),
        (numpy("rot90", "m, k=1, axes=(0, 1)", m="x"),),
        gradient="rot90(g, -k)",
    ),
    shape_row(
        "pad",
        _pad,
        "Borders added: constant (`constant_values`), edge, reflect, symmetric, wrap, ...",
        (X, Param("pad_width"), Param("mode", default="constant"), *optional(constant_values=0)),
        (numpy("pad", "array, pad_width, mode='constant', *, constant_values=0", array="x"),),
        gradient="the inner part of g",
        fp_name="cast",
    ),
    shape_row(
        "triu",
        numpy_call(np.triu),
        "The part on and above a diagonal.",
        (X, *optional(k=0)),
        (numpy("triu", "m, k=0", m="x"),),
        gradient="triu(g)",
    ),
    shape_row(
        "tril",
        numpy_call(np.tril),
        "The part on and below a diagonal.",
        (X, *optional(k=0)),
        (numpy("tril", "m, k=0", m="x"),),
        gradient="tril(g)",
    ),
    shape_row(
        "diag",
        numpy_call(np.diag),
        "A diagonal, or a matrix with it.",
        (X, *optional(k=0)),
        (numpy("diag", "v, k=0", v="x"),),
        gradient="diag(g)",
    ),
    shape_row(
        "meshgrid",
        _meshgrid,
        "Coordinate tensors from vectors.",
        (ARRAYS, Param("copy", default=True), Param("sparse", default=False), Param("indexing", default="xy")),
        (numpy("meshgrid", "*xi, copy=True, sparse=False, indexing='xy'", xi="arrays"),),
        result="any",
    ),
    shape_row(
        "copy",
        numpy_call(np.copy),
        "A copy; numpy.copy.",
        (X, *optional(order="K")),
        (numpy("copy", "a, order='K', subok=False", a="x"),),
        shape_rule="same",
        gradient="g",
    ),
    shape_row(
        "copy_method",
        own_method("copy"),
        "A copy; the method.",
        (X, Param("order", default="C")),
        method("copy", "order='C'"),
        shape_rule="same",
        gradient="g",
    ),
    shape_row(
        "diff",
        numpy_call(np.diff),
        "Differences of neighbours.",
        (X, *optional(n=1, axis=-1)),
        (numpy("diff", "a, n=1, axis=-1, prepend=0, append=0", a="x"),),
        flops=per_input(1.0),
        fp_name="subtract",
    ),
)

_ORDERING = (
    shape_row(
        "sort",
        numpy_call(np.sort),
        "A sorted copy along an axis.",
        (X, *optional(axis=-1, kind=None, **_STABLE)),
        (numpy("sort", "a, axis=-1, kind=None, order=None" + _SORT_TAIL, a="x"),),
        shape_rule="same",
        flops=per_input(20.0),
        gradient="put_along_axis(g, argsort(x))",
    ),
    shape_row(
        "sort_in_place",
        own_method("sort"),
        "Sort along an axis, in place.",
        (X, *optional(axis=-1, kind=None, **_STABLE)),
        method("sort", "axis=-1, kind=None, order=None" + _SORT_TAIL),
        shape_rule="same",
        flops=per_input(20.0),
        result="python",
        writes=True,
    ),
    shape_row(
        "argsort",
        numpy_call(np.argsort),
        "Indices that sort along an axis.",
        (X, *optional(axis=-1, kind=None, **_STABLE)),
        (
            numpy("argsort", "a, axis=-1, kind=None, order=None" + _SORT_TAIL, a="x"),
            *method("argsort", "axis=-1, kind=None, order=None" + _SORT_TAIL),
        ),
        shape_rule="same",
        dtype_rule="index",
        flops=per_input(20.0),
    ),
    shape_row(
        "unique",
        numpy_call(np.unique),
        "Sorted distinct elements, with indices and counts on request.",
        (X, *optional(return_index=False, return_inverse=False, return_counts=False, axis=None, equal_nan=True)),
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
    shape_row(
        "searchsorted",
        numpy_call(np.searchsorted),
        "Where values would be inserted into a sorted vector.",
        (X, Param("v", "tensor"), *optional(side="left", sorter=None)),
        (
            numpy("searchsorted", "a, v, side='left', sorter=None", a="x"),
            *method("searchsorted", "v, side='left', sorter=None"),
        ),
        dtype_rule="index",
        result="any",
        flops=lambda *shapes, **_attrs: 10.0 * float(np.prod(shapes[1])) if len(shapes) > 1 else 10.0,
    ),
)

ROWS: tuple[OpInfo, ...] = _JOINING + _REARRANGING + _ORDERING
