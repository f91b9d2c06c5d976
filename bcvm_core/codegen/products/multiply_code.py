"""One product, or a block of one, in the language of `native.py`: loops over panels, around the functions of `tiles.py`.

Columns of a block go through all the depth before the next: sums of `DEPTH` terms are added to the result one after the other. Nothing
here runs as Python.
"""

from __future__ import annotations

from typing import Final

from ..stencils.native import call, get_status, load32, load64, set_status, stack, store32, store64

DEPTH: Final = 256  # terms of a partial sum: part of what the result is
ALL_FLAGS: Final = 63
LINE: Final = 64  # bytes that memory gives at a time
AHEAD: Final = 1024  # so many bytes of columns are asked for before they are used
P_ROWS: Final = 0
P_COLUMNS: Final = 8
P_DEPTH: Final = 16
P_A: Final = 24  # rows of a lie in order
P_A_ROW: Final = 32
P_B: Final = 40
P_B_ROW: Final = 48  # from one step of the depth to the next
P_B_COLUMN: Final = 56  # one of the two is the size of an element
P_C: Final = 64
P_C_ROW: Final = 72
P_TILES: Final = 80  # addresses: of `turned`, then of the tiles with 1, 2, ... rows, ..., in the end `copied`
P_PANELS: Final = 88  # rows are cut into so many panels
P_LOW: Final = 96  # rows of the smaller ones
P_MORE: Final = 104  # so many have one row more
P_BLOCK: Final = 112  # columns of a block, in whole tiles
P_AHEAD: Final = 120  # 1: all of a is packed before, 0: each panel when it is used
P_DIRECT: Final = 128  # 1: b is read where it lies
P_PACKED_A: Final = 136
P_PACKED_B: Final = 144
P_EDGE: Final = 152  # rows of one tile, for the columns at the end that don't fill one
P_TILE: Final = 160  # columns of a tile
P_LANES: Final = 168
P_SIZE: Final = 176
P_COPY: Final = 184  # the address of `copied`
P_KEPT: Final = 208  # all of b, packed before by `pack`; 0: it is packed as it is used
P_TAIL: Final = 200  # what runs over blocks of the result, in place: 0 or an address
T_DRIVE: Final = 0  # the function that does a job of a fused kernel
T_JOB: Final = 8
T_COUNT: Final = 16  # of its operands
T_STARTS: Final = 24  # where each operand's element is that belongs to the first of the result
T_POINTERS: Final = 32  # of the job
T_STRIDES: Final = 40
T_STRIDES_ROW: Final = 48
T_DIMS: Final = 56
T_BLOCK: Final = 64  # columns that are enough for it to run
T_WORD: Final = 72  # events that it met, as in a job
T_STATUS: Final = 80
JOB_WORD: Final = 80
JOB_STATUS: Final = 88
P_BIAS: Final = 216  # a number for each column, added to sums when they are complete; 0: none
P_ADDED: Final = 224  # the address of `added`
P_ACTIVATION: Final = 232  # what is computed of the results, then: the loop of an algorithm, or 0
MET: Final = 256  # among the flags of a product: the activation met something
P_MODE: Final = 192  # the floating-point status to run in; 0: that of the calling thread


JOB_SIZE: Final = 240
C_PLAN: Final = 0  # a call: the address of its plan,
C_MODE: Final = 8  # the floating-point mode,
C_TASKS: Final = 16  # six words for each product: a, b, c, b as it is kept, bias, activation; then the events of each piece
TASK_SIZE: Final = 48
L_JOBS: Final = 0  # a plan: the jobs of all pieces, in which scratch memory begins at 0,
L_PLACES: Final = 8  # six words for each: which product, and how far into its a, b, c, kept b and bias
L_EVENTS: Final = 16  # and where in a call the events begin
PLACE_SIZE: Final = 48


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
    if load64(job + P_AHEAD):
        pack_rows(job)
    columns = load64(job + P_COLUMNS)
    block = load64(job + P_BLOCK)
    tail = load64(job + P_TAIL)
    more = load64(job + P_BIAS) | load64(job + P_ACTIVATION)
    events = 0
    column = 0
    done = 0
    while column < columns:
        width = columns - column
        if width > block:
            width = block
        block_of_columns(job, column, width)
        column = column + width
        if tail and column < columns and column - done >= load64(tail + T_BLOCK):
            events = events | (get_status(scratch) & ALL_FLAGS)
            follow(tail, done, column)
            set_status(scratch, mode)
            done = column
        if more and column < columns:
            events = events | finish(job, done, column, mode)
            done = column
    copy_edge(job)
    if more:
        events = events | finish(job, done, columns, mode)
    events = events | (get_status(scratch) & ALL_FLAGS)
    if tail:
        follow(tail, done, columns)
    set_status(scratch, before)
    return events


