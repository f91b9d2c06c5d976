"""Passes over one row: extremes, tree sums, and writing, for rows in registers and for rows in memory.

A recipe (`recipes.py`) is written once against `Row`. A value of a row is a function from a `Piece`,
sixteen neighbouring elements, to a vector. `Held` keeps a short row in registers from the first
pass to the last; `Streamed` goes through memory once per pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .code import BYTES, LANES, STEP, Code, Var
from .types import Kind

BLOCK: Final = 1024
LINE: Final = 64  # bytes of a line of the cache
AHEAD_MAX: Final = 32768  # elements of rows that are asked for while the row before is finished; of longer ones, the next block
Vector = Callable[["Piece"], str]


@dataclass(frozen=True, slots=True)
class Piece:
    """Sixteen elements from `index` on; `mask` says which of them belong to the row (None: all)."""

    row: Row
    number: int
    index: str
    mask: str | None

    @property
    def x(self) -> str:
        """The input's elements in the type of computation."""
        return self.row.input(self)

    def parameter(self, number: int) -> str:
        """The elements of a vector of parameters that stand in the same columns."""
        row = self.row
        pointer = row.code.get(row.parameters[number])
        return row.kind.load(row.code, pointer, self.index, self.mask)


class Row:
    """What both forms share; `n` is the length of the row, `source` and `target` its pointers."""

    def __init__(self, code: Code, kind: Kind, result: Kind, n: str, parameters: list[Var]) -> None:
        self.code, self.kind, self.result, self.n, self.parameters = code, kind, result, n, parameters
        self.wide = kind.wide
        self.source = self.target = ""

    def input(self, piece: Piece) -> str:
        raise NotImplementedError

    def keep(self, value: Vector) -> Vector:
        """A value that a later pass will want again."""
        raise NotImplementedError

    def largest(self, value: Vector, least: bool = False) -> str:
        """The largest element (or the least), NaN left out; a number."""
        raise NotImplementedError

    def tree(self, value: Vector, name: str = "fadd", last: bool = False) -> str:
        """The elements added or multiplied in the order of `ops/trees.py`; a number. `last`: no pass over this row follows."""
        raise NotImplementedError

    def write(self, value: Vector) -> None:
        """Fill the result's row."""
        raise NotImplementedError

    # -- arithmetic -----------------------------------------------------------------------------

    def op(self, name: str, a: str, b: str) -> str:
        """Vectors added, ..."""
        return self.code.binary_op(name, self.wide, a, b)

    def one(self, name: str, a: str, b: str) -> str:
        """Numbers added, ..."""
        return self.code.binary_op(name, self.wide, a, b, 0)

    def everywhere(self, number: str) -> str:
        return self.code.spread(self.wide, number)

    def extreme(self, least: bool) -> str:
        """The largest element as NumPy finds it, or the least.

        Where NumPy's result hangs on its order (zeros of both signs, NaN) it is NaN, and the event of an invalid operation is raised.
        """
        code = self.code
        found = self.largest(lambda p: p.x, least)
        everywhere, bits = self.everywhere(found), "i32" if self.wide == "float" else "i64"

        def doubt(p: Piece) -> str:
            same = code.new(f"fcmp ueq {code.vector(self.wide)} {p.x}, {everywhere}")
            ours, theirs = (code.convert("bitcast", self.wide, v, bits) for v in (p.x, everywhere))
            other = code.new(f"icmp ne {code.vector(bits)} {ours}, {theirs}")
            both = code.new(f"and {code.vector('i1')} {same}, {other}")
            return code.choose(self.wide, both, *(code.same(self.wide, INFINITE[k]) for k in (True, False)))

        nothing = self.one("fsub", self.largest(doubt), INFINITE[True])  # inf - inf where there is a doubt
        return code.new(f"select i1 {code.new(f'fcmp uno {self.wide} {nothing}, {nothing}')}, {self.wide} {nothing}, {self.wide} {found}")

    def function(self, name: str, vector: str) -> str:
        """A canonical algorithm."""
        return self.code.primitive(f"{name}.{'f32' if self.wide == 'float' else 'f64'}", vector)

    def exp_below_one(self, vector: str) -> str:
        """exp of what is not positive."""
        return self.code.exp(self.wide, vector, 0.0)

    def function_of_one(self, name: str, number: str) -> str:
        return self.code.new(f"extractelement {self.code.vector(self.wide)} {self.function(name, self.everywhere(number))}, i64 0")

    def root(self, number: str, wide: str = "") -> str:
        """A square root, of a number in the type of computation or `wide`."""
        wide = wide or self.wide
        name = f"llvm.sqrt.{'f32' if wide == 'float' else 'f64'}"
        self.code.declared.add(f"declare {wide} @{name}({wide})")
        return self.code.new(f"call {wide} @{name}({wide} {number})")

    # -- shared by both forms -------------------------------------------------------------------

    def _inside(self, piece: Piece, vector: str, outside: str) -> str:
        """A vector with `outside` in the lanes that do not belong to the row."""
        if piece.mask is None:
            return vector
        return self.code.choose(self.wide, piece.mask, vector, self.code.same(self.wide, outside))

    def _fold(self, parts: list[str], combine: Callable[[str, str, int], str]) -> str:
        """Four vectors (or one) combined in halves."""
        if len(parts) == 4:
            parts = [combine(combine(parts[0], parts[2], LANES), combine(parts[1], parts[3], LANES), LANES)]
        return self.code.folded(parts[0], self.wide, combine)

    def _combine(self, name: str) -> Callable[[str, str, int], str]:
        return lambda a, b, lanes: self.code.binary_op(name, self.wide, a, b, lanes)

    def _beyond(self, least: bool) -> Callable[[str, str, int], str]:
        return lambda a, b, lanes: self.code.larger(self.wide, a, b, lanes, least)

    def _end(self, number: str, name: str) -> str:
        """Step 5 of the tree."""
        return self.one("fadd", number, "0.0") if name == "fadd" else number


