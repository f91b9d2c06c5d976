"""The entry's way for operands that are broadcast or strided, in the language of `native.py`.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .native import call, load32, load64, stack, store64
from .offsets import (
    CODE_SIZE,
    D_CODE,
    D_CODES,
    D_CONSTANTS,
    D_HELD,
    D_INPUTS,
    D_LIMIT,
    D_OPERANDS,
    D_OUTPUTS,
    D_RELEASE,
    D_RUNTIME,
    DATA,
    DIMS,
    GATHERED_MAX,
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
    MAX_OPERANDS,
    NDIM,
    OPERAND_SIZE,
    R_RESTORE_THREAD,
    STRIDES,
)
from .results_code import allocate, let_others_run, settled, slow
from .rows_code import drive


def general(desc: int, args: int, nargs: int) -> int:
    """The entry for arrays of different shapes and of any strides, as long as NumPy would lay out the results in C order."""
    count = load64(desc + D_INPUTS)
    outputs = load64(desc + D_OUTPUTS)
    total = count + outputs
    ndim = 0
    k = 0
    while k < count:
        own = load32(load64(args + 8 * k) + NDIM)
        if own > ndim:
            ndim = own
        k = k + 1
    if ndim > MAX_DIMS or ndim == 0 or total > MAX_OPERANDS:
        return slow(desc, args, nargs)
    shape = stack(64)
    full = stack(64)
    strides = stack(1024)
    n = common_shape(args, count, ndim, shape)
    if n <= 0 or n > load64(desc + D_LIMIT):
        return slow(desc, args, nargs)
    spread(args, count, ndim, shape, strides)
    if falling(ndim, shape, count, strides) == 0:
        return slow(desc, args, nargs)
    k = 0
    while k < outputs:
        dense_strides(strides + 8 * MAX_DIMS * (count + k), shape, ndim, load64(desc + D_OPERANDS + OPERAND_SIZE * (count + k) + 8))
        k = k + 1
    k = 0
    while k < ndim:
        store64(full + 8 * k, load64(shape + 8 * k))
        k = k + 1
    left = coalesce(ndim, shape, strides, total)
    modes = stack(128)
    sizes = stack(128)
    mask = 0
    k = 0
    while k < total:
        size = load64(desc + D_OPERANDS + OPERAND_SIZE * k + 8)
        inner = load64(strides + 8 * (MAX_DIMS * k + left - 1))
        mode = 0
        if k < count:
            if inner == 0:
                mask = mask | (1 << k)
            else:
                mode = inner != size
        store64(modes + 8 * k, mode)
        store64(sizes + 8 * k, size)
        k = k + 1
    code = find_code(desc, mask)
    if code == 0 and left == 1 and n <= GATHERED_MAX:
        code = code_within(desc, mask)
        if code != 0:
            gather(mask & (-1 - load64(code)), count, modes)
    if code == 0:
        return slow(desc, args, nargs)
    results = stack(128)
    if allocate(desc, ndim, full, 0, results, n) == 0:
        return 0
    pointers = stack(128)
    k = 0
    while k < count:
        store64(pointers + 8 * k, load64(load64(args + 8 * k) + DATA))
        k = k + 1
    k = 0
    while k < outputs:
        store64(pointers + 8 * (count + k), load64(load64(results + 8 * k) + DATA))
        k = k + 1
    job = stack(128)
    store64(job + J_CODE, load64(code + 8))
    store64(job + J_CONSTANTS, load64(desc + D_CONSTANTS))
    store64(job + J_CONTEXT, load64(code + 16))
    store64(job + J_NDIM, left)
    store64(job + J_DIMS, shape)
    store64(job + J_COUNT, total)
    store64(job + J_POINTERS, pointers)
    store64(job + J_STRIDES, strides)
    store64(job + J_MODES, modes)
    store64(job + J_SIZES, sizes)
    store64(job + J_MODE, 0)
    held = 0
    if n > load64(desc + D_RELEASE):
        held = load64(desc + D_HELD)
        runtime = load64(desc + D_RUNTIME)
        thread = let_others_run(runtime, held)
        drive(job)
        call(load64(runtime + R_RESTORE_THREAD), thread)
    else:
        drive(job)
    return settled(desc, results, load64(job + J_STATUS), load64(job + J_WORD), stack(8), held)


def falling(ndim: int, shape: int, count: int, strides: int) -> int:
    """1 when no input steps further along a later axis than along an earlier one."""
    k = 0
    while k < count:
        last = 0
        d = ndim - 1
        while d >= 0:
            stride = load64(strides + 8 * (MAX_DIMS * k + d))
            if stride < 0:
                stride = 0 - stride
            if stride != 0 and load64(shape + 8 * d) != 1:
                if stride < last:
                    return 0
                last = stride
            d = d - 1
        k = k + 1
    return 1


def find_code(desc: int, mask: int) -> int:
    """The descriptor's code for a set of repeated inputs; 0 when it has none."""
    codes = load64(desc + D_CODES)
    at = desc + D_CODE
    k = 0
    while k < codes:
        if load64(at) == mask:
            return at
        at = at + CODE_SIZE
        k = k + 1
    return 0


