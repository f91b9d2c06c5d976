"""Stencils laid end to end, with their holes filled, in executable memory.

Which slot holds which value (`arrange_code.py`) and the laying down (`emit_code.py`) are machine code
of the driver; here is what they work off: a table of the stencils in use, and a plan per kernel.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import weakref
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from . import offsets as c
from .arena import Arena
from .blob import Blob
from .driver import driver
from .graph import NotFusable
from .lower import Computed, Constant, Loaded, Lowered, Value, facts
from .target import Target, by_level

_FRAME: Final = ("start", "loop_begin", "loop_end", "tail_begin", "finish", "mov", "spill", "fill")  # families as `offsets` numbers them
_FAMILIES: Final = 1024  # room in the table; a blob has some 250
_LIMIT: Final = 8192  # packed values kept
_CODES: Final = 1024  # codes remembered before those that are gone are forgotten
_value: Final = struct.Struct(f"<{c.VALUE_SIZE // 8}q").pack
_store: Final = struct.Struct(f"<{c.STORE_SIZE // 8}q").pack
_row: Final = struct.Struct(f"<{c.ROW_SIZE // 8}q").pack_into
_plan: Final = struct.Struct(f"<{c.A_SIZE // 8}q")


class Form(NamedTuple):
    """What a kernel's code depends on, packed: values, stores, and how many operands there are. Equal forms have equal code."""

    values: bytes
    stores: bytes
    operands: int


class Placed(NamedTuple):
    """A stencil of some code: its name in the loop and in the last, partial step, and the offsets that its holes are given."""

    stencil: str
    tail: str
    context: int
    constant: int


