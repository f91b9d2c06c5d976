"""What a step of fused code can be: typed primitives and how each is written as LLVM IR.

A primitive is exactly one operation of NumPy's loops (or one canonical algorithm) on operands of
given types, so that op-by-op evaluation and fused code have the same bits. Which of them an op
needs is found by running the op's definition (`trace.py`); nothing here knows about ops.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from ...ops.algorithm_parts import F32, F64
from ...ops.algorithms import ALGORITHMS
from ...ops.algorithms_f32 import SINGLE
from ..llvm import Value
from .ir import ELEMENT, SIZE, Emitter

FLOATS: Final = ("f32", "f64")
SIGNED: Final = ("i8", "i16", "i32", "i64")
UNSIGNED: Final = ("u8", "u16", "u32", "u64")
INTEGERS: Final = SIGNED + UNSIGNED
NUMBERS: Final = FLOATS + INTEGERS

Emit = Callable[..., str]  # (emitter, operands...) -> value


@dataclass(frozen=True, slots=True)
class Primitive:
    """`name`: "add.f32". `const`: operand that can come from the constants (-1: none).

    `hot` primitives exist for every choice of registers, the others for the first slots only.
    `quiet` ones raise no floating-point event whatever the operands are.
    """

    name: str
    operands: tuple[str, ...]
    result: str
    emit: Emit
    const: int = -1
    hot: bool = False
    quiet: bool = False


def _float(t: str, value: float) -> str:
    """A floating-point constant in LLVM's notation."""
    if t == "f32":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _intrinsic(name: str, t: str) -> Emit:
    def emit(e: Emitter, *values: str) -> str:
        v = e.vector(ELEMENT[t])
        suffix = ("f" if t in FLOATS else "i") + str(8 * SIZE[t])
        return e.call(v, f"llvm.{name}.v{e.lanes}{suffix}", *((v, x) for x in values))

    return emit


def _instruction(name: str, t: str) -> Emit:
    def emit(e: Emitter, a: str, b: str) -> str:
        return e.new(f"{name} {e.vector(ELEMENT[t])} {a}, {b}")

    return emit


# -- floats --------------------------------------------------------------------------------------


def _extreme(t: str, predicate: str) -> Emit:
    """NumPy's: the first operand where it is NaN or beyond the second, else the second (which a NaN is, and an equal zero)."""

    def emit(e: Emitter, a: str, b: str) -> str:
        element = ELEMENT[t]
        mask = e.new(f"or {e.vector('i1')} {e.compare(predicate, element, a, b)}, {e.compare('uno', element, a, a)}")
        return e.choose(element, mask, a, b)

    return emit


def _extreme_number(t: str, predicate: str) -> Emit:
    """The same where the second operand is known not to be NaN."""

    def emit(e: Emitter, a: str, b: str) -> str:
        return e.choose(ELEMENT[t], e.compare(predicate, ELEMENT[t], a, b), a, b)

    return emit


def _numeric_extreme(t: str, predicate: str) -> Emit:
    """fmax, fmin: the second operand where the first is NaN; otherwise the first where it is beyond the second or that is NaN."""

    def emit(e: Emitter, a: str, b: str) -> str:
        element = ELEMENT[t]
        beyond = e.compare(predicate, element, a, b)
        mask = e.new(f"or {e.vector('i1')} {beyond}, {e.compare('uno', element, b, b)}")
        return e.choose(element, mask, a, b)

    return emit


def _noting(plain: Emit, first: bool) -> Emit:
    """An extreme of bfloat16: comparing a number with a NaN is an event there; `first`: which operand is looked at first."""

    def emit(e: Emitter, a: str, b: str) -> str:
        number, other = (b, a) if first else (a, b)
        mask = f"{e.compare('uno', 'float', other, other)}, {e.compare('ord', 'float', number, number)}"
        e.note([e.new(f"and {e.vector('i1')} {mask}")])
        return plain(e, a, b)

    return emit


