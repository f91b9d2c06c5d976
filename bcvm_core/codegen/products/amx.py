"""LLVM IR of products by the matrix unit of newer processors (AMX): numbers in parts, and tiles of 16 x 16 sums.

The unit multiplies numbers of 8 bits of precision and float32's exponents ("bfloat16") and adds the products to float32 sums. A float32 x
is x1 + x2 + x3 of such numbers: x1 the nearest one, x2 what is left without its low bits, x3 the rest; exact. Of the nine products of two
such sums the six largest are taken: what is left out is at most 2^-24 of the product, and of either sign. x1 y1 and the other five have a
sum each: the second is 2^-8 of the first, so its rounding does not count, and the first is rounded half as often as a chain of
multiply-adds. The unit takes subnormal numbers for 0. So only numbers that are 0 or lie between 2^-51 and 2^50 are split: their parts are
normal, no product of theirs overflows, and underflow takes at most 2^-126 of a product that is above 2^-102. For the others `columns` and
`rows` put 0 and say so.

Functions take and give 64-bit numbers; strides are bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Final

from ...devices import amx
from .. import store
from ..loops import MAKERS, Loop
from .amx_code import CHUNK, PANEL, TERMS, W_BIAS, W_DONE, W_EACH, W_FAR, W_FROM, W_LEFT, W_SUMS, W_SUMS_ROW, W_TO
from .amx_mend import ROW_MARKS, mended
from .amx_mend import F as _F
from .amx_mend import V as _V

OP: Final = "amx"
# in the order of `job_code.X_*`
NAMES: Final = ("start", "stop", "rows", "marked_rows", "columns", "marked_columns", "one", "two", "mended")
_WITH: Final = {  # the words of what comes with a tile
    "from": W_FROM,
    "to": W_TO,
    "done": W_DONE,
    "left": W_LEFT,
    "each": W_EACH,
    "far": W_FAR,
    "sums_row": W_SUMS_ROW,
    "from_sums": W_SUMS,
    "bias": W_BIAS,
}
_POINTERS: Final = ("from", "to", "from_sums", "bias")
_LEVEL: Final = "x86-64-v4"  # panels are as wide as two of its registers
_LANES: Final = 16
_HALVES: Final = f"<{2 * _LANES} x i16>"
_PART: Final = 1024  # bytes of a register of the unit
_LOW: Final = (127 - 51) << 24  # the least number that is split, shifted over its sign,
_SPAN: Final = 101 << 24  # and how far up they go
_FEATURES: Final = "-prefer-256-bit,+amx-tile,+amx-bf16"


class AmxLoop(Loop):
    """`functions`: their addresses, as jobs name them. `outside(count, address)`: whether some numbers are not split."""

    __slots__ = ("functions", "outside")
    optimise = True

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.functions: Any = None
        self.outside: Any = None

    def load(self) -> bool:
        """Take the code from the store; False when it is not there or can't be used."""
        if store.cpu_level() != _LEVEL or not amx.allowed():
            self.failed = "this processor has no matrix unit, or the system does not give it away"
            return False
        return super().load()

    def _ir(self) -> str:
        return module()

    def _symbols(self) -> list[str]:
        return [*NAMES, "outside"]

    def _take(self, found: dict[str, int]) -> None:
        self.functions = (ctypes.c_uint64 * len(NAMES))(*(found[name] for name in NAMES))
        self.outside = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(found["outside"])


MAKERS[OP] = AmxLoop


