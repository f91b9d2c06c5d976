"""What each row kernel computes, pass by pass, with the bits of the op's definition in `ops/`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..stencils.target import Target
from .code import LANES, Code, Var
from .passes import Held, Piece, Row, Streamed
from .types import kinds

A_PARAMETERS: Final = 0  # arguments: two pointers of parameters
A_EPS: Final = 16  # a double
A_FIRST: Final = 32  # the first column, and how many (0: all)
A_COLUMNS: Final = 40
ONES: Final = 4  # rows of one vector that are computed side by side, and of four
FOURS: Final = 4
A_LESS: Final = 24  # a 64-bit number: what is taken off the count (degrees of freedom)


@dataclass(slots=True)
class Frame:
    """What a recipe may use besides the row: numbers that were read from the arguments before the first row."""

    eps: Var
    less: Var


Recipe = Callable[[Row, Frame], "str | None"]  # the number that is the row's result; None when it filled the row itself


def softmax(row: Row, _frame: Frame) -> None:
    most = row.everywhere(row.largest(lambda p: p.x))
    exps = row.keep(lambda p: row.exp_below_one(row.op("fsub", p.x, most)))
    total = row.everywhere(row.tree(exps))
    row.write(lambda p: row.op("fdiv", exps(p), total))


def log_softmax(row: Row, _frame: Frame) -> None:
    most = row.everywhere(row.largest(lambda p: p.x))
    shifted = row.keep(lambda p: row.op("fsub", p.x, most)) if isinstance(row, Held) else lambda p: row.op("fsub", p.x, most)
    total = row.tree(lambda p: row.exp_below_one(shifted(p)))
    log = row.everywhere(row.function_of_one("log", total))
    row.write(lambda p: row.op("fsub", shifted(p), log))


def logsumexp(row: Row, _frame: Frame) -> str:
    code = row.code
    most = row.largest(lambda p: p.x)
    nothing = row.one("fsub", most, most)
    finite = code.new(f"fcmp oeq {row.wide} {nothing}, 0.0")
    shift = code.new(f"select i1 {finite}, {row.wide} {most}, {row.wide} 0.0")
    wide_shift = row.everywhere(shift)
    total = row.tree(lambda p: row.code.exp(row.wide, row.op("fsub", p.x, wide_shift)), last=True)
    return row.one("fadd", row.function_of_one("log", total), shift)


def _count(row: Row, less: Var | None = None) -> str:
    """The length of the row (less the degrees of freedom) in the type of computation."""
    n = row.n if less is None else row.code.new(f"sub i64 {row.n}, {row.code.get(less)}")
    return row.code.new(f"sitofp i64 {n} to {row.wide}")


def _mean(row: Row, last: bool = False) -> str:
    return row.one("fdiv", row.tree(lambda p: p.x, last=last), _count(row))


def _squares(row: Row, mean: str, last: bool = False) -> str:
    """The sum of squared deviations."""
    centre = row.everywhere(mean)

    def square(p: Piece) -> str:
        difference = row.op("fsub", p.x, centre)
        return row.op("fmul", difference, difference)

    return row.tree(square, last=last)


def _affine(row: Row, value: str, p: Piece, parameters: int) -> str:
    if parameters >= 1:
        value = row.op("fmul", value, p.parameter(0))
    return row.op("fadd", value, p.parameter(1)) if parameters == 2 else value


def _over_root(row: Row, variance: str, frame: Frame) -> Callable[[str], str]:
    """Division by sqrt(variance + eps); float32 is multiplied by the reciprocal, which is computed in float64."""
    code = row.code
    if row.wide == "double":
        scale = row.everywhere(row.root(row.one("fadd", variance, code.get(frame.eps))))
        return lambda vector: row.op("fdiv", vector, scale)
    wide = code.new(f"fpext float {variance} to double")
    root = row.root(code.binary_op("fadd", "double", wide, code.get(frame.eps), 0), "double")
    reciprocal = row.everywhere(code.new(f"fptrunc double {code.binary_op('fdiv', 'double', '1.0', root, 0)} to float"))
    return lambda vector: row.op("fmul", vector, reciprocal)


def _layer_norm(parameters: int) -> Recipe:
    def layer_norm(row: Row, frame: Frame) -> None:
        mean = _mean(row)
        divided = _over_root(row, row.one("fdiv", _squares(row, mean), _count(row)), frame)
        centre = row.everywhere(mean)
        row.write(lambda p: _affine(row, divided(row.op("fsub", p.x, centre)), p, parameters))

    return layer_norm


def _rms_norm(parameters: int) -> Recipe:
    def rms_norm(row: Row, frame: Frame) -> None:
        square = row.one("fdiv", row.tree(lambda p: row.op("fmul", p.x, p.x)), _count(row))
        divided = _over_root(row, square, frame)
        row.write(lambda p: _affine(row, divided(p.x), p, parameters))

    return rms_norm


def total(row: Row, _frame: Frame) -> str:
    return row.tree(lambda p: p.x, last=True)


def integers(row: Row, _frame: Frame) -> str:
    return row.tree(lambda p: p.x, "add", True)


def product(row: Row, _frame: Frame) -> str:
    return row.tree(lambda p: p.x, "fmul", True)


def mean(row: Row, _frame: Frame) -> str:
    return _mean(row, True)


def variance(row: Row, frame: Frame) -> str:
    return row.one("fdiv", _squares(row, _mean(row), True), _count(row, frame.less))


def deviation(row: Row, frame: Frame) -> str:
    """The root of the variance, which is rounded to the result's type before."""
    found = variance(row, frame)
    if row.result.how:
        rounded = row.everywhere(found)
        rounded = row.code.primitive("round.f16" if row.result.name == "float16" else "round.bf16", rounded)
        found = row.code.new(f"extractelement {row.code.vector(row.wide)} {rounded}, i64 0")
    return row.root(found)


