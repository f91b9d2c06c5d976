"""What `arrange_code.py` keeps in a plan's working memory: slots, spills, and when values are read. In the language of `native.py`.

Step k has time 2k, stores after it 2k + 1. Nothing is stored before every input was loaded: outputs may
lie where inputs do. Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .native import load64, store64
from .offsets import (
    A_COUNT,
    A_FREE,
    A_LAST_LOAD,
    A_SLOTS,
    A_STORE,
    A_STORES,
    A_VALUES,
    A_WORK,
    FREE_SLOT,
    HOT,
    LOADED,
    NEVER,
    O_VALUE,
    STORE_SIZE,
    V_KIND,
    V_OPERAND,
    V_OPERANDS,
    VALUE_SIZE,
    WORK_FIXED,
)


def cell(plan: int, column: int, index: int) -> int:
    """The address of a value's number in a column: 0 slot, 1 spill, 2 next use, 3 end of uses, 4 free spills, 5 copied, 6 to 8 uses."""
    return load64(plan + A_WORK) + WORK_FIXED + 8 * (load64(plan + A_COUNT) * column + index)


def time_cell(plan: int, store: int) -> int:
    """The address of a store's time."""
    return cell(plan, 9, load64(plan + A_STORES) + store)


def time_of(plan: int, store: int) -> int:
    return load64(time_cell(plan, store))


def copied(plan: int, value: int) -> int:
    """1 for an input that is stored as it is."""
    return load64(cell(plan, 5, value))


def slot_at(plan: int, slot: int) -> int:
    """The value in a slot, or what the slot is."""
    return load64(load64(plan + A_WORK) + 8 * slot)


def set_slot(plan: int, slot: int, value: int) -> int:
    """Another value in a slot; the one that was there is in none."""
    before = slot_at(plan, slot)
    if before >= 0:
        store64(cell(plan, 0, before), -1)
    store64(load64(plan + A_WORK) + 8 * slot, value)
    if value >= 0:
        store64(cell(plan, 0, value), slot)
    return 0


def in_slot(plan: int, value: int) -> int:
    """The slot of a value, -1 when it is in none."""
    return load64(cell(plan, 0, value))


def spilled_at(plan: int, value: int) -> int:
    """Where in the context a value lies, 0 when it does not."""
    return load64(cell(plan, 1, value))


def set_spilled(plan: int, value: int, place: int) -> int:
    store64(cell(plan, 1, value), place)
    return 0


def take_spill(plan: int) -> int:
    """A place for a spill that is free again, 0 when there is none."""
    free = load64(plan + A_FREE)
    if free == 0:
        return 0
    store64(plan + A_FREE, free - 1)
    return load64(cell(plan, 4, free - 1))


def next_use(plan: int, value: int) -> int:
    """When a value is read next."""
    at = load64(cell(plan, 2, value))
    if at == load64(cell(plan, 3, value)):
        return NEVER
    return load64(cell(plan, 6, at))


def last_use(plan: int, value: int) -> int:
    """When a value that is still read is read for the last time."""
    return load64(cell(plan, 6, load64(cell(plan, 3, value)) - 1))


def used(plan: int, value: int) -> int:
    """One use is over; a value without more leaves its slot and its spill."""
    store64(cell(plan, 2, value), load64(cell(plan, 2, value)) + 1)
    if next_use(plan, value) != NEVER:
        return 0
    slot = in_slot(plan, value)
    if slot >= 0:
        set_slot(plan, slot, FREE_SLOT)
    place = spilled_at(plan, value)
    if place:
        free = load64(plan + A_FREE)
        store64(cell(plan, 4, free), place)
        store64(plan + A_FREE, free + 1)
        store64(cell(plan, 1, value), 0)
    return 0


def list_uses(plan: int) -> int:
    """Empty slots, and per value the times when it is read, in order."""
    slot = 0
    while slot < load64(plan + A_SLOTS):
        store64(load64(plan + A_WORK) + 8 * slot, FREE_SLOT)
        slot = slot + 1
    count = load64(plan + A_COUNT)
    stores = load64(plan + A_STORES)
    k = 0
    while k < count:
        store64(cell(plan, 0, k), -1)
        store64(cell(plan, 1, k), 0)
        store64(cell(plan, 3, k), 0)
        store64(cell(plan, 5, k), 0)
        k = k + 1
    k = 0
    while k < stores:
        value = load64(load64(plan + A_STORE) + STORE_SIZE * k + O_VALUE)
        store64(cell(plan, 3, value), load64(cell(plan, 3, value)) + 1)
        if load64(load64(plan + A_VALUES) + VALUE_SIZE * value + V_KIND) == LOADED:
            store64(cell(plan, 5, value), 1)
        k = k + 1
    each_operand(plan, 0)
    start = 0
    k = 0
    while k < count:
        uses = load64(cell(plan, 3, k))
        store64(cell(plan, 2, k), start)
        store64(cell(plan, 3, k), start)
        start = start + uses
        k = k + 1
    each_operand(plan, 1)
    note_loads(plan)
    return note_stores(plan)


def each_operand(plan: int, noted: int) -> int:
    """Count the operands of all primitives (0), or note when they are read (1)."""
    k = 0
    while k < load64(plan + A_COUNT):
        value = load64(plan + A_VALUES) + VALUE_SIZE * k
        kind = load64(value + V_KIND)
        if kind >= HOT:  # or FIXED
            j = 0
            while j < load64(value + V_OPERANDS):
                end = cell(plan, 3, load64(value + V_OPERAND + 8 * j))
                if noted:
                    store64(cell(plan, 6, load64(end)), 2 * k)
                store64(end, load64(end) + 1)
                j = j + 1
        k = k + 1
    return 0


def note_loads(plan: int) -> int:
    """When the last input is loaded: at its first use, or at once where it is copied."""
    last = 0
    k = 0
    while k < load64(plan + A_COUNT):
        if load64(load64(plan + A_VALUES) + VALUE_SIZE * k + V_KIND) == LOADED:
            time = 2 * k
            if copied(plan, k) == 0:
                time = next_use(plan, k)
            if time > last:
                last = time
        k = k + 1
    store64(plan + A_LAST_LOAD, last)
    return 0


def note_stores(plan: int) -> int:
    """When outputs are stored: put in order among the other uses."""
    k = 0
    while k < load64(plan + A_STORES):
        value = load64(load64(plan + A_STORE) + STORE_SIZE * k + O_VALUE)
        time = 2 * value
        if time < load64(plan + A_LAST_LOAD):
            time = load64(plan + A_LAST_LOAD)
        time = time + 1
        store64(time_cell(plan, k), time)
        start = load64(cell(plan, 2, value))
        end = load64(cell(plan, 3, value))
        at = end
        while at > start and load64(cell(plan, 6, at - 1)) > time:
            store64(cell(plan, 6, at), load64(cell(plan, 6, at - 1)))
            at = at - 1
        store64(cell(plan, 6, at), time)
        store64(cell(plan, 3, value), end + 1)
        k = k + 1
    return 0
