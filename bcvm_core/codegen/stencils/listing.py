"""What spliced code is made of: each stencil with its bytes, the node of the graph that it works for, and its holes with what fills them.

The plan of a form is made again (`Splicer.placed`), so that code that runs keeps nothing for its listing; the bytes are those in memory.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any, Final

from . import offsets as c
from .blob import AGAIN, CTX, DATA, KON, NEXT, Blob
from .ir import SIZE
from .kernel import FusedKernel
from .lower import Computed, Constant, Lowered, facts, makers
from .primitives import table
from .splice import Placed

FRAME: Final = -1  # the node of stencils that belong to none
_HOLE_BYTES: Final = 4
_FORMATS: Final = {
    "f32": "<f",
    "f64": "<d",
    "i8": "<b",
    "i16": "<h",
    "i32": "<i",
    "i64": "<q",
    "u8": "<B",
    "u16": "<H",
    "u32": "<I",
    "u64": "<Q",
}
_FRAME_WORDS: Final = {
    "start": "whole steps and the mask of the last, partial one",
    "loop_begin": "the loop over whole steps begins",
    "loop_end": "the next step, or on",
    "tail_begin": "the last, partial step begins, where there is one",
    "finish": "back to the caller",
}


@dataclass(frozen=True, slots=True)
class Hole:
    """Four bytes of a stencil that were filled in: where, the number, and what it is. `input`: the operand it leads to, or None.

    `data`: it leads to the constants of all stencils, so that the number depends on where the code lies.
    """

    offset: int
    value: int
    meaning: str
    input: int | None = None
    data: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """One stencil as it lies in memory. `part`: "frame", "loop" or "tail"; `node`: of the graph, FRAME for none; `what`: in words."""

    stencil: str
    part: str
    node: int
    what: str
    at: int
    code: bytes
    holes: tuple[Hole, ...]


def pieces(kernel: FusedKernel, repeated: int) -> list[Piece]:
    """The stencils of a kernel's code for a set of repeated inputs, in order of memory. Raises NotFusable, KeyError without such code."""
    return _Reader(kernel, repeated).pieces()


class _Reader:
    def __init__(self, kernel: FusedKernel, repeated: int) -> None:
        code = kernel.codes[repeated]
        self.kernel, self.lowered, self.inputs = kernel, kernel.lowered, len(kernel.inputs)
        self.maker = kernel._splicer
        self.blob: Blob = self.maker.blob
        self.memory = ctypes.string_at(code.address, code.size)
        self.placed = self.maker.placed(self.maker.form(kernel.lowered, repeated, self.inputs))
        self.owners = _nodes_of(self.placed, kernel)
        self.at = 0

    def pieces(self) -> list[Piece]:
        begin = sum(len(self.blob.stencils[name][0]) for name in ("start", "loop_begin"))
        out = [self._frame("start", ""), self._frame("loop_begin", "the last step")]
        out += [self._piece(p.stencil, "loop", n, p) for p, n in zip(self.placed, self.owners, strict=True)]
        out += [self._frame("loop_end", f"the loop, +0x{begin:x}"), self._frame("tail_begin", "the end")]
        out += [self._piece(p.tail, "tail", n, p) for p, n in zip(self.placed, self.owners, strict=True)]
        return [*out, self._frame("finish", "")]

    def _frame(self, name: str, label: str) -> Piece:
        return self._piece(name, "frame", FRAME, Placed(name, name, 0, 0), label)

    def _piece(self, name: str, part: str, node: int, placed: Placed, label: str = "") -> Piece:
        code, holes = self.blob.stencils[name]
        at, self.at = self.at, self.at + len(code)
        body = self.memory[at : self.at]
        found = []
        for offset, kind, addend in holes:
            value: int = struct.unpack_from("<i", body, offset)[0]
            found.append(Hole(offset, value, *self._meaning(name, kind, placed, addend, label), kind == DATA))
        return Piece(name, part, node, self._words(name, placed), at, body, tuple(found))

    # -- in words -------------------------------------------------------------------------------

    def _words(self, name: str, placed: Placed) -> str:
        family = _family(name)
        if family in _FRAME_WORDS:
            return _FRAME_WORDS[family]
        kind, _, memory = family.partition(".")
        slots = name.rpartition("/")[2].split(",")
        if kind in ("ld", "lds", "ldm"):
            how = {"ld": "load", "lds": "load and repeat", "ldm": "load what is left of"}[kind]
            return f"{how} input {self._operand(placed)} ({memory}) into slot {slots[0]}"
        if kind in ("st", "stm"):
            how = "store" if kind == "st" else "store what is left of"
            return f"{how} output {self._operand(placed) - self.inputs} ({memory}) from slot {slots[0]}"
        if kind == "ldk":
            return f"load constant {placed.constant // 8} into slot {slots[0]}"
        if kind in ("mov", "spill", "fill"):
            words = {"mov": "copy slot {1} to slot {0}", "spill": "keep slot {0} in memory", "fill": "bring slot {0} back from memory"}
            return words[kind].format(*slots)
        return f"{family} in slot{'s' if len(slots) > 1 else ''} {', '.join(slots)}"

    def _operand(self, placed: Placed) -> int:
        """The number of an operand by its place in the context: inputs first, then outputs."""
        return (placed.context - c.POINTERS) // 8

    def _meaning(self, name: str, kind: int, placed: Placed, addend: int, label: str) -> tuple[str, int | None]:
        if kind == CTX:
            return self._in_context(name, placed, addend)
        if kind == KON:
            return f"constant {placed.constant // 8}: {self._constant(name, placed.constant // 8)}", None
        if kind == DATA:
            return f"shared constants +0x{addend:x}: {self._data(addend)}", None
        return {NEXT: "the next stencil", AGAIN: label or "a label"}[kind], None

    def _in_context(self, name: str, placed: Placed, addend: int) -> tuple[str, int | None]:
        if _family(name) in ("spill", "fill"):
            return f"memory of the call for spilled values, +{addend}", None
        operand = self._operand(placed)
        if operand < self.inputs:
            return f"where the pointer of input {operand} lies", operand
        return f"where the pointer of output {operand - self.inputs} lies", None

    def _constant(self, name: str, number: int) -> str:
        return shown(self.lowered.constants[number], _type_of(name, number, self.lowered))

    def _data(self, at: int) -> str:
        """The first bytes of what a stencil reads there."""
        word: int = struct.unpack("<Q", self.blob.data[at : at + 8].ljust(8, b"\0"))[0]
        return shown(word, "f32" if self.blob.width == 4 else "f64") + ", ..."


