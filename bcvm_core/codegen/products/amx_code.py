"""A block of one product by the processor's matrix unit, in the language of `native.py`: loops around the functions of `amx.py`.

Each number is the sum of three of 8 bits, and a product of two the sum of the six products that count; numbers whose parts or products
might leave the range of exponents (`amx.py` says which, infinities and NaN among them) are left out and multiplied on their own
afterwards. As in `panels_code.py`, sums of `DEPTH` terms are added to the result one after the other. Nothing here runs as Python.
"""

from __future__ import annotations

from ..stencils.native import call, load32, load64, store32, store64
from .amx_memory_code import (
    ANY,
    B_BIAS,
    B_HELD,
    B_MARKS,
    B_NOTHING,
    B_PLACE,
    B_READY,
    B_SPLIT,
    B_SUMS,
    B_WITH,
    BAND,
    BAND_MARKS,
    CHUNK,
    HELD,
    PANEL,
    SIDE,
    TALL,
    TERMS,
    W_BIAS,
    W_DONE,
    W_EACH,
    W_FAR,
    W_FROM,
    W_LEFT,
    W_SUMS,
    W_SUMS_ROW,
    W_TO,
    WIDE,
)
from .amx_split_code import amx_marks, amx_parts, amx_split_columns, amx_split_rows, amx_split_whole_rows, amx_terms
from .job_code import (
    DEPTH,
    P_A,
    P_A_ROW,
    P_ADDED,
    P_AHEAD,
    P_AMX,
    P_B,
    P_B_ROW,
    P_BIAS,
    P_C,
    P_C_ROW,
    P_COLUMNS,
    P_DEPTH,
    P_DIRECT,
    P_EDGE,
    P_KEPT,
    P_PACKED_B,
    P_ROWS,
    X_COLUMNS,
    X_MARKED_COLUMNS,
    X_MENDED,
    X_ONE,
    X_TWO,
)
from .panels_code import pack_columns


def amx_block(job: int, column: int, width: int) -> int:
    """The whole depth of some columns."""
    rows = load64(job + P_ROWS)
    first = 0
    while first < rows:
        count = rows - first
        if count > TALL:
            count = TALL
        if load64(job + P_AHEAD):
            if rows > TALL:
                amx_split_whole_rows(job, first, count)
            amx_panels(job, column, width, first, count, 0, load64(job + P_DEPTH))
        else:
            start = 0
            while start < load64(job + P_DEPTH):
                amx_split_rows(job, first, count, start)
                amx_panels(job, column, width, first, count, start, start + 1)
                start = start + DEPTH
        first = first + count
    return 0


def amx_panels(job: int, column: int, width: int, first: int, count: int, start: int, end: int) -> int:
    """Some rows against all panels of columns in a block, each over the pieces of the depth that begin at `start` and before `end`."""
    j = column
    while j < column + width:
        piece = start
        while piece < end:
            amx_panel(job, column + width, first, count, j, piece)
            piece = piece + DEPTH
        j = j + PANEL
    return 0


def amx_panel(job: int, end: int, first: int, count: int, j: int, start: int) -> int:
    """Some rows against one panel of columns, over one piece of the depth. `end`: of the block."""
    terms = amx_terms(job, start)
    columns = load64(job + P_COLUMNS)
    kept = load64(job + P_KEPT) & (0 - 2)
    b = load64(job + P_PACKED_B)
    b_row = PANEL * 4
    if kept:
        b = kept + (j * load64(job + P_DEPTH) + start * PANEL) * 4
    else:
        if load64(job + P_DIRECT) and j + PANEL <= columns:
            b_row = load64(job + P_B_ROW)
            b = load64(job + P_B) + start * b_row + j * 4
        else:
            pack_columns(job, j, PANEL, start, terms)
    c_row = load64(job + P_C_ROW)
    c = load64(job + P_C) + first * c_row + j * 4
    if j + PANEL > columns:
        c_row = PANEL * 4
        c = load64(job + P_EDGE) + first * c_row
    following = amx_following(job, j, end, start)
    bias = amx_bias(job, j, start)
    if j + WIDE < columns:
        amx_tile(job, first, count, start, b, b_row, c, c_row, b + WIDE * 4, terms, 0, bias)
        if bias:
            bias = bias + WIDE * 4
        b = b + WIDE * 4
        c = c + WIDE * 4
    amx_tile(job, first, count, start, b, b_row, c, c_row, following, amx_terms(job, amx_following_start(job, start)), HELD, bias)
    return 0


def amx_bias(job: int, column: int, start: int) -> int:
    """The bias of a panel, where its sums are complete after this piece of the depth; 0: none."""
    bias = load64(job + P_BIAS)
    if bias == 0 or start + DEPTH < load64(job + P_DEPTH):
        return 0
    bias = bias + 4 * column
    if column + PANEL <= load64(job + P_COLUMNS):
        return bias
    padded = load64(job + P_PACKED_B) + B_BIAS
    k = column
    while k < load64(job + P_COLUMNS):
        store32(padded + 4 * (k - column), load32(bias + 4 * (k - column)))
        k = k + 1
    while k < column + PANEL:
        store32(padded + 4 * (k - column), 0)  # what stands there must not look like an event
        k = k + 1
    return padded


def amx_following_start(job: int, start: int) -> int:
    """The piece of the depth to which the panel belongs that is used after one of the piece `start`."""
    if load64(job + P_AHEAD) == 0:
        return start
    if start + DEPTH < load64(job + P_DEPTH):
        return start + DEPTH
    return 0


