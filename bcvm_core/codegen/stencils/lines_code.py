"""Kernels over rows (`codegen/rows`) as functions of the interpreter, in the language of `native.py`.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .native import call, get_status, load32, load64, set_status, stack, store64
from .offsets import (
    ALL_EVENTS,
    BYTES_HEAD,
    C_ORDER,
    D_INPUTS,
    D_LIMIT,
    D_OPERANDS,
    D_RELEASE,
    D_RUNTIME,
    DATA,
    DESCR,
    DIMS,
    EVENTS,
    FLAGS,
    IS_ALIGNED,
    L_ARGUMENTS,
    L_COLUMNS,
    L_EPS,
    L_FIRST,
    L_FORM,
    L_JOB_ARGUMENTS,
    L_JOB_COUNT,
    L_JOB_INNER,
    L_JOB_KERNEL,
    L_JOB_MODE,
    L_JOB_OUTER,
    L_JOB_STATUS,
    L_JOB_X,
    L_JOB_Y,
    L_KERNEL,
    L_LAST,
    L_LESS,
    L_QUIET,
    MAX_DIMS,
    NDIM,
    OPERAND_SIZE,
    R_NDARRAY,
    R_RESTORE_THREAD,
    R_RETURN,
    R_SAVE_THREAD,
    TYPE,
)
from .results_code import allocate, slow, trouble, without_events
from .shapes_code import has_shape, product


def line(self: int, args: int, nargs: int) -> int:
    """A METH_FASTCALL function: an array and parameters of its rows in, a fresh result out, None where Python must do it."""
    desc = self + BYTES_HEAD
    runtime = load64(desc + D_RUNTIME)
    count = load64(desc + D_INPUTS)
    if nargs != count:
        return slow(desc, args, nargs)
    ndarray = load64(runtime + R_NDARRAY)
    k = 0
    while k < count:
        x = load64(args + 8 * k)
        if load64(x + TYPE) != ndarray:
            return slow(desc, args, nargs)
        if load64(x + DESCR) != load64(desc + D_OPERANDS + OPERAND_SIZE * k):
            return slow(desc, args, nargs)
        if load32(x + FLAGS) & (C_ORDER | IS_ALIGNED) != C_ORDER | IS_ALIGNED:
            return slow(desc, args, nargs)
        k = k + 1
    x = load64(args)
    ndim = load32(x + NDIM)
    dims = load64(x + DIMS)
    first = load64(desc + L_FIRST)
    last = load64(desc + L_LAST)
    if first < 0:
        first = first + ndim
    if last < 0:
        last = last + ndim
    if first < 0 or last >= ndim or last < first or ndim > MAX_DIMS:
        return slow(desc, args, nargs)
    outer = product(dims, 0, first)
    n = product(dims, first, last + 1)
    inner = product(dims, last + 1, ndim)
    total = outer * n * inner
    if total == 0 or total > load64(desc + D_LIMIT) or n <= load64(desc + L_LESS):
        return slow(desc, args, nargs)
    kernel = load64(desc + L_KERNEL)
    if inner != 1:
        kernel = load64(desc + L_COLUMNS)
    if kernel == 0:
        return slow(desc, args, nargs)
    arguments = stack(L_ARGUMENTS)
    k = 1
    while k < count:
        parameter = load64(args + 8 * k)
        if has_shape(parameter, last + 1 - first, dims + 8 * first) == 0:
            return slow(desc, args, nargs)
        store64(arguments + 8 * (k - 1), load64(parameter + DATA))
        k = k + 1
    store64(arguments + 16, load64(desc + L_EPS))
    store64(arguments + 24, load64(desc + L_LESS))
    store64(arguments + 32, 0)
    store64(arguments + 40, 0)
    shape = stack(8 * MAX_DIMS)
    axes = result_shape(load64(desc + L_FORM), ndim, dims, first, last, shape)
    results = stack(8)
    if allocate(desc, axes, shape, 0, results, product(shape, 0, axes)) == 0:
        return 0
    scratch = stack(8)
    status = without_events(scratch)
    from_ = load64(x + DATA)
    to = load64(load64(results) + DATA)
    if total > load64(desc + D_RELEASE):
        thread = call(load64(runtime + R_SAVE_THREAD))
        call(kernel, outer, n, inner, from_, to, arguments)
        raised = get_status(scratch) & EVENTS
        call(load64(runtime + R_RESTORE_THREAD), thread)
    else:
        call(kernel, outer, n, inner, from_, to, arguments)
        raised = get_status(scratch) & EVENTS
    set_status(scratch, status)
    made = load64(results)
    if raised != 0 and load64(desc + L_QUIET) == 0:
        made = trouble(desc, results, raised, 0, scratch)
        set_status(scratch, status)
    if axes == 0 and made == load64(results):
        return call(load64(runtime + R_RETURN), made)
    return made


def result_shape(form: int, ndim: int, dims: int, first: int, last: int, shape: int) -> int:
    """Write the result's dims and give their number; `form`: 0 as they are, 1 without the reduced ones, 2 with 1 in their place."""
    axes = 0
    k = 0
    while k < ndim:
        size = load64(dims + 8 * k)
        inside = (k >= first) & (k <= last)
        if inside & (form == 2):
            size = 1
        if inside & (form == 1) == 0:
            store64(shape + 8 * axes, size)
            axes = axes + 1
        k = k + 1
    return axes


def line_job(job: int) -> int:
    """Run a kernel on part of its rows, in the floating-point mode of the thread that wants it."""
    scratch = stack(8)
    before = get_status(scratch)
    mode = load64(job + L_JOB_MODE)
    if mode == 0:
        mode = before
    set_status(scratch, mode & (-1 - ALL_EVENTS))
    kernel = load64(job + L_JOB_KERNEL)
    outer = load64(job + L_JOB_OUTER)
    count = load64(job + L_JOB_COUNT)
    inner = load64(job + L_JOB_INNER)
    call(kernel, outer, count, inner, load64(job + L_JOB_X), load64(job + L_JOB_Y), job + L_JOB_ARGUMENTS)
    store64(job + L_JOB_STATUS, get_status(scratch) & EVENTS)
    set_status(scratch, before)
    return 0
