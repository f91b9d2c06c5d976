"""Results of calls: made, given, dropped, in the language of `native.py`.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .native import call, get_status, load64, set_status, store64
from .offsets import (
    ALL_EVENTS,
    D_INPUTS,
    D_OPERANDS,
    D_OUTPUTS,
    D_RUNTIME,
    D_SLOW,
    D_UNDERFLOW,
    EVENTS,
    HARD,
    OPERAND_SIZE,
    R_DECREF,
    R_EMPTY,
    R_HANDLER,
    R_INCREF,
    R_NONE,
    R_SAVE_THREAD,
    R_SET_HANDLER,
    R_TRUE,
    R_TUPLE,
    R_TUPLE_SET,
    R_VECTORCALL,
    RECYCLED_MAX,
    RECYCLED_MIN,
)


def slow(desc: int, args: int, nargs: int) -> int:
    """Let Python code do the call."""
    runtime = load64(desc + D_RUNTIME)
    return call(load64(runtime + R_VECTORCALL), load64(desc + D_SLOW), args, nargs, 0)


def without_events(scratch: int) -> int:
    """Lower the flags of floating-point events, where some are up: what is up later was raised meanwhile. The status that was."""
    status = get_status(scratch)
    if status & EVENTS:
        set_status(scratch, status & (-1 - ALL_EVENTS))
    return status


def let_others_run(runtime: int, held: int) -> int:
    """Give the interpreter's lock away, holding on to `held` meanwhile; the thread, with which it is taken again."""
    call(load64(runtime + R_INCREF), held)
    return call(load64(runtime + R_SAVE_THREAD))


def allocate(desc: int, ndim: int, dims: int, fortran: int, results: int, n: int) -> int:
    """Fresh arrays for all outputs; 0 when there is no memory (and the error is set)."""
    runtime = load64(desc + D_RUNTIME)
    outputs = load64(desc + D_OUTPUTS)
    operand = desc + D_OPERANDS + OPERAND_SIZE * load64(desc + D_INPUTS)
    k = 0
    while k < outputs:
        size = n * load64(operand + OPERAND_SIZE * k + 8)
        descr = load64(operand + OPERAND_SIZE * k)
        call(load64(runtime + R_INCREF), descr)
        if size >= RECYCLED_MIN and size <= RECYCLED_MAX and load64(runtime + R_SET_HANDLER):
            made = recycled(runtime, ndim, dims, descr, fortran)
        else:
            made = call(load64(runtime + R_EMPTY), ndim, dims, descr, fortran)
        if made == 0:
            drop(runtime, results, k)
            return 0
        store64(results + 8 * k, made)
        k = k + 1
    return 1


def recycled(runtime: int, ndim: int, dims: int, descr: int, fortran: int) -> int:
    """A fresh array in memory that another one has left."""
    before = call(load64(runtime + R_SET_HANDLER), load64(runtime + R_HANDLER))
    if before == 0:
        return 0
    made = call(load64(runtime + R_EMPTY), ndim, dims, descr, fortran)
    ours = call(load64(runtime + R_SET_HANDLER), before)
    call(load64(runtime + R_DECREF), before)
    call(load64(runtime + R_DECREF), ours)
    return made


def drop(runtime: int, results: int, outputs: int) -> int:
    """Give arrays back."""
    k = 0
    while k < outputs:
        call(load64(runtime + R_DECREF), load64(results + 8 * k))
        k = k + 1
    return 0


def given(desc: int, results: int) -> int:
    """The outputs as what is returned."""
    outputs = load64(desc + D_OUTPUTS)
    if outputs == 1:
        return load64(results)
    runtime = load64(desc + D_RUNTIME)
    made = call(load64(runtime + R_TUPLE), outputs)
    if made == 0:
        return drop(runtime, results, outputs)
    k = 0
    while k < outputs:
        call(load64(runtime + R_TUPLE_SET), made, k, load64(results + 8 * k))
        k = k + 1
    return made


def settled(desc: int, results: int, raised: int, word: int, scratch: int, held: int) -> int:
    """What a call returns after its kernel ran; `held`: what was held on to while others could run, or 0."""
    runtime = load64(desc + D_RUNTIME)
    if raised or word:
        returned = trouble(desc, results, raised, word, scratch)
    else:
        returned = given(desc, results)
    if held:
        call(load64(runtime + R_DECREF), held)
    return returned


def trouble(desc: int, results: int, raised: int, word: int, scratch: int) -> int:
    """Events were met: None, unless it was underflow alone and nobody wants to hear of it."""
    set_status(scratch, get_status(scratch) & (-1 - ALL_EVENTS))
    runtime = load64(desc + D_RUNTIME)
    outputs = load64(desc + D_OUTPUTS)
    if (raised & HARD) == 0 and word == 0:
        answer = call(load64(runtime + R_VECTORCALL), load64(desc + D_UNDERFLOW), 0, 0, 0)
        if answer == 0:
            return drop(runtime, results, outputs)
        ignored = answer == load64(runtime + R_TRUE)
        call(load64(runtime + R_DECREF), answer)
        if ignored:
            return given(desc, results)
    drop(runtime, results, outputs)
    none = load64(runtime + R_NONE)
    call(load64(runtime + R_INCREF), none)
    return none
