"""The reduction tree as machine code: what `ops.numerics` tries before the NumPy formulation.

Sums of dense float32 and float64 tensors over one run of axes at either end or in the middle, and
squared deviations of rows. Results have the tree's bits. A result that is not finite is left to
NumPy, whose operations then report overflow and invalid operations.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from .. import config
from ..ops import numerics
from . import loops, tree_ir

_Array = np.ndarray[Any, Any]
_INT, _OBJECT = ctypes.c_int64, ctypes.c_void_p
_ROWS: Final = ctypes.CFUNCTYPE(ctypes.c_int32, _INT, _INT, _OBJECT, _OBJECT)
_DEVIATIONS: Final = ctypes.CFUNCTYPE(ctypes.c_int32, _INT, _INT, _OBJECT, _OBJECT, _OBJECT)
_COLUMNS: Final = ctypes.CFUNCTYPE(ctypes.c_int32, _INT, _INT, _INT, _OBJECT, _OBJECT)
_COLUMNS_LIMIT: Final = 8 << 20  # bytes; sixteen columns at a time waste cache lines of tensors beyond it
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_empty: Final = np.empty


class TreeLoop(loops.Loop):
    """The three loops over one element type; None until they are ready."""

    __slots__ = ("rows", "deviations", "columns")

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.rows: Any = None
        self.deviations: Any = None
        self.columns: Any = None

    def _ir(self) -> str:
        return tree_ir.module(self.dtype)

    def _symbols(self) -> list[str]:
        return [f"tree_{part}_{self.dtype}" for part in ("rows", "deviations", "columns")]

    def _take(self, found: dict[str, int]) -> None:
        if loops.data_offset_holds():
            rows, deviations, columns = self._symbols()
            self.deviations, self.columns = _DEVIATIONS(found[deviations]), _COLUMNS(found[columns])
            self.rows = _ROWS(found[rows])  # last: who sees it may use the others


loops.MAKERS["tree"] = TreeLoop
_taken: dict[np.dtype[Any], TreeLoop] = {}


def _loop(dtype: np.dtype[Any]) -> TreeLoop | None:
    """The loops for an element type when they can be used now."""
    loop = _taken.get(dtype)
    if loop is None:
        if dtype not in (_F32, _F64) or not config.current.use_llvm:
            return None
        found = loops.loop_for("tree", dtype.name)
        assert isinstance(found, TreeLoop)
        loop = _taken[dtype] = found
    return loop if loop.rows is not None and config.current.use_llvm else None


def _addressable(x: Any, axes: tuple[int, ...]) -> bool:
    """The generated code reads the array object itself: it must be one (NumPy scalars are not), and have the axes."""
    return type(x) is np.ndarray and bool(axes) and axes[0] >= 0 and axes[-1] < x.ndim


def total(x: _Array, axes: tuple[int, ...]) -> Any:
    """As `trees.total`; None when this call is not for machine code."""
    if not _addressable(x, axes):
        return None
    loop = _loop(x.dtype)
    flags = x.flags
    if loop is None or not x.size or not flags.c_contiguous or not flags.aligned:
        return None
    shape = x.shape
    first, last = axes[0], axes[-1]
    if last - first + 1 != len(axes):
        return None
    if len(axes) == len(shape):
        out = _empty(1, x.dtype)
        return None if loop.rows(1, x.size, id(x), id(out)) else out[0]
    out = _empty(shape[:first] + shape[last + 1 :], x.dtype)
    if last == len(shape) - 1:
        bad = loop.rows(out.size, x.size // out.size, id(x), id(out))
    elif x.nbytes <= _COLUMNS_LIMIT:
        inner = 1
        for d in shape[last + 1 :]:
            inner *= d
        outer = out.size // inner
        bad = loop.columns(outer, x.size // out.size, inner, id(x), id(out))
    else:
        return None
    return None if bad else out


def deviations(x: _Array, axes: tuple[int, ...], mean: Any) -> Any:
    """Tree sums of (x - mean) squared over the last axes, without temporaries; None when this call is not for machine code."""
    if not _addressable(x, axes):
        return None
    loop = _loop(x.dtype)
    flags = x.flags
    if loop is None or not x.size or not flags.c_contiguous or not flags.aligned:
        return None
    if axes[0] != x.ndim - len(axes):
        return None
    centres = np.ascontiguousarray(mean)
    out = _empty(x.shape[: axes[0]], x.dtype)
    if loop.deviations(out.size, x.size // out.size, id(x), id(out), id(centres)):
        return None
    return out if out.ndim else out[()]


numerics.COMPILED_SUMS[:] = [total]
numerics.COMPILED_DEVIATIONS[:] = [deviations]
