"""The code around kernels, in the language of `native.py`: the entry Python calls, and the loop over rows.

Compiled into each family of stencils; nothing here runs as Python. Layouts: a *descriptor* holds
what an entry must know (`entry.py` writes it), `runtime` is a block of addresses of the interpreter
and of NumPy. Offsets into array objects are checked before the first entry is made.
"""

from __future__ import annotations

from typing import Final

from .native import call, get_status, load8, load16, load32, load64, set_status, stack, store8, store16, store32, store64

# array objects
TYPE: Final = 8
DATA: Final = 16
NDIM: Final = 24
DIMS: Final = 32
STRIDES: Final = 40
DESCR: Final = 56
FLAGS: Final = 64
C_ORDER: Final = 1
F_ORDER: Final = 2
BYTES_HEAD: Final = 32  # where a bytes object's bytes begin

# runtime: addresses
R_NDARRAY: Final = 0
R_EMPTY: Final = 8
R_NONE: Final = 16
R_TRUE: Final = 24
R_INCREF: Final = 32
R_DECREF: Final = 40
R_VECTORCALL: Final = 48
R_TUPLE: Final = 56
R_TUPLE_SET: Final = 64
R_SAVE_THREAD: Final = 72  # give the interpreter's lock away
R_RESTORE_THREAD: Final = 80
R_SET_HANDLER: Final = 88  # NumPy's way to choose who allocates; 0 where results are not recycled
R_HANDLER: Final = 96

# descriptor
D_INPUTS: Final = 0
D_OUTPUTS: Final = 8
D_RUNTIME: Final = 16
D_CONSTANTS: Final = 24
D_SLOW: Final = 32  # Python function that takes whatever the entry does not
D_UNDERFLOW: Final = 40  # Python function: may an underflow be ignored?
D_LIMIT: Final = 48  # more elements than this go to D_SLOW, which uses several threads
D_RELEASE: Final = 56  # with more elements than this the interpreter's lock is given away
D_CODES: Final = 64  # how many codes follow
D_CODE: Final = 72  # per code: which inputs are repeated (bits), address, bytes of context
CODE_SIZE: Final = 24
CODES_MAX: Final = 6
D_OPERANDS: Final = 216  # per operand, inputs first: address of its dtype, bytes of an element
OPERAND_SIZE: Final = 16
MAX_OPERANDS: Final = 16

# job of `drive`
J_CODE: Final = 0
J_CONSTANTS: Final = 8
J_CONTEXT: Final = 16
J_NDIM: Final = 24
J_DIMS: Final = 32
J_COUNT: Final = 40
J_POINTERS: Final = 48
J_STRIDES: Final = 56
J_MODES: Final = 64  # per operand: 0 as it lies, 1 gathered before, 2 scattered after
J_SIZES: Final = 72
J_WORD: Final = 80  # result: events noted by algorithms
J_STATUS: Final = 88  # result: floating-point status bits that were raised
J_SIZE: Final = 96

# record of a site (`region_entry.py` writes it)
S_PLAIN: Final = 0  # address of a number: not 0 where everything runs as plain Python
S_THREAD: Final = 8  # address of PyThreadState_Get
S_TRACE: Final = 16  # where a thread keeps its trace function
S_REGION: Final = 24  # Python object that takes what the site does not
S_KERNEL: Final = 32  # the bytes object that is `self` of the kernel's entry
S_INPUTS: Final = 40
S_GUARDS: Final = 48  # how many objects follow the inputs that must be the known ones
S_HITS: Final = 56  # runs of the kernel
S_TUPLE: Final = 64  # 1: the result is wanted in a tuple of its own
S_LOOKS: Final = 72  # how many more times new shapes are told to the region
S_RUNTIME: Final = 80
S_GUARD: Final = 88  # the known objects
GUARDS_MAX: Final = 8
S_SHAPES: Final = 152  # per input: axes, and the first dims
SHAPE_DIMS: Final = 4
SHAPE_SIZE: Final = 40
INPUTS_MAX: Final = 8
S_SIZE: Final = 472