def amx_following(job: int, column: int, end: int, start: int) -> int:
    """Where the kept panel is that is used after this one; 0: there is none, or it is not known."""
    after = amx_following_start(job, start)
    following = column
    if load64(job + P_AHEAD) == 0 or after == 0:
        following = column + PANEL
    if load64(job + P_ROWS) <= TALL:
        end = load64(job + P_COLUMNS)
    if following >= end:
        return 0
    return (load64(job + P_KEPT) & (0 - 2)) + (following * load64(job + P_DEPTH) + after * PANEL) * 4


def amx_tile(
    job: int,
    first: int,
    count: int,
    start: int,
    b: int,
    b_row: int,
    c: int,
    c_row: int,
    following: int,
    following_terms: int,
    held: int,
    bias: int,
) -> int:
    """Some rows against one tile of columns.

    The tile at `following`, if it is kept and plain, is split meanwhile: so the unit never waits. `held`: which memory the sums may be kept
    in as long as they are not complete. `bias`: what is added then, 0 for nothing.
    """
    terms = amx_terms(job, start)
    memory = load64(job + P_PACKED_B)
    amx = load64(job + P_AMX)
    parts_b = memory + B_SPLIT
    hard = 0
    if load64(job + P_KEPT) & 1:
        if load64(memory + B_READY) == b:
            parts_b = load64(memory + B_PLACE)
        else:
            amx_split_columns(job, load64(amx + X_COLUMNS), b, b_row, terms, parts_b)
    else:
        hard = amx_split_columns(job, load64(amx + X_MARKED_COLUMNS), b, b_row, terms, parts_b)
        following = 0
    chunks = (terms + TERMS - 1) >> 5
    if following_terms & (TERMS - 1):
        following = 0
    given = memory + B_WITH
    other = memory + B_SPLIT + SIDE
    if parts_b == other:
        other = memory + B_SPLIT
    steps = chunks * amx_pairs(count)
    store64(given + W_FROM, following)
    store64(given + W_TO, other)
    store64(given + W_DONE, 0)
    store64(given + W_LEFT, 0)
    store64(given + W_EACH, 1)
    store64(memory + B_READY, following)
    store64(memory + B_PLACE, other)
    if following:
        pairs = following_terms >> 1
        each = 1
        while each * steps < pairs:
            each = each + 1
        store64(given + W_LEFT, pairs)
        store64(given + W_EACH, each)
        store64(given + W_FAR, amx_far(job, terms))
    parts = amx_parts(job, start)
    marks = amx_marks(job, start)
    sums = c
    sums_row = c_row
    if load64(job + P_AHEAD):  # all pieces of the depth follow each other: the result's rows, far apart, are written once
        sums = memory + B_HELD + held
        sums_row = WIDE * 4
        if start + terms < load64(job + P_DEPTH):
            c = sums
            c_row = sums_row
    store64(given + W_SUMS_ROW, sums_row)
    row = 0
    while row < count:
        store64(given + W_SUMS, sums + row * sums_row)
        rows = count - row
        product = load64(amx + X_TWO)
        if rows <= BAND:
            product = load64(amx + X_ONE)
        if rows > 2 * BAND:
            rows = 2 * BAND
        odd = hard | load64(marks + ANY)
        if rows > BAND:
            odd = odd | load64(marks + BAND_MARKS + ANY)
        store64(given + W_BIAS, memory + B_NOTHING)
        if bias and odd == 0:
            store64(given + W_BIAS, bias)
        call(product, chunks, parts, parts_b, memory + B_SUMS, c, c_row, start, rows, given)
        if odd:
            amx_mend_bands(job, first, row, count, start, marks, b, b_row, c, c_row, hard)
            if bias:
                amx_add_bias(job, rows, c, c_row, bias)
        marks = marks + 2 * BAND_MARKS
        parts = parts + 2 * chunks * CHUNK
        c = c + 2 * BAND * c_row
        row = row + 2 * BAND
    return 0


def amx_far(job: int, terms: int) -> int:
    """How far from a tile's numbers those are of the tile that is used after the next, where they are kept."""
    if load64(job + P_AHEAD):
        return terms * PANEL * 4
    return load64(job + P_DEPTH) * PANEL * 4


def amx_pairs(rows: int) -> int:
    """How many pairs of bands there are."""
    return (rows + 2 * BAND - 1) >> 5


def amx_add_bias(job: int, rows: int, c: int, c_row: int, bias: int) -> int:
    """Add the bias to some rows of a tile."""
    while rows > 0:
        call(load64(job + P_ADDED), WIDE, c, bias)
        c = c + c_row
        rows = rows - 1
    return 0


def amx_mend_bands(
    job: int, first: int, row: int, count: int, start: int, marks: int, b: int, b_row: int, c: int, c_row: int, hard: int
) -> int:
    """What `amx_mend` does, for up to two bands."""
    band = row
    while band < count and band < row + 2 * BAND:
        if hard | load64(marks + ANY):
            amx_mend(job, first, band, count, start, marks, b, b_row, c, c_row, hard)
        marks = marks + BAND_MARKS
        c = c + BAND * c_row
        band = band + BAND
    return 0


def amx_mend(job: int, first: int, band: int, count: int, start: int, marks: int, b: int, b_row: int, c: int, c_row: int, hard: int) -> int:
    """Add the products of the numbers of one band and one tile that were left out, in the order of the depth."""
    rows = count - band
    if rows > BAND:
        rows = BAND
    terms = amx_terms(job, start)
    a_row = load64(job + P_A_ROW)
    a = load64(job + P_A) + (first + band) * a_row + start * 4
    columns = load64(job + P_PACKED_B) + B_MARKS
    mended = load64(load64(job + P_AMX) + X_MENDED)
    call(mended, rows, a, a_row, terms, b, b_row, c, c_row, marks, load64(marks + ANY), columns, hard)
    return 0
