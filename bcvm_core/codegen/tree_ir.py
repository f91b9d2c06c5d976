"""The reduction tree of `ops/trees.py` as LLVM IR: sums of rows, of squared deviations, and of columns.

`tree_rows_<T>(rows, n, in, out)` sums each row of a dense (rows, n) array, `tree_deviations_<T>(rows,
n, in, out, mean)` what (x - mean of the row) squared gives, and `tree_columns_<T>(outer, n, inner, in,
out)` the middle axis of a dense (outer, n, inner) array. All take array objects and return whether
any sum is infinite or NaN. Partials of rows start from zero and short blocks are filled with zeros:
step 5 of the tree makes that invisible. The text is in SSA form, since no pass runs over it.
"""

from __future__ import annotations

from typing import Final

from .llvm import ARRAY_DATA, ELEMENT

LANES: Final = 16
_SIZE: Final = {"float32": 4, "float64": 8}
_SHORT: Final = {"float": "f32", "double": "f64"}

# Step 4 without recursion: a stack of results; block b finds as many finished pairs as b has trailing ones.
_PUSH: Final = """
{p}push:
  br label %{p}carry
{p}carry:
  %{p}top = phi i64 [ %{p}depth, %{p}push ], [ %{p}below, %{p}merge ]
  %{p}sum = phi {V} [ %{p}block, %{p}push ], [ %{p}merged, %{p}merge ]
  %{p}ones = phi i64 [ %{p}b, %{p}push ], [ %{p}ones_left, %{p}merge ]
  %{p}odd = and i64 %{p}ones, 1
  %{p}pair = icmp ne i64 %{p}odd, 0
  br i1 %{p}pair, label %{p}merge, label %{p}store
{p}merge:
  %{p}below = sub i64 %{p}top, 1
  %{p}slot = getelementptr {V}, ptr {stack}, i64 %{p}below
  %{p}left = load {V}, ptr %{p}slot, align {size}
  %{p}merged = fadd {V} %{p}left, %{p}sum
  %{p}ones_left = lshr i64 %{p}ones, 1
  br label %{p}carry
{p}store:
  %{p}place = getelementptr {V}, ptr {stack}, i64 %{p}top
  store {V} %{p}sum, ptr %{p}place, align {size}
  %{p}depth_next = add i64 %{p}top, 1
  %{p}b_next = add i64 %{p}b, 1
  %{p}more = icmp slt i64 %{p}b_next, %count
  br i1 %{p}more, label %{p}blocks, label %{p}collect
{p}collect:
  %{p}last = sub i64 %{p}depth_next, 1
  br label %{p}unwind
{p}unwind:
  %{p}u = phi i64 [ %{p}last, %{p}collect ], [ %{p}u_next, %{p}join ]
  %{p}all = phi {V} [ %{p}sum, %{p}collect ], [ %{p}joined, %{p}join ]
  %{p}rest = icmp sgt i64 %{p}u, 0
  br i1 %{p}rest, label %{p}join, label %{p}done
{p}join:
  %{p}u_next = sub i64 %{p}u, 1
  %{p}u_slot = getelementptr {V}, ptr {stack}, i64 %{p}u_next
  %{p}u_left = load {V}, ptr %{p}u_slot, align {size}
  %{p}joined = fadd {V} %{p}u_left, %{p}all
  br label %{p}unwind
{p}done:
  %{p}total = fadd {V} %{p}all, {zero}
"""


def _fold_lanes(element: str) -> str:
    """From 4 vectors of 16 partials to one number: halves of 32, 16, 8, 4, 2, 1."""
    wide = f"<{LANES} x {element}>"
    lines = [
        f"  %f0 = fadd {wide} %acc0_end, %acc2_end",
        f"  %f1 = fadd {wide} %acc1_end, %acc3_end",
        f"  %h16 = fadd {wide} %f0, %f1",
    ]
    half = LANES // 2
    while half:
        whole, part = f"<{2 * half} x {element}>", f"<{half} x {element}>"
        for name, start in (("lo", 0), ("hi", half)):
            mask = ", ".join(f"i32 {i}" for i in range(start, start + half))
            lines.append(f"  %{name}{half} = shufflevector {whole} %h{2 * half}, {whole} poison, <{half} x i32> <{mask}>")
        lines.append(f"  %h{half} = fadd {part} %lo{half}, %hi{half}")
        half //= 2
    lines.append(f"  %block = extractelement <1 x {element}> %h1, i64 0")
    return "\n".join(lines)


