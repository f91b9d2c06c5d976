"""The machine code of attention over one element type: whole blocks of queries, one after another.

A task is a block of queries of one head. Its scores are the only ones in memory, unless the call says where all of them are kept
between the two halves of the work; either way each element goes through the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ..loops import MAKERS, Loop
from ..rows.code import BYTES, LANES, Code, module
from ..rows.types import KINDS, Kind
from ..stencils.target import Target, host
from . import moves
from .steps import CAUSAL, KEEP, LOWEST, PLAIN, Steps
from .tiles import Tiles

KEYS: Final = 64  # keys whose products are one chain before they are added to the others; their scores stay in the first cache
DEPTH: Final = 256  # the same for the elements of a query
SCORES, REST = 1, 2  # halves of the work

OF_CALL: Final = ("q", "k", "v", "mask", "out", "scores", "half", "causal", "mask_kind", "scale")  # what differs from call to call
PLACES: Final = ("turned", "s", "mask_block", "keys_block", "values_block", "results", "more", "top", "sums", "zeros")  # in scratch memory
OF_PLAN: Final = (
    *(f"{name}{what}" for name in ("q", "k", "v", "mask") for what in ("_at", "_row", "_column")),
    *("n", "m", "d", "e", "rows", "blocks", "k_direct", "v_direct"),
    *PLACES,
)
FIELD: Final = {name: 8 * k for k, name in enumerate((*OF_CALL, *OF_PLAN))}


class Attention:
    """Writes `attention_<dtype>(arguments, scratch, first, last)`: tasks first to last - 1 by the fields of `FIELD`.

    Operands are given by where their data pointers lie, so that array objects will do.
    """

    def __init__(self, target: Target, dtype: str) -> None:
        self.target, self.kind = target, KINDS[dtype]
        self.code, self.size, self.dtype = Code(target), BYTES[self.kind.wide], dtype

    def text(self) -> str:
        """The module."""
        wide = self.kind.wide
        others = {"same": self.kind, "keep": Kind("bool", "i8", wide, "uitofp"), "add": Kind("wide", wide, wide)}
        parts = [*Tiles(self.target, wide).functions(), *Steps(self.target, self.kind).functions(), moves.widen(self.target, self.kind)]
        parts += [moves.turn(self.target, kind, name) for name, kind in others.items()]
        parts += [moves.repeat(self.target, kind, name) for name, kind in others.items() if name != "same"]
        return module([*parts, self._main()])

    # -- words ----------------------------------------------------------------------------------

    def _field(self, name: str, kind: str = "i64") -> str:
        return self.code.load(kind, self.code.at("%a", str(FIELD[name]), "i8"), 8)

    def _scratch(self, name: str) -> str:
        return self.code.at("%scratch", self._field(name), "i8")

    def _op(self, name: str, a: str, b: str) -> str:
        return self.code.new(f"{name} i64 {a}, {b}")

    def _least(self, a: str, b: str) -> str:
        return self.code.new(f"select i1 {self._is('slt', a, b)}, i64 {a}, i64 {b}")

    def _is(self, predicate: str, a: str, b: str) -> str:
        return self.code.new(f"icmp {predicate} i64 {a}, {b}")

    def _moved(self, pointer: str, count: str, step: str) -> str:
        """A pointer some steps further."""
        return self.code.at(pointer, self._op("mul", count, step), "i8")

    def _call(self, function: str, *arguments: str) -> None:
        """`arguments`: each with its type."""
        self.code.plain(f"call void @{function}({', '.join(arguments)})")

    def _operand(self, name: str, head: str) -> str:
        """Where an operand's matrix of one head begins."""
        at = self.code.load("i64", self.code.at(self._field(f"{name}_at", "ptr"), head, "i64"), 8)
        return self.code.at(self.code.load("ptr", self._field(name, "ptr"), 8), at, "i8")

    def _padded(self, count: str) -> str:
        return self._op("and", self._op("add", count, str(LANES - 1)), str(-LANES))

    def _fill(self, place: str, count: str, value: str) -> None:
        with self.code.loop("0", count, LANES) as c:
            self.code.store(
                self.code.vector(self.kind.wide), self.code.same(self.kind.wide, value), self.code.at(place, c, self.kind.wide), self.size
            )

    # -- the function ---------------------------------------------------------------------------

    def _main(self) -> tuple[Code, str]:
        code = self.code
        events = code.slot("i32", 4)
        self._call_with_events("stmxcsr", events)
        with code.loop("%first", "%last") as task:
            self._task(task)
        self._call_with_events("ldmxcsr", events)
        return code, code.function(f"attention_{self.dtype}", "ptr %a, ptr %scratch, i64 %first, i64 %last")

    def _call_with_events(self, name: str, place: str) -> None:
        """Keep the processor's event flags, or put them back."""
        self.code.declared.add(f"declare void @llvm.x86.sse.{name}(ptr)")
        self.code.plain(f"call void @llvm.x86.sse.{name}(ptr {place})")

    def _task(self, task: str) -> None:
        code, blocks = self.code, self._field("blocks")
        self.head = self._op("sdiv", task, blocks)
        rows = self._field("rows")
        self.first = self._op("mul", self._op("sub", task, self._op("mul", self.head, blocks)), rows)
        self.count = self._least(rows, self._op("sub", self._field("n"), self.first))
        self.columns = self._padded(self.count)
        self.step = self._op("mul", rows, str(self.size))
        m, scores = self._field("m"), self._field("scores")
        own, kept = self._scratch("s"), code.new(f"inttoptr i64 {scores} to ptr")
        whole = self._moved(kept, task, self._op("mul", m, self.step))
        self.s = code.new(f"select i1 {self._is('eq', scores, '0')}, ptr {own}, ptr {whole}")
        reached = self._least(m, self._op("add", self.first, self.count))
        self.end = code.new(f"select i1 {self._is('ne', self._field('causal'), '0')}, i64 {reached}, i64 {m}")
        half = self._field("half")
        self._fill(self._scratch("top"), self.columns, LOWEST)
        with code.when(self._is("ne", half, str(REST))):
            self._products(self._is("eq", half, "0"))
        with code.when(self._is("eq", half, str(REST))):
            self._key_blocks("0", self.end, self._softmax)
        with code.when(self._is("ne", half, str(SCORES))):
            self._results()

    def _key_blocks(self, start: str, end: str, action: Callable[[str, str, str], None]) -> None:
        """action(first key, number of keys, their scores) for the blocks between."""
        with self.code.loop(start, end, KEYS) as j:
            action(j, self._least(str(KEYS), self._op("sub", end, j)), self._moved(self.s, j, self.step))

    def _products(self, soon: str) -> None:
        """Scores of the task: keys times queries; where `soon` holds they are scaled and masked while they are near."""
        turned, d = self._scratch("turned"), self._field("d")
        q = self._moved(self._operand("q", self.head), self.first, self._field("q_row"))
        where = f"i64 {self._field('q_row')}", f"i64 {self._field('q_column')}", f"i64 {self.count}", f"i64 {d}"
        self._call("turn_same", f"ptr {q}", *where, f"ptr {turned}", f"i64 {self.step}")

        def block(j: str, keys: str, scores: str) -> None:
            a, a_step = self._matrix("k", j, keys, d, "keys_block", self._op("mul", self._padded(d), str(self.size)))
            with self.code.loop("0", d, DEPTH) as c:
                depth = self._least(str(DEPTH), self._op("sub", d, c))
                self._product("s", keys, self.columns, depth, (self.code.at(a, c, self.kind.wide), a_step),
                              self._moved(turned, c, self.step), self.step, scores, self.step, self._is("sgt", c, "0"))  # fmt: skip
            with self.code.when(soon):
                self._softmax(j, keys, scores)

        self._key_blocks("0", self.end, block)

    def _matrix(self, name: str, j: str, keys: str, columns: str, place: str, step: str) -> tuple[str, str]:
        """(pointer, bytes from row to row) of some rows of keys or values: as they lie, or widened in scratch memory."""
        code = self.code
        source = self._moved(self._operand(name, self.head), j, self._field(f"{name}_row"))
        found, found_step = code.var("ptr", source), code.var("i64", self._field(f"{name}_row"))
        with code.when(self._is("eq", self._field(f"{name}_direct"), "0")):
            where = f"i64 {self._field(f'{name}_row')}", f"i64 {self._field(f'{name}_column')}", f"i64 {keys}", f"i64 {columns}"
            self._call("widen", f"ptr {source}", *where, f"ptr {self._scratch(place)}", f"i64 {step}")
            code.set(found, self._scratch(place))
            code.set(found_step, step)
        return code.get(found), code.get(found_step)

    def _product(
        self, form: str, rows: str, columns: str, depth: str, a: tuple[str, str], b: str, b_step: str, c: str, c_step: str, more: str
    ) -> None:
        numbers = f"i64 {rows}", f"i64 {columns}", f"i64 {depth}"
        matrices = (x for pointer, step in (a, (b, b_step), (c, c_step)) for x in (f"ptr {pointer}", f"i64 {step}"))
        self._call(f"product_{form}", *numbers, *matrices, f"i1 {more}")

    def _softmax(self, j: str, keys: str, scores: str) -> None:
        """A block of scores scaled and masked, and the largest of each query."""
        code, top, scale = self.code, self._scratch("top"), self._field("scale", "double")
        if self.kind.wide == "float":
            scale = code.new(f"fptrunc double {scale} to float")
        kind, causal = self._field("mask_kind"), self._is("ne", self._field("causal"), "0")
        with code.when(self._is("ne", kind, str(PLAIN))):
            self._mask(j, keys, kind)
        last = self._op("sub", self._op("add", j, keys), self.first)  # above 1: the first query does not see all of these keys
        crosses = code.new(f"and i1 {causal}, {self._is('sgt', last, '1')}")
        how = code.new(f"select i1 {crosses}, i64 {self._op('or', kind, str(CAUSAL))}, i64 {kind}")
        self._call("scores", f"i64 {keys}", f"i64 {self.columns}", f"ptr {scores}", f"i64 {self.step}", f"{self.kind.wide} {scale}",
                   f"ptr {top}", f"ptr {self._scratch('mask_block')}", f"i64 {how}", f"i64 {self._op('sub', self.first, j)}")  # fmt: skip

    def _mask(self, j: str, keys: str, kind: str) -> None:
        """The part of the mask for some keys, in the layout of the scores."""
        code, row, column = self.code, self._field("mask_row"), self._field("mask_column")
        source = self._moved(self._moved(self._operand("mask", self.head), j, column), self.first, row)
        end = f"ptr {self._scratch('mask_block')}", f"i64 {self.step}"

        def both(function: Callable[[str], None]) -> None:
            code.choice(self._is("eq", kind, str(KEEP)), partial(function, "keep"), partial(function, "add"))

        def turn(name: str) -> None:
            self._call(f"turn_{name}", f"ptr {source}", f"i64 {row}", f"i64 {column}", f"i64 {self.count}", f"i64 {keys}", *end)

        def repeat(name: str) -> None:
            self._call(f"repeat_{name}", f"ptr {source}", f"i64 {column}", f"i64 {keys}", f"i64 {self.columns}", *end)

        code.choice(self._is("eq", row, "0"), lambda: both(repeat), lambda: both(turn))

    def _results(self) -> None:
        """Exponentials times values; what no query of the task sees counts too, 0 times each value, which may be infinite."""
        e, size = self._field("e"), str(self.size)
        width = self._padded(e)
        step = self._op("mul", width, size)
        top, sums, results, more = (self._scratch(name) for name in ("top", "sums", "results", "more"))
        self._fill(sums, self.columns, "0.0")
        self._fill(more, width, "0.0")

        def block(j: str, keys: str, scores: str) -> None:
            self._call("exps", f"i64 {keys}", f"i64 {self.columns}", f"ptr {scores}", f"i64 {self.step}", f"ptr {top}", f"ptr {sums}")
            b, b_step = self._matrix("v", j, keys, e, "values_block", step)
            self._product("p", self.count, width, keys, (scores, self.step), b, b_step, results, step, self._is("sgt", j, "0"))

        def unseen(j: str, keys: str, _scores: str) -> None:
            b, b_step = self._matrix("v", j, keys, e, "values_block", step)
            self._product("p", "1", width, keys, (self._scratch("zeros"), "0"), b, b_step, more, step, "true")

        self._key_blocks("0", self.end, block)
        self._fill(self._scratch("zeros"), str(LANES), "0.0")
        self._key_blocks(self.end, self._field("m"), unseen)
        n, item = self._field("n"), str(BYTES[self.kind.memory])
        row = self._op("add", self._op("mul", self.head, n), self.first)
        out = self._moved(self.code.load("ptr", self._field("out", "ptr"), 8), row, self._op("mul", e, item))
        self._call("finish", f"i64 {self.count}", f"i64 {e}", f"ptr {results}", f"i64 {step}", f"ptr {more}", f"ptr {sums}", f"ptr {out}")


class AttentionLoop(Loop):
    """`entry` is the address of the function; 0 until it is ready."""

    __slots__ = ("entry",)
    optimise = True

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.entry = 0

    def load(self) -> bool:
        """Take the code from the store; False when it is not there or can't be used."""
        if host() is None:
            self.failed = "there is no kernel for this processor or system"
            return False
        return super().load()

    def _ir(self) -> str:
        target = host()
        assert target is not None
        return Attention(target, self.dtype).text()

    def _symbols(self) -> list[str]:
        return [self.name]

    def _take(self, found: dict[str, int]) -> None:
        self.entry = found[self.name]


MAKERS["attention"] = AttentionLoop
