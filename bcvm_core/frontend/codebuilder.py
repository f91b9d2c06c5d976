"""Collects the instructions of a Program while its labels are still symbolic."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from ..isa.opcodes import BY_NAME
from ..isa.program import Instruction, SourceLoc
from .lowering import ProgramBuilder, location_of


class Label:
    """A place in the code; becomes a pc when the code is closed."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = False


@dataclass(slots=True)
class Emitted:
    """An instruction whose LABEL operand may be a Label.

    `form`: the user's own expression, see `pythonform`. `plain`: it is certain to meet Python values only.
    """

    opcode: str
    operands: tuple[Any, ...]
    loc: SourceLoc | None
    form: Any = None
    plain: bool = False


class CodeBuilder(ProgramBuilder):
    """A ProgramBuilder with labels. Nothing is emitted where the code cannot be reached."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[Emitted | Label] = []
        self.reachable = True

    def emit(self, opcode: str, *operands: Any, at: ast.AST | None = None, form: Any = None, plain: bool = False) -> int:
        """Append an instruction; gives its position in `items`."""
        if self.reachable:
            self.items.append(Emitted(opcode, operands, location_of(at) if at is not None else None, form, plain))
            for operand in operands:
                if isinstance(operand, Label):
                    operand.used = True
            self.reachable = BY_NAME[opcode].falls_through
        return len(self.items) - 1

    def place(self, label: Label) -> None:
        """The label stands for what comes next. A label nobody jumps to makes nothing reachable."""
        self.items.append(label)
        self.reachable = self.reachable or label.used

    def close(self, items: list[Emitted | Label]) -> tuple[tuple[Instruction, ...], dict[int, Any]]:
        """Instructions with resolved labels, and the Python forms by pc."""
        items = _tidied(items)
        places: dict[int, int] = {}
        pc = 0
        for item in items:
            if isinstance(item, Label):
                places[id(item)] = pc
            else:
                pc += 1
        code: list[Instruction] = []
        forms: dict[int, Any] = {}
        for item in items:
            if isinstance(item, Label):
                continue
            if item.form is not None:
                forms[len(code)] = item.form
            operands = tuple(places[id(o)] if isinstance(o, Label) else o for o in item.operands)
            code.append(Instruction(item.opcode, operands, item.loc))
        return tuple(code), forms


def _tidied(items: list[Emitted | Label]) -> list[Emitted | Label]:
    """Jumps to jumps go all the way, what nothing reaches is dropped, and so are jumps to the next instruction."""
    _thread(items)
    return _without_empty_jumps(_without_dead_code(items))


def _thread(items: list[Emitted | Label]) -> None:
    leads: dict[int, Label] = {}  # label -> where the jump right behind it leads
    for position, item in enumerate(items):
        if isinstance(item, Label):
            following = next((i for i in items[position + 1 :] if isinstance(i, Emitted)), None)
            if following is not None and following.opcode == "JUMP":
                leads[id(item)] = following.operands[0]
    for item in items:
        if isinstance(item, Emitted) and item.opcode in ("JUMP", "COND_JUMP"):
            target, seen = item.operands[-1], set()
            while id(target) in leads and id(target) not in seen:
                seen.add(id(target))
                target = leads[id(target)]
            item.operands = (*item.operands[:-1], target)


def _targets(items: list[Emitted | Label]) -> set[int]:
    return {id(o) for item in items if isinstance(item, Emitted) for o in item.operands if isinstance(o, Label)}


def _without_dead_code(items: list[Emitted | Label]) -> list[Emitted | Label]:
    targets = _targets(items)
    kept: list[Emitted | Label] = []
    reachable = True
    for item in items:
        if isinstance(item, Label):
            reachable = reachable or id(item) in targets
            kept.append(item)
        elif reachable or item.opcode == "LOOP_END":  # a loop has its end even where every path leaves it before
            kept.append(item)
            reachable = BY_NAME[item.opcode].falls_through
    return kept


def _without_empty_jumps(items: list[Emitted | Label]) -> list[Emitted | Label]:
    kept: list[Emitted | Label] = []
    for position, item in enumerate(items):
        if isinstance(item, Emitted) and item.opcode == "JUMP":
            following = position + 1
            while following < len(items) and isinstance(items[following], Label) and items[following] is not item.operands[0]:
                following += 1
            if following < len(items) and items[following] is item.operands[0]:
                continue
        kept.append(item)
    return kept
