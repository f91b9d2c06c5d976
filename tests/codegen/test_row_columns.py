"""Column forms of row kernels have the bits of the ops' definitions; nothing is read or written outside the arrays."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcvm_core import fpstatus
from bcvm_core.codegen.rows import kernels
from bcvm_core.codegen.rows.columns import STRIP
from tests.codegen.test_rows import DTYPES, LIKE_INPUT, REDUCED, attrs_of, definition, made, numbers, same_bits

OPS = ("sum", "prod", "mean", "var", "std")
LENGTHS = [1, 2, 33, 63, 64, 65, 100, 128, 130, 1023, 1024, 1025, 1090, 2048, 3100]
WIDTHS = [2, 3, 15, 16, 17, 65, 255, 256, 257, 513, 1100]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_every_height_and_width(op: str, dtype: str) -> None:
    kernel = made(op, dtype)
    for k, n in enumerate(LENGTHS):
        for width in WIDTHS[k % 3 :: 3]:
            x = numbers((2, n, width), dtype, n)
            if op == "prod":
                x = (1 + x / np.asarray(64, x.dtype)).astype(x.dtype)
            same_bits(kernel(x, axis=1), definition(op, x, axis=1))


@pytest.mark.parametrize("op", OPS)
def test_large_calls_are_cut_up(op: str) -> None:
    kernel = made(op, "float32")
    for shape, axis in (((3000, 1300), 0), ((40, 70, 1100), 1), ((100_000, 33), 0)):
        x = numbers(shape, "float32", scale=0.01)
        same_bits(kernel(x, axis=axis), definition(op, x, axis=axis))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_running_sums_and_products(op: str, dtype: str) -> None:
    kernel = made(op, dtype)
    for shape in ((1, 5), (70, 3), (3, 40, 600), (1100, 65), (3000, 1300)):
        x = 1 + numbers(shape, dtype) / np.asarray(64, dtype)
        for axis in (-1, 0, 1, None):
            same_bits(kernel(x, axis=axis), definition(op, x, axis=axis))
    x = np.full((3000, 4), 1e37 if dtype == "float32" else 1e306, dtype)
    with np.errstate(all="warn"), fpstatus.recording() as seen:
        found = kernel(x, axis=0)
    assert seen.kinds == ("overflow",) or list(seen.kinds) == ["overflow"]
    with np.errstate(over="ignore"):
        same_bits(found, definition(op, x, axis=0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax_of_columns(op: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = made(op, dtype)
    for k, n in enumerate(LENGTHS):
        for width in WIDTHS[k % 3 :: 3]:
            x = numbers((2, n, width), dtype, n, 3.0)
            same_bits(kernel(x, axis=1), definition(op, x, axis=1))
    for shape in ((1300, 700), (3, 50, 1100)):  # cut up
        x = numbers(shape, dtype)
        same_bits(kernel(x, axis=-2), definition(op, x, axis=-2))
    x = numbers((70, 5), dtype)
    for column, value in enumerate((np.nan, np.inf, -np.inf, 0.0)):
        x[:, column] = value if column == 2 else x[:, column]
        x[3, column] = value
    same_bits(kernel(x, axis=0), definition(op, x, axis=0))
    monkeypatch.setattr(kernels.registry, "row", lambda name: type("Row", (), {"definition": None}))
    native = kernels.kernel_for(op, dtype)
    assert native is not None
    assert native(x, axis=0).shape == x.shape  # the definition cannot be called


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_shape_axis_and_stride(data: Any) -> None:
    op = data.draw(st.sampled_from(REDUCED + LIKE_INPUT[:2]))
    dtype = data.draw(st.sampled_from(["float32", "float64", "float16"]))
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 16, 65, 130]), min_size=1, max_size=3)))
    base = numbers(shape, dtype, data.draw(st.integers(0, 9)))
    order = data.draw(st.permutations(range(len(shape))))
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, 1, 2, -1]))) for _ in shape)
    x = base.transpose(order)[steps]
    attrs = {"axis": data.draw(st.integers(-x.ndim, x.ndim - 1))}
    with np.errstate(all="ignore"):
        same_bits(made(op, dtype)(x, **attrs), definition(op, x, **attrs))


class Guarded:
    """Arrays that end where the memory that may be touched ends, or begin where it begins."""

    def __init__(self, count: int, dtype: Any, at_end: bool) -> None:
        page, size = mmap.PAGESIZE, count * np.dtype(dtype).itemsize
        pages = -(-size // page)
        self.memory = mmap.mmap(-1, (pages + 2) * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None)
        for at in (0, (pages + 1) * page):
            assert libc.mprotect(ctypes.c_void_p(start + at), ctypes.c_size_t(page), 0) == 0
        offset = page + (pages * page - size if at_end else 0)
        self.array = np.frombuffer(self.memory, dtype, count, offset)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("op", LIKE_INPUT + REDUCED)
def test_no_byte_outside_the_input_is_read(op: str, dtype: str, at_end: bool) -> None:
    kernel = made(op, dtype)
    for shape in ((5, 3), (3, 17), (4, 63), (2, 100), (3, 1100)):
        guarded = Guarded(shape[0] * shape[1], DTYPES[dtype], at_end)
        guarded.array[:] = numbers((guarded.array.size,), dtype)
        x = guarded.array.reshape(shape)
        axes = [attrs_of(op)] + ([{"axis": 0}] if op in OPS else [])
        for attrs in axes:
            with np.errstate(all="ignore"):
                same_bits(kernel(x, **attrs), definition(op, x, **attrs))


@pytest.mark.parametrize("at_end", [True, False])
def test_no_byte_outside_the_result_is_written(at_end: bool) -> None:
    for name, form in (("softmax", 0), ("sum", 1)):
        entries = kernels._Entries(name, "float32", 1.0)
        made(name, "float32")
        for rows, n in ((5, 3), (3, 17), (4, 63), (2, 100), (3, 1100)):
            x = numbers((rows, n), "float32")
            out = Guarded(rows * (n if form == 0 else 1), np.float32, at_end).array
            arguments = ctypes.create_string_buffer(48)
            call = ctypes.CFUNCTYPE(None, *(ctypes.c_int64,) * 3, *(ctypes.c_void_p,) * 3)(entries.loop.rows)
            call(rows, n, 1, x.ctypes.data, out.ctypes.data, ctypes.addressof(arguments))
            expected = definition(name, x, axis=-1)
            same_bits(out.reshape(expected.shape), expected)


def test_the_strip_is_a_multiple_of_a_step() -> None:
    assert all(width % 64 == 0 for width in STRIP.values())