def _accumulate(element: str, size: int, deviations: bool) -> tuple[str, str, str]:
    """(phis of the step loop, its additions, the masked additions of the last, short step).

    `deviations`: what is summed is (x - %centre) squared.
    """
    wide = f"<{LANES} x {element}>"
    phis, steps, short = [], [], []
    for k in range(4):
        phis.append(f"  %acc{k} = phi {wide} [ zeroinitializer, %blocks ], [ %acc{k}_next, %step ]")
        lanes = ", ".join(f"i64 {k * LANES + i}" for i in range(LANES))
        masked_load = f"@llvm.masked.load.v{LANES}{_SHORT[element]}.p0"
        steps += [f"  %s{k} = getelementptr {element}, ptr %step_at, i64 {k * LANES}", f"  %x{k} = load {wide}, ptr %s{k}, align {size}"]
        short += [
            f"  %in{k} = icmp ult <{LANES} x i64> <{lanes}>, %rest_all",
            f"  %r{k} = getelementptr {element}, ptr %step_at, i64 {k * LANES}",
            f"  %y{k} = call {wide} {masked_load}(ptr %r{k}, i32 {size}, <{LANES} x i1> %in{k}, {wide} zeroinitializer)",
        ]
        if deviations:
            steps += [f"  %d{k} = fsub {wide} %x{k}, %centre", f"  %q{k} = fmul {wide} %d{k}, %d{k}"]
            short += [
                f"  %e{k} = fsub {wide} %y{k}, %centre",
                f"  %p{k} = fmul {wide} %e{k}, %e{k}",
                f"  %z{k} = select <{LANES} x i1> %in{k}, {wide} %p{k}, {wide} zeroinitializer",
            ]
        steps.append(f"  %acc{k}_next = fadd {wide} %acc{k}, %{'q' if deviations else 'x'}{k}")
        short.append(f"  %acc{k}_short = fadd {wide} %acc{k}, %{'z' if deviations else 'y'}{k}")
    return "\n".join(phis), "\n".join(steps), "\n".join(short)


_ROWS: Final = """
define i32 @{name}(i64 %rows, i64 %n, ptr %in, ptr %out{parameter}) nounwind {{
entry:
  %stack = alloca [64 x {V}], align 16
  %in_data = getelementptr i8, ptr %in, i64 {data}
  %out_data = getelementptr i8, ptr %out, i64 {data}
  %from = load ptr, ptr %in_data
  %to = load ptr, ptr %out_data
{centres}
  %n_up = add i64 %n, 1023
  %count = lshr i64 %n_up, 10
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r_next, %done ]
  %bad = phi i1 [ false, %entry ], [ %bad_next, %done ]
  %r_offset = mul i64 %r, %n
  %line = getelementptr {V}, ptr %from, i64 %r_offset
{centre}
  br label %blocks
blocks:
  %b = phi i64 [ 0, %row ], [ %b_next, %store ]
  %depth = phi i64 [ 0, %row ], [ %depth_next, %store ]
  %start = shl i64 %b, 10
  %left_n = sub i64 %n, %start
  %full = icmp sgt i64 %left_n, 1024
  %m = select i1 %full, i64 1024, i64 %left_n
  br label %steps
steps:
  %i = phi i64 [ 0, %blocks ], [ %i_next, %step ]
{phis}
  %index = add i64 %start, %i
  %step_at = getelementptr {V}, ptr %line, i64 %index
  %i_next = add i64 %i, 64
  %whole = icmp sle i64 %i_next, %m
  br i1 %whole, label %step, label %short
step:
{steps}
  br label %steps
short:
  %remaining = sub i64 %m, %i
  %any = icmp sgt i64 %remaining, 0
  br i1 %any, label %masked, label %fold
masked:
  %rest_one = insertelement <{lanes} x i64> poison, i64 %remaining, i64 0
  %rest_all = shufflevector <{lanes} x i64> %rest_one, <{lanes} x i64> poison, <{lanes} x i32> zeroinitializer
{short}
  br label %fold
fold:
{ends}
{fold}
  br label %push
{push}
  %at = getelementptr {V}, ptr %to, i64 %r
  store {V} %total, ptr %at, align {size}
  %difference = fsub {V} %total, %total
  %unfinite = fcmp uno {V} %difference, %difference
  %bad_next = or i1 %bad, %unfinite
  %r_next = add i64 %r, 1
  %r_more = icmp slt i64 %r_next, %rows
  br i1 %r_more, label %row, label %end
end:
  %result = zext i1 %bad_next to i32
  ret i32 %result
}}
"""


