"""What happens to a block of scores between the two products, and to a block of results after the second.

Scores lie turned: a row for each key, a column for each query. Whatever is found per query is then found in the lanes of vectors.
"""

from __future__ import annotations

from typing import Final

from ..llvm import Value
from ..rows.code import BYTES, LANES, Code, Var
from ..rows.types import Kind
from ..stencils.target import Target

LOWEST: Final = "0xFFF0000000000000"  # minus infinity
PLAIN, KEEP, ADD = 0, 1, 2  # kinds of masks


class Steps:
    """The functions `scores`, `exps` and `finish` of one element type."""

    def __init__(self, target: Target, kind: Kind) -> None:
        self.target, self.kind, self.wide, self.size = target, kind, kind.wide, BYTES[kind.wide]

    def functions(self) -> list[tuple[Code, str]]:
        return [self._scores(), self._exps(), self._finish()]

    def _scores(self) -> tuple[Code, str]:
        """`scores(keys, columns, s, step, scale, top, mask, kind, ahead)`: scaled, then masked, then `top` raised to the largest.

        `mask`, in the layout of the scores, keeps where it is not 0 (KEEP) or is added. Query j takes keys up to j + `ahead`.
        """
        code = Code(self.target)
        v = code.vector(self.wide)
        scale = code.spread(self.wide, "%scale")
        with code.loop("0", "%columns", LANES) as c:
            place = code.at("%top", c, self.wide)
            top = code.var(v, code.load(v, place, self.size))
            seen = code.new(f"add i64 {c}, %ahead")  # keys that the first query of the vector takes, less one

            def run(kind: int, c: str = c, top: Var = top, seen: str = seen) -> None:
                with code.loop("0", "%keys") as j:
                    at = code.at(code.at("%s", code.new(f"mul i64 %step, {j}"), "i8"), c, self.wide)
                    found = code.binary_op("fmul", self.wide, code.load(v, at, self.size), scale)
                    if kind != PLAIN:
                        found = self._taken(code, found, code.new(f"sub i64 {j}, {seen}"))
                        found = self._masked(code, found, code.at(code.at("%mask", code.new(f"mul i64 %step, {j}"), "i8"), c, self.wide), kind)
                    code.store(v, found, at, self.size)
                    code.set(top, code.larger(self.wide, found, code.get(top)))

            def masked(run: object = run) -> None:
                assert callable(run)
                code.choice(code.new(f"icmp eq i64 %kind, {KEEP}"), lambda: run(KEEP), lambda: run(ADD))

            code.choice(code.new(f"icmp eq i64 %kind, {PLAIN}"), lambda run=run: run(PLAIN), masked)  # type: ignore[misc]
            code.store(v, code.get(top), place, self.size)
        element = self.wide
        parameters = f"i64 %keys, i64 %columns, ptr %s, i64 %step, {element} %scale, ptr %top, ptr %mask, i64 %kind, i64 %ahead"
        return code, code.function("scores", parameters, inside=True)

    def _taken(self, code: Code, scores: str, beyond: str) -> str:
        """Scores of the queries (lanes) from number `beyond` on; the others are minus infinity."""
        numbers = ", ".join(f"i64 {k}" for k in range(LANES))
        mask = code.new(f"icmp sge {code.vector('i64')} <{numbers}>, {code.spread('i64', beyond)}")
        return code.choose(self.wide, mask, scores, code.same(self.wide, LOWEST))

    def _masked(self, code: Code, scores: str, place: str, kind: int) -> str:
        v = code.vector(self.wide)
        mask = code.load(v, place, self.size)
        if kind == ADD:
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
        code.ceiling = 0.0
        found = code.primitive(f"exp.{'f32' if self.wide == 'float' else 'f64'}", x)
        code.ceiling = None
        return found.name if isinstance(found, Value) else found

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