POINTERS: Final = 64  # context: pointers of operands
MAX_DIMS: Final = 8
EVENTS: Final = 29  # invalid, divide, overflow, underflow
HARD: Final = 13  # without underflow
ALL_EVENTS: Final = 63
BLOCK: Final = 512  # elements gathered at a time
RECYCLED_MIN: Final = 262144  # bytes of results whose memory is recycled
RECYCLED_MAX: Final = 67108864


def entry(self: int, args: int, nargs: int) -> int:
    """A METH_FASTCALL function: arrays in, a fresh array (or a tuple of them) out, None where Python must do it."""
    desc = self + BYTES_HEAD
    runtime = load64(desc + D_RUNTIME)
    count = load64(desc + D_INPUTS)
    if nargs != count:
        return slow(desc, args, nargs)
    ndarray = load64(runtime + R_NDARRAY)
    operand = desc + D_OPERANDS
    first = load64(args)
    k = 0
    order = C_ORDER | F_ORDER
    same = 1
    while k < count:
        x = load64(args + 8 * k)
        if load64(x + TYPE) != ndarray:
            return slow(desc, args, nargs)
        if load64(x + DESCR) != load64(operand):
            return slow(desc, args, nargs)
        order = order & load32(x + FLAGS)
        if k > 0:
            same = same & same_shape(x, first)
        operand = operand + OPERAND_SIZE
        k = k + 1
    if order == 0 or same == 0:
        return general(desc, args, nargs)
    ndim = load32(first + NDIM)
    dims = load64(first + DIMS)
    n = 1
    k = 0
    while k < ndim:
        n = n * load64(dims + 8 * k)
        k = k + 1
    if n == 0 or ndim == 0 or n > load64(desc + D_LIMIT):
        return slow(desc, args, nargs)
    if load64(desc + D_CODES) == 0 or load64(desc + D_CODE) != 0:
        return slow(desc, args, nargs)
    results = stack(128)
    if allocate(desc, ndim, dims, (order & C_ORDER) ^ C_ORDER, results, n) == 0:
        return 0
    context = stack(load64(desc + D_CODE + 16))
    store64(context, 0)
    k = 0
    while k < count:
        store64(context + POINTERS + 8 * k, load64(load64(args + 8 * k) + DATA))
        k = k + 1
    outputs = load64(desc + D_OUTPUTS)
    k = 0
    while k < outputs:
        store64(context + POINTERS + 8 * (count + k), load64(load64(results + 8 * k) + DATA))
        k = k + 1
    scratch = stack(8)
    status = get_status(scratch)
    if status & EVENTS:
        set_status(scratch, status & (-1 - ALL_EVENTS))
    if n > load64(desc + D_RELEASE):
        runtime = load64(desc + D_RUNTIME)
        thread = call(load64(runtime + R_SAVE_THREAD))
        call(load64(desc + D_CODE + 8), context, n, load64(desc + D_CONSTANTS))
        raised = get_status(scratch) & EVENTS
        call(load64(runtime + R_RESTORE_THREAD), thread)
    else:
        call(load64(desc + D_CODE + 8), context, n, load64(desc + D_CONSTANTS))
        raised = get_status(scratch) & EVENTS
    word = load64(context)
    if raised or word:
        return trouble(desc, results, raised, word, scratch)
    return given(desc, results)


def same_shape(x: int, first: int) -> int:
    """1 when two arrays have the same shape."""
    ndim = load32(first + NDIM)
    if load32(x + NDIM) != ndim:
        return 0
    a = load64(x + DIMS)
    b = load64(first + DIMS)
    k = 0
    while k < ndim:
        if load64(a + 8 * k) != load64(b + 8 * k):
            return 0
        k = k + 1
    return 1


def slow(desc: int, args: int, nargs: int) -> int:
    """Let Python code do the call."""
    runtime = load64(desc + D_RUNTIME)
    return call(load64(runtime + R_VECTORCALL), load64(desc + D_SLOW), args, nargs, 0)


