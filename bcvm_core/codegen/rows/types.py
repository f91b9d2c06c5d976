"""Element types of rows: how they lie in memory, and the type in which they are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..stencils.primitives import bfloat_bits
from .code import Code


@dataclass(frozen=True, slots=True)
class Kind:
    """A dtype: its LLVM type in memory, the type of computation, and how one becomes the other."""

    name: str
    memory: str
    wide: str  # "float" or "double"
    how: str = ""  # instruction from memory to the type of computation; "": the same type, "bf16": by hand

    def load(self, code: Code, pointer: str, index: str, mask: str | None) -> str:
        """Sixteen elements in the type of computation, zero outside the mask."""
        raw = code.load_lanes(self.memory, code.at(pointer, index, self.memory), mask)
        if not self.how:
            return raw
        if self.how == "bf16":
            upper = code.convert("zext", "i16", raw, "i32")
            return code.convert("bitcast", "i32", code.binary_op("shl", "i32", upper, code.same("i32", "16")), "float")
        return code.convert(self.how, self.memory, raw, self.wide)

    def store(self, code: Code, value: str, pointer: str, index: str, mask: str | None) -> None:
        """The reverse, rounded once."""
        code.store_lanes(self.memory, self.narrow(code, value), code.at(pointer, index, self.memory), mask)

    def narrow(self, code: Code, value: str) -> str:
        """A vector in the type in memory."""
        if not self.how:
            return value
        if self.how == "bf16":
            return code.convert("trunc", "i32", bfloat_bits(code, value), "i16")
        if self.how == "uitofp":  # truth values, as 0.0 and 1.0
            return code.convert("fptoui", self.wide, value, self.memory)
        return code.convert("fptrunc", self.wide, value, self.memory)


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("float32", "float", "float"),
        Kind("float64", "double", "double"),
        Kind("float16", "half", "float", "fpext"),
        Kind("bfloat16", "i16", "float", "bf16"),
        *(Kind(f"int{bits}", f"i{bits}", "double", "sitofp") for bits in (8, 16, 32, 64)),
        *(Kind(f"uint{bits}", f"i{bits}", "double", "uitofp") for bits in (8, 16, 32, 64)),
        Kind("bool", "i8", "double", "uitofp"),
    )
}
FLOATS: Final = ("float32", "float64", "float16", "bfloat16")
INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
COUNTED: Final = {  # integers as NumPy adds them
    name: Kind(name, f"i{bits}", "i64", "" if bits == 64 else how)
    for name, bits, how in (
        *((f"int{bits}", bits, "sext") for bits in (8, 16, 32, 64)),
        *((f"uint{bits}", bits, "zext") for bits in (8, 16, 32, 64)),
        ("bool", 8, "zext"),
    )
}


def kinds(recipe: str, dtype: str) -> tuple[Kind, Kind]:
    """The types of a recipe's operand and result."""
    if recipe == "total":
        return COUNTED[dtype], COUNTED[result_name(recipe, dtype)]
    return KINDS[dtype], KINDS[result_name(recipe, dtype)]


def result_name(recipe: str, dtype: str) -> str:
    """The dtype of a recipe's result over elements of a dtype."""
    if recipe == "total":
        return "uint64" if dtype.startswith("uint") else "int64"
    if recipe in ("argmax", "argmin"):
        return "int64"
    if recipe in ("any", "all"):
        return "bool"
    return dtype if dtype in FLOATS else "float64"
