"""A code object's instructions in one form for all CPython versions: what recovery reads.

Instructions without meaning for the source (caches, cells, resumption) are left out, jump directions
are dropped, and what one version writes as several instructions becomes the one that another has.
"""

from __future__ import annotations

import dis
import sys
import types
from dataclasses import dataclass
from typing import Any

Position = tuple[int, int, int, int]  # line, column, end line, end column


@dataclass(slots=True)
class Ins:
    """One instruction. `target` is the index of the instruction a jump goes to, -1 for others."""

    op: str
    arg: int
    value: Any
    offset: int
    pos: Position | None
    goes: int = -1
    target: int = -1


_DROPPED = {"RESUME", "CACHE", "PRECALL", "EXTENDED_ARG", "MAKE_CELL", "COPY_FREE_VARS", "END_FOR"}

# 3.11 has a direction in the name, 3.12 has not.
_NAMES = {
    "JUMP_FORWARD": "JUMP",
    "JUMP_BACKWARD": "JUMP",
    "LOAD_FAST_CHECK": "LOAD_FAST",
}
for _kind in ("IF_FALSE", "IF_TRUE", "IF_NONE", "IF_NOT_NONE"):
    for _direction in ("FORWARD", "BACKWARD"):
        _NAMES[f"POP_JUMP_{_direction}_{_kind}"] = f"POP_JUMP_{_kind}"

_METHOD_BIT = sys.version_info >= (3, 12)
_INTRINSICS = {5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}  # 3.12

_OPPOSITE = {
    "POP_JUMP_IF_FALSE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NONE",
}
OR_POP = {"JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"}
CONDITIONAL = OR_POP | set(_OPPOSITE)


def one_line_of(pos: Position | None, word: str) -> bool:
    """Could `word` stand at `pos`?"""
    return pos is not None and pos[0] == pos[2] and pos[3] - pos[1] == len(word)


def _position(instruction: dis.Instruction) -> Position | None:
    p = instruction.positions
    if p is None or p.lineno is None or p.col_offset is None or p.end_lineno is None or p.end_col_offset is None:
        return None
    return p.lineno, p.col_offset, p.end_lineno, p.end_col_offset


def _plain(instruction: dis.Instruction) -> Ins:
    op = _NAMES.get(instruction.opname, instruction.opname)
    arg = instruction.arg or 0
    if op == "LOAD_ATTR" and _METHOD_BIT and arg & 1:
        op = "LOAD_METHOD"  # 3.12 tells them apart by a bit
    elif op == "CALL_INTRINSIC_1":
        op = _INTRINSICS.get(arg, op)
    goes = instruction.argval if instruction.opcode in (*dis.hasjrel, *dis.hasjabs) else -1
    return Ins(op, arg, instruction.argval, instruction.offset, _position(instruction), goes)


def read(code: types.CodeType) -> list[Ins]:
    """The instructions of `code`, jumps resolved to indices."""
    every = [_plain(i) for i in dis.get_instructions(code)]
    kept = [i for i in every if i.op not in _DROPPED]
    kept = _fold_or_pop(_fold_backward(kept, _resolver(every, kept)))
    index = _resolver(every, kept)
    for ins in kept:
        if ins.goes >= 0:
            ins.target = index(ins.goes)
            while ins.target < len(kept) and kept[ins.target].op == "NOP" and ins.op == "JUMP" and _jumps_back(ins):
                ins.target += 1  # the line event of `while True`
    return kept


def _resolver(every: list[Ins], kept: list[Ins]) -> Any:
    """offset -> index of the first kept instruction at or after it."""
    numbers = {ins.offset: n for n, ins in enumerate(kept)}
    table: dict[int, int] = {}
    following = len(kept)
    for ins in reversed(every):
        following = numbers.get(ins.offset, following)
        table[ins.offset] = following
    return lambda offset: table.get(offset, len(kept))


def _fold_backward(kept: list[Ins], index: Any) -> list[Ins]:
    """3.12: a conditional jump backwards is the opposite jump over a plain jump of the same place."""
    targets = {ins.goes for ins in kept if ins.goes >= 0}
    out: list[Ins] = []
    n = 0
    while n < len(kept):
        ins = kept[n]
        after = kept[n + 1] if n + 1 < len(kept) else None
        one = after is not None and _jumps_back(after) and after.pos == ins.pos and after.offset not in targets
        if after is not None and one and ins.op in _OPPOSITE and index(ins.goes) == n + 2:
            out.append(Ins(_OPPOSITE[ins.op], 0, None, ins.offset, ins.pos, after.goes))
            n += 2
            continue
        out.append(ins)
        n += 1
    return out


def _jumps_back(ins: Ins) -> bool:
    return ins.op == "JUMP" and 0 <= ins.goes < ins.offset


def _fold_or_pop(kept: list[Ins]) -> list[Ins]:
    """3.12: COPY 1, POP_JUMP_IF_x, POP_TOP is 3.11's JUMP_IF_x_OR_POP."""
    out: list[Ins] = []
    n = 0
    while n < len(kept):
        ins = kept[n]
        three = kept[n : n + 3]
        ops = [i.op for i in three]
        if ops in (["COPY", "POP_JUMP_IF_FALSE", "POP_TOP"], ["COPY", "POP_JUMP_IF_TRUE", "POP_TOP"]) and ins.arg == 1:
            out.append(Ins(ops[1].replace("POP_JUMP", "JUMP") + "_OR_POP", 0, None, ins.offset, three[1].pos, three[1].goes))
            n += 3
            continue
        out.append(ins)
        n += 1
    return out