def module() -> str:
    """All functions."""
    unit = [
        "declare void @llvm.x86.ldtilecfg(ptr)",
        "declare void @llvm.x86.tilerelease()",
        "declare void @llvm.x86.tilezero(i8 immarg)",
        *(f"declare void @llvm.x86.tile{verb}64(i8 immarg, ptr, i64)" for verb in ("loadd", "stored")),
        "declare void @llvm.x86.tdpbf16ps(i8 immarg, i8 immarg, i8 immarg)",
        f"declare {_V} @llvm.masked.load.v{_LANES}i32.p0(ptr, i32 immarg, <{_LANES} x i1>, {_V})",
        *(f"declare {_V} @llvm.{op}.v{_LANES}i32({_V}, {_V})" for op in ("umax", "umin")),
        *(f"declare i32 @llvm.vector.reduce.{op}.v{_LANES}i32({_V})" for op in ("umax", "umin")),
        f"declare {_F} @llvm.fma.v{_LANES}f32({_F}, {_F}, {_F})",
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
    ]
    split = [line for marked in (False, True) for part in (_rows, _columns) for line in part(marked)]
    return "\n".join(
        [
            *unit,
            _START,
            *split,
            *_tile("one", 1),
            *_tile("two", 2),
            *mended(),
            *_outside(),
            f'attributes #0 = {{ nounwind "target-features"="{_FEATURES}" }}',
        ]
    )


def _splat(value: int) -> str:
    return f"<{', '.join([f'i32 {value}'] * _LANES)}>"


def _split(x: str, marked: bool) -> Iterator[str]:
    """The parts %x.1, %x.2, %x.3 of the numbers %x, as patterns whose low halves are 0.

    `marked`: numbers that are not split count as 0, and %x.h says which; otherwise there are none.
    """
    source = x
    if marked:
        source = f"{x}.x"
        yield f"  %{x}.d = add {_V} %{x}, %{x}"
        yield f"  %{x}.t = sub {_V} %{x}.d, {_splat(_LOW)}"
        yield f"  %{x}.p = icmp ult {_V} %{x}.t, {_splat(_SPAN)}"
        yield f"  %{x}.o = icmp uge {_V} %{x}.t, {_splat(_SPAN)}"
        yield f"  %{x}.z = icmp ne {_V} %{x}.d, zeroinitializer"
        yield f"  %{x}.h = and <{_LANES} x i1> %{x}.o, %{x}.z"
        yield f"  %{source} = select <{_LANES} x i1> %{x}.p, {_V} %{x}, {_V} zeroinitializer"
    yield f"  %{x}.r = add {_V} %{source}, {_splat(0x8000)}"
    yield f"  %{x}.1 = and {_V} %{x}.r, {_splat(-0x10000)}"
    yield f"  %{x}.f = bitcast {_V} %{source} to {_F}"
    yield f"  %{x}.f1 = bitcast {_V} %{x}.1 to {_F}"
    yield f"  %{x}.g = fsub {_F} %{x}.f, %{x}.f1"
    yield f"  %{x}.gi = bitcast {_F} %{x}.g to {_V}"
    yield f"  %{x}.2 = and {_V} %{x}.gi, {_splat(-0x10000)}"
    yield f"  %{x}.f2 = bitcast {_V} %{x}.2 to {_F}"
    yield f"  %{x}.e = fsub {_F} %{x}.g, %{x}.f2"
    yield f"  %{x}.3 = bitcast {_F} %{x}.e to {_V}"


def _extremes(x: str, largest: str, smallest: str, to: tuple[str, str]) -> Iterator[str]:
    """The largest magnitude so far and of %x, shifted over the sign; the smallest one less 1, which makes 0 the largest number."""
    yield f"  %{x}.d = add {_V} %{x}, %{x}"
    yield f"  %{x}.l = add {_V} %{x}.d, {_splat(-1)}"
    yield f"  %{to[0]} = call {_V} @llvm.umax.v{_LANES}i32({_V} %{largest}, {_V} %{x}.d)"
    yield f"  %{to[1]} = call {_V} @llvm.umin.v{_LANES}i32({_V} %{smallest}, {_V} %{x}.l)"


def _judged(largest: str, smallest: str) -> Iterator[str]:
    """%wide: whether numbers with these extremes are not all split."""
    yield f"  %high = call i32 @llvm.vector.reduce.umax.v{_LANES}i32({_V} %{largest})"
    yield f"  %low = call i32 @llvm.vector.reduce.umin.v{_LANES}i32({_V} %{smallest})"
    yield f"  %too_high = icmp uge i32 %high, {_LOW + _SPAN - (1 << 32)}"
    yield f"  %too_low = icmp ult i32 %low, {_LOW - 1}"
    yield "  %either = or i1 %too_high, %too_low"
    yield "  %wide = zext i1 %either to i64"


