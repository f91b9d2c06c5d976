"""One product, or a block of one, in the language of `native.py`: loops over panels, around the functions of `tiles.py`.

Columns of a block go through all the depth before the next: sums of `DEPTH` terms are added to the result one after the other. Nothing
here runs as Python.
"""

from __future__ import annotations

from ..stencils.native import call, load32, load64, store32, store64
from .job_code import (
    AHEAD,
    DEPTH,
    LINE,
    P_A,
    P_A_ROW,
    P_AHEAD,
    P_B,
    P_B_COLUMN,
    P_B_ROW,
    P_C,
    P_C_ROW,
    P_COLUMNS,
    P_COPY,
    P_DEPTH,
    P_DIRECT,
    P_EDGE,
    P_KEPT,
    P_LANES,
    P_LOW,
    P_MORE,
    P_PACKED_A,
    P_PACKED_B,
    P_PANELS,
    P_ROWS,
    P_SIZE,
    P_TILE,
    P_TILES,
)


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
