"""Reductions over a middle axis: the column forms of `recipes.py`, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..stencils.target import Target
from .code import Code
from .columns import STRIP, Columns, Strip
from .recipes import A_COLUMNS, A_FIRST, A_LESS
from .types import kinds

Recipe = Callable[[Columns, str], None]  # (columns, length of the axis less the degrees of freedom, as a vector)


def _count(columns: Columns, n: str) -> str:
    """A number of elements in every lane, in the type of computation."""
    return columns.code.spread(columns.wide, columns.code.new(f"sitofp i64 {n} to {columns.wide}"))


def _plus_zero(columns: Columns, value: str) -> str:
    """Step 5 of the tree."""
    return columns.code.binary_op("fadd", columns.wide, value, columns.code.same(columns.wide, "0.0"))


def _total(columns: Columns, _divisor: str) -> None:
    columns.tree("%n", "%inner", "fadd")
    columns.finish(lambda v: _plus_zero(columns, v))


def _product(columns: Columns, _divisor: str) -> None:
    columns.tree("%n", "%inner", "fmul")
    columns.finish(lambda v: v)


def _mean(columns: Columns, _divisor: str) -> None:
    count = _count(columns, "%n")
    columns.tree("%n", "%inner", "fadd")
    columns.finish(lambda v: columns.code.binary_op("fdiv", columns.wide, _plus_zero(columns, v), count))


def _spread(root: bool) -> Recipe:
    def recipe(columns: Columns, divisor: str) -> None:
        code, wide = columns.code, columns.wide
        count, divisor = _count(columns, "%n"), _count(columns, divisor)
        columns.tree("%n", "%inner", "fadd")
        columns.set_centres("%n", lambda v: code.binary_op("fdiv", wide, _plus_zero(columns, v), count))

        def square(x: str, centre: str) -> str:
            difference = code.binary_op("fsub", wide, x, centre)
            return code.binary_op("fmul", wide, difference, difference)

        columns.tree("%n", "%inner", "fadd", square)
        columns.finish(lambda v: _root(columns, code.binary_op("fdiv", wide, _plus_zero(columns, v), divisor), root))

    return recipe


def _root(columns: Columns, variance: str, root: bool) -> str:
    """The root of what was rounded to the result's type."""
    if not root:
        return variance
    code = columns.code
    if columns.result.how:
        variance = code.primitive("round.f16" if columns.result.name == "float16" else "round.bf16", variance)
    v = code.vector(columns.wide)
    return code.call(v, f"llvm.sqrt.v16{'f32' if columns.wide == 'float' else 'f64'}", (v, variance))


def _integers(columns: Columns, _divisor: str) -> None:
    columns.tree("%n", "%inner", "add")
    columns.finish(lambda v: v)


def _place(predicate: str) -> Recipe:
    """The first place of the largest (smallest) element; the first NaN counts as that."""

    def recipe(columns: Columns, _divisor: str) -> None:
        columns.places("%n", "%inner", predicate)

    return recipe


def _running(name: str) -> Recipe:
    """Sums or products of all elements so far."""
    return lambda columns, _divisor: columns.scan("%n", "%inner", name)


def _softmax(columns: Columns, _divisor: str) -> None:
    code, wide = columns.code, columns.wide
    columns.largest("%n", "%inner")
    columns.set_centre(lambda v: v)
    columns.each("%n", "%inner", lambda x, most: code.exp(wide, code.binary_op("fsub", wide, x, most), 0.0))
    columns.strip.source = columns.strip.target  # from here on the exponentials are the operand
    columns.tree("%n", "%inner", "fadd")
    columns.set_centre(lambda v: _plus_zero(columns, v))
    columns.each("%n", "%inner", lambda x, total: code.binary_op("fdiv", wide, x, total))


def _log_softmax(columns: Columns, _divisor: str) -> None:
    code, wide = columns.code, columns.wide
    columns.largest("%n", "%inner")
    columns.set_centre(lambda v: v)
    columns.each("%n", "%inner", lambda x, most: code.binary_op("fsub", wide, x, most))
    columns.strip.source = columns.strip.target
    columns.tree("%n", "%inner", "fadd", lambda x, _: code.exp(wide, x, 0.0))
    columns.set_centre(lambda v: _function(columns, "log", _plus_zero(columns, v)))
    columns.each("%n", "%inner", lambda x, log: code.binary_op("fsub", wide, x, log))


def _function(columns: Columns, name: str, value: str) -> str:
    return columns.code.primitive(f"{name}.{'f32' if columns.wide == 'float' else 'f64'}", value)


LIKE_OPERAND: Final = ("softmax", "log_softmax")  # where the result has room for what is computed on the way
SCANS: Final = ("cumsum", "cumprod", *LIKE_OPERAND)  # whose result has the shape of the operand
COLUMNS: Final[dict[str, Recipe]] = {
    "sum": _total,
    "total": _integers,
    "prod": _product,
    "mean": _mean,
    "var": _spread(False),
    "std": _spread(True),
    "argmax": _place("gt"),
    "argmin": _place("lt"),
    "cumsum": _running("fadd"),
    "cumprod": _running("fmul"),
    "softmax": _softmax,
    "log_softmax": _log_softmax,
}


def takes(name: str, dtype: str) -> bool:
    """Whether a recipe is for an element type."""
    return name in COLUMNS and (name not in LIKE_OPERAND or dtype in ("float32", "float64"))


def kernel(target: Target, name: str, dtype: str) -> tuple[Code, str]:
    """`row_<name>_columns(outer, n, inner, x, y, arguments)` over a dense (outer, n, inner) array; none of them is 0.

    The arguments tell which columns: the first one and how many (0: all).
    """
    code, (kind, result) = Code(target), kinds(name, dtype)
    columns = Columns(code, kind, result)
    less = code.load("i64", code.at("%args", str(A_LESS), "i8"))
    divisor = code.new(f"sub i64 %n, {less}")
    first = code.load("i64", code.at("%args", str(A_FIRST), "i8"))
    some = code.load("i64", code.at("%args", str(A_COLUMNS), "i8"))
    is_all = code.new(f"icmp eq i64 {some}, 0")
    end = code.new(f"select i1 {is_all}, i64 %inner, i64 {code.new(f'add i64 {first}, {some}')}")
    strip = STRIP[kind.wide]
    with code.loop("0", "%outer") as o, code.loop(first, end, strip) as c:
        left = code.new(f"sub i64 {end}, {c}")
        short = code.new(f"icmp slt i64 {left}, {strip}")
        width = code.new(f"select i1 {short}, i64 {left}, i64 {strip}")
        row = code.new(f"mul i64 {o}, %n")
        source = code.at("%x", code.new(f"add i64 {code.new(f'mul i64 {row}, %inner')}, {c}"), kind.memory)
        line = row if name in SCANS else o
        place = code.at("%y", code.new(f"add i64 {code.new(f'mul i64 {line}, %inner')}, {c}"), result.memory)
        columns.strip = Strip(width, source, place)
        COLUMNS[name](columns, divisor)
    return code, code.function(f"row_{name}_columns", "i64 %outer, i64 %n, i64 %inner, ptr %x, ptr noalias %y, ptr %args")
