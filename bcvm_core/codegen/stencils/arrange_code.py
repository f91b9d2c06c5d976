"""Which slot holds which value, in the language of `native.py`: a list of stencils for a plan's values.

Values that don't fit are spilled to the context; what lies in memory or in the constants is loaded
again instead. The value whose next use is farthest goes first, so no graph is too large.
Compiled with its neighbours into the driver; nothing here runs as Python.
"""

from __future__ import annotations

from .native import load64, store64
from .offsets import (
    A_BYTES,
    A_CONTEXT,
    A_COUNT,
    A_FREE,
    A_LAST_LOAD,
    A_LENGTH,
    A_MISSING,
    A_PLACED,
    A_ROOM,
    A_SLOT_BYTES,
    A_SLOTS,
    A_STORE,
    A_STORES,
    A_TABLE,
    A_VALUES,
    C_CODE,
    C_LENGTH,
    CONSTANT,
    COPY_SLOT,
    FILL,
    FIXED,
    FREE_SLOT,
    HOT,
    LOADED,
    MOVE,
    NEVER,
    O_FAMILY,
    O_OFFSET,
    O_TAIL,
    O_VALUE,
    PLACED_SIZE,
    ROW_SIZE,
    SPILL,
    STORE_SIZE,
    T_CONSTANT,
    T_CONTEXT,
    T_STENCIL,
    T_TAIL,
    V_FAMILY,
    V_KIND,
    V_OFFSET,
    V_OPERAND,
    V_OPERANDS,
    V_TAIL,
    VALUE_SIZE,
)
from .uses_code import copied, in_slot, last_use, list_uses, next_use, set_slot, set_spilled, slot_at, spilled_at, take_spill, time_of, used


def arrange(plan: int) -> int:
    """Fill in the plan's list of stencils; their number."""
    store64(plan + A_LENGTH, 0)
    store64(plan + A_BYTES, 0)
    store64(plan + A_MISSING, 0)
    store64(plan + A_FREE, 0)
    list_uses(plan)
    count = load64(plan + A_COUNT)
    at = 0
    while at < count:
        value = load64(plan + A_VALUES) + VALUE_SIZE * at
        kind = load64(value + V_KIND)
        if kind == HOT:
            hot(plan, at, value)
        if kind == FIXED:
            fixed(plan, at, value)
        if kind == LOADED and copied(plan, at):
            held(plan, at, -1, -1, -1)
        outputs(plan, 2 * at + 1)
        at = at + 1
    return load64(plan + A_LENGTH)


def outputs(plan: int, time: int) -> int:
    """Store the values whose time it is."""
    k = 0
    while k < load64(plan + A_STORES):
        if time_of(plan, k) == time:
            store = load64(plan + A_STORE) + STORE_SIZE * k
            value = load64(store + O_VALUE)
            slot = held(plan, value, -1, -1, -1)
            placed(plan, load64(store + O_FAMILY), load64(store + O_TAIL), slot, load64(store + O_OFFSET), 0)
            used(plan, value)
        k = k + 1
    return 0


def placed(plan: int, family: int, tail: int, variant: int, context: int, constant: int) -> int:
    """Add a stencil to the list."""
    length = load64(plan + A_LENGTH)
    slots = load64(plan + A_SLOTS)
    row = load64(plan + A_TABLE) + ROW_SIZE * (slots * slots * family + variant)
    last = load64(plan + A_TABLE) + ROW_SIZE * (slots * slots * tail + variant)
    if length >= load64(plan + A_ROOM) or load64(row + C_CODE) == 0 or load64(last + C_CODE) == 0:
        store64(plan + A_MISSING, 1)
        return 0
    at = load64(plan + A_PLACED) + PLACED_SIZE * length
    store64(at + T_STENCIL, row)
    store64(at + T_TAIL, last)
    store64(at + T_CONTEXT, context)
    store64(at + T_CONSTANT, constant)
    store64(plan + A_LENGTH, length + 1)
    store64(plan + A_BYTES, load64(plan + A_BYTES) + load64(row + C_LENGTH) + load64(last + C_LENGTH))
    return 0


def copy_slot(plan: int, to: int, source: int) -> int:
    """A slot's contents in another one."""
    return placed(plan, MOVE, MOVE, to * load64(plan + A_SLOTS) + source, 0, 0)


def put(plan: int, value: int, slot: int) -> int:
    """A value is in a slot now, unless nobody reads it: then it was computed for its events only."""
    if next_use(plan, value) != NEVER:
        set_slot(plan, slot, value)
    return 0


def unoccupied(plan: int, lowest: int, but: int) -> int:
    """The highest slot, not under `lowest`, that holds nothing, -1 when there is none: fixed primitives want the low ones."""
    slot = load64(plan + A_SLOTS) - 1
    while slot >= lowest:
        if slot_at(plan, slot) == FREE_SLOT and slot != but:
            return slot
        slot = slot - 1
    return -1


def make_room(plan: int, a: int, b: int, c: int, kept: int, but: int) -> int:
    """A slot that is free now, not `but`; the values a, b, c and `kept` must stay."""
    slot = unoccupied(plan, 0, but)
    if slot >= 0:
        return slot
    farthest = -1
    found = -1
    slot = 0
    while slot < load64(plan + A_SLOTS):
        value = slot_at(plan, slot)
        if value >= 0 and value != a and value != b and value != c and value != kept and slot != but and next_use(plan, value) > farthest:
            farthest = next_use(plan, value)
            found = slot
        slot = slot + 1
    evict(plan, slot_at(plan, found))
    return found


