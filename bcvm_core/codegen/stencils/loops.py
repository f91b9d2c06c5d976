"""NumPy's loops as primitives: one call of a ufunc on operands of known types, with its casts and roundings.

A program of steps grows in a `Recorder`; values in it are float32 where NumPy's are float16 or
bfloat16, rounded after each operation as op-by-op evaluation rounds.
"""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...dtypes import BY_NAME, name_of
from .graph import NotFusable
from .primitives import table

COMPUTE: Final = {  # dtype -> type in registers
    "bool": "b",
    "float16": "f32",
    "bfloat16": "f32",
    "float32": "f32",
    "float64": "f64",
    **{f"{sign}int{8 * size}": f"{'u' if sign else 'i'}{8 * size}" for sign in ("", "u") for size in (1, 2, 4, 8)},
}
NARROW: Final = {"float16": "round.f16", "bfloat16": "round.bf16"}


@dataclass(frozen=True, slots=True)
class Operand:
    """Operand `index` of the op that is being described: a tensor, or (`constant`) a number."""

    index: int


@dataclass(frozen=True, slots=True)
class Temp:
    """The result of step `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A number that the op's definition brings along, as bits of its type."""

    bits: int


Ref = Operand | Temp | Literal


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive. A constant operand (Operand of a number, or Literal) is of the type `dtype`."""

    primitive: str
    operands: tuple[Ref, ...]
    dtype: str  # the NumPy type of the operands: what constants are converted to


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value on the way: where it is and its NumPy type."""

    ref: Ref
    dtype: str


@dataclass(frozen=True, slots=True)
class Number:
    """A constant on the way. `operand`: which operand of the op it is, -1 for one of the definition's own."""

    value: Any
    operand: int = -1


Value = Tensor | Number

_PLAIN: Final = {  # ufunc -> primitive over the loop's type, result of that type
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "maximum": "max",
    "minimum": "min",
    "fmax": "fmax",
    "fmin": "fmin",
    "copysign": "copysign",
    "negative": "neg",
    "absolute": "abs",
    "fabs": "abs",
    "square": "square",
    "sqrt": "sqrt",
    "reciprocal": "reciprocal",
    "sign": "sign",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "rint",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "left_shift": "shl",
    "right_shift": "shr",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "invert": "not",
}
_TESTS: Final = {  # ufunc -> primitive with a bool result
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "isnan": "isnan",
    "isinf": "isinf",
    "isfinite": "isfinite",
    "signbit": "signbit",
}
_LOGIC: Final = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor", "logical_not": "not"}
_ON_BOOL: Final = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and", "logical_or": "or", "logical_and": "and"}
_EXACT: Final = {"max", "min", "fmax", "fmin", "copysign", "neg", "abs", "sign", "floor", "ceil", "trunc", "rint"}
_EXTREMES: Final = {"max", "min", "fmax", "fmin"}
_BITWISE: Final = {"and", "or", "xor"}
_DEGREES: Final = {"degrees": (180.0, math.pi), "rad2deg": (180.0, math.pi), "radians": (math.pi, 180.0), "deg2rad": (math.pi, 180.0)}
_NOTING: Final = {"max", "min", "fmax", "fmin", "lt", "le", "gt", "ge", "sign"}  # primitives of their own for bfloat16
_WITH_CONSTANT: Final = {"add": ("addk", "addk"), "mul": ("mulk", "mulk"), "sub": ("subk", "ksub"), "div": ("divk", "kdiv")}