def _narrow_primitives() -> Iterator[Primitive]:
    pair = ("f32", "f32")
    for name, predicate in (("max", "oge"), ("min", "ole")):  # NumPy's loops for float16 prefer the first of two equals
        yield Primitive(f"{name}.f16", pair, "f32", _extreme("f32", predicate), quiet=True)
        yield Primitive(f"f{name}.f16", pair, "f32", _numeric_extreme("f32", predicate), quiet=True)
    for name, predicate in (("max", "ogt"), ("min", "olt")):
        yield Primitive(f"{name}.bf16", pair, "f32", _noting(_extreme("f32", predicate), False))
        yield Primitive(f"f{name}.bf16", pair, "f32", _noting(_numeric_extreme("f32", predicate), True))
    for name in ("lt", "le", "gt", "ge"):
        yield Primitive(f"{name}.bf16", pair, "b", _noting_compare(name))
    yield Primitive("sign.bf16", ("f32",), "f32", _bfloat_sign)


def _noting_compare(name: str) -> Emit:
    """A comparison of bfloat16, where a NaN is an event."""

    def emit(e: Emitter, a: str, b: str) -> str:
        e.note([e.compare("uno", "float", a, b)])
        return _as_bool(e, e.compare(f"o{name}", "float", a, b))

    return emit


def _bfloat_sign(e: Emitter, a: str) -> str:
    """-1 or 1; zeros and NaN as they are."""
    one, minus, zero = (e.same("float", _float("f32", v)) for v in (1.0, -1.0, 0.0))
    y = e.choose("float", e.compare("ogt", "float", a, zero), one, a)
    return e.choose("float", e.compare("olt", "float", a, zero), minus, y)


def _negate(t: str) -> Emit:
    return lambda e, a: e.new(f"fneg {e.vector(ELEMENT[t])} {a}")


def _square(t: str) -> Emit:
    multiply = _instruction("fmul" if t in FLOATS else "mul", t)
    return lambda e, a: multiply(e, a, a)


def _reciprocal(t: str) -> Emit:
    return lambda e, a: e.new(f"fdiv {e.vector(ELEMENT[t])} {e.same(ELEMENT[t], _float(t, 1.0))}, {a}")


def _float_sign(t: str) -> Emit:
    """-1, 0 or 1; NaN stays, and so does the sign of nothing: zeros give +0."""

    def emit(e: Emitter, a: str) -> str:
        element = ELEMENT[t]
        one, minus, zero = (e.same(element, _float(t, v)) for v in (1.0, -1.0, 0.0))
        y = e.choose(element, e.compare("ogt", element, a, zero), one, a)
        y = e.choose(element, e.compare("olt", element, a, zero), minus, y)
        return e.choose(element, e.compare("oeq", element, a, zero), zero, y)

    return emit


def _as_bool(e: Emitter, mask: str) -> str:
    return e.convert("zext", "i1", mask, "i8")


def _compare(t: str, predicate: str) -> Emit:
    def emit(e: Emitter, a: str, b: str) -> str:
        return _as_bool(e, e.compare(predicate, ELEMENT[t], a, b))

    return emit


def _pattern_test(t: str, kind: str) -> Emit:
    """isnan, isinf, isfinite, signbit, from the bits: no event whatever the value is."""
    width = 8 * SIZE[t]
    i = f"i{width}"
    infinity = 0x7F800000 if t == "f32" else 0x7FF0000000000000
    predicate = {"isnan": "ugt", "isinf": "eq", "isfinite": "ult"}

    def emit(e: Emitter, a: str) -> str:
        bits = e.convert("bitcast", ELEMENT[t], a, i)
        if kind == "signbit":
            return _as_bool(e, e.compare("slt", i, bits, e.same(i, "0")))
        magnitude = e.new(f"and {e.vector(i)} {bits}, {e.same(i, str((1 << (width - 1)) - 1))}")
        return _as_bool(e, e.compare(predicate[kind], i, magnitude, e.same(i, str(infinity))))

    return emit