def allocate(desc: int, ndim: int, dims: int, fortran: int, results: int, n: int) -> int:
    """Fresh arrays for all outputs; 0 when there is no memory (and the error is set)."""
    runtime = load64(desc + D_RUNTIME)
    outputs = load64(desc + D_OUTPUTS)
    operand = desc + D_OPERANDS + OPERAND_SIZE * load64(desc + D_INPUTS)
    k = 0
    while k < outputs:
        size = n * load64(operand + OPERAND_SIZE * k + 8)
        descr = load64(operand + OPERAND_SIZE * k)
        call(load64(runtime + R_INCREF), descr)
        if size >= RECYCLED_MIN and size <= RECYCLED_MAX and load64(runtime + R_SET_HANDLER):
            made = recycled(runtime, ndim, dims, descr, fortran)
        else:
            made = call(load64(runtime + R_EMPTY), ndim, dims, descr, fortran)
        if made == 0:
            drop(runtime, results, k)
            return 0
        store64(results + 8 * k, made)
        k = k + 1
    return 1


def recycled(runtime: int, ndim: int, dims: int, descr: int, fortran: int) -> int:
    """A fresh array in memory that another one has left."""
    before = call(load64(runtime + R_SET_HANDLER), load64(runtime + R_HANDLER))
    if before == 0:
        return 0
    made = call(load64(runtime + R_EMPTY), ndim, dims, descr, fortran)
    ours = call(load64(runtime + R_SET_HANDLER), before)
    call(load64(runtime + R_DECREF), before)
    call(load64(runtime + R_DECREF), ours)
    return made


def drop(runtime: int, results: int, outputs: int) -> int:
    """Give arrays back."""
    k = 0
    while k < outputs:
        call(load64(runtime + R_DECREF), load64(results + 8 * k))
        k = k + 1
    return 0


def given(desc: int, results: int) -> int:
    """The outputs as what is returned."""
    outputs = load64(desc + D_OUTPUTS)
    if outputs == 1:
        return load64(results)
    runtime = load64(desc + D_RUNTIME)
    made = call(load64(runtime + R_TUPLE), outputs)
    if made == 0:
        return drop(runtime, results, outputs)
    k = 0
    while k < outputs:
        call(load64(runtime + R_TUPLE_SET), made, k, load64(results + 8 * k))
        k = k + 1
    return made


def trouble(desc: int, results: int, raised: int, word: int, scratch: int) -> int:
    """Events were met: None, unless it was underflow alone and nobody wants to hear of it."""
    set_status(scratch, get_status(scratch) & (-1 - ALL_EVENTS))
    runtime = load64(desc + D_RUNTIME)
    outputs = load64(desc + D_OUTPUTS)
    if (raised & HARD) == 0 and word == 0:
        answer = call(load64(runtime + R_VECTORCALL), load64(desc + D_UNDERFLOW), 0, 0, 0)
        if answer == 0:
            return drop(runtime, results, outputs)
        ignored = answer == load64(runtime + R_TRUE)
        call(load64(runtime + R_DECREF), answer)
        if ignored:
            return given(desc, results)
    drop(runtime, results, outputs)
    none = load64(runtime + R_NONE)
    call(load64(runtime + R_INCREF), none)
    return none


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
    if n > load64(desc + D_RELEASE):
        runtime = load64(desc + D_RUNTIME)
        thread = call(load64(runtime + R_SAVE_THREAD))
        drive(job)
        call(load64(runtime + R_RESTORE_THREAD), thread)
    else:
        drive(job)
    if load64(job + J_STATUS) or load64(job + J_WORD):
        return trouble(desc, results, load64(job + J_STATUS), load64(job + J_WORD), stack(8))
    return given(desc, results)


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
            if d >= missing:
                if load64(load64(x + DIMS) + 8 * (d - missing)) != 1:
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


