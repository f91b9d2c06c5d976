"""LLVM IR of products by the matrix unit of newer processors (AMX): numbers in parts, and tiles of 16 x 16 sums.

The unit multiplies numbers of 8 bits of precision and float32's exponents ("bfloat16") and adds the products to float32 sums. A float32 x
is x1 + x2 + x3 of such numbers: x1 the nearest one, x2 what is left without its low bits, x3 the rest; exact. Of the nine products of two
such sums the six largest are taken: what is left out is at most 2^-24 of the product, and of either sign. x1 y1 and the other five have a
sum each: the second is 2^-8 of the first, so its rounding does not count, and the first is rounded half as often as a chain of
multiply-adds. The unit takes subnormal numbers for 0. So only numbers that are 0 or lie between 2^-51 and 2^50 are split: their parts are
normal, no product of theirs overflows, and underflow takes at most 2^-126 of a product that is above 2^-102. For the others `columns` and
`rows` put 0 and say so.

Functions take and give 64-bit numbers; strides are bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Final

from ...devices import amx
from .. import store
from ..loops import MAKERS, Loop
from .amx_memory_code import CHUNK, PANEL, W_BIAS, W_DONE, W_EACH, W_FAR, W_FROM, W_LEFT, W_SUMS, W_SUMS_ROW, W_TO
from .amx_mend import F as _F
from .amx_mend import V as _V
from .amx_mend import mended
from .amx_parts import PART, columns, outside, pair, rows

OP: Final = "amx"
# in the order of `job_code.X_*`
NAMES: Final = ("start", "stop", "rows", "marked_rows", "columns", "marked_columns", "one", "two", "mended")
_WITH: Final = {  # the words of what comes with a tile
    "from": W_FROM,
    "to": W_TO,
    "done": W_DONE,
    "left": W_LEFT,
    "each": W_EACH,
    "far": W_FAR,
    "sums_row": W_SUMS_ROW,
    "from_sums": W_SUMS,
    "bias": W_BIAS,
}
_POINTERS: Final = ("from", "to", "from_sums", "bias")
_LEVEL: Final = "x86-64-v4"  # panels are as wide as two of its registers
_LANES: Final = 16
_FEATURES: Final = "-prefer-256-bit,+amx-tile,+amx-bf16"


class AmxLoop(Loop):
    """`functions`: their addresses, as jobs name them. `outside(count, address)`: whether some numbers are not split."""

    __slots__ = ("functions", "outside")
    optimise = True

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.functions: Any = None
        self.outside: Any = None

    def load(self) -> bool:
        """Take the code from the store; False when it is not there or can't be used."""
        if store.cpu_level() != _LEVEL or not amx.allowed():
            self.failed = "this processor has no matrix unit, or the system does not give it away"
            return False
        return super().load()

    def _ir(self) -> str:
        return module()

    def _symbols(self) -> list[str]:
        return [*NAMES, "outside"]

    def _take(self, found: dict[str, int]) -> None:
        self.functions = (ctypes.c_uint64 * len(NAMES))(*(found[name] for name in NAMES))
        self.outside = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(found["outside"])


MAKERS[OP] = AmxLoop


_START: Final = """define void @start(ptr %form) #0 {
  call void @llvm.x86.ldtilecfg(ptr %form)
  ret void
}
define void @stop() #0 {
  call void @llvm.x86.tilerelease()
  ret void
}"""


def module() -> str:
    """All functions."""
    unit = [
        "declare void @llvm.x86.ldtilecfg(ptr)",
        "declare void @llvm.x86.tilerelease()",
        "declare void @llvm.x86.tilezero(i8 immarg)",
        *(f"declare void @llvm.x86.tile{verb}64(i8 immarg, ptr, i64)" for verb in ("loadd", "stored")),
        "declare void @llvm.x86.tdpbf16ps(i8 immarg, i8 immarg, i8 immarg)",
        f"declare {_V} @llvm.masked.load.v{_LANES}i32.p0(ptr, i32 immarg, <{_LANES} x i1>, {_V})",
        *(f"declare {_V} @llvm.{op}.v{_LANES}i32({_V}, {_V})" for op in ("umax", "umin")),
        *(f"declare i32 @llvm.vector.reduce.{op}.v{_LANES}i32({_V})" for op in ("umax", "umin")),
        f"declare {_F} @llvm.fma.v{_LANES}f32({_F}, {_F}, {_F})",
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
    ]
    split = [line for marked in (False, True) for part in (rows, columns) for line in part(marked)]
    return "\n".join(
        [
            *unit,
            _START,
            *split,
            *_tile("one", 1),
            *_tile("two", 2),
            *mended(),
            *outside(),
            f'attributes #0 = {{ nounwind "target-features"="{_FEATURES}" }}',
        ]
    )


