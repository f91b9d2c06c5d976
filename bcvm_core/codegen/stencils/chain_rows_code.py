"""Blocks of rows through the stages of a chain, in the language of `native.py`.

A stage is a kernel over elements, over one number per row, or over rows. Its operands are places: arrays that were given, buffers
that hold a block, and results. A row that only reductions read may be cut: each part is reduced on its own, and the
parts' results are put together in the order of the tree (`ops/trees.py`).

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .native import call, get_status, load64, set_status, stack, store64
from .offsets import (
    ALL_EVENTS,
    CHAIN_PART,
    D_INPUTS,
    D_OUTPUTS,
    EVENTS,
    FIRST_BUFFER,
    FIRST_OUTPUT,
    G_BLOCK,
    G_CODE,
    G_CONSTANTS,
    G_CONTEXT,
    G_COUNT,
    G_EPS,
    G_FINISH,
    G_KIND,
    G_LESS,
    G_PART,
    G_PLACE,
    G_QUIET,
    L_ARGUMENTS,
    MAX_DIMS,
    OF_ROWS,
    OVER_ROWS,
    PLACE_SIZE,
    POINTERS,
    STAGE_SIZE,
    T_BLOCK,
    T_DIMS,
    T_EVENTS,
    T_LEFT,
    T_N,
    T_PARTIAL,
    T_PARTS,
    T_PLACES,
    T_POINTERS,
    T_SCRATCH,
    T_STRIDES,
    T_WORD,
    X_BUFFERS,
    X_LONG,
    X_STAGE,
    X_STAGES,
)
from .rows_code import advance
from .shapes_code import product, zeros


def chain_rows(desc: int, t: int, outs: int, start: int, stop: int, memory: int) -> int:
    """Run rows: those from `start` to `stop` of the first of the joined axes."""
    count = load64(desc + D_INPUTS)
    left = load64(t + T_LEFT)
    dims = t + T_DIMS
    strides = t + T_STRIDES
    at_home(desc, t, memory)
    pointers = stack(64)
    k = 0
    while k < count:
        store64(pointers + 8 * k, load64(t + T_POINTERS + 8 * k) + start * load64(strides + 8 * MAX_DIMS * k))
        k = k + 1
    going = 1
    m = stop - start
    flat = start * product(dims, 1, left)
    if left > 1:
        going = (stop - start) * product(dims, 1, left - 1)
        m = load64(dims + 8 * (left - 1))
    index = zeros(stack(8 * MAX_DIMS), MAX_DIMS)
    block = load64(t + T_BLOCK)
    while going > 0:
        at = 0
        while at < m:
            some = m - at
            if some > block:
                some = block
            chain_block(desc, t, pointers, outs, at, some, flat + at)
            at = at + some
        flat = flat + m
        going = going - 1
        if going > 0:
            advance(left, dims, count, pointers, strides, index)
    return 0


def at_home(desc: int, t: int, memory: int) -> int:
    """Give buffers their memory, and results of parts the end of it if they have none."""
    buffers = load64(desc + X_BUFFERS)
    k = 0
    while k < buffers:
        place = t + T_PLACES + PLACE_SIZE * (FIRST_BUFFER + k)
        store64(place, load64(place) + memory)
        k = k + 1
    if load64(t + T_PARTIAL) == 0:
        store64(t + T_PARTIAL, memory + load64(t + T_SCRATCH) - 8 * load64(t + T_PARTS) * load64(desc + X_LONG))
    return 0


def chain_block(desc: int, t: int, pointers: int, outs: int, at: int, some: int, row: int) -> int:
    """Rows at .. at + some of where `pointers` stand; `row`: the number of the first among all."""
    chain_begin(desc, t, pointers, outs, at, row)
    stages = load64(desc + X_STAGES)
    k = 0
    parts = load64(t + T_PARTS)
    if parts:
        chain_some_parts(desc, t, 0, parts)
        chain_together(desc, t)
        k = load64(desc + X_LONG)
    n = load64(t + T_N)
    while k < stages:
        chain_stage(desc, t, k, some, n)
        k = k + 1
    return 0


def chain_begin(desc: int, t: int, pointers: int, outs: int, at: int, row: int) -> int:
    """Move the places of arrays and results to a block of rows."""
    count = load64(desc + D_INPUTS)
    k = 0
    while k < count:
        place = t + T_PLACES + PLACE_SIZE * k
        store64(place, load64(pointers + 8 * k) + at * load64(place + 8))
        k = k + 1
    count = load64(desc + D_OUTPUTS)
    k = 0
    while k < count:
        place = t + T_PLACES + PLACE_SIZE * (FIRST_OUTPUT + k)
        store64(place, load64(outs + 8 * k) + row * load64(place + 8))
        k = k + 1
    return 0


def chain_stage(desc: int, t: int, number: int, rows: int, n: int) -> int:
    """Run one stage over a block, and note what happened."""
    stage = desc + X_STAGE + STAGE_SIZE * number
    kind = load64(stage + G_KIND)
    if kind == OVER_ROWS:
        arguments = stack(L_ARGUMENTS)
        chain_arguments(t, stage, arguments, load64(stage + G_LESS))
        call(load64(stage + G_CODE), rows, n, 1, place_at(t, stage, 0), place_at(t, stage, 1), arguments)
    else:
        chain_elements(t, stage, kind, rows, n)
    return chain_note(t, load64(stage + G_QUIET))


def place_at(t: int, stage: int, k: int) -> int:
    """The address of a stage's operand."""
    return load64(t + T_PLACES + PLACE_SIZE * load64(stage + G_PLACE + 8 * k))