def _identity(name: str) -> str:
    return {"fadd": "0.0", "fmul": "1.0", "add": "0"}[name]


INFINITE: Final = {False: "0xFFF0000000000000", True: "0x7FF0000000000000"}  # below everything, above everything


class Held(Row):
    """One row of at most 16 elements per mask, which stays in registers; straight-line code."""

    def __init__(self, code: Code, kind: Kind, result: Kind, n: str, parameters: list[Var], masks: list[str]) -> None:
        super().__init__(code, kind, result, n, parameters)
        self.masks = masks
        self._loaded: dict[int, str] = {}

    def _pieces(self) -> list[Piece]:
        return [Piece(self, k, str(k * LANES), mask) for k, mask in enumerate(self.masks)]

    def input(self, piece: Piece) -> str:
        found = self._loaded.get(piece.number)
        if found is None:
            found = self._loaded[piece.number] = self.kind.load(self.code, self.source, piece.index, piece.mask)
        return found

    def keep(self, value: Vector) -> Vector:
        known: dict[int, str] = {}

        def kept(piece: Piece) -> str:
            if piece.number not in known:
                known[piece.number] = value(piece)
            return known[piece.number]

        return kept

    def largest(self, value: Vector, least: bool = False) -> str:
        return self._fold([self._inside(p, value(p), INFINITE[least]) for p in self._pieces()], self._beyond(least))

    def tree(self, value: Vector, name: str = "fadd", last: bool = False) -> str:
        parts = [self._inside(p, value(p), _identity(name)) for p in self._pieces()]
        return self._end(self._fold(parts, self._combine(name)), name)

    def write(self, value: Vector) -> None:
        for piece in self._pieces():
            self.result.store(self.code, value(piece), self.target, piece.index, piece.mask)


