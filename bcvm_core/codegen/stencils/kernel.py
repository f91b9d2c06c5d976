"""A fused kernel: code for each way its inputs repeat, and the calls that need more than the native entry knows.

`kernel_for(graph)` makes one; `kernel(arrays, outs)` runs it on arrays of any strides, `kernel.entry`
is the fast door for fresh results. Both give None when floating-point events were met that
somebody wants to hear of, or when Python should do the call itself: nothing has been written then
that the caller can see, except into `outs`.
"""

from __future__ import annotations

import ctypes
import struct
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ... import config, fpstatus
from ...dtypes import BY_NAME
from . import arena, layout, threads
from . import offsets as c
from .allocate import allocate
from .driver import driver
from .graph import FusedGraph, NotFusable
from .library import is_ready, obstacle, splicer
from .lower import Computed, Lowered, facts, lower
from .splice import Splicer
from .target import host

_ndarray: Final = np.ndarray
LARGE_NS: Final = 800_000  # calls that take longer than this run on several cores
RELEASE_NS: Final = 40_000  # calls that take longer than this give the interpreter's lock away
_PIECE_NS: Final = 100_000
_UNLIMITED: Final = 1 << 62


class Code:
    """Spliced code; its memory goes back when nobody holds this object any more."""

    __slots__ = ("address", "context_bytes", "size", "_at", "_arena", "_splicer", "__weakref__")

    def __init__(self, maker: Splicer, lowered: Lowered, repeated: tuple[bool, ...]) -> None:
        """Raises NotFusable when there is no room for code."""
        target = host()
        assert target is not None
        body = allocate(lowered, repeated, target.slots, target.slot_bytes)
        try:
            self._at, self.size = maker.splice(body)
        except arena.ArenaError as error:
            raise NotFusable(str(error)) from error
        self._arena, self._splicer = maker.arena, maker
        self.address = maker.arena.base + self._at
        self.context_bytes = body.context_bytes

    def __del__(self) -> None:
        place = getattr(self, "_arena", None)
        if place is not None:
            place.free(self._at, self.size)


