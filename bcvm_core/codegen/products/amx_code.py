"""A block of one product by the processor's matrix unit, in the language of `native.py`: loops around the functions of `amx.py`.

Each number is the sum of three of 8 bits, and a product of two the sum of the six products that count; numbers whose parts or products
might leave the range of exponents (`amx.py` says which, infinities and NaN among them) are left out and multiplied on their own
afterwards. As in `panels_code.py`, sums of `DEPTH` terms are added to the result one after the other. Nothing here runs as Python.
"""

from __future__ import annotations

from typing import Final

from ..stencils.native import call, get_status, load32, load64, set_status, stack, store32, store64
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
    P_PACKED_A,
    P_PACKED_B,
    P_ROWS,
    X_COLUMNS,
    X_MARKED_COLUMNS,
    X_MARKED_ROWS,
    X_MENDED,
    X_ONE,
    X_ROWS,
    X_TWO,
)
from .panels_code import pack_columns

BAND: Final = 16  # rows of a register of the unit,
WIDE: Final = 16  # columns,
TERMS: Final = 32  # and terms of a sum: a chunk of the depth
CHUNK: Final = 3072  # bytes of the parts of a register's numbers for so many terms
BAND_MARKS: Final = 576  # bytes that say which numbers of a band were left out: a word of bits per row and chunk; in the end, whether any
ANY: Final = 512
TALL: Final = 256  # rows whose parts stay near while all tiles of a block pass
PANEL: Final = 32  # columns of a panel of b, as `panels_code.py` packs it: two tiles
B_SPLIT: Final = 32768  # within the memory for columns, behind a panel of them: parts of two tiles, of one that is multiplied and the next,
SIDE: Final = 24576
B_MARKS: Final = 81920  # which numbers of a tile were left out,
B_ZERO: Final = 82944  # zeros,
B_SUMS: Final = 83072  # sums of two tiles, as the unit gives them,
B_READY: Final = 87168  # what is split already: the address of a tile's numbers, 0 for none, and where its parts are;
B_PLACE: Final = 87176
B_WITH: Final = 87184  # and what is split while a tile is multiplied
B_NOTHING: Final = 87296  # -0.0 for each column of a tile: nothing changes when it is added,
B_BIAS: Final = 87360  # the bias of a panel that is not full,
B_HELD: Final = 87488  # and sums of two tiles that are not complete
HELD: Final = 16384
NOTHING: Final = -9223372034707292160  # twice -0.0
B_BYTES: Final = 120256
W_FROM: Final = 0  # of this: where its numbers are, two steps of the depth in 256 bytes,
W_TO: Final = 8  # where their parts go,
W_DONE: Final = 16  # so many pairs of steps are done
W_LEFT: Final = 24  # and so many left,
W_EACH: Final = 32  # of which so many with each chunk,
W_FAR: Final = 40  # and how far from there what is asked for;
W_SUMS: Final = 48  # where the sums are to which those of a tile are added,
W_SUMS_ROW: Final = 56  # and how far their rows are apart;
W_BIAS: Final = 64  # and what is added to complete sums


def amx_begin(job: int) -> int:
    """What comes before the first block."""
    zero = load64(job + P_PACKED_B) + B_ZERO
    k = 0
    while k < 128:
        store64(zero + k, 0)
        k = k + 8
    nothing = load64(job + P_PACKED_B) + B_NOTHING
    k = 0
    while k < 64:
        store64(nothing + k, NOTHING)
        k = k + 8
    store64(load64(job + P_PACKED_B) + B_READY, 0)
    if load64(job + P_AHEAD) and load64(job + P_ROWS) <= TALL:
        amx_split_whole_rows(job, 0, load64(job + P_ROWS))
    return 0


def amx_split_whole_rows(job: int, first: int, count: int) -> int:
    """Split some rows over all the depth."""
    start = 0
    while start < load64(job + P_DEPTH):
        amx_split_rows(job, first, count, start)
        start = start + DEPTH
    return 0


def amx_bands(rows: int) -> int:
    """How many bands there are."""
    return (rows + BAND - 1) >> 4


def amx_terms(job: int, start: int) -> int:
    """Terms of the piece of the depth that begins at `start`."""
    count = load64(job + P_DEPTH) - start
    if count > DEPTH:
        count = DEPTH
    return count


def amx_together(job: int) -> int:
    """So many bands are split at a time."""
    bands = amx_bands(load64(job + P_ROWS))
    if bands > TALL >> 4:
        bands = TALL >> 4
    return bands


