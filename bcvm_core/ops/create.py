"""The creation family: NumPy's own constructors. An attribute that is not passed keeps NumPy's default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import trees
from ._rows import NUMPY_2, X, moves_only, numpy, numpy_call, optional, own
from .registry import REQUIRED, OpInfo, Param, Spelling


def _arange(*, args: Any = (), **attrs: Any) -> Any:
    return np.arange(*args, **attrs)


def _steps(*, start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """A lone `start` is the end."""
    return np.arange(start, dtype=dtype) if end is None else np.arange(start, end, step, dtype)


def _one_hot(x: Any, depth: Any, *, on_value: Any = 1.0, off_value: Any = 0.0, dtype: Any = np.float32) -> Any:
    """Indices outside [0, depth) give a row of off values."""
    index = trees.tensor(x)
    if index.dtype.kind not in "iu":
        raise TypeError(f"one_hot needs integer indices, not {index.dtype}")
    hit = index[..., None] == np.arange(depth, dtype=np.int64)
    return np.where(hit, np.asarray(on_value, dtype), np.asarray(off_value, dtype))


def _row(name: str, definition: Callable[..., Any], doc: str, params: tuple[Param, ...], spelling: Spelling, **rest: Any) -> OpInfo:
    fields: dict[str, Any] = {"shape_rule": "create", "dtype_rule": "attr", "flops": moves_only, "gradient": "0", **rest}
    return OpInfo(name=name, family="create", params=params, definition=definition, doc=doc, spellings=(spelling,), **fields)


_SHAPE = Param("shape")
_OBJECT = Param("object")  # not an operand: constructors take any Python object, and lists need not be walked twice
_LIKE = "dtype=None, order='K', subok=True, shape=None" + (", *, device=None" if NUMPY_2 else "")
_DEVICE = ", *, device=None, like=None" if NUMPY_2 else ", *, like=None"


def _filled(name: str, doc: str, required: tuple[str, ...] = ("shape",)) -> OpInfo:
    params = tuple(Param(p, default=REQUIRED) for p in required) + optional(dtype=None, order="C")
    signature = ", ".join(required) + ", dtype=None, order='C'" + _DEVICE
    return _row(name, numpy_call(getattr(np, name), *required), doc, params, numpy(name, signature))


def _alike(name: str, doc: str, *, first: str = "a", extra: str = "", posonly: str = "") -> OpInfo:
    params = (X, *((Param(extra),) if extra else ()), *optional(dtype=None, order="K", shape=None))
    signature = f"{first}, {posonly}" + (f"{extra}, " if extra else "") + _LIKE
    definition = numpy_call(getattr(np, name), *((extra,) if extra else ()))
    return _row(name, definition, doc, params, numpy(name, signature, **{first: "x"}), shape_rule="same")


ROWS: tuple[OpInfo, ...] = (
    _filled("zeros", "A tensor of zeros."),
    _filled("ones", "A tensor of ones."),
    _filled("empty", "A tensor whose values are not set."),
    _filled("full", "A tensor filled with one value.", ("shape", "fill_value")),
    _alike("zeros_like", "Zeros in the shape and type of another tensor."),
    _alike("ones_like", "Ones in the shape and type of another tensor."),
    _alike("empty_like", "Unset values in the shape and type of another tensor.", first="prototype", posonly="/, " if NUMPY_2 else ""),
    _alike("full_like", "One value in the shape and type of another tensor.", extra="fill_value"),
    _row(
        "arange",
        _arange,
        "Evenly spaced values: [start,] stop[, step].",
        (Param("args", default=()), *optional(dtype=None)),
        numpy("arange", "*args, dtype=None", args="args"),
    ),
    _row(
        "steps",
        _steps,
        "Evenly spaced values from start (or 0) to end, without it.",
        (Param("start", default=0), Param("end", default=None), Param("step", default=1), Param("dtype", default=None)),
        own("steps", "start=0, end=None, step=1, dtype=None"),
    ),
    _row(
        "linspace",
        numpy_call(np.linspace, "start", "stop"),
        "Evenly spaced values over a closed or half-open interval.",
        (Param("start"), Param("stop"), *optional(num=50, endpoint=True, retstep=False, dtype=None, axis=0)),
        numpy(
            "linspace",
            "start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0" + (", *, device=None" if NUMPY_2 else ""),
        ),
        result="any",
    ),
    _row(
        "eye",
        numpy_call(np.eye, "N"),
        "Ones on a diagonal.",
        (Param("N"), *optional(M=None, k=0, dtype=float, order="C")),
        numpy("eye", "N, M=None, k=0, dtype=float, order='C'" + _DEVICE),
    ),
    _row(
        "identity",
        numpy_call(np.identity, "n"),
        "The square identity matrix.",
        (Param("n"), *optional(dtype=None)),
        numpy("identity", "n, dtype=None, *, like=None"),
    ),
    _row(
        "array",
        numpy_call(np.array, "object"),
        "A new tensor from nested sequences, scalars or another tensor.",
        (_OBJECT, *optional(dtype=None, copy=True, order="K", ndmin=0)),
        numpy("array", "object, dtype=None, *, copy=True, order='K', subok=False, ndmin=0, like=None"),
        dtype_rule="other",
        gradient="g",
    ),
    _row(
        "asarray",
        numpy_call(np.asarray, "object"),
        "The same tensor, or a new one from nested sequences and scalars.",
        (_OBJECT, *optional(dtype=None, order=None)),
        numpy(
            "asarray", "a, dtype=None, order=None" + (", *, device=None, copy=None, like=None" if NUMPY_2 else ", *, like=None"), a="object"
        ),
        dtype_rule="other",
        gradient="g",
    ),
    _row(
        "one_hot",
        _one_hot,
        "Rows with one `on_value` each; indices outside [0, depth) give rows of `off_value`.",
        (X, Param("depth"), Param("on_value", default=1.0), Param("off_value", default=0.0), Param("dtype", default=np.float32)),
        own("one_hot", "x, depth, on_value=1.0, off_value=0.0, dtype=float32"),
    ),
)
