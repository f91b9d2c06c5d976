"""Convolutions with what follows them in one call: the bits of one op after the other, also where NaN, -0.0 and infinities meet relu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bcvm_core.ops as ops
from bcvm_core.codegen import loops
from bcvm_core.codegen.loops import address
from bcvm_core.codegen.onednn import convolution, following, keys, library, primitives
from bcvm_core.codegen.onednn.weights import weights
from bcvm_core.codegen.stencils import threads
from bcvm_core.codegen.stencils.driver import driver
from bcvm_core.ops import conv, order
from tests.in_threads import share

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.state()[1])
F32 = np.float32
SHAPES = [
    ((2, 9, 9, 16), (24, 16, 3, 3), 1),
    ((1, 17, 12, 3), (64, 3, 7, 7), 2),
    ((3, 6, 6, 32), (32, 32, 1, 1), 1),
    ((2, 8, 8, 8), (8, 1, 3, 3), 1),
    ((3, 3, 3, 128), (1024, 128, 3, 3), 1),
]
NORM = ("sub", "div", "mul", "add")


@pytest.fixture(autouse=True)
def code() -> None:
    """Calls of the library say what the processor's flags say once the code for that is there."""
    driver()
    loops.wait()
    assert primitives.tells_invalid() or loops.known("driver", "float64").failed  # type: ignore[union-attr]


def data(shape: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def made(shape: Any, w: Any, stride: int, *rest: Any) -> following.Following:
    """For images of (n, height, width, channels)."""
    n, height, width, channels = shape
    found = library.library()
    assert found is not None
    groups = channels // w[1]
    _, _, size, steps, spread, edges, out = conv.geometry((n, channels, height, width), w, stride=stride, padding=w[2] // 2, groups=groups)
    key = keys.ConvolutionKey((n, channels, *size), w, groups, steps, spread, edges, out, False)
    return following.Following(found, primitives.convolution(found, key), *rest)


def one_by_one(images: Any, w: Any, stride: int, numbers: Any, residual: Any, first: bool, relu: bool) -> Any:
    """By single ops, in plain order; back to channels last."""
    x = images.transpose(order.FIRST)
    with np.errstate(all="ignore"):
        y = ops.conv2d(np.ascontiguousarray(x), w, stride=stride, padding=w.shape[2] // 2, groups=x.shape[1] // w.shape[1])
        if len(numbers) == 4:
            mean, scale, gamma, beta = (v.reshape(-1, 1, 1) for v in numbers)
            y = (y - mean) / scale * gamma + beta
        elif numbers:
            y = y + numbers[0].reshape(-1, 1, 1)
        if residual is not None:
            other = residual.transpose(order.FIRST)
            y = y + other if first else other + y
        return ops.relu(y).transpose(order.LAST) if relu else y.transpose(order.LAST)


def same(ours: Any, theirs: Any) -> None:
    """Equal bits; of a NaN no more than that it is one (which of two an addition keeps is not told apart)."""
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    np.testing.assert_array_equal(ours.view(np.int32)[~np.isnan(ours)], np.ascontiguousarray(theirs).view(np.int32)[~np.isnan(ours)])


@pytest.mark.parametrize("apart", ["", "threads", "no flags"])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("residual", ["", "first", "second"])
def test_bits_of_one_op_after_the_other(monkeypatch: pytest.MonkeyPatch, residual: str, relu: bool, apart: str) -> None:
    if apart:
        share(monkeypatch)
        monkeypatch.setattr(threads, "cores", lambda: 3)
    if apart == "no flags":  # relu is a pass of its own, by pieces
        monkeypatch.setattr(following, "tells_invalid", lambda: False)
        monkeypatch.setattr(following, "_PIECE", 1000)
    for (shape, w_shape, stride), steps in [(s, k) for s in SHAPES for k in (NORM, ("add",), ())]:
        w = data(w_shape, 1)
        call = made(shape, w_shape, stride, steps, residual, relu)
        numbers = [np.abs(data(w_shape[0], k)) + F32(0.5) for k in range(len(steps))]
        for special in (None, np.nan, np.inf, -np.inf, -0.0):
            images, other = data(shape, 2), data(call.plain.out_shape, 3) if residual else None
            if special is not None:
                images[0, 1, 2, 1] = special
                if other is not None:
                    other[0, :2, 1, 3] = special, np.nan
            packed, places = weights.packed(call.library, w, call.plain.format), tuple(map(address, numbers))
            for short in ((), (packed, places), (packed, places)):
                ours = call(images, w, numbers, other, *short)
                assert ours is not None
                same(ours, one_by_one(images, w, stride, numbers, other, residual != "first", relu))
                assert (call.usual is not None) == (primitives.tells_invalid() and apart != "no flags" if relu else residual != "first")


def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The steps of the convolutions that run from now on."""
    ran: list[tuple[str, ...]] = []
    for name in ("run", "told"):
        function = getattr(convolution, name)
        monkeypatch.setattr(following, name, lambda *args, function=function: (ran.append(args[1].key.steps), function(*args))[1])
    return ran


def test_negative_zero_becomes_zero_as_by_relu() -> None:
    w = np.ones((16, 16, 1, 1), F32)
    numbers = [np.full(16, v, F32) for v in (0.0, 1.0, -1.0, -0.0)]  # 0 * -1 + -0.0
    images = np.zeros((1, 4, 4, 16), F32)
    before = made(images.shape, w.shape, 1, NORM, "", False)(images, w, numbers, None)
    after = made(images.shape, w.shape, 1, NORM, "", True)(images, w, numbers, None)
    assert before is not None and np.signbit(before).all()
    assert after is not None and not np.signbit(after).any() and not np.signbit(ops.relu(before)).any()


def test_nan_is_computed_again_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = watched(monkeypatch)
    w, images = data((16, 16, 3, 3), 1), data((1, 8, 8, 16), 2)
    call = made(images.shape, w.shape, 1, ("add",), "", True)
    numbers = [data(16, 3)]
    call(images, w, numbers, None)
    ran.clear()
    call(images, w, numbers, None)
    assert ran == [("add", "relu")]
    images[0, 0, 0, 0] = np.nan
    call(images, w, numbers, None)
    assert ran[1:] == [("add", "relu"), ("add",)]


def test_an_implementation_that_does_not_tell_of_nan_is_given_no_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_telling", {})
    w, images = data((16, 16, 3, 3), 1), data((1, 8, 8, 16), 2)
    call = made(images.shape, w.shape, 1, (), "", True)
    expected = call(images, w, [], None)
    assert list(following._telling.values()) == [True]  # those of the library that is tested do
    following._telling.update(dict.fromkeys(following._telling, False))
    ran = watched(monkeypatch)
    np.testing.assert_array_equal(call(images, w, [], None), expected)
    assert ran == [()]


def test_another_implementation_is_no_substitute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library would compute the convolution in another way with the steps, it is left to the ops."""
    w, images = data((16, 16, 3, 3), 1), data((1, 8, 8, 16), 2)
    call = made(images.shape, w.shape, 1, ("mul",), "", False)
    monkeypatch.setattr(call.plain, "followed", {})
    monkeypatch.setattr(call.plain, "implementation", "another:avx512_core")
    assert call(images, w, [data(16, 3)], None) is None
