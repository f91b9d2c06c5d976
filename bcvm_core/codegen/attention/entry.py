"""Attention of arrays by the machine code of `kernel.py`: `attend` gives a fresh result, or None where the definition must do it.

What depends on shapes, strides and element types alone is worked out once and kept as a `Plan`; a call fills in addresses.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ... import config
from .. import llvm
from ..loops import address, data_offset_holds, made
from ..rows.code import LANES
from ..scratch import ALIGNMENT, Scratch
from ..stencils import crew as crews
from ..stencils.offsets import BYTES_HEAD
from ..stencils.recycle import empty
from .kernel import KEYS, OF_CALL, OF_PLAN, PLACES, REST, SCORES, AttentionLoop
from .steps import ADD, KEEP, PLAIN

_Array = np.ndarray[Any, Any]
ROWS: Final = 64  # queries of a task, where their scores stay in the cache that belongs to a core
_SCORES_MAX: Final = 4096  # keys up to which they do
_KEYS_MAX: Final = (1 << 31) - 1
_TASK_NS: Final = 350.0
_PIECES: Final = 4  # per thread
_CALL: Final = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_functions: dict[Any, Any] = {}


_scratch = Scratch()


def function_for(dtype: Any) -> Any:
    """The native function with its `address`, made within the call when there is none yet; None where there can't be one.

    Its bits are its own, so a process computes by it always or never: what is found first is kept.
    """
    if dtype in _functions:
        return _functions[dtype]
    loop = made("attention", dtype.name)
    assert isinstance(loop, AttentionLoop)
    run: Any = None
    if loop.ready:
        run = _CALL(loop.entry)
        run.address = loop.entry
    return _functions.setdefault(dtype, run)


class Shapes(NamedTuple):
    """The sizes of one call: heads of all batches, queries, keys, elements of a query and of a value."""

    heads: int
    n: int
    m: int
    d: int
    e: int


Operands = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # (shape, strides) of queries, keys, values and perhaps the mask


class Plan:
    """Everything about a call but its addresses.

    `result`: its shape; `lead`: the leading axes of what is computed, heads last; `tables`: where each head's operands begin.
    """

    __slots__ = ("result", "lead", "shapes", "rows", "tasks", "tables", "size", "moved", "ns", "wide", "block")

    def __init__(self, operands: Operands, lead: tuple[int, ...], wide: int, narrow: bool, rows: int) -> None:
        """`wide`: bytes of the type of computation; `narrow`: whether elements lie in memory in another one; `rows`: of a task, at most."""
        (q, _), (k, k_strides), (v, v_strides) = operands[:3]
        self.result, self.lead, self.wide = (*lead, q[-2], v[-1]), lead, wide
        self.shapes = shapes = Shapes(math.prod(lead), q[-2], k[-2], q[-1], v[-1])
        self.rows = min(rows, _task_rows(shapes.m), -(-shapes.n // LANES) * LANES)
        self.tables = [_begins(shape, strides, lead) for shape, strides in operands]
        blocks = -(-shapes.n // self.rows)
        self.tasks = shapes.heads * blocks
        fields = {
            **dict(zip("nmde", shapes[1:], strict=True)),
            "rows": self.rows,
            "blocks": blocks,
            "k_direct": int(not narrow and k_strides[-1] == wide),
            "v_direct": int(not narrow and v_strides[-1] == wide and not v[-1] % LANES),
        }
        for name, (shape, strides), table in zip(("q", "k", "v", "mask"), operands, self.tables, strict=False):
            row, column = (0 if n == 1 and name == "mask" else step for n, step in zip(shape[-2:], strides[-2:], strict=True))
            fields |= {f"{name}_at": address(table), f"{name}_row": row, f"{name}_column": column}
        self.size = self._lay_out(fields)
        self.moved = crews.Moved(8, 1, crews.apart(self.size), False)  # the second argument
        scores = shapes.heads * shapes.n * shapes.m * (0.4 + (shapes.d + shapes.e) / 60) * wide / 4
        self.ns = scores + _TASK_NS * self.tasks
        self.block = struct.pack(f"<{len(OF_PLAN)}q", *[fields.get(name, 0) for name in OF_PLAN])

    def _lay_out(self, fields: dict[str, int]) -> int:
        """Places in scratch memory; how much of it there is."""
        row, m = self.rows, self.shapes.m
        depth, width = (-(-count // LANES) * LANES for count in self.shapes[3:])
        sizes = (depth * row, m * row, KEYS * row, KEYS * depth, KEYS * width, row * width, width, row, row, LANES)
        at = 0
        for name, count in zip(PLACES, sizes, strict=True):
            fields[name] = at
            at += -(-count * self.wide // ALIGNMENT) * ALIGNMENT
        return at


def _task_rows(m: int) -> int:
    """Queries of a task: fewer where there are many keys, so that memory does not grow with their number."""
    return ROWS if m <= _SCORES_MAX else ROWS // 2 if m <= 2 * _SCORES_MAX else ROWS // 4


def _begins(shape: tuple[int, ...], strides: tuple[int, ...], lead: tuple[int, ...]) -> _Array:
    """The distance in bytes from an operand's first element to that of each head's matrix; shared heads serve several in a row."""
    found = np.zeros(lead, np.int64)
    for axis in range(1, min(len(lead), len(shape) - 2) + 1):
        have, want = shape[-2 - axis], lead[-axis]
        number = np.arange(want) // (want // have) if have > 1 else np.zeros(want, np.int64)
        found += (number * strides[-2 - axis]).reshape(-1, *[1] * (axis - 1))
    return found.ravel()


def plan(operands: Operands, wide: int, narrow: bool, causal: bool, rows: int = ROWS) -> Plan | None:
    """The plan of a geometry; None where shapes do not fit, a mask would make the scores larger, or there is nothing to compute."""
    shapes = [shape for shape, _ in operands]
    q, k, v = shapes[:3]
    if min(map(len, shapes)) < 2 or not all(map(math.prod, shapes)) or q[-1] != k[-1] or k[-2] != v[-2] or k[-2] > _KEYS_MAX:
        return None
    stacks = [shape[:-2] for shape in shapes]
    if stacks[0]:
        heads = stacks[0][-1]
        for number in (1, 2):
            if stacks[number] and stacks[number][-1] > 1:
                if heads % stacks[number][-1]:
                    return None
                stacks[number] = (*stacks[number][:-1], heads)
    if len(shapes) > 3 and (shapes[3][-2] not in (1, q[-2]) or shapes[3][-1] not in (1, k[-2])):
        return None
    try:
        lead = np.broadcast_shapes(*stacks)
    except ValueError:
        return None
    folded = None if causal else _folded(operands)
    if folded is None:
        return Plan(operands, lead, wide, narrow, rows)
    made = Plan(folded, (*lead[:-1], folded[0][0][-3]), wide, narrow, rows)
    made.result = (*lead, q[-2], v[-1])
    return made


def _folded(operands: Operands) -> Operands | None:
    """The query heads that share keys and values as queries of one head, where they lie evenly; None where there is nothing to gain."""
    (q, q_strides), (k, _), (v, _) = operands[:3]
    if min(len(q), len(k), len(v)) < 3 or k[-3] != v[-3] or q[-3] == k[-3]:
        return None
    if q[-2] > 1 and q_strides[-3] != q[-2] * q_strides[-2]:
        return None
    if len(operands) > 3:
        mask = operands[3][0]
        if mask[-2] != 1 or (len(mask) > 2 and mask[-3] != 1):
            return None
    step = q_strides[-3] if q[-2] == 1 else q_strides[-2]
    shape = (*q[:-3], k[-3], q[-3] // k[-3] * q[-2], q[-1])
    return ((shape, (*q_strides[:-3], q[-3] // k[-3] * q_strides[-3], step, q_strides[-1])), *operands[1:])


def _cells(arrays: Sequence[_Array | None]) -> tuple[list[int], Any]:
    """(where the data pointer of each array lies, 0 for none; what must live as long), where array objects are laid out otherwise."""
    cells = [ctypes.c_void_p(0 if x is None else address(x)) for x in arrays]
    return [ctypes.addressof(cell) for cell in cells], cells


def attend(
    plan: Plan, q: _Array, k: _Array, v: _Array, mask: _Array | None, causal: bool, scale: float, halves: bool = False
) -> _Array | None:
    """softmax(q k^T scale + mask) v by the plan of these operands; `halves`: all scores first, kept in memory, then the rest.

    Queries, keys and values are of one element type, `mask` is bool or of the type of computation; all in native byte order. The result
    is dense; its bits depend on neither the threads nor `halves`. None where no code can be had.
    """
    run = function_for(q.dtype) if config.current.use_llvm else None
    if run is None:
        return None
    result: _Array = empty(plan.result, q.dtype)
    kind = PLAIN if mask is None else KEEP if mask.dtype == np.bool_ else ADD
    alive: Any = None
    if data_offset_holds():
        places = [id(q) + _AT, id(k) + _AT, id(v) + _AT, 0 if mask is None else id(mask) + _AT, id(result) + _AT]
    else:
        places, alive = _cells((q, k, v, mask, result))
    if not halves:
        _run(run, plan, _OF_CALL.pack(*places, 0, 0, causal, kind, scale) + plan.block)
        return result
    kept = empty((plan.tasks, plan.shapes.m, plan.rows), np.dtype(np.float64 if plan.wide == 8 else np.float32))
    for half in (SCORES, REST):
        _run(run, plan, _OF_CALL.pack(*places, address(kept), half, causal, kind, scale) + plan.block)
    del alive  # not before
    return result


_AT: Final = llvm.ARRAY_DATA
_OF_CALL: Final = struct.Struct(f"<{len(OF_CALL) - 1}qd")


def _run(run: Any, plan: Plan, fields: bytes) -> None:
    """All tasks, on several cores where that is worth it."""
    crew = crews.crew
    if plan.ns < crews.SHARED_NS or plan.tasks == 1 or not crew.worth(plan.ns):
        run(fields, _scratch.at(plan.size), 0, plan.tasks)
        return
    share = max(1, plan.tasks // (_PIECES * crew.members))
    memory = _scratch.at(plan.moved.step * crew.members)
    crew.sweep(run.address, (id(fields) + BYTES_HEAD, memory), plan.moved, (0, share, plan.tasks), plan.ns)
