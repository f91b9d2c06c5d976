"""Versions of what is watched, and two of them side by side: as message, text and HTML.

A version is a listing of a unit: as it is now, as it was when other shapes had been met, or before anything was known of its arguments;
and the machine code of each fused kernel, by tier and operands. Earlier listings are kept, the latest few of them.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from bcvm_core.comparing import Listed, Pair, compare, marked, of_blocks, of_view, side_by_side, summary
from bcvm_core.errors import BcvmError
from bcvm_core.machinecode import codes_of
from bcvm_core.watch import InstructionView, Unit, Watch

from . import protocol
from .protocol import Diff, DiffPart

KEPT = 12  # earlier listings
ROWS = 800  # of a message
Version = Callable[[], Sequence[Listed]]


class Versions:
    """Keeps earlier listings of the units of a `Watch`."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._earlier: dict[str, tuple[str, tuple[InstructionView, ...]]] = {}  # name -> key of the unit, listing
        self._latest: dict[str, tuple[InstructionView, ...]] = {}
        self._names: dict[str, int] = {}

    def see(self, units: Sequence[Unit]) -> None:
        """Keep the listings that others have taken the place of."""
        for unit in units:
            before, self._latest[unit.key] = self._latest.get(unit.key), unit.instructions
            if before and before is not unit.instructions and _texts(before) != _texts(unit.instructions):
                number = self._names[unit.key] = self._names.get(unit.key, 0) + 1
                self._earlier[f"{_label(unit)}, earlier ({number}){_shapes(before)}"] = unit.key, before
        for name in list(self._earlier)[:-KEPT]:
            del self._earlier[name]

    def all(self, units: Sequence[Unit]) -> dict[str, tuple[str, Version]]:
        """Each version by its name: the key of its unit, and how to list it."""
        out: dict[str, tuple[str, Version]] = {}
        for unit in units:
            before = self.watch.unspecialised(unit)
            if before and _texts(before) != _texts(unit.instructions):
                out[f"{_label(unit)}, before specialisation"] = unit.key, _lister(before)
            out |= {name: (key, _lister(views)) for name, (key, views) in list(self._earlier.items()) if key == unit.key}
            out[f"{_label(unit)}{_shapes(unit.instructions)}"] = unit.key, _lister(unit.instructions)
        for unit in units:
            for code in codes_of(unit):
                out[f"machine code: {code.title}"] = unit.key, lambda code=code: of_blocks(code.blocks())  # type: ignore[misc]
        return out

    def message(self, units: Sequence[Unit], unit: str, left: str, right: str) -> Diff:
        """Two versions by name. Those that are not there stand for the latest of a unit, and for the one before it."""
        found = self.all(units)
        own = [name for name, (key, _) in found.items() if key == unit and not name.startswith("machine code")] or list(found)
        if not own:
            return protocol.empty_diff()
        left = left if left in found else own[max(0, len(own) - 2)]
        right = right if right in found else own[-1]
        return message(list(found), left, right, compare(found[left][1](), found[right][1]()))

    def chosen(self, names: tuple[str, str]) -> Diff:
        """Two versions by name. Raises BcvmError for one that is not there."""
        units = self.watch.units()
        known = self.all(units)
        for name in names:
            if name not in known:
                raise BcvmError(f"there is no version {name!r}", fix=f"there are: {', '.join(map(repr, known)) or 'none yet'}")
        return self.message(units, "", *names)


def _label(unit: Unit) -> str:
    """What a unit is called, no two alike."""
    return unit.key.removeprefix("function ")


def _lister(views: Sequence[InstructionView]) -> Version:
    return lambda: [of_view(view) for view in views]


def _texts(views: Sequence[InstructionView]) -> list[str]:
    return [of_view(view).text for view in views]


def _shapes(views: Sequence[InstructionView]) -> str:
    """The shapes that a listing is for: those of what it loads first."""
    loads = [view.text.split(None, 2)[-1] for view in views if view.opcode == "LOAD_TENSOR" and not view.part]
    known = [load.replace(", [", "[", 1) for load in loads if not load.endswith("[...]")]
    return f": {', '.join(known[:4])}{', ...' if len(known) > 4 else ''}" if known else ""


def message(names: list[str], left: str, right: str, pairs: Sequence[Pair]) -> Diff:
    """Pairs as the protocol has them."""

    def parts(side: tuple[tuple[str, bool], ...]) -> list[DiffPart]:
        return [{"text": text, "changed": changed} for text, changed in side]

    out = protocol.empty_diff()
    out["versions"], out["left"], out["right"], out["summary"] = names, left, right, summary(pairs)
    out["left_out"] = max(0, len(pairs) - ROWS)
    out["rows"] = [
        {
            "mark": pair.mark,  # type: ignore[typeddict-item]  # one of the four
            "left_number": pair.left_number,
            "left": parts(pair.left),
            "right_number": pair.right_number,
            "right": parts(pair.right),
        }
        for pair in pairs[:ROWS]
    ]
    return out


# --- static forms ------------------------------------------------------------------------------


def text(diff: Diff) -> str:
    """Both versions beside each other."""
    shown = side_by_side((diff["left"], diff["right"]), _pairs(diff)).rpartition("\n")[0]
    return "\n".join([shown, *_left_out(diff), diff["summary"]])


def as_html(diff: Diff) -> str:
    """The same as a table; without scripts."""
    heads = ("", "pc", diff["left"], "pc", diff["right"])
    head = "".join(f'<th scope="col">{html.escape(name) or "mark"}</th>' for name in heads)
    body = "".join(_row(pair) for pair in _pairs(diff))
    told = "".join(f"<p>{line}</p>" for line in [*_left_out(diff), diff["summary"]])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{told}"


def _row(pair: Pair) -> str:
    def side(parts: tuple[tuple[str, bool], ...]) -> str:
        shown = "".join(f"<b>{html.escape(marked([part], pair.mark))}</b>" if part[1] else html.escape(part[0]) for part in parts)
        return f'<code style="background: none">{shown}</code>'

    mark = "" if pair.mark == "=" else pair.mark
    cells = (mark, pair.left_number, side(pair.left), pair.right_number, side(pair.right))
    return "<tr>" + "".join(f'<td style="text-align: left; vertical-align: top">{cell}</td>' for cell in cells) + "</tr>"


def _pairs(diff: Diff) -> list[Pair]:
    def side(parts: list[DiffPart]) -> tuple[tuple[str, bool], ...]:
        return tuple((part["text"], part["changed"]) for part in parts)

    return [Pair(row["mark"], row["left_number"], side(row["left"]), row["right_number"], side(row["right"])) for row in diff["rows"]]


def _left_out(diff: Diff) -> list[str]:
    return [f"{diff['left_out']:,} more rows are not shown"] if diff["left_out"] else []