def _joined(to: str, x: str, y: str, indices: list[int]) -> Iterator[str]:
    """High halves of two vectors' patterns in some order."""
    order = ", ".join(f"i32 {i}" for i in indices)
    for name in (x, y):
        yield f"  %{to}.{name} = bitcast {_V} %{name} to {_HALVES}"
    yield f"  %{to} = shufflevector {_HALVES} %{to}.{x}, {_HALVES} %{to}.{y}, <{2 * _LANES} x i32> <{order}>"


def _marks(to: str, x: str, y: str) -> Iterator[str]:
    """A word of bits: which numbers of two vectors were left out."""
    order = ", ".join(f"i32 {i}" for i in range(2 * _LANES))
    bits = f"<{_LANES} x i1>"
    yield f"  %{to}.v = shufflevector {bits} %{x}.h, {bits} %{y}.h, <{2 * _LANES} x i32> <{order}>"
    yield f"  %{to} = bitcast <{2 * _LANES} x i1> %{to}.v to i32"


_START: Final = """define void @start(ptr %form) #0 {
  call void @llvm.x86.ldtilecfg(ptr %form)
  ret void
}
define void @stop() #0 {
  call void @llvm.x86.tilerelease()
  ret void
}"""


def _rows(marked: bool) -> Iterator[str]:
    """rows(rows, from, stride, terms, to): up to 16 rows of a, split; whether there are numbers that can't be: then nothing holds.

    To: for each 32 terms three parts of 16 rows. Beyond the terms lie zeros; beyond the rows nothing is written.
    marked_rows(rows, from, stride, terms, to, marks): the same with 0 for such numbers, and a bit for each.
    """
    lanes = [", ".join(f"i32 {i + half}" for i in range(_LANES)) for half in (0, _LANES)]
    carried = [("some", "i32")] if marked else [("large", _V), ("small", _V)]
    begin = {"some": "0", "large": "zeroinitializer", "small": _splat(-1)}
    yield from (
        f"define i64 @{'marked_' * marked}rows(i64 %rows, ptr %x, i64 %xs, i64 %terms, ptr %to{', ptr %marks' * marked}) #0 {{",
        "entry:",
        "  br label %row",
        "row:",
        "  %r = phi i64 [0, %entry], [%r1, %next]",
        "  %px = phi ptr [%x, %entry], [%px1, %next]",
        "  %pt = phi ptr [%to, %entry], [%pt1, %next]",
        *(["  %pm = phi ptr [%marks, %entry], [%pm1, %next]"] * marked),
        *(f"  %{name}.r = phi {kind} [{begin[name]}, %entry], [%{name}2, %next]" for name, kind in carried),
        "  br label %chunk",
        "chunk:",
        "  %left = phi i64 [%terms, %row], [%left1, %chunk]",
        "  %qx = phi ptr [%px, %row], [%qx1, %chunk]",
        "  %qt = phi ptr [%pt, %row], [%qt1, %chunk]",
        *(["  %qm = phi ptr [%pm, %row], [%qm1, %chunk]"] * marked),
        *(f"  %{name} = phi {kind} [%{name}.r, %row], [%{name}2, %chunk]" for name, kind in carried),
        "  %few = trunc i64 %left to i32",
        f"  %one = insertelement {_V} poison, i32 %few, i32 0",
        f"  %all = shufflevector {_V} %one, {_V} poison, {_V} zeroinitializer",
        f"  %hx = getelementptr i8, ptr %qx, i64 {4 * _LANES}",
    )
    for name, place, order in (("u", "%qx", lanes[0]), ("w", "%hx", lanes[1])):
        yield f"  %{name}.in = icmp sgt {_V} %all, <{order}>"
        load = f"@llvm.masked.load.v{_LANES}i32.p0(ptr {place}, i32 4, <{_LANES} x i1> %{name}.in, {_V} zeroinitializer)"
        yield f"  %{name} = call {_V} {load}"
        yield from _split(name, marked)
    for part in (1, 2, 3):
        yield from _joined(f"j{part}", f"u.{part}", f"w.{part}", [2 * i + 1 for i in range(2 * _LANES)])
        yield f"  %s{part} = getelementptr i8, ptr %qt, i64 {(part - 1) * _PART}"
        yield f"  store {_HALVES} %j{part}, ptr %s{part}, align 64"
    if marked:
        yield from _marks("m", "u", "w")
        yield from ("  store i32 %m, ptr %qm, align 4", "  %some2 = or i32 %some, %m", "  %qm1 = getelementptr i8, ptr %qm, i64 4")
    else:
        yield from _extremes("u", "large", "small", ("large1", "small1"))
        yield from _extremes("w", "large1", "small1", ("large2", "small2"))
    yield from (
        f"  %qx1 = getelementptr i8, ptr %qx, i64 {4 * TERMS}",
        f"  %qt1 = getelementptr i8, ptr %qt, i64 {CHUNK}",
        f"  %left1 = sub i64 %left, {TERMS}",
        "  %more = icmp sgt i64 %left1, 0",
        "  br i1 %more, label %chunk, label %next",
        "next:",
        "  %px1 = getelementptr i8, ptr %px, i64 %xs",
        "  %pt1 = getelementptr i8, ptr %pt, i64 64",
        *([f"  %pm1 = getelementptr i8, ptr %pm, i64 {ROW_MARKS}"] * marked),
        "  %r1 = add i64 %r, 1",
        "  %again = icmp slt i64 %r1, %rows",
        "  br i1 %again, label %row, label %done",
        "done:",
    )
    if marked:
        yield "  %wide = zext i32 %some2 to i64"
    else:
        yield from _judged("large2", "small2")
    yield from ("  ret i64 %wide", "}")