def largest(row: Row, _frame: Frame) -> str:
    return row.extreme(False)


def least(row: Row, _frame: Frame) -> str:
    return row.extreme(True)


def some(row: Row, _frame: Frame) -> str:
    """Whether a truth value is true."""
    return _at_most_one(row, row.largest(lambda p: p.x))


def every(row: Row, _frame: Frame) -> str:
    return _at_most_one(row, row.largest(lambda p: p.x, True))


def _at_most_one(row: Row, number: str) -> str:
    """A byte of a truth value as 0.0 or 1.0, whatever its bits."""
    return row.code.new(f"select i1 {row.code.new(f'fcmp une {row.wide} {number}, 0.0')}, {row.wide} 1.0, {row.wide} 0.0")


def paired_sums(row: Streamed, _frame: Frame) -> str:
    """A sum, from the sums of whole blocks of the tree."""
    return row.pairs("fadd")


def paired_products(row: Streamed, _frame: Frame) -> str:
    return row.pairs("fmul")


def paired_mean(row: Streamed, frame: Frame) -> str:
    """A mean, from the sums of blocks: the number of elements stands where the degrees of freedom do."""
    return row.one("fdiv", row.pairs("fadd"), row.code.new(f"sitofp i64 {row.code.get(frame.less)} to {row.wide}"))


PAIRS: Final[dict[str, Callable[[Streamed, Frame], str]]] = {
    "paired_sums": paired_sums,
    "paired_products": paired_products,
    "paired_mean": paired_mean,
}
RECIPES: Final[dict[str, Recipe]] = {
    "softmax": softmax,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    **{f"layer_norm{k}": _layer_norm(k) for k in (0, 1, 2)},
    **{f"rms_norm{k}": _rms_norm(k) for k in (0, 1)},
    "sum": total,
    "total": integers,
    "prod": product,
    "mean": mean,
    "var": variance,
    "std": deviation,
    "max": largest,
    "min": least,
    "any": some,
    "all": every,
}


def kernel(target: Target, name: str, dtype: str) -> tuple[Code, str]:
    """`row_<name>(rows, n, 1, x, y, arguments)` over a dense (rows, n) array; neither is 0."""
    code = Code(target)
    kind, result = kinds(name, dtype)
    parameters = [code.var("ptr", code.load("ptr", code.at("%args", str(A_PARAMETERS + 8 * k), "i8"))) for k in range(2)]
    eps = code.load("double", code.at("%args", str(A_EPS), "i8"))
    less = code.load("i64", code.at("%args", str(A_LESS), "i8"))
    frame = Frame(code.var("double", eps), code.var("i64", less))

    def line(row: Row, r: str) -> None:
        row.source = code.at("%x", code.new(f"mul i64 {r}, %n"), kind.memory)
        row.target = code.at("%y", code.new(f"mul i64 {r}, %n"), result.memory)
        number = PAIRS[name](row, frame) if name in PAIRS and isinstance(row, Streamed) else RECIPES[name](row, frame)
        if number is not None:
            value = result.narrow(code, row.everywhere(number))
            one = code.new(f"extractelement {code.vector(result.memory)} {value}, i64 0")
            code.store(result.memory, one, code.at("%y", r, result.memory))

    def short(count: int, together: int) -> None:
        groups = code.new(f"and i64 %rows, -{together}")
        masks = [code.first_lanes("%n", k * LANES) for k in range(count)]
        with code.loop("0", groups, together) as r, code.abreast() as begin:
            for k in range(together):
                begin()
                line(Held(code, kind, result, "%n", parameters, masks), code.new(f"add i64 {r}, {k}"))
        with code.loop(groups, "%rows") as r:
            line(Held(code, kind, result, "%n", parameters, masks), r)

    def long() -> None:
        row = Streamed(code, kind, result, "%n", parameters)
        with code.loop("0", "%rows") as r:
            line(row, r)

    def longer() -> None:
        code.choice(code.new("icmp sle i64 %n, 64"), lambda: short(4, FOURS), long)

    if name in PAIRS:
        long()
    else:
        code.choice(code.new("icmp sle i64 %n, 16"), lambda: short(1, ONES), longer)
    return code, code.function(f"row_{name}", "i64 %rows, i64 %n, i64 %one, ptr %x, ptr noalias %y, ptr %args")