_CENTRES: Final = """
  %centres_data = getelementptr i8, ptr %mean, i64 {data}
  %centres = load ptr, ptr %centres_data
"""
_CENTRE: Final = """
  %centre_at = getelementptr {V}, ptr %centres, i64 %r
  %centre_one = load {V}, ptr %centre_at
  %centre_lane = insertelement <{lanes} x {V}> poison, {V} %centre_one, i64 0
  %centre = shufflevector <{lanes} x {V}> %centre_lane, <{lanes} x {V}> poison, <{lanes} x i32> zeroinitializer
"""


def rows(dtype: str, *, deviations: bool = False) -> str:
    """`tree_rows_<dtype>`, or `tree_deviations_<dtype>` which takes the means of the rows as well; rows and n must not be 0."""
    element, size = ELEMENT[dtype], _SIZE[dtype]
    wide = f"<{LANES} x {element}>"
    phis, steps, short = _accumulate(element, size, deviations)
    return _ROWS.format(
        name=f"tree_{'deviations' if deviations else 'rows'}_{dtype}",
        parameter=", ptr %mean" if deviations else "",
        centres=_CENTRES.format(data=ARRAY_DATA) if deviations else "",
        centre=_CENTRE.format(V=element, lanes=LANES) if deviations else "",
        V=element,
        data=ARRAY_DATA,
        size=size,
        lanes=LANES,
        phis=phis,
        steps=steps,
        short=short,
        ends="\n".join(f"  %acc{k}_end = phi {wide} [ %acc{k}, %short ], [ %acc{k}_short, %masked ]" for k in range(4)),
        fold=_fold_lanes(element),
        push=_PUSH.format(p="", V=element, size=size, zero="0.0", stack="%stack"),
    )