def finish(job: int, first: int, last: int, mode: int) -> int:
    """Bias and activation of the columns `first` to `last`, row by row; the flags that were raised, but those within the activation."""
    scratch = stack(8)
    size = load64(job + P_SIZE)
    bias = load64(job + P_BIAS)
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


def pack(job: int) -> int:
    """All of b into `P_PACKED_B`, where it may be kept: panel after panel, each with the whole depth."""
    to = load64(job + P_PACKED_B)
    size = load64(job + P_SIZE)
    tile = load64(job + P_TILE)
    depth = load64(job + P_DEPTH)
    column = 0
    while column < load64(job + P_COLUMNS):
        start = 0
        while start < depth:
            count = depth - start
            if count > DEPTH:
                count = DEPTH
            store64(job + P_PACKED_B, to + (column * depth + start * tile) * size)
            pack_columns(job, column, tile, start, count)
            start = start + count
        column = column + tile
    return 0


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


def block_of_columns(job: int, column: int, width: int) -> int:
    """The whole depth of some columns."""
    depth = load64(job + P_DEPTH)
    start = 0
    while start < depth:
        count = depth - start
        if count > DEPTH:
            count = DEPTH
        if load64(job + P_KEPT) == 0:
            pack_columns(job, column, width, start, count)
        each_panel(job, column, width, start, count)
        start = start + count
    return 0


def each_panel(job: int, column: int, width: int, start: int, count: int) -> int:
    """All rows of a block for one piece of the depth."""
    panels = load64(job + P_PANELS)
    panel = 0
    row = 0
    while panel < panels:
        rows = load64(job + P_LOW) + (panel < load64(job + P_MORE))
        packed = load64(job + P_PACKED_A)
        if load64(job + P_AHEAD):
            packed = packed + (start * load64(job + P_ROWS) + row * count) * load64(job + P_SIZE)
        else:
            pack_panel(job, row, rows, start, count, packed)
        tiles(job, column, width, start, count, row, rows, packed)
        row = row + rows
        panel = panel + 1
    return 0


def tiles(job: int, column: int, width: int, start: int, count: int, row: int, rows: int, packed: int) -> int:
    """One panel of rows against all panels of columns in a block."""
    size = load64(job + P_SIZE)
    tile = load64(job + P_TILE)
    function = load64(load64(job + P_TILES) + 8 * rows)
    columns = load64(job + P_COLUMNS)
    kept = load64(job + P_KEPT)
    low = load64(job + P_LOW)
    all_rows = load64(job + P_ROWS)
    j = 0
    while j < width:
        b = load64(job + P_PACKED_B) + j * DEPTH * size
        if kept:
            b = kept + ((column + j) * load64(job + P_DEPTH) + start * tile) * size
        b_row = tile * size
        c_row = load64(job + P_C_ROW)
        c = load64(job + P_C) + row * c_row + (column + j) * size
        if column + j + tile > columns:
            c_row = tile * size
            c = load64(job + P_EDGE) + row * c_row
        else:
            if load64(job + P_DIRECT) and kept == 0:
                b_row = load64(job + P_B_ROW)
                b = load64(job + P_B) + start * b_row + (column + j) * size
        soon = b + AHEAD
        later = soon + LINE
        step = b_row
        if kept:  # what comes after this piece of the depth: half of it by each of the first two panels, or all by the only one
            step = b_row >> 1
            soon = b + count * b_row
            later = soon + count * step
            if row:
                soon = later
            if low < all_rows:
                if row == 0:
                    later = soon
                if row > low + 1:
                    soon = b
                    later = b
        call(function, count, packed, b, b_row, c, c_row, start, soon, later, step)
        j = j + tile
    return 0


