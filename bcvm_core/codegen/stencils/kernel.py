"""A fused kernel: code for each way its inputs repeat, and the calls that need more than the native entry knows.

`kernel_for(graph)` makes one; `kernel(arrays, outs)` runs it on arrays of any strides, `kernel.entry`
is the fast door for fresh results. Both give None when floating-point events were met that
somebody wants to hear of, or when Python should do the call itself: nothing has been written then
that the caller can see, except into `outs`.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
import time
import types
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, Protocol

import numpy as np

from ... import config, fpstatus
from ...dtypes import BY_NAME
from ..loops import address
from . import arena, layout, threads
from . import crew as crews
from . import offsets as c
from .driver import driver
from .graph import FusedGraph, NotFusable
from .library import is_ready, obstacle, splicer
from .lower import Computed, Lowered, facts, lower
from .splice import Form, Splicer

_ndarray: Final = np.ndarray
LARGE_NS: Final = 150_000  # calls that take longer than this may run on several cores
RELEASE_NS: Final = 40_000  # calls that take longer than this give the interpreter's lock away
_PIECE_NS: Final = 20_000, 100_000  # at least and at most, and
_PIECES: Final = 3  # per thread, if they are no larger
_MAX_LAYOUTS: Final = 64
_PATIENCE_NS: Final = 20_000_000  # an interrupt waits no longer than this for the next piece, even on one core
Director = Callable[["FusedKernel", Sequence[Any]], Any]  # (kernel, arrays) -> what the call gives
Piece = tuple[list[int], list[int], list[list[int]]]  # pointers, dims, strides
RunPiece = Callable[[Any, Piece], tuple[int, int]]  # (what pieces share, piece) -> events noted, floating-point status


class Heat(Protocol):
    """Runs plans in the place of `FusedKernel.run`, and may have other code for them."""

    def __call__(self, kernel: FusedKernel, made: list[Any], common: Any, pieces: list[Piece], cores: int) -> tuple[int, int]:
        """Fill in the results `made`: (events noted, floating-point status)."""
        ...

    def lines(self) -> list[str]:
        """What became of them, for people."""
        ...

    @property
    def recompiled(self) -> bool:
        """Whether other code runs some of them."""
        ...


_NUMPY: Final = {name: row.numpy for name, row in BY_NAME.items()}


@cache
def _entry_maker() -> Callable[[FusedKernel], Callable[..., Any]]:
    from .entry import entry_for  # which is about kernels, so it cannot be there before this module

    return entry_for


@cache
def _words(count: int) -> Any:
    """The type of so many 64-bit numbers in memory."""
    return ctypes.c_uint64 * count


class _Block:
    """A block of the arena; it goes back with this object, which only its `Code` refers to.

    A finaliser of `Code` itself would run before weak references to it are cleared, and whoever found it
    through one meanwhile would run code whose place is taken by other code.
    """

    __slots__ = ("_arena", "_at", "_size")

    def __init__(self, place: arena.Arena, at: int, size: int) -> None:
        self._arena, self._at, self._size = place, at, size

    def __del__(self) -> None:
        if not sys.is_finalizing():  # modules may be gone then
            self._arena.free(self._at, self._size)


class Placed:
    """Code of another making in the arena, called as spliced code is; its memory goes back with this object."""

    __slots__ = ("address", "context_bytes", "size", "_block", "__weakref__")

    def __init__(self, image: bytes, start: int, context_bytes: int) -> None:
        """`image` runs wherever it lies, from its offset `start` on. Raises NotFusable when there is no room for code."""
        try:
            place = arena.shared()
            at = place.put(image)
        except arena.ArenaError as error:
            raise NotFusable(str(error)) from error
        self._block, self.size, self.context_bytes = _Block(place, at, len(image)), len(image), context_bytes
        self.address = place.base + at + start


class Code:
    """Spliced code; its memory goes back when nobody holds this object any more."""

    __slots__ = ("address", "context_bytes", "size", "_block", "_splicer", "__weakref__")

    def __init__(self, maker: Splicer, form: Form) -> None:
        """Raises NotFusable when there is no room for code."""
        try:
            at, self.size, self.context_bytes = maker.splice(form)
        except arena.ArenaError as error:
            raise NotFusable(str(error)) from error
        self._block, self._splicer = _Block(maker.arena, at, self.size), maker
        self.address = maker.arena.base + at


class FusedKernel:
    """The compiled form of a graph. Calls are thread-safe.

    Calls of more than `limit` elements, and those that the native entry does not know, come to `call`, which a `director` may take over.
    Both are set before `entry` is asked for. What runs then runs through `heat`, where there is one, which may have better code.
    `learnt` is told of code that a call makes since other inputs repeat than before: which do, and what it took in microseconds.
    """

    director: Director | None = None
    heat: Heat | None = None
    learnt: Callable[[int, float], None] | None = None

    def __init__(self, graph: FusedGraph) -> None:
        """Raises NotFusable with the reason."""
        self.graph = graph
        self._entry: Callable[[], Any] | None = None
        self._layouts: dict[Any, tuple[Any, list[list[int]]]] = {}  # of operands of `blocks`
        self.lowered = lower(graph)
        self._splicer = splicer(self.lowered.width)
        self._driver = driver()
        if self._driver.drive is None:
            raise NotFusable(self._driver.failed or "the code around kernels is being compiled")
        constants = self.lowered.constants or (0,)
        self.constants = _words(len(constants))(*constants)
        self.codes: dict[int, Code] = {}
        self.form: Form | None = None  # of the first code: graphs that share it differ in constants at most
        self.inputs = [_NUMPY[dtype] for dtype, _ in graph.inputs]
        self.outputs = [_NUMPY[dtype] for dtype in self.lowered.dtypes]
        self.ns_per_element = cost_ns(self.lowered)
        self.limit = int((LARGE_NS if threads.cores() > 1 else _PATIENCE_NS) / self.ns_per_element)
        self.release = int(RELEASE_NS / self.ns_per_element)
        repeated = 0
        for k, (_, how) in enumerate(graph.inputs):
            if how in ("scalar", "column"):
                repeated |= 1 << k
        self.code(repeated)

    @property
    def entry(self) -> Callable[..., Any]:
        """`entry(*arrays)`: native where the interpreter's layout is known, else `call`."""
        found: Callable[..., Any] | None = None if self._entry is None else self._entry()
        if found is None:
            found = _entry_maker()(self)
            if not isinstance(found, types.MethodType):
                self._entry = weakref.ref(found)  # it holds this object, so the other way would be a circle
        return found

    def code(self, repeated: int) -> Code:
        """The code for a set of inputs (bits) that have one element all along the inner axis. Raises NotFusable."""
        found = self.codes.get(repeated)
        if found is None:
            started = time.perf_counter_ns()
            form = self._splicer.form(self.lowered, repeated, len(self.inputs))  # constants are data: graphs that differ in them share it
            self.form = self.form or form
            found = self._splicer.held(form)
            if found is None:
                found = Code(self._splicer, form)
                self._splicer.hold(form, found)
            self.codes[repeated] = found
            if self.learnt is not None:
                self.learnt(repeated, (time.perf_counter_ns() - started) / 1000)
        return found

    # -- calls ----------------------------------------------------------------------------------

    def blocks(self, arrays: Sequence[Any], out: Any) -> Blocks | None:
        """The call on blocks of matrices, into `out` (one of `arrays`, or apart from them); None where they don't fit."""
        key = tuple([(x.shape, x.strides, x.dtype.char) for x in (*arrays, out)])
        found = self._layouts.get(key)
        if found is None:
            if fitting_shape(arrays, self.inputs) != out.shape or self.outputs != [out.dtype] or out.ndim != 2:
                return None
            wide = [x if x.shape == out.shape else np.broadcast_to(x, out.shape) for x in (*arrays, out)]
            strides = [list(x.strides) for x in wide]
            common, _ = self._job([0] * len(wide), list(out.shape), strides, 1)
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            found = self._layouts[key] = ((*common[:4], 0), strides)
        return Blocks(found[0], found[1], (*arrays, out))

    def call(self, *arrays: Any) -> Any:
        """Fresh results for these arrays, or None; scalars and anything that is not a plain array of the right type: None."""
        return self(arrays) if self.director is None else self.director(self, arrays)

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any] | None = None, cores: int | None = None) -> Any:
        """Results for these arrays: a fresh array (a tuple for several outputs), or `outs` filled in.

        An output may be exactly one of the inputs; other overlaps must not be. `cores`: 1, or several that take blocks in turn; None:
        several for calls of more than `limit` elements. None as a result: see the module.
        """
        done = self.outcome(arrays, outs, cores)
        if done is None:
            return None
        made, word, status = done
        if unwelcome(word, status):
            return None
        return made[0] if len(made) == 1 else tuple(made)

    def outcome(
        self, arrays: Sequence[Any], outs: Sequence[Any] | None = None, cores: int | None = None
    ) -> tuple[list[Any], int, int] | None:
        """(outputs, events that algorithms noted, floating-point status): what a call computes before anybody judges it."""
        plan = self.plan(arrays, outs, cores)
        if plan is None:
            return None
        made, job, pieces = plan
        cores = threads.cores() if cores is None else cores
        if self.heat is not None:
            return made, *self.heat(self, made, job, pieces, cores)
        return made, *self.run(job, pieces, cores)

    def plan(self, arrays: Sequence[Any], outs: Sequence[Any] | None, cores: int | None = None) -> Any:
        """(outputs, job, pieces of the job), or None where the arrays don't fit."""
        shape = fitting_shape(arrays, self.inputs)
        made = None if shape is None else self._outputs(arrays, outs, shape)
        if made is None or shape is None:
            return None
        wide = [x if x.shape == shape else np.broadcast_to(x, shape) for x in arrays]
        dims, strides = _axes(shape, [x.strides for x in (*wide, *made)])
        if len(dims) > c.MAX_DIMS:
            return None
        return made, *self._job([address(x) for x in (*wide, *made)], dims, strides, cores)

    def _outputs(self, arrays: Sequence[Any], outs: Sequence[Any] | None, shape: tuple[int, ...]) -> list[Any] | None:
        if outs is None:
            return layout.empty_outputs(self.graph, list(arrays), shape, self.outputs)
        if len(outs) != len(self.outputs):
            return None
        for out, dtype in zip(outs, self.outputs, strict=True):
            if type(out) is not _ndarray or out.dtype != dtype or out.shape != shape or not out.flags.writeable:
                return None
        return list(outs)

    def _job(self, pointers: list[int], dims: list[int], strides: list[list[int]], cores: int | None) -> tuple[Any, list[Any]]:
        """The job, and its parts where several cores do it, or it takes so long that an interrupt must be heard meanwhile."""
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
        code = self._code_for(repeated, dims, modes)
        common = (code, self.constants, modes, sizes, self._driver.mode())  # pieces run in the mode of the caller
        elements = 1
        for dim in dims:
            elements *= dim
        alone = cores == 1 or threads.cores() == 1 or (cores is None and not self.shared(elements))
        piece_ns = float(_PATIENCE_NS)
        if not alone:
            least, most = _PIECE_NS
            piece_ns = min(most, max(least, elements * self.ns_per_element / (_PIECES * threads.cores())))
        piece = max(1, int(piece_ns / self.ns_per_element))
        if alone and elements <= piece:
            return common, [(pointers, dims, strides)]
        return common, list(split(pointers, dims, strides, piece))

    def _code_for(self, repeated: int, dims: list[int], modes: list[int]) -> Code:
        """The code for repeated inputs; few elements go through code that is there, and `modes` are changed (as in `general_code.py`)."""
        if repeated not in self.codes and len(dims) == 1 and dims[0] <= c.GATHERED_MAX:
            for mask, code in sorted(self.codes.items()):
                if not mask & ~repeated:
                    for k in range(len(self.inputs)):
                        if (repeated & ~mask) >> k & 1:
                            modes[k] = 1
                    return code
        return self.code(repeated)

    def shared(self, elements: int) -> bool:
        """Whether a call of so many elements is one for several threads now."""
        return elements > self.limit and crews.crew.worth(elements * self.ns_per_element)

    def run(self, common: Any, pieces: list[Any], cores: int, run_piece: RunPiece | None = None) -> tuple[int, int]:
        """Run all pieces: (events noted, floating-point status)."""
        word = status = 0
        one = run_piece or self.run_piece

        def run(piece: Any) -> None:
            nonlocal word, status
            noted, raised = one(common, piece)
            word |= noted
            status |= raised

        if len(pieces) == 1 or cores == 1:
            for piece in pieces:
                run(piece)
        elif run_piece is not None:
            threads.workers.run(run, pieces, cores)
        else:
            return self._together(common, pieces)
        return word, status

    def _together(self, common: Any, pieces: list[Any]) -> tuple[int, int]:
        """Run all pieces by the crew: (events noted, floating-point status)."""
        jobs, _kept = _packed_together(common, pieces)
        elements = sum([math.prod(dims) for _, dims, _ in pieces])
        crews.crew.run(self._driver.addresses["drive"], crews.over(jobs), ns=elements * self.ns_per_element)
        word, status = np.bitwise_or.reduce(jobs[:, c.J_WORD // 8 : c.J_STATUS // 8 + 1], axis=0).tolist()
        return word, status

    def run_piece(self, common: Any, piece: Any) -> tuple[int, int]:
        """Run one piece by the code that `common` begins with."""
        job, kept = _packed(common, piece)
        self._driver.drive(ctypes.addressof(job))
        del kept
        return struct.unpack_from("<q", job, c.J_WORD)[0], struct.unpack_from("<q", job, c.J_STATUS)[0]

    def form_of(self, repeated: int) -> tuple[int, Form]:
        """What code for a set of repeated inputs depends on: the same for all kernels that do the same."""
        return self.lowered.width, self._splicer.form(self.lowered, repeated, len(self.inputs))


class Blocks:
    """A call on a matrix that other code does block by block; it holds its operands."""

    __slots__ = ("common", "pointers", "strides", "operands", "word", "status")

    def __init__(self, common: Any, strides: list[list[int]], operands: tuple[Any, ...]) -> None:
        self.common, self.strides, self.operands = common, strides, operands
        self.pointers = [address(x) for x in operands]
        self.word = self.status = 0

    def block(self, row: int, end: int, column: int, last: int) -> tuple[list[int], Any, Any]:
        """(where operands begin, a job for rows `row` to `end` and columns `column` to `last`, what must live as long)."""
        starts = [p + row * down + column * along for p, (down, along) in zip(self.pointers, self.strides, strict=True)]
        job, kept = _packed(self.common, (starts, [end - row, last - column], self.strides))
        return starts, job, kept

    def note(self, word: int, status: int) -> None:
        """What a job met."""
        self.word |= word
        self.status |= status

    @property
    def failed(self) -> bool:
        """Whether somebody must hear of what was met: the results are not to be used."""
        return unwelcome(self.word, self.status)


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


def _packed_together(common: Any, pieces: list[Any]) -> tuple[Any, Any]:
    """The jobs of pieces that differ in places and lengths alone, a row each, and what must live as long."""
    code, constants, modes, sizes, mode = common
    _, dims, strides = pieces[0]
    count, ndim = len(strides), len(dims)
    steps = np.zeros((count, c.MAX_DIMS), np.int64)
    steps[:, :ndim] = strides
    shared = (steps, np.array(modes, np.int64), np.array(sizes, np.int64))
    lengths, places = (np.array([piece[k] for piece in pieces], np.int64) for k in (1, 0))
    at = [address(x) for x in shared]
    jobs = np.zeros((len(pieces), c.J_MODE // 8 + 1), np.int64)
    jobs[:] = (code.address, ctypes.addressof(constants), code.context_bytes, ndim, 0, count, 0, *at, 0, 0, mode)
    for offset, x in ((c.J_DIMS, lengths), (c.J_POINTERS, places)):
        jobs[:, offset // 8] = address(x) + np.arange(len(pieces)) * x.strides[0]
    return jobs, (shared, lengths, places, code, constants)


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


def split(pointers: list[int], dims: list[int], strides: list[list[int]], target: int) -> Any:
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
    known = facts()
    slow = sum([type(value) is Computed and not known[value.primitive].hot for value in lowered.values])
    return 0.05 * (len(lowered.values) + len(lowered.stores)) + 0.5 * slow


def unwelcome(word: int, status: int) -> bool:
    """Whether somebody must hear of events: those that were noted (`word`), and those that the processor raised."""
    return bool(word or status & c.HARD) or (status != 0 and not underflow_ignored())


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
