"""LLVM IR of what products are made of: tiles of the result that stay in registers, and panels of operands in the order of their use.

A tile has up to `Form.rows` rows and two registers of columns. Each of its elements is one chain of fused multiply-adds along the depth,
whatever the tile's size and the registers' width: so bits depend on neither. Functions take and give 64-bit numbers; strides are bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..stencils.target import Target

ELEMENTS: Final = {"float32": ("float", 4), "float64": ("double", 8)}
_ROWS: Final = {64: 14, 32: 6}  # by bytes of a register: accumulators, two registers of columns, and one number fit the register file


@dataclass(frozen=True, slots=True)
class Form:
    """Sizes of tiles over one element type on one processor level."""

    dtype: str
    element: str  # in LLVM's words
    size: int  # bytes of an element
    lanes: int  # elements of a register
    rows: int  # of the largest tile

    @property
    def columns(self) -> int:
        """Of every tile."""
        return 2 * self.lanes

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.element}>"


def form(target: Target, dtype: str) -> Form:
    """The form for a processor level."""
    element, size = ELEMENTS[dtype]
    return Form(dtype, element, size, target.register_bytes // size, _ROWS[target.register_bytes])


def module(f: Form) -> str:
    """All tiles, and the two ways to fill a panel."""
    fma = f"llvm.fma.v{f.lanes}f{8 * f.size}"
    parts = [f"declare {f.vector} @{fma}({f.vector}, {f.vector}, {f.vector})", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"]
    parts += [_tile(f, rows, fma) for rows in range(1, f.rows + 1)]
    return "\n".join([*parts, _turned(f), _copied(f), _added(f)])


def tile_name(rows: int) -> str:
    """The function of a tile."""
    return f"tile{rows}"


def _tile(f: Form, rows: int, fma: str) -> str:
    """tile(depth, a, b, stride of b, c, stride of c, add, soon, later, stride of both): c = (c if add else 0) + a'b over one depth.

    `soon`, `later`: memory that is asked for on the way, a line of each per step.
    """
    v, accumulators = f.vector, [(r, h) for r in range(rows) for h in (0, 1)]
    lines = [
        f"define void @{tile_name(rows)}(i64 %depth, ptr %a, ptr %b, i64 %bs, ptr %c, i64 %cs, i64 %add, "
        "ptr %soon, ptr %later, i64 %ls) nounwind {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %k = phi i64 [%depth, %entry], [%k1, %loop]",
        "  %pa = phi ptr [%a, %entry], [%pa1, %loop]",
        "  %pb = phi ptr [%b, %entry], [%pb1, %loop]",
        *(f"  %p{x} = phi ptr [%{x}, %entry], [%p{x}1, %loop]" for x in ("soon", "later")),
        *(f"  %s{r}.{h} = phi {v} [zeroinitializer, %entry], [%n{r}.{h}, %loop]" for r, h in accumulators),
        f"  %b0 = load {v}, ptr %pb, align {f.size}",
        f"  %pbh = getelementptr i8, ptr %pb, i64 {f.lanes * f.size}",
        f"  %b1 = load {v}, ptr %pbh, align {f.size}",
        *(f"  call void @llvm.prefetch.p0(ptr %p{x}, i32 0, i32 1, i32 1)" for x in ("soon", "later")),
        *(f"  %p{x}1 = getelementptr i8, ptr %p{x}, i64 %ls" for x in ("soon", "later")),
    ]
    for r in range(rows):
        lines += [
            f"  %q{r} = getelementptr i8, ptr %pa, i64 {r * f.size}",
            f"  %x{r} = load {f.element}, ptr %q{r}, align {f.size}",
            f"  %i{r} = insertelement {v} poison, {f.element} %x{r}, i32 0",
            f"  %w{r} = shufflevector {v} %i{r}, {v} poison, <{f.lanes} x i32> zeroinitializer",
            *(f"  %n{r}.{h} = call {v} @{fma}({v} %w{r}, {v} %b{h}, {v} %s{r}.{h})" for h in (0, 1)),
        ]
    lines += [
        f"  %pa1 = getelementptr i8, ptr %pa, i64 {rows * f.size}",
        "  %pb1 = getelementptr i8, ptr %pb, i64 %bs",
        "  %k1 = sub i64 %k, 1",
        "  %more = icmp sgt i64 %k1, 0",
        "  br i1 %more, label %loop, label %done",
        "done:",
        "  %first = icmp eq i64 %add, 0",
        "  br i1 %first, label %store, label %join",
        *_ends(f, rows, "store", add=False),
        *_ends(f, rows, "join", add=True),
    ]
    return "\n".join([*lines, "}"])


def _ends(f: Form, rows: int, label: str, *, add: bool) -> Iterator[str]:
    """Put the sums down, or add them to what is there."""
    v, p = f.vector, f"{label}."
    yield f"{label}:"
    for r in range(rows):
        row = f"%{p}c{r}" if r else "%c"
        if r:
            yield f"  {row} = getelementptr i8, ptr {f'%{p}c{r - 1}' if r > 1 else '%c'}, i64 %cs"
        yield f"  %{p}h{r} = getelementptr i8, ptr {row}, i64 {f.lanes * f.size}"
        for h, place in ((0, row), (1, f"%{p}h{r}")):
            value = f"%n{r}.{h}"
            if add:
                yield f"  %{p}o{r}.{h} = load {v}, ptr {place}, align {f.size}"
                yield f"  %{p}t{r}.{h} = fadd {v} %{p}o{r}.{h}, {value}"
                value = f"%{p}t{r}.{h}"
            yield f"  store {v} {value}, ptr {place}, align {f.size}"
    yield "  ret void"


def _copied(f: Form) -> str:
    """copied(depth, from, stride, to): a panel of rows that lie in order."""
    v, step = f.vector, f.columns * f.size
    return f"""define void @copied(i64 %depth, ptr %x, i64 %xs, ptr %y) nounwind {{
entry:
  br label %loop
loop:
  %k = phi i64 [%depth, %entry], [%k1, %loop]
  %px = phi ptr [%x, %entry], [%px1, %loop]
  %py = phi ptr [%y, %entry], [%py1, %loop]
  %ax = getelementptr i8, ptr %px, i64 {step // 2}
  %ay = getelementptr i8, ptr %py, i64 {step // 2}
  %u = load {v}, ptr %px, align {f.size}
  %w = load {v}, ptr %ax, align {f.size}
  store {v} %u, ptr %py, align {f.size}
  store {v} %w, ptr %ay, align {f.size}
  %px1 = getelementptr i8, ptr %px, i64 %xs
  %py1 = getelementptr i8, ptr %py, i64 {step}
  %k1 = sub i64 %k, 1
  %more = icmp sgt i64 %k1, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


def _added(f: Form) -> str:
    """added(count, x, y): x + y in the place of x, both dense."""
    v, n, e = f.vector, f.lanes, f.element
    return f"""define void @added(i64 %count, ptr %x, ptr %y) nounwind {{
entry:
  %whole = and i64 %count, {-n}
  %some = icmp sgt i64 %whole, 0
  br i1 %some, label %loop, label %rest
loop:
  %k = phi i64 [0, %entry], [%k1, %loop]
  %px = getelementptr {e}, ptr %x, i64 %k
  %py = getelementptr {e}, ptr %y, i64 %k
  %a = load {v}, ptr %px, align {f.size}
  %b = load {v}, ptr %py, align {f.size}
  %c = fadd {v} %a, %b
  store {v} %c, ptr %px, align {f.size}
  %k1 = add i64 %k, {n}
  %more = icmp slt i64 %k1, %whole
  br i1 %more, label %loop, label %rest
rest:
  %left = icmp slt i64 %whole, %count
  br i1 %left, label %one, label %done
one:
  %j = phi i64 [%whole, %rest], [%j1, %one]
  %qx = getelementptr {e}, ptr %x, i64 %j
  %qy = getelementptr {e}, ptr %y, i64 %j
  %d = load {e}, ptr %qx, align {f.size}
  %g = load {e}, ptr %qy, align {f.size}
  %h = fadd {e} %d, %g
  store {e} %h, ptr %qx, align {f.size}
  %j1 = add i64 %j, 1
  %again = icmp slt i64 %j1, %count
  br i1 %again, label %one, label %done
done:
  ret void
}}"""


def _turned(f: Form) -> str:
    """turned(depth, from, stride, rows, to, stride of to): `lanes` rows side by side; where there are fewer the last one again."""
    n, v = f.lanes, f.vector
    lines = [
        "define void @turned(i64 %depth, ptr %x, i64 %xs, i64 %rows, ptr %y, i64 %ys) nounwind {",
        "entry:",
        "  %last = sub i64 %rows, 1",
        *(line for i in range(n) for line in _row_pointer(i)),
        f"  %whole = and i64 %depth, {-n}",
        "  %some = icmp sgt i64 %whole, 0",
        "  br i1 %some, label %loop, label %rest",
        "loop:",
        "  %k = phi i64 [0, %entry], [%k1, %loop]",
        "  %py = phi ptr [%y, %entry], [%py1, %loop]",
        f"  %kb = mul i64 %k, {f.size}",
    ]
    for i in range(n):
        lines += [f"  %a{i} = getelementptr i8, ptr %r{i}, i64 %kb", f"  %v0.{i} = load {v}, ptr %a{i}, align {f.size}"]
    lines += _transposed(f)
    stages = n.bit_length() - 1
    for i in range(n):
        place = "%py" if i == 0 else f"%y{i}"
        if i:
            lines.append(f"  %y{i} = getelementptr i8, ptr {'%py' if i == 1 else f'%y{i - 1}'}, i64 %ys")
        lines.append(f"  store {v} %v{stages}.{i}, ptr {place}, align {f.size}")
    lines += [
        f"  %py1 = getelementptr i8, ptr %y{n - 1}, i64 %ys",
        f"  %k1 = add i64 %k, {n}",
        "  %more = icmp slt i64 %k1, %whole",
        "  br i1 %more, label %loop, label %rest",
        "rest:",
        "  %pr = phi ptr [%y, %entry], [%py1, %loop]",
        "  %left = icmp slt i64 %whole, %depth",
        "  br i1 %left, label %one, label %done",
        "one:",
        "  %j = phi i64 [%whole, %rest], [%j1, %one]",
        "  %pz = phi ptr [%pr, %rest], [%pz1, %one]",
        f"  %jb = mul i64 %j, {f.size}",
    ]
    for i in range(n):
        before = "poison" if i == 0 else f"%e{i - 1}"
        lines += [
            f"  %o{i} = getelementptr i8, ptr %r{i}, i64 %jb",
            f"  %z{i} = load {f.element}, ptr %o{i}, align {f.size}",
            f"  %e{i} = insertelement {v} {before}, {f.element} %z{i}, i32 {i}",
        ]
    lines += [
        f"  store {v} %e{n - 1}, ptr %pz, align {f.size}",
        "  %pz1 = getelementptr i8, ptr %pz, i64 %ys",
        "  %j1 = add i64 %j, 1",
        "  %again = icmp slt i64 %j1, %depth",
        "  br i1 %again, label %one, label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _row_pointer(i: int) -> Iterator[str]:
    yield f"  %is{i} = icmp slt i64 {i}, %last"
    yield f"  %m{i} = select i1 %is{i}, i64 {i}, i64 %last"
    yield f"  %d{i} = mul i64 %m{i}, %xs"
    yield f"  %r{i} = getelementptr i8, ptr %x, i64 %d{i}"


def _transposed(f: Form) -> Iterator[str]:
    """Rows v0.* become columns: log2(lanes) rounds in which row i and row i + lanes / 2 are interleaved into rows 2i and 2i + 1."""
    n, v = f.lanes, f.vector
    masks = [", ".join(f"i32 {start + j // 2 + n * (j & 1)}" for j in range(n)) for start in (0, n // 2)]
    for stage in range(n.bit_length() - 1):
        for i in range(n // 2):
            pair = f"{v} %v{stage}.{i}, {v} %v{stage}.{i + n // 2}"
            for half, mask in enumerate(masks):
                yield f"  %v{stage + 1}.{2 * i + half} = shufflevector {pair}, <{n} x i32> <{mask}>"
