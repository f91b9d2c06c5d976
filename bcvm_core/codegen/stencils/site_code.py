"""The function in the place of a region, in the language of `native.py`.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .entry_code import entry
from .native import call, load32, load64, store64
from .offsets import (
    BYTES_HEAD,
    DIMS,
    EACH,
    MONOTONIC,
    N_BOUND,
    N_COUNT,
    N_FIRST,
    N_NEVER,
    N_PAGE,
    N_ROOM,
    NDIM,
    NOTE_SIZE,
    R_DECREF,
    R_NDARRAY,
    R_NONE,
    R_TUPLE,
    R_TUPLE_SET,
    R_VECTORCALL,
    S_CHAIN,
    S_CLOCK,
    S_GUARD,
    S_GUARDS,
    S_HITS,
    S_IDENT,
    S_INPUTS,
    S_KERNEL,
    S_LAST,
    S_LONGEST,
    S_LOOKS,
    S_NOTES,
    S_PLAIN,
    S_REGION,
    S_RUNNING,
    S_RUNTIME,
    S_SHAPES,
    S_THREAD,
    S_TIME,
    S_TIMED,
    S_TOTAL,
    S_TRACE,
    S_TUPLE,
    SHAPE_DIMS,
    SHAPE_SIZE,
    SHORT_CODE_NS,
    SKIPPED,
    TYPE,
    VARIES,
    WATCHED,
)


def site(self: int, args: int, nargs: int) -> int:
    """A METH_FASTCALL function in the place of a region: guards, then the kernel's entry; whatever differs is the region's."""
    s = self + BYTES_HEAD
    inputs = load64(s + S_INPUTS)
    guards = load64(s + S_GUARDS)
    if nargs != inputs + guards:
        return ask(s, args, nargs)
    state = load64(load64(s + S_PLAIN))
    if state & (-1 - WATCHED):
        return ask(s, args, nargs)
    thread = call(load64(s + S_THREAD))
    if load64(thread + load64(s + S_TRACE)):
        return ask(s, args, nargs)
    k = 0
    while k < guards:
        if load64(args + 8 * (inputs + k)) != load64(s + S_GUARD + 8 * k):
            return ask(s, args, nargs)
        k = k + 1
    if load64(s + S_LOOKS) > 0 and known_shapes(s, args, inputs) == 0:
        store64(s + S_LOOKS, load64(s + S_LOOKS) - 1)
        return ask(s, args, nargs)
    started = 0
    if state:
        if notes_are_full(s):
            return ask(s, args, nargs)
        if is_due(s):
            started = now(s)
    store64(s + S_RUNNING, load64(s + S_RUNNING) + 1)
    if load64(s + S_CHAIN):
        result = call(load64(s + S_CHAIN), load64(s + S_KERNEL), args, inputs)
    else:
        result = entry(load64(s + S_KERNEL), args, inputs)
    store64(s + S_RUNNING, load64(s + S_RUNNING) - 1)
    if result == 0:
        return 0
    runtime = load64(s + S_RUNTIME)
    if result == load64(runtime + R_NONE):
        call(load64(runtime + R_DECREF), result)
        return ask(s, args, nargs)
    store64(s + S_HITS, load64(s + S_HITS) + 1)
    if started:
        note(s, started, load64(thread + load64(s + S_IDENT)))
    elif state:
        stand_for(s)
    if load64(s + S_TUPLE) == 0:
        return result
    made = call(load64(runtime + R_TUPLE), 1)
    if made == 0:
        call(load64(runtime + R_DECREF), result)
        return 0
    call(load64(runtime + R_TUPLE_SET), made, 0, result)
    return made


def ask(s: int, args: int, nargs: int) -> int:
    """Let the region do the call."""
    runtime = load64(s + S_RUNTIME)
    return call(load64(runtime + R_VECTORCALL), load64(s + S_REGION), args, nargs, 0)


def is_due(s: int) -> int:
    """1 when this call is timed. Of short ones one in 32 stands for those behind it, unless somebody wants to hear of each."""
    calls = load64(s + S_TIMED)
    if calls < EACH or (calls & SKIPPED) == 0 or load64(s + S_LAST) >= SHORT_CODE_NS:
        return 1
    if load64(load64(s + S_NOTES) + N_BOUND) < N_NEVER:
        return 1
    return 0


def stand_for(s: int) -> int:
    """A call that was not timed is over: it has taken what the latest one took that was."""
    store64(s + S_TIMED, load64(s + S_TIMED) + 1)
    store64(s + S_TOTAL, load64(s + S_TOTAL) + load64(s + S_LAST))
    return 0


def now(s: int) -> int:
    """Nanoseconds, by the clock of time.perf_counter."""
    call(load64(s + S_CLOCK), MONOTONIC, s + S_TIME)
    return load64(s + S_TIME) * 1000000000 + load64(s + S_TIME + 8)


def notes_are_full(s: int) -> int:
    """1 when the region must take the notes away first."""
    page = load64(load64(s + S_NOTES) + N_PAGE)
    if load64(page + N_COUNT) < load64(page + N_ROOM):
        return 0
    return 1


def note(s: int, started: int, thread: int) -> int:
    """Add a call that is over to the site's times, and to the notes when it took long."""
    spent = now(s) - started
    store64(s + S_TIMED, load64(s + S_TIMED) + 1)
    store64(s + S_TOTAL, load64(s + S_TOTAL) + spent)
    store64(s + S_LAST, spent)
    if spent > load64(s + S_LONGEST):
        store64(s + S_LONGEST, spent)
    head = load64(s + S_NOTES)
    if spent < load64(head + N_BOUND):
        return 0
    page = load64(head + N_PAGE)
    count = load64(page + N_COUNT)
    if count >= load64(page + N_ROOM):
        return 0
    at = page + N_FIRST + NOTE_SIZE * count
    store64(at, started)
    store64(at + 8, spent)
    store64(at + 16, s)
    store64(at + 24, thread)
    store64(page + N_COUNT, count + 1)
    return 0


def known_shapes(s: int, args: int, inputs: int) -> int:
    """1 when the shapes say nothing new: as when the region was asked last, but for sizes that are known to vary. They are noted."""
    runtime = load64(s + S_RUNTIME)
    ndarray = load64(runtime + R_NDARRAY)
    same = 1
    k = 0
    while k < inputs:
        x = load64(args + 8 * k)
        if load64(x + TYPE) != ndarray:
            return 0
        at = s + S_SHAPES + SHAPE_SIZE * k
        ndim = load32(x + NDIM)
        fresh = 0
        if load64(at) != ndim:
            fresh = 1
            same = 0
        store64(at, ndim)
        d = 0
        while d < ndim and d < SHAPE_DIMS:
            size = at + 8 + 8 * d
            dim = load64(load64(x + DIMS) + 8 * d)
            if fresh:
                store64(size, dim)
            elif load64(size) != VARIES and load64(size) != dim:
                same = 0
                store64(size, VARIES)
            d = d + 1
        k = k + 1
    return same
