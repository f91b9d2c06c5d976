"""Row kernels have the bits of the ops' definitions, whatever the shape, and step aside where they should."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from bcvm_core import config, fpstatus, ops
from bcvm_core.codegen import loops
from bcvm_core.codegen.rows import kernels
from bcvm_core.codegen.rows.loop import row_loop
from bcvm_core.codegen.stencils import offsets
from bcvm_core.codegen.stencils.driver import driver
from bcvm_core.ops import registry

DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
LENGTHS = [1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 1000, 1023, 1024, 1025, 1088, 2048, 3000, 5121]
LIKE_INPUT = ("softmax", "log_softmax", "layer_norm", "rms_norm")
REDUCED = ("sum", "prod", "mean", "var", "std", "logsumexp")


def made(op: str, dtype: str) -> Callable[..., Any]:
    """The kernel of an op with its code ready."""
    driver()
    kernel = kernels.kernel_for(op, dtype)
    assert kernel is not None
    assert loops.wait(120)
    assert not [loop.failed for loop in loops._loops.values() if loop.name.startswith("row_") and loop.failed]
    return kernel


def definition(op: str, *args: Any, **attrs: Any) -> Any:
    with config.override(use_llvm=False):
        return registry.row(op).definition(*args, **attrs)


def same_bits(a: Any, b: Any) -> None:
    """Equal to the last bit; a NaN is a NaN."""
    assert type(a) is type(b)
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    wide = a.dtype if a.dtype != DTYPES["bfloat16"] else np.float32
    missing = np.isnan(a.astype(wide))
    np.testing.assert_array_equal(missing, np.isnan(b.astype(wide)))
    bits = f"u{a.dtype.itemsize}"
    np.testing.assert_array_equal(a[~missing].view(bits), b[~missing].view(bits))


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(DTYPES[dtype])


def attrs_of(op: str) -> dict[str, Any]:
    return {"axis": -1} if op in REDUCED else {}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", LIKE_INPUT + REDUCED)
def test_every_length_has_the_bits_of_the_definition(op: str, dtype: str) -> None:
    kernel = made(op, dtype)
    for n in LENGTHS:
        for rows in (1, 2, 3, 4, 5, 9):
            x = numbers((rows, n), dtype, n)
            if op == "prod":
                x = (1 + x / np.asarray(64, x.dtype)).astype(x.dtype)
            same_bits(kernel(x, **attrs_of(op)), definition(op, x, **attrs_of(op)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", LIKE_INPUT + REDUCED)
def test_native_code_takes_the_usual_calls(op: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made(op, dtype)
    monkeypatch.setattr(kernels.registry, "row", lambda name: type("Row", (), {"definition": None}))
    kernel = kernels.kernel_for(op, dtype)
    assert kernel is not None
    for shape in ((7, 3), (2, 3, 70), (1, 4), (5,)):
        x = numbers(shape, dtype)
        found = kernel(x, **attrs_of(op))  # the definition cannot be called
        assert np.isfinite(found).all()


SPECIAL = {
    "nan": lambda x: x.__setitem__((0, 1), np.nan),
    "all nan": lambda x: x.__setitem__(1, np.nan),
    "row of -inf": lambda x: x.__setitem__(1, -np.inf),
    "some -inf": lambda x: x.__setitem__((slice(None), slice(None, None, 2)), -np.inf),
    "inf": lambda x: x.__setitem__((2, 0), np.inf),
    "both inf": lambda x: (x.__setitem__((2, 0), np.inf), x.__setitem__((2, 1), -np.inf)),
    "zeros": lambda x: x.__setitem__(slice(None), 0.0),
    "negative zeros": lambda x: x.__setitem__(slice(None), -0.0),
    "largest": lambda x: x.__setitem__(slice(None), 3.0e38),
    "subnormal": lambda x: x.__setitem__(slice(None), 1e-40),
    "far from zero": lambda x: x.__setitem__(slice(None), x + 1e6),
}


@pytest.mark.parametrize("what", SPECIAL)
@pytest.mark.parametrize("n", [5, 40, 100, 1500])
@pytest.mark.parametrize("op", LIKE_INPUT + REDUCED)
def test_special_values(op: str, n: int, what: str) -> None:
    kernel = made(op, "float32")
    x = numbers((5, n), "float32", n)
    SPECIAL[what](x)
    with np.errstate(all="ignore"):
        same_bits(kernel(x, **attrs_of(op)), definition(op, x, **attrs_of(op)))
    with np.errstate(all="warn"), fpstatus.recording() as ours:
        kernel(x, **attrs_of(op))
    with np.errstate(all="warn"), fpstatus.recording() as theirs:
        definition(op, x, **attrs_of(op))
    assert ours.kinds == theirs.kinds


@pytest.mark.parametrize("op", LIKE_INPUT + REDUCED)
def test_layouts_and_axes(op: str) -> None:
    kernel = made(op, "float32")
    base = numbers((6, 10, 24), "float32")
    views = [base, base[::2], base[:, ::3], base[..., ::-1], base.transpose(2, 0, 1), base[..., :0], base[:0], np.asfortranarray(base)]
    name = "axis" if op not in ("layer_norm", "rms_norm") else "normalized_shape"
    for x in views:
        choices = range(-x.ndim, x.ndim) if name == "axis" else [None, x.shape[-1:], x.shape[-2:], x.shape, x.shape[-1]]
        if op in REDUCED:
            choices = [*choices, None, (0, 1), (1, 2), (0, 2), (-2, -1), (-1, 0)]
        for choice in choices:
            for more in ({}, {"keepdims": True}) if op in REDUCED else ({},):
                attrs = {name: choice, **more}
                expected = _outcome(lambda a=attrs, v=x: definition(op, v, **a))
                found = _outcome(lambda a=attrs, v=x: kernel(v, **a))
                if isinstance(expected, type):
                    assert found is expected
                else:
                    same_bits(found, expected)
                    assert np.asarray(found).strides == np.asarray(expected).strides


def _outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or the class of what it raises."""
    with np.errstate(all="ignore"), fpstatus.recording():
        try:
            return call()
        except Exception as error:
            return type(error)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("n", [3, 64, 100, 2000])
