"""The function that Python calls, in the language of `native.py`: guards, results, the kernel, events.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .general_code import general
from .native import call, get_status, load32, load64, stack, store64
from .offsets import (
    BYTES_HEAD,
    C_ORDER,
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
    DESCR,
    DIMS,
    EVENTS,
    F_ORDER,
    FLAGS,
    NDIM,
    OPERAND_SIZE,
    POINTERS,
    R_NDARRAY,
    R_RESTORE_THREAD,
    TYPE,
)
from .results_code import allocate, let_others_run, settled, slow, without_events
from .shapes_code import has_shape, product


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
            same = same & has_shape(x, load32(first + NDIM), load64(first + DIMS))
        operand = operand + OPERAND_SIZE
        k = k + 1
    if order == 0 or same == 0:
        return general(desc, args, nargs)
    ndim = load32(first + NDIM)
    dims = load64(first + DIMS)
    n = product(dims, 0, ndim)
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
    without_events(scratch)
    code = load64(desc + D_CODE + 8)
    constants = load64(desc + D_CONSTANTS)
    held = 0
    if n > load64(desc + D_RELEASE):
        held = load64(desc + D_HELD)
        thread = let_others_run(runtime, held)
        call(code, context, n, constants)
        raised = get_status(scratch) & EVENTS
        call(load64(runtime + R_RESTORE_THREAD), thread)
    else:
        call(code, context, n, constants)
        raised = get_status(scratch) & EVENTS
    return settled(desc, results, raised, load64(context), scratch, held)