class FusedKernel:
    """The compiled form of a graph. Calls are thread-safe."""

    def __init__(self, graph: FusedGraph) -> None:
        """Raises NotFusable with the reason."""
        self.graph = graph
        self._entry: Callable[[], Any] | None = None
        self.lowered = lower(graph)
        self._splicer = splicer(self.lowered.width)
        self._driver = driver()
        if self._driver.drive is None:
            raise NotFusable(self._driver.failed or "the code around kernels is being compiled")
        self.constants = ctypes.create_string_buffer(struct.pack(f"<{len(self.lowered.constants)}Q", *self.lowered.constants) or b"\0" * 8)
        self.codes: dict[int, Code] = {}
        self.inputs = [BY_NAME[x.dtype].numpy for x in graph.inputs]
        self.outputs = [BY_NAME[dtype].numpy for dtype in self.lowered.dtypes]
        self.ns_per_element = cost_ns(self.lowered)
        self.limit = int(LARGE_NS / self.ns_per_element) if threads.cores() > 1 else _UNLIMITED
        self.release = int(RELEASE_NS / self.ns_per_element)
        self.code(sum(1 << k for k, x in enumerate(graph.inputs) if x.layout in ("scalar", "column")))

    @property
    def entry(self) -> Callable[..., Any]:
        """`entry(*arrays)`: native where the interpreter's layout is known, else `call`."""
        found: Callable[..., Any] | None = None if self._entry is None else self._entry()
        if found is None:
            from .entry import entry_for

            found = entry_for(self)
            if not isinstance(found, types.MethodType):
                self._entry = weakref.ref(found)  # it holds this object, so the other way would be a circle
        return found

    def code(self, repeated: int) -> Code:
        """The code for a set of inputs (bits) that have one element all along the inner axis. Raises NotFusable."""
        found = self.codes.get(repeated)
        if found is None:
            # Constants are data: graphs that differ in them share code. Pointers of outputs lie behind those of all inputs, even unread.
            key = (self.lowered.values, self.lowered.stores, len(self.inputs), repeated)
            found = self._splicer.codes.get(key)
            if found is None:
                flags = tuple([bool(repeated >> k & 1) for k in range(len(self.inputs))])
                found = self._splicer.codes[key] = Code(self._splicer, self.lowered, flags)
            self.codes[repeated] = found
        return found

    # -- calls ----------------------------------------------------------------------------------

    def call(self, *arrays: Any) -> Any:
        """Fresh results for these arrays, or None; scalars and anything that is not a plain array of the right type: None."""
        return self(arrays)

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any] | None = None) -> Any:
        """Results for these arrays: a fresh array (a tuple for several outputs), or `outs` filled in.

        An output may be exactly one of the inputs; other overlaps must not be. None: see the module.
        """
        done = self.outcome(arrays, outs)
        if done is None:
            return None
        made, word, status = done
        if word or status & c.HARD:
            return None
        if status and not underflow_ignored():
            return None
        return made[0] if len(made) == 1 else tuple(made)

    def outcome(self, arrays: Sequence[Any], outs: Sequence[Any] | None = None) -> tuple[list[Any], int, int] | None:
        """(outputs, events that algorithms noted, floating-point status): what a call computes before anybody judges it."""
        plan = self.plan(arrays, outs)
        if plan is None:
            return None
        made, job, pieces = plan
        return made, *self._run(job, pieces)

    def plan(self, arrays: Sequence[Any], outs: Sequence[Any] | None) -> Any:
        """(outputs, job, pieces of the job), or None where the arrays don't fit."""
        shape = fitting_shape(arrays, self.inputs)
        made = None if shape is None else self._outputs(arrays, outs, shape)
        if made is None or shape is None:
            return None
        wide = [x if x.shape == shape else np.broadcast_to(x, shape) for x in arrays]
        dims, strides = _axes(shape, [x.strides for x in (*wide, *made)])
        if len(dims) > c.MAX_DIMS:
            return None
        return made, *self._job([x.__array_interface__["data"][0] for x in (*wide, *made)], dims, strides)

    def _outputs(self, arrays: Sequence[Any], outs: Sequence[Any] | None, shape: tuple[int, ...]) -> list[Any] | None:
        if outs is None:
            return layout.empty_outputs(self.graph, list(arrays), shape, self.outputs)
        if len(outs) != len(self.outputs):
            return None
        for out, dtype in zip(outs, self.outputs, strict=True):
            if type(out) is not _ndarray or out.dtype != dtype or out.shape != shape or not out.flags.writeable:
                return None
        return list(outs)

    def _job(self, pointers: list[int], dims: list[int], strides: list[list[int]]) -> tuple[Any, list[Any]]:
        """The job, and its parts where it is large."""
        sizes = [dtype.itemsize for dtype in (*self.inputs, *self.outputs)]
        count = len(self.inputs)
        repeated, modes = 0, []
        for k, size in enumerate(sizes):
            inner = strides[k][-1]
            if inner == 0 and k < count:
                repeated |= 1 << k
                modes.append(0)
            else:
                modes.append(0 if inner == size else 1 if k < count else 2)
        code = self.code(repeated)
        common = (code, self.constants, modes, sizes, self._driver.mode())  # pieces run in the mode of the caller
        elements = 1
        for dim in dims:
            elements *= dim
        if elements <= self.limit:
            return common, [(pointers, dims, strides)]
        return common, list(_split(pointers, dims, strides, max(1, int(_PIECE_NS / self.ns_per_element))))

    def _run(self, common: Any, pieces: list[Any]) -> tuple[int, int]:
        """Run all pieces: (events noted, floating-point status)."""
        word = status = 0
        drive = self._driver.drive

        def run(piece: Any) -> None:
            nonlocal word, status
            job, kept = _packed(common, piece)
            drive(ctypes.addressof(job))
            word |= struct.unpack_from("<q", job, c.J_WORD)[0]
            status |= struct.unpack_from("<q", job, c.J_STATUS)[0]
            del kept

        if len(pieces) == 1:
            run(pieces[0])
        else:
            threads.workers.run(run, pieces, threads.cores())
        return word, status