def _columns(marked: bool) -> Iterator[str]:
    """columns(pairs, from, and, step, to): pairs of steps of the depth over 16 columns, split; all can be.

    The first of each pair is read at `from`, the second at `and`.
    marked_columns(pairs, from, and, step, to, marks): the same with 0 for numbers that can't be split, a bit for each, and whether there
    are some.
    """
    arguments = f"i64 %pairs, ptr %x, ptr %y, i64 %step, ptr %to{', ptr %marks' * marked}"
    moved = ("x", "y", "to", *(("marks",) * marked))
    yield from (
        f"define i64 @{'marked_' * marked}columns({arguments}) #0 {{",
        "entry:",
        "  br label %pair",
        "pair:",
        "  %k = phi i64 [%pairs, %entry], [%k1, %pair]",
        *(f"  %p{v} = phi ptr [%{v}, %entry], [%p{v}1, %pair]" for v in moved),
        *(["  %some = phi i32 [0, %entry], [%some2, %pair]"] * marked),
        *_pair("px", "py", "pto", marked),
    )
    if marked:
        for v in ("px", "py"):
            yield f"  %n{v} = bitcast <{_LANES} x i1> %{v}.v.h to i{_LANES}"
            yield f"  %m{v} = zext i{_LANES} %n{v} to i32"
        yield from (
            "  store i32 %mpx, ptr %pmarks, align 4",
            "  %hm = getelementptr i8, ptr %pmarks, i64 4",
            "  store i32 %mpy, ptr %hm, align 4",
            "  %some1 = or i32 %some, %mpx",
            "  %some2 = or i32 %some1, %mpy",
            "  %pmarks1 = getelementptr i8, ptr %pmarks, i64 8",
        )
    yield from (
        *(f"  %p{v}1 = getelementptr i8, ptr %p{v}, i64 %step" for v in ("x", "y")),
        "  %pto1 = getelementptr i8, ptr %pto, i64 64",
        "  %k1 = sub i64 %k, 1",
        "  %more = icmp sgt i64 %k1, 0",
        "  br i1 %more, label %pair, label %done",
        "done:",
        f"  %wide = zext i32 {'%some2' if marked else '0'} to i64",
        "  ret i64 %wide",
        "}",
    )