_COLUMNS: Final = """
define i32 @tree_columns_{name}(i64 %outer, i64 %n, i64 %inner, ptr %in, ptr %out) nounwind {{
entry:
  %stack = alloca [64 x {W}], align 64
  %partials = alloca [64 x {W}], align 64
  %in_data = getelementptr i8, ptr %in, i64 {data}
  %out_data = getelementptr i8, ptr %out, i64 {data}
  %from = load ptr, ptr %in_data
  %to = load ptr, ptr %out_data
  %n_up = add i64 %n, 1023
  %count = lshr i64 %n_up, 10
  %plane = mul i64 %n, %inner
  br label %outer_loop
outer_loop:
  %o = phi i64 [ 0, %entry ], [ %o_next, %outer_end ]
  %o_bad = phi i1 [ false, %entry ], [ %bad_next, %outer_end ]
  %o_offset = mul i64 %o, %plane
  %o_out = mul i64 %o, %inner
  br label %chunk
chunk:
  %c = phi i64 [ 0, %outer_loop ], [ %c_next, %chunk_end ]
  %bad = phi i1 [ %o_bad, %outer_loop ], [ %bad_next, %chunk_end ]
  %c_next = add i64 %c, {lanes}
  %c_from = add i64 %o_offset, %c
  %base = getelementptr {V}, ptr %from, i64 %c_from
  %c_to = add i64 %o_out, %c
  %place = getelementptr {V}, ptr %to, i64 %c_to
  %columns = sub i64 %inner, %c
  %columns_one = insertelement <{lanes} x i64> poison, i64 %columns, i64 0
  %columns_all = shufflevector <{lanes} x i64> %columns_one, <{lanes} x i64> poison, <{lanes} x i32> zeroinitializer
  %mask = icmp ult <{lanes} x i64> <{numbers}>, %columns_all
  %c_full = icmp sle i64 %c_next, %inner
  br i1 %c_full, label %f_blocks, label %m_blocks
{full}
{part}
chunk_end:
  %total = phi {W} [ %f_total, %f_done ], [ %m_total, %m_done ]
  %difference = fsub {W} %total, %total
  %unfinite = fcmp uno {W} %difference, %difference
  %unfinite_bits = bitcast <{lanes} x i1> %unfinite to i{lanes}
  %unfinite_any = icmp ne i{lanes} %unfinite_bits, 0
  %bad_next = or i1 %bad, %unfinite_any
  %c_more = icmp slt i64 %c_next, %inner
  br i1 %c_more, label %chunk, label %outer_end
outer_end:
  %o_next = add i64 %o, 1
  %o_more = icmp slt i64 %o_next, %outer
  br i1 %o_more, label %outer_loop, label %end
end:
  %result = zext i1 %bad_next to i32
  ret i32 %result
}}
"""

_CHUNK: Final = """
{p}blocks:
  %{p}b = phi i64 [ 0, %chunk ], [ %{p}b_next, %{p}store ]
  %{p}depth = phi i64 [ 0, %chunk ], [ %{p}depth_next, %{p}store ]
  %{p}start = shl i64 %{p}b, 10
  %{p}left_n = sub i64 %n, %{p}start
  %{p}long = icmp sgt i64 %{p}left_n, 1024
  %{p}m = select i1 %{p}long, i64 1024, i64 %{p}left_n
  %{p}wide = icmp sgt i64 %{p}m, 64
  %{p}width = select i1 %{p}wide, i64 64, i64 %{p}m
  %{p}start_row = mul i64 %{p}start, %inner
  %{p}rows = getelementptr {V}, ptr %base, i64 %{p}start_row
  br label %{p}first
{p}first:
  %{p}i = phi i64 [ 0, %{p}blocks ], [ %{p}i_next, %{p}first ]
  %{p}i_row = mul i64 %{p}i, %inner
  %{p}i_at = getelementptr {V}, ptr %{p}rows, i64 %{p}i_row
  %{p}i_x = {load_i}
  %{p}i_slot = getelementptr {W}, ptr %partials, i64 %{p}i
  store {W} %{p}i_x, ptr %{p}i_slot, align {size}
  %{p}i_next = add i64 %{p}i, 1
  %{p}i_more = icmp slt i64 %{p}i_next, %{p}width
  br i1 %{p}i_more, label %{p}first, label %{p}rest_of_block
{p}rest_of_block:
  br i1 %{p}wide, label %{p}next, label %{p}fold
{p}next:
  %{p}k = phi i64 [ 64, %{p}rest_of_block ], [ %{p}k_next, %{p}next ]
  %{p}k_row = mul i64 %{p}k, %inner
  %{p}k_at = getelementptr {V}, ptr %{p}rows, i64 %{p}k_row
  %{p}k_x = {load_k}
  %{p}k_index = and i64 %{p}k, 63
  %{p}k_slot = getelementptr {W}, ptr %partials, i64 %{p}k_index
  %{p}k_old = load {W}, ptr %{p}k_slot, align {size}
  %{p}k_new = fadd {W} %{p}k_old, %{p}k_x
  store {W} %{p}k_new, ptr %{p}k_slot, align {size}
  %{p}k_next = add i64 %{p}k, 1
  %{p}k_more = icmp slt i64 %{p}k_next, %{p}m
  br i1 %{p}k_more, label %{p}next, label %{p}fold
{p}fold:
  br label %{p}halves
{p}halves:
  %{p}half = phi i64 [ 32, %{p}fold ], [ %{p}half_next, %{p}halved ]
  %{p}live = phi i64 [ %{p}width, %{p}fold ], [ %{p}live_next, %{p}halved ]
  %{p}upper = sub i64 %{p}live, %{p}half
  %{p}has_upper = icmp sgt i64 %{p}upper, 0
  br i1 %{p}has_upper, label %{p}take, label %{p}halved
{p}take:
  %{p}j = phi i64 [ 0, %{p}halves ], [ %{p}j_next, %{p}take ]
  %{p}j_slot = getelementptr {W}, ptr %partials, i64 %{p}j
  %{p}j_up = add i64 %{p}j, %{p}half
  %{p}j_up_slot = getelementptr {W}, ptr %partials, i64 %{p}j_up
  %{p}j_a = load {W}, ptr %{p}j_slot, align {size}
  %{p}j_b = load {W}, ptr %{p}j_up_slot, align {size}
  %{p}j_sum = fadd {W} %{p}j_a, %{p}j_b
  store {W} %{p}j_sum, ptr %{p}j_slot, align {size}
  %{p}j_next = add i64 %{p}j, 1
  %{p}j_more = icmp slt i64 %{p}j_next, %{p}upper
  br i1 %{p}j_more, label %{p}take, label %{p}halved
{p}halved:
  %{p}live_next = select i1 %{p}has_upper, i64 %{p}half, i64 %{p}live
  %{p}half_next = lshr i64 %{p}half, 1
  %{p}half_more = icmp sgt i64 %{p}half_next, 0
  br i1 %{p}half_more, label %{p}halves, label %{p}folded
{p}folded:
  %{p}block = load {W}, ptr %partials, align {size}
  br label %{p}push
{push}
  {write}
  br label %chunk_end
"""