def amx_parts(job: int, start: int) -> int:
    """Where the split rows of a piece of the depth are."""
    place = load64(job + P_PACKED_A)
    if load64(job + P_AHEAD):
        place = place + (start >> 5) * CHUNK * amx_together(job)
    return place


def amx_marks(job: int, start: int) -> int:
    """Where the marks of these rows are."""
    bands = amx_together(job)
    chunks = (load64(job + P_DEPTH) + TERMS - 1) >> 5
    if load64(job + P_AHEAD):
        return load64(job + P_PACKED_A) + chunks * CHUNK * bands + (start >> 8) * bands * BAND_MARKS
    if chunks > DEPTH >> 5:
        chunks = DEPTH >> 5
    return load64(job + P_PACKED_A) + chunks * CHUNK * bands


def amx_split_rows(job: int, first: int, count: int, start: int) -> int:
    """Split some rows of a over one piece of the depth."""
    terms = amx_terms(job, start)
    to = amx_parts(job, start)
    marks = amx_marks(job, start)
    stride = load64(job + P_A_ROW)
    source = load64(job + P_A) + first * stride + start * 4
    split = load64(load64(job + P_AMX) + X_ROWS)
    scratch = stack(8)
    status = get_status(scratch)
    row = 0
    while row < count:
        rows = count - row
        if rows > BAND:
            rows = BAND
        left_out = call(split, rows, source, stride, terms, to)
        if left_out:
            set_status(scratch, status)
            call(load64(load64(job + P_AMX) + X_MARKED_ROWS), rows, source, stride, terms, to, marks)
        store64(marks + ANY, left_out)
        source = source + BAND * stride
        to = to + ((terms + TERMS - 1) >> 5) * CHUNK
        marks = marks + BAND_MARKS
        row = row + BAND
    return 0


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
    parts_b = memory + B_SPLIT
    hard = 0
    if load64(job + P_KEPT) & 1:
        if load64(memory + B_READY) == b:
            parts_b = load64(memory + B_PLACE)
        else:
            amx_split_plain(job, b, terms, parts_b)
    else:
        hard = amx_split_marked(job, b, b_row, terms)
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
    amx = load64(job + P_AMX)
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


def amx_split_plain(job: int, b: int, terms: int, to: int) -> int:
    """Split one tile of a kept panel, of numbers that all can be."""
    split = load64(load64(job + P_AMX) + X_COLUMNS)
    zero = load64(job + P_PACKED_B) + B_ZERO
    row = PANEL * 4
    k = 0
    while k < terms:
        pairs = (terms - k) >> 1
        if pairs >= BAND:
            call(split, BAND, b, b + row, 2 * row, to)
        else:
            if pairs:
                call(split, pairs, b, b + row, 2 * row, to)
            if (terms - k) & 1:
                call(split, 1, b + 2 * pairs * row, zero, 0, to + 64 * pairs)
                pairs = pairs + 1
            if pairs < BAND:
                call(split, BAND - pairs, zero, zero, 0, to + 64 * pairs)
        b = b + TERMS * row
        to = to + CHUNK
        k = k + TERMS
    return 0


def amx_split_marked(job: int, b: int, b_row: int, terms: int) -> int:
    """Split one tile of columns; whether numbers were left out."""
    split = load64(load64(job + P_AMX) + X_MARKED_COLUMNS)
    to = load64(job + P_PACKED_B) + B_SPLIT
    marks = load64(job + P_PACKED_B) + B_MARKS
    zero = load64(job + P_PACKED_B) + B_ZERO
    hard = 0
    k = 0
    while k < terms:
        pairs = (terms - k) >> 1
        if pairs >= BAND:
            hard = hard | call(split, BAND, b, b + b_row, 2 * b_row, to, marks)
        else:
            if pairs:
                hard = hard | call(split, pairs, b, b + b_row, 2 * b_row, to, marks)
            if (terms - k) & 1:
                hard = hard | call(split, 1, b + 2 * pairs * b_row, zero, 0, to + 64 * pairs, marks + 8 * pairs)
                pairs = pairs + 1
            if pairs < BAND:
                call(split, BAND - pairs, zero, zero, 0, to + 64 * pairs, marks + 8 * pairs)
        b = b + TERMS * b_row
        to = to + CHUNK
        marks = marks + TERMS * 4
        k = k + TERMS
    return hard


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
