"""Functions of LLVM IR with loops: what `stencils/ir.py` is for straight lines, with variables, loops and memory.

Variables are stack slots that LLVM's passes turn into registers. Vectors have `LANES` numbers
whatever the machine: wider ones than its registers are cut by LLVM. Kernels made here keep the
processor's event flags to themselves (their caller puts them back), so comparisons may raise some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from ..llvm import Range, Value
from ..stencils.ir import Emitter
from ..stencils.primitives import table
from ..stencils.target import Target

LANES: Final = 16
STEP: Final = 64  # numbers per step: the partial results of a block of the tree
GONE: Final = {"float": -104.5, "double": -746.0}  # exp of less is zero
BYTES: Final = {"float": 4, "double": 8, "i8": 1, "i16": 2, "half": 2, "i32": 4, "i64": 8}


@dataclass(frozen=True, slots=True)
class Var:
    """A variable of some LLVM type."""

    name: str
    type: str


class Code(Emitter):
    """Writes the body of one function."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, LANES)
        self._slots: list[str] = []
        self._count = 0
        self.ceiling: float | None = None  # numbers that algorithms are given now are at most this
        self.living: str | None = None  # lanes in which `scale` scales, where one instruction does it; the others are then 0
        self.floor: float | None = None  # and at least this

    def at_most(self, x: Value, bound: float) -> Value:
        return x if self.ceiling is not None and self.ceiling <= bound else super().at_most(x, bound)

    @property
    def scales_at_once(self) -> bool:
        """Whether float32 is scaled by one instruction."""
        return self.target.register_bytes == 64

    def scale(self, y: Any, n: Any) -> Value:
        if self.living is None or not self._wide:
            return super().scale(y, n)
        bits = self.new(f"bitcast {self.vector('i1')} {self.living} to i{LANES}")
        return self._by_registers("mask.scalef", (self.value(y), self.value(n)), f"<16 x float> zeroinitializer, i16 {bits}, i32 4")

    def at_least(self, x: Value, bound: float) -> Value:
        return x if self.floor is not None and self.floor >= bound else super().at_least(x, bound)

    def exp(self, wide: str, vector: str, most: float | None = None) -> str:
        """exp with the bits of the canonical algorithm, of numbers that are at most `most`.

        What becomes zero does not go through numbers so small that processors take their time over each: masks (-1e9, -inf) are common
        here, and nobody hears of underflow.
        """
        gone = self.new(f"fcmp olt {self.vector(wide)} {vector}, {self.same(wide, str(GONE[wide]))}")
        zero = self.same(wide, "0.0")
        self.ceiling, self.floor = most, GONE[wide]
        found = self.primitive(f"exp.{'f32' if wide == 'float' else 'f64'}", self.choose(wide, gone, zero, vector))
        self.ceiling = self.floor = None
        return self.choose(wide, gone, zero, found)

    # -- values ---------------------------------------------------------------------------------

    def emit(self, kind: str, text: str, known: Range = None) -> Value:
        """As the base class; what was computed before a label is not used after it."""
        found = self._seen.get(text)
        if found is None:
            found = self._seen[text] = Value(self, self.fresh(text), kind, known)
        return found

    def fresh(self, text: str) -> str:
        """The value of an instruction that is not the same twice: loads."""
        self._count += 1
        self.plain(f"%t{self._count} = {text}")
        return f"%t{self._count}"

    def note(self, masks: list[str]) -> None:
        """Events of algorithms show in the result, and nowhere else."""

    def primitive(self, name: str, *operands: str) -> str:
        """One operation of `stencils/primitives.py`."""
        self.floating, self.integer = "double", "i64"
        return table()[name].emit(self, *operands)

    def binary_op(self, name: str, element: str, a: str, b: str, lanes: int = LANES) -> str:
        """An instruction on two vectors (`lanes` 0: numbers)."""
        return self.new(f"{name} {self.vector(element, lanes) if lanes else element} {a}, {b}")

    def larger(self, element: str, a: str, b: str, lanes: int = LANES, least: bool = False) -> str:
        """a where it is beyond b, else b, a NaN in either gives b."""
        v, c = (self.vector(element, lanes), self.vector("i1", lanes)) if lanes else (element, "i1")
        mask = self.new(f"fcmp {'olt' if least else 'ogt'} {v} {a}, {b}")
        return self.new(f"select {c} {mask}, {v} {a}, {v} {b}")

    def folded(self, value: str, element: str, combine: Callable[[str, str, int], str]) -> str:
        """The lanes combined in halves: 8, 4, 2, 1. `combine(a, b, lanes)`."""
        half = LANES // 2
        while half:
            v = self.vector(element, 2 * half)
            low, high = (
                self.new(f"shufflevector {v} {value}, {v} poison, <{half} x i32> <{', '.join(f'i32 {at + k}' for k in range(half))}>")
                for at in (0, half)
            )
            value = combine(low, high, half)
            half //= 2
        return self.new(f"extractelement <1 x {element}> {value}, i64 0")

    # -- variables and memory -------------------------------------------------------------------

    def slot(self, kind: str, align: int = 0) -> str:
        """Memory of the function's frame."""
        self._count += 1
        self._slots.append(f"  %s{self._count} = alloca {kind}" + (f", align {align}" if align else ""))
        return f"%s{self._count}"

    def var(self, kind: str, initial: str) -> Var:
        """A variable that holds `initial` from here on."""
        found = Var(self.slot(kind), kind)
        self.set(found, initial)
        return found

    def get(self, var: Var) -> str:
        return self.fresh(f"load {var.type}, ptr {var.name}")

    def set(self, var: Var, value: str) -> None:
        self.plain(f"store {var.type} {value}, ptr {var.name}")

    def at(self, pointer: str, index: str, element: str) -> str:
        """The address of an element."""
        return self.new(f"getelementptr {element}, ptr {pointer}, i64 {index}")

    def load(self, kind: str, pointer: str, align: int = 1) -> str:
        return self.fresh(f"load {kind}, ptr {pointer}, align {align}")

    def store(self, kind: str, value: str, pointer: str, align: int = 1) -> None:
        self.plain(f"store {kind} {value}, ptr {pointer}, align {align}")

    def load_lanes(self, element: str, pointer: str, mask: str | None) -> str:
        """Neighbouring elements; those outside the mask are not touched and zero."""
        v = self.vector(element)
        if mask is None:
            return self.load(v, pointer, BYTES[element])
        name = f"llvm.masked.load.v{LANES}{_suffix(element)}.p0"
        self.declared.add(f"declare {v} @{name}(ptr, i32, {self.vector('i1')}, {v})")
        return self.fresh(f"call {v} @{name}(ptr {pointer}, i32 {BYTES[element]}, {self.vector('i1')} {mask}, {v} zeroinitializer)")

    def store_lanes(self, element: str, value: str, pointer: str, mask: str | None) -> None:
        """Write neighbouring elements; memory outside the mask is not touched."""
        v = self.vector(element)
        if mask is None:
            self.store(v, value, pointer, BYTES[element])
            return
        name = f"llvm.masked.store.v{LANES}{_suffix(element)}.p0"
        self.declared.add(f"declare void @{name}({v}, ptr, i32, {self.vector('i1')})")
        self.plain(f"call void @{name}({v} {value}, ptr {pointer}, i32 {BYTES[element]}, {self.vector('i1')} {mask})")

    def first_lanes(self, count: str, start: int) -> str:
        """The mask of the lanes k with start + k < count."""
        numbers = ", ".join(f"i64 {start + k}" for k in range(LANES))
        return self.new(f"icmp slt {self.vector('i64')} <{numbers}>, {self.spread('i64', count)}")

    # -- control --------------------------------------------------------------------------------

    def _label(self) -> str:
        self._count += 1
        return f"l{self._count}"

    def _place(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self._seen.clear()

    @contextmanager
    def loop(self, start: str, end: str, step: int = 1) -> Iterator[str]:
        """for i in range(start, end, step)."""
        i = self.var("i64", start)
        head, body, after = self._label(), self._label(), self._label()
        self.plain(f"br label %{head}")
        self._place(head)
        now = self.get(i)
        self.plain(f"br i1 {self.new(f'icmp slt i64 {now}, {end}')}, label %{body}, label %{after}")
        self._place(body)
        yield now
        self.set(i, self.new(f"add i64 {now}, {step}"))
        self.plain(f"br label %{head}")
        self._place(after)

    @contextmanager
    def repeat_while(self, condition: Callable[[], str]) -> Iterator[None]:
        """while condition()."""
        head, body, after = self._label(), self._label(), self._label()
        self.plain(f"br label %{head}")
        self._place(head)
        self.plain(f"br i1 {condition()}, label %{body}, label %{after}")
        self._place(body)
        yield
        self.plain(f"br label %{head}")
        self._place(after)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """if condition."""
        yes, after = self._label(), self._label()
        self.plain(f"br i1 {condition}, label %{yes}, label %{after}")
        self._place(yes)
        yield
        self.plain(f"br label %{after}")
        self._place(after)

    @contextmanager
    def abreast(self) -> Iterator[Callable[[], None]]:
        """Straight-line code in independent parts, laid out line by line in turn; the function given begins a part."""
        first = len(self.lines)
        starts: list[int] = []

        def begin() -> None:
            starts.append(len(self.lines))
            self._seen.clear()

        yield begin
        self._seen.clear()
        ends = [*starts[1:], len(self.lines)]
        parts = [self.lines[a:b] for a, b in zip(starts, ends, strict=True)]
        self.lines[first:] = [line for lines in zip_longest(*parts) for line in lines if line is not None]

    def choice(self, condition: str, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """if condition: yes() else: no()."""
        first, second, after = self._label(), self._label(), self._label()
        self.plain(f"br i1 {condition}, label %{first}, label %{second}")
        for label, body in ((first, yes), (second, no)):
            self._place(label)
            body()
            self.plain(f"br label %{after}")
        self._place(after)

    def function(self, name: str, parameters: str, result: str = "void", value: str = "", inside: bool = False) -> str:
        """The text of the function. `inside`: only functions of its module call it."""
        body = "\n".join(["entry:", *self._slots, "  br label %start", "start:", *self.lines, f"  ret {result} {value}".rstrip()])
        how, kind = ("internal ", "noinline ") if inside else ("", "")
        return f'define {how}{result} @{name}({parameters}) {kind}nounwind "no-builtins" {{\n{body}\n}}\n'


def _suffix(element: str) -> str:
    return {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)


def module(parts: list[tuple[Any, str]]) -> str:
    """One module of (code, its text) pairs."""
    declared = sorted(set().union(*(code.declared for code, _ in parts)))
    return "\n".join([*declared, *(text for _, text in parts)]) + "\n"
