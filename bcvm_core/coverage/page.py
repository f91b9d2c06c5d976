"""The tables of the page "Op coverage", as Markdown: nothing but the standard library and the op table is needed."""

from __future__ import annotations

from collections.abc import Iterable

from ..ops.registry import parameter_names
from . import DOORS, Entry, entries, families, reason_for_parameter, supported
from .reasons import LEFT_NAMES, LEFT_PARAMETERS, UFUNC_PARAMETERS

_COLUMNS = tuple(dict.fromkeys(DOORS.values()))


def counts() -> str:
    """How much there is."""
    every = entries()
    named = sum(map(len, families().values()))
    per_door = (f"{sum(DOORS[e.owner] == door for e in every)} of {door}" for door in _COLUMNS)
    return f"{named} families that model code uses most, {len(every)} spellings: {', '.join(per_door)}."


def by_family() -> str:
    """The families, each with the names it has at every door."""
    every = entries()
    out = []
    for group, members in families().items():
        out.append(f"### {group}\n")
        out.append(_table(("family", *_COLUMNS), (_family(names, every) for names in members)))
        out.append("")
    return "\n".join(out)


def _family(names: tuple[str, ...], every: list[Entry]) -> list[str]:
    """Also the names that mean an op of the family though they are not listed: operators, aliases."""
    rows = {row.name for e in every if e.name in names for row, _ in e.overloads[:1]}
    there = [e for e in every if e.name.rstrip("_") in names or (e.kind == "operator" and e.overloads[0][0].name in rows)]
    return [f"**{names[0]}**", *(_names(e for e in there if DOORS[e.owner] == door) for door in _COLUMNS)]


def by_row() -> str:
    """Every op with its spellings, and the parameters with which a call runs as plain Python."""
    found: dict[str, list[Entry]] = {}
    for entry in entries():
        for row, _ in entry.overloads:
            members = found.setdefault(row.name, [])
            if entry not in members:
                members.append(entry)
    return _table(("op", *_COLUMNS, "left to the library"), (_row(name, members) for name, members in found.items()))


def _row(name: str, members: list[Entry]) -> list[str]:
    left = dict.fromkeys(f"`{word}`" for entry in members for word in _left(entry))
    cells = (_names(e for e in members if DOORS[e.owner] == door) for door in _COLUMNS)
    return [f"**{name}**", *cells, ", ".join(left)]


def _left(entry: Entry) -> Iterable[str]:
    """Parameters that the spelling knows and the row does not take, and those that stand in the list with this callable's name."""
    taken = supported(entry)
    for _, spelling in entry.overloads:
        yield from (
            name for name in parameter_names(spelling.signature) if name not in taken and reason_for_parameter(entry.target, name, True)
        )
    prefix = f"{entry.target}("
    yield from (key[len(prefix) : -1] for key in LEFT_PARAMETERS if key.startswith(prefix))


def reasons() -> str:
    """What is left to the libraries, and why."""
    rows = [(f"`{key}`", why) for key, why in (*LEFT_NAMES.items(), *LEFT_PARAMETERS.items())]
    rows += [(f"`{name}=` of every ufunc", why) for name, why in UFUNC_PARAMETERS.items()]
    return _table(("name or parameter", "why a call with it runs as plain Python"), rows)


def _names(members: Iterable[Entry]) -> str:
    return ", ".join(f"`{_written(e)}`" for e in sorted(members, key=lambda e: (e.owner, e.name)))


_SYNTAX = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "MatMult": "@", "Lt": "<", "LtE": "<=",
    "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=", "USub": "-x", "UAdd": "+x", "Invert": "~", "BitAnd": "&", "BitOr": "|",
    "BitXor": "^", "LShift": "<<", "RShift": ">>", "Subscript": "x[i]",
}  # fmt: skip


def _written(entry: Entry) -> str:
    if entry.kind == "operator":
        return _SYNTAX.get(entry.name, entry.name)
    below = entry.owner.removeprefix("mindspore.mint").removeprefix(".nn.functional").lstrip(".")
    return f"{below}.{entry.name}" if entry.owner.startswith("mindspore.mint") and below else entry.name


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)
