"""Canonical algorithms as LLVM IR: a builder that writes text, and the loop around it.

The text is written directly: importing LLVM's bindings costs more than compiling a kernel, and
a kernel that is in the store needs neither. No fast-math flag is set anywhere and LLVM fuses
nothing unasked, so each line has the one result that IEEE 754 gives it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..ops.algorithm_parts import F32, F64
from ..ops.algorithms import ALGORITHMS, ORDINARY
from ..ops.algorithms_f32 import SINGLE
from ..ops.evaluate import FLAG_BITS, LARGE_BIT

ELEMENT: Final = {"float32": "float", "float64": "double"}
_SIZE: Final = {"float32": 4, "float64": 8}
_M64: Final = (1 << 64) - 1


_SUFFIX: Final = {"float": "f32", "double": "f64"}
_MAGIC32: Final = 12582912.0  # 1.5 * 2^23
_ONE32: Final = 127 << 23

Range = tuple[float, float] | None


class LlvmBuilder:
    """Emits straight-line code on vectors of `lanes` numbers.

    Where the range of a value is known, comparisons that it decides cost nothing: a body for
    ordinary arguments comes out without the limiting and the special cases.
    """

    def __init__(self, lanes: int, prefix: str, single: bool = False) -> None:
        """`single`: compute in float32 with patterns of 32 bits, instead of in doubles."""
        self.lanes = lanes
        self.floating, self.integer = ("float", "i32") if single else ("double", "i64")
        self.lines: list[str] = []
        self._prefix = prefix
        self._seen: dict[str, Value] = {}

    def emit(self, kind: str, text: str, known: Range = None) -> Value:
        """The value of one instruction; the same instruction twice is one value. `known`: its range."""
        found = self._seen.get(text)
        if found is None:
            name = f"%{self._prefix}{len(self._seen)}"
            self.lines.append(f"  {name} = {text}")
            found = self._seen[text] = Value(self, name, kind, known)
        return found

    def type_of(self, kind: str) -> str:
        """The LLVM vector type of a value kind ("double", "i64", "i1", "float")."""
        return f"<{self.lanes} x {kind}>"

    def splat(self, constant: float, kind: str) -> str:
        """A vector constant with the same number in every lane."""
        if kind in ("double", "float"):
            if kind == "float":
                constant = struct.unpack("<f", struct.pack("<f", constant))[0]
            item = f"{kind} 0x{struct.unpack('<Q', struct.pack('<d', constant))[0]:016X}"
        else:
            item = f"{kind} {_signed(int(constant))}"
        return "<" + ", ".join([item] * self.lanes) + ">"

    def operand(self, value: Any, kind: str) -> str:
        """The text of an operand, a Value or a Python number."""
        return value.name if isinstance(value, Value) else self.splat(value, kind)

    def value(self, value: Any) -> Value:
        """A number as a Value, constants too."""
        return value if isinstance(value, Value) else Value(self, self.splat(value, self.floating), self.floating, (value, value))

    def binary(self, operation: str, a: Any, b: Any, kind: str, result: str | None = None, known: Range = None) -> Value:
        """One instruction of two operands of the same kind."""
        return self.emit(result or kind, f"{operation} {self.type_of(kind)} {self.operand(a, kind)}, {self.operand(b, kind)}", known)

    # the methods of `ops.algorithm_parts.Builder`

    def select(self, mask: Value | Known, yes: Any, no: Any) -> Value:
        if isinstance(mask, Known):
            return self.value(yes if mask.truth else no)
        yes, no = self.value(yes), self.value(no)
        t = self.type_of(self.floating)
        union = None if yes.range is None or no.range is None else (min(yes.range[0], no.range[0]), max(yes.range[1], no.range[1]))
        return self.emit(self.floating, f"select {self.type_of('i1')} {mask.name}, {t} {yes.name}, {t} {no.name}", union)

    def bits(self, x: Value) -> Value:
        return self.emit(self.integer, f"bitcast {self.type_of(self.floating)} {x.name} to {self.type_of(self.integer)}")

    def from_bits(self, i: Value) -> Value:
        return self.emit(self.floating, f"bitcast {self.type_of(self.integer)} {i.name} to {self.type_of(self.floating)}")

    def absolute(self, x: Value) -> Value:
        t = self.type_of(self.floating)
        known = None if x.range is None else (0.0, max(abs(x.range[0]), abs(x.range[1])))
        return self.emit(self.floating, f"call {t} @llvm.fabs.v{self.lanes}{_SUFFIX[self.floating]}({t} {x.name})", known)

    def is_normal_power(self, n: Any) -> bool:
        known = self.value(n).range
        return known is not None and known[0] >= -1022 and known[1] <= 1023

    # the further ones of `ops.algorithms_f32.SingleBuilder`

    def fma(self, a: Any, c: Any, d: Any) -> Value:
        t = self.type_of("float")
        values = ", ".join(f"{t} {self.value(v).name}" for v in (a, c, d))
        return self.emit("float", f"call {t} @llvm.fma.v{self.lanes}f32({values})")

    def scale(self, y: Any, n: Any) -> Value:
        """Two steps: 2^n itself may not exist though the product does, and the first step is exact for the y that are used."""
        y = self.value(y)
        n = self.value(n)
        half = n * 0.5 + _MAGIC32
        rest = (n - (half - _MAGIC32)) + _MAGIC32
        first, second = (self.from_bits((self.bits(v) << 23) + _ONE32) for v in (half, rest))
        scaled: Value = y * first * second
        return scaled

    def at_most(self, x: Value, bound: float) -> Value:
        return self.select(x > bound, bound, x)

    def at_least(self, x: Value, bound: float) -> Value:
        return self.select(x < bound, bound, x)


def _signed(value: int) -> int:
    value &= _M64
    return value - (1 << 64) if value >> 63 else value


class Known:
    """A mask that is the same in every lane for all arguments."""

    __slots__ = ("truth",)

    def __init__(self, truth: bool) -> None:
        self.truth = truth

    def __and__(self, other: Any) -> Any:
        return other if self.truth else self

    def __or__(self, other: Any) -> Any:
        return self if self.truth else other

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Known:
        return Known(not self.truth)


_DECIDE: Final[dict[str, Callable[[float, float, float], bool | None]]] = {
    # predicate of a value in [lo, hi] against a number c: always, never, or it depends
    "olt": lambda lo, hi, c: True if hi < c else False if lo >= c else None,
    "ole": lambda lo, hi, c: True if hi <= c else False if lo > c else None,
    "ogt": lambda lo, hi, c: True if lo > c else False if hi <= c else None,
    "oge": lambda lo, hi, c: True if lo >= c else False if hi < c else None,
    "oeq": lambda lo, hi, c: False if c < lo or c > hi else None,
    "une": lambda lo, hi, c: True if c < lo or c > hi else None,
}
_SLACK: Final = 1.0  # ranges are kept one wider than arithmetic without rounding says


class Value:
    """A vector of numbers, bit patterns or masks; operators emit instructions."""

    __slots__ = ("b", "name", "kind", "range")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, b: LlvmBuilder, name: str, kind: str, known: Range = None) -> None:
        self.b, self.name, self.kind, self.range = b, name, kind, known

    def _arithmetic(self, floating: str, integer: str, a: Any, c: Any, known: Range = None) -> Value:
        return self.b.binary(floating if self.kind == self.b.floating else integer, a, c, self.kind, known=known)

    def _shifted(self, other: Any, sign: int) -> Range:
        if self.range is None or not isinstance(other, float):
            return None
        return self.range[0] + sign * other - _SLACK, self.range[1] + sign * other + _SLACK

    def __add__(self, other: Any) -> Value:
        return self._arithmetic("fadd", "add", self, other, self._shifted(other, 1))

    def __radd__(self, other: Any) -> Value:
        return self._arithmetic("fadd", "add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self._arithmetic("fsub", "sub", self, other, self._shifted(other, -1))

    def __rsub__(self, other: Any) -> Value:
        return self._arithmetic("fsub", "sub", other, self)

    def _scaled(self, other: Any) -> Range:
        if self.range is None or not isinstance(other, float):
            return None
        ends = (self.range[0] * other, self.range[1] * other)
        return min(ends) - _SLACK, max(ends) + _SLACK

    def __mul__(self, other: Any) -> Value:
        return self.b.binary("fmul", self, other, self.b.floating, known=self._scaled(other))

    def __rmul__(self, other: Any) -> Value:
        return self.b.binary("fmul", other, self, self.b.floating, known=self._scaled(other))

    def __truediv__(self, other: Any) -> Value:
        return self.b.binary("fdiv", self, other, self.b.floating)

    def __rtruediv__(self, other: Any) -> Value:
        return self.b.binary("fdiv", other, self, self.b.floating)

    def __neg__(self) -> Value:
        known = None if self.range is None else (-self.range[1], -self.range[0])
        return self.b.emit(self.b.floating, f"fneg {self.b.type_of(self.b.floating)} {self.name}", known)

    def __and__(self, other: Any) -> Any:
        return other & self if isinstance(other, Known) else self.b.binary("and", self, other, self.kind)

    def __or__(self, other: Any) -> Any:
        return other | self if isinstance(other, Known) else self.b.binary("or", self, other, self.kind)

    def __xor__(self, other: Any) -> Value:
        return self.b.binary("xor", self, other, self.kind)

    def __invert__(self) -> Value:
        return self.b.binary("xor", self, -1 if self.kind == self.b.integer else 1, self.kind)

    def __lshift__(self, count: int) -> Value:
        return self.b.binary("shl", self, count, self.b.integer)

    def __rshift__(self, count: int) -> Value:
        return self.b.binary("lshr", self, count, self.b.integer)

    def _compare(self, predicate: str, other: Any) -> Value | Known:
        if self.range is not None:
            if other is self:  # x != x asks for NaN, and a value with a range is none
                return Known(predicate in ("ole", "oge", "oeq"))
            if isinstance(other, float):
                truth = _DECIDE[predicate](*self.range, other)
                if truth is not None:
                    return Known(truth)
        return self.b.binary(f"fcmp {predicate}", self, other, self.b.floating, "i1")

    def __lt__(self, other: Any) -> Value | Known:
        return self._compare("olt", other)

    def __le__(self, other: Any) -> Value | Known:
        return self._compare("ole", other)

    def __gt__(self, other: Any) -> Value | Known:
        return self._compare("ogt", other)

    def __ge__(self, other: Any) -> Value | Known:
        return self._compare("oge", other)

    def __eq__(self, other: Any) -> Value | Known:  # type: ignore[override]
        return self._compare("oeq", other)

    def __ne__(self, other: Any) -> Value | Known:  # type: ignore[override]
        if self.kind == self.b.integer:
            return self.b.binary("icmp ne", self, other, self.b.integer, "i1")
        return self._compare("une", other)


_LOOP: Final = """
define i32 @{name}(i64 %n, ptr %in, i64 %is, ptr %out, i64 %os) nounwind {{
entry:
  %buffer = alloca {vector}, align 64
  %in_dense = icmp eq i64 %is, {size}
  %out_dense = icmp eq i64 %os, {size}
  %dense = and i1 %in_dense, %out_dense
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %chunk, label %done
chunk:
  %i = phi i64 [ 0, %entry ], [ %next, %chunk_end ]
  %word = phi {ints} [ zeroinitializer, %entry ], [ %word_out, %chunk_end ]
  %left = sub i64 %n, %i
  %full = icmp sge i64 %left, {lanes}
  %direct = and i1 %dense, %full
  br i1 %direct, label %load, label %gather
load:
  %offset = mul i64 %i, {size}
  %from = getelementptr i8, ptr %in, i64 %offset
  %loaded = load {vector}, ptr %from, align 1
  br label %body
gather:
  %j = phi i64 [ 0, %chunk ], [ %j_next, %gather ]
  %inside = icmp slt i64 %j, %left
  %j_used = select i1 %inside, i64 %j, i64 0
  %index = add i64 %i, %j_used
  %g_offset = mul i64 %index, %is
  %g_from = getelementptr i8, ptr %in, i64 %g_offset
  %item = load {element}, ptr %g_from, align 1
  %g_to = getelementptr {element}, ptr %buffer, i64 %j
  store {element} %item, ptr %g_to, align {size}
  %j_next = add i64 %j, 1
  %g_more = icmp slt i64 %j_next, {lanes}
  br i1 %g_more, label %gather, label %gathered
gathered:
  %staged = load {vector}, ptr %buffer, align 64
  br label %body
body:
  %x = phi {vector} [ %loaded, %load ], [ %staged, %gathered ]
  %above = fcmp oge {vector} %x, {low}
  %below = fcmp ole {vector} %x, {high}
  %between = and <{lanes} x i1> %above, %below
  %pattern = bitcast <{lanes} x i1> %between to i{lanes}
  %ordinary = icmp eq i{lanes} %pattern, -1
  br i1 %ordinary, label %hot, label %cold
hot:
{hot}
  br label %computed
cold:
{cold}
  br label %computed
computed:
  %y = phi {vector} [ {hot_result}, %hot ], [ {cold_result}, %cold ]
  %word_out = phi {ints} [ %word, %hot ], [ {cold_word}, %cold ]
  br i1 %direct, label %store, label %stage
store:
  %s_offset = mul i64 %i, {size}
  %to = getelementptr i8, ptr %out, i64 %s_offset
  store {vector} %y, ptr %to, align 1
  br label %chunk_end
stage:
  store {vector} %y, ptr %buffer, align 64
  br label %scatter
scatter:
  %k = phi i64 [ 0, %stage ], [ %k_next, %scatter ]
  %k_index = add i64 %i, %k
  %k_offset = mul i64 %k_index, %os
  %k_to = getelementptr i8, ptr %out, i64 %k_offset
  %k_from = getelementptr {element}, ptr %buffer, i64 %k
  %k_item = load {element}, ptr %k_from, align {size}
  store {element} %k_item, ptr %k_to, align 1
  %k_next = add i64 %k, 1
  %k_lane = icmp slt i64 %k_next, {lanes}
  %k_inside = icmp slt i64 %k_next, %left
  %k_more = and i1 %k_lane, %k_inside
  br i1 %k_more, label %scatter, label %chunk_end
chunk_end:
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %chunk, label %finish
finish:
  %all = call i64 @llvm.vector.reduce.or.v{lanes}i64({ints} %word_out)
  %short = trunc i64 %all to i32
  br label %done
done:
  %flags = phi i32 [ 0, %entry ], [ %short, %finish ]
  ret i32 %flags
}}
"""


def _body(op: str, dtype: str, lanes: int, prefix: str, known: Range) -> tuple[LlvmBuilder, Value, dict[str, Any]]:
    """The algorithm on %x: its code, its value in the element type, its masks."""
    single = SINGLE.get(op) if dtype == "float32" else None
    if single is not None:
        b = LlvmBuilder(lanes, prefix, single=True)
        value, flags = single(b, Value(b, "%x", "float", known))
        return b, b.value(value), flags
    b = LlvmBuilder(lanes, prefix)
    doubles, p = b.type_of("double"), F32 if dtype == "float32" else F64
    if p == F64:
        value, flags = ALGORITHMS[op](b, Value(b, "%x", "double", known), p)
        return b, b.value(value), flags
    x = b.emit("double", f"fpext {b.type_of('float')} %x to {doubles}", known)
    value, flags = ALGORITHMS[op](b, x, p)
    return b, b.emit("float", f"fptrunc {doubles} {b.value(value).name} to {b.type_of('float')}"), flags


def loop(op: str, dtype: str, lanes: int) -> str:
    """The definition of `<op>_<dtype>(n, in, in_stride, out, out_stride) -> flag word`, strides in bytes.

    One loop serves dense data, strided data and the last few elements: the latter two pass
    through a buffer of one vector, filled up with a copy of an element that is there anyway.
    Vectors of ordinary arguments take a shorter way to the same bits.
    """
    known = ORDINARY[op][F32 if dtype == "float32" else F64]
    hot, hot_value, _ = _body(op, dtype, lanes, "h", known)
    cold, cold_value, flags = _body(op, dtype, lanes, "c", None)
    element = ELEMENT[dtype]
    ints, word = f"<{lanes} x i64>", "%word"
    for kind, mask in flags.items():
        bit = cold.splat(FLAG_BITS.get(kind, LARGE_BIT), "i64")
        raised = cold.emit("i64", f"select {cold.type_of('i1')} {mask.name}, {ints} {bit}, {ints} zeroinitializer")
        word = cold.emit("i64", f"or {ints} {word}, {raised.name}").name
    return _LOOP.format(
        name=f"{op}_{dtype}",
        vector=cold.type_of(element),
        element=element,
        size=_SIZE[dtype],
        lanes=lanes,
        ints=ints,
        low=_ends(cold, known[0], element, 1),
        high=_ends(cold, known[1], element, -1),
        hot="\n".join(hot.lines),
        cold="\n".join(cold.lines),
        hot_result=hot_value.name,
        cold_result=cold_value.name,
        cold_word=word,
    )


def _ends(b: LlvmBuilder, end: float, element: str, inwards: int) -> str:
    """An end of the ordinary arguments as a vector constant of the element type, rounded inwards."""
    if element == "float":
        rounded = np.float32(end)
        if inwards * (float(rounded) - end) < 0:
            rounded = np.nextafter(rounded, np.float32(inwards * np.inf))
        end = float(rounded)
    return b.splat(end, "double").replace("double", element)


_OBJECTS: Final = """
define i32 @{name}_objects(i64 %n, ptr %in, ptr %out) nounwind {{
  %in_data = getelementptr i8, ptr %in, i64 {data}
  %out_data = getelementptr i8, ptr %out, i64 {data}
  %from = load ptr, ptr %in_data
  %to = load ptr, ptr %out_data
  %flags = call i32 @{name}(i64 %n, ptr %from, i64 {size}, ptr %to, i64 {size})
  ret i32 %flags
}}
"""
ARRAY_DATA: Final = 16  # where an array object keeps the pointer to its data; checked before use


def entry(op: str, dtype: str) -> str:
    """A second door to a loop: (n, array object, array object), both dense, of the same layout."""
    return _OBJECTS.format(name=f"{op}_{dtype}", size=_SIZE[dtype], data=ARRAY_DATA)


def module(loops: list[tuple[str, str]], lanes: int) -> str:
    """LLVM IR of several (op, element type) loops."""
    head = (
        f"declare <{lanes} x double> @llvm.fabs.v{lanes}f64(<{lanes} x double>)\n"
        f"declare <{lanes} x float> @llvm.fabs.v{lanes}f32(<{lanes} x float>)\n"
        f"declare <{lanes} x float> @llvm.fma.v{lanes}f32(<{lanes} x float>, <{lanes} x float>, <{lanes} x float>)\n"
        f"declare i64 @llvm.vector.reduce.or.v{lanes}i64(<{lanes} x i64>)\n"
    )
    return head + "".join(loop(op, dtype, lanes) + entry(op, dtype) for op, dtype in loops)
