"""One stencil as LLVM IR: how values come in and go out, and where the holes are.

A stencil is a function `(ctx, i, n, kon, registers...)` that ends in a tail call of `next` with
the same arguments, some registers changed. `ctx` is the call's own block of memory (pointers of
operands, tail mask, event word, spilled values), `kon` the kernel's constants, `i` the index of
the first element of this step, `n` the end of the loop. Holes are external symbols: `CTX` and
`KON` stand for offsets into these blocks, `next` for what follows, `again` for a jump elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from ..llvm import LlvmBuilder, Value
from .target import Target

ELEMENT: Final = {  # LLVM's name of each compute type; unsigned integers are a matter of the instruction, "b" is a byte 0 or 1
    "f32": "float",
    "f64": "double",
    "b": "i8",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "u8": "i8",
    "u16": "i16",
    "u32": "i32",
    "u64": "i64",
}
SIZE: Final = {
    "f32": 4,
    "f64": 8,
    "b": 1,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "u64": 8,
    "f16": 2,
    "bf16": 2,
}
_BITS: Final = {"float": 32, "double": 64, "half": 16, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}

WORD_AT: Final = 0  # ctx: events of canonical algorithms, a bit set
MASK_AT: Final = 8  # ctx: one bit per lane of the last, partial step

PREAMBLE: Final = (
    "@CTX = external dso_local global i8, !absolute_symbol !0\n"
    "@KON = external dso_local global i8, !absolute_symbol !0\n"
    "!0 = !{i64 0, i64 2147483648}\n"
    '!1 = !{!"branch_weights", i32 1, i32 1000}\n'
    '!2 = !{!"branch_weights", i32 1000, i32 1}\n'
)


class Emitter(LlvmBuilder):
    """Straight-line code of one stencil. Values are named by LLVM's names ("%t3")."""

    def __init__(self, target: Target, lanes: int) -> None:
        super().__init__(lanes, "t")
        self.target = target
        self.declared: set[str] = set()

    # -- text -----------------------------------------------------------------------------------

    def vector(self, element: str, lanes: int | None = None) -> str:
        """The LLVM vector type of an LLVM element type."""
        return f"<{self.lanes if lanes is None else lanes} x {element}>"

    def new(self, text: str) -> str:
        """The name of the value of an instruction."""
        return self.emit("", text).name

    def plain(self, line: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {line}")

    def call(self, result: str, function: str, *operands: tuple[str, str]) -> str:
        """The value of a call; operands are (type, value) pairs."""
        self.declared.add(f"declare {result} @{function}({', '.join(t for t, _ in operands)})")
        return self.new(f"call {result} @{function}({', '.join(f'{t} {v}' for t, v in operands)})")

    def same(self, element: str, constant: str) -> str:
        """A vector constant with `constant` (in LLVM's notation) in every lane."""
        return "<" + ", ".join([f"{element} {constant}"] * self.lanes) + ">"

    def compare(self, predicate: str, element: str, a: str, b: str) -> str:
        """A mask. Comparisons of floats raise no event for a quiet NaN."""
        if element not in ("float", "double"):
            return self.new(f"icmp {predicate} {self.vector(element)} {a}, {b}")
        bits, v = _BITS[element], self.vector(element)
        name = f"@llvm.experimental.constrained.fcmp.v{self.lanes}f{bits}"
        self.declared.add(f"declare {self.vector('i1')} {name}({v}, {v}, metadata, metadata)")
        return self.new(f'call {self.vector("i1")} {name}({v} {a}, {v} {b}, metadata !"{predicate}", metadata !"fpexcept.ignore")')

    def choose(self, element: str, mask: str, a: str, b: str) -> str:
        """a where the mask holds, else b."""
        v = self.vector(element)
        return self.new(f"select {self.vector('i1')} {mask}, {v} {a}, {v} {b}")

    def convert(self, how: str, source: str, value: str, result: str) -> str:
        """A conversion instruction between LLVM element types."""
        return self.new(f"{how} {self.vector(source)} {value} to {self.vector(result)}")

    # -- algorithms -----------------------------------------------------------------------------

    def note(self, masks: list[str]) -> None:
        """Add the lanes of some masks to the event word."""
        some = masks[0]
        for mask in masks[1:]:
            some = self.new(f"or {self.vector('i1')} {some}, {mask}")
        bits = self.new(f"bitcast {self.vector('i1')} {some} to i{self.lanes}")
        place = self.fixed_place(WORD_AT)
        self.plain(f"%word = load i{self.lanes}, ptr {place}")
        self.plain(f"%noted = or i{self.lanes} %word, {bits}")
        self.plain(f"store i{self.lanes} %noted, ptr {place}")

    def compute_in_single(self) -> None:
        """From here on algorithms compute in float32."""
        self.floating, self.integer = "float", "i32"

    def absolute(self, x: Value) -> Value:
        self._needs("fabs", self.floating, 1)
        return super().absolute(x)

    def fma(self, a: Any, c: Any, d: Any) -> Value:
        self._needs("fma", "float", 3)
        return super().fma(a, c, d)

    def scale(self, y: Any, n: Any) -> Value:
        if not self._wide:
            return super().scale(y, n)
        zero = "<" + ", ".join(["float 0.0"] * 16) + ">"
        return self._by_registers("mask.scalef", (self.value(y), self.value(n)), f"<16 x float> {zero}, i16 -1, i32 4")

    def at_most(self, x: Value, bound: float) -> Value:
        return self._quiet("min", x, bound) if self._wide else super().at_most(x, bound)

    def at_least(self, x: Value, bound: float) -> Value:
        return self._quiet("max", x, bound) if self._wide else super().at_least(x, bound)

    @property
    def _wide(self) -> bool:
        """Whether instructions for whole 512-bit registers are there for float32."""
        return self.target.register_bytes == 64 and self.floating == "float"

    def _quiet(self, name: str, x: Value, bound: float) -> Value:
        """The instruction gives its second operand for a NaN, and raises no event when it is told so (8)."""
        return self._by_registers(name, (self.value(bound), x), "i32 8")

    def _by_registers(self, name: str, operands: tuple[Value, ...], rest: str) -> Value:
        """An instruction for 16 float32, applied to as many registers as there are."""
        one = "<16 x float>"
        types = ", ".join([one] * len(operands) + ([one, "i16", "i32"] if "i16" in rest else ["i32"]))
        self.declared.add(f"declare {one} @llvm.x86.avx512.{name}.ps.512({types})")
        columns = [self.pieces(v.name, "float", 16) for v in operands]
        parts = []
        for values in zip(*columns, strict=True):
            given = ", ".join(f"{one} {v}" for v in values)
            parts.append(self.new(f"call {one} @llvm.x86.avx512.{name}.ps.512({given}, {rest})"))
        return Value(self, self.joined(parts, "float", 16), "float")

    def _needs(self, name: str, element: str, operands: int) -> None:
        t = self.vector(element)
        suffix = {"float": "f32", "double": "f64"}.get(element, element)
        self.declared.add(f"declare {t} @llvm.{name}.v{self.lanes}{suffix}({', '.join([t] * operands)})")

    def binary(self, operation: str, a: Any, b: Any, kind: str, result: str | None = None, known: Any = None) -> Value:
        """As the base class; comparisons of numbers are quiet."""
        if not operation.startswith("fcmp "):
            return super().binary(operation, a, b, kind, result, known)
        return Value(self, self.compare(operation[5:], kind, self.operand(a, kind), self.operand(b, kind)), "i1")

    # -- registers ------------------------------------------------------------------------------

    def register_type(self) -> str:
        return f"<{self.target.register_bytes // 4} x i32>"

    def take(self, slot: int, element: str) -> str:
        """The value of a slot as a vector of `lanes` elements."""
        count = self.target.register_bytes * 8 // _BITS[element]
        base, t = self.target.registers * slot, self.vector(element, count)
        used = max(1, self.lanes // count)
        parts = [self.new(f"bitcast {self.register_type()} %r{base + k} to {t}") for k in range(used)]
        if self.lanes < count:
            return self.new(f"shufflevector {t} {parts[0]}, {t} poison, {_indices(0, self.lanes)}")
        return self.joined(parts, element, count)

    def joined(self, parts: list[str], element: str, count: int) -> str:
        """Vectors of `count` elements end to end; their number is a power of two."""
        while len(parts) > 1:
            t = self.vector(element, count)
            parts = [
                self.new(f"shufflevector {t} {a}, {t} {b}, {_indices(0, 2 * count)}") for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            count *= 2
        return parts[0]

    def pieces(self, value: str, element: str, count: int) -> list[str]:
        """A vector cut into vectors of `count` elements."""
        if self.lanes == count:
            return [value]
        t = self.vector(element)
        return [self.new(f"shufflevector {t} {value}, {t} poison, {_indices(at, count)}") for at in range(0, self.lanes, count)]

    def give(self, value: str, element: str) -> list[str]:
        """A vector as the registers of a slot, as many as it needs."""
        count = self.target.register_bytes * 8 // _BITS[element]
        if self.lanes < count:
            v = self.vector(element)
            parts = [self.new(f"shufflevector {v} {value}, {v} poison, {_padded(self.lanes, count)}")]
        else:
            parts = self.pieces(value, element, count)
        return [self.new(f"bitcast {self.vector(element, count)} {part} to {self.register_type()}") for part in parts]

    # -- memory ---------------------------------------------------------------------------------

    def place(self, block: str, hole: str) -> str:
        """The address of a hole's offset in a block ("ctx", "kon")."""
        return self.new(f"getelementptr i8, ptr %{block}, i64 ptrtoint (ptr @{hole} to i64)")

    def fixed_place(self, offset: int) -> str:
        """The address of a known offset in ctx."""
        return self.new(f"getelementptr i8, ptr %ctx, i64 {offset}")

    def spread(self, element: str, scalar: str) -> str:
        """A vector with the same value in every lane."""
        v = self.vector(element)
        one = self.new(f"insertelement {v} poison, {element} {scalar}, i32 0")
        return self.new(f"shufflevector {v} {one}, {v} poison, {self.vector('i32')} zeroinitializer")

    def constant(self, element: str) -> str:
        """The kernel's constant at the hole, in every lane."""
        return self.spread(element, self.new(f"load {element}, ptr {self.place('kon', 'KON')}"))

    def operand_pointer(self) -> str:
        """The pointer of the operand at the hole."""
        return self.new(f"load ptr, ptr {self.place('ctx', 'CTX')}")

    def element_pointer(self, element: str) -> str:
        """The address of the operand's element i."""
        return self.new(f"getelementptr {element}, ptr {self.operand_pointer()}, i64 %i")

    def tail_mask(self) -> str:
        """The lanes of the last step, from ctx."""
        bits = self.new(f"load i{self.lanes}, ptr {self.fixed_place(MASK_AT)}")
        return self.new(f"bitcast i{self.lanes} {bits} to {self.vector('i1')}")


_NAME: Final = re.compile(r"%[\w.]+")


def _used(lines: list[str]) -> list[str]:
    """The instructions whose values somebody reads, and those that do something."""
    kept: list[str] = []
    wanted: set[str] = set()
    for line in reversed(lines):
        names = _NAME.findall(line)
        if line.startswith("  %") and names[0] not in wanted:
            continue
        wanted.update(names)
        kept.append(line)
    return kept[::-1]


def _indices(start: int, count: int) -> str:
    return f"<{count} x i32> <" + ", ".join(f"i32 {start + k}" for k in range(count)) + ">"


def _padded(used: int, count: int) -> str:
    return f"<{count} x i32> <" + ", ".join(f"i32 {k}" if k < used else "i32 poison" for k in range(count)) + ">"


Changes = dict[int, str]  # register -> new value
Body = Callable[[Emitter], Changes | None]  # None: the body ends itself


class Module:
    """Collects stencils and gives the text of one LLVM module."""

    def __init__(self, target: Target, lanes: int) -> None:
        self.target, self.lanes = target, lanes
        self._functions: list[str] = []
        self._declared: set[str] = set()
        self.names: list[str] = []

    @property
    def _registers(self) -> str:
        return f"<{self.target.register_bytes // 4} x i32>"

    def add(self, name: str, body: Body) -> None:
        """Define the stencil `name`."""
        e = Emitter(self.target, self.lanes)
        changes = body(e)
        if changes is not None:
            self.jump(e, "next", changes)
        lines = _used(e.lines)
        arguments = ", ".join(f"{self._registers} %r{k}" for k in range(self.target.total))
        head = f'define {self.target.convention} void @"{name}"(ptr %ctx, i64 %i, i64 %n, ptr %kon, {arguments}) nounwind {{'
        self._functions.append("\n".join([head, *lines, "}"]))
        self._declared |= e.declared
        self.names.append(name)

    def add_text(self, name: str, text: str) -> None:
        """Define a function written out in full."""
        self._functions.append(text)
        self.names.append(name)

    def jump(self, e: Emitter, to: str, changes: Changes, i: str = "%i", n: str = "%n") -> None:
        """End a path: go on at `to` with some registers changed."""
        values = ", ".join(f"{self._registers} {changes.get(k, f'%r{k}')}" for k in range(self.target.total))
        e.plain(f"musttail call {self.target.convention} void @{to}(ptr %ctx, i64 {i}, i64 {n}, ptr %kon, {values})")
        e.plain("ret void")

    def text(self) -> str:
        """The module."""
        types = ", ".join(["ptr", "i64", "i64", "ptr"] + [self._registers] * self.target.total)
        outside = [f"declare dso_local {self.target.convention} void @{name}({types})" for name in ("next", "again")]
        return PREAMBLE + "\n".join([*outside, *sorted(self._declared), *self._functions]) + "\n"


def slot_changes(e: Emitter, slot: int, value: str, element: str) -> Changes:
    """The registers of a slot that is given a value."""
    base = e.target.registers * slot
    return {base + k: part for k, part in enumerate(e.give(value, element))}
