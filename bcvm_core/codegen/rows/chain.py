"""A chain of kernels as a function of arrays: elementwise kernels and kernels over rows, a block of rows at a time.

`Chain(plan)` holds the stages of a plan; `chain.entry` is called with arrays and gives fresh results, or None where Python must do the
call op by op. What lies between two stages stays in the cache. The native function takes arrays like those of the plan up to a size;
larger calls come back to Python and are cut up among threads, others are handed on to `otherwise`.
"""

from __future__ import annotations

import ctypes
import math
import struct
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from ...dtypes import BY_NAME
from ..loops import address
from ..scratch import Scratch
from ..stencils import crew as crews
from ..stencils import offsets as c
from ..stencils import threads
from ..stencils.driver import driver
from ..stencils.entry import method_at, new_function, runtime
from ..stencils.kernel import LARGE_NS, RELEASE_NS, FusedKernel, underflow_ignored, unwelcome
from ..stencils.recycle import empty
from .entry import PIECES, _result_shape
from .loop import RowLoop, row_loop

_FASTCALL: Final = 0x80
_BYTE: Final = np.dtype(np.uint8)
PARTED: Final = {  # what reduces a part of a row, and what puts results of parts together
    "sum": ("sum", "paired_sums"),
    "prod": ("prod", "paired_products"),
    "mean": ("sum", "paired_mean"),
    "max": ("max", "max"),
    "min": ("min", "min"),
    "any": ("any", "any"),
    "all": ("all", "all"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stage's operand is: "input", "buffer" or "output" of a number."""

    kind: str
    number: int

    @property
    def code(self) -> int:
        return {"input": 0, "buffer": c.FIRST_BUFFER, "output": c.FIRST_OUTPUT}[self.kind] + self.number


@dataclass(frozen=True, slots=True)
class Elements:
    """An elementwise stage; `numbers`: over one element per row. `repeated`: inputs (bits) that stay the same along the inner axis.

    `pcs`: where the instructions of the kernel's nodes stand.
    """

    kernel: FusedKernel
    numbers: bool
    repeated: int
    places: tuple[Place, ...]
    pcs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """A stage over rows: the operand, the result, then parameters."""

    recipe: str
    dtype: str
    places: tuple[Place, ...]
    quiet: bool
    eps: float
    less: int
    cost_ns: float
    pc: int = -1  # where its instruction stands


Stage = Elements | Rows


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of a block: all elements of its rows, or one per row."""

    per_row: bool
    itemsize: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A chain for arrays of one kind. `presence`: per input, bits of the axes of the full shape that it has, and its number of axes."""

    ndim: int
    inner: int  # the last axes, which make a row
    form: int  # of the results: 0 rows, 1 a number per row, 2 the same with axes of length 1
    presence: tuple[tuple[int, int], ...]
    lengths: tuple[int, ...]  # that the axes of a row must have; (): any
    dtypes: tuple[Any, ...]  # of inputs and outputs
    outputs: int
    buffers: tuple[Buffer, ...]
    stages: tuple[Stage, ...]
    parted: int  # how many stages can run over parts of a row, 0: none


class NotReady(Exception):
    """A kernel over rows is still being compiled, or can't be."""


_scratch = Scratch()


@cache
def _job() -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(driver().addresses["chain_job"])


class Chain:
    """The stages of a plan, ready to run. `entry(*arrays)`: fresh results or None."""

    __slots__ = ("plan", "loops", "codes", "ns", "limit", "otherwise", "misfit", "descriptor", "slow", "entry", "__weakref__")

    def __init__(self, plan: Plan, otherwise: Callable[..., Any], misfit: Callable[[], None]) -> None:
        """`otherwise(*arrays)` takes calls with arrays of other kinds; `misfit()` hears of those that lie in no rows. Raises NotReady."""
        if not runtime() or not driver().addresses:
            raise NotReady(driver().failed or "the code around kernels is being compiled")
        self.plan, self.otherwise, self.misfit = plan, otherwise, misfit
        asked = {k: _loops_of(stage) for k, stage in enumerate(plan.stages) if isinstance(stage, Rows)}
        self.loops = {k: _checked(loops) for k, loops in asked.items()}
        self.codes = [stage.kernel.code(stage.repeated) for stage in plan.stages if isinstance(stage, Elements)]
        self.ns = sum(s.cost_ns if isinstance(s, Rows) else 0.0 if s.numbers else s.kernel.ns_per_element for s in plan.stages)
        self.limit = int(LARGE_NS / self.ns) if threads.cores() > 1 else 1 << 62
        self.slow = _Slow(self)
        self.descriptor = self._describe(int(RELEASE_NS / self.ns))
        method = method_at(b"chain", driver().addresses["chain"], b"Fused kernels over blocks of rows: arrays in, fresh results.")
        self.entry: Callable[..., Any] = new_function(method, self.descriptor, self)

    def _describe(self, release: int) -> bytes:
        plan = self.plan
        count = len(plan.presence)
        body = bytearray(c.X_STAGE + c.STAGE_SIZE * len(plan.stages))
        head = (count, plan.outputs, runtime(), 0, id(self.slow), id(underflow_ignored), self.limit, release, id(self))
        struct.pack_into("<9q", body, 0, *head)
        struct.pack_into("<6q", body, c.X_NDIM, plan.ndim, plan.inner, plan.form, len(plan.stages), plan.parted, id(_BYTE))
        for k, (bits, axes) in enumerate(plan.presence):
            struct.pack_into("<q", body, c.X_PRESENT + 8 * k, bits | axes << 16)
        for k, dtype in enumerate(plan.dtypes):
            struct.pack_into("<2q", body, c.D_OPERANDS + c.OPERAND_SIZE * k, id(dtype), dtype.itemsize)
        struct.pack_into(f"<{len(plan.lengths)}q", body, c.X_LENGTHS, *plan.lengths)
        struct.pack_into("<q", body, c.X_BUFFERS, len(plan.buffers))
        for k, buffer in enumerate(plan.buffers):
            struct.pack_into("<2q", body, c.X_BUFFER + c.BUFFER_SIZE * k, int(buffer.per_row), buffer.itemsize)
        for k, stage in enumerate(plan.stages):
            self._describe_stage(body, c.X_STAGE + c.STAGE_SIZE * k, k, stage)
        return bytes(body)

    def _describe_stage(self, body: bytearray, at: int, number: int, stage: Stage) -> None:
        places = stage.places
        if isinstance(stage, Elements):
            code = stage.kernel.code(stage.repeated)
            kind = c.OF_NUMBERS if stage.numbers else c.OF_ROWS
            constants = ctypes.addressof(stage.kernel.constants)
            words = (kind, code.address, code.context_bytes, constants, 0, len(places), stage.repeated)
            struct.pack_into("<7q", body, at, *words)
        else:
            rows = [loop.rows for loop in self.loops[number]]
            block, finish = rows[1:] or (0, 0)
            struct.pack_into("<7q", body, at, c.OVER_ROWS, rows[0], 0, 0, int(stage.quiet), len(places), 0)
            struct.pack_into("<d4q", body, at + c.G_EPS, stage.eps, stage.less, block, finish, _part_size(stage))
        struct.pack_into(f"<{len(places)}q", body, at + c.G_PLACE, *[p.code for p in places])

    # -- calls from Python ----------------------------------------------------------------------

    def fits(self, arrays: tuple[Any, ...]) -> bool:
        """Whether arrays are of the kind that the plan is for, wherever their elements lie.

        The number of rows along an axis is no matter of the kind where nothing is broadcast against it: one is as good as several.
        """
        plan = self.plan
        free = (1 << plan.ndim - plan.inner) - 1 if len(plan.presence) == 1 else 0
        if len(arrays) != len(plan.presence):
            return False
        for x, dtype, present in zip(arrays, plan.dtypes, plan.presence, strict=False):
            if type(x) is not np.ndarray or x.dtype != dtype:
                return False
            bits, axes = presence_of(x, plan.ndim)
            if axes != present[1] or bits | free != present[0] | free:
                return False
        return True

    def large(self, arrays: tuple[Any, ...], cores: int) -> Any:
        """A call cut up among threads; None where Python must do it, or the arrays don't lie in rows."""
        plan = self.plan
        try:
            shape = np.broadcast_shapes(*[x.shape for x in arrays])
        except ValueError:
            return None
        run = _Run(self, arrays)
        if run.parts < 0:
            self.misfit()
            return None
        kept = _result_shape(shape, plan.ndim - plan.inner, plan.ndim - 1, plan.form)
        made = [empty(kept, dtype) for dtype in plan.dtypes[len(arrays) :]]
        run.work(made, cores, self.ns * math.prod(shape))
        if unwelcome(run.word, run.events):
            return None
        results = [x if x.ndim else x[()] for x in made]
        return results[0] if len(results) == 1 else tuple(results)


class _Run:
    """One large call: what its pieces share, and what happened in them."""

    def __init__(self, chain: Chain, arrays: tuple[Any, ...]) -> None:
        """`parts` is -1 where the arrays don't lie in rows, or rows are too long."""
        self.arrays = arrays
        self.args = (ctypes.c_int64 * len(arrays))(*map(id, arrays))
        self.outs = (ctypes.c_int64 * 8)()
        self.desc = id(chain.descriptor) + c.BYTES_HEAD
        self.parted = chain.plan.parted
        self.mode = driver().mode()
        self.events = self.word = 0
        self.first, self.parts, self.scratch = struct.unpack_from("<3q", self._job(3, 0, 0, 0, 0), c.H_FIRST)

    def _job(self, what: int, start: int, stop: int, memory: int, partial: int) -> Any:
        fields = (self.desc, ctypes.addressof(self.args), ctypes.addressof(self.outs), start, stop, memory, partial, what, self.mode)
        job = ctypes.create_string_buffer(struct.pack("<9q", *fields), c.H_SIZE)
        _job()(ctypes.addressof(job))
        return job

    def work(self, made: list[Any], cores: int, ns: float) -> None:
        """Fill the results, in pieces; `ns`: about how long one thread would take."""
        self.outs[: len(made)] = list(map(address, made))
        crew = crews.crew
        several = cores > 1 and crew.worth(ns)
        if self.parts and self.first == 1:  # a single long row: its parts first, then what follows them
            partial = np.empty(max(1, self.parts * self.parted), np.float64)
            self._pieces(1, self.parts, address(partial), several, ns)
            self._note(self._job(2, 0, 0, _scratch.at(self.scratch), address(partial)))
        else:
            self._pieces(0, self.first, 0, several, ns)

    def _pieces(self, what: int, count: int, partial: int, several: bool, ns: float) -> None:
        """Do rows or parts of the only row, by all threads or this one."""
        crew = crews.crew
        step = max(1, -(-count // (PIECES * crew.members)))
        starts = np.arange(0, count, step)
        jobs = np.zeros((len(starts), c.H_SIZE >> 3), np.int64)
        moved = crews.Moved(c.H_MEMORY, 1, crews.apart(self.scratch), True)
        memory = _scratch.at(moved.step * crew.members)
        fields = (self.desc, ctypes.addressof(self.args), ctypes.addressof(self.outs), 0, 0, memory, partial, what, self.mode)
        jobs[:, : len(fields)] = fields
        jobs[:, c.H_START >> 3] = starts
        jobs[:, c.H_STOP >> 3] = np.minimum(starts + step, count)
        crew.run(driver().addresses["chain_job"], crews.over(jobs), moved, ns, several)
        self._note(np.bitwise_or.reduce(jobs, axis=0))

    def _note(self, job: Any) -> None:
        events, word = struct.unpack_from("<2q", job, c.H_EVENTS)
        self.events |= events
        self.word |= word


class _Slow:
    """Takes the calls that the native code does not."""

    __slots__ = ("chain", "__weakref__")

    def __init__(self, chain: Chain) -> None:
        self.chain = weakref.ref(chain)

    def __call__(self, *arrays: Any) -> Any:
        chain = self.chain()
        if chain is None:
            return None
        if not chain.fits(arrays):
            return chain.otherwise(*arrays)
        return chain.large(arrays, threads.cores())


def presence_of(x: Any, ndim: int) -> tuple[int, int]:
    """(the axes of a full shape of `ndim` axes, as bits, that an array has at more than length 1, how many axes it has).

    The bits are -1 where an array has more axes than that.
    """
    start = ndim - x.ndim
    if start < 0:
        return -1, x.ndim
    return sum(1 << (start + d) for d, length in enumerate(x.shape) if length != 1), x.ndim


def _part_size(stage: Rows) -> int:
    """Bytes of a part's result."""
    return BY_NAME[stage.dtype].numpy.itemsize


def _loops_of(stage: Rows) -> tuple[RowLoop, ...]:
    """The loops of a stage: for whole rows, and where they can be cut for parts and for what puts them together; on their way."""
    names: tuple[str, ...] = (stage.recipe,)
    if can_be_parted(stage.recipe, stage.dtype):
        names += PARTED[stage.recipe]
    return tuple([row_loop(name, stage.dtype) for name in names])


def _checked(loops: tuple[RowLoop, ...]) -> tuple[RowLoop, ...]:
    """Raises NotReady where one of them has no code."""
    for loop in loops:
        if not loop.ready or not loop.rows:
            raise NotReady(loop.failed or f"{loop.name} is being compiled")
    return loops


def can_be_parted(recipe: str, dtype: str) -> bool:
    """Whether rows may be cut for a reduction: the results of its parts are not rounded further."""
    return dtype in ("float32", "float64", "bool") and recipe in PARTED