def shown(bits: int, kind: str) -> str:
    """A constant's bits as a number of a register type."""
    size = SIZE.get(kind, 8)
    raw = struct.pack("<Q", bits & (1 << 64) - 1)[:size]
    if kind == "b":
        return str(bool(raw[0]))
    value: Any = struct.unpack(_FORMATS[kind], raw)[0] if kind in _FORMATS else int.from_bytes(raw, "little")
    return f"{value:.9g} ({kind}, 0x{int.from_bytes(raw, 'little'):0{2 * size}x})" if kind[0] == "f" else f"{value} ({kind})"


def _family(stencil: str) -> str:
    """The name without slots."""
    return stencil.partition("/")[0]


def _type_of(stencil: str, number: int, lowered: Lowered) -> str:
    """The type of a constant: that of the operand which a primitive reads from it, or that which it is loaded for."""
    primitive = table().get(_family(stencil))
    if primitive is not None and primitive.const >= 0:
        return primitive.operands[primitive.const]
    for place, value in enumerate(lowered.values):
        if type(value) is Constant and value.number == number:
            for reader in lowered.values:
                if type(reader) is Computed and place in reader.operands:
                    return _operand_types(reader.primitive)[reader.operands.index(place)]
            return value.type
    return "i64"


def _operand_types(name: str) -> list[str]:
    """Types of a primitive's operands in registers."""
    found = table()[name]
    return [t for k, t in enumerate(found.operands) if k != found.const]


def _nodes_of(placed: list[Placed], kernel: FusedKernel) -> list[int]:
    """The node that each stencil works for. Loads, copies and spills belong to what is computed, or stored, next."""
    lowered, owners = kernel.lowered, makers(kernel.graph)
    computed = iter([k for k, value in enumerate(lowered.values) if type(value) is Computed])
    out: list[int] = []
    waiting = 0
    for each, family in zip(placed, map(_family, (p.stencil for p in placed)), strict=True):
        waiting += 1
        if family in facts():
            node = owners[next(computed)]
        elif family.startswith("st."):
            node = owners[lowered.stores[(each.context - c.POINTERS) // 8 - len(kernel.inputs)][0]]
        else:
            continue
        out += [node] * waiting
        waiting = 0
    return out + [FRAME] * waiting
