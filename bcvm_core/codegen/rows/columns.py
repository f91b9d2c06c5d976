"""Reductions of a middle axis: strips of columns, whose 64 partial results lie in the cache.

The tree is that of `ops/trees.py`. A block of 1,024 rows is 16 planes of 64; row j of the partial
results is row j of the first plane and takes in row j of the others. Where a strip is as wide as
the rows, a plane is contiguous and is gone through as one long line, however short its rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .code import LANES, STEP, Code
from .passes import INFINITE
from .types import Kind

STRIP: Final = {"float": 1024, "double": 512, "i64": 512}  # columns that are summed at a time
_AT_ONCE: Final = 4  # planes that are read side by side: with more streams than that the memory gives less
_LEVELS: Final = 40
_PLANE: Final = 64

Change = Callable[[str, str], str]  # (sixteen elements, the centres of their columns) -> what is reduced


@dataclass(slots=True)
class Strip:
    """The strip at hand: its width and the addresses of its first element and result."""

    width: str = ""
    source: str = ""
    target: str = ""


class Columns:
    """Writes the code that reduces one strip."""

    def __init__(self, code: Code, kind: Kind, result: Kind) -> None:
        self.code, self.kind, self.result, self.wide = code, kind, result, kind.wide
        elements = STRIP[self.wide]
        self.partials = code.slot(f"[{_PLANE * elements} x {self.wide}]", 64)
        self.centres = code.slot(f"[{_PLANE * elements} x {self.wide}]", 64)
        self._stack = code.slot(f"[{_LEVELS * elements} x {self.wide}]", 64)
        self._depth = code.var("i64", "0")
        self._ones = code.var("i64", "0")
        self._live = code.var("i64", "0")
        self._half = code.var("i64", "0")
        self.strip = Strip()

    # -- vectors --------------------------------------------------------------------------------

    def over(self, count: str, action: Callable[[str, str | None], None]) -> None:
        """action(index, mask) for sixteen elements at a time, four times per step, the last step masked."""
        code = self.code
        whole = code.new(f"and i64 {count}, -{STEP}")
        with code.loop("0", whole, STEP) as i:
            for k in range(STEP // LANES):
                action(code.new(f"add i64 {i}, {k * LANES}"), None)
        rest = code.new(f"sub i64 {count}, {whole}")
        for k in range(STEP // LANES):
            with code.when(code.new(f"icmp sgt i64 {rest}, {k * LANES}")):
                action(code.new(f"add i64 {whole}, {k * LANES}"), code.first_lanes(rest, k * LANES))

    def take(self, pointer: str, index: str, mask: str | None) -> str:
        """Elements of a buffer."""
        return self.code.load_lanes(self.wide, self.code.at(pointer, index, self.wide), mask)

    def put(self, value: str, pointer: str, index: str, mask: str | None) -> None:
        self.code.store_lanes(self.wide, value, self.code.at(pointer, index, self.wide), mask)

    def _combined(self, to: str, left: str, right: str, count: str, name: str) -> None:
        """to := left combined with right."""

        def action(index: str, mask: str | None) -> None:
            value = self.code.binary_op(name, self.wide, self.take(left, index, mask), self.take(right, index, mask))
            self.put(value, to, index, mask)

        self.over(count, action)

    def copy(self, to: str, source: str, count: str) -> None:
        self.over(count, lambda index, mask: self.put(self.take(source, index, mask), to, index, mask))

    # -- the tree -------------------------------------------------------------------------------

    def tree(self, n: str, pitch: str, name: str, change: Change | None = None) -> None:
        """Reduce the strip's columns into the first row of `partials`."""
        code = self.code
        code.set(self._depth, "0")
        count = code.new(f"lshr i64 {code.new(f'add i64 {n}, 1023')}, 10")
        with code.loop("0", count) as b:
            start = code.new(f"shl i64 {b}, 10")
            left = code.new(f"sub i64 {n}, {start}")
            short = code.new(f"icmp slt i64 {left}, 1024")
            m = code.new(f"select i1 {short}, i64 {left}, i64 1024")
            rows = code.at(self.strip.source, code.new(f"mul i64 {start}, {pitch}"), self.kind.memory)
            self._block(rows, m, pitch, name, change)
            self._fold(m, name)
            self._push(b, name)
        self._unwind(name)

    def _block(self, rows: str, m: str, pitch: str, name: str, change: Change | None) -> None:
        """The partial results of a block of m rows."""
        code, width = self.code, self.strip.width
        planes = code.new(f"lshr i64 {m}, 6")
        rest = code.new(f"and i64 {m}, {_PLANE - 1}")
        some = code.new(f"icmp sgt i64 {planes}, 0")
        is_whole = code.new(f"icmp eq i64 {width}, {pitch}")
        plane = code.new(f"mul i64 {pitch}, {_PLANE}")

        def lines(count: str, action: Callable[[str, str, str], None]) -> None:
            """action(offset in a plane, offset in the partials, elements) for the lines of `count` rows."""
            length = code.new(f"select i1 {is_whole}, i64 {code.new(f'mul i64 {count}, {width}')}, i64 {width}")
            number = code.new(f"select i1 {is_whole}, i64 1, i64 {count}")
            with code.loop("0", number) as j:
                action(code.new(f"mul i64 {j}, {pitch}"), code.new(f"mul i64 {j}, {width}"), length)

        def element(pointer: str, index: str, mask: str | None) -> str:
            x = self.kind.load(code, pointer, index, mask)
            return x if change is None else change(x, self.take(self.centres, index, mask))

        def some_planes(begin: str) -> Callable[[str, str, str], None]:
            """The planes from `begin` on, as many as are read side by side."""
            full = code.new(f"add i64 {begin}, {_AT_ONCE}")
            end = code.new(f"select i1 {code.new(f'icmp slt i64 {full}, {planes}')}, i64 {full}, i64 {planes}")

            def action(at: str, to: str, length: str) -> None:
                first, place = code.at(rows, at, self.kind.memory), code.at(self.partials, to, self.wide)
                self._planes(first, place, length, (begin, end), plane, name, element)

            return action

        def last_plane(at: str, to: str, length: str) -> None:
            begin = code.new(f"add i64 {code.new(f'mul i64 {planes}, {plane}')}, {at}")
            source = code.at(rows, begin, self.kind.memory)
            place = code.at(self.partials, to, self.wide)

            def add(index: str, mask: str | None) -> None:
                value = code.binary_op(name, self.wide, self.take(place, index, mask), element(source, index, mask))
                self.put(value, place, index, mask)

            code.choice(
                some,
                lambda: self.over(length, add),
                lambda: self.over(length, lambda i, mask: self.put(element(source, i, mask), place, i, mask)),
            )

        with code.when(some):
            lines(str(_PLANE), some_planes("0"))
            with code.loop(str(_AT_ONCE), planes, _AT_ONCE) as begin:
                lines(str(_PLANE), some_planes(begin))
        with code.when(code.new(f"icmp sgt i64 {rest}, 0")):
            lines(rest, last_plane)

    def _planes(
        self,
        first: str,
        place: str,
        length: str,
        planes: tuple[str, str],
        plane: str,
        name: str,
        element: Callable[[str, str, str | None], str],
    ) -> None:
        """A line of the partial results from the same line of planes, four vectors at a time; the first plane begins it."""
        code, (begin, end) = self.code, planes
        v, is_first = code.vector(self.wide), begin == "0"

        def held_so_far(at: str, mask: str | None) -> str:
            return element(first, at, mask) if is_first else self.take(place, at, mask)

        def group(index: str, masks: list[str | None]) -> None:
            places = [code.new(f"add i64 {index}, {k * LANES}") for k in range(len(masks))]
            sums = [code.var(v, held_so_far(at, mask)) for at, mask in zip(places, masks, strict=True)]
            with code.loop("1" if is_first else begin, end) as s:
                now = code.at(first, code.new(f"mul i64 {s}, {plane}"), self.kind.memory)
                for at, mask, held in zip(places, masks, sums, strict=True):
                    code.set(held, code.binary_op(name, self.wide, code.get(held), element(now, at, mask)))
            for at, mask, held in zip(places, masks, sums, strict=True):
                self.put(code.get(held), place, at, mask)

        whole = code.new(f"and i64 {length}, -{STEP}")
        with code.loop("0", whole, STEP) as i:
            group(i, [None] * (STEP // LANES))
        rest = code.new(f"sub i64 {length}, {whole}")
        with code.loop("0", rest, LANES) as k:
            left = code.new(f"sub i64 {rest}, {k}")
            group(code.new(f"add i64 {whole}, {k}"), [code.first_lanes(left, 0)])

    def _fold(self, m: str, name: str) -> None:
        """Step 3."""
        code, width = self.code, self.strip.width
        many = code.new(f"icmp sgt i64 {m}, {_PLANE}")
        code.set(self._live, code.new(f"select i1 {many}, i64 {_PLANE}, i64 {m}"))
        code.set(self._half, "32")
        with code.repeat_while(lambda: code.new(f"icmp sgt i64 {code.get(self._half)}, 0")):
            half = code.get(self._half)
            upper = code.new(f"sub i64 {code.get(self._live)}, {half}")
            with code.when(code.new(f"icmp sgt i64 {upper}, 0")):
                above = code.at(self.partials, code.new(f"mul i64 {half}, {width}"), self.wide)
                self._combined(self.partials, self.partials, above, code.new(f"mul i64 {upper}, {width}"), name)
                code.set(self._live, half)
            code.set(self._half, code.new(f"lshr i64 {half}, 1"))

    def _level(self, depth: str) -> str:
        return self.code.at(self._stack, self.code.new(f"mul i64 {depth}, {STRIP[self.wide]}"), self.wide)

    def _push(self, b: str, name: str) -> None:
        """Step 4, as for rows."""
        code = self.code
        code.set(self._ones, b)
        with code.repeat_while(lambda: code.new(f"trunc i64 {code.get(self._ones)} to i1")):
            self._merge(name)
            code.set(self._ones, code.new(f"lshr i64 {code.get(self._ones)}, 1"))
        depth = code.get(self._depth)
        self.copy(self._level(depth), self.partials, self.strip.width)
        code.set(self._depth, code.new(f"add i64 {depth}, 1"))

    def _merge(self, name: str) -> None:
        code = self.code
        depth = code.new(f"sub i64 {code.get(self._depth)}, 1")
        self._combined(self.partials, self._level(depth), self.partials, self.strip.width, name)
        code.set(self._depth, depth)

    def _unwind(self, name: str) -> None:
        code = self.code
        code.set(self._depth, code.new(f"sub i64 {code.get(self._depth)}, 1"))  # the last block's result is still in `partials`
        with code.repeat_while(lambda: code.new(f"icmp sgt i64 {code.get(self._depth)}, 0")):
            self._merge(name)

    # -- results --------------------------------------------------------------------------------

    def finish(self, value: Callable[[str], str]) -> None:
        """Write the strip's results, made of what the tree gave."""
        self.over(
            self.strip.width,
            lambda i, mask: self.result.store(self.code, value(self.take(self.partials, i, mask)), self.strip.target, i, mask),
        )

    def set_centres(self, n: str, value: Callable[[str], str]) -> None:
        """Centres for the next tree, as many rows of them as a plane has."""
        code, width = self.code, self.strip.width
        self.set_centre(value)
        many = code.new(f"icmp sgt i64 {n}, {_PLANE}")
        rows = code.new(f"select i1 {many}, i64 {_PLANE}, i64 {n}")
        with code.loop("1", rows) as j:
            self.copy(code.at(self.centres, code.new(f"mul i64 {j}, {width}"), self.wide), self.centres, width)

    def set_centre(self, value: Callable[[str], str]) -> None:
        """One row of centres, for what goes through rows one by one."""
        self.over(self.strip.width, lambda i, mask: self.put(value(self.take(self.partials, i, mask)), self.centres, i, mask))

    # -- running results ------------------------------------------------------------------------

    def scan(self, n: str, pitch: str, name: str) -> None:
        """Write each row combined with all before it, one after the other as NumPy does."""
        code, width = self.code, self.strip.width

        def begin(i: str, mask: str | None) -> None:
            x = self.kind.load(code, self.strip.source, i, mask)
            self.put(x, self.partials, i, mask)
            self.result.store(code, x, self.strip.target, i, mask)

        self.over(width, begin)
        with code.loop("1", n) as row:
            offset = code.new(f"mul i64 {row}, {pitch}")
            here = code.at(self.strip.source, offset, self.kind.memory)
            there = code.at(self.strip.target, offset, self.result.memory)

            def step(i: str, mask: str | None) -> None:
                x = code.binary_op(name, self.wide, self.take(self.partials, i, mask), self.kind.load(code, here, i, mask))
                self.put(x, self.partials, i, mask)
                self.result.store(code, x, there, i, mask)

            self.over(width, step)

    # -- results as large as the operand ----------------------------------------------------------

    def largest(self, n: str, pitch: str) -> None:
        """The largest element of each column, NaN left out, into the first row of `partials`."""
        code = self.code
        self.over(self.strip.width, lambda i, mask: self.put(code.same(self.wide, INFINITE[False]), self.partials, i, mask))

        def take_in(i: str, mask: str | None, here: str) -> None:
            x = self.kind.load(code, here, i, mask)
            self.put(code.larger(self.wide, x, self.take(self.partials, i, mask)), self.partials, i, mask)

        self._rows(n, pitch, lambda here, _there: self.over(self.strip.width, lambda i, mask: take_in(i, mask, here)))

    def each(self, n: str, pitch: str, value: Change) -> None:
        """Write every element, made of the operand's and of the centre of its column."""

        def write(here: str, there: str) -> None:
            def step(i: str, mask: str | None) -> None:
                x = self.kind.load(self.code, here, i, mask)
                self.result.store(self.code, value(x, self.take(self.centres, i, mask)), there, i, mask)

            self.over(self.strip.width, step)

        self._rows(n, pitch, write)

    def _rows(self, n: str, pitch: str, action: Callable[[str, str], None]) -> None:
        """action(the strip's part of a row of the operand, the same of the result) for every row."""
        code = self.code
        with code.loop("0", n) as row:
            offset = code.new(f"mul i64 {row}, {pitch}")
            action(code.at(self.strip.source, offset, self.kind.memory), code.at(self.strip.target, offset, self.result.memory))

    # -- places ---------------------------------------------------------------------------------

    def places(self, n: str, pitch: str, predicate: str) -> None:
        """Write at which row the element of each column lies that is beyond all before it; a NaN is beyond all but one before it."""
        code, width, memory = self.code, self.strip.width, self.kind.memory

        def begin(i: str, mask: str | None) -> None:
            code.store_lanes(memory, self._raw(self.strip.source, i, mask), code.at(self.partials, i, memory), mask)
            code.store_lanes("i64", "zeroinitializer", code.at(self.strip.target, i, "i64"), mask)

        self.over(width, begin)
        with code.loop("1", n) as row:
            here = code.at(self.strip.source, code.new(f"mul i64 {row}, {pitch}"), memory)
            self.over(width, lambda i, mask: self._place_row(here, row, i, mask, predicate))

    def _raw(self, pointer: str, index: str, mask: str | None) -> str:
        return self.code.load_lanes(self.kind.memory, self.code.at(pointer, index, self.kind.memory), mask)

    def _place_row(self, here: str, row: str, i: str, mask: str | None, predicate: str) -> None:
        """Compare sixteen columns of a row with the best so far; what is better is written."""
        code, memory = self.code, self.kind.memory
        x, best = self._raw(here, i, mask), self._raw(self.partials, i, mask)
        v, truth = code.vector(memory), code.vector("i1")
        if memory in ("float", "double"):
            beyond = code.new(f"fcmp u{predicate} {v} {x}, {best}")
            better = code.new(f"and {truth} {beyond}, {code.new(f'fcmp ord {v} {best}, {best}')}")
        else:
            sign = "s" if self.kind.how == "sitofp" else "u"
            better = code.new(f"icmp {sign}{predicate} {v} {x}, {best}")
        if mask is not None:
            better = code.new(f"and {truth} {better}, {mask}")
        some = code.new(f"icmp ne i{LANES} {code.new(f'bitcast {truth} {better} to i{LANES}')}, 0")
        with code.when(some):
            code.store_lanes(memory, x, code.at(self.partials, i, memory), better)
            code.store_lanes("i64", code.spread("i64", row), code.at(self.strip.target, i, "i64"), better)
