"""Calls of kernels over rows with attributes by name, in the language of `native.py`.

A *form* is a way to call: so many operands, these names, and for each name the one object that is its value, or the place among the
operands that its tensor takes. A call of a known form goes straight to the kernel.

Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .lines_code import line
from .native import call, load64, stack, store64
from .offsets import (
    BYTES_HEAD,
    FORM_SIZE,
    K_COUNT,
    K_FORM,
    K_FORMS,
    K_KERNEL,
    K_NAME,
    K_NAMES,
    K_RUNTIME,
    R_INCREF,
    R_NONE,
    TUPLE_ITEMS,
    TUPLE_SIZE,
)


def keyed(self: int, args: int, nargs: int, names: int) -> int:
    """A METH_FASTCALL | METH_KEYWORDS function: what the kernel gives for a known form, None for others."""
    table = self + BYTES_HEAD
    count = 0
    if names:
        count = load64(names + TUPLE_SIZE)
    forms = load64(table + K_FORMS)
    operands = stack(64)
    k = 0
    while k < forms:
        form = table + K_FORM + FORM_SIZE * k
        if load64(form + K_NAMES) == count and nargs == 1 and is_called_so(form, args, names, count, operands):
            return line(load64(form + K_KERNEL), operands, load64(form + K_COUNT))
        k = k + 1
    runtime = load64(table + K_RUNTIME)
    none = load64(runtime + R_NONE)
    call(load64(runtime + R_INCREF), none)
    return none


def is_called_so(form: int, args: int, names: int, count: int, operands: int) -> int:
    """1 when a call is of a form; its operands are put in order."""
    store64(operands, load64(args))
    k = 0
    while k < count:
        if load64(names + TUPLE_ITEMS + 8 * k) != load64(form + K_NAME + 16 * k):
            return 0
        wanted = load64(form + K_NAME + 16 * k + 8)
        given = load64(args + 8 + 8 * k)
        if wanted < 8:
            store64(operands + 8 * wanted, given)
        else:
            if given != wanted:
                return 0
        k = k + 1
    return 1
