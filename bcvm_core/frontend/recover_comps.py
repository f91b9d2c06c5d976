"""Comprehensions: their loops are read as statements, then turned into clauses.

3.11 calls a function for each; 3.12 runs all but generator expressions in place, with the loop's names
saved before and put back after.
"""

from __future__ import annotations

import ast
import types
from typing import Any

from .recover_code import Ins, Position
from .recover_flow import Flow
from .recover_trees import Append, Frame, Iterator, Saved, Unreadable, placed

_KINDS: dict[str, Any] = {"BUILD_LIST": ast.ListComp, "BUILD_SET": ast.SetComp, "BUILD_MAP": ast.DictComp}


def without_handlers(ins: list[Ins]) -> int:
    """How many instructions there are before the handlers that put a comprehension's names back."""
    count = len(ins)
    while count and ins[count - 1].op == "RERAISE":
        start = count - 2
        while start > 0 and ins[start].op == "STORE_FAST":
            start -= 1
        if [i.op for i in ins[start - 2 : start + 1]] == ["SWAP", "POP_TOP", "SWAP"]:
            count = start - 2
        elif ins[start].op == "CALL_INTRINSIC_1":
            count = start
        else:
            raise Unreadable("a handler")
    return count


def _clauses(statements: list[ast.stmt]) -> tuple[list[ast.comprehension], Append]:
    generators: list[ast.comprehension] = []
    while True:
        (node,) = statements
        if isinstance(node, Append) and generators:
            return generators, node
        if isinstance(node, ast.For) and not node.orelse:
            generators.append(ast.comprehension(node.target, node.iter, [], 0))
        elif isinstance(node, ast.If) and not node.orelse and generators:
            generators[-1].ifs.append(node.test)
        else:
            raise Unreadable("a statement in a comprehension")
        statements = node.body


class Comprehensions(Flow):
    """Reads comprehensions of both kinds."""

    def inner_reader(self, code: types.CodeType) -> Comprehensions:
        """A reader for a code constant of this code."""
        raise NotImplementedError

    def comprehension(self, code: types.CodeType, iterable: ast.expr, pos: Position | None) -> ast.expr:
        inner = self.inner_reader(code)
        if code.co_name == "<genexpr>":
            return inner.looped(ast.GeneratorExp, iterable, 3, pos)
        return inner.looped(_KINDS[inner.ins[0].op], iterable, 2, pos)

    def looped(self, kind: Any, iterable: ast.expr, start: int, pos: Position | None) -> ast.expr:
        """The comprehension whose loop begins at `start`."""
        loop = self.ins[start]
        if loop.op != "FOR_ITER" or not start < loop.target <= len(self.ins):
            raise Unreadable("a comprehension")
        generators, added = _clauses(self.block(start, loop.target, frozenset(), None, Iterator(iterable)))
        node: ast.expr = kind(*added.parts, generators)
        return placed(node, pos)

    def _special(self, pc: int, frame: Frame) -> int | None:
        if self.ins[pc].op == "LOAD_FAST_AND_CLEAR":
            return self._in_place(pc, frame)
        if self.ins[pc].op == "YIELD_VALUE" and self.code.co_name == "<genexpr>" and self._ops(pc + 1, "POP_TOP"):
            frame.emit(Append(frame.pop()))
            return pc + 2
        return super()._special(pc, frame)

    def _in_place(self, pc: int, frame: Frame) -> int:
        count = 0
        while self.ins[pc + count].op == "LOAD_FAST_AND_CLEAR":
            count += 1
        start = pc + count
        iterator = frame.raw()
        built = self.ins[start + 1]
        if not isinstance(iterator, Iterator) or not self._ops(start, "SWAP", built.op, "SWAP", "FOR_ITER"):
            raise Unreadable("a comprehension")
        node = self.looped(_KINDS[built.op], iterator.value, start + 3, built.pos)
        for _ in range(count):
            frame.push(Saved())
        frame.push(node)
        return self.ins[start + 3].target
