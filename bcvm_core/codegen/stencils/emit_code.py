"""A plan's stencils as machine code, in the language of `native.py`: laid end to end, their holes filled.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .native import load8, load64, store8, store32, store64
from .offsets import (
    A_BYTES,
    A_LENGTH,
    A_PLACED,
    A_SLOTS,
    A_TABLE,
    C_CODE,
    C_COUNT,
    C_HOLES,
    C_LENGTH,
    FRAME_AGAIN,
    FRAME_FINISH,
    FRAME_LOOP,
    FRAME_START,
    FRAME_TAIL,
    HOLE_CONSTANT,
    HOLE_CONTEXT,
    HOLE_DATA,
    HOLE_NEXT,
    HOLE_SIZE,
    PLACED_SIZE,
    ROW_SIZE,
    T_CONSTANT,
    T_CONTEXT,
    T_STENCIL,
    T_TAIL,
)


def emit(plan: int, to: int, data: int) -> int:
    """Write the code of start(ctx, n, constants) to an address; `data`: how far from there the constants of the family are."""
    loop = frame_length(plan, FRAME_START) + frame_length(plan, FRAME_LOOP)
    body = loop
    k = 0
    while k < load64(plan + A_LENGTH):
        body = body + load64(load64(load64(plan + A_PLACED) + PLACED_SIZE * k + T_STENCIL) + C_LENGTH)
        k = k + 1
    tail = body + frame_length(plan, FRAME_AGAIN)
    end = load64(plan + A_BYTES) + tail - body + frame_length(plan, FRAME_TAIL) + loop
    at = frame(plan, FRAME_START, to, 0, 0, data)
    at = frame(plan, FRAME_LOOP, to, at, tail, data)
    at = sequence(plan, T_STENCIL, to, at, data)
    at = frame(plan, FRAME_AGAIN, to, at, loop, data)
    at = frame(plan, FRAME_TAIL, to, at, end, data)
    at = sequence(plan, T_TAIL, to, at, data)
    return frame(plan, FRAME_FINISH, to, at, 0, data)


def frame_row(plan: int, family: int) -> int:
    slots = load64(plan + A_SLOTS)
    return load64(plan + A_TABLE) + ROW_SIZE * slots * slots * family


def frame_length(plan: int, family: int) -> int:
    return load64(frame_row(plan, family) + C_LENGTH)


def frame(plan: int, family: int, to: int, at: int, label: int, data: int) -> int:
    """A stencil that jumps to a label; where the next one goes."""
    return stencil(frame_row(plan, family), 0, 0, to, at, label, data)


def sequence(plan: int, column: int, to: int, at: int, data: int) -> int:
    """All placed stencils, as in the loop or as in the last step."""
    k = 0
    while k < load64(plan + A_LENGTH):
        placed = load64(plan + A_PLACED) + PLACED_SIZE * k
        at = stencil(load64(placed + column), load64(placed + T_CONTEXT), load64(placed + T_CONSTANT), to, at, 0, data)
        k = k + 1
    return at


def stencil(row: int, context: int, constant: int, to: int, at: int, label: int, data: int) -> int:
    """One stencil at an offset; where the next one goes."""
    code = load64(row + C_CODE)
    length = load64(row + C_LENGTH)
    k = 0
    while k + 8 <= length:
        store64(to + at + k, load64(code + k))
        k = k + 8
    while k < length:
        store8(to + at + k, load8(code + k))
        k = k + 1
    k = 0
    while k < load64(row + C_COUNT):
        hole = load64(row + C_HOLES) + HOLE_SIZE * k
        offset = load64(hole)
        kind = load64(hole + 8)
        place = at + offset
        value = label - place - 4
        if kind == HOLE_CONTEXT:
            value = context + load64(hole + 16)
        if kind == HOLE_CONSTANT:
            value = constant + load64(hole + 16)
        if kind == HOLE_DATA:
            value = data + load64(hole + 16) - place - 4
        if kind == HOLE_NEXT:
            value = length - offset - 4
        store32(to + place, value)
        k = k + 1
    return at + length