class Splicer:
    """Makes kernels from the stencils of one blob, in one arena. The constants of the blob are put there once."""

    def __init__(self, blob: Blob, arena: Arena) -> None:
        """Raises ArenaError."""
        target = by_level(blob.level)
        assert target is not None
        self.blob, self.arena, self.target = blob, arena, target
        self._data = arena.put(blob.data)
        self._table = ctypes.create_string_buffer(_FAMILIES * target.slots**2 * c.ROW_SIZE)
        self._families: dict[str, int] = {}
        self._numbers = itertools.count()
        self._kept: list[Any] = []  # what the table refers to
        self._values: dict[Value, bytes] = {}
        self._repeated: dict[Loaded, bytes] = {}
        self._codes: dict[Form, weakref.ref[Any]] = {}  # code that kernels hold now
        self._look_again = _CODES
        for name in _FRAME:
            self._family(name)
        self._frame_bytes = sum(len(blob.stencils[name][0]) for name in _FRAME[:5])

    def held(self, form: Form) -> Any:
        """The code that some kernel holds for a form, or None."""
        found = self._codes.get(form)
        return None if found is None else found()

    def hold(self, form: Form, code: Any) -> None:
        """Let others find `code` as long as somebody holds it."""
        if len(self._codes) >= self._look_again:
            self._codes = {k: r for k, r in list(self._codes.items()) if r() is not None}
            self._look_again = max(_CODES, 2 * len(self._codes))
        self._codes[form] = weakref.ref(code)

    # -- plans ----------------------------------------------------------------------------------

    def form(self, lowered: Lowered, repeated: int, inputs: int) -> Form:
        """The form of a graph's code; `repeated`: which inputs have one element all along the inner axis (bits)."""
        known, parts = self._values, []
        for value in lowered.values:
            if type(value) is Loaded and repeated >> value.input & 1:
                parts.append(self._repeated.get(value) or self._pack_repeated(value))
            else:
                parts.append(known.get(value) or self._pack(value))
        stores, at = [], c.POINTERS + 8 * inputs
        for number, memory in lowered.stores:
            stores.append(_store(number, self._family("st." + memory), self._family("stm." + memory), at))
            at += 8
        return Form(b"".join(parts), b"".join(stores), inputs + len(stores))

    def _pack(self, value: Value) -> bytes:
        if type(value) is Computed:
            family = self._family(value.primitive)
            kind = c.HOT if facts()[value.primitive].hot else c.FIXED
            operands = (*value.operands, 0, 0)[:3]
            packed = _value(kind, family, family, len(value.operands), *operands, 8 * max(0, value.constant))
        elif type(value) is Loaded:
            ordinary, tail = self._family(f"ld.{value.memory}"), self._family(f"ldm.{value.memory}")
            packed = _value(c.LOADED, ordinary, tail, 0, 0, 0, 0, c.POINTERS + 8 * value.input)
        else:
            assert type(value) is Constant
            family = self._family(f"ldk.{value.type}")
            packed = _value(c.CONSTANT, family, family, 0, 0, 0, 0, 8 * value.number)
        if len(self._values) >= _LIMIT:
            self._values.clear()
        self._values[value] = packed
        return packed

    def _pack_repeated(self, value: Loaded) -> bytes:
        family = self._family(f"lds.{value.memory}")
        packed = self._repeated[value] = _value(c.LOADED, family, family, 0, 0, 0, 0, c.POINTERS + 8 * value.input)
        return packed

    def _family(self, name: str) -> int:
        """The number of the stencils of one name, put into the table at first use."""
        found = self._families.get(name)
        if found is None:
            number = next(self._numbers)
            self._tabulate(number, list(_variants(name, self.blob, self.target)))
            found = self._families.setdefault(name, number)  # another thread may have been first
        return found

    def _tabulate(self, number: int, variants: list[tuple[int, str]]) -> None:
        codes = [(place, *self.blob.stencils[name]) for place, name in variants]
        holes = [number for _, _, own in codes for hole in own for number in hole]  # offset, kind, addend
        memory = ctypes.create_string_buffer(b"".join([code for _, code, _ in codes]) + struct.pack(f"<{len(holes)}q", *holes))
        self._kept.append(memory)
        code_at = ctypes.addressof(memory)
        hole_at = code_at + sum(len(code) for _, code, _ in codes)
        for place, code, own in codes:
            at = (number * self.target.slots**2 + place) * c.ROW_SIZE
            _row(self._table, at, code_at, len(code), hole_at, len(own))
            code_at += len(code)
            hole_at += c.HOLE_SIZE * len(own)

    # -- code -----------------------------------------------------------------------------------

    def splice(self, form: Form) -> tuple[int, int, int]:
        """(offset in the arena, bytes, bytes of context) of the code of start(ctx, n, constants). Raises ArenaError, NotFusable."""
        native = driver()
        plan = self._plan(form)
        at = ctypes.addressof(plan)
        length = native.arrange(at)
        context, body, missing = struct.unpack_from("<qqq", plan, c.A_CONTEXT)
        if missing or length < 0:
            raise NotFusable("a stencil does not exist")
        size = body + self._frame_bytes
        start = self.arena.reserve(size)
        native.emit(at, self.arena.write_at + start, self._data - start)
        return start, size, context

    def placed(self, form: Form) -> list[Placed]:
        """The stencils of a form's code between the frame's, in order: what `splice` lays down. Raises NotFusable."""
        plan = self._plan(form)
        length = driver().arrange(ctypes.addressof(plan))
        if length < 0 or struct.unpack_from("<q", plan, c.A_MISSING)[0]:
            raise NotFusable("a stencil does not exist")
        first = struct.unpack_from("<q", plan, c.A_PLACED)[0] - ctypes.addressof(plan)
        rows = [struct.unpack_from("<4q", plan, first + c.PLACED_SIZE * k) for k in range(length)]
        families = {number: dict(_variants(name, self.blob, self.target)) for name, number in list(self._families.items())}
        table, variants = ctypes.addressof(self._table), self.target.slots**2

        def name(row: int) -> str:
            family, place = divmod((row - table) // c.ROW_SIZE, variants)
            return families[family][place]

        return [Placed(name(row), name(tail), context, constant) for row, tail, context, constant in rows]

    def _plan(self, form: Form) -> Any:
        """A plan in memory, with room for its results."""
        values, stores, operands = form
        count, outputs = len(values) // c.VALUE_SIZE, len(stores) // c.STORE_SIZE
        room = 24 * count + 4 * outputs
        placed_at = c.A_SIZE + len(values) + len(stores)
        work_at = placed_at + room * c.PLACED_SIZE
        plan = ctypes.create_string_buffer(work_at + c.WORK_FIXED + count * c.WORK_VALUE + outputs * c.WORK_STORE)
        at = ctypes.addressof(plan)
        target = self.target
        spill_at = -(-(c.POINTERS + 8 * operands) // 64) * 64
        head = _plan.pack(
            count,
            at + c.A_SIZE,
            outputs,
            at + c.A_SIZE + len(values),
            target.slots,
            target.slot_bytes,
            ctypes.addressof(self._table),
            at + placed_at,
            room,
            0,
            spill_at,
            0,
            0,
            at + work_at,
            0,
            0,
        )
        ctypes.memmove(at, head + values + stores, placed_at)
        return plan


def _variants(name: str, blob: Blob, target: Target) -> Iterator[tuple[int, str]]:
    """The stencils of one name with their places among its rows: for slots a and b at a * slots + b, for one slot at its number."""
    slots, known = target.slots, blob.stencils
    primitive = facts().get(name)
    if name in known:
        yield 0, name
    elif primitive is not None and not primitive.hot:
        yield from ((0, f"{name}/{fixed}") for fixed in ("0", "0,1", "0,1,2") if f"{name}/{fixed}" in known)
    else:
        for a in range(slots):
            if f"{name}/{a}" in known:
                yield a, f"{name}/{a}"
            yield from ((a * slots + b, f"{name}/{a},{b}") for b in range(slots) if f"{name}/{a},{b}" in known)
