"""LLVM IR that splits float32 numbers into the three parts that the matrix unit multiplies; `amx.py` says which and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .amx_memory_code import CHUNK, TERMS
from .amx_mend import ROW_MARKS
from .amx_mend import F as _F
from .amx_mend import V as _V

PART: Final = 1024  # bytes of a register of the unit
_LANES: Final = 16
_HALVES: Final = f"<{2 * _LANES} x i16>"
_LOW: Final = (127 - 51) << 24  # the least number that is split, shifted over its sign,
_SPAN: Final = 101 << 24  # and how far up they go


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


def rows(marked: bool) -> Iterator[str]:
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
        yield f"  %s{part} = getelementptr i8, ptr %qt, i64 {(part - 1) * PART}"
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


def columns(marked: bool) -> Iterator[str]:
    """columns(pairs, from, and, step, to): pairs of steps of the depth over 16 columns, split; all can be.

    The first of each pair is read at `from`, the second at `and`. The result is 0; a further argument does no harm.
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
        *pair("px", "py", "pto", marked),
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


def pair(x: str, y: str, to: str, marked: bool) -> Iterator[str]:
    """A step of the depth at %x and the next one at %y, 16 columns of each, split: numbers of both side by side in the parts at %to."""
    for v in (x, y):
        yield f"  %{v}.v = load {_V}, ptr %{v}, align 4"
        yield from _split(f"{v}.v", marked)
    order = [i + 2 * _LANES * second for i in range(1, 2 * _LANES, 2) for second in (0, 1)]
    for part in (1, 2, 3):
        yield from _joined(f"{to}.j{part}", f"{x}.v.{part}", f"{y}.v.{part}", order)
        yield f"  %{to}.s{part} = getelementptr i8, ptr %{to}, i64 {(part - 1) * PART}"
        yield f"  store {_HALVES} %{to}.j{part}, ptr %{to}.s{part}, align 64"


def outside() -> Iterator[str]:
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
