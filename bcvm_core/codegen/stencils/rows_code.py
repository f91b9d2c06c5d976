"""Running a kernel row by row over operands of any strides, in the language of `native.py`.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .native import call, get_status, load8, load16, load32, load64, set_status, stack, store8, store16, store32, store64
from .offsets import (
    ALL_EVENTS,
    BLOCK,
    EVENTS,
    J_CODE,
    J_CONSTANTS,
    J_CONTEXT,
    J_COUNT,
    J_DIMS,
    J_MODE,
    J_MODES,
    J_NDIM,
    J_POINTERS,
    J_SIZES,
    J_STATUS,
    J_STRIDES,
    J_WORD,
    MAX_DIMS,
    POINTERS,
)
from .shapes_code import zeros


def drive(job: int) -> int:
    """Run a kernel over operands of any strides; for callers without the interpreter's lock."""
    total = load64(job + J_COUNT)
    ndim = load64(job + J_NDIM)
    dims = load64(job + J_DIMS)
    strides = load64(job + J_STRIDES)
    context = stack(load64(job + J_CONTEXT))
    store64(context, 0)
    pointers = stack(8 * total)
    packed = 0
    k = 0
    while k < total:
        store64(pointers + 8 * k, load64(load64(job + J_POINTERS) + 8 * k))
        packed = packed | load64(load64(job + J_MODES) + 8 * k)
        k = k + 1
    scratch = stack(8)
    status = get_status(scratch)
    mode = load64(job + J_MODE)
    if mode == 0:
        mode = status
    set_status(scratch, mode & (-1 - ALL_EVENTS))
    if packed:
        packed_rows(job, context, pointers)
    else:
        rows(load64(job + J_CODE), context, load64(job + J_CONSTANTS), ndim, dims, total, pointers, strides)
    raised = get_status(scratch) & EVENTS
    set_status(scratch, status)
    store64(job + J_STATUS, raised)
    store64(job + J_WORD, load64(context))
    return 0


def mode() -> int:
    """The floating-point mode of this thread (rounding, subnormal numbers)."""
    return get_status(stack(8)) & (-1 - ALL_EVENTS)


def rows(code: int, context: int, constants: int, ndim: int, dims: int, total: int, pointers: int, strides: int) -> int:
    """Run the kernel over the last axis for every index of the others; `pointers` are moved along."""
    n = load64(dims + 8 * (ndim - 1))
    index = zeros(stack(8 * MAX_DIMS), ndim)
    going = 1
    while going:
        k = 0
        while k < total:
            store64(context + POINTERS + 8 * k, load64(pointers + 8 * k))
            k = k + 1
        call(code, context, n, constants)
        going = advance(ndim, dims, total, pointers, strides, index)
    return 0


def advance(ndim: int, dims: int, total: int, pointers: int, strides: int, index: int) -> int:
    """Move to the next row; 0 when there is none."""
    d = ndim - 2
    while d >= 0:
        at = load64(index + 8 * d) + 1
        dim = load64(dims + 8 * d)
        steps = 1
        if at == dim:
            steps = 1 - dim
            at = 0
        store64(index + 8 * d, at)
        k = 0
        while k < total:
            store64(pointers + 8 * k, load64(pointers + 8 * k) + steps * load64(strides + 8 * (MAX_DIMS * k + d)))
            k = k + 1
        if at != 0:
            return 1
        d = d - 1
    return 0


def packed_rows(job: int, context: int, pointers: int) -> int:
    """The same through buffers, for operands whose elements don't lie side by side."""
    total = load64(job + J_COUNT)
    ndim = load64(job + J_NDIM)
    dims = load64(job + J_DIMS)
    strides = load64(job + J_STRIDES)
    buffers = stack(8 * BLOCK * total)
    n = load64(dims + 8 * (ndim - 1))
    index = zeros(stack(8 * MAX_DIMS), ndim)
    going = 1
    while going:
        at = 0
        while at < n:
            some = n - at
            if some > BLOCK:
                some = BLOCK
            packed_block(job, context, pointers, buffers, at, some)
            at = at + some
        going = advance(ndim, dims, total, pointers, strides, index)
    return 0


def packed_block(job: int, context: int, pointers: int, buffers: int, at: int, some: int) -> int:
    """Elements at .. at + some of a row."""
    total = load64(job + J_COUNT)
    last = load64(job + J_NDIM) - 1
    strides = load64(job + J_STRIDES)
    k = 0
    while k < total:
        size = load64(load64(job + J_SIZES) + 8 * k)
        mode = load64(load64(job + J_MODES) + 8 * k)
        stride = load64(strides + 8 * (MAX_DIMS * k + last))
        place = load64(pointers + 8 * k) + at * stride
        if mode == 0:
            store64(context + POINTERS + 8 * k, place)
        else:
            store64(context + POINTERS + 8 * k, buffers + 8 * BLOCK * k)
            if mode == 1:
                move(buffers + 8 * BLOCK * k, size, place, stride, some, size)
        k = k + 1
    call(load64(job + J_CODE), context, some, load64(job + J_CONSTANTS))
    k = 0
    while k < total:
        if load64(load64(job + J_MODES) + 8 * k) == 2:
            stride = load64(strides + 8 * (MAX_DIMS * k + last))
            size = load64(load64(job + J_SIZES) + 8 * k)
            move(load64(pointers + 8 * k) + at * stride, stride, buffers + 8 * BLOCK * k, size, some, size)
        k = k + 1
    return 0


def move(to: int, to_stride: int, source: int, stride: int, count: int, size: int) -> int:
    """Copy `count` elements of `size` bytes."""
    k = 0
    if size == 4:
        while k < count:
            store32(to + k * to_stride, load32(source + k * stride))
            k = k + 1
    if size == 8:
        while k < count:
            store64(to + k * to_stride, load64(source + k * stride))
            k = k + 1
    if size == 2:
        while k < count:
            store16(to + k * to_stride, load16(source + k * stride))
            k = k + 1
    if size == 1:
        while k < count:
            store8(to + k * to_stride, load8(source + k * stride))
            k = k + 1
    return 0