def _pair(x: str, y: str, to: str, marked: bool) -> Iterator[str]:
    """A step of the depth at %x and the next one at %y, 16 columns of each, split: numbers of both side by side in the parts at %to."""
    for v in (x, y):
        yield f"  %{v}.v = load {_V}, ptr %{v}, align 4"
        yield from _split(f"{v}.v", marked)
    order = [i + 2 * _LANES * second for i in range(1, 2 * _LANES, 2) for second in (0, 1)]
    for part in (1, 2, 3):
        yield from _joined(f"{to}.j{part}", f"{x}.v.{part}", f"{y}.v.{part}", order)
        yield f"  %{to}.s{part} = getelementptr i8, ptr %{to}, i64 {(part - 1) * _PART}"
        yield f"  store {_HALVES} %{to}.j{part}, ptr %{to}.s{part}, align 64"


def _tile(name: str, bands: int) -> Iterator[str]:
    """one, two(chunks, a, b, sums, c, stride of c, add, rows, with): c = a b of split numbers, plus other sums if `add`, plus a bias.

    32 terms a chunk. `with`: where those are, and what is split meanwhile, as `amx_code.W_*`. The unit's registers 0 and 1 hold the large
    sums of up to two bands of rows, 2 and 3 the small ones; 4 a part of a, 5 to 7 those of b.
    """
    yield from (
        f"define void @{name}(i64 %chunks, ptr %a, ptr %b, ptr %sums, ptr %c, i64 %cs, i64 %add, i64 %rows, ptr %with) #0 {{",
        "entry:",
        *(f"  call void @llvm.x86.tilezero(i8 {2 * kind + band})" for kind in (0, 1) for band in range(bands)),
        f"  %stride = mul i64 %chunks, {CHUNK}",
    )
    for word, offset in _WITH.items():
        yield f"  %at_{word} = getelementptr i8, ptr %with, i64 {offset}"
        yield f"  %{word} = load {'ptr' if word in _POINTERS else 'i64'}, ptr %at_{word}, align 8"
    yield from (
        "  br label %chunk",
        "chunk:",
        "  %k = phi i64 [%chunks, %entry], [%k1, %split]",
        "  %pa = phi ptr [%a, %entry], [%pa1, %split]",
        "  %pb = phi ptr [%b, %entry], [%pb1, %split]",
        "  %n = phi i64 [%done, %entry], [%n2, %split]",
        "  %l = phi i64 [%left, %entry], [%l2, %split]",
        *_products(bands),
        "  %few = icmp slt i64 %l, %each",
        "  %now = select i1 %few, i64 %l, i64 %each",
        "  %none = icmp eq i64 %now, 0",
        "  br i1 %none, label %split, label %pair",
        "pair:",
        "  %i = phi i64 [%now, %chunk], [%i1, %pair]",
        "  %n0 = phi i64 [%n, %chunk], [%n1, %pair]",
        f"  %fb = shl i64 %n0, {(8 * PANEL).bit_length() - 1}",
        "  %lo = getelementptr i8, ptr %from, i64 %fb",
        f"  %hi = getelementptr i8, ptr %lo, i64 {4 * PANEL}",
        "  %c0 = lshr i64 %n0, 4",
        f"  %c1 = mul i64 %c0, {CHUNK}",
        "  %c2 = and i64 %n0, 15",
        "  %c3 = shl i64 %c2, 6",
        "  %c4 = add i64 %c1, %c3",
        "  %pt = getelementptr i8, ptr %to, i64 %c4",
    )
    for v in ("lo", "hi"):
        yield f"  %{v}.soon = getelementptr i8, ptr %{v}, i64 %far"
        yield f"  call void @llvm.prefetch.p0(ptr %{v}.soon, i32 0, i32 1, i32 1)"
    yield from (
        *_pair("lo", "hi", "pt", False),
        "  %n1 = add i64 %n0, 1",
        "  %i1 = sub i64 %i, 1",
        "  %again = icmp sgt i64 %i1, 0",
        "  br i1 %again, label %pair, label %split",
        "split:",
        "  %n2 = phi i64 [%n, %chunk], [%n1, %pair]",
        "  %l2 = sub i64 %l, %now",
        *(f"  %p{v}1 = getelementptr i8, ptr %p{v}, i64 {CHUNK}" for v in ("a", "b")),
        "  %k1 = sub i64 %k, 1",
        "  %more = icmp sgt i64 %k1, 0",
        "  br i1 %more, label %chunk, label %ends",
        "ends:",
        "  store i64 %n2, ptr %at_done, align 8",
        "  store i64 %l2, ptr %at_left, align 8",
    )
    for kind in (0, 1):
        for band in range(bands):
            yield f"  %s{kind}{band} = getelementptr i8, ptr %sums, i64 {(2 * kind + band) * _PART}"
            yield f"  call void @llvm.x86.tilestored64(i8 {2 * kind + band}, ptr %s{kind}{band}, i64 64)"
    yield from (
        "  %first = icmp eq i64 %add, 0",
        f"  %bv = load {_F}, ptr %bias, align 4",
        "  br label %row",
        "row:",
        "  %r = phi i64 [0, %ends], [%r1, %next]",
        "  %pv = phi ptr [%sums, %ends], [%pv1, %next]",
        "  %pc = phi ptr [%c, %ends], [%pc1, %next]",
        "  %pf = phi ptr [%from_sums, %ends], [%pf1, %next]",
        f"  %pw = getelementptr i8, ptr %pv, i64 {2 * _PART}",
        f"  %v = load {_F}, ptr %pv, align 64",
        f"  %w = load {_F}, ptr %pw, align 64",
        f"  %x = fadd {_F} %v, %w",
        "  br i1 %first, label %next, label %join",
        "join:",
        f"  %o = load {_F}, ptr %pf, align 4",
        f"  %z = fadd {_F} %o, %x",
        "  br label %next",
        "next:",
        f"  %y = phi {_F} [%x, %row], [%z, %join]",
        f"  %yb = fadd {_F} %y, %bv",
        f"  store {_F} %yb, ptr %pc, align 4",
        "  %pv1 = getelementptr i8, ptr %pv, i64 64",
        "  %pc1 = getelementptr i8, ptr %pc, i64 %cs",
        "  %pf1 = getelementptr i8, ptr %pf, i64 %sums_row",
        "  %r1 = add i64 %r, 1",
        "  %down = icmp slt i64 %r1, %rows",
        "  br i1 %down, label %row, label %end",
        "end:",
        "  ret void",
        "}",
    )