class Streamed(Row):
    """A row in memory."""

    def __init__(self, code: Code, kind: Kind, result: Kind, n: str, parameters: list[Var]) -> None:
        super().__init__(code, kind, result, n, parameters)
        self._stack = code.slot(f"[64 x {self.wide}]", 16)
        self._parts = [Var(code.slot(code.vector(self.wide)), code.vector(self.wide)) for _ in range(STEP // LANES)]
        self._depth = Var(code.slot("i64"), "i64")
        self._top = Var(code.slot(self.wide), self.wide)
        self._ones = Var(code.slot("i64"), "i64")
        self._writing = False
        self._is_short = code.new(f"icmp sle i64 {n}, {AHEAD_MAX}")
        self._ahead = code.new(f"select i1 {self._is_short}, i64 {n}, i64 {BLOCK}")

    def input(self, piece: Piece) -> str:
        return self.kind.load(self.code, self.source, piece.index, piece.mask)

    def keep(self, value: Vector) -> Vector:
        if self.result.memory != self.wide:
            return value  # is computed again: the result has no room for it

        def kept(piece: Piece) -> str:
            if self._writing:
                return self.result.load(self.code, self.target, piece.index, piece.mask)
            found = value(piece)
            self.result.store(self.code, found, self.target, piece.index, piece.mask)
            return found

        return kept

    def _over(self, start: str, end: str, action: Callable[[Piece], None], last: bool = False) -> None:
        """Every piece from start to end, in steps of four, the last step masked. `last`: what comes next is asked for."""
        code = self.code
        length = code.new(f"sub i64 {end}, {start}")
        whole = code.new(f"and i64 {length}, -{STEP}")
        stop = code.new(f"add i64 {start}, {whole}")
        with code.loop(start, stop, STEP) as i:
            if last:
                with code.when("true" if not self._writing else self._is_short):
                    self._ask_for(code.new(f"add i64 {i}, {self._ahead}"))
            for k in range(STEP // LANES):
                action(Piece(self, k, code.new(f"add i64 {i}, {k * LANES}"), None))
        rest = code.new(f"sub i64 {end}, {stop}")
        with code.when(code.new(f"icmp sgt i64 {rest}, 0")):
            for k in range(STEP // LANES):
                action(Piece(self, k, code.new(f"add i64 {stop}, {k * LANES}"), code.first_lanes(rest, k * LANES)))

    def _ask_for(self, index: str) -> None:
        """Let the elements of a step come into the cache; it does no harm where there is no memory."""
        code = self.code
        code.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        start = code.at(self.source, index, self.kind.memory)
        for byte in range(0, STEP * BYTES[self.kind.memory], LINE):
            code.plain(f"call void @llvm.prefetch.p0(ptr {code.at(start, str(byte), 'i8')}, i32 0, i32 3, i32 1)")

    def _begin(self, identity: str) -> None:
        for part in self._parts:
            self.code.set(part, self.code.same(self.wide, identity))

    def _take(self, piece: Piece, vector: str, combine: Callable[[str, str, int], str]) -> None:
        part = self._parts[piece.number]
        self.code.set(part, combine(vector, self.code.get(part), LANES))

    def largest(self, value: Vector, least: bool = False) -> str:
        combine = self._beyond(least)
        self._begin(INFINITE[least])
        self._over("0", self.n, lambda p: self._take(p, self._inside(p, value(p), INFINITE[least]), combine))
        return self._fold([self.code.get(part) for part in self._parts], combine)

    def tree(self, value: Vector, name: str = "fadd", last: bool = False) -> str:
        code, combine = self.code, self._combine(name)
        code.set(self._depth, "0")
        count = code.new(f"lshr i64 {code.new(f'add i64 {self.n}, {BLOCK - 1}')}, 10")
        with code.loop("0", count) as b:
            start = code.new(f"shl i64 {b}, 10")
            beyond = code.new(f"add i64 {start}, {BLOCK}")
            is_last = code.new(f"icmp slt i64 {self.n}, {beyond}")
            end = code.new(f"select i1 {is_last}, i64 {self.n}, i64 {beyond}")
            self._begin(_identity(name))
            self._over(
                start,
                end,
                lambda p: self._take(p, self._inside(p, value(p), _identity(name)), lambda v, old, lanes: combine(old, v, lanes)),
                last,
            )
            self._push(b, self._fold([code.get(part) for part in self._parts], combine), name)
        return self._end(self._unwound(name), name)

    def _push(self, b: str, block: str, name: str) -> None:
        """Step 4 without recursion: block b finds as many finished pairs on the stack as b has trailing ones."""
        code = self.code
        code.set(self._top, block)
        code.set(self._ones, b)
        with code.repeat_while(lambda: code.new(f"trunc i64 {code.get(self._ones)} to i1")):
            self._merge(name)
            code.set(self._ones, code.new(f"lshr i64 {code.get(self._ones)}, 1"))
        depth = code.get(self._depth)
        code.store(self.wide, code.get(self._top), code.at(self._stack, depth, self.wide), BYTES[self.wide])
        code.set(self._depth, code.new(f"add i64 {depth}, 1"))

    def _merge(self, name: str) -> None:
        code = self.code
        depth = code.new(f"sub i64 {code.get(self._depth)}, 1")
        left = code.load(self.wide, code.at(self._stack, depth, self.wide), BYTES[self.wide])
        code.set(self._top, self.one(name, left, code.get(self._top)))
        code.set(self._depth, depth)

    def pairs(self, name: str) -> str:
        """The elements, results of blocks, put together in neighbouring pairs: steps 4 and 5 of the tree; a number."""
        code = self.code
        code.set(self._depth, "0")
        with code.loop("0", self.n) as b:
            self._push(b, code.load(self.wide, code.at(self.source, b, self.wide), BYTES[self.wide]), name)
        return self._end(self._unwound(name), name)

    def _unwound(self, name: str) -> str:
        code = self.code
        depth = code.new(f"sub i64 {code.get(self._depth)}, 1")
        code.set(self._depth, depth)
        code.set(self._top, code.load(self.wide, code.at(self._stack, depth, self.wide), BYTES[self.wide]))
        with code.repeat_while(lambda: code.new(f"icmp sgt i64 {code.get(self._depth)}, 0")):
            self._merge(name)
        return code.get(self._top)

    def write(self, value: Vector) -> None:
        self._writing = True
        self._over("0", self.n, lambda p: self.result.store(self.code, value(p), self.target, p.index, p.mask), True)
        self._writing = False