def _float_primitives(t: str) -> Iterator[Primitive]:
    pair = (t, t)
    for name, instruction in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("div", "fdiv")):
        yield Primitive(f"{name}.{t}", pair, t, _instruction(instruction, t), hot=True)
        yield Primitive(f"{name}k.{t}", pair, t, _instruction(instruction, t), const=1, hot=True)
    for name, instruction in (("ksub", "fsub"), ("kdiv", "fdiv")):
        yield Primitive(f"{name}.{t}", pair, t, _instruction(instruction, t), const=0, hot=True)
    for name, ordered, or_nan in (("max", "ogt", "ugt"), ("min", "olt", "ult")):
        yield Primitive(f"{name}.{t}", pair, t, _extreme(t, ordered), hot=True, quiet=True)
        yield Primitive(f"{name}k.{t}", pair, t, _extreme_number(t, or_nan), const=1, hot=True, quiet=True)
        yield Primitive(f"k{name}.{t}", pair, t, _extreme_number(t, ordered), const=0, hot=True, quiet=True)
        yield Primitive(f"f{name}.{t}", pair, t, _numeric_extreme(t, ordered), quiet=True)
    yield Primitive(f"copysign.{t}", pair, t, _intrinsic("copysign", t), quiet=True)
    yield Primitive(f"neg.{t}", (t,), t, _negate(t), hot=True, quiet=True)
    yield Primitive(f"abs.{t}", (t,), t, _intrinsic("fabs", t), hot=True, quiet=True)
    yield Primitive(f"square.{t}", (t,), t, _square(t), hot=True)
    yield Primitive(f"sqrt.{t}", (t,), t, _intrinsic("sqrt", t), hot=True)
    yield Primitive(f"reciprocal.{t}", (t,), t, _reciprocal(t))
    yield Primitive(f"sign.{t}", (t,), t, _float_sign(t), quiet=True)
    for name, intrinsic in (("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("rint", "roundeven")):
        yield Primitive(f"{name}.{t}", (t,), t, _intrinsic(intrinsic, t))
    for name in ("isnan", "isinf", "isfinite", "signbit"):
        yield Primitive(f"{name}.{t}", (t,), "b", _pattern_test(t, name), quiet=True)
    for name, predicate in (("eq", "oeq"), ("ne", "une"), ("lt", "olt"), ("le", "ole"), ("gt", "ogt"), ("ge", "oge")):
        yield Primitive(f"{name}.{t}", pair, "b", _compare(t, predicate), quiet=True)


# -- integers ------------------------------------------------------------------------------------


def _integer_absolute(t: str) -> Emit:
    def emit(e: Emitter, a: str) -> str:
        v = e.vector(ELEMENT[t])
        e.declared.add(f"declare {v} @llvm.abs.v{e.lanes}i{8 * SIZE[t]}({v}, i1)")
        return e.new(f"call {v} @llvm.abs.v{e.lanes}i{8 * SIZE[t]}({v} {a}, i1 false)")

    return emit


def _integer_sign(t: str) -> Emit:
    def emit(e: Emitter, a: str) -> str:
        element = ELEMENT[t]
        zero, one, minus = (e.same(element, v) for v in ("0", "1", "-1"))
        positive = e.compare("ne" if t in UNSIGNED else "sgt", element, a, zero)
        rest = zero if t in UNSIGNED else e.choose(element, e.compare("slt", element, a, zero), minus, zero)
        return e.choose(element, positive, one, rest)

    return emit


def _shift(t: str, left: bool) -> Emit:
    """Counts from the width on shift everything out (signed numbers to the right: to the sign), as NumPy has it."""
    width, signed = 8 * SIZE[t], t in SIGNED

    def emit(e: Emitter, a: str, count: str) -> str:
        element = ELEMENT[t]
        inside = e.compare("ult", element, count, e.same(element, str(width)))
        limit = str(width - 1)
        used = e.choose(element, inside, count, e.same(element, limit))
        shifted = e.new(f"{'shl' if left else 'ashr' if signed else 'lshr'} {e.vector(element)} {a}, {used}")
        if signed and not left:
            return shifted
        return e.choose(element, inside, shifted, e.same(element, "0"))

    return emit


def _quotient(t: str, remainder: bool) -> Emit:
    """Floor division and remainder of integers of at most 32 bits through doubles, where the quotient is exact.

    A zero divisor gives 0, the smallest number by -1 itself; the division raises an event for the one, a test notes the other.
    """
    signed = t in SIGNED

    def emit(e: Emitter, a: str, b: str) -> str:
        element, double = ELEMENT[t], e.vector("double")
        zero = e.same(element, "0")
        wide = [e.convert("sitofp" if signed else "uitofp", element, x, "double") for x in (a, b)]
        ratio = e.new(f"fdiv {double} {wide[0]}, {wide[1]}")
        whole = e.call(double, f"llvm.floor.v{e.lanes}f64", (double, ratio))
        is_zero = e.compare("eq", element, b, zero)
        if signed:
            smallest = e.compare("eq", element, a, e.same(element, str(-(1 << (8 * SIZE[t] - 1)))))
            e.note([e.new(f"and {e.vector('i1')} {smallest}, {e.compare('eq', element, b, e.same(element, '-1'))}")])
        safe = e.choose("double", is_zero, e.same("double", "0.0"), whole)
        quotient = e.convert("trunc", "i64", e.convert("fptosi", "double", safe, "i64"), element)
        if not remainder:
            return quotient
        product = e.new(f"mul {e.vector(element)} {quotient}, {b}")
        rest = e.new(f"sub {e.vector(element)} {a}, {product}")
        return e.choose(element, is_zero, zero, rest)

    return emit


def _long_quotient(t: str, remainder: bool) -> Emit:
    """The same for 64 bits, by the processor's division, element by element."""
    signed, element = t in SIGNED, ELEMENT[t]

    def emit(e: Emitter, a: str, b: str) -> str:
        v = e.vector(element)
        zero, one = e.same(element, "0"), e.same(element, "1")
        bad = is_zero = e.compare("eq", element, b, zero)
        if signed:
            smallest = e.compare("eq", element, a, e.same(element, str(-(1 << 63))))
            over = e.new(f"and {e.vector('i1')} {smallest}, {e.compare('eq', element, b, e.same(element, '-1'))}")
            bad = e.new(f"or {e.vector('i1')} {is_zero}, {over}")
        e.note([bad])
        divisor = e.choose(element, bad, one, b)
        towards_zero = e.new(f"{'sdiv' if signed else 'udiv'} {v} {a}, {divisor}")
        rest = e.new(f"sub {v} {a}, {e.new(f'mul {v} {towards_zero}, {divisor}')}")
        quotient = towards_zero
        if signed:  # round down, and let the remainder have the divisor's sign
            signs = e.compare("slt", element, e.new(f"xor {v} {rest}, {divisor}"), zero)
            down = e.new(f"and {e.vector('i1')} {signs}, {e.compare('ne', element, rest, zero)}")
            quotient = e.choose(element, down, e.new(f"sub {v} {towards_zero}, {one}"), towards_zero)
            rest = e.choose(element, down, e.new(f"add {v} {rest}, {divisor}"), rest)
        return e.choose(element, is_zero, zero, rest if remainder else quotient)

    return emit


def _from_constant(name: str, t: str, constant: str) -> Emit:
    return lambda e, a: e.new(f"{name} {e.vector(ELEMENT[t])} {e.same(ELEMENT[t], constant)}, {a}")


def _integer_primitives(t: str) -> Iterator[Primitive]:
    pair = (t, t)
    for name in ("add", "sub", "mul"):
        yield Primitive(f"{name}.{t}", pair, t, _instruction(name, t), quiet=True)
    sign = "u" if t in UNSIGNED else "s"
    for name in ("max", "min"):
        yield Primitive(f"{name}.{t}", pair, t, _intrinsic(f"{sign}{name}", t), quiet=True)
    yield Primitive(f"neg.{t}", (t,), t, _from_constant("sub", t, "0"), quiet=True)
    yield Primitive(f"not.{t}", (t,), t, _from_constant("xor", t, "-1"), quiet=True)
    if t in SIGNED:
        yield Primitive(f"abs.{t}", (t,), t, _integer_absolute(t), quiet=True)
    yield Primitive(f"square.{t}", (t,), t, _square(t), quiet=True)
    yield Primitive(f"sign.{t}", (t,), t, _integer_sign(t), quiet=True)
    yield Primitive(f"shl.{t}", pair, t, _shift(t, True), quiet=True)
    yield Primitive(f"shr.{t}", pair, t, _shift(t, False), quiet=True)
    quotient = _quotient if SIZE[t] <= 4 else _long_quotient
    yield Primitive(f"floordiv.{t}", pair, t, quotient(t, False))
    yield Primitive(f"mod.{t}", pair, t, quotient(t, True))
    for name, predicate in (("eq", "eq"), ("ne", "ne"), ("lt", f"{sign}lt"), ("le", f"{sign}le"), ("gt", f"{sign}gt"), ("ge", f"{sign}ge")):
        yield Primitive(f"{name}.{t}", pair, "b", _compare(t, predicate), quiet=True)


# -- bits, choice, conversion --------------------------------------------------------------------


def _bool_primitives() -> Iterator[Primitive]:
    for name in ("and", "or", "xor"):
        for t in ("b", "i16", "i32", "i64"):  # by width: the same bits for signed and unsigned; "b" serves single bytes
            yield Primitive(f"{name}.{t}", (t, t), t, _instruction(name, t), quiet=True)
    yield Primitive("not.b", ("b",), "b", _from_constant("xor", "b", "1"), quiet=True)
    for t in ("b", "i16", "i32", "i64"):

        def choose(e: Emitter, c: str, a: str, b: str, t: str = t) -> str:
            return e.choose(ELEMENT[t], e.convert("trunc", "i8", c, "i1"), a, b)

        yield Primitive(f"where.{t}", ("b", t, t), t, choose, quiet=True)


def _cast(source: str, result: str) -> Emit:
    a, b = ELEMENT[source], ELEMENT[result]

    def emit(e: Emitter, x: str) -> str:
        if result == "b":
            zero = e.same(a, "0.0" if source in FLOATS else "0")
            return _as_bool(e, e.compare("une" if source in FLOATS else "ne", a, x, zero))
        if source in FLOATS and result in FLOATS:
            return e.convert("fpext" if result == "f64" else "fptrunc", a, x, b)
        if result in FLOATS:
            return e.convert("sitofp" if source in SIGNED else "uitofp", a, x, b)
        if source in FLOATS:
            return _float_to_integer(e, source, x, result)
        if SIZE[source] == SIZE[result]:
            return x
        return e.convert("trunc" if SIZE[source] > SIZE[result] else "sext" if source in SIGNED else "zext", a, x, b)

    return emit


def _float_to_integer(e: Emitter, source: str, x: str, result: str) -> str:
    """Towards zero. Small types go through 32 bits and wrap; what does not fit there raises an event."""
    if SIZE[result] < 4:
        return e.convert("trunc", "i32", e.convert("fptosi", ELEMENT[source], x, "i32"), ELEMENT[result])
    how = "fptosi" if result in SIGNED else "fptoui"
    return e.convert(how, ELEMENT[source], x, ELEMENT[result])


def _cast_primitives() -> Iterator[Primitive]:
    for source in ("b", *NUMBERS):
        for result in ("b", *NUMBERS):
            if source != result:
                yield Primitive(
                    f"cast.{source}.{result}", (source,), result, _cast(source, result), quiet=source not in FLOATS or result == "b"
                )


def _round_half(e: Emitter, x: str) -> str:
    return e.convert("fpext", "half", e.convert("fptrunc", "float", x, "half"), "float")


def _double_to_half(e: Emitter, x: str) -> str:
    """Rounded once: on the way, float32 keeps in its last bit that something was cut off."""
    v = e.vector("i32")
    near = e.convert("fptrunc", "double", x, "float")
    back = e.convert("fpext", "float", near, "double")
    bits = e.convert("bitcast", "float", near, "i32")
    size = e.call(e.vector("double"), f"llvm.fabs.v{e.lanes}f64", (e.vector("double"), x))
    back_size = e.call(e.vector("double"), f"llvm.fabs.v{e.lanes}f64", (e.vector("double"), back))
    cut = e.choose("i32", e.compare("ogt", "double", back_size, size), e.new(f"sub {v} {bits}, {e.same('i32', '1')}"), bits)
    odd = e.choose("i32", e.compare("one", "double", back, x), e.new(f"or {v} {cut}, {e.same('i32', '1')}"), cut)
    return _round_half(e, e.convert("bitcast", "i32", odd, "float"))


def bfloat_bits(e: Emitter, x: str) -> str:
    """The upper halves of float32 patterns, rounded to nearest even; NaN keeps its sign and becomes quiet. As i32 in the low half."""
    v = e.vector("i32")
    bits = e.convert("bitcast", "float", x, "i32")
    upper = e.new(f"lshr {v} {bits}, {e.same('i32', '16')}")
    odd = e.new(f"and {v} {upper}, {e.same('i32', '1')}")
    bias = e.new(f"add {v} {odd}, {e.same('i32', '32767')}")
    rounded = e.new(f"lshr {v} {e.new(f'add {v} {bits}, {bias}')}, {e.same('i32', '16')}")
    sign = e.new(f"and {v} {upper}, {e.same('i32', '32768')}")
    quiet = e.new(f"or {v} {sign}, {e.same('i32', str(0x7FC0))}")
    return e.choose("i32", e.compare("uno", "float", x, x), quiet, rounded)


def _round_bfloat(e: Emitter, x: str) -> str:
    shifted = e.new(f"shl {e.vector('i32')} {bfloat_bits(e, x)}, {e.same('i32', '16')}")
    return e.convert("bitcast", "i32", shifted, "float")


# -- algorithms ----------------------------------------------------------------------------------


def _algorithm(name: str, t: str) -> Emit:
    """A canonical algorithm; what hardware does not flag is noted in the context's event word."""

    single = SINGLE.get(name) if t == "f32" else None

    def emit(e: Emitter, x: str) -> str:
        p = F32 if t == "f32" else F64
        if single is not None:
            e.compute_in_single()
            value, flags = single(e, Value(e, x, "float"))
            _note_masks(e, flags)
            return e.value(value).name
        wide = x if p == F64 else e.convert("fpext", "float", x, "double")
        value, flags = ALGORITHMS[name](e, Value(e, wide, "double"), p)
        _note_masks(e, flags)
        y = e.value(value).name
        return y if p == F64 else e.convert("fptrunc", "double", y, "float")

    return emit


def _note_masks(e: Emitter, flags: dict[str, Any]) -> None:
    """Note the events that arithmetic itself does not raise."""
    masks = [mask.name for kind, mask in flags.items() if kind in ("divide", "invalid", "large")]
    if masks:
        e.note(masks)


@cache
def table() -> dict[str, Primitive]:
    """Every primitive by name."""
    out: list[Primitive] = []
    for t in FLOATS:
        out += _float_primitives(t)
        out += [Primitive(f"{name}.{t}", (t,), t, _algorithm(name, t)) for name in ALGORITHMS]
    for t in INTEGERS:
        out += _integer_primitives(t)
    out += _bool_primitives()
    out += _cast_primitives()
    out += _narrow_primitives()
    out.append(Primitive("cast.f64.f16", ("f64",), "f32", _double_to_half))
    out.append(Primitive("round.f16", ("f32",), "f32", _round_half, hot=True))
    out.append(Primitive("round.bf16", ("f32",), "f32", _round_bfloat, hot=True))
    return {p.name: p for p in out}
