"""Which kernels an op has without anyone adding any, and how they are chosen by default.

Exact ops run the installed NumPy. The others have one canonical algorithm: a generated kernel
where there is one for the element type, else its NumPy formulation; both give the same bits, so
the choice is one of speed alone.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .. import config, dtypes
from ..isa.signature import PYTHON_SCALARS, Signature
from ..ops import conv, heads, nn, pooling, products
from ..ops.algorithms import ALGORITHMS
from ..ops.registry import OpInfo
from .attending_again import Again
from .selection import SelectionProgram, always


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A ready kernel. `accepts` says which signatures it takes (None: all of its op)."""

    name: str  # "exp.template.float32"; unique in the pool
    op: str
    fn: Callable[..., Any]
    origin: str  # "numpy", "blas", "tree", "template", "scalar", "user"
    doc: str = ""
    accepts: Callable[[Signature], bool] | None = None


def is_scalar_call(signature: Signature) -> bool:
    """Whether all operands are Python values."""
    return bool(signature.operands) and all(c.dtype in PYTHON_SCALARS for c in signature.operands)


_WAYS: dict[str, tuple[str, str, str]] = {
    "matmul": ("blas", "blas", "BLAS through numpy; other element types by NumPy's loops"),
    "conv": ("windows", "blas", "windows as a matrix, then one BLAS product; conv2d of float32 by oneDNN where there is one"),
    "reduce": ("tree", "tree", "64 partial sums per block of 1,024, blocks pairwise"),
}


def _convolve(x: Any, weight: Any, bias: Any, geometry: conv.Geometry) -> Any:
    """What `ops.conv.by_library` says; the code for it is loaded at the first convolution."""
    from ..codegen.onednn.convolution import convolve

    conv.by_library = convolve
    return convolve(x, weight, bias, geometry)


conv.by_library = _convolve


def _normalise(x: Any, steps: Any) -> Any:
    """What `ops.nn.by_kernel` says; its code is loaded at the first call."""
    from .normalising import normalise

    nn.by_kernel = normalise
    return normalise(x, steps)


nn.by_kernel = _normalise


def _largest(images: Any, rows: Any, columns: Any) -> Any:
    """What `ops.pooling.by_kernel` says; its code is loaded at the first call."""
    from ..codegen.pooling.maxima import largest_of_windows

    pooling.by_kernel = largest_of_windows
    return largest_of_windows(images, rows, columns)


pooling.by_kernel = _largest


def _attend(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float) -> Any:
    """What `ops.heads.by_kernel` says; the code for it is loaded at the first call."""
    from .attending import attend

    heads.by_kernel = attend
    return attend(q, k, v, mask, causal, scale)


heads.by_kernel = _attend
heads.attention.direct = Again()  # type: ignore[attr-defined]


def _multiply(a: Any, b: Any) -> Any:
    """What `ops.products.by_kernel` says; its code is loaded at the first product that asks for it."""
    from ..codegen.products.product import multiply

    products.by_kernel = multiply
    return multiply(a, b)


def _layer(x: Any, weight: Any, bias: Any) -> Any:
    """What `ops.products.layer_by_kernel` says, likewise."""
    from ..codegen.products.product import layer

    products.layer_by_kernel = layer
    return layer(x, weight, bias)


products.by_kernel = _multiply
products.layer_by_kernel = _layer


def _standing_way(op: OpInfo) -> tuple[str, str, str]:
    """(last part of the name, origin, doc) of the kernel that is the op's definition."""
    way = _WAYS.get(op.shape_rule)
    if way is not None and not (op.shape_rule == "reduce" and op.exact):
        return way
    return ("numpy", "numpy", "the installed NumPy" if op.exact else "the canonical algorithm in NumPy primitives")


def standing(op: OpInfo) -> tuple[KernelEntry, ...]:
    """The kernels that every process has for an op."""
    suffix, origin, doc = _standing_way(op)
    entries: tuple[KernelEntry, ...] = (KernelEntry(f"{op.name}.{suffix}", op.name, op.definition, origin, doc),)
    if op.scalar is not None:
        entries += (KernelEntry(f"{op.name}.scalar", op.name, op.scalar, "scalar", "Python's operator", is_scalar_call),)
    return entries


_AS_TENSOR = {"pybool": "bool", "pyint": "int64", "pyfloat": "float64"}  # what NumPy's functions make of a Python value


def _element_type(op: OpInfo, signature: Signature) -> str | None:
    """The one element type of all operands, None when they differ."""
    if op.name in _BY_FIRST and signature.operands:
        return signature.operands[0].dtype
    names = {_AS_TENSOR.get(c.dtype, c.dtype) for c in signature.operands}
    return names.pop() if len(names) == 1 else None


def operand_count(op: OpInfo) -> int | None:
    """How many operands a selection program of an op may look at: the required ones; None when there is no limit."""
    return None if any(p.role == "tensors" for p in op.params) else len(op.operands)


def makes_templates(op: OpInfo) -> bool:
    """Whether kernels of an op are generated, one per element type."""
    generated = op.name in _OVER_ROWS or (not op.exact and op.name in ALGORITHMS)
    return generated and config.current.use_llvm and _compiler_is_there()


_OVER_ROWS = frozenset(
    (
        "softmax log_softmax logsumexp layer_norm layer_norm_parts rms_norm group_norm instance_norm cross_entropy "
        "sum prod mean var std argmax argmin cumsum cumprod"
    ).split()
)
_BY_FIRST = frozenset(("cross_entropy",))  # kernels for the type of the first operand


@functools.cache
def _compiler_is_there() -> bool:
    return importlib.util.find_spec("llvmlite") is not None


def _template(op: OpInfo, dtype_name: str) -> KernelEntry | None:
    if not config.current.use_llvm or (op.exact and op.name not in _OVER_ROWS):
        return None
    try:
        templates = importlib.import_module("bcvm_core.codegen.templates")
    except ImportError:  # llvmlite is missing: the NumPy formulation gives the same bits
        return None
    fn = templates.kernel_for(op.name, dtypes.BY_NAME[dtype_name].numpy)
    if fn is None:
        return None

    def accepts(signature: Signature) -> bool:
        return _element_type(op, signature) == dtype_name

    return KernelEntry(f"{op.name}.template.{dtype_name}", op.name, fn, "template", "generated once for the element type", accepts)


def generated(op: OpInfo, signature: Signature) -> tuple[KernelEntry, ...]:
    """The generated kernels that take a signature."""
    name = _element_type(op, signature)
    entry = None if name not in dtypes.BY_NAME else _template(op, str(name))
    return () if entry is None else (entry,)


def prepare(name: str, adopt: Callable[[KernelEntry], None]) -> None:
    """Make the generated kernel called `name` ("exp.template.float32"), if that is what the name says."""
    op_name, _, rest = name.partition(".")
    origin, _, dtype_name = rest.partition(".")
    if origin == "template" and dtype_name in dtypes.BY_NAME:
        from ..ops import registry

        entry = _template(registry.row(op_name), dtype_name)
        if entry is not None:
            adopt(entry)


def default_program(op: OpInfo, signature: Signature, accepting: Iterable[KernelEntry]) -> SelectionProgram:
    """The selection program of a signature for which nobody set one: the first kernel that takes it."""
    entries = sorted(accepting, key=lambda e: e.origin == "scalar")  # Python's operator is taken by call sites, not by signature
    return always(entries[0].name)
