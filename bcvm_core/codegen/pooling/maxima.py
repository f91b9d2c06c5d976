"""Maxima of windows over float32 images with the channels innermost: what `ops.pooling` asks for.

NumPy takes the maxima of rows first and of columns then, and its vectors keep the first NaN and the later one of two zeros. So does this
code, in the same order of elements: the bits are the same whoever computes.
"""

from __future__ import annotations

import ctypes
import struct
from importlib import resources
from typing import Any, Final

import numpy as np

from ...ops.windows import Axis
from ..loops import MAKERS, Loop, address, loop_for
from ..stencils import crew as crews
from ..stencils import threads
from ..stencils.crew import NOTHING
from ..stencils.native import compile_functions
from ..stencils.offsets import BYTES_HEAD
from ..stencils.recycle import empty
from ..stencils.target import host
from . import maxima_code as c

_Array = np.ndarray[Any, Any]
_OP: Final = "maxima"
LANES: Final = 16
_WIDE: Final = 4  # vectors at a time
_BYTES_PER_NS: Final = 10.0
_PIXEL_NS: Final = 20.0
_PIECES: Final = 4  # per thread
_JOB: Final = struct.Struct(f"<11q{2 * c.TAPS_MAX}qq")
_SMALL_NS: Final = 20_000.0  # the interpreter's lock is kept meanwhile