def test_parameters_of_norms(n: int, dtype: str) -> None:
    layer_norm, rms_norm = made("layer_norm", dtype), made("rms_norm", dtype)
    x, weight, bias = numbers((5, n), dtype), numbers((n,), dtype, 1), numbers((n,), dtype, 2)
    for attrs in ({"weight": weight}, {"weight": weight, "bias": bias}, {"bias": bias}, {"weight": weight, "bias": bias, "eps": 0.5}):
        same_bits(layer_norm(x, **attrs), definition("layer_norm", x, **attrs))
    for attrs in ({"weight": weight}, {"weight": weight, "eps": 0.5}):
        same_bits(rms_norm(x, **attrs), definition("rms_norm", x, **attrs))
    wrong = numbers((n + 1,), dtype)
    assert _outcome(lambda: layer_norm(x, weight=wrong)) is _outcome(lambda: definition("layer_norm", x, weight=wrong))


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_of_groups(dtype: str) -> None:
    group_norm, instance_norm = made("group_norm", dtype), made("instance_norm", dtype)
    x, weight, bias = numbers((2, 6, 5, 7), dtype), numbers((6,), dtype, 1), numbers((6,), dtype, 2)
    for attrs in ({}, {"weight": weight}, {"weight": weight, "bias": bias}, {"bias": bias, "eps": 0.5}):
        for groups in (1, 2, 6):
            same_bits(group_norm(x, groups, **attrs), definition("group_norm", x, groups, **attrs))
        same_bits(instance_norm(x, **attrs), definition("instance_norm", x, **attrs))
    assert _outcome(lambda: group_norm(x, 4)) is ValueError
    same_bits(group_norm(x[..., ::-1], 2), definition("group_norm", x[..., ::-1], 2))


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["sum", "mean", "var", "std", "softmax", "logsumexp", "argmax", "argmin"])
def test_integers(op: str, dtype: str) -> None:
    if op == "sum" and dtype in ("int64", "uint64"):
        assert kernels.kernel_for(op, dtype) is None
        return
    kernel = made(op, dtype)
    for shape in ((3, 5), (2, 100), (3, 1100), (1500, 20), (70, 600)):
        x = np.random.default_rng(0).integers(0 if dtype[0] in "ub" else -100, 2 if dtype == "bool" else 100, shape).astype(dtype)
        for axis in (0, 1) if op in ("softmax", "argmax", "argmin") else (0, 1, None):
            same_bits(kernel(x, axis=axis), definition(op, x, axis=axis))
    if op == "sum":
        largest = np.full((4, 1000), np.iinfo(dtype).max if dtype != "bool" else True, dtype)
        same_bits(kernel(largest, axis=None), definition(op, largest, axis=None))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_places_of_extremes(op: str, dtype: str) -> None:
    kernel = made(op, dtype)
    rng = np.random.default_rng(0)
    for shape in ((1, 5), (7, 3), (40, 100), (2, 30, 600), (1100, 17)):
        x = rng.integers(-3, 4, shape).astype(dtype)  # many equal ones, zeros of both signs
        x[x == 0] *= rng.choice([-1.0, 1.0], (x == 0).sum())
        x[rng.random(shape) < 0.02] = np.nan
        x[rng.random(shape) < 0.02] = np.inf
        for axis in range(x.ndim):
            for keepdims in (False, True):
                same_bits(kernel(x, axis=axis, keepdims=keepdims), definition(op, x, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("ddof", [0, 1, -1, 3, 7])
@pytest.mark.parametrize("op", ["var", "std"])
def test_degrees_of_freedom(op: str, ddof: int) -> None:
    kernel = made(op, "float32")
    x = numbers((4, 3), "float32")
    expected = _outcome(lambda: definition(op, x, axis=-1, ddof=ddof))
    found = _outcome(lambda: kernel(x, axis=-1, ddof=ddof))
    if isinstance(expected, type):
        assert found is expected
    else:
        same_bits(found, expected)


@pytest.mark.parametrize("op", LIKE_INPUT + REDUCED)
def test_large_calls_are_cut_up_with_the_same_bits(op: str) -> None:
    kernel = made(op, "float32")
    for shape in ((3000, 1000), (9, 300_001)):
        x = numbers(shape, "float32")
        same_bits(kernel(x, **attrs_of(op)), definition(op, x, **attrs_of(op)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["softmax", "log_softmax", "logsumexp"])
def test_what_is_masked_out_goes_through_no_tiny_numbers(op: str, dtype: str) -> None:
    """Processors take a hundred times as long over them, and raise underflow."""
    made(op, dtype)
    loop = row_loop(op, dtype)
    x = numbers((40, 100), dtype)
    for mask in (-1e9, -np.inf, -1e4):
        y = np.where(x > 0, x, np.asarray(mask, x.dtype))
        out = np.empty_like(y)
        for kernel, shape in ((loop.rows, (40, 100, 1)), (loop.columns, (1, 40, 100))):
            if not kernel:
                continue
            job = ctypes.create_string_buffer(
                struct.pack("<8q", kernel, *shape, loops.address(y), loops.address(out), 0, 0) + bytes(offsets.L_ARGUMENTS)
            )
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(driver().addresses["line_job"])(ctypes.addressof(job))
            (status,) = struct.unpack_from("<q", job, offsets.L_JOB_STATUS)
            assert not status & offsets.EVENTS & ~offsets.HARD
        same_bits(made(op, dtype)(y, axis=-1), definition(op, y, axis=-1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exponentials_down_to_nothing(dtype: str) -> None:
    end = {"float32": 104.6, "float64": 746.1}[dtype]
    x = -np.linspace(0, end, 4000).astype(dtype)
    x[0] = 0
    for op in ("softmax", "log_softmax", "logsumexp"):
        for n in (60, 4000):
            same_bits(made(op, dtype)(x[-n:], axis=-1), definition(op, x[-n:], axis=-1))
            y = np.concatenate((x[:1], x[-n:]))
            same_bits(made(op, dtype)(y, axis=-1), definition(op, y, axis=-1))
            wide = np.ascontiguousarray(np.broadcast_to(y[:, None], (n + 1, 3)))
            same_bits(made(op, dtype)(wide, axis=0), definition(op, wide, axis=0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cross_entropy(dtype: str) -> None:
    kernel = made("cross_entropy", dtype)
    for shape in ((9, 5), (3, 70), (40, 1000), (6,), (4, 7, 11), (0, 3)):
        x = numbers(shape, dtype, 5, 4.0)
        classes = shape[0] if len(shape) == 1 else shape[1]
        places = shape[1:] if len(shape) == 1 else shape[:1] + shape[2:]
        target = np.asarray(np.random.default_rng(1).integers(0, classes, places))
        weight = np.abs(numbers((classes,), dtype, 2)) + np.asarray(0.1, dtype)
        for attrs in (
            {},
            {"reduction": "none"},
            {"reduction": "sum", "label_smoothing": 0.1},
            {"weight": weight},
            {"weight": weight, "ignore_index": 1, "reduction": "none"},
        ):
            same_bits(kernel(x, target, **attrs), definition("cross_entropy", x, target, **attrs))
            same_bits(ops.cross_entropy(x, target, **attrs), definition("cross_entropy", x, target, **attrs))
        share = np.abs(numbers(shape, dtype, 4))
        same_bits(kernel(x, share), definition("cross_entropy", x, share))
    for wrong in (np.array([9, 9, 9]), np.array([0, 1])):
        with pytest.raises((IndexError, ValueError)):
            kernel(numbers((3, 4), dtype), wrong)