class Recorder:
    """Collects the steps of one op."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def step(self, primitive: str, operands: tuple[Ref, ...], dtype: str) -> Temp:
        """Add a step. Raises NotFusable for a primitive that does not exist."""
        if primitive not in table():
            raise NotFusable(f"no stencil for {primitive}")
        self.steps.append(Step(primitive, operands, dtype))
        return Temp(len(self.steps) - 1)

    # -- casts ----------------------------------------------------------------------------------

    def cast(self, x: Value, dtype: str) -> Tensor:
        """x as `dtype`, as NumPy casts."""
        if isinstance(x, Number):
            return Tensor(self.constant(x, dtype), dtype)
        if x.dtype == dtype:
            return x
        source, result = COMPUTE[x.dtype], COMPUTE[dtype]
        ref = x.ref
        if dtype == "float16" and source == "f64":
            return Tensor(self.step("cast.f64.f16", (ref,), x.dtype), dtype)
        if source != result:
            ref = self.step(f"cast.{source}.{result}", (ref,), x.dtype)
        if dtype in NARROW:
            ref = self.step(NARROW[dtype], (ref,), dtype)
        return Tensor(ref, dtype)

    def constant(self, x: Number, dtype: str) -> Ref:
        """A number as a reference: an operand's place, or the bits of one of the definition's own."""
        return Operand(x.operand) if x.operand >= 0 else Literal(constant_bits(x.value, dtype))

    # -- ufuncs ---------------------------------------------------------------------------------

    def ufunc(self, name: str, loop: str, operands: tuple[Value, ...], result: str) -> Tensor:
        """One call whose loop takes operands of the type `loop` and gives `result`."""
        if name in _DEGREES:
            return self.degrees(_DEGREES[name], operands[0], loop)
        if name == "positive":
            return self.cast(operands[0], loop)
        if name == "clip":
            return self.clip(operands, loop)
        if name in _LOGIC:
            return self.logic(_LOGIC[name], operands)
        if loop == "bool":
            return self.on_bool(name, operands)
        if name in _TESTS:
            return self.test(_TESTS[name], operands, loop)
        if name not in _PLAIN:
            raise NotFusable(f"no stencil for numpy.{name}")
        return self.arithmetic(_PLAIN[name], operands, result)

    def clip(self, operands: tuple[Value, ...], loop: str) -> Tensor:
        x, low, high = operands
        if _clip_keeps_equals() and loop in ("float32", "float64"):
            return self.arithmetic("min", (high, self.arithmetic("max", (low, x), loop)), loop)
        return self.arithmetic("min", (self.arithmetic("max", (x, low), loop), high), loop)

    def degrees(self, ratio: tuple[float, float], x: Value, dtype: str) -> Tensor:
        """x times a ratio that was computed in the type of the loop (float32 for narrower ones)."""
        t = COMPUTE[dtype]
        kind = np.float32 if t == "f32" else np.float64
        factor = Literal(constant_bits(kind(ratio[0]) / kind(ratio[1]), "float32" if t == "f32" else "float64"))
        ref: Ref = self.step(f"mulk.{t}", (self.cast(x, dtype).ref, factor), dtype)
        if dtype in NARROW:
            ref = self.step(NARROW[dtype], (ref,), dtype)
        return Tensor(ref, dtype)

    def arithmetic(self, primitive: str, operands: tuple[Value, ...], dtype: str) -> Tensor:
        """A primitive over one type, in its forms with a constant where there is one."""
        t = COMPUTE[dtype]
        half = dtype == "float16" and primitive in _EXTREMES  # NumPy's loops for this type prefer the first of two equals
        if (primitive == "abs" and t[0] == "u") or (primitive in ("floor", "ceil", "trunc") and t[0] != "f"):
            return self.cast(operands[0], dtype)
        if primitive in _BITWISE:
            t = "b" if t in ("i8", "u8") else t.replace("u", "i")
        ordered = operands[::-1] if half else operands
        form = self._constant_form(primitive, ordered, dtype) if t in ("f32", "f64") else None
        refs = tuple(self.cast(x, dtype).ref for x in (ordered if form else operands))
        name = f"{primitive}.{'f16' if half else 'bf16' if dtype == 'bfloat16' and primitive in _NOTING else t}"
        if form in ("addk", "mulk") and isinstance(operands[0], Number):
            refs = refs[::-1]
        ref = self.step(f"{form}.{t}" if form else name, refs, dtype)
        if dtype in NARROW and primitive not in _EXACT:
            ref = self.step(NARROW[dtype], (ref,), dtype)
        return Tensor(ref, dtype)

    def _constant_form(self, primitive: str, operands: tuple[Value, ...], dtype: str) -> str | None:
        """The variant of a primitive that reads one operand from the constants."""
        if len(operands) != 2:
            return None
        first, second = operands
        if isinstance(first, Number) == isinstance(second, Number):
            return None
        if primitive in ("max", "min"):
            number = first if isinstance(first, Number) else second
            assert isinstance(number, Number)
            if number.value != number.value or (dtype == "bfloat16" and number is first):
                return None
            return f"{primitive}k" if isinstance(second, Number) else f"k{primitive}"
        forms = _WITH_CONSTANT.get(primitive)
        return None if forms is None else forms[0] if isinstance(second, Number) else forms[1]

    def test(self, primitive: str, operands: tuple[Value, ...], loop: str) -> Tensor:
        t = "bf16" if loop == "bfloat16" and primitive in _NOTING else COMPUTE[loop]
        if COMPUTE[loop][0] != "f" and len(operands) == 1:
            return self.settled(primitive, operands[0], loop)
        refs = tuple(self.cast(x, loop).ref for x in operands)
        return Tensor(self.step(f"{primitive}.{t}", refs, loop), "bool")

    def settled(self, primitive: str, x: Value, loop: str) -> Tensor:
        """Tests that have one answer for integers: whether x equals itself, or does not."""
        if primitive == "signbit":
            raise NotFusable("signbit of integers")
        t = "u8" if loop == "bool" else COMPUTE[loop]
        ref = self.cast(x, loop).ref
        return Tensor(self.step(f"{'eq' if primitive == 'isfinite' else 'ne'}.{t}", (ref, ref), loop), "bool")

    def logic(self, primitive: str, operands: tuple[Value, ...]) -> Tensor:
        refs = tuple(self.truth(x).ref for x in operands)
        return Tensor(self.step(f"{primitive}.b", refs, "bool"), "bool")

    def truth(self, x: Value) -> Tensor:
        """Whether x is not zero."""
        return self.cast(Number(bool(x.value)) if isinstance(x, Number) and x.operand < 0 else x, "bool")

    def on_bool(self, name: str, operands: tuple[Value, ...]) -> Tensor:
        """Loops of bool operands."""
        primitive = _ON_BOOL.get(name)
        if primitive is None and name in _PLAIN and _PLAIN[name] in (*_BITWISE, "not"):
            primitive = _PLAIN[name]
        if name in ("absolute", "floor", "ceil", "trunc"):
            return self.cast(operands[0], "bool")
        if name in ("isnan", "isinf", "isfinite"):
            return self.settled(name, operands[0], "bool")
        refs = tuple(self.cast(x, "bool").ref for x in operands)
        if primitive is not None:
            return Tensor(self.step(f"{primitive}.b", refs, "bool"), "bool")
        if name in _TESTS and len(operands) == 2:
            return Tensor(self.step(f"{_TESTS[name]}.u8", refs, "bool"), "bool")
        raise NotFusable(f"no stencil for numpy.{name} of bool")

    def where(self, condition: Value, a: Value, b: Value, dtype: str) -> Tensor:
        t = COMPUTE[dtype]
        width = {"b": "b", "i8": "b", "u8": "b", "f32": "i32", "f64": "i64"}.get(t, t.replace("u", "i"))
        refs = (self.truth(condition).ref, self.cast(a, dtype).ref, self.cast(b, dtype).ref)
        return Tensor(self.step(f"where.{width}", refs, dtype), dtype)

    def algorithm(self, name: str, x: Value, dtype: str) -> Tensor:
        """A canonical algorithm whose result has type `dtype` (that of x, or what NumPy makes of integers)."""
        t = COMPUTE[dtype]
        ref: Ref = self.step(f"{name}.{t}", (self.cast(x, dtype).ref,), dtype)
        if dtype in NARROW:
            ref = self.step(NARROW[dtype], (ref,), dtype)
        return Tensor(ref, dtype)


_PACKED: Final = {"float32": struct.Struct("<f").pack, "float64": struct.Struct("<d").pack}


_RANGES: Final = {
    f"{sign}int{n}": (0, (1 << n) - 1) if sign else (-1 << (n - 1), (1 << (n - 1)) - 1) for sign in ("", "u") for n in (8, 16, 32, 64)
}


def constant_bits(value: Any, dtype: str) -> int:
    """A number as the bit pattern of the register type that stands for `dtype`. Raises NotFusable when it does not convert."""
    if type(value) is int:
        if dtype in _PACKED and -(1 << 24) <= value <= 1 << 24:  # exact in both
            return int.from_bytes(_PACKED[dtype](value), "little")
        low, high = _RANGES.get(dtype, (0, -1))
        if low <= value <= high:
            return value if value >= 0 else value + 2 * high + 2
    elif type(value) is float and dtype in _PACKED:
        try:
            return int.from_bytes(_PACKED[dtype](value), "little")
        except OverflowError as error:
            raise NotFusable(f"the constant {value!r} does not fit into {dtype}") from error
    with np.errstate(all="ignore"):
        try:
            given = np.asarray(value)
            number = given.astype(BY_NAME[dtype].numpy)
            if not _fits(given, number):
                raise NotFusable(f"the constant {value!r} does not fit into {dtype}")
            if dtype in NARROW:
                number = number.astype(np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            raise NotFusable(f"the constant {value!r} does not convert to {dtype}") from error
    return int.from_bytes(number.tobytes(), "little")


def _fits(given: Any, number: Any) -> bool:
    """Whether a conversion that NumPy may refuse or report went well."""
    if number.dtype.kind in "iu":
        return given.dtype.kind not in "iu" or int(given) == int(number)
    return number.dtype.kind == "b" or not np.isfinite(given.astype(np.float64)) or bool(np.isfinite(number.astype(np.float64)))


@functools.cache
def _clip_keeps_equals() -> bool:
    """Which of two equal zeros `numpy.clip` gives: x itself, or the limit (this changed with NumPy 2)."""
    return bool(np.signbit(np.clip(np.full(9, -0.0), 0.0, 1.0)).all())


def dtype_name(dtype: Any) -> str:
    """The name of a NumPy dtype with stencils. Raises NotFusable."""
    name = name_of(np.dtype(dtype))
    if name is None or name not in COMPUTE:
        raise NotFusable(f"no stencils for the type {dtype}")
    return name