class MaximaLoop(Loop):
    """`entry`: the address of `maxima_code.maxima`; `run` and `at_once` call it without and with the interpreter's lock."""

    __slots__ = ("entry", "largest", "run", "at_once")
    optimise = True

    def __init__(self, op: str, dtype: str) -> None:
        super().__init__(op, dtype)
        self.entry = self.largest = 0
        self.run: Any = None
        self.at_once: Any = None

    def load(self) -> bool:
        """Take the code from the store; False when it is not there or can't be used."""
        if host() is None:
            self.failed = "there are no maxima of windows in code for this processor or system"
            return False
        return super().load()

    def _ir(self) -> str:
        source = resources.files(__package__).joinpath("maxima_code.py").read_text(encoding="utf-8")
        return compile_functions([source], ("maxima",)) + "\n" + _largest()

    def _symbols(self) -> list[str]:
        return ["maxima", "largest"]

    def _take(self, found: dict[str, int]) -> None:
        self.entry, self.largest = found["maxima"], found["largest"]
        arguments = (ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        self.run, self.at_once = ctypes.CFUNCTYPE(*arguments)(self.entry), ctypes.PYFUNCTYPE(*arguments)(self.entry)


MAKERS[_OP] = MaximaLoop


def _largest() -> str:
    """largest(result, places, count, size): the maxima of `count` pixels of `size` bytes, a few vectors at a time."""
    wide = LANES * 4 * _WIDE
    return "\n".join(
        [
            "define i64 @largest(i64 %result, i64 %places, i64 %count, i64 %size) nounwind {",
            "start:",
            "  %table = inttoptr i64 %places to ptr",
            "  %to = inttoptr i64 %result to ptr",
            f"  %whole = and i64 %size, {-wide}",
            *_block("wide", "start", "0", "%whole", _WIDE),
            *_block("narrow", "wide.done", "%whole", "%size", 1),
            "  ret i64 0",
            "}",
        ]
    )


def _block(name: str, before: str, first: str, last: str, vectors: int) -> list[str]:
    """The loop over bytes `first` to `last` of a pixel, `vectors` at a time."""
    v, bits = f"<{LANES} x float>", f"<{LANES} x i1>"
    size = LANES * 4
    lowest = f"<{', '.join(['float 0xFFF0000000000000'] * LANES)}>"
    lines = [
        f"  br label %{name}.head",
        f"{name}.head:",
        f"  %{name}.at = phi i64 [{first}, %{before}], [%{name}.next, %{name}.end]",
        f"  %{name}.more = icmp slt i64 %{name}.at, {last}",
        f"  br i1 %{name}.more, label %{name}.taps, label %{name}.done",
        f"{name}.taps:",
        f"  %{name}.k = phi i64 [0, %{name}.head], [%{name}.k1, %{name}.tap]",
        *[f"  %{name}.m{i} = phi {v} [{lowest}, %{name}.head], [%{name}.n{i}, %{name}.tap]" for i in range(vectors)],
        f"  %{name}.any = icmp slt i64 %{name}.k, %count",
        f"  br i1 %{name}.any, label %{name}.tap, label %{name}.end",
        f"{name}.tap:",
        f"  %{name}.slot = getelementptr i64, ptr %table, i64 %{name}.k",
        f"  %{name}.place = load i64, ptr %{name}.slot",
        f"  %{name}.from = inttoptr i64 %{name}.place to ptr",
        f"  %{name}.k1 = add i64 %{name}.k, 1",
    ]
    for i in range(vectors):
        a, b, n = f"%{name}.m{i}", f"%{name}.v{i}", f"{name}.{i}"
        lines += [
            f"  %{n}.o = add i64 %{name}.at, {i * size}",
            f"  %{n}.p = getelementptr i8, ptr %{name}.from, i64 %{n}.o",
            f"  {b} = load {v}, ptr %{n}.p, align 4",
            f"  %{n}.gt = fcmp ogt {v} {a}, {b}",
            f"  %{n}.max = select {bits} %{n}.gt, {v} {a}, {v} {b}",
            f"  %{n}.nan = fcmp uno {v} {a}, {a}",  # the first NaN stays
            f"  %{name}.n{i} = select {bits} %{n}.nan, {v} {a}, {v} %{n}.max",
        ]
    lines += [f"  br label %{name}.taps", f"{name}.end:"]
    for i in range(vectors):
        lines += [
            f"  %{name}.{i}.w = add i64 %{name}.at, {i * size}",
            f"  %{name}.{i}.q = getelementptr i8, ptr %to, i64 %{name}.{i}.w",
            f"  store {v} %{name}.m{i}, ptr %{name}.{i}.q, align 4",
        ]
    return [*lines, f"  %{name}.next = add i64 %{name}.at, {vectors * size}", f"  br label %{name}.head", f"{name}.done:"]


def largest_of_windows(images: _Array, rows: Axis, columns: Axis) -> _Array | None:
    """As `ops.pooling.by_kernel`."""
    count, height, width, channels = images.shape
    if images.dtype != np.float32 or channels % LANES or not images.size or not (images.flags.c_contiguous and images.flags.aligned):
        return None
    if max(len(rows.taps), len(columns.taps)) > c.TAPS_MAX:
        return None
    loop = loop_for(_OP, "float32")
    assert isinstance(loop, MaximaLoop)
    if not loop.ready:
        return None
    result: _Array = empty((count, rows.out, columns.out, channels), images.dtype)
    sizes = height, width, rows.out, columns.out, channels * 4, rows.step, columns.step, len(rows.taps), len(columns.taps)
    taps = [axis.taps[k] if k < len(axis.taps) else 0 for axis in (rows, columns) for k in range(c.TAPS_MAX)]
    job = _JOB.pack(address(images), address(result), *sizes, *taps, loop.largest)
    pixels = count * rows.out * columns.out
    ns = (images.nbytes + result.nbytes) / _BYTES_PER_NS + pixels * _PIXEL_NS
    _run(loop, job, count * rows.out, ns)
    return result


def _run(loop: MaximaLoop, job: bytes, rows: int, ns: float) -> None:
    crew = crews.crew
    if crew.worth(ns):
        share = max(1, -(-rows // (_PIECES * threads.cores())))
        crew.sweep(loop.entry, (id(job) + BYTES_HEAD, 0), NOTHING, (0, share, rows), ns)
    else:
        (loop.at_once if ns < _SMALL_NS else loop.run)(job, 0, 0, rows)