def chain_arguments(t: int, stage: int, arguments: int, less: int) -> int:
    """What a kernel over rows is given beside its rows."""
    count = load64(stage + G_COUNT)
    store64(arguments, 0)
    store64(arguments + 8, 0)
    k = 2
    while k < count:
        store64(arguments + 8 * (k - 2), place_at(t, stage, k))
        k = k + 1
    store64(arguments + 16, load64(stage + G_EPS))
    store64(arguments + 24, less)
    store64(arguments + 32, 0)
    store64(arguments + 40, 0)
    return 0


def chain_elements(t: int, stage: int, kind: int, rows: int, n: int) -> int:
    """A kernel over elements: in one go where all operands lie side by side, else row by row."""
    count = load64(stage + G_COUNT)
    context = stack(load64(stage + G_CONTEXT))
    store64(context, 0)
    together = 1
    k = 0
    while k < count:
        place = t + T_PLACES + PLACE_SIZE * load64(stage + G_PLACE + 8 * k)
        store64(context + POINTERS + 8 * k, load64(place))
        if load64(place + 8) != n * load64(place + 16):
            together = 0
        k = k + 1
    code = load64(stage + G_CODE)
    constants = load64(stage + G_CONSTANTS)
    if kind != OF_ROWS:
        call(code, context, rows, constants)
    else:
        if together or rows == 1:
            call(code, context, rows * n, constants)
        else:
            r = 1
            while r <= rows:
                call(code, context, n, constants)
                k = 0
                while k < count:
                    place = t + T_PLACES + PLACE_SIZE * load64(stage + G_PLACE + 8 * k)
                    store64(context + POINTERS + 8 * k, load64(place) + r * load64(place + 8))
                    k = k + 1
                r = r + 1
    store64(t + T_WORD, load64(t + T_WORD) | load64(context))
    return 0


def chain_note(t: int, quiet: int) -> int:
    """Take the floating-point events that were raised down."""
    scratch = stack(8)
    status = get_status(scratch)
    if status & EVENTS:
        if quiet == 0:
            store64(t + T_EVENTS, load64(t + T_EVENTS) | (status & EVENTS))
        set_status(scratch, status & (-1 - ALL_EVENTS))
    return 0


def chain_parts(desc: int, t: int, outs: int, start: int, stop: int, memory: int) -> int:
    """Reduce some parts of the only row."""
    at_home(desc, t, memory)
    chain_begin(desc, t, t + T_POINTERS, outs, 0, 0)
    return chain_some_parts(desc, t, start, stop)


def chain_finish(desc: int, t: int, outs: int, memory: int) -> int:
    """What follows when all parts of the only row are reduced."""
    at_home(desc, t, memory)
    chain_begin(desc, t, t + T_POINTERS, outs, 0, 0)
    chain_together(desc, t)
    k = load64(desc + X_LONG)
    stages = load64(desc + X_STAGES)
    while k < stages:
        chain_stage(desc, t, k, 1, load64(t + T_N))
        k = k + 1
    return 0


def chain_some_parts(desc: int, t: int, start: int, stop: int) -> int:
    """Parts of the row at which the places stand, each through the first stages."""
    count = load64(desc + D_INPUTS)
    base = stack(64)
    k = 0
    while k < count:
        store64(base + 8 * k, load64(t + T_PLACES + PLACE_SIZE * k))
        k = k + 1
    while start < stop:
        k = 0
        while k < count:
            place = t + T_PLACES + PLACE_SIZE * k
            store64(place, load64(base + 8 * k) + start * CHAIN_PART * load64(place + 16))
            k = k + 1
        some = load64(t + T_N) - start * CHAIN_PART
        if some > CHAIN_PART:
            some = CHAIN_PART
        chain_part(desc, t, start, some)
        start = start + 1
    k = 0
    while k < count:
        store64(t + T_PLACES + PLACE_SIZE * k, load64(base + 8 * k))
        k = k + 1
    return 0


def chain_part(desc: int, t: int, part: int, some: int) -> int:
    """One part: elements are computed, and what they are reduced to is put with the results of parts."""
    first = load64(desc + X_LONG)
    parts = load64(t + T_PARTS)
    k = 0
    while k < first:
        stage = desc + X_STAGE + STAGE_SIZE * k
        if load64(stage + G_KIND) == OVER_ROWS:
            arguments = stack(L_ARGUMENTS)
            chain_arguments(t, stage, arguments, 0)
            to = load64(t + T_PARTIAL) + 8 * parts * k + part * load64(stage + G_PART)
            call(load64(stage + G_BLOCK), 1, some, 1, place_at(t, stage, 0), to, arguments)
        else:
            chain_elements(t, stage, load64(stage + G_KIND), 1, some)
        chain_note(t, load64(stage + G_QUIET))
        k = k + 1
    return 0


def chain_together(desc: int, t: int) -> int:
    """Put the results of all parts together."""
    first = load64(desc + X_LONG)
    parts = load64(t + T_PARTS)
    k = 0
    while k < first:
        stage = desc + X_STAGE + STAGE_SIZE * k
        if load64(stage + G_KIND) == OVER_ROWS:
            arguments = stack(L_ARGUMENTS)
            chain_arguments(t, stage, arguments, load64(t + T_N))
            call(load64(stage + G_FINISH), 1, parts, 1, load64(t + T_PARTIAL) + 8 * parts * k, place_at(t, stage, 1), arguments)
            chain_note(t, load64(stage + G_QUIET))
        k = k + 1
    return 0
