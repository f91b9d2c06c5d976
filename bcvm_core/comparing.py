"""Two versions of a program side by side: instructions aligned, operands that changed marked. For listings of machine code, too.

Instructions are paired by what they do, whatever registers, labels and signatures are called, so that one that was added does not make all
that follow it look changed. The same two versions give the same pairs.
"""

from __future__ import annotations

import difflib
import itertools
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .isa.program import Program
from .isa.signature import table as signatures
from .machinecode import Block
from .watch import InstructionView, views

SAME, CHANGED, GONE, NEW = "=", "~", "-", "+"
_NAMES: Final = re.compile(r"\b(?:r\d+|L\d+|h\d+|0x[0-9A-Fa-f]+|[xyz]mm\d+|[re]?(?:[abcd]x|[sd]il?|[sb]p)|r\d+[bdw]|k\d)\b")
_TOKENS: Final = re.compile(r", |(?:\[[^\]]*\]|[^,\[])+|[,\[]")
_SIGNATURE: Final = re.compile(r", 0x([0-9A-F]{4})\b")
_LONGEST: Final = 60  # characters of a constant


@dataclass(frozen=True, slots=True)
class Listed:
    """One instruction of a version. `number`: its place, as the listing has it."""

    number: str
    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Instructions of two versions. `mark`: "=" the same, "~" other operands, "-" only in the first, "+" only in the second.

    The texts are in parts (text, changed); a side that has no such instruction has number "" and no parts.
    """

    mark: str
    left_number: str
    left: tuple[tuple[str, bool], ...]
    right_number: str
    right: tuple[tuple[str, bool], ...]


def listed(program: Program) -> list[Listed]:
    """The instructions of a program and of those nested in it."""
    return [of_view(view) for view in views(program)]


def of_view(view: InstructionView) -> Listed:
    """An instruction that is watched, with the values of its constants in place."""
    text, notes = substituted(_SIGNATURE.sub(_signature, view.text, count=1), view.constants, _LONGEST)
    number = f"{view.part}:{view.pc}" if view.part else str(view.pc)
    return Listed(number, " ".join([*text.split(), *(f"; {note}" for note in notes)]))


def _signature(found: re.Match[str]) -> str:
    """What the number of a signature stands for, which is the same in every process; an open one stands for nothing."""
    number = int(found[1], 16)
    return f", {', '.join(map(str, signatures.row(number).operands))}" if number else ""


def of_blocks(blocks: Iterable[Block]) -> list[Listed]:
    """The instructions of machine code (its bytes where they are not told apart), without what depends on where the code lies."""
    return [Listed(f"{line.at:04x}", line.text or line.code) for block in blocks for line in block.lines]


def substituted(text: str, constants: Iterable[str], longest: int) -> tuple[str, list[str]]:
    """An instruction with the values of constants ("k0 = 2.0") in the places of their names, and those that are longer."""
    notes = []
    for note in constants:
        name, _, value = note.partition(" = ")
        if len(value) <= longest:
            text = re.sub(rf"(?<![\w.]){name}(?![\w=])", lambda _, value=value: value, text)  # type: ignore[misc]
        else:
            notes.append(note)
    return text, notes


def compare(left: Sequence[Listed], right: Sequence[Listed]) -> list[Pair]:
    """The pairs, in order of both versions."""
    return list(_aligned(left, right, (_meaning, _word)))


def _aligned(left: Sequence[Listed], right: Sequence[Listed], keys: Sequence[object]) -> Iterable[Pair]:
    """Pairs by the first key; what it leaves unpaired by the next."""
    if not keys or not left or not right:
        yield from (Pair(GONE, one.number, ((one.text, True),), "", ()) for one in left)
        yield from (Pair(NEW, "", (), one.number, ((one.text, True),)) for one in right)
        return
    key, *others = keys
    first, second = [key(one.text) for one in left], [key(one.text) for one in right]  # type: ignore[operator]
    for how, a, b, c, d in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if how == "equal":
            yield from (_pair(one, other) for one, other in zip(left[a:b], right[c:d], strict=True))
        else:
            yield from _aligned(left[a:b], right[c:d], others)


def _meaning(text: str) -> str:
    """An instruction without the names of places."""
    return _NAMES.sub("_", text)


def _word(text: str) -> str:
    """The opcode, and the op where it calls one."""
    words = text.replace(",", " ").split()
    return " ".join([words[0], *(words[2:3] if words[0] == "CALL_OP" else [])]) if words else ""


def _pair(one: Listed, other: Listed) -> Pair:
    if one.text == other.text:
        return Pair(SAME, one.number, ((one.text, False),), other.number, ((other.text, False),))
    first, second = _operands(one.text), _operands(other.text)
    if len(first) == len(second):  # operand by operand
        flags = [a != b for a, b in zip(first, second, strict=True)]
        left, right = list(zip(first, flags, strict=True)), list(zip(second, flags, strict=True))
    else:
        left, right = [], []
        for how, a, b, c, d in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
            left += [(text, how != "equal") for text in first[a:b]]
            right += [(text, how != "equal") for text in second[c:d]]
    return Pair(CHANGED, one.number, _joined(left), other.number, _joined(right))


def _operands(text: str) -> list[str]:
    """The opcode, the operands, and what stands between them; a shape is one operand."""
    opcode, space, rest = text.partition(" ")
    return [opcode, space, *_TOKENS.findall(rest)]


def _joined(parts: Iterable[tuple[str, bool]]) -> tuple[tuple[str, bool], ...]:
    """Neighbours that are marked alike as one."""
    groups = itertools.groupby(parts, key=lambda part: part[1])
    return tuple((text, changed) for changed, group in groups if (text := "".join(part for part, _ in group)))


def marked(parts: Iterable[tuple[str, bool]], mark: str = CHANGED) -> str:
    """A side as text: what changed in braces. The whole of an instruction that the other side lacks needs none."""
    return "".join(f"{{{text}}}" if changed and mark == CHANGED else text for text, changed in parts)


def summary(pairs: Sequence[Pair]) -> str:
    """How many instructions are the same, changed, gone and new."""
    words = {SAME: "the same", CHANGED: "changed", GONE: "only in the first", NEW: "only in the second"}
    counts = [(sum(pair.mark == mark for pair in pairs), word) for mark, word in words.items()]
    return ", ".join(f"{count:,} {word}" for count, word in counts if count) or "no instructions"


def side_by_side(names: tuple[str, str], pairs: Sequence[Pair], width: int = 56) -> str:
    """The two versions beside each other: a mark, then each side; what changed in braces."""
    rows = [(pair.mark, pair.left_number, marked(pair.left, pair.mark), pair.right_number, marked(pair.right, pair.mark)) for pair in pairs]
    width = min(width, max([*map(len, names), *(len(side) for row in rows for side in (row[2], row[4]))]))
    lines = [f"          {names[0]:<{width}} |       {names[1]}"]
    for mark, left_number, left, right_number, right in rows:
        parts, others = _wrapped(left, width), _wrapped(right, width)
        for k in range(max(len(parts), len(others), 1)):
            one, other = (side[k] if k < len(side) else "" for side in (parts, others))
            numbers = (left_number, right_number) if k == 0 else ("", "")
            shown = " " if mark == SAME or k else mark
            lines.append(f"  {shown} {numbers[0]:>5} {one:<{width}} | {numbers[1]:>5} {other}".rstrip())
    return "\n".join([*lines, summary(pairs)])


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ", drop_whitespace=True, break_on_hyphens=False)