def _tile(name: str, bands: int) -> Iterator[str]:
    """one, two(chunks, a, b, sums, c, stride of c, add, rows, with): c = a b of split numbers, plus other sums if `add`, plus a bias.

    32 terms a chunk. `with`: where those are, and what is split meanwhile, as `amx_code.W_*`. The unit's registers 0 and 1 hold the large
    sums of up to two bands of rows, 2 and 3 the small ones; 4 a part of a, 5 to 7 those of b.
    """
    yield from (
        f"define void @{name}(i64 %chunks, ptr %a, ptr %b, ptr %sums, ptr %c, i64 %cs, i64 %add, i64 %rows, ptr %with) #0 {{",
        "entry:",
        *(f"  call void @llvm.x86.tilezero(i8 {2 * kind + band})" for kind in (0, 1) for band in range(bands)),
        f"  %stride = mul i64 %chunks, {CHUNK}",
    )
    for word, offset in _WITH.items():
        yield f"  %at_{word} = getelementptr i8, ptr %with, i64 {offset}"
        yield f"  %{word} = load {'ptr' if word in _POINTERS else 'i64'}, ptr %at_{word}, align 8"
    yield from (
        "  br label %chunk",
        "chunk:",
        "  %k = phi i64 [%chunks, %entry], [%k1, %split]",
        "  %pa = phi ptr [%a, %entry], [%pa1, %split]",
        "  %pb = phi ptr [%b, %entry], [%pb1, %split]",
        "  %n = phi i64 [%done, %entry], [%n2, %split]",
        "  %l = phi i64 [%left, %entry], [%l2, %split]",
        *_products(bands),
        "  %few = icmp slt i64 %l, %each",
        "  %now = select i1 %few, i64 %l, i64 %each",
        "  %none = icmp eq i64 %now, 0",
        "  br i1 %none, label %split, label %pair",
        "pair:",
        "  %i = phi i64 [%now, %chunk], [%i1, %pair]",
        "  %n0 = phi i64 [%n, %chunk], [%n1, %pair]",
        f"  %fb = shl i64 %n0, {(8 * PANEL).bit_length() - 1}",
        "  %lo = getelementptr i8, ptr %from, i64 %fb",
        f"  %hi = getelementptr i8, ptr %lo, i64 {4 * PANEL}",
        "  %c0 = lshr i64 %n0, 4",
        f"  %c1 = mul i64 %c0, {CHUNK}",
        "  %c2 = and i64 %n0, 15",
        "  %c3 = shl i64 %c2, 6",
        "  %c4 = add i64 %c1, %c3",
        "  %pt = getelementptr i8, ptr %to, i64 %c4",
    )
    for v in ("lo", "hi"):
        yield f"  %{v}.soon = getelementptr i8, ptr %{v}, i64 %far"
        yield f"  call void @llvm.prefetch.p0(ptr %{v}.soon, i32 0, i32 1, i32 1)"
    yield from (
        *pair("lo", "hi", "pt", False),
        "  %n1 = add i64 %n0, 1",
        "  %i1 = sub i64 %i, 1",
        "  %again = icmp sgt i64 %i1, 0",
        "  br i1 %again, label %pair, label %split",
        "split:",
        "  %n2 = phi i64 [%n, %chunk], [%n1, %pair]",
        "  %l2 = sub i64 %l, %now",
        *(f"  %p{v}1 = getelementptr i8, ptr %p{v}, i64 {CHUNK}" for v in ("a", "b")),
        "  %k1 = sub i64 %k, 1",
        "  %more = icmp sgt i64 %k1, 0",
        "  br i1 %more, label %chunk, label %ends",
        "ends:",
        "  store i64 %n2, ptr %at_done, align 8",
        "  store i64 %l2, ptr %at_left, align 8",
    )
    for kind in (0, 1):
        for band in range(bands):
            yield f"  %s{kind}{band} = getelementptr i8, ptr %sums, i64 {(2 * kind + band) * PART}"
            yield f"  call void @llvm.x86.tilestored64(i8 {2 * kind + band}, ptr %s{kind}{band}, i64 64)"
    yield from (
        "  %first = icmp eq i64 %add, 0",
        f"  %bv = load {_F}, ptr %bias, align 4",
        "  br label %row",
        "row:",
        "  %r = phi i64 [0, %ends], [%r1, %next]",
        "  %pv = phi ptr [%sums, %ends], [%pv1, %next]",
        "  %pc = phi ptr [%c, %ends], [%pc1, %next]",
        "  %pf = phi ptr [%from_sums, %ends], [%pf1, %next]",
        f"  %pw = getelementptr i8, ptr %pv, i64 {2 * PART}",
        f"  %v = load {_F}, ptr %pv, align 64",
        f"  %w = load {_F}, ptr %pw, align 64",
        f"  %x = fadd {_F} %v, %w",
        "  br i1 %first, label %next, label %join",
        "join:",
        f"  %o = load {_F}, ptr %pf, align 4",
        f"  %z = fadd {_F} %o, %x",
        "  br label %next",
        "next:",
        f"  %y = phi {_F} [%x, %row], [%z, %join]",
        f"  %yb = fadd {_F} %y, %bv",
        f"  store {_F} %yb, ptr %pc, align 4",
        "  %pv1 = getelementptr i8, ptr %pv, i64 64",
        "  %pc1 = getelementptr i8, ptr %pc, i64 %cs",
        "  %pf1 = getelementptr i8, ptr %pf, i64 %sums_row",
        "  %r1 = add i64 %r, 1",
        "  %down = icmp slt i64 %r1, %rows",
        "  br i1 %down, label %row, label %end",
        "end:",
        "  ret void",
        "}",
    )


def _products(bands: int) -> Iterator[str]:
    """Add the products of one chunk."""
    for part in range(3):
        yield f"  %b{part} = getelementptr i8, ptr %pb, i64 {part * PART}"
    for band in range(bands):
        yield f"  %pa.{band} = getelementptr i8, ptr %pa, i64 {'%stride' if band else 0}"
        for part in range(3):
            yield f"  %a{band}.{part} = getelementptr i8, ptr %pa.{band}, i64 {part * PART}"
            yield f"  call void @llvm.x86.tileloadd64(i8 4, ptr %a{band}.{part}, i64 64)"
            for other in range(3 - part):
                if band == part == 0:
                    yield f"  call void @llvm.x86.tileloadd64(i8 {5 + other}, ptr %b{other}, i64 64)"
                sums = band if part == other == 0 else 2 + band
                yield f"  call void @llvm.x86.tdpbf16ps(i8 {sums}, i8 4, i8 {5 + other})"