def fitting_shape(arrays: Sequence[Any], dtypes: Sequence[Any]) -> tuple[int, ...] | None:
    """The full shape of arrays of these types; None where they are others, or there is nothing to compute."""
    if len(arrays) != len(dtypes):
        return None
    for x, dtype in zip(arrays, dtypes, strict=True):
        if type(x) is not _ndarray or x.dtype != dtype:
            return None
    shape: tuple[int, ...] = arrays[0].shape
    if any(x.shape != shape for x in arrays):
        try:
            shape = np.broadcast_shapes(*(x.shape for x in arrays))
        except ValueError:
            return None
    return None if not shape or 0 in shape else shape


def _packed(common: Any, piece: Any) -> tuple[Any, Any]:
    """A job in memory, and what must live as long."""
    code, constants, modes, sizes, mode = common
    pointers, dims, strides = piece
    count, ndim = len(pointers), len(dims)
    padded = [value for row in strides for value in (*row, *(0,) * (c.MAX_DIMS - ndim))]
    arrays = [(ctypes.c_int64 * len(values))(*values) for values in (dims, pointers, padded, modes, sizes)]
    at = [ctypes.addressof(a) for a in arrays]
    job = ctypes.create_string_buffer(
        struct.pack(
            "<13q",
            code.address,
            ctypes.addressof(constants),
            code.context_bytes,
            ndim,
            at[0],
            count,
            at[1],
            at[2],
            at[3],
            at[4],
            0,
            0,
            mode,
        )
    )
    return job, (arrays, code, constants)


def _axes(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """Axes from the slowest to the fastest of the first output, neighbours joined where all operands step evenly."""
    out = strides[-1]
    order = sorted((axis for axis in range(len(shape)) if shape[axis] != 1), key=lambda axis: -abs(out[axis]))
    dims: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis in order:
        dim = shape[axis]
        if dims and all(s[-1] == per[axis] * dim for s, per in zip(steps, strides, strict=True)):
            dims[-1] *= dim
            for s, per in zip(steps, strides, strict=True):
                s[-1] = per[axis]
        else:
            dims.append(dim)
            for s, per in zip(steps, strides, strict=True):
                s.append(per[axis])
    if not dims:
        return [1], [[0] for _ in strides]
    return dims, steps


def _split(pointers: list[int], dims: list[int], strides: list[list[int]], target: int) -> Any:
    """Parts of about `target` elements, along the slowest axis (in multiples of 4,096 elements where there is only one)."""
    rest = 1
    for dim in dims[1:]:
        rest *= dim
    step = max(1, target // rest) if rest > 1 else max(4096, target & -4096)
    for start in range(0, dims[0], step):
        moved = [p + start * s[0] for p, s in zip(pointers, strides, strict=True)]
        yield moved, [min(step, dims[0] - start), *dims[1:]], strides


def cost_ns(lowered: Lowered) -> float:
    """About how long an element takes; only to tell large calls from small ones."""
    total = 0.05 * (len(lowered.values) + len(lowered.stores))
    known = facts()
    for value in lowered.values:
        if type(value) is Computed and not known[value.primitive].hot:
            total += 0.5
    return total


def underflow_ignored() -> bool:
    """Whether the user's error state ignores underflow."""
    return fpstatus.modes()["underflow"] == "ignore"


def kernel_for(graph: FusedGraph) -> FusedKernel:
    """A fused kernel. Raises NotFusable with the reason (also while stencils are still being compiled)."""
    knobs = config.current
    if not (knobs.use_llvm and knobs.fusion_engine == "auto" and is_ready()) and engine()[0] == "tape":
        from .tape import TapeKernel

        return TapeKernel(graph)
    return FusedKernel(graph)


def engine() -> tuple[str, str]:
    """("stencils", "") or ("tape", why): how graphs are fused in this process."""
    if config.current.fusion_engine == "tape":
        return "tape", "asked for by BCVM_FUSION_ENGINE"
    reason = obstacle()
    return ("tape", reason) if reason else ("stencils", "")
