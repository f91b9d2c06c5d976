"""The stencils of one family: every primitive in the registers it is wanted for, memory, control.

Names: "add.f32/0,1" is a primitive and its slots (the first is also where the result goes);
"ld.f32/0" loads, "lds" repeats one element, "ldm" loads the last partial step, "st" and "stm"
store; "ldk.f32/0" loads a constant; "mov/0,1", "spill/0", "fill/0" move whole slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from .ir import ELEMENT, MASK_AT, SIZE, Changes, Emitter, Module, slot_changes
from .primitives import Primitive, bfloat_bits, table
from .target import Target

MEMORY: Final = ("b", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")  # signed and unsigned numbers move alike
COMPUTE: Final = {"f16": "f32", "bf16": "f32"}  # narrow floats are float32 in registers
_RAW: Final = {"f16": "half", "bf16": "i16"}


def module(target: Target, width: int) -> Module:
    """All stencils for kernels whose widest element type has `width` bytes."""
    m = Module(target, target.lanes(width))
    for name, body in stencils(target, width):
        m.add(name, body)
    _control(m)
    return m


def stencils(target: Target, width: int) -> Iterator[tuple[str, Callable[[Emitter], Changes]]]:
    """Names and bodies of the stencils that compute or move values."""
    for primitive in table().values():
        if max(map(_size, (*primitive.operands, primitive.result))) <= width:
            yield from _variants(primitive, target)
    for slot in range(target.slots):
        for t in MEMORY:
            if _size(t) <= width:
                yield from moves(t, slot)
        for t in ("i8", "i16", "i32", "i64"):
            if _size(t) <= width:
                yield f"ldk.{t}/{slot}", _load_constant(t, slot)
        yield f"spill/{slot}", _spill(slot)
        yield f"fill/{slot}", _fill(slot)
        for other in range(target.slots):
            if other != slot:
                yield f"mov/{slot},{other}", _copy(slot, other)


def _size(t: str) -> int:
    return SIZE[t]


def _variants(p: Primitive, target: Target) -> Iterator[tuple[str, Callable[[Emitter], Changes]]]:
    """A primitive in all slots, or in the first ones; a constant operand takes none."""
    arity = len(p.operands) - (p.const >= 0)
    if not p.hot:
        yield variant_name(p.name, tuple(range(arity))), _apply(p, tuple(range(arity)))
        return
    for slot in range(target.slots):
        if arity == 1:
            yield variant_name(p.name, (slot,)), _apply(p, (slot,))
            continue
        for other in range(target.slots):
            if other != slot:
                yield variant_name(p.name, (slot, other)), _apply(p, (slot, other))


def variant_name(primitive: str, slots: tuple[int, ...]) -> str:
    """The stencil of a primitive in these slots."""
    return f"{primitive}/{','.join(map(str, slots))}"


def _apply(p: Primitive, slots: tuple[int, ...]) -> Callable[[Emitter], Changes]:
    def body(e: Emitter) -> Changes:
        places = iter(slots)
        values = [e.constant(ELEMENT[t]) if k == p.const else e.take(next(places), ELEMENT[t]) for k, t in enumerate(p.operands)]
        return slot_changes(e, slots[0], p.emit(e, *values), ELEMENT[p.result])

    return body


# -- memory --------------------------------------------------------------------------------------


def _widen(e: Emitter, t: str, value: str) -> tuple[str, str]:
    """A value as it is in memory as (value, LLVM element) in registers."""
    if t == "f16":
        return e.convert("fpext", "half", value, "float"), "float"
    if t == "bf16":
        wide = e.convert("zext", "i16", value, "i32")
        shifted = e.new(f"shl {e.vector('i32')} {wide}, {e.same('i32', '16')}")
        return e.convert("bitcast", "i32", shifted, "float"), "float"
    return value, ELEMENT[t]


def _narrow(e: Emitter, t: str, slot: int) -> tuple[str, str]:
    """A slot as (value, LLVM element) in memory."""
    if t == "f16":
        return e.convert("fptrunc", "float", e.take(slot, "float"), "half"), "half"
    if t == "bf16":
        return e.convert("trunc", "i32", bfloat_bits(e, e.take(slot, "float")), "i16"), "i16"
    return e.take(slot, ELEMENT[t]), ELEMENT[t]


def moves(t: str, slot: int) -> Iterator[tuple[str, Callable[[Emitter], Changes]]]:
    raw = _RAW.get(t, ELEMENT.get(t, ""))

    def load(e: Emitter) -> Changes:
        value = e.new(f"load {e.vector(raw)}, ptr {e.element_pointer(raw)}, align 1")
        return slot_changes(e, slot, *_widen(e, t, value))

    def splat(e: Emitter) -> Changes:
        scalar = e.new(f"load {raw}, ptr {e.operand_pointer()}, align 1")
        return slot_changes(e, slot, *_widen(e, t, e.spread(raw, scalar)))

    def masked_load(e: Emitter) -> Changes:
        """Lanes that are not there repeat the first that is: they raise no event of their own."""
        place, v = e.element_pointer(raw), e.vector(raw)
        first = e.spread(raw, e.new(f"load {raw}, ptr {place}, align 1"))
        name = f"llvm.masked.load.v{e.lanes}{_suffix(raw)}.p0"
        e.declared.add(f"declare {v} @{name}(ptr, i32 immarg, {e.vector('i1')}, {v})")
        value = e.new(f"call {v} @{name}(ptr {place}, i32 1, {e.vector('i1')} {e.tail_mask()}, {v} {first})")
        return slot_changes(e, slot, *_widen(e, t, value))

    def store(e: Emitter) -> Changes:
        value, element = _narrow(e, t, slot)
        e.plain(f"store {e.vector(element)} {value}, ptr {e.element_pointer(element)}, align 1")
        return {}

    def masked_store(e: Emitter) -> Changes:
        value, element = _narrow(e, t, slot)
        v = e.vector(element)
        name = f"llvm.masked.store.v{e.lanes}{_suffix(element)}.p0"
        e.declared.add(f"declare void @{name}({v}, ptr, i32 immarg, {e.vector('i1')})")
        place = e.element_pointer(element)
        e.plain(f"call void @{name}({v} {value}, ptr {place}, i32 1, {e.vector('i1')} {e.tail_mask()})")
        return {}

    for name, body in (("ld", load), ("lds", splat), ("ldm", masked_load), ("st", store), ("stm", masked_store)):
        yield f"{name}.{t}/{slot}", body


def _suffix(element: str) -> str:
    return {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)


def _load_constant(t: str, slot: int) -> Callable[[Emitter], Changes]:
    return lambda e: slot_changes(e, slot, e.constant(t), t)


def _copy(slot: int, other: int) -> Callable[[Emitter], Changes]:
    return lambda e: {e.target.registers * slot + k: f"%r{e.target.registers * other + k}" for k in range(e.target.registers)}


def _spill(slot: int) -> Callable[[Emitter], Changes]:
    def body(e: Emitter) -> Changes:
        for k, at in enumerate(_spill_places(e)):
            e.plain(f"store {e.register_type()} %r{e.target.registers * slot + k}, ptr {at}, align {e.target.register_bytes}")
        return {}

    return body


def _fill(slot: int) -> Callable[[Emitter], Changes]:
    def body(e: Emitter) -> Changes:
        t, size = e.register_type(), e.target.register_bytes
        return {e.target.registers * slot + k: e.new(f"load {t}, ptr {at}, align {size}") for k, at in enumerate(_spill_places(e))}

    return body


def _spill_places(e: Emitter) -> list[str]:
    place = e.place("ctx", "CTX")
    return [e.new(f"getelementptr i8, ptr {place}, i64 {k * e.target.register_bytes}") for k in range(e.target.registers)]


# -- control -------------------------------------------------------------------------------------


def _control(m: Module) -> None:
    """start(ctx, n, kon): whole steps in a loop, then one partial step; jumps to `again` are given their labels by the splicer."""
    t = m.target
    undefined = ", ".join([f"<{t.register_bytes // 4} x i32> poison"] * t.total)
    m.add_text(
        "start",
        f"""define void @start(ptr %ctx, i64 %count, ptr %kon) nounwind {{
  %rest = and i64 %count, {m.lanes - 1}
  %n = sub i64 %count, %rest
  %one = shl i64 1, %rest
  %mask = sub i64 %one, 1
  %at = getelementptr i8, ptr %ctx, i64 {MASK_AT}
  store i64 %mask, ptr %at
  call {t.convention} void @next(ptr %ctx, i64 0, i64 %n, ptr %kon, {undefined})
  ret void
}}""",
    )

    def branch(name: str, condition: Callable[[Emitter], str], i: Callable[[Emitter], str], often: bool) -> None:
        """Go to `again` where the condition holds, on to `next` otherwise."""

        def body(e: Emitter) -> None:
            index = i(e)
            e.plain(f"br i1 {condition(e)}, label %away, label %on, !prof !{2 if often else 1}")
            e.plain("away:")
            m.jump(e, "again", {}, i=index)
            e.plain("on:")
            m.jump(e, "next", {}, i=index)

        m.add(name, body)

    branch("loop_begin", lambda e: e.new("icmp eq i64 %n, 0"), lambda e: "0", False)
    branch("loop_end", lambda e: e.new(f"icmp slt i64 {_step(e)}, %n"), _step, True)
    branch("tail_begin", lambda e: e.new(f"icmp eq i64 {e.new(f'load i64, ptr {e.fixed_place(MASK_AT)}')}, 0"), lambda e: "%i", False)

    def finish(e: Emitter) -> None:
        e.declared.add("declare void @llvm.x86.avx.vzeroupper()")
        e.plain("call void @llvm.x86.avx.vzeroupper()")
        e.plain("ret void")

    m.add("finish", finish)


def _step(e: Emitter) -> str:
    return e.new(f"add i64 %i, {e.lanes}")
