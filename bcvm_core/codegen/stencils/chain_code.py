"""A chain of kernels over blocks of rows as a function of the interpreter, in the language of `native.py`.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .chain_fit_code import chain_fit
from .chain_rows_code import chain_finish, chain_parts, chain_rows
from .lines_code import result_shape
from .native import call, get_status, load64, set_status, stack, store64
from .offsets import (
    ALL_EVENTS,
    BYTES_HEAD,
    CHAIN_STACK,
    D_HELD,
    D_INPUTS,
    D_LIMIT,
    D_OUTPUTS,
    D_RELEASE,
    D_RUNTIME,
    DATA,
    H_ARGS,
    H_DESC,
    H_EVENTS,
    H_FIRST,
    H_MEMORY,
    H_MODE,
    H_OUTS,
    H_PARTIAL,
    H_PARTS,
    H_SCRATCH,
    H_START,
    H_STOP,
    H_WHAT,
    H_WORD,
    R_DECREF,
    R_EMPTY,
    R_INCREF,
    R_RESTORE_THREAD,
    R_RETURN,
    T_DIMS,
    T_EVENTS,
    T_PARTIAL,
    T_PARTS,
    T_SCRATCH,
    T_SHAPE,
    T_SIZE,
    T_WORD,
    X_BYTE,
    X_FORM,
    X_INNER,
    X_NDIM,
)
from .results_code import allocate, drop, let_others_run, settled, slow, without_events
from .shapes_code import product


def chain(self: int, args: int, nargs: int) -> int:
    """A METH_FASTCALL function: arrays in, fresh results out, None where Python must do it."""
    desc = self + BYTES_HEAD
    runtime = load64(desc + D_RUNTIME)
    t = stack(T_SIZE)
    if nargs != load64(desc + D_INPUTS):
        return slow(desc, args, nargs)
    total = chain_fit(desc, args, t)
    if total <= 0 or total > load64(desc + D_LIMIT):
        return slow(desc, args, nargs)
    ndim = load64(desc + X_NDIM)
    shape = stack(64)
    axes = result_shape(load64(desc + X_FORM), ndim, t + T_SHAPE, ndim - load64(desc + X_INNER), ndim - 1, shape)
    results = stack(128)
    if allocate(desc, axes, shape, 0, results, product(shape, 0, axes)) == 0:
        return 0
    outputs = load64(desc + D_OUTPUTS)
    memory = stack(CHAIN_STACK)
    extra = 0
    if load64(t + T_SCRATCH) > CHAIN_STACK:
        size = stack(8)
        store64(size, load64(t + T_SCRATCH) + 64)
        call(load64(runtime + R_INCREF), load64(desc + X_BYTE))
        extra = call(load64(runtime + R_EMPTY), 1, size, load64(desc + X_BYTE), 0)
        if extra == 0:
            drop(runtime, results, outputs)
            return 0
        memory = (load64(extra + DATA) + 63) & -64
    outs = stack(64)
    k = 0
    while k < outputs:
        store64(outs + 8 * k, load64(load64(results + 8 * k) + DATA))
        k = k + 1
    scratch = stack(8)
    without_events(scratch)
    held = 0
    if total > load64(desc + D_RELEASE):
        held = load64(desc + D_HELD)
        thread = let_others_run(runtime, held)
        chain_rows(desc, t, outs, 0, load64(t + T_DIMS), memory)
        call(load64(runtime + R_RESTORE_THREAD), thread)
    else:
        chain_rows(desc, t, outs, 0, load64(t + T_DIMS), memory)
    if extra:
        call(load64(runtime + R_DECREF), extra)
    returned = settled(desc, results, load64(t + T_EVENTS), load64(t + T_WORD), scratch, held)
    if axes == 0 and returned == load64(results):
        return call(load64(runtime + R_RETURN), returned)
    return returned


def chain_job(job: int) -> int:
    """A part of a large run, or its sizes, in the floating-point mode of the thread that wants it; H_PARTS -1: the arrays don't fit."""
    desc = load64(job + H_DESC)
    t = stack(T_SIZE)
    store64(job + H_PARTS, -1)
    if chain_fit(desc, load64(job + H_ARGS), t) <= 0:
        return 0
    store64(job + H_PARTS, load64(t + T_PARTS))
    store64(job + H_FIRST, load64(t + T_DIMS))
    store64(job + H_SCRATCH, load64(t + T_SCRATCH))
    what = load64(job + H_WHAT)
    if what == 3:
        return 0
    scratch = stack(8)
    before = get_status(scratch)
    mode = load64(job + H_MODE)
    if mode == 0:
        mode = before
    set_status(scratch, mode & (-1 - ALL_EVENTS))
    outs = load64(job + H_OUTS)
    start = load64(job + H_START)
    stop = load64(job + H_STOP)
    memory = load64(job + H_MEMORY)
    store64(t + T_PARTIAL, load64(job + H_PARTIAL))
    if what == 0:
        chain_rows(desc, t, outs, start, stop, memory)
    if what == 1:
        chain_parts(desc, t, outs, start, stop, memory)
    if what == 2:
        chain_finish(desc, t, outs, memory)
    store64(job + H_EVENTS, load64(t + T_EVENTS))
    store64(job + H_WORD, load64(t + T_WORD))
    set_status(scratch, before)
    return 0
