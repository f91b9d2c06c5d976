"""Attention of arrays by the machine code of `kernel.py`: `attend` gives a fresh result, or None where the definition must do it.

What depends on shapes, strides and element types alone is worked out once and kept as a `Plan`; a call fills in addresses.
"""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from ... import config
from ..loops import address, wait
from ..rows.code import LANES
from ..rows.types import FLOATS
from ..stencils import threads
from ..stencils.recycle import empty
from .kernel import FIELD, KEYS, REST, SCORES, attention_loop
from .steps import ADD, KEEP, PLAIN

_Array = np.ndarray[Any, Any]
ROWS: Final = 64  # queries of a task, where their scores stay in the cache that belongs to a core
_SCORES_MAX: Final = 4096  # keys up to which they do
LARGE_NS: Final = 150_000  # calls that take longer run on several cores
_ALIGNMENT: Final = 64
_PIECES: Final = 4  # per thread
_CALL: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_functions: dict[str, Any] = {}
_lock = threading.Lock()


class _Scratch(threading.local):
    """Scratch memory of the calling thread."""

    def __init__(self) -> None:
        self.size = self.start = 0
        self.memory: Any = None

    def at(self, size: int) -> int:
        """The address of at least `size` bytes, at the start of a cache line."""
        if size > self.size:
            self.memory = np.empty(size + _ALIGNMENT, np.uint8)
            start = address(self.memory)
            self.start, self.size = start + -start % _ALIGNMENT, size
        return self.start


_scratch = _Scratch()


def function_for(dtype: str) -> Any:
    """The native function, made within the call when there is none yet; None where there can't be one.

    Its bits are its own, so a process computes by it always or never: what is found first is kept.
    """
    found = _functions.get(dtype, _functions)
    if found is not _functions:
        return found
    loop = attention_loop(dtype)
    while not loop.ready and not loop.failed and not wait(1.0):
        pass
    with _lock:
        return _functions.setdefault(dtype, _CALL(loop.entry) if loop.ready else None)


class Shapes(NamedTuple):
    """The sizes of one call: heads of all batches, queries, keys, elements of a query and of a value."""

    heads: int
    n: int
    m: int
    d: int
    e: int


