"""Products in the language of `native.py`: jobs, what follows them, and several at once. Nothing here runs as Python."""

from __future__ import annotations

from ..stencils.native import call, get_status, load64, set_status, stack, store64
from .amx_code import amx_block
from .amx_split_code import amx_begin
from .job_code import (
    ALL_FLAGS,
    C_MODE,
    C_PLAN,
    C_TASKS,
    JOB_SIZE,
    JOB_STATUS,
    JOB_WORD,
    L_EVENTS,
    L_JOBS,
    L_PLACES,
    MET,
    NEAR,
    P_A,
    P_ACTIVATION,
    P_ADDED,
    P_AHEAD,
    P_AMX,
    P_B,
    P_BIAS,
    P_BLOCK,
    P_C,
    P_C_ROW,
    P_COLUMNS,
    P_EDGE,
    P_KEPT,
    P_MODE,
    P_PACKED_A,
    P_PACKED_B,
    P_ROWS,
    P_SIZE,
    P_TAIL,
    PLACE_SIZE,
    T_BLOCK,
    T_COUNT,
    T_DIMS,
    T_DRIVE,
    T_JOB,
    T_POINTERS,
    T_STARTS,
    T_STATUS,
    T_STRIDES,
    T_STRIDES_ROW,
    T_WORD,
    TASK_SIZE,
    X_START,
    X_STOP,
)
from .panels_code import block_of_columns, copy_edge, pack_rows


def pieces(call_: int, scratch: int, first: int, last: int) -> int:
    """Work off some pieces of a call. `scratch`: memory of the calling thread."""
    job = stack(JOB_SIZE)
    plan = load64(call_ + C_PLAN)
    piece = first
    while piece < last:
        source = load64(plan + L_JOBS) + JOB_SIZE * piece
        k = 0
        while k < JOB_SIZE:
            store64(job + k, load64(source + k))
            k = k + 8
        store64(job + P_PACKED_A, load64(job + P_PACKED_A) + scratch)
        store64(job + P_PACKED_B, load64(job + P_PACKED_B) + scratch)
        store64(job + P_EDGE, load64(job + P_EDGE) + scratch)
        store64(job + P_MODE, load64(call_ + C_MODE))
        place = load64(plan + L_PLACES) + PLACE_SIZE * piece
        task = call_ + C_TASKS + TASK_SIZE * load64(place)
        store64(job + P_A, load64(task) + load64(place + 8))
        store64(job + P_B, load64(task + 8) + load64(place + 16))
        store64(job + P_C, load64(task + 16) + load64(place + 24))
        if load64(task + 24):
            store64(job + P_KEPT, load64(task + 24) + load64(place + 32))
        if load64(task + 32):
            store64(job + P_BIAS, load64(task + 32) + load64(place + 40))
        store64(job + P_ACTIVATION, load64(task + 40))
        store64(call_ + load64(plan + L_EVENTS) + 8 * piece, one(job))
        piece = piece + 1
    return 0


def status() -> int:
    """The floating-point status of the calling thread, without flags."""
    return get_status(stack(8)) & (-1 - ALL_FLAGS)


def multiply(job: int, places: int, count: int) -> int:
    """Work off a job for `count` pairs of matrices, whose addresses stand with those of their products; the flags that were raised."""
    events = 0
    while count > 0:
        store64(job + P_A, load64(places))
        store64(job + P_B, load64(places + 8))
        store64(job + P_C, load64(places + 16))
        events = events | one(job)
        places = places + 24
        count = count - 1
    return events


def one(job: int) -> int:
    """One product; the flags that it raised."""
    scratch = stack(8)
    before = get_status(scratch)
    mode = load64(job + P_MODE)
    if mode == 0:
        mode = before & (-1 - ALL_FLAGS)
    set_status(scratch, mode)
    amx = load64(job + P_AMX)
    if amx:
        call(load64(amx + X_START), tile_form(stack(64)))
        amx_begin(job)
    else:
        if load64(job + P_AHEAD):
            pack_rows(job)
    columns = load64(job + P_COLUMNS)
    block = load64(job + P_BLOCK)
    tail = load64(job + P_TAIL)
    more = load64(job + P_BIAS) | load64(job + P_ACTIVATION)
    if amx:
        more = load64(job + P_ACTIVATION)
    events = 0
    column = 0
    done = 0
    while column < columns:
        width = columns - column
        if width > block:
            width = block
        if amx:
            amx_block(job, column, width)
        else:
            block_of_columns(job, column, width)
        column = column + width
        if tail and column < columns and column - done >= load64(tail + T_BLOCK):
            events = events | (get_status(scratch) & ALL_FLAGS)
            follow(tail, done, column)
            set_status(scratch, mode)
            done = column
        if more and column < columns and (amx == 0 or column - done >= NEAR):
            events = events | finish(job, done, column, mode)
            done = column
    if amx:
        call(load64(amx + X_STOP))
    copy_edge(job)
    if more:
        events = events | finish(job, done, columns, mode)
    events = events | (get_status(scratch) & ALL_FLAGS)
    if tail:
        follow(tail, done, columns)
    set_status(scratch, before)
    return events


def tile_form(form: int) -> int:
    """How the matrix unit's eight registers are divided: 16 rows of 64 bytes each."""
    k = 0
    while k < 64:
        store64(form + k, 0)
        k = k + 8
    store64(form, 1)
    store64(form + 16, 0x0040004000400040)
    store64(form + 24, 0x0040004000400040)
    store64(form + 48, 0x1010101010101010)
    return form


def finish(job: int, first: int, last: int, mode: int) -> int:
    """Bias and activation of the columns `first` to `last`, row by row; the flags that were raised, but those within the activation."""
    scratch = stack(8)
    size = load64(job + P_SIZE)
    bias = load64(job + P_BIAS)
    if load64(job + P_AMX):
        bias = 0  # it is there already
    activation = load64(job + P_ACTIVATION)
    place = load64(job + P_C) + first * size
    events = 0
    row = 0
    while row < load64(job + P_ROWS):
        if bias:
            call(load64(job + P_ADDED), last - first, place, bias + first * size)
        if activation:
            events = events | (get_status(scratch) & ALL_FLAGS)
            if call(activation, last - first, place, size, place, size) & 255:
                events = events | MET
            set_status(scratch, mode)
        place = place + load64(job + P_C_ROW)
        row = row + 1
    return events


def follow(tail: int, first: int, last: int) -> int:
    """What runs over the columns `first` to `last` of the result."""
    store64(load64(tail + T_DIMS) + 8, last - first)
    k = 0
    while k < load64(tail + T_COUNT):
        step = load64(load64(tail + T_STRIDES) + load64(tail + T_STRIDES_ROW) * k + 8)
        store64(load64(tail + T_POINTERS) + 8 * k, load64(load64(tail + T_STARTS) + 8 * k) + first * step)
        k = k + 1
    job = load64(tail + T_JOB)
    call(load64(tail + T_DRIVE), job)
    store64(tail + T_WORD, load64(tail + T_WORD) | load64(job + JOB_WORD))
    store64(tail + T_STATUS, load64(tail + T_STATUS) | load64(job + JOB_STATUS))
    return 0
