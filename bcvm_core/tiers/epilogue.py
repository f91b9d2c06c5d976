"""A product and its tail at run time: the elementwise ops run on blocks of the product, in place, right after each block was made.

The product has the bits that its op gives by itself: chained products may be cut into blocks as one likes, those of BLAS may not and are
left alone. Anything that this does not know is left to the ops one by one, and so is what meets a floating-point event: nothing but
memory of its own has been written then.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .. import config, dtypes
from ..codegen.products import product as chained
from ..codegen.stencils import kernel as kernels
from ..codegen.stencils.graph import Input, NotFusable
from ..fusion import decisions, epilogue_decisions, epilogues
from ..fusion.groups import Value
from ..ops import products
from .clock import clock
from .fuse import RETRY_NS, WAITING, FusedSite
from .pool import pool

_Array = np.ndarray[Any, Any]
_FLOATS: Final = (np.dtype(np.float32), np.dtype(np.float64))
_MAX_CLASSES: Final = 64
_MAX_APART: Final = 256
_NO_MATRICES: Final = "operands that are no matrices with something to compute"


class EpilogueSite(FusedSite):
    """One epilogue. Call it with the values of `epilogue.inputs`; None: run the ops one by one. Otherwise the value of the one output."""

    __slots__ = ("epilogue", "records", "chosen", "ops", "tails", "apart", "bias", "of_matrices")

    def __init__(self, epilogue: epilogues.Epilogue, *, uniform: bool = False) -> None:
        super().__init__(epilogues.plain_tail(epilogue), uniform=uniform)
        self.epilogue = epilogue
        self.of_matrices = epilogues.only_of_matrices(epilogue)
        self.ops = frozenset((epilogue.op, "bias_add", *self.segment.names))
        self.bias = None if epilogue.bias is None else epilogue.inputs.index(epilogue.bias, 2)
        self.chosen: dict[Any, decisions.Record | None] = {}
        self.records: list[decisions.Record] = []
        self.apart: set[Any] = set()  # shapes of products whose tails are not run here: asked for first
        self.tails: dict[Any, kernels.FusedKernel | None] = {}  # by element type

    def __call__(self, *values: Any) -> Any:
        state = config.plain.value
        if state & config.OFF:
            return None
        if self.of_matrices and type(values[0]) is np.ndarray and values[0].ndim > 2:
            return self._refuse(_NO_MATRICES)
        if state & config.EXCHANGED and not pool.exchanged.isdisjoint(self.ops):
            return self._refuse("one of its ops has kernels or rules of your own")
        x, w, *others = values
        if type(x) is np.ndarray and type(w) is np.ndarray and (x.shape, w.shape, config.current.reproducible) in self.apart:
            return None
        if not all(type(v) is np.ndarray for v in values) or x.dtype not in _FLOATS or any(v.dtype != x.dtype for v in values):
            return self._refuse("operands that are no plain arrays of one type, float32 or float64")
        shape = self._shape(x, w)
        if shape is None or not all(v.ndim for v in others) or (self.bias is not None and values[self.bias].shape != shape[-1:]):
            return self._refuse(_NO_MATRICES)
        flat = [_as_rows(v, shape) for v in others]
        if any(v is None for v in flat):
            return self._refuse(_mismatch(shape, [v.shape for v in others]))
        ours = products.is_chained_weight(x.reshape(-1, x.shape[-1]), w) if self.epilogue.by_weight else config.current.reproducible
        key = (ours, x.dtype.char, *[tuple([n.bit_length() for n in v.shape]) for v in values])
        try:
            record = self.chosen[key]
        except KeyError:
            record = self._decide(key, values, shape)
        if record is None:
            if len(self.apart) < _MAX_APART:
                self.apart.add((x.shape, w.shape, config.current.reproducible))
            return None
        kernel = self._kernel(x.dtype)
        if kernel is None:
            return None
        started = time.perf_counter_ns()
        call = kernel, x, w, flat, (x.size // x.shape[-1], shape[-1])
        made = clock.measure(self, self._run, call) if state & config.WATCHED else self._run(*call)
        if made is None:
            return None
        record.measured.note(time.perf_counter_ns() - started)
        self.calls_before += 1
        return made.reshape(shape)

    @property
    def title(self) -> str:
        return f"policy_{epilogues.POLICY:03d}: {self.epilogue.op}, then {', '.join(self.segment.names)} on its blocks:"

    @property
    def pcs(self) -> tuple[int, ...]:
        return self.epilogue.pcs

    @property
    def names(self) -> tuple[str, ...]:
        return (self.epilogue.op, *self.segment.names)

    def prepare(self, dtype: Any) -> None:
        """Splice the tail's kernel for one element type."""
        if dtype in _FLOATS:
            self._kernel(dtype)

    def _shape(self, x: _Array, w: _Array) -> tuple[int, ...] | None:
        """The shape of the product; None where the op must look at it."""
        if w.ndim != 2 or x.ndim < 2 or not x.size or not w.size or (x.ndim > 2 and self.of_matrices):
            return None
        depth, columns = w.shape[::-1] if self.epilogue.by_weight else w.shape
        return (*x.shape[:-1], columns) if x.shape[-1] == depth else None

    def _decide(self, key: Any, values: Sequence[Any], shape: tuple[int, ...]) -> decisions.Record | None:
        """Whether calls of a size class run here; the decision is kept for whoever asks."""
        described = [Value(v.shape, dtypes.name_of(v.dtype) or "float32", v.flags.forc) for v in values]
        decision = epilogue_decisions.decide(self.epilogue, described, shape, ours=key[0])
        record = decisions.keep(lambda: decision)
        if len(self.chosen) >= _MAX_CLASSES:
            self.chosen.clear()
            self.records.clear()
        self.records.append(record)
        one = decision.chosen is not None and len(decision.chosen.parts) == 1
        self.chosen[key] = record if one else None
        return self.chosen[key]

    def _kernel(self, dtype: Any) -> kernels.FusedKernel | None:
        """The tail's kernel; None while there is none, and where it is no machine code."""
        if dtype in self.tails:
            return self.tails[dtype]
        started = time.perf_counter_ns()
        if started < self.retry_ns:
            return None
        name = dtypes.name_of(dtype) or ""
        inputs = tuple(Input(name, "contiguous") for _ in self.segment.inputs)
        pattern = self._splice(inputs, (dtype,) * len(inputs), started)
        if pattern.kernel is None and WAITING in pattern.reason:
            self.retry_ns = started + RETRY_NS
            return None
        made = self.tails[dtype] = pattern.kernel if type(pattern.kernel) is kernels.FusedKernel else None
        return made

    def _run(self, kernel: kernels.FusedKernel, x: _Array, w: _Array, others: list[Any], shape: tuple[int, int]) -> Any:
        """The tail of the product, as (rows, columns); None where events were met, or the tail gives something else."""
        rows = x.reshape(shape[0], x.shape[-1])
        tail: list[Any] = []

        def after(result: _Array) -> kernels.Blocks | None:
            try:
                tail.append(kernel.blocks([result, *others], result))
            except NotFusable:  # there is no room for code
                tail.append(None)
            return tail[0]  # type: ignore[no-any-return]

        made = chained.multiply(rows, w.T if self.epilogue.by_weight else w, after)
        return None if made is None or not tail or tail[0] is None or tail[0].failed else made


def _mismatch(shape: tuple[int, ...], others: list[tuple[int, ...]]) -> str:
    try:
        full = np.broadcast_shapes(shape, *others)
    except ValueError:
        return f"shape mismatch: {' vs '.join(str(list(s)) for s in (shape, *others))}"
    return f"the tail is of shape {list(full)}, the product {list(shape)}" if full != shape else "an operand of the tail lies otherwise"


def _as_rows(value: _Array, shape: tuple[int, ...]) -> _Array | None:
    """An operand of the tail beside the product seen as rows; None where it is stretched along other axes than the first and last."""
    if value.ndim == 1 or len(shape) == 2:
        return value if value.ndim <= 2 and _fits(value.shape, shape[-value.ndim :]) else None
    if value.shape != shape or not value.flags.c_contiguous:
        return None
    return value.reshape(-1, shape[-1])


def _fits(shape: tuple[int, ...], full: tuple[int, ...]) -> bool:
    return all(n in (1, m) for n, m in zip(shape, full, strict=True))
