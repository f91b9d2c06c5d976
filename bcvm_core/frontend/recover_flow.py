"""Statements with control flow: `if`, loops, `break`, `continue`, `return`, `raise`, `assert`.

A block is read from `pc` to `end`; `joins` are jump targets that mean its end. Loops are found first:
a `for` by its FOR_ITER, a `while` by the copy of its test at the bottom, `while True` by its jump back.
"""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass, field

from .recover_choice import Choices, Test, opposite, reduced
from .recover_code import CONDITIONAL, Ins, Position, one_line_of, read
from .recover_exits import with_shared_exits
from .recover_trees import Frame, Item, Iterator, Unreadable, placed, spot

Joins = frozenset[int]


@dataclass(slots=True)
class Loop:
    """The loop around a block: where `continue` goes, and where its `break`s went."""

    head: int
    iterates: bool
    exits: set[int] = field(default_factory=set)


class Flow(Choices):
    """Reads statement lists."""

    def __init__(self, code: types.CodeType) -> None:
        super().__init__(code)
        self.ins = with_shared_exits(read(code))
        self.whiles: dict[int, tuple[int, int, int]] = {}  # start -> (body, bottom test, last jump)
        self.endless: dict[int, int] = {}  # start -> last jump
        self.open: set[int] = set()
        self._find_loops()
        self.starts = set(self.whiles) | set(self.endless)
        self.elsewhere = {i.pos for i in self.ins if i.op not in ("JUMP", "NOP")}

    # -- finding loops ----------------------------------------------------------------------------

    def _find_loops(self) -> None:
        bottoms: dict[int, int] = {}
        for n, ins in enumerate(self.ins):
            if ins.op in CONDITIONAL and 0 <= ins.target <= n and self.ins[ins.target].op != "FOR_ITER":
                bottoms[ins.target] = n
        for body, last in bottoms.items():
            start, bottom = body, last + 1
            while start > 0 and bottom > body and self._alike(self.ins[start - 1], self.ins[bottom - 1]):
                start, bottom = start - 1, bottom - 1
            self.whiles[start] = body, bottom, last
        for n, ins in enumerate(self.ins):
            if ins.op == "JUMP" and 0 <= ins.target <= n and ins.target not in self.whiles and self.ins[ins.target].op != "FOR_ITER":
                self.endless[ins.target] = n

    @staticmethod
    def _alike(a: Ins, b: Ins) -> bool:
        return a.pos == b.pos and (a.op == b.op or (a.op in CONDITIONAL and b.op in CONDITIONAL))

    # -- blocks -----------------------------------------------------------------------------------

    def block(self, pc: int, end: int, joins: Joins, loop: Loop | None, first: Item | Iterator | None = None) -> list[ast.stmt]:
        """The statements from `pc` to `end`. Raises Unreadable."""
        out: list[ast.stmt] = []
        frame = Frame([first] if first is not None else [], out)
        joins = joins | {end}
        while pc < end:
            pc = self._statement(pc, end, joins, loop, frame)
        if frame.values or frame.parallel or pc != end:
            raise Unreadable("a block ends within a statement")
        return out

    def _statement(self, pc: int, end: int, joins: Joins, loop: Loop | None, frame: Frame) -> int:
        if not frame.values and pc not in self.open:
            if pc in self.whiles:
                return self._while(pc, end, joins, frame)
            if pc in self.endless:
                return self._endless(pc, end, joins, frame)
        ins = self.ins[pc]
        if ins.op == "POP_TOP" and not frame.values and loop is not None and loop.iterates:
            return self._leave_for(pc, loop, frame)
        before = len(frame.out or ())
        stop = self.run(pc, pc + 1 if ins.op == "NOP" else end, frame)
        if stop == end or len(frame.out or ()) > before:
            return stop
        return self._control(stop, end, joins, loop, frame)

    def _control(self, pc: int, end: int, joins: Joins, loop: Loop | None, frame: Frame) -> int:
        ins = self.ins[pc]
        if ins.op in CONDITIONAL:
            return self._if(pc, end, joins, loop, frame)
        if ins.op == "FOR_ITER":
            return self._for(pc, end, joins, frame)
        if ins.op in ("RETURN_VALUE", "RETURN_CONST"):
            return self._return(pc, loop, frame)
        if ins.op == "RAISE_VARARGS":
            return self._raise(pc, frame)
        if ins.op == "JUMP" and not frame.values:
            return self._jump(pc, end, joins, loop, frame)
        if ins.op == "NOP" and not frame.values:
            return self._nop(pc, frame)
        raise Unreadable(ins.op)

    def _nop(self, pc: int, frame: Frame) -> int:
        pos = self.ins[pc].pos
        if pc + 1 in self.starts - self.open:
            return pc + 1
        if one_line_of(pos, "pass"):
            frame.emit(placed(ast.Pass(), pos))
        return pc + 1

    # -- leaving ----------------------------------------------------------------------------------

    def _return(self, pc: int, loop: Loop | None, frame: Frame) -> int:
        ins = self.ins[pc]
        if ins.op == "RETURN_CONST":
            self.do_LOAD_CONST(ins, frame)
        value = frame.pop()
        if frame.values or frame.parallel:
            raise Unreadable("return within an expression")
        none = isinstance(value, ast.Constant) and value.value is None and spot(value) == ins.pos
        written = one_line_of(ins.pos, "None") and self._new_place(pc)
        node: ast.Return = placed(ast.Return(None if none and not written else value), ins.pos)
        node.of_end = none and not written and not one_line_of(ins.pos, "return") and loop is None  # type: ignore[attr-defined]
        frame.emit(node)
        return pc + 1

    def _new_place(self, pc: int) -> bool:
        """Is the value returned at `pc` one of the source? The function's end has the place of what went before."""
        start = pc - (self.ins[pc].op == "RETURN_VALUE")
        return start > 0 and self.ins[start - 1].pos != self.ins[pc].pos

    def _raise(self, pc: int, frame: Frame) -> int:
        ins = self.ins[pc]
        parts: list[ast.expr | None] = [*frame.take(ins.arg), None, None]
        node: ast.stmt = placed(ast.Raise(parts[0], parts[1]), ins.pos)
        if getattr(parts[0], "of_assert", False):
            message = parts[0].args[0] if isinstance(parts[0], ast.Call) else None
            node = placed(ast.Assert(ast.Constant(False), message), ins.pos)
        frame.emit(node)
        return pc + 1

    def _explicit(self, pc: int, word: str) -> bool:
        """Is the jump at `pc` a `break` or `continue` of the source? Others carry the place of what went before."""
        pos = self.ins[pc].pos
        return one_line_of(pos, word) and pos not in self.elsewhere

    def _jump(self, pc: int, end: int, joins: Joins, loop: Loop | None, frame: Frame) -> int:
        ins = self.ins[pc]
        if loop is not None and ins.target == loop.head and (self._explicit(pc, "continue") or ins.target not in joins or pc < end - 1):
            frame.emit(placed(ast.Continue(), ins.pos))
        elif ins.target in joins and pc == end - 1 and not self._explicit(pc, "break"):
            pass
        elif loop is not None and not loop.iterates:
            loop.exits.add(ins.target)
            frame.emit(placed(ast.Break(), ins.pos))
        else:
            raise Unreadable("a jump")
        return pc + 1

    def _leave_for(self, pc: int, loop: Loop, frame: Frame) -> int:
        """POP_TOP of the iterator: `break`, or `return` of a constant."""
        ins = self.ins[pc]
        following = self.ins[pc + 1]
        if following.op == "JUMP":
            loop.exits.add(following.target)
            frame.emit(placed(ast.Break(), ins.pos))
            return pc + 2
        if following.op == "POP_TOP":
            return pc + 1
        if following.op in ("LOAD_CONST", "RETURN_CONST"):
            return pc + 1
        raise Unreadable("a loop is left")

    # -- if ---------------------------------------------------------------------------------------

    def _if(self, pc: int, end: int, joins: Joins, loop: Loop | None, frame: Frame) -> int:
        test = reduced(self.tests(pc, end, frame.pop()))[0]
        if frame.values or test.keeps:
            raise Unreadable("a jump within an expression")
        body, orelse, following = self._arms(test, end, joins, loop)
        condition = opposite(test.test) if test.when else test.test
        if len(body) == 1 and isinstance(body[0], ast.Assert) and isinstance(body[0].test, ast.Constant) and not orelse:
            asserted = test.test if test.when else opposite(test.test)
            checked = placed(ast.Assert(asserted, body[0].msg), spot(body[0]), asserted)
            frame.emit(checked)
            return following
        node = ast.If(condition, body or self._nothing(test.target - 1), orelse)
        frame.emit(placed(node, test.place, condition, *body, *orelse))
        return following

    def _nothing(self, pc: int) -> list[ast.stmt]:
        """The `pass` of an empty body; the instruction at its end may tell where it stands."""
        return [placed(ast.Pass(), self.ins[pc].pos)]

    def _arms(self, test: Test, end: int, joins: Joins, loop: Loop | None) -> tuple[list[ast.stmt], list[ast.stmt], int]:
        middle = test.target
        if test.after < test.dropped_at:
            return self.block(test.after, test.dropped_at, frozenset(), loop), [], middle
        if middle in joins:
            return self.block(test.after, end, joins, loop), [], end
        if test.after <= middle < end:
            return self._both_arms(test.after, middle, end, joins, loop)
        if loop is not None and not loop.iterates and middle > end:
            loop.exits.add(middle)
            return self.block(test.after, end, joins, loop), [placed(ast.Break(), spot(test.test))], end
        raise Unreadable("a jump out of a block")

    def _both_arms(self, start: int, middle: int, end: int, joins: Joins, loop: Loop | None) -> tuple[list[ast.stmt], list[ast.stmt], int]:
        last = self.ins[middle - 1]
        if middle > start and last.op == "JUMP" and not self._explicit(middle - 1, "continue") and not self._explicit(middle - 1, "break"):
            if middle < last.target <= end:
                more = joins if last.target == end else frozenset()
                body = self.block(start, middle - 1, more | {last.target}, loop)
                return body, self.block(middle, last.target, more, loop), last.target
            if last.target in joins:
                return self.block(start, middle - 1, joins, loop), self.block(middle, end, joins, loop), end
        body = self.block(start, middle, frozenset(), loop)
        if body and getattr(body[-1], "of_end", False):
            return body, self.block(middle, end, joins, loop), end
        return body, [], middle

    # -- loops ------------------------------------------------------------------------------------

    def _for(self, pc: int, end: int, joins: Joins, frame: Frame) -> int:
        iterator, ins = frame.raw(), self.ins[pc]
        if not isinstance(iterator, Iterator) or frame.values or not pc < ins.target <= end:
            raise Unreadable("a loop")
        loop = Loop(pc, True)
        last = self.ins[ins.target - 1]
        falls = last.op == "JUMP" and last.target == pc and not self._explicit(ins.target - 1, "continue")
        statements = self.block(pc + 1, ins.target - falls, frozenset({pc}), loop, Item())
        first, *body = statements
        if not isinstance(first, ast.Assign) or not isinstance(first.value, Item) or len(first.targets) != 1:
            raise Unreadable("a loop's target")
        orelse, following = self._orelse(ins.target, end, joins, loop)
        node = ast.For(first.targets[0], iterator.value, body or self._nothing(ins.target - 1), orelse)
        frame.emit(placed(node, ins.pos, iterator.value))
        return following

    def _orelse(self, start: int, end: int, joins: Joins, loop: Loop) -> tuple[list[ast.stmt], int]:
        further = [e for e in loop.exits if start < e <= end]
        if not further:
            return [], start
        following = max(further)
        return self.block(start, following, joins if following == end else frozenset(), None), following

    def _while(self, pc: int, end: int, joins: Joins, frame: Frame) -> int:
        body_start, bottom, last = self.whiles[pc]
        if last >= end:
            raise Unreadable("a loop over the end of a block")
        self.open.add(pc)
        inner = Frame()
        stop = self.run(pc, body_start, inner, choose=False)
        if stop >= body_start or self.ins[stop].op not in CONDITIONAL:
            raise Unreadable("a loop's test")
        tests = reduced(self.tests(stop, body_start, inner.pop()))
        test = tests[0]
        if len(tests) != 1 or test.after != body_start or inner.values or test.keeps:
            raise Unreadable("a loop's test")
        condition = opposite(test.test) if test.when else test.test
        loop = Loop(pc, False)
        body = self.block(body_start, bottom, frozenset(), loop)
        self.open.discard(pc)
        orelse, following = self._orelse(last + 1, end, joins, loop)
        node = ast.While(condition, body or self._nothing(bottom - 1), orelse)
        frame.emit(placed(node, test.place, condition, *body, *orelse))
        return following

    def _endless(self, pc: int, end: int, joins: Joins, frame: Frame) -> int:
        last = self.endless[pc]
        if last >= end:
            raise Unreadable("a loop over the end of a block")
        self.open.add(pc)
        loop = Loop(pc, False)
        falls = not self._explicit(last, "continue")
        body = self.block(pc, last + (not falls), frozenset({pc}), loop)
        self.open.discard(pc)
        before = self.ins[pc - 1] if pc else None
        pos = before.pos if before is not None and before.op == "NOP" else self.ins[last].pos
        true = self._true(pos)
        frame.emit(placed(ast.While(true, body or self._nothing(last), []), pos, *body))
        return last + 1

    def _true(self, pos: Position | None) -> ast.Constant:
        """The test of an endless loop, of which only a place is left: its own, or (3.11) that of the loop."""
        if one_line_of(pos, "True") or one_line_of(pos, "1"):
            return placed(ast.Constant(True if one_line_of(pos, "True") else 1), pos)
        value = True if any(c is True for c in self.code.co_consts) else 1
        start = pos or (1, 0, 1, 0)
        return placed(ast.Constant(value), (start[0], start[1] + 6, start[0], start[1] + 6 + len(repr(value))))


def strip_end(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Take out the `return None` that the compiler puts at a function's end."""
    if not statements:
        return statements
    last = statements[-1]
    if getattr(last, "of_end", False):
        return statements[:-1] or [placed(ast.Pass(), spot(last))]
    if isinstance(last, ast.If):
        last.body = strip_end(last.body) or last.body
        last.orelse = strip_end(last.orelse)
    return statements