def pack_rows(job: int) -> int:
    """All of a, in the order in which it is used."""
    depth = load64(job + P_DEPTH)
    size = load64(job + P_SIZE)
    to = load64(job + P_PACKED_A)
    start = 0
    while start < depth:
        count = depth - start
        if count > DEPTH:
            count = DEPTH
        panel = 0
        row = 0
        while panel < load64(job + P_PANELS):
            rows = load64(job + P_LOW) + (panel < load64(job + P_MORE))
            pack_panel(job, row, rows, start, count, to)
            to = to + rows * count * size
            row = row + rows
            panel = panel + 1
        start = start + count
    return 0


def pack_panel(job: int, row: int, rows: int, start: int, count: int, to: int) -> int:
    """Some rows of a, side by side. What is written beyond the end of a row is written again: so the last ones come first."""
    size = load64(job + P_SIZE)
    lanes = load64(job + P_LANES)
    stride = load64(job + P_A_ROW)
    turned = load64(load64(job + P_TILES))
    source = load64(job + P_A) + row * stride + start * size
    first = 0
    while first + lanes < rows:
        first = first + lanes
    while first >= 0:
        call(turned, count, source + first * stride, stride, rows - first, to + first * size, rows * size)
        first = first - lanes
    return 0


def pack_columns(job: int, column: int, width: int, start: int, count: int) -> int:
    """Some columns of b, panel by panel; the last column again where a panel is not full."""
    size = load64(job + P_SIZE)
    tile = load64(job + P_TILE)
    columns = load64(job + P_COLUMNS)
    b_row = load64(job + P_B_ROW)
    b_column = load64(job + P_B_COLUMN)
    j = 0
    while j < width:
        to = load64(job + P_PACKED_B) + j * DEPTH * size
        source = load64(job + P_B) + start * b_row + (column + j) * b_column
        real = columns - column - j
        if b_row == size:
            turn_columns(job, source, b_column, real, count, to)
        else:
            if real < tile:
                copy_columns(source, b_row, real, count, to, tile, size)
            else:
                if load64(job + P_DIRECT) == 0:
                    call(load64(job + P_COPY), count, source, b_row, to)
        j = j + tile
    return 0


def turn_columns(job: int, source: int, stride: int, real: int, count: int, to: int) -> int:
    """A panel of columns that lie in order."""
    lanes = load64(job + P_LANES)
    size = load64(job + P_SIZE)
    tile = load64(job + P_TILE)
    turned = load64(load64(job + P_TILES))
    first = 0
    while first < tile:
        there = real - first
        at = first
        if there < 1:
            there = 1
            at = real - 1
        call(turned, count, source + at * stride, stride, there, to + first * size, tile * size)
        first = first + lanes
    return 0


def copy_columns(source: int, stride: int, real: int, count: int, to: int, tile: int, size: int) -> int:
    """A panel that is not full, of rows that lie in order."""
    k = 0
    while k < count:
        j = 0
        while j < tile:
            at = j
            if at >= real:
                at = real - 1
            copy_element(source + k * stride + at * size, to + j * size, size)
            j = j + 1
        to = to + tile * size
        k = k + 1
    return 0


def copy_element(source: int, to: int, size: int) -> int:
    """4 or 8 bytes."""
    if size == 4:
        store32(to, load32(source))
    else:
        store64(to, load64(source))
    return 0


def copy_edge(job: int) -> int:
    """The columns at the end, from where their tiles were put to the result."""
    size = load64(job + P_SIZE)
    tile = load64(job + P_TILE)
    columns = load64(job + P_COLUMNS)
    column = 0
    while column + tile <= columns:
        column = column + tile
    row = 0
    while row < load64(job + P_ROWS):
        j = column
        while j < columns:
            source = load64(job + P_EDGE) + (row * tile + j - column) * size
            copy_element(source, load64(job + P_C) + row * load64(job + P_C_ROW) + j * size, size)
            j = j + 1
        row = row + 1
    return 0