class Plan:
    """Everything about a call but its addresses. `lead`: the leading axes of the result; `tables`: where each head's operands begin."""

    __slots__ = ("lead", "shapes", "rows", "tasks", "fields", "tables", "size", "ns", "wide")

    def __init__(self, operands: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], lead: tuple[int, ...], wide: int, narrow: bool) -> None:
        """`operands`: (shape, strides) of queries, keys, values and perhaps the mask; `wide`: bytes of the type of computation."""
        (q, q_strides), (k, k_strides), (v, v_strides) = operands[:3]
        self.lead, self.wide = lead, wide
        self.shapes = shapes = Shapes(math.prod(lead), q[-2], k[-2], q[-1], v[-1])
        self.rows = min(_task_rows(shapes.m), -(-shapes.n // LANES) * LANES)
        self.tables = [_begins(shape, strides, lead) for shape, strides in operands]
        blocks = -(-shapes.n // self.rows)
        self.tasks = shapes.heads * blocks
        direct = not narrow
        self.fields: dict[str, int] = {
            **shapes._asdict(),
            "rows": self.rows,
            "blocks": blocks,
            "k_direct": int(direct and k_strides[-1] == wide),
            "v_direct": int(direct and v_strides[-1] == wide and not v[-1] % LANES),
            **_steps("q", q_strides),
            **_steps("k", k_strides),
            **_steps("v", v_strides),
            **{f"{name}_at": address(table) for name, table in zip(("q", "k", "v", "mask"), self.tables, strict=False)},
        }
        del self.fields["heads"]
        if len(operands) > 3:
            shape, strides = operands[3]
            self.fields |= _steps("mask", tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True)))
        self.size = self._lay_out()
        self.ns = shapes.heads * shapes.n * shapes.m * (0.6 + (shapes.d + shapes.e) / 40) * wide / 4

    def _lay_out(self) -> int:
        """Places in scratch memory; how much of it there is."""
        _, _, m, d, e = self.shapes
        row, width = self.rows, -(-e // LANES) * LANES
        depth = -(-d // LANES) * LANES
        sizes = {"turned": depth * row, "s": m * row, "mask_block": KEYS * row, "keys_block": KEYS * depth, "values_block": KEYS * width,
                 "results": row * width, "more": width, "top": row, "sums": row, "zeros": LANES}  # fmt: skip
        at = 0
        for name, count in sizes.items():
            self.fields[name] = at
            at += -(-count * self.wide // _ALIGNMENT) * _ALIGNMENT
        return at

    def packed(self, numbers: dict[str, int], scale: float) -> Any:
        """The argument block of a call."""
        block = ctypes.create_string_buffer(8 * len(FIELD))
        for name, value in (*self.fields.items(), *numbers.items()):
            struct.pack_into("<q", block, FIELD[name], value)
        struct.pack_into("<d", block, FIELD["scale"], scale)
        return block


def _task_rows(m: int) -> int:
    """Queries of a task: fewer where there are many keys, so that memory does not grow with their number."""
    return ROWS if m <= _SCORES_MAX else ROWS // 2 if m <= 2 * _SCORES_MAX else ROWS // 4


def _steps(name: str, strides: tuple[int, ...]) -> dict[str, int]:
    return {f"{name}_row": strides[-2], f"{name}_column": strides[-1]}


def _begins(shape: tuple[int, ...], strides: tuple[int, ...], lead: tuple[int, ...]) -> _Array:
    """The distance in bytes from an operand's first element to that of each head's matrix; shared heads serve several in a row."""
    found = np.zeros(lead, np.int64)
    for axis in range(1, min(len(lead), len(shape) - 2) + 1):
        have, want = shape[-2 - axis], lead[-axis]
        number = np.arange(want) // (want // have) if have > 1 else np.zeros(want, np.int64)
        found += (number * strides[-2 - axis]).reshape(-1, *[1] * (axis - 1))
    return found.ravel()


@lru_cache(maxsize=512)
def _plan(operands: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], wide: int, narrow: bool) -> Plan | None:
    """The plan of a geometry; None where shapes do not fit, or a mask would make the scores larger."""
    shapes = [shape for shape, _ in operands]
    heads = shapes[0][-3] if len(shapes[0]) > 2 else 1
    stacks = [shapes[0][:-2], *[(*s[:-3], heads if s[-3] > 1 else 1) if len(s) > 2 and len(shapes[0]) > 2 else s[:-2] for s in shapes[1:3]]]
    if any(heads % s[-3] for s in shapes[1:3] if len(s) > 2 and len(shapes[0]) > 2):
        return None
    n, m = shapes[0][-2], shapes[1][-2]
    if len(shapes) > 3:
        stacks.append(shapes[3][:-2])
        if shapes[3][-2] not in (1, n) or shapes[3][-1] not in (1, m):
            return None
    try:
        lead = np.broadcast_shapes(*stacks)
    except ValueError:
        return None
    return Plan(operands, lead, wide, narrow)


def plan_of(q: _Array, k: _Array, v: _Array, mask: _Array | None) -> Plan | None:
    """The plan of a call of equal, native, real floating element types; None where the definition must do it."""
    arrays = [q, k, v] if mask is None else [q, k, v, mask]
    if not all(x.size for x in arrays) or not all(x.dtype.isnative for x in arrays):
        return None
    operands = tuple((x.shape, x.strides) for x in arrays)
    wide = 8 if q.dtype == np.float64 else 4
    return _plan(operands, wide, q.itemsize != wide)


def attend(
    plan: Plan, q: _Array, k: _Array, v: _Array, mask: _Array | None, causal: bool, scale: float, halves: bool = False
) -> _Array | None:
    """softmax(q k^T scale + mask) v by a plan of these operands; `halves`: all scores first, kept in memory, then the rest.

    `mask` has at least two axes and is bool or of the type of computation. The result is dense; its bits depend on neither the threads
    nor `halves`. None where no code can be had.
    """
    run = function_for(q.dtype.name) if config.current.use_llvm and q.dtype.name in FLOATS else None
    if run is None:
        return None
    shapes = plan.shapes
    result: _Array = empty((*plan.lead, shapes.n, shapes.e), q.dtype)
    kind = PLAIN if mask is None else KEEP if mask.dtype == np.bool_ else ADD
    numbers = {"q": address(q), "k": address(k), "v": address(v), "out": address(result), "mask_kind": kind, "causal": int(causal),
               "skip": int(causal and kind != ADD), "mask": 0 if mask is None else address(mask)}  # fmt: skip
    if not halves:
        _run(run, plan, plan.packed(numbers, scale))
        return result
    kept = empty((plan.tasks, shapes.m, plan.rows), np.dtype(np.float64 if plan.wide == 8 else np.float32))
    numbers["scores"] = address(kept)
    for half in (SCORES, REST):
        _run(run, plan, plan.packed({**numbers, "half": half}, scale))
    return result


def _run(run: Any, plan: Plan, block: Any) -> None:
    """All tasks, on several cores where that is worth it."""
    start, cores = ctypes.addressof(block), threads.cores()
    if cores == 1 or plan.tasks == 1 or plan.ns < LARGE_NS:
        run(start, _scratch.at(plan.size), 0, plan.tasks)
        return
    share = max(1, plan.tasks // (_PIECES * cores))

    def piece(first: int) -> None:
        run(start, _scratch.at(plan.size), first, min(first + share, plan.tasks))

    threads.workers.run(piece, range(0, plan.tasks, share), cores)
