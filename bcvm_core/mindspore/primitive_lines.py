"""The lines of the tables of primitive classes, read without MindSpore, and the documentation's table made from them."""

from __future__ import annotations

from . import primitives_more, primitives_table, spellings
from .primitives_more import LEFT


def parse(text: str) -> tuple[spellings.Line, str, str]:
    """(the line's left part, attributes, condition). Raises ValueError for what is no line."""
    front, _, condition = text.partition(" | ")
    left, _, attributes = front.partition("; ")
    (line,) = spellings.parse(left)
    return line, attributes.strip(), condition.strip()


def lines() -> dict[str, list[str]]:
    """The lines of all tables by the name of their class."""
    found: dict[str, list[str]] = {}
    for table in (primitives_table.TABLE, primitives_more.TABLE):
        for text in filter(None, (line.partition("#")[0].strip() for line in table.splitlines())):
            found.setdefault(parse(text)[0].name, []).append(text)
    return found


def as_markdown() -> str:
    """The table for the documentation, with its sums."""
    known = lines()
    gone = {name: why for name, why in LEFT.items() if name not in known}
    out = [
        f"{len(known)} classes have rows; of those that MindSpore's own layers hold, objects of {len(gone)} stay with MindSpore.",
        "",
        "| object | ops | runs in BCVM |",
        "| --- | --- | --- |",
    ]
    for name in sorted({*known, *LEFT}, key=str.lower):
        texts = [parse(text) for text in known.get(name, [])]
        rows = ", ".join(f"`{row}`" for row in dict.fromkeys(line.row for line, _, _ in texts))
        conditions = [condition for _, _, condition in texts if condition]
        when = "where " + " or ".join(f"`{c}`" for c in conditions) if texts and len(conditions) == len(texts) else "yes"
        out.append(f"| `{name}` | {rows} | {(when if texts else 'no') + (f': {LEFT[name]}' if name in LEFT else '')} |")
    return "\n".join(out)
