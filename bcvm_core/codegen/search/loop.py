"""A fused kernel as one loop of explicit wide vectors, for LLVM: what spliced stencils do, with all registers to choose from.

The function is called as spliced code is, `start(ctx, n, constants)`, and is written by the very emitters of the stencils: each primitive
is one operation with one result, so the bits are the same whatever the width. No pass of LLVM runs over it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..llvm import Range, Value
from ..stencils import offsets as c
from ..stencils.describe import moves
from ..stencils.graph import NotFusable
from ..stencils.ir import ELEMENT, MASK_AT, SIZE, WORD_AT, Changes, Emitter
from ..stencils.lower import Computed, Constant, Loaded, Lowered, facts
from ..stencils.primitives import table
from ..stencils.target import Target

LINE: Final = 64  # bytes that a streaming store should fill
_FENCED: Final = ("neg.f32", "neg.f64")  # their results may not melt into what follows: a - b is a + -b but for the sign of a NaN
_ORDERED: Final = {"add.f32": "vaddps", "add.f64": "vaddpd", "mul.f32": "vmulps", "mul.f64": "vmulpd"}
"""Where both operands are NaN the first comes out, but LLVM exchanges them when it would rather read the first from memory: so these are
written as the instructions that they are."""
_FLOATS: Final = {"float": 32, "double": 64}
_SHORT: Final = 4  # with fewer whole steps than this nothing is streamed

Named = tuple[str, str]  # name of a value, its element type


class WideEmitter(Emitter):
    """One step of the loop, over `lanes` elements. Values live under their names; nothing is handed over in registers."""

    def __init__(self, target: Target, lanes: int, prefix: str, index: str) -> None:
        """`prefix`: of the names of its values, `index`: of the first element."""
        super().__init__(target, lanes)
        self._prefix, self.index = prefix, index
        self._count = 0
        self.pointer = ""  # of the operand that is moved now
        self.at = 0  # offset of the constant that is read now
        self.moved: Named = ("", "")
        self.streaming = 0  # alignment of stores that pass by the caches; 0: ordinary ones

    def begin(self) -> None:
        """A primitive starts: what others have computed is not looked through, and algorithms choose their own precision."""
        self._seen = {}
        self.floating, self.integer = "double", "i64"

    def emit(self, kind: str, text: str, known: Range = None) -> Value:
        found = self._seen.get(text)
        if found is None:
            name = f"%{self._prefix}{self._count}"
            self._count += 1
            self.lines.append(f"  {name} = {text}")
            found = self._seen[text] = Value(self, name, kind, known)
        return found

    def fresh(self, text: str) -> str:
        """The value of an instruction that is not the same twice."""
        self._seen.pop(text, None)
        return self.new(text)

    def plain(self, line: str) -> None:
        super().plain(line.replace(", align 1", f", align {self.streaming}, !nontemporal !3") if self.streaming else line)

    def note(self, masks: list[str]) -> None:
        some = masks[0]
        for mask in masks[1:]:
            some = self.new(f"or {self.vector('i1')} {some}, {mask}")
        bits = self.new(f"bitcast {self.vector('i1')} {some} to i{self.lanes}")
        place = self.fixed_place(WORD_AT)
        word = self.fresh(f"load i{self.lanes}, ptr {place}")
        self.plain(f"store i{self.lanes} {self.fresh(f'or i{self.lanes} {word}, {bits}')}, ptr {place}")

    def operand_pointer(self) -> str:
        return self.pointer

    def element_pointer(self, element: str) -> str:
        return self.new(f"getelementptr {element}, ptr {self.pointer}, i64 {self.index}")

    def place(self, block: str, hole: str) -> str:
        return self.new(f"getelementptr i8, ptr %{block}, i64 {self.at}")

    def take(self, slot: int, element: str) -> str:
        return self.read(self.moved, element)

    def read(self, value: Named, element: str) -> str:
        """A value as a vector of `element`, whose bits it has."""
        name, own = value
        return name if own == element else self.convert("bitcast", own, name, element)

    def give(self, value: str, element: str) -> list[str]:
        self.moved = (value, element)
        return []

    def ordered(self, instruction: str, element: str, a: str, b: str) -> str:
        """An instruction of two operands, in this order, on as many registers as it takes."""
        count = self.target.register_bytes * 8 // _FLOATS[element]
        t, wide = self.vector(element, count), self.target.register_bytes == LINE
        kind, prefix = ("v", "") if wide else ("x", "{vex3} ")  # the assembler exchanges operands too, where that saves a byte
        pairs = zip(self.pieces(a, element, count), self.pieces(b, element, count), strict=True)
        parts = [self.new(f'call {t} asm "{prefix}{instruction} $2, $1, $0", "={kind},{kind},{kind}"({t} {x}, {t} {y})') for x, y in pairs]
        return self.joined(parts, element, count)

    def fence(self, value: str, element: str) -> str:
        """The value, opaque to whatever would join the instructions on both sides."""
        v = self.vector(element)
        return self.call(v, f"llvm.arithmetic.fence.v{self.lanes}f{_FLOATS[element]}", (v, value))


def _bodies(t: str) -> dict[str, Callable[[Emitter], Changes]]:
    """Loads and stores of a memory type, by what they do."""
    return {name.partition(".")[0]: body for name, body in moves(t, 0)}


def step(e: WideEmitter, lowered: Lowered, repeated: int, inputs: int, *, masked: bool, streaming: bool = False) -> None:
    """Load, compute and store `lanes` elements; `masked`: those of the mask in the context."""
    values: list[Named] = []
    for value in lowered.values:
        e.begin()
        if type(value) is Loaded:
            how = "lds" if repeated >> value.input & 1 else "ldm" if masked else "ld"
            e.pointer = f"%p{value.input}"
            _bodies(value.memory)[how](e)
            values.append(e.moved)
        elif type(value) is Constant:
            e.at = 8 * value.number
            values.append((e.constant(ELEMENT[value.type]), ELEMENT[value.type]))
        else:
            assert type(value) is Computed
            values.append(_computed(e, value, values))
    for k, (number, memory) in enumerate(lowered.stores):
        e.begin()
        e.pointer, e.moved = f"%p{inputs + k}", values[number]
        e.streaming = min(LINE, e.lanes * SIZE[memory]) if streaming else 0
        _bodies(memory)["stm" if masked else "st"](e)
        e.streaming = 0


def _computed(e: WideEmitter, value: Computed, values: list[Named]) -> Named:
    primitive = table()[value.primitive]
    operands, given = [], iter(value.operands)
    for k, t in enumerate(primitive.operands):
        if k == primitive.const:
            e.at = 8 * value.constant
            operands.append(e.constant(ELEMENT[t]))
        else:
            operands.append(e.read(values[next(given)], ELEMENT[t]))
    return applied(e, value.primitive, operands)


def applied(e: WideEmitter, name: str, operands: list[str]) -> Named:
    """The result of a primitive on vectors of the elements that it takes."""
    primitive = table()[name]
    element, instruction = ELEMENT[primitive.result], _ORDERED.get(name)
    result = e.ordered(instruction, element, *operands) if instruction else primitive.emit(e, *operands)
    return e.fence(result, element) if name in _FENCED else result, element


def obstacle(lowered: Lowered) -> str:
    """Why a graph has no such loop, "" where it has one: results that nobody reads must still raise their events."""
    used = {k for value in lowered.values if type(value) is Computed for k in value.operands} | {number for number, _ in lowered.stores}
    known = facts()
    for k, value in enumerate(lowered.values):
        if type(value) is Computed and k not in used and not known[value.primitive].quiet:
            return f"nobody reads a result of {value.primitive}, which is computed for its events"
    return ""


class LoopWriter:
    """The function around the steps."""

    def __init__(self, target: Target, lowered: Lowered, repeated: int, inputs: int, lanes: int) -> None:
        self.target, self.lowered, self.repeated, self.inputs, self.lanes = target, lowered, repeated, inputs, lanes
        self.lines: list[str] = []
        self.declared: set[str] = set()

    def step(self, prefix: str, index: str, *, masked: bool, streaming: bool = False) -> None:
        e = WideEmitter(self.target, self.lanes, prefix, index)
        step(e, self.lowered, self.repeated, self.inputs, masked=masked, streaming=streaming)
        self.declared |= e.declared
        self.lines += e.lines

    def masked(self, label: str, count: str, index: str, then: str) -> None:
        """A partial step of `count` elements."""
        self.lines += [
            f"{label}:",
            f"  %one.{label} = shl i64 1, {count}",
            f"  %mask.{label} = sub i64 %one.{label}, 1",
            f"  %at.{label} = getelementptr i8, ptr %ctx, i64 {MASK_AT}",
            f"  store i64 %mask.{label}, ptr %at.{label}",
        ]
        self.step(f"{label}.", index, masked=True)
        self.lines.append(f"  br label %{then}")

    def loop(self, label: str, start: str, then: str, *, streaming: bool = False) -> None:
        """Whole steps up to %n; `start`: the incoming values of the index."""
        index = f"%i.{label}"
        self.lines += [f"{label}:", f"  {index} = phi i64 {start}, [ %next.{label}, %{label} ]"]
        self.step(f"{label}.", index, masked=False, streaming=streaming)
        self.lines += [
            f"  %next.{label} = add i64 {index}, {self.lanes}",
            f"  %more.{label} = icmp slt i64 %next.{label}, %n",
            f"  br i1 %more.{label}, label %{label}, label %{then}",
        ]

    def entry(self) -> None:
        operands = self.inputs + len(self.lowered.stores)
        self.lines += ["define void @start(ptr %ctx, i64 %count, ptr %kon) nounwind {", "entry:"]
        for k in range(operands):
            self.lines += [f"  %a{k} = getelementptr i8, ptr %ctx, i64 {c.POINTERS + 8 * k}", f"  %p{k} = load ptr, ptr %a{k}"]

    def alignment(self, size: int) -> None:
        """%stream: whether all outputs can be aligned by the same %head of elements."""
        outputs = range(self.inputs, self.inputs + len(self.lowered.stores))
        self.lines += [f"  %o{k} = ptrtoint ptr %p{k} to i64" for k in outputs]
        first = f"%o{self.inputs}"
        self.lines += [f"  %to = sub i64 0, {first}", f"  %gap = and i64 %to, {LINE - 1}", f"  %wrong0 = and i64 %gap, {size - 1}"]
        for k, number in enumerate(outputs[1:]):
            self.lines += [f"  %x{k} = xor i64 {first}, %o{number}", f"  %y{k} = and i64 %x{k}, {LINE - 1}"]
            self.lines.append(f"  %wrong{k + 1} = or i64 %wrong{k}, %y{k}")
        self.lines += [
            f"  %even = icmp eq i64 %wrong{len(outputs) - 1}, 0",
            f"  %head = lshr i64 %gap, {size.bit_length() - 1}",
            f"  %near = icmp ult i64 %head, {self.lanes}",
            f"  %much = icmp sge i64 %count, {(_SHORT + 1) * self.lanes}",
            "  %fits = and i1 %even, %near",
            "  %stream = and i1 %fits, %much",
            "  %from = select i1 %stream, i64 %head, i64 0",
            "  %left = sub i64 %count, %from",
            f"  %steps = and i64 %left, {-self.lanes}",
            "  %n = add i64 %from, %steps",
            "  br i1 %stream, label %first, label %ordinary",
            "first:",
            "  %aligned = icmp eq i64 %from, 0",
            "  br i1 %aligned, label %streamed, label %lead",
        ]

    def text(self, streaming: bool) -> str:
        self.entry()
        if streaming:
            self.alignment(SIZE[self.lowered.stores[0][1]])
            self.masked("lead", "%from", "0", "streamed")
            self.loop("streamed", "[ %from, %first ], [ %from, %lead ]", "flush", streaming=True)
            self.declared.add("declare void @llvm.x86.sse.sfence()")
            self.lines += ["flush:", "  call void @llvm.x86.sse.sfence()", "  br label %last", "ordinary:"]
        else:
            self.lines.append(f"  %n = and i64 %count, {-self.lanes}")
        self.rest("0", "ordinary" if streaming else "entry")
        return "\n".join([*sorted(self.declared), *self.lines]) + "\n"

    def rest(self, start: str, before: str) -> None:
        """The elements from `start`, a multiple of the lanes, on; `before`: the label of the block that this follows."""
        self.lines += [f"  %none = icmp eq i64 %n, {start}", "  br i1 %none, label %last, label %whole"]
        self.loop("whole", f"[ {start}, %{before} ]", "last")
        self.lines += ["last:", "  %rest = sub i64 %count, %n", "  %over = icmp eq i64 %rest, 0", "  br i1 %over, label %done, label %tail"]
        self.masked("tail", "%rest", "%n", "done")
        self.lines += ["done:", "  ret void", "}", "!3 = !{i32 1}"]


def text(target: Target, lowered: Lowered, repeated: int, inputs: int, lanes: int, *, streaming: bool = False) -> str:
    """The module of `start`; `repeated`: inputs (bits) with one element all along. Raises NotFusable.

    `streaming`: stores pass by the caches where all outputs can be aligned at once, after a first, partial step that aligns them.
    """
    reason = obstacle(lowered)
    if streaming and len({SIZE[memory] for _, memory in lowered.stores}) != 1:
        reason = "outputs of several sizes can't be aligned at once"
    if reason:
        raise NotFusable(reason)
    return LoopWriter(target, lowered, repeated, inputs, lanes).text(streaming)