def _chunk(element: str, size: int, masked: bool) -> str:
    """Sixteen columns at once; `masked`: the last ones, fewer than that."""
    wide, s, p = f"<{LANES} x {element}>", _SHORT[element], "m_" if masked else "f_"
    loads = {}
    for name in ("i", "k"):
        at = f"ptr %{p}{name}_at"
        loads[f"load_{name}"] = (
            f"call {wide} @llvm.masked.load.v{LANES}{s}.p0({at}, i32 {size}, <{LANES} x i1> %mask, {wide} zeroinitializer)"
            if masked
            else f"load {wide}, {at}, align {size}"
        )
    total = f"{wide} %{p}total, ptr %place"
    write = (
        f"call void @llvm.masked.store.v{LANES}{s}.p0({total}, i32 {size}, <{LANES} x i1> %mask)"
        if masked
        else f"store {total}, align {size}"
    )
    push = _PUSH.format(p=p, V=wide, size=size, zero="zeroinitializer", stack="%stack")
    return _CHUNK.format(p=p, V=element, W=wide, size=size, push=push, write=write, **loads)


def columns(dtype: str) -> str:
    """`tree_columns_<dtype>`; none of outer, n and inner may be 0."""
    element, size = ELEMENT[dtype], _SIZE[dtype]
    return _COLUMNS.format(
        name=dtype,
        V=element,
        W=f"<{LANES} x {element}>",
        data=ARRAY_DATA,
        lanes=LANES,
        numbers=", ".join(f"i64 {i}" for i in range(LANES)),
        full=_chunk(element, size, False),
        part=_chunk(element, size, True),
    )


def module(dtype: str) -> str:
    """LLVM IR of the tree over one element type."""
    element = ELEMENT[dtype]
    wide, s = f"<{LANES} x {element}>", _SHORT[element]
    head = (
        f"declare {wide} @llvm.masked.load.v{LANES}{s}.p0(ptr, i32, <{LANES} x i1>, {wide})\n"
        f"declare void @llvm.masked.store.v{LANES}{s}.p0({wide}, ptr, i32, <{LANES} x i1>)\n"
    )
    return head + rows(dtype) + rows(dtype, deviations=True) + columns(dtype)