def rows(code: int, context: int, constants: int, ndim: int, dims: int, total: int, pointers: int, strides: int) -> int:
    """Run the kernel over the last axis for every index of the others; `pointers` are moved along."""
    n = load64(dims + 8 * (ndim - 1))
    index = stack(8 * MAX_DIMS)
    d = 0
    while d < ndim:
        store64(index + 8 * d, 0)
        d = d + 1
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
    set_status(scratch, status & (-1 - ALL_EVENTS))
    if packed:
        packed_rows(job, context, pointers)
    else:
        rows(load64(job + J_CODE), context, load64(job + J_CONSTANTS), ndim, dims, total, pointers, strides)
    raised = get_status(scratch) & EVENTS
    set_status(scratch, status)
    store64(job + J_STATUS, raised)
    store64(job + J_WORD, load64(context))
    return 0


def packed_rows(job: int, context: int, pointers: int) -> int:
    """The same through buffers, for operands whose elements don't lie side by side."""
    total = load64(job + J_COUNT)
    ndim = load64(job + J_NDIM)
    dims = load64(job + J_DIMS)
    strides = load64(job + J_STRIDES)
    buffers = stack(8 * BLOCK * total)
    n = load64(dims + 8 * (ndim - 1))
    index = stack(8 * MAX_DIMS)
    d = 0
    while d < ndim:
        store64(index + 8 * d, 0)
        d = d + 1
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


def site(self: int, args: int, nargs: int) -> int:
    """A METH_FASTCALL function in the place of a region: guards, then the kernel's entry; whatever differs is the region's."""
    s = self + BYTES_HEAD
    inputs = load64(s + S_INPUTS)
    guards = load64(s + S_GUARDS)
    if nargs != inputs + guards:
        return ask(s, args, nargs)
    if load64(load64(s + S_PLAIN)):
        return ask(s, args, nargs)
    thread = call(load64(s + S_THREAD))
    if load64(thread + load64(s + S_TRACE)):
        return ask(s, args, nargs)
    k = 0
    while k < guards:
        if load64(args + 8 * (inputs + k)) != load64(s + S_GUARD + 8 * k):
            return ask(s, args, nargs)
        k = k + 1
    if load64(s + S_LOOKS) > 0:
        if known_shapes(s, args, inputs) == 0:
            store64(s + S_LOOKS, load64(s + S_LOOKS) - 1)
            return ask(s, args, nargs)
    result = entry(load64(s + S_KERNEL), args, inputs)
    if result == 0:
        return 0
    runtime = load64(s + S_RUNTIME)
    if result == load64(runtime + R_NONE):
        call(load64(runtime + R_DECREF), result)
        return ask(s, args, nargs)
    store64(s + S_HITS, load64(s + S_HITS) + 1)
    if load64(s + S_TUPLE) == 0:
        return result
    made = call(load64(runtime + R_TUPLE), 1)
    if made == 0:
        call(load64(runtime + R_DECREF), result)
        return 0
    call(load64(runtime + R_TUPLE_SET), made, 0, result)
    return made


def ask(s: int, args: int, nargs: int) -> int:
    """Let the region do the call."""
    runtime = load64(s + S_RUNTIME)
    return call(load64(runtime + R_VECTORCALL), load64(s + S_REGION), args, nargs, 0)


def known_shapes(s: int, args: int, inputs: int) -> int:
    """1 when the arrays have the shapes they had when the region was asked last; they are noted."""
    runtime = load64(s + S_RUNTIME)
    ndarray = load64(runtime + R_NDARRAY)
    same = 1
    k = 0
    while k < inputs:
        x = load64(args + 8 * k)
        if load64(x + TYPE) != ndarray:
            return 0
        at = s + S_SHAPES + SHAPE_SIZE * k
        ndim = load32(x + NDIM)
        if load64(at) != ndim:
            same = 0
        store64(at, ndim)
        d = 0
        while d < ndim and d < SHAPE_DIMS:
            dim = load64(load64(x + DIMS) + 8 * d)
            if load64(at + 8 + 8 * d) != dim:
                same = 0
            store64(at + 8 + 8 * d, dim)
            d = d + 1
        k = k + 1
    return same
