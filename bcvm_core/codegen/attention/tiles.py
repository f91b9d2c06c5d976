"""Products of small matrices as machine code: tiles that stay in registers, in shapes that fit the machine's.

Every element of a product is a chain of fused multiply-adds over the summed axis, starting at 0; in form "s" there are two, over the even
and the odd places, which are added at the end and round less. Bits therefore depend on neither the tiles, nor the registers' width, nor
how many rows and columns there are.
"""

from __future__ import annotations

from typing import Final

from ..rows.code import BYTES, LANES, Code, Var
from ..stencils.target import Target

CHAINS: Final = {"s": 2, "p": 1}
HEIGHTS: Final = {  # rows of the tallest tile: as many as there are registers for
    "s": {("x86-64-v4", "float"): 6, ("x86-64-v4", "double"): 6, ("x86-64-v3", "float"): 3, ("x86-64-v3", "double"): 1},
    "p": {("x86-64-v4", "float"): 8, ("x86-64-v4", "double"): 8, ("x86-64-v3", "float"): 6, ("x86-64-v3", "double"): 3},
}
_WIDE: Final = frozenset((("x86-64-v4", "float"),))  # where a tile is two vectors wide
_PARAMETERS: Final = "i64 %depth, ptr %a, i64 %arow, ptr %b, i64 %bstep, ptr %c, i64 %cstep, i1 %more"
_TYPES: Final = "i64 ptr i64 ptr i64 ptr i64 i1".split()


class Tiles:
    """The functions `product_s` and `product_p` of one element type.

    `product_x(rows, columns, depth, a, arow, b, bstep, c, cstep, more)` sets, or with `more` adds to, c[i][j] the sum of a(i, k) b[k][j].
    In form "s" the rows of `a` lie `arow` bytes apart with their elements side by side; in form "p" it is the other way round.
    `columns` is a multiple of 16.
    """

    def __init__(self, target: Target, element: str) -> None:
        self.target, self.element, self.size = target, element, BYTES[element]
        tallest = {form: tops[target.level, element] for form, tops in HEIGHTS.items()}
        self.heights = {form: [top, *(h for h in (4, 2, 1) if h < top)] for form, top in tallest.items()}
        self.widths = (2, 1) if (target.level, element) in _WIDE else (1,)

    def functions(self) -> list[tuple[Code, str]]:
        """All of them, with what they call."""
        out = []
        for form in "sp":
            out += [self._tile(form, height, width) for height in self.heights[form] for width in self.widths]
            out.append(self._product(form))
        return out

    def _tile(self, form: str, height: int, width: int) -> tuple[Code, str]:
        code, element = Code(self.target), self.element
        v = code.vector(element)
        chains = [[[code.var(v, "zeroinitializer") for _ in range(width)] for _ in range(height)] for _ in range(CHAINS[form])]
        starts = [code.at("%a", code.new(f"mul i64 %arow, {i}"), "i8") if form == "s" else "%a" for i in range(height)]
        a, b = code.var("ptr", "%a"), code.var("ptr", "%b")

        def step(k: str, sums: list[list[Var]]) -> None:
            now = code.get(b)
            row = [code.load(v, code.at(now, str(LANES * j), element), self.size) for j in range(width)]
            for i in range(height):
                place = code.at(starts[i], k, element) if form == "s" else code.at(code.get(a), str(i), element)
                factor = code.spread(element, code.load(element, place, self.size))
                for j in range(width):
                    self._add_product(code, sums[i][j], factor, row[j])
            code.set(b, code.at(now, "%bstep", "i8"))
            if form == "p":
                code.set(a, code.at(code.get(a), "%arow", "i8"))

        whole = code.new(f"and i64 %depth, -{len(chains)}")
        with code.loop("0", whole, len(chains)) as k:
            for number, sums in enumerate(chains):
                step(code.new(f"add i64 {k}, {number}"), sums)
        if len(chains) > 1:
            with code.when(code.new(f"icmp slt i64 {whole}, %depth")):
                step(whole, chains[0])
            for even, odd in zip(*chains, strict=True):
                for one, other in zip(even, odd, strict=True):
                    code.set(one, code.binary_op("fadd", element, code.get(one), code.get(other)))
        code.choice("%more", lambda: self._put(code, chains[0], True), lambda: self._put(code, chains[0], False))
        name = _name(form, height, width)
        return code, code.function(name, _PARAMETERS, inside=True)

    def _add_product(self, code: Code, total: Var, factor: str, row: str) -> None:
        v = code.vector(self.element)
        name = f"llvm.fma.v{LANES}f{8 * self.size}"
        code.declared.add(f"declare {v} @{name}({v}, {v}, {v})")
        code.set(total, code.new(f"call {v} @{name}({v} {factor}, {v} {row}, {v} {code.get(total)})"))

    def _put(self, code: Code, sums: list[list[Var]], more: bool) -> None:
        v = code.vector(self.element)
        for i, line in enumerate(sums):
            start = code.at("%c", code.new(f"mul i64 %cstep, {i}"), "i8")
            for j, total in enumerate(line):
                place, value = code.at(start, str(LANES * j), self.element), code.get(total)
                if more:
                    value = code.binary_op("fadd", self.element, code.load(v, place, self.size), value)
                code.store(v, value, place, self.size)

    def _product(self, form: str) -> tuple[Code, str]:
        code = Code(self.target)
        j = code.var("i64", "0")
        for width in self.widths:
            step = LANES * width

            def left(step: int = step) -> str:
                return code.new(f"icmp sle i64 {code.new(f'add i64 {code.get(j)}, {step}')}, %columns")

            with code.repeat_while(left):
                self._column(code, form, width, code.get(j))
                code.set(j, code.new(f"add i64 {code.get(j)}, {step}"))
        text = code.function(f"product_{form}", f"i64 %rows, i64 %columns, {_PARAMETERS}", inside=True)
        return code, text

    def _column(self, code: Code, form: str, width: int, j: str) -> None:
        """All rows of some columns."""
        i = code.var("i64", "0")
        b, c = code.at("%b", j, self.element), code.at("%c", j, self.element)
        for height in self.heights[form]:

            def left(height: int = height) -> str:
                return code.new(f"icmp sle i64 {code.new(f'add i64 {code.get(i)}, {height}')}, %rows")

            with code.repeat_while(left):
                row = code.get(i)
                a = code.at("%a", code.new(f"mul i64 {row}, %arow"), "i8") if form == "s" else code.at("%a", row, self.element)
                out = code.at(c, code.new(f"mul i64 {row}, %cstep"), "i8")
                given = ("%depth", a, "%arow", b, "%bstep", out, "%cstep", "%more")
                arguments = ", ".join(f"{t} {x}" for t, x in zip(_TYPES, given, strict=True))
                code.plain(f"call void @{_name(form, height, width)}({arguments})")
                code.set(i, code.new(f"add i64 {row}, {height}"))


def _name(form: str, height: int, width: int) -> str:
    return f"tile_{form}_{height}x{width}"
