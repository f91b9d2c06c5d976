"""What the driver's `arrange` and `emit` do, in plain Python: which slot holds which value, and the bytes of the code."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any, Final

from bcvm_core.codegen.stencils.blob import AGAIN, CTX, DATA, KON, NEXT, Blob
from bcvm_core.codegen.stencils.lower import Computed, Constant, Loaded, Lowered, facts
from bcvm_core.codegen.stencils.offsets import POINTERS

_NEVER: Final = 1 << 30
_FREE, _COPY = -1, -2  # what a slot holds that holds no value
Placed = tuple[str, int, int]  # stencil, offset in the context, offset in the constants


@dataclass(frozen=True, slots=True)
class Body:
    """One step of a kernel. `context_bytes`: how large the context must be."""

    stencils: tuple[Placed, ...]
    context_bytes: int


class _Allocator:
    """Walks over the values once; `slots[k]` is the value in slot k (-1: none)."""

    def __init__(self, lowered: Lowered, repeated: tuple[bool, ...], slots: int, slot_bytes: int) -> None:
        self.values, self.lowered, self.repeated = lowered.values, lowered, repeated
        self.slots = [_FREE] * slots
        self.place: dict[int, int] = {}  # value -> slot
        self.spilled: dict[int, int] = {}  # value -> offset in the context
        self.out: list[Placed] = []
        operands = len(repeated) + len(lowered.stores)
        self.spill_at = -(-(POINTERS + 8 * operands) // 64) * 64
        self.free_spills: list[int] = []
        self.spill_end, self.slot_bytes = self.spill_at, slot_bytes
        self.stores_at: dict[int, list[int]] = {}  # time -> outputs
        self.uses = self._uses()

    def _uses(self) -> list[list[int]]:
        """Per value the times when it is read, last first. Step k has time 2k, stores after it 2k + 1.

        Nothing is stored before every input was loaded: outputs may lie where inputs do.
        """
        values, stores = self.values, self.lowered.stores
        uses: list[list[int]] = [[] for _ in values]
        for at in range(len(values) - 1, -1, -1):
            value = values[at]
            if type(value) is Computed:
                for k in value.operands:
                    uses[k].append(2 * at)
        self.copied = {k for k, _ in stores if type(values[k]) is Loaded}
        self.last_load = max([2 * k if k in self.copied else uses[k][-1] for k, v in enumerate(values) if type(v) is Loaded], default=0)
        for index, (k, _) in enumerate(stores):
            at = max(2 * k, self.last_load) + 1
            self.stores_at.setdefault(at, []).append(index)
            uses[k].append(at)
            uses[k].sort(reverse=True)
        return uses

    # -- slots ----------------------------------------------------------------------------------

    def next_use(self, value: int) -> int:
        uses = self.uses[value]
        return uses[-1] if uses else _NEVER

    def used(self, value: int) -> None:
        """One use is over; a value without more leaves its slot."""
        uses = self.uses[value]
        uses.pop()
        if not uses:
            slot = self.place.pop(value, -1)
            if slot >= 0:
                self.slots[slot] = _FREE
            if value in self.spilled:
                self.free_spills.append(self.spilled.pop(value))

    def put(self, value: int, slot: int) -> None:
        if not self.uses[value]:
            return  # computed for its events only
        self.slots[slot] = value
        self.place[value] = slot

    def free_slot(self, keep: tuple[int, ...], avoid: int = -1) -> int:
        """A slot that is free now; `keep`: values that must stay, `avoid`: a slot not to take."""
        for slot in range(len(self.slots) - 1, -1, -1):  # the low ones are wanted by fixed primitives
            if self.slots[slot] == _FREE and slot != avoid:
                return slot
        candidates = [v for s, v in enumerate(self.slots) if v >= 0 and v not in keep and s != avoid]
        victim = max(candidates, key=self.next_use)
        slot = self.place[victim]
        self.evict(victim)
        return slot

    def evict(self, value: int) -> None:
        """Take a value out of its slot; it can be brought back."""
        slot = self.place.pop(value)
        self.slots[slot] = _FREE
        if value in self.spilled or self._comes_back(value):
            return
        if self.free_spills:
            at = self.free_spills.pop()
        else:
            at, self.spill_end = self.spill_end, self.spill_end + self.slot_bytes
        self.spilled[value] = at
        self.out.append((f"spill/{slot}", at, 0))

    def _comes_back(self, value: int) -> bool:
        """Whether a value can be loaded again at its next use: a constant, or an input that nothing can have overwritten."""
        what = self.values[value]
        return type(what) is Constant or (type(what) is Loaded and self.next_use(value) <= self.last_load)

    def bring(self, value: int, slot: int) -> None:
        """Load a value that is in no slot into a free one."""
        what = self.values[value]
        if value in self.spilled:
            self.out.append((f"fill/{slot}", self.spilled[value], 0))
        elif type(what) is Loaded:
            how = "lds" if self.repeated[what.input] else "ld"
            self.out.append((f"{how}.{what.memory}/{slot}", POINTERS + 8 * what.input, 0))
        elif type(what) is Constant:
            self.out.append((f"ldk.{what.type}/{slot}", 0, 8 * what.number))
        self.put(value, slot)

    def held(self, value: int, keep: tuple[int, ...]) -> int:
        """The slot of a value, brought in when it is in none."""
        slot = self.place.get(value, -1)
        if slot < 0:
            slot = self.free_slot(keep)
            self.bring(value, slot)
        return slot

    def vacate(self, slot: int, keep: tuple[int, ...]) -> None:
        """Move whatever is in a slot elsewhere."""
        value = self.slots[slot]
        if value < 0:
            return
        try_free = next((s for s in range(len(self.slots) - 1, -1, -1) if self.slots[s] == _FREE and s != slot), -1)
        if try_free < 0:
            if value not in keep:
                self.evict(value)
                return
            try_free = self.free_slot((*keep, value), slot)
        self.out.append((f"mov/{try_free},{slot}", 0, 0))
        self.slots[slot] = _FREE
        self.put(value, try_free)

    def force(self, value: int, slot: int, keep: tuple[int, ...]) -> None:
        """Have a value in one certain slot."""
        at = self.place.get(value, -1)
        if at == slot:
            return
        self.vacate(slot, keep)
        at = self.place.get(value, -1)
        if at < 0:
            self.bring(value, slot)
        else:
            self.out.append((f"mov/{slot},{at}", 0, 0))
            self.slots[at] = _FREE
            self.put(value, slot)

    # -- steps ----------------------------------------------------------------------------------

    def run(self) -> Body:
        known = facts()
        for at, value in enumerate(self.values):
            if type(value) is Computed:
                if known[value.primitive].hot:
                    self.hot(at, value)
                else:
                    self.fixed(at, value)
            elif at in self.copied:
                self.held(at, ())
            if 2 * at + 1 in self.stores_at:
                self.stores(self.stores_at[2 * at + 1])
        return Body(tuple(self.out), self.spill_end)

    def stores(self, indices: list[int]) -> None:
        for index in indices:
            value, memory = self.lowered.stores[index]
            slot = self.held(value, ())
            self.out.append((f"st.{memory}/{slot}", POINTERS + 8 * (len(self.repeated) + index), 0))
            self.used(value)

    def hot(self, at: int, value: Computed) -> None:
        """A primitive in any slots: the result takes the place of the first operand, or of a copy of it."""
        primitive, operands, constant = value
        place, first, second = self.place, operands[0], -1
        slot = place.get(first, -1)
        if slot < 0:
            slot = self.held(first, operands)
        other = ""
        if len(operands) == 2:
            second = operands[1]
            where = place.get(second, -1)
            other = f",{self.held(second, operands) if where < 0 else where}"
        dying = self.uses[first][0] == 2 * at and first != second
        target = slot
        if not dying:
            target = self.free_slot(operands)
            self.out.append((f"mov/{target},{slot}", 0, 0))
        for operand in operands:
            self.used(operand)
        self.out.append((f"{primitive}/{target}{other}", 0, 8 * constant if constant >= 0 else 0))
        self.put(at, target)

    def fixed(self, at: int, value: Computed) -> None:
        """A primitive in the first slots: operands are moved there, and the result comes out in the first."""
        operands = value.operands
        for index, operand in enumerate(operands):
            if operand in operands[:index]:
                self.duplicate(operand, index, operands)
            else:
                self.force(operand, index, operands)
        for operand in operands:
            self.used(operand)
        self.keep_first(operands)
        for index in range(len(operands)):
            if self.slots[index] == _COPY:
                self.slots[index] = _FREE
        self.out.append((f"{value.primitive}/{','.join(map(str, range(len(operands))))}", 0, 0))
        self.put(at, 0)

    def duplicate(self, value: int, slot: int, operands: tuple[int, ...]) -> None:
        """A second copy of a value, which nobody owns."""
        self.vacate(slot, operands)
        self.out.append((f"mov/{slot},{self.place[value]}", 0, 0))
        self.slots[slot] = _COPY

    def keep_first(self, operands: tuple[int, ...]) -> None:
        """The first slot will be overwritten: its value, if still wanted, is copied out of it."""
        value = operands[0]
        if self.slots[0] != value:
            return
        free = next((s for s in range(len(self.slots) - 1, len(operands) - 1, -1) if self.slots[s] == _FREE), -1)
        if free < 0 or value in self.spilled or self._comes_back(value):
            self.evict(value)
            return
        self.out.append((f"mov/{free},0", 0, 0))
        self.slots[0] = _FREE
        self.put(value, free)


def allocate(lowered: Lowered, repeated: tuple[bool, ...], slots: int, slot_bytes: int) -> Body:
    """The stencils of one step. `repeated`: which inputs have the same element all along the inner axis."""
    return _Allocator(lowered, repeated, slots, slot_bytes).run()


LABELS: Final = {"loop_begin": "tail", "loop_end": "loop", "tail_begin": "end"}  # where control jumps to


def code_of(blob: Blob, body: Body, data: int) -> bytes:
    """The code of a kernel; `data`: how far from its start the constants of the blob are."""
    tail = [
        (("ldm." if name[:3] == "ld." else "stm.") + name[3:], a, b) if name[:3] in ("ld.", "st.") else (name, a, b)
        for name, a, b in body.stencils
    ]
    before = [("start", 0, 0), ("loop_begin", 0, 0), *body.stencils, ("loop_end", 0, 0)]
    sequence = [*before, ("tail_begin", 0, 0), *tail, ("finish", 0, 0)]
    sizes = [len(blob.stencils[name][0]) for name, _, _ in sequence]
    labels = {"loop": sum(sizes[:2]), "tail": sum(sizes[: len(before)]), "end": sum(sizes[:-1])}
    code = bytearray(b"".join(blob.stencils[name][0] for name, _, _ in sequence))
    at = 0
    for (name, ctx, kon), size in zip(sequence, sizes, strict=True):
        for offset, kind, addend in blob.stencils[name][1]:
            place = at + offset
            values: dict[int, Any] = {CTX: ctx + addend, KON: kon + addend, DATA: data + addend - place - 4, NEXT: at + size - place - 4}
            struct.pack_into("<i", code, place, labels[LABELS[name]] - place - 4 if kind == AGAIN else values[kind])
        at += size
    return bytes(code)


def assert_as_described(kernel: Any) -> None:
    """The code of a kernel is, byte by byte, what is described here."""
    for repeated, code in kernel.codes.items():
        splicer = kernel._splicer
        flags = tuple(bool(repeated >> k & 1) for k in range(len(kernel.inputs)))
        body = allocate(kernel.lowered, flags, splicer.target.slots, splicer.target.slot_bytes)
        wanted = code_of(splicer.blob, body, splicer._data - (code.address - splicer.arena.base))
        assert ctypes.string_at(code.address, code.size) == wanted, kernel.graph
        assert code.context_bytes == body.context_bytes
