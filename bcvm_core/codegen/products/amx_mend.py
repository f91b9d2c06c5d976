"""LLVM IR of what the matrix unit leaves out: products of numbers that `amx.py` does not split, each by a multiply-add of its own.

One call mends a tile, 16 rows by 16 columns over one piece of the depth: a matrix full of such numbers keeps to this loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .amx_memory_code import BAND, BAND_MARKS, TERMS, WIDE

V: Final = f"<{WIDE} x i32>"
F: Final = f"<{WIDE} x float>"
ROW_MARKS: Final = (BAND_MARKS - 64) // BAND  # bytes of the marks of a row


def mended() -> Iterator[str]:
    """mended(rows, x, stride, terms, b, step, c, stride of c, marks, own, columns, hard): c += x b for the terms that were left out.

    Numbers of their own, in the order of the depth, as multiply-adds: of a whole row where its marks say so (if `own`), otherwise of those
    of 16 columns that the columns' marks name (if `hard`).
    """
    yield from (
        "define void @mended(i64 %rows, ptr %x, i64 %xs, i64 %terms, ptr %b, i64 %bs, ptr %c, i64 %cs,"
        " ptr %marks, i64 %own, ptr %columns, i64 %hard) #0 {",
        "entry:",
        *(f"  %{v}.some = icmp ne i64 %{v}, 0" for v in ("own", "hard")),
        *(f"  %{v}.mask = sext i1 %{v}.some to i32" for v in ("own", "hard")),
        "  br label %chunk",
        "chunk:",
        "  %k0 = phi i64 [0, %entry], [%kn, %next]",
        "  %m0 = phi ptr [%marks, %entry], [%mn, %next]",
        "  br label %gather",
        "gather:  ; the terms that some row left out",
        "  %g = phi i64 [0, %chunk], [%g1, %gather]",
        "  %gm = phi ptr [%m0, %chunk], [%gm1, %gather]",
        "  %some0 = phi i32 [0, %chunk], [%some1, %gather]",
        "  %gw = load i32, ptr %gm, align 4",
        "  %some1 = or i32 %some0, %gw",
        f"  %gm1 = getelementptr i8, ptr %gm, i64 {ROW_MARKS}",
        "  %g1 = add i64 %g, 1",
        "  %gathering = icmp slt i64 %g1, %rows",
        "  br i1 %gathering, label %gather, label %found",
        "found:",
        "  %some = and i32 %some1, %own.mask",
        f"  %kn = add i64 %k0, {TERMS}",
        "  %short = icmp slt i64 %terms, %kn",
        "  %end = select i1 %short, i64 %terms, i64 %kn",
        "  br label %term",
        "term:",
        "  %k = phi i64 [%k0, %found], [%k1, %passed]",
        "  %at_lanes = getelementptr i32, ptr %columns, i64 %k",
        "  %lanes.in = load i32, ptr %at_lanes, align 4",
        "  %lanes = and i32 %lanes.in, %hard.mask",
        "  %k.32 = trunc i64 %k to i32",
        f"  %bit = and i32 %k.32, {TERMS - 1}",
        "  %some.low = lshr i32 %some, %bit",
        "  %some.bit = and i32 %some.low, 1",
        "  %wanted = or i32 %some.bit, %lanes",
        "  %none = icmp eq i32 %wanted, 0",
        "  br i1 %none, label %passed, label %read",
        "read:",
        "  %bk = mul i64 %k, %bs",
        "  %pb = getelementptr i8, ptr %b, i64 %bk",
        f"  %bv = load {F}, ptr %pb, align 4",
        "  %px0 = getelementptr float, ptr %x, i64 %k",
        "  br label %row",
        "row:",
        "  %r = phi i64 [0, %read], [%r1, %row]",
        "  %px = phi ptr [%px0, %read], [%px1, %row]",
        "  %pc = phi ptr [%c, %read], [%pc1, %row]",
        "  %pm = phi ptr [%m0, %read], [%pm1, %row]",
        "  %word.in = load i32, ptr %pm, align 4",
        "  %word = and i32 %word.in, %own.mask",
        "  %word.low = lshr i32 %word, %bit",
        "  %word.bit = and i32 %word.low, 1",
        "  %all = sub i32 0, %word.bit",
        "  %which = or i32 %all, %lanes",
        f"  %which.16 = trunc i32 %which to i{WIDE}",
        f"  %in = bitcast i{WIDE} %which.16 to <{WIDE} x i1>",
        "  %a = load float, ptr %px, align 4",
        f"  %i = insertelement {F} poison, float %a, i32 0",
        f"  %av = shufflevector {F} %i, {F} poison, {V} zeroinitializer",
        f"  %c0 = load {F}, ptr %pc, align 4",
        f"  %n = call {F} @llvm.fma.v{WIDE}f32({F} %av, {F} %bv, {F} %c0)",
        f"  %s = select <{WIDE} x i1> %in, {F} %n, {F} %c0",
        f"  store {F} %s, ptr %pc, align 4",
        "  %px1 = getelementptr i8, ptr %px, i64 %xs",
        "  %pc1 = getelementptr i8, ptr %pc, i64 %cs",
        f"  %pm1 = getelementptr i8, ptr %pm, i64 {ROW_MARKS}",
        "  %r1 = add i64 %r, 1",
        "  %down = icmp slt i64 %r1, %rows",
        "  br i1 %down, label %row, label %passed",
        "passed:",
        "  %k1 = add i64 %k, 1",
        "  %further = icmp slt i64 %k1, %end",
        "  br i1 %further, label %term, label %next",
        "next:",
        "  %mn = getelementptr i8, ptr %m0, i64 4",
        "  %more = icmp slt i64 %kn, %terms",
        "  br i1 %more, label %chunk, label %done",
        "done:",
        "  ret void",
        "}",
    )