def code_within(desc: int, mask: int) -> int:
    """A code that takes some of these inputs as repeated, and no others; 0 when there is none. The rest must be gathered for it."""
    codes = load64(desc + D_CODES)
    at = desc + D_CODE
    k = 0
    while k < codes:
        if load64(at) & (-1 - mask) == 0:
            return at
        at = at + CODE_SIZE
        k = k + 1
    return 0


def gather(mask: int, count: int, modes: int) -> int:
    """Let these inputs (bits) be copied, element for element, before the kernel reads them."""
    k = 0
    while k < count:
        if mask & (1 << k):
            store64(modes + 8 * k, 1)
        k = k + 1
    return 0


def common_shape(args: int, count: int, ndim: int, shape: int) -> int:
    """Fill in the broadcast shape; the number of elements, or -1 where shapes don't match."""
    n = 1
    d = 0
    while d < ndim:
        dim = 1
        k = 0
        while k < count:
            x = load64(args + 8 * k)
            at = d - (ndim - load32(x + NDIM))
            if at >= 0:
                own = load64(load64(x + DIMS) + 8 * at)
                if own != 1:
                    if dim != 1 and dim != own:
                        return -1
                    dim = own
            k = k + 1
        store64(shape + 8 * d, dim)
        n = n * dim
        d = d + 1
    return n


def spread(args: int, count: int, ndim: int, shape: int, strides: int) -> int:
    """Strides of every input over the broadcast shape."""
    k = 0
    while k < count:
        x = load64(args + 8 * k)
        missing = ndim - load32(x + NDIM)
        d = 0
        while d < ndim:
            stride = 0
            if d >= missing and load64(load64(x + DIMS) + 8 * (d - missing)) != 1:
                stride = load64(load64(x + STRIDES) + 8 * (d - missing))
            store64(strides + 8 * (MAX_DIMS * k + d), stride)
            d = d + 1
        k = k + 1
    return 0


def dense_strides(strides: int, shape: int, ndim: int, size: int) -> int:
    """Strides of a fresh array in C order."""
    d = ndim - 1
    while d >= 0:
        store64(strides + 8 * d, size)
        size = size * load64(shape + 8 * d)
        d = d - 1
    return 0


def coalesce(ndim: int, shape: int, strides: int, total: int) -> int:
    """Join neighbouring axes that all operands step through evenly; how many are left (at least one)."""
    left = 0
    d = 0
    while d < ndim:
        dim = load64(shape + 8 * d)
        if dim != 1:
            joins = 0
            if left > 0:
                joins = 1
                k = 0
                while k < total:
                    base = strides + 8 * MAX_DIMS * k
                    if load64(base + 8 * (left - 1)) != load64(base + 8 * d) * dim:
                        joins = 0
                    k = k + 1
            if joins:
                store64(shape + 8 * (left - 1), load64(shape + 8 * (left - 1)) * dim)
                left = left - 1
            else:
                store64(shape + 8 * left, dim)
            k = 0
            while k < total:
                base = strides + 8 * MAX_DIMS * k
                store64(base + 8 * left, load64(base + 8 * d))
                k = k + 1
            left = left + 1
        d = d + 1
    if left == 0:
        store64(shape, 1)
        k = 0
        while k < total:
            store64(strides + 8 * MAX_DIMS * k, 0)
            k = k + 1
        left = 1
    return left
