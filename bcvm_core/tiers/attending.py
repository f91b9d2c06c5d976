"""Attention as the machine model decides: one kernel, or all scores first and the rest by a second one, with the same bits.

The decision is made by the figures in force when a size class (powers of two) is met first: it is one of speed alone. All scores first
pays off where one kernel has too few blocks of queries for the cores. `bcvm.explain()` shows it with what the calls took.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

import numpy as np

from .. import config
from ..codegen.attention import entry
from ..fusion import decisions, groups, splits
from ..fusion.machines import InForce, usable
from ..ops import heads, trees

_Array = np.ndarray[Any, Any]
HALVES: Final = "qk^T | softmax, pv"
REFUSED: Final = dict.fromkeys(("qk^T, softmax | pv", "qk^T | softmax | pv"), "no kernel is cut there")
SMALL_NS: Final = 400_000  # calls that take less are one kernel: a second one would have to be shared out as well
SMALL: Final = {**REFUSED, HALVES: "small: one kernel"}
_MAX_KNOWN: Final = 512
_known: dict[Any, tuple[entry.Plan, bool, decisions.Measured] | None] = {}
_classes: dict[tuple[Any, ...], decisions.Record] = {}


def attend(q: _Array, k: _Array, v: _Array, mask: _Array | None, causal: bool, scale: float) -> _Array | None:
    """As `ops.heads.by_kernel`."""
    key: tuple[Any, ...] = (config.current.machine, q.dtype, causal, q.shape, q.strides, k.shape, k.strides, v.shape, v.strides)
    if mask is not None:
        key = (*key, mask.shape, mask.strides)
    found = _known.get(key, _known)
    if found is _known:
        found = _plan(key, q, k, v, mask, causal)
    if found is None:
        return None
    plan, halves, measured = found
    started = time.perf_counter_ns()
    result = entry.attend(plan, q, k, v, mask, causal, scale, halves)
    if result is not None:
        measured.note(time.perf_counter_ns() - started)
    return result


def short(q: _Array, k: _Array, v: _Array) -> tuple[Any, entry.Plan, float, decisions.Measured] | None:
    """(what attends, its plan and scale, where calls are noted) of a small call without mask that was made; None for others."""
    kind = trees.accumulator(q.dtype)
    key = (config.current.machine, q.dtype, False, q.shape, q.strides, k.shape, k.strides, v.shape, v.strides)
    found = _known.get(key)
    if kind is None or found is None or found[1] or found[0].ns >= SMALL_NS or not q.dtype == k.dtype == v.dtype:
        return None
    return entry.attend, found[0], float(heads.usual_scale(kind, q.shape[-1])), found[2]


def _plan(
    key: Any, q: _Array, k: _Array, v: _Array, mask: _Array | None, causal: bool
) -> tuple[entry.Plan, bool, decisions.Measured] | None:
    """The plan of a call that was not met before; None where the definition does it."""
    arrays = (q, k, v) if mask is None else (q, k, v, mask)
    found = None
    wide = 8 if q.dtype == np.float64 else 4
    operands, narrow = tuple((x.shape, x.strides) for x in arrays), q.itemsize != wide
    plan = entry.plan(operands, wide, narrow, causal)
    if plan is not None:
        small = plan.ns < SMALL_NS
        record = _decide(plan, q, small)
        halves = not small and record.decision.chosen is not None and record.decision.chosen.name == HALVES
        if halves:
            plan = entry.plan(operands, wide, narrow, causal, entry.ROWS // 2) or plan
        found = plan, halves, record.measured
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    _known[key] = found
    return found


def _decide(plan: entry.Plan, q: _Array, small: bool) -> decisions.Record:
    """The decision for the sizes of a plan, made when their class is met first; that for small calls, which is known, when it is read."""
    count, n, m, d, _ = plan.shapes
    heads = plan.lead[-1] if plan.lead else 1
    batch = count // heads
    figures = usable()
    if small:
        figures = InForce(figures.machine.with_one_core(), figures.source)
    key = (figures.source, figures.machine.cores, small, q.dtype, heads, *(size.bit_length() for size in (batch, n, m, d)))
    found = _classes.get(key)
    if found is None:
        if len(_classes) >= _MAX_KNOWN:
            _classes.clear()
        group = groups.attention(batch, heads, n, d, keys=m, dtype=q.dtype.name)
        found = _classes[key] = decisions.keep(
            partial(splits.decide, group, figures, same_bits=True, runs=True, refused=SMALL if small else REFUSED)
        )
    return found
