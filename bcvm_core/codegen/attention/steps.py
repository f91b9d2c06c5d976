"""What happens to a block of scores between the two products, and to a block of results after the second.

Scores lie turned: a row for each key, a column for each query. Whatever is found per query is then found in the lanes of vectors.
"""

from __future__ import annotations

from typing import Final

from ..rows.code import BYTES, LANES, Code
from ..rows.types import Kind
from ..stencils.target import Target

LEAST: Final = {"float": "-87.0", "double": "-708.0"}  # below it exp is no normal number, or nearly so
LOWEST: Final = "0xFFF0000000000000"  # minus infinity
PLAIN, KEEP, ADD, CAUSAL = 0, 1, 2, 4  # kinds of masks; the last one may join another


class Steps:
    """The functions `scores`, `exps` and `finish` of one element type."""

    def __init__(self, target: Target, kind: Kind) -> None:
        self.target, self.kind, self.wide, self.size = target, kind, kind.wide, BYTES[kind.wide]

    def functions(self) -> list[tuple[Code, str]]:
        return [self._scores(), self._exps(), self._finish()]

    def _scores(self) -> tuple[Code, str]:
        """`scores(keys, columns, s, step, scale, top, mask, kind, ahead)`: scaled, then masked, then `top` raised to the largest.

        `mask`, in the layout of the scores, keeps where it is not 0 (KEEP) or is added (ADD). With CAUSAL query j takes keys up to
        j + `ahead` only.
        """
        code = Code(self.target)
        kinds = [how | more for how in (PLAIN, KEEP, ADD) for more in (0, CAUSAL)]
        for kind in kinds:
            with code.when(code.new(f"icmp eq i64 %kind, {kind}")):
                self._scores_of(code, kind)
        element = self.wide
        parameters = f"i64 %keys, i64 %columns, ptr %s, i64 %step, {element} %scale, ptr %top, ptr %mask, i64 %kind, i64 %ahead"
        return code, code.function("scores", parameters, inside=True)

    def _scores_of(self, code: Code, kind: int) -> None:
        v = code.vector(self.wide)
        scale = code.spread(self.wide, "%scale")
        with code.loop("0", "%columns", LANES) as c:
            place = code.at("%top", c, self.wide)
            top = code.var(v, code.load(v, place, self.size))
            seen = code.new(f"add i64 {c}, %ahead")  # the last key that the first query of the vector takes
            with code.loop("0", "%keys") as j:
                line = code.new(f"mul i64 %step, {j}")
                at = code.at(code.at("%s", line, "i8"), c, self.wide)
                found = code.binary_op("fmul", self.wide, code.load(v, at, self.size), scale)
                if kind & (KEEP | ADD):
                    found = self._masked(code, found, code.at(code.at("%mask", line, "i8"), c, self.wide), kind & ADD != 0)
                if kind & CAUSAL:
                    found = self._taken(code, found, code.new(f"sub i64 {j}, {seen}"))
                code.store(v, found, at, self.size)
                code.set(top, code.larger(self.wide, found, code.get(top)))
            code.store(v, code.get(top), place, self.size)

    def _taken(self, code: Code, scores: str, beyond: str) -> str:
        """Scores of the queries (lanes) from number `beyond` on; the others are minus infinity."""
        numbers = ", ".join(f"i32 {k}" for k in range(LANES))
        first = code.new(f"trunc i64 {beyond} to i32")
        mask = code.new(f"icmp sge {code.vector('i32')} <{numbers}>, {code.spread('i32', first)}")
        return code.choose(self.wide, mask, scores, code.same(self.wide, LOWEST))

    def _masked(self, code: Code, scores: str, place: str, added: bool) -> str:
        v = code.vector(self.wide)
        mask = code.load(v, place, self.size)
        if added:
            return code.binary_op("fadd", self.wide, scores, mask)
        kept = code.new(f"fcmp une {v} {mask}, zeroinitializer")
        return code.choose(self.wide, kept, scores, code.same(self.wide, LOWEST))

    def _exps(self) -> tuple[Code, str]:
        """`exps(keys, columns, s, step, top, sums)`: exp of the distance to the largest; added up in order, then to `sums`."""
        code = Code(self.target)
        v = code.vector(self.wide)
        with code.loop("0", "%columns", LANES) as c:
            top = code.load(v, code.at("%top", c, self.wide), self.size)
            total = code.var(v, "zeroinitializer")
            with code.loop("0", "%keys") as j:
                at = code.at(code.at("%s", code.new(f"mul i64 %step, {j}"), "i8"), c, self.wide)
                found = self._exp(code, code.binary_op("fsub", self.wide, code.load(v, at, self.size), top))
                code.store(v, found, at, self.size)
                code.set(total, code.binary_op("fadd", self.wide, code.get(total), found))
            place = code.at("%sums", c, self.wide)
            code.store(v, code.binary_op("fadd", self.wide, code.load(v, place, self.size), code.get(total)), place, self.size)
        return code, code.function("exps", "i64 %keys, i64 %columns, ptr %s, i64 %step, ptr %top, ptr %sums", inside=True)

    def _exp(self, code: Code, x: str) -> str:
        """exp of what is not positive; 0 where it would be no normal number, with which processors are slow."""
        v, wide = code.vector(self.wide), self.wide
        some = code.new(f"fcmp uge {v} {x}, {code.same(wide, LEAST[wide])}")
        zero, at_once = code.same(wide, "0.0"), wide == "float" and code.scales_at_once
        code.ceiling, code.living = 0.0, some if at_once else None
        found = code.primitive(f"exp.{'f32' if wide == 'float' else 'f64'}", x if at_once else code.choose(wide, some, x, zero))
        code.ceiling = code.living = None
        return found if at_once else code.choose(wide, some, found, zero)

    def _finish(self) -> tuple[Code, str]:
        """`finish(rows, columns, x, xstep, more, sums, y)`: y[i][j] = (x[i][j] + more[j]) / sums[i], dense, by the sum's reciprocal."""
        code, kind = Code(self.target), self.kind
        v = code.vector(self.wide)
        with code.loop("0", "%rows") as i:
            total = code.load(self.wide, code.at("%sums", i, self.wide), self.size)
            factor = code.spread(self.wide, code.binary_op("fdiv", self.wide, "1.0", total, 0))
            x = code.at("%x", code.new(f"mul i64 %xstep, {i}"), "i8")
            y = code.at("%y", code.new(f"mul i64 %columns, {i}"), kind.memory)
            with code.loop("0", "%columns", LANES) as c:
                mask = code.first_lanes(code.new(f"sub i64 %columns, {c}"), 0)
                found = code.load(v, code.at(x, c, self.wide), self.size)
                more = code.load(v, code.at("%more", c, self.wide), self.size)
                found = code.binary_op("fmul", self.wide, code.binary_op("fadd", self.wide, found, more), factor)
                kind.store(code, found, y, c, mask)
        return code, code.function("finish", "i64 %rows, i64 %columns, ptr %x, i64 %xstep, ptr %more, ptr %sums, ptr %y", inside=True)
