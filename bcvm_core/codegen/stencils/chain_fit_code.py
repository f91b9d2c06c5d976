"""What a run of a chain needs to know of its arrays, in the language of `native.py`.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .general_code import coalesce, common_shape, spread
from .native import load32, load64, store64
from .offsets import (
    BUFFER_SIZE,
    CHAIN_BYTES,
    CHAIN_CUT,
    CHAIN_MOST,
    CHAIN_PART,
    D_INPUTS,
    D_OPERANDS,
    D_OUTPUTS,
    D_RUNTIME,
    DATA,
    DESCR,
    DIMS,
    FIRST_BUFFER,
    FIRST_OUTPUT,
    FLAGS,
    G_COUNT,
    G_KIND,
    G_MASK,
    G_PLACE,
    IS_ALIGNED,
    MAX_DIMS,
    NDIM,
    OF_NUMBERS,
    OPERAND_SIZE,
    OVER_ROWS,
    PLACE_SIZE,
    R_NDARRAY,
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
    T_ROWS,
    T_SCRATCH,
    T_SHAPE,
    T_STRIDES,
    T_WORD,
    TYPE,
    X_BUFFER,
    X_BUFFERS,
    X_FORM,
    X_INNER,
    X_LENGTHS,
    X_LONG,
    X_NDIM,
    X_PRESENT,
    X_STAGE,
    X_STAGES,
)
from .shapes_code import product


def chain_fit(desc: int, args: int, t: int) -> int:
    """Fill in a run for some arrays: the number of elements of the full shape; 0 or less where they are not what the chain is for."""
    count = load64(desc + D_INPUTS)
    ndim = load64(desc + X_NDIM)
    first = ndim - load64(desc + X_INNER)
    free = 0
    if count == 1:
        free = (1 << first) - 1
    ndarray = load64(load64(desc + D_RUNTIME) + R_NDARRAY)
    k = 0
    while k < count:
        x = load64(args + 8 * k)
        if load64(x + TYPE) != ndarray:
            return 0
        if load64(x + DESCR) != load64(desc + D_OPERANDS + OPERAND_SIZE * k) or load32(x + FLAGS) & IS_ALIGNED == 0:
            return 0
        if load32(x + NDIM) > ndim or (presence(x, ndim) | free) != (load64(desc + X_PRESENT + 8 * k) | free):
            return 0
        k = k + 1
    shape = t + T_SHAPE
    total = common_shape(args, count, ndim, shape)
    if total <= 0:
        return 0
    strides = t + T_STRIDES
    spread(args, count, ndim, shape, strides)
    k = first
    while k < ndim:
        wanted = load64(desc + X_LENGTHS + 8 * (k - first))
        if wanted != 0 and wanted != load64(shape + 8 * k):
            return 0
        k = k + 1
    n = product(shape, first, ndim)
    store64(t + T_N, n)
    store64(t + T_ROWS, product(shape, 0, first))
    k = 0
    while k < count:
        size = load64(desc + D_OPERANDS + OPERAND_SIZE * k + 8)
        inner = row_step(shape, strides + 8 * MAX_DIMS * k, first, ndim, size)
        if inner < 0:
            return 0
        store64(t + T_PLACES + PLACE_SIZE * k + 16, inner)
        store64(t + T_POINTERS + 8 * k, load64(load64(args + 8 * k) + DATA))
        k = k + 1
    dims = t + T_DIMS
    k = 0
    while k < first:
        store64(dims + 8 * k, load64(shape + 8 * k))
        k = k + 1
    left = coalesce(first, dims, strides, count)
    store64(t + T_LEFT, left)
    k = 0
    while k < count:
        store64(t + T_PLACES + PLACE_SIZE * k + 8, load64(strides + 8 * (MAX_DIMS * k + left - 1)))
        k = k + 1
    chain_layout(desc, t)
    store64(t + T_EVENTS, 0)
    store64(t + T_WORD, 0)
    store64(t + T_PARTIAL, 0)
    if load64(t + T_ROWS) > 1 and chain_steps(desc, t) == 0:
        return 0
    if load64(t + T_SCRATCH) > CHAIN_MOST:
        return 0
    return total


def presence(x: int, ndim: int) -> int:
    """Which axes of the full shape an array has at more than length 1 (bits), and its axes << 16."""
    own = load32(x + NDIM)
    dims = load64(x + DIMS)
    found = own << 16
    d = 0
    while d < own:
        if load64(dims + 8 * d) != 1:
            found = found | (1 << (ndim - own + d))
        d = d + 1
    return found


def row_step(shape: int, strides: int, first: int, ndim: int, size: int) -> int:
    """Bytes from element to element of a row: `size`, or 0 where they are all the same; -1 where they are not laid out evenly."""
    step = 0
    length = 1
    d = ndim - 1
    while d >= first:
        dim = load64(shape + 8 * d)
        stride = load64(strides + 8 * d)
        if dim != 1:
            if length == 1:
                step = stride
            if stride != step * length:
                return -1
            length = length * dim
        d = d - 1
    if step != 0 and step != size:
        return -1
    return step


def chain_layout(desc: int, t: int) -> int:
    """Decide how many rows make a block, and where buffers and results step; buffers lie at offsets from 0 until they have memory."""
    n = load64(t + T_N)
    buffers = load64(desc + X_BUFFERS)
    wide = 0
    k = 0
    while k < buffers:
        if load64(desc + X_BUFFER + BUFFER_SIZE * k) == 0:
            wide = wide + load64(desc + X_BUFFER + BUFFER_SIZE * k + 8)
        k = k + 1
    parts = 0
    length = n
    block = 1
    if load64(desc + X_LONG) != 0 and n > CHAIN_CUT:
        parts = (n + CHAIN_PART - 1) >> 12
        length = CHAIN_PART
    else:
        rows = load64(t + T_ROWS)
        if wide == 0:
            wide = 4
        while block < rows and 2 * block * n * wide <= CHAIN_BYTES:
            block = 2 * block
    store64(t + T_BLOCK, block)
    store64(t + T_PARTS, parts)
    at = 0
    k = 0
    while k < buffers:
        size = load64(desc + X_BUFFER + BUFFER_SIZE * k + 8)
        place = t + T_PLACES + PLACE_SIZE * (FIRST_BUFFER + k)
        store64(place, at)
        if load64(desc + X_BUFFER + BUFFER_SIZE * k):
            store64(place + 8, size)
            store64(place + 16, 0)
            at = (at + block * size + 63) & -64
        else:
            store64(place + 8, n * size)
            store64(place + 16, size)
            at = (at + block * length * size + 63) & -64
        k = k + 1
    outputs = load64(desc + D_OUTPUTS)
    k = 0
    while k < outputs:
        size = load64(desc + D_OPERANDS + OPERAND_SIZE * (load64(desc + D_INPUTS) + k) + 8)
        place = t + T_PLACES + PLACE_SIZE * (FIRST_OUTPUT + k)
        store64(place + 8, size)
        store64(place + 16, 0)
        if load64(desc + X_FORM) == 0:
            store64(place + 8, n * size)
            store64(place + 16, size)
        k = k + 1
    store64(t + T_SCRATCH, at + 8 * parts * load64(desc + X_LONG))
    return 0


def chain_steps(desc: int, t: int) -> int:
    """1 when operands of kernels over rows, and of those over one number per row, lie side by side."""
    n = load64(t + T_N)
    stages = load64(desc + X_STAGES)
    k = 0
    while k < stages:
        stage = desc + X_STAGE + STAGE_SIZE * k
        kind = load64(stage + G_KIND)
        count = load64(stage + G_COUNT)
        if kind == OVER_ROWS:
            place = t + T_PLACES + PLACE_SIZE * load64(stage + G_PLACE)
            if load64(place + 8) != n * load64(place + 16):
                return 0
        if kind == OF_NUMBERS:
            mask = load64(stage + G_MASK)
            j = 0
            while j < count:
                number = load64(stage + G_PLACE + 8 * j)
                if number < FIRST_BUFFER:
                    step = load64(t + T_PLACES + PLACE_SIZE * number + 8)
                    wanted = load64(desc + D_OPERANDS + OPERAND_SIZE * number + 8)
                    if mask & (1 << j):
                        wanted = 0
                    if step != wanted:
                        return 0
                j = j + 1
        k = k + 1
    return 1