def _products(bands: int) -> Iterator[str]:
    """Add the products of one chunk."""
    for part in range(3):
        yield f"  %b{part} = getelementptr i8, ptr %pb, i64 {part * _PART}"
    for band in range(bands):
        yield f"  %pa.{band} = getelementptr i8, ptr %pa, i64 {'%stride' if band else 0}"
        for part in range(3):
            yield f"  %a{band}.{part} = getelementptr i8, ptr %pa.{band}, i64 {part * _PART}"
            yield f"  call void @llvm.x86.tileloadd64(i8 4, ptr %a{band}.{part}, i64 64)"
            for other in range(3 - part):
                if band == part == 0:
                    yield f"  call void @llvm.x86.tileloadd64(i8 {5 + other}, ptr %b{other}, i64 64)"
                sums = band if part == other == 0 else 2 + band
                yield f"  call void @llvm.x86.tdpbf16ps(i8 {sums}, i8 4, i8 {5 + other})"


def _outside() -> Iterator[str]:
    """outside(count, x): whether some of these numbers are not split. A multiple of 16 of them."""
    yield from (
        "define i64 @outside(i64 %count, ptr %x) #0 {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %k = phi i64 [%count, %entry], [%k1, %loop]",
        "  %p = phi ptr [%x, %entry], [%p1, %loop]",
        f"  %large = phi {_V} [zeroinitializer, %entry], [%large1, %loop]",
        f"  %small = phi {_V} [{_splat(-1)}, %entry], [%small1, %loop]",
        f"  %v = load {_V}, ptr %p, align 4",
        *_extremes("v", "large", "small", ("large1", "small1")),
        f"  %p1 = getelementptr i8, ptr %p, i64 {4 * _LANES}",
        f"  %k1 = sub i64 %k, {_LANES}",
        "  %more = icmp sgt i64 %k1, 0",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *_judged("large1", "small1"),
        "  ret i64 %wide",
        "}",
    )
