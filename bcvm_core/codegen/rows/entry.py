"""A row kernel as a function of arrays: `Entry(...)(x, *parameters)` gives a fresh result, or None where the op's definition must do it.

The native function takes what is dense and of moderate size; larger calls come back to Python and
are cut up among threads.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..loops import address
from ..stencils import crew as crews
from ..stencils import offsets as c
from ..stencils import threads
from ..stencils.driver import driver
from ..stencils.entry import method_at, new_function, runtime
from ..stencils.kernel import RELEASE_NS, underflow_ignored, unwelcome
from ..stencils.recycle import empty
from .loop import RowLoop

_FASTCALL: Final = 0x80
LARGE_NS: Final = 120_000  # calls that take longer than this may run on several cores
PIECES: Final = 3  # per thread
_COLUMNS_MIN: Final = 256  # columns of a piece
_OF_CALL_IN: Final = struct.Struct("<2qdq")
_OF_CALL: Final = struct.Struct("<4q")


@dataclass(frozen=True, slots=True)
class Call:
    """How a kernel is called. `first`, `last`: the reduced axes, counted as Python does; `form`: of the result, as in `offsets.py`."""

    first: int
    last: int
    form: int
    quiet: bool
    parameters: int = 0
    eps: float = 0.0
    less: int = 0


class Entry:
    """What belongs to one function; it is the function's module, and takes the calls that the native code does not."""

    __slots__ = ("loop", "how", "dtype", "result", "ns", "limit", "descriptor", "__weakref__")

    def __init__(self, loop: RowLoop, how: Call, dtype: Any, result: Any, ns: float) -> None:
        self.loop, self.how, self.dtype, self.result, self.ns = loop, how, dtype, result, ns
        self.limit = int(LARGE_NS / ns) if threads.cores() > 1 else 1 << 62
        self.descriptor = self._describe(int(RELEASE_NS / ns))

    def _describe(self, release: int) -> bytes:
        how, loop = self.how, self.loop
        count = 1 + how.parameters
        body = bytearray(c.D_OPERANDS + c.OPERAND_SIZE * (count + 1))
        struct.pack_into("<8q", body, 0, count, 1, runtime(), 0, id(self), id(underflow_ignored), self.limit, release)
        struct.pack_into("<6q", body, c.L_KERNEL, loop.rows, loop.columns, how.first, how.last, how.form, how.quiet)
        struct.pack_into("<dq", body, c.L_EPS, how.eps, how.less)
        for k, dtype in enumerate((self.dtype,) * count + (self.result,)):
            struct.pack_into("<qq", body, c.D_OPERANDS + c.OPERAND_SIZE * k, id(dtype), dtype.itemsize)
        return bytes(body)

    def __call__(self, *arrays: Any) -> Any:
        """The call in Python, cut into pieces; None where the definition must do it."""
        how = self.how
        if len(arrays) != 1 + how.parameters:
            return None
        for x in arrays:
            if type(x) is not np.ndarray or x.dtype != self.dtype or not (x.flags.c_contiguous and x.flags.aligned):
                return None
        x = arrays[0]
        first, last = (a + x.ndim if a < 0 else a for a in (how.first, how.last))
        if first < 0 or last >= x.ndim or last < first:
            return None
        lengths = x.shape[first : last + 1]
        outer, n, inner = (math.prod(part) for part in (x.shape[:first], lengths, x.shape[last + 1 :]))
        kernel = self.loop.rows if inner == 1 else self.loop.columns
        if not x.size or n <= how.less or any(p.shape != lengths for p in arrays[1:]) or not kernel:
            return None
        made = empty(_result_shape(x.shape, first, last, how.form), self.result)
        common = _OF_CALL.unpack(_OF_CALL_IN.pack(*self._pointers(arrays[1:]), how.eps, how.less))
        if inner == 1:
            steps = n * x.itemsize, self.result.itemsize * (n if how.form == 0 else 1)
            pieces = _rows(outer, n, address(x), address(made), *steps)
        else:
            steps = n * inner * x.itemsize, self.result.itemsize * inner * (n if how.form == 0 else 1)
            pieces = _columns(outer, n, inner, address(x), address(made), *steps)
        raised = _run(kernel, common, list(pieces), x.size * self.ns)
        if not how.quiet and unwelcome(0, raised):
            return None
        return made if made.ndim else made[()]

    def _pointers(self, parameters: tuple[Any, ...]) -> list[int]:
        return [address(p) for p in parameters] + [0] * (2 - len(parameters))


def _rows(outer: int, n: int, x: int, y: int, x_step: int, y_step: int) -> Iterator[tuple[int, ...]]:
    """Pieces of some rows each: (rows, n, 1, x, result, first column, columns)."""
    height = max(1, -(-outer // (PIECES * threads.cores())))
    for start in range(0, outer, height):
        yield min(height, outer - start), n, 1, x + start * x_step, y + start * y_step, 0, 0


def _columns(outer: int, n: int, inner: int, x: int, y: int, x_step: int, y_step: int) -> Iterator[tuple[int, ...]]:
    """Pieces of some of the outer axis each, or of some columns where that is short."""
    share = PIECES * threads.cores()
    if outer >= share:
        height = -(-outer // share)
        for start in range(0, outer, height):
            yield min(height, outer - start), n, inner, x + start * x_step, y + start * y_step, 0, 0
        return
    width = max(_COLUMNS_MIN, -(-inner // share + 15) & -16)
    for first in range(0, inner, width):
        yield outer, n, inner, x, y, first, min(width, inner - first)


def _run(kernel: int, arguments: tuple[int, ...], pieces: list[tuple[int, ...]], ns: float) -> int:
    """All pieces: the floating-point events that they raised."""
    count = len(pieces)
    jobs = np.zeros((count, (c.L_JOB_ARGUMENTS >> 3) + len(arguments) + 2), np.int64)
    jobs[:, 0] = kernel
    parts = np.array(pieces, np.int64)
    jobs[:, 1:6] = parts[:, :5]
    jobs[:, c.L_JOB_MODE >> 3] = driver().mode()
    jobs[:, c.L_JOB_ARGUMENTS >> 3 : -2] = arguments
    jobs[:, -2:] = parts[:, 5:]
    crew = crews.crew
    crew.run(driver().addresses["line_job"], crews.over(jobs), ns=ns, several=crew.worth(ns))
    return int(np.bitwise_or.reduce(jobs[:, c.L_JOB_STATUS >> 3]))


def _result_shape(shape: tuple[int, ...], first: int, last: int, form: int) -> tuple[int, ...]:
    middle = (shape[first : last + 1], (), (1,) * (last + 1 - first))[form]
    return shape[:first] + middle + shape[last + 1 :]


def entry_for(loop: RowLoop, how: Call, dtype: Any, result: Any, ns: float) -> Callable[..., Any] | None:
    """The function of a kernel whose code is ready; None where the interpreter's layout is not the known one."""
    if not runtime() or not driver().addresses:
        return None
    held = Entry(loop, how, dtype, result, ns)
    function: Callable[..., Any] = new_function(
        method_at(b"rows", driver().addresses["line"], b"A kernel over rows: arrays in, a fresh array out, or None."), held.descriptor, held
    )
    return function
