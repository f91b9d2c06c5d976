"""Operands brought into the order and the type in which they are computed: blocks turned, widened, repeated.

Sources may lie in any order, also backwards; where neighbours lie side by side whole vectors are read. Targets are scratch memory
whose rows have room for whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable

from ..rows.code import BYTES, LANES, Code
from ..rows.types import Kind
from ..stencils.target import Target

_PARAMETERS = "ptr %x, i64 %xrow, i64 %xcol, i64 %rows, i64 %columns, ptr %y, i64 %ystep"


def turn(target: Target, kind: Kind, name: str) -> tuple[Code, str]:
    """`turn_<name>(x, xrow, xcol, rows, columns, y, ystep)`: y[column][row] = x[row][column], rows repeated to a multiple of 16.

    Columns of y beyond the rows of x repeat the last of them, and up to 15 rows behind the last one are written.
    """
    code = Code(target)
    last = code.new("sub i64 %rows, 1")

    def whole() -> None:
        with code.loop("0", "%rows", LANES) as r:
            starts = [_row(code, _least(code, code.new(f"add i64 {r}, {k}"), last)) for k in range(LANES)]
            with code.loop("0", "%columns", LANES) as c:
                mask = code.first_lanes(code.new(f"sub i64 %columns, {c}"), 0)
                lines = _turned(code, kind.wide, [kind.load(code, start, c, mask) for start in starts])
                for k, line in enumerate(lines):
                    place = code.at("%y", code.new(f"mul i64 %ystep, {code.new(f'add i64 {c}, {k}')}"), "i8")
                    code.store(code.vector(kind.wide), line, code.at(place, r, kind.wide), BYTES[kind.wide])

    def one_by_one() -> None:
        padded = code.new(f"and i64 {code.new(f'add i64 %rows, {LANES - 1}')}, -{LANES}")
        with code.loop("0", padded) as r:
            start = _row(code, _least(code, r, last))
            with code.loop("0", "%columns") as c:
                place = code.at("%y", code.new(f"mul i64 %ystep, {c}"), "i8")
                code.store(kind.wide, _element(code, kind, start, c), code.at(place, r, kind.wide), BYTES[kind.wide])

    _by_order(code, kind, whole, one_by_one)
    return code, code.function(f"turn_{name}", _PARAMETERS, inside=True)


def widen(target: Target, kind: Kind) -> tuple[Code, str]:
    """`widen(x, xrow, xcol, rows, columns, y, ystep)`: y[row][column] = x[row][column]; zeros up to a multiple of 16."""
    code = Code(target)

    def whole() -> None:
        with code.loop("0", "%rows") as r:
            start, end = _row(code, r), code.at("%y", code.new(f"mul i64 %ystep, {r}"), "i8")
            with code.loop("0", "%columns", LANES) as c:
                mask = code.first_lanes(code.new(f"sub i64 %columns, {c}"), 0)
                found = kind.load(code, start, c, mask)
                code.store(code.vector(kind.wide), found, code.at(end, c, kind.wide), BYTES[kind.wide])

    def one_by_one() -> None:
        padded = code.new(f"and i64 {code.new(f'add i64 %columns, {LANES - 1}')}, -{LANES}")
        with code.loop("0", "%rows") as r:
            start, end = _row(code, r), code.at("%y", code.new(f"mul i64 %ystep, {r}"), "i8")
            with code.loop("0", "%columns") as c:
                code.store(kind.wide, _element(code, kind, start, c), code.at(end, c, kind.wide), BYTES[kind.wide])
            with code.loop("%columns", padded) as c:
                code.store(kind.wide, "0.0", code.at(end, c, kind.wide), BYTES[kind.wide])

    _by_order(code, kind, whole, one_by_one)
    return code, code.function("widen", _PARAMETERS, inside=True)


def repeat(target: Target, kind: Kind, name: str) -> tuple[Code, str]:
    """`repeat_<name>(x, xcol, rows, columns, y, ystep)`: y[row][column] = x[row], for a number of columns that is a multiple of 16."""
    code = Code(target)
    with code.loop("0", "%rows") as r:
        found = code.spread(kind.wide, _element(code, kind, "%x", r))
        place = code.at("%y", code.new(f"mul i64 %ystep, {r}"), "i8")
        with code.loop("0", "%columns", LANES) as c:
            code.store(code.vector(kind.wide), found, code.at(place, c, kind.wide), BYTES[kind.wide])
    return code, code.function(f"repeat_{name}", "ptr %x, i64 %xcol, i64 %rows, i64 %columns, ptr %y, i64 %ystep", inside=True)


def _by_order(code: Code, kind: Kind, whole: Callable[[], None], one_by_one: Callable[[], None]) -> None:
    code.choice(code.new(f"icmp eq i64 %xcol, {BYTES[kind.memory]}"), whole, one_by_one)


def _row(code: Code, number: str) -> str:
    return code.at("%x", code.new(f"mul i64 %xrow, {number}"), "i8")


def _least(code: Code, a: str, b: str) -> str:
    return code.new(f"select i1 {code.new(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")


def _element(code: Code, kind: Kind, start: str, number: str) -> str:
    """One element, in the type of computation."""
    place = code.at(start, code.new(f"mul i64 %xcol, {number}"), "i8")
    raw = code.load(kind.memory, place, BYTES[kind.memory])
    if not kind.how:
        return raw
    if kind.how == "bf16":
        upper = code.new(f"shl i32 {code.new(f'zext i16 {raw} to i32')}, 16")
        return code.new(f"bitcast i32 {upper} to float")
    return code.new(f"{kind.how} {kind.memory} {raw} to {kind.wide}")


def _turned(code: Code, element: str, lines: list[str]) -> list[str]:
    """Sixteen vectors as the rows of a matrix: its columns. Blocks are exchanged, of half the size each time."""
    v, lines = code.vector(element), list(lines)
    size = LANES // 2
    while size:
        for i in (i for i in range(LANES) if not i & size):
            upper, lower = lines[i], lines[i + size]
            lines[i] = _picked(code, v, upper, lower, [k + LANES - size if k & size else k for k in range(LANES)])
            lines[i + size] = _picked(code, v, upper, lower, [k + LANES if k & size else k + size for k in range(LANES)])
        size //= 2
    return lines


def _picked(code: Code, v: str, a: str, b: str, lanes: list[int]) -> str:
    return code.new(f"shufflevector {v} {a}, {v} {b}, <{LANES} x i32> <{', '.join(f'i32 {k}' for k in lanes)}>")
