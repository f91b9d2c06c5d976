"""Conditional jumps inside expressions: `and`, `or`, `x if c else y`, chained comparisons, and the tests of statements.

A run of tests with only expressions between them is reduced, pair by pair, to one test with one target.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any

from .recover_code import CONDITIONAL, OR_POP, Ins, Position
from .recover_stores import Stores
from .recover_trees import Frame, Pending, Unreadable, placed, spot

_BUDGET = 100_000


@dataclass(slots=True)
class Test:
    """`test`, which jumps to `target` when its truth is `when` and else goes on at `after`; `keeps`: the value stays."""

    test: ast.expr
    when: bool
    target: int
    keeps: bool
    after: int
    place: Position | None  # of the statement, where the jump tells it
    dropped_at: int = -1  # where a chained comparison drops its middle value, when that is after the body


def opposite(test: ast.expr) -> ast.expr:
    """`not test`, with `is None` turned round as the compiler writes it."""
    if isinstance(test, ast.Compare) and getattr(test, "of_jump", False):
        other = ast.Is() if isinstance(test.ops[0], ast.IsNot) else ast.IsNot()
        node: ast.Compare = placed(ast.Compare(test.left, [other], test.comparators), spot(test))
        node.of_jump = True  # type: ignore[attr-defined]
        return node
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and getattr(test, "of_jump", False):
        return test.operand
    negated = placed(ast.UnaryOp(ast.Not(), test), None, test)
    negated.of_jump = True  # type: ignore[attr-defined]
    return negated


def _either(op: ast.boolop, left: ast.expr, right: ast.expr) -> ast.expr:
    values = [left, right]
    if isinstance(left, ast.BoolOp) and type(left.op) is type(op):
        values = [*left.values, right]
    if isinstance(right, ast.BoolOp) and type(right.op) is type(op):
        values = [*values[:-1], *right.values]
    return placed(ast.BoolOp(op, values), None, left, right)


def _merged(a: Test, b: Test) -> Test | None:
    """One test for two in a row, or None when they do not belong together."""
    if a.keeps and not b.keeps:
        return None
    if a.target == b.target and a.keeps == b.keeps:
        if a.when == b.when:
            left, op = a.test, ast.Or() if b.when else ast.And()
        elif a.keeps:
            return None
        else:
            left, op = opposite(a.test), ast.Or() if b.when else ast.And()
    elif a.target == b.after and not a.keeps:
        op = ast.And() if b.when else ast.Or()
        left = a.test if a.when != b.when else opposite(a.test)
    else:
        return None
    both = _either(op, left, b.test)
    if b.keeps:  # each jump tells where its own `and` or `or` stands
        return replace(b, test=both if a.keeps else placed(both, a.place))
    return replace(b, test=both, place=a.place or b.place)


def reduced(tests: list[Test]) -> list[Test]:
    """Merge neighbours until nothing changes."""
    tests = list(tests)
    changed = True
    while changed:
        changed = False
        for n in range(len(tests) - 2, -1, -1):
            one = _merged(tests[n], tests[n + 1])
            if one is not None:
                tests[n : n + 2] = [one]
                changed = True
    return tests


class Choices(Stores):
    """Runs instructions up to a limit; what it meets of conditional jumps inside expressions it resolves."""

    ins: list[Ins]
    starts: set[int]  # where loops begin: no expression goes over them
    steps = 0

    def run(self, pc: int, limit: int, frame: Frame, *, choose: bool = True, also: frozenset[int] = frozenset()) -> int:
        """Run from `pc`; stops at `limit`, at control flow, and after a finished statement. Returns where."""
        while pc < limit:
            self.steps += 1
            if self.steps > _BUDGET:
                raise Unreadable("too long")
            ins = self.ins[pc]
            if ins.op in CONDITIONAL:
                if not choose and len(frame.values) <= 1:
                    return pc
                following = self._choice(pc, limit, frame, also)
                if following is None:
                    return pc
                pc = following
                continue
            following = self._special(pc, frame)
            if following is None:
                if not self.simple(ins, frame):
                    return pc
                following = pc + 1
            pc = following
            if frame.out and not frame.values:
                return pc
        return pc

    def _ops(self, pc: int, *ops: str) -> bool:
        return [i.op for i in self.ins[pc : pc + len(ops)]] == list(ops)

    def _special(self, pc: int, frame: Frame) -> int | None:
        """Patterns over several instructions."""
        if self.ins[pc].op == "SWAP" and self.ins[pc].arg == 2:
            if len(frame.values) == 1 and self._ops(pc + 1, "POP_TOP"):
                return pc + 2  # a loop's iterator goes before the value is returned
            if self._ops(pc + 1, "COPY") and len(frame.values) >= 2:
                return self._open_chain(pc, frame)
        if self.ins[pc].op in ("COMPARE_OP", "IS_OP", "CONTAINS_OP") and hasattr(self._below(frame), "open_chain"):
            self.simple(self.ins[pc], frame)
            if self._ops(pc + 1, "JUMP", "SWAP", "POP_TOP"):
                return pc + 4
            return pc + 1
        return None

    def _below(self, frame: Frame) -> Any:
        return frame.values[-2] if len(frame.values) > 1 else None

    def _open_chain(self, pc: int, frame: Frame) -> int | None:
        """`a < b` of `a < b < c`: SWAP 2, COPY 2, the comparison, a jump to where `b` is dropped."""
        if pc + 4 >= len(self.ins) or self.ins[pc + 2].op not in ("COMPARE_OP", "IS_OP", "CONTAINS_OP"):
            return None
        if self.ins[pc + 3].op not in ("JUMP_IF_FALSE_OR_POP", "POP_JUMP_IF_FALSE"):
            return None
        self.simple(self.ins[pc + 2], frame)
        frame.values[-1].open_chain = self.ins[pc + 3].target
        return pc + 4

    # -- tests ------------------------------------------------------------------------------------

    def _test(self, pc: int, test: ast.expr) -> Test:
        ins = self.ins[pc]
        place = ins.pos if ins.pos != spot(test) or ins.op in OR_POP else None
        when = ins.op in ("POP_JUMP_IF_TRUE", "JUMP_IF_TRUE_OR_POP")
        if ins.op.endswith("NONE"):
            none = placed(ast.Constant(None), ins.pos)
            op = ast.Is() if "NOT" in ins.op else ast.IsNot()
            test, place = placed(ast.Compare(test, [op], [none]), ins.pos, test), None
            test.of_jump = True  # type: ignore[attr-defined]
        after, dropped = pc + 1, -1
        if isinstance(test, ast.Compare) and hasattr(test, "dropped_at"):
            if self._ops(after, "JUMP", "POP_TOP"):
                after = self.ins[after].target
            elif after < test.dropped_at < ins.target:
                dropped = test.dropped_at
        return Test(test, when, ins.target, ins.op in OR_POP, after, place, dropped)

    def tests(self, pc: int, limit: int, test: ast.expr) -> list[Test]:
        """The run of tests that begins with the one at `pc`, unreduced."""
        found = [self._test(pc, test)]
        while found[-1].after not in self.starts:
            frame = Frame()
            try:
                stop = self.run(found[-1].after, limit, frame, choose=False)
                if stop >= limit or self.ins[stop].op not in CONDITIONAL or len(frame.values) != 1:
                    break
                found.append(self._test(stop, frame.pop()))
            except Unreadable:
                break
        return found

    def _choice(self, pc: int, limit: int, frame: Frame, also: frozenset[int]) -> int | None:
        """Resolve the jump at `pc` as part of an expression; None when it is a statement's."""
        if not frame.values or not isinstance(frame.values[-1], ast.expr | Pending):
            raise Unreadable("no value to test")
        kept = frame.values[-1]
        first = reduced(self.tests(pc, limit, frame.pop()))[0]
        if first.keeps:
            end = limit if first.target in also else first.target
            right = self.value(first.after, end, also)
            frame.push(placed(_either(ast.Or() if first.when else ast.And(), first.test, right), first.place))
            return end
        found = self._ternary(first, limit, also)
        if found is None:
            frame.push(kept)
            return None
        node, following = found
        frame.push(node)
        return following

    def _ternary(self, test: Test, limit: int, also: frozenset[int]) -> tuple[ast.expr, int] | None:
        middle = test.target
        if not test.after < middle <= limit or self.ins[middle - 1].op != "JUMP":
            return None
        end = self.ins[middle - 1].target
        if end in also:
            end = limit
        if not middle < end <= limit:
            return None
        inner = frozenset({self.ins[middle - 1].target})
        try:
            first = self.value(test.after, middle - 1, inner)
            second = self.value(middle, end, inner | (also if end == limit else frozenset()))
        except Unreadable:
            return None
        return conditional(test, first, second), end

    def value(self, pc: int, limit: int, also: frozenset[int] = frozenset()) -> ast.expr:
        """The one expression that `pc` to `limit` computes. `also`: other targets that mean `limit`."""
        frame = Frame()
        if limit > len(self.ins) or self.run(pc, limit, frame, also=also) != limit or len(frame.values) != 1:
            raise Unreadable("not an expression")
        return frame.pop()


def conditional(test: Test, if_goes_on: ast.expr, if_jumps: ast.expr) -> ast.expr:
    """`if_goes_on if test else if_jumps`."""
    condition = opposite(test.test) if test.when else test.test
    node = ast.IfExp(condition, if_goes_on, if_jumps)
    return placed(node, test.place, condition, if_goes_on, if_jumps)