def evict(plan: int, value: int) -> int:
    """Take a value out of its slot; it can be brought back."""
    slot = in_slot(plan, value)
    set_slot(plan, slot, FREE_SLOT)
    if spilled_at(plan, value) or comes_back(plan, value):
        return 0
    place = take_spill(plan)
    if place == 0:
        place = load64(plan + A_CONTEXT)
        store64(plan + A_CONTEXT, place + load64(plan + A_SLOT_BYTES))
    set_spilled(plan, value, place)
    return placed(plan, SPILL, SPILL, slot, place, 0)


def comes_back(plan: int, value: int) -> int:
    """1 when a value can be loaded again at its next use: a constant, or an input that nothing can have overwritten."""
    kind = load64(load64(plan + A_VALUES) + VALUE_SIZE * value + V_KIND)
    if kind == LOADED:
        return next_use(plan, value) <= load64(plan + A_LAST_LOAD)
    return kind == CONSTANT


def bring(plan: int, value: int, slot: int) -> int:
    """Load a value that is in no slot into a free one."""
    what = load64(plan + A_VALUES) + VALUE_SIZE * value
    place = spilled_at(plan, value)
    if place:
        placed(plan, FILL, FILL, slot, place, 0)
    else:
        offset = load64(what + V_OFFSET)
        if load64(what + V_KIND) == LOADED:
            placed(plan, load64(what + V_FAMILY), load64(what + V_TAIL), slot, offset, 0)
        else:
            placed(plan, load64(what + V_FAMILY), load64(what + V_TAIL), slot, 0, offset)
    return put(plan, value, slot)


def held(plan: int, value: int, a: int, b: int, c: int) -> int:
    """The slot of a value, brought in when it is in none; a, b and c must stay."""
    slot = in_slot(plan, value)
    if slot < 0:
        slot = make_room(plan, a, b, c, -1, -1)
        bring(plan, value, slot)
    return slot


def vacate(plan: int, slot: int, a: int, b: int, c: int) -> int:
    """Move whatever is in a slot elsewhere."""
    value = slot_at(plan, slot)
    if value < 0:
        return 0
    to = unoccupied(plan, 0, slot)
    if to < 0:
        if value != a and value != b and value != c:
            return evict(plan, value)
        to = make_room(plan, a, b, c, value, slot)
    copy_slot(plan, to, slot)
    set_slot(plan, slot, FREE_SLOT)
    return put(plan, value, to)


def force(plan: int, value: int, slot: int, a: int, b: int, c: int) -> int:
    """Have a value in one certain slot."""
    if in_slot(plan, value) == slot:
        return 0
    vacate(plan, slot, a, b, c)
    at = in_slot(plan, value)
    if at < 0:
        return bring(plan, value, slot)
    copy_slot(plan, slot, at)
    set_slot(plan, at, FREE_SLOT)
    return put(plan, value, slot)


def hot(plan: int, at: int, value: int) -> int:
    """A primitive in any slots: the result takes the place of the first operand, or of a copy of it."""
    first = load64(value + V_OPERAND)
    second = -1
    other = -1
    if load64(value + V_OPERANDS) == 2:
        second = load64(value + V_OPERAND + 8)
    slot = held(plan, first, first, second, -1)
    if second >= 0:
        other = held(plan, second, first, second, -1)
    target = slot
    if first == second or last_use(plan, first) != 2 * at:
        target = make_room(plan, first, second, -1, -1, -1)
        copy_slot(plan, target, slot)
    used(plan, first)
    variant = target
    if second >= 0:
        used(plan, second)
        variant = target * load64(plan + A_SLOTS) + other
    placed(plan, load64(value + V_FAMILY), load64(value + V_TAIL), variant, 0, load64(value + V_OFFSET))
    return put(plan, at, target)


def fixed(plan: int, at: int, value: int) -> int:
    """A primitive in the first slots: operands are moved there, and the result comes out in the first."""
    count = load64(value + V_OPERANDS)
    a = load64(value + V_OPERAND)
    b = -1
    c = -1
    if count > 1:
        b = load64(value + V_OPERAND + 8)
    if count > 2:
        c = load64(value + V_OPERAND + 16)
    force(plan, a, 0, a, b, c)
    if count > 1:
        operand(plan, b, 1, b == a, a, b, c)
    if count > 2:
        operand(plan, c, 2, (c == a) | (c == b), a, b, c)
    k = 0
    while k < count:
        used(plan, load64(value + V_OPERAND + 8 * k))
        k = k + 1
    keep_first(plan, a, count)
    k = 0
    while k < count:
        if slot_at(plan, k) == COPY_SLOT:
            set_slot(plan, k, FREE_SLOT)
        k = k + 1
    placed(plan, load64(value + V_FAMILY), load64(value + V_TAIL), 0, 0, 0)
    return put(plan, at, 0)


def operand(plan: int, value: int, slot: int, again: int, a: int, b: int, c: int) -> int:
    """An operand in its slot; one that was there before as a copy that no value owns."""
    if again == 0:
        return force(plan, value, slot, a, b, c)
    vacate(plan, slot, a, b, c)
    copy_slot(plan, slot, in_slot(plan, value))
    return set_slot(plan, slot, COPY_SLOT)


def keep_first(plan: int, value: int, count: int) -> int:
    """The first slot will be overwritten: its value, if still wanted, is copied out of it."""
    if slot_at(plan, 0) != value:
        return 0
    to = unoccupied(plan, count, -1)
    if to < 0 or spilled_at(plan, value) or comes_back(plan, value):
        return evict(plan, value)
    copy_slot(plan, to, 0)
    set_slot(plan, 0, FREE_SLOT)
    return put(plan, value, to)
