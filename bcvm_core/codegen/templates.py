"""Template kernels: the canonical algorithms as machine code, compiled once per machine, one object per op and type.

`kernel_for(op, dtype)` is the door. A kernel whose object is on disk is loaded at once, without a
compiler; otherwise it starts as the NumPy evaluation and a thread compiles, stores and loads it
meanwhile. Both give the same bits, so the change shows in nothing but speed.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .. import config, fpstatus
from ..ops import activations, evaluate, numerics
from ..ops.algorithms import ALGORITHMS
from . import llvm
from . import tree_sums as _tree_sums  # noqa: F401  # its loops join the others
from .loops import MAKERS, Loop, address, compiler_is_there, data_offset_holds, lanes
from .loops import forget as forget
from .loops import loop_for as _any_loop
from .loops import wait as wait
from .rows import kernels as rows

Kernel = Callable[..., Any]

_STRIDED: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_OBJECTS: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_FLOATS: Final = {np.dtype(np.float32): "float32", np.dtype(np.float64): "float64"}
_ndarray: Final = np.ndarray
_empty: Final = np.empty


class TemplateLoop(Loop):
    """The loop of one algorithm over one element type, with NumPy until it is ready.

    Called with two 1-D arrays of that type (any strides), it fills the second and returns the flag word.
    """

    __slots__ = ("strided", "objects", "entry", "_slow")

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.strided: Any = None
        self.objects: Any = None  # (n, id of input, id of output): dense arrays of the same layout
        self.entry = 0  # the address of the loop
        self._slow = evaluate.numpy_loop(op)

    def __call__(self, x: Any, y: Any) -> int:
        if self.strided is None:
            return self._slow(x, y)
        word: int = self.strided(x.size, address(x), x.strides[0], address(y), y.strides[0])
        if word & evaluate.LARGE_BIT:
            evaluate.patch_large(self.op, x, y)
            word &= ~evaluate.LARGE_BIT
        return word

    def _ir(self) -> str:
        return llvm.module([(self.op, self.dtype)], lanes())

    def _symbols(self) -> list[str]:
        return [self.name, f"{self.name}_objects"]

    def _take(self, found: dict[str, int]) -> None:
        """Make functions of the addresses."""
        self.strided = _STRIDED(found[self.name])
        self.entry = found[self.name]
        self.objects = _OBJECTS(found[f"{self.name}_objects"]) if data_offset_holds() else None


MAKERS.update(dict.fromkeys(ALGORITHMS, TemplateLoop))


def loop_for(op: str, dtype: str) -> TemplateLoop:
    """The loop of an algorithm ("exp") over "float32" or "float64", on its way to machine code if it can be."""
    loop = _any_loop(op, dtype)
    assert isinstance(loop, TemplateLoop)
    return loop


def build_all() -> dict[str, str]:
    """Compile and store every loop now; name -> "" or what failed."""
    out = {}
    for op in MAKERS:
        for dtype in filter(functools.partial(MAKERS[op].takes, op), llvm.ELEMENT):
            loop = _any_loop(op, dtype)
            out[loop.name] = loop
    wait()
    return {name: loop.failed for name, loop in out.items()}


# -- kernels -------------------------------------------------------------------------------------


def _plain(op: str, dtype: Any) -> Kernel:
    """The kernel of an algorithm for arguments of `dtype`; others work too, less directly."""
    loop = loop_for(op, _wide(dtype))
    own = np.dtype(_FLOATS[dtype]) if dtype in _FLOATS else None  # NumPy's one object of that type

    def kernel(x: Any, /, *, out: Any = None) -> Any:
        if out is None and type(x) is _ndarray and x.dtype is own and loop.objects is not None and x.ndim:
            flags = x.flags
            if flags.c_contiguous:
                y = _empty(x.shape, own)
            elif flags.f_contiguous:
                y = _empty(x.shape, own, "F")
            else:
                return evaluate.apply(op, loop, x)
            word = loop.objects(x.size, id(x), id(y))
            if word:
                if word & evaluate.LARGE_BIT:
                    evaluate.patch_large(op, x.ravel("K"), y.ravel("K"))
                fpstatus.note_word(word & 15, op)
            return y
        return evaluate.apply(op, _loop_of_type(op, x, loop), x, out)

    kernel.__name__ = kernel.__qualname__ = op
    return kernel


def _loop_of_type(op: str, x: Any, loop: TemplateLoop) -> TemplateLoop:
    """The loop for the type of x; the one at hand unless a kernel is called with a type it was not made for."""
    dtype = getattr(x, "dtype", None)
    wide = _wide(dtype if dtype is not None else np.asarray(x).dtype)
    return loop if wide == loop.dtype else loop_for(op, wide)


def _gelu(dtype: Any) -> Kernel:
    exact, approximate_tanh = _plain("gelu", dtype), _plain("gelu_tanh", dtype)

    def gelu(x: Any, approximate: str = "none", *, out: Any = None) -> Any:
        if approximate not in ("none", "tanh"):
            return activations._gelu(x, approximate)
        return (exact if approximate == "none" else approximate_tanh)(x, out=out)

    return gelu


def _softplus(dtype: Any) -> Kernel:
    plain = _plain("softplus", dtype)

    def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
        return activations._softplus(x, beta, threshold, plain)

    return softplus


def _elu(dtype: Any) -> Kernel:
    expm1 = _plain("expm1", dtype)

    def elu(x: Any, alpha: float = 1.0) -> Any:
        return activations._elu(x, alpha, expm1)

    return elu


_COMPOSED: Final[dict[str, tuple[str, Callable[[Any], Kernel]]]] = {
    "gelu": ("gelu", _gelu),
    "softplus": ("softplus", _softplus),
    "elu": ("expm1", _elu),
}


def kernel_for(op_name: str, dtype: Any) -> Kernel | None:
    """The template kernel of an op for one element type, by the op's calling convention.

    None: the op has no canonical algorithm and is none over rows, the type has none (complex), or code may not or can't be made.
    """
    dtype = np.dtype(dtype)
    if not config.current.use_llvm or (dtype.kind not in "biuf" and dtype != evaluate.BFLOAT16) or dtype.itemsize > 8:
        return None
    composed = _COMPOSED.get(op_name)
    algorithm = composed[0] if composed is not None else op_name
    if algorithm not in ALGORITHMS:
        return rows.kernel_for(op_name, dtype.name)
    loop = loop_for(algorithm, _wide(dtype))
    if loop.failed or not (loop.ready or compiler_is_there()):
        return None
    return composed[1](dtype) if composed is not None else _plain(op_name, dtype)


def _wide(dtype: Any) -> str:
    """The type whose loop serves `dtype`."""
    return _FLOATS.get(evaluate.float_type(dtype), "float32")


def _fast(op: str) -> Callable[[Any], Any]:
    """The same for composed ops, which call algorithms on whatever they have at hand."""
    kernels: dict[Any, Kernel | None] = {}
    slow = evaluate.definition(op)

    def fast(x: Any) -> Any:
        if not config.current.use_llvm:
            return slow(x)
        dtype = x.dtype
        if dtype not in kernels:
            kernels[dtype] = kernel_for(op, dtype)
        return (kernels[dtype] or slow)(x)

    return fast


numerics.FAST.update({op: _fast(op) for op in ALGORITHMS})
