"""Operands of products by the matrix unit in their parts, in the language of `native.py`. Nothing here runs as Python."""

from __future__ import annotations

from ..stencils.native import call, get_status, load64, set_status, stack, store64
from .amx_memory_code import ANY, B_MARKS, B_NOTHING, B_READY, B_ZERO, BAND, BAND_MARKS, CHUNK, NOTHING, TALL, TERMS
from .job_code import (
    DEPTH,
    P_A,
    P_A_ROW,
    P_AHEAD,
    P_AMX,
    P_DEPTH,
    P_PACKED_A,
    P_PACKED_B,
    P_ROWS,
    X_MARKED_ROWS,
    X_ROWS,
)


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


def amx_split_columns(job: int, split: int, b: int, b_row: int, terms: int, to: int) -> int:
    """Split one tile of columns by the function for numbers that all can be, or by the one with marks; whether numbers were left out."""
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
