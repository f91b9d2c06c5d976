"""Convolution by oneDNN: accuracy, bits that depend on nothing but values and shapes, packed weights, steps in one pass, threads."""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bcvm_core.ops as ops
from bcvm_core import config
from bcvm_core.codegen import loops
from bcvm_core.codegen.onednn import columns, convolution, digest, keys, library, primitives, threadpool, weights
from bcvm_core.codegen.stencils import threads
from bcvm_core.codegen.stencils.driver import driver
from bcvm_core.devices import written
from bcvm_core.ops import conv, order, pending
from tests.in_threads import in_threads, share

needed = pytest.mark.skipif(library.library() is None, reason=library.state()[1])
F32 = np.float32


@pytest.fixture(scope="module", autouse=True)
def _digests() -> None:
    """Weights are kept from the first call on: what compares them is compiled before."""
    digest.digest(np.zeros(1 << 16, F32))
    assert loops.wait(120)


def data(shape: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def by_im2col(*args: Any, **attrs: Any) -> Any:
    with config.override(onednn="0"):
        return ops.conv2d(*args, **attrs)


def random_calls(count: int) -> Iterator[tuple[Any, Any, Any, dict[str, Any]]]:
    """Images, weight, bias and attributes of all sorts."""
    rng = np.random.default_rng(7)
    for seed in range(count):
        groups = int(rng.choice([1, 1, 2, 5]))
        c, o = int(rng.integers(1, 20)) * groups, int(rng.integers(1, 20)) * groups
        kernel = tuple(int(k) for k in rng.integers(1, 5, 2))
        dilation = tuple(int(d) for d in rng.integers(1, 3, 2))
        edges = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (2, 2)))
        stride = tuple(int(s) for s in rng.integers(1, 4, 2))
        x = data((int(rng.integers(1, 4)), c, int(rng.integers(9, 20)), int(rng.integers(9, 20))), seed)
        attrs = {"groups": groups, "dilation": dilation, "padding": edges, "stride": stride}
        yield x, data((o, c // groups, *kernel), seed + 1), data(o, seed + 2) if seed % 2 else None, attrs


def primitive(x: Any, w: Any, attrs: dict[str, Any]) -> primitives.Convolution:
    """What runs a call."""
    size, kernel = x.shape[2:], w.shape[2:]
    out = conv.output_size(size, attrs["padding"], kernel, attrs["stride"], attrs["dilation"])
    key = keys.ConvolutionKey(
        x.shape, w.shape, attrs["groups"], attrs["stride"], attrs["dilation"], attrs["padding"], out, attrs.get("bias", False)
    )
    found = library.library()
    assert found is not None
    return primitives.convolution(found, key)


@pytest.fixture(params=["by windows", "as products"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How the library computes the convolutions of a test."""
    if request.param == "as products":
        monkeypatch.setattr(keys, "PIXELS", 1 << 20)
        monkeypatch.setattr(keys, "WEIGHTS", 0)
    primitives.forget()
    weights.weights.forget()
    yield request.param
    primitives.forget()
    weights.weights.forget()


@needed
def test_small_images_in_a_batch_are_one_product() -> None:
    x, w = data((3, 128, 3, 3)), data((1024, 128, 3, 3), 1)
    attrs = {"padding": ((1, 1), (1, 1)), "stride": (1, 1), "dilation": (1, 1), "groups": 1}
    assert type(primitive(x, w, attrs).run) is columns.InColumns
    for others in ((x[:1], w), (data((3, 128, 5, 5)), w), (x, w[:512]), (data((3, 256, 3, 3)), data((1024, 256, 1, 1)))):
        edges = ((0, 0), (0, 0)) if others[1].shape[2] == 1 else attrs["padding"]
        assert type(primitive(*others, {**attrs, "padding": edges}).run) is not columns.InColumns
    most = keys.MATRIX // (9 * 9 * 128)
    assert type(primitive(np.zeros((most, 128, 3, 3), F32), w, attrs).run) is columns.InColumns
    assert type(primitive(np.zeros((most + 1, 128, 3, 3), F32), w, attrs).run) is not columns.InColumns
    exact = ops.conv2d(x.astype(np.float64), w.astype(np.float64), padding=1)
    size = by_im2col(np.abs(x), np.abs(w), padding=1)
    assert (np.abs(ops.conv2d(x, w, padding=1) - exact) / size).max() < 8 * np.finfo(F32).eps


@needed
@pytest.mark.usefixtures("way")
def test_accuracy_beside_float64() -> None:
    for x, w, b, attrs in random_calls(60):
        exact = ops.conv2d(x.astype(np.float64), w.astype(np.float64), None if b is None else b.astype(np.float64), **attrs)
        size = by_im2col(np.abs(x), np.abs(w), **attrs)  # what rounding is measured by
        error = np.abs(ops.conv2d(x, w, b, **attrs) - exact) / (size + 1)
        assert error.max() < 8 * np.finfo(F32).eps, (x.shape, w.shape, attrs)


@needed
def test_it_is_not_im2col() -> None:
    x, w = data((1, 64, 14, 14)), data((64, 64, 3, 3), 1)
    calls = weights.weights.figures()
    ops.conv2d(x, w, padding=1)
    assert weights.weights.figures() != calls
    calls = weights.weights.figures()
    by_im2col(x, w, padding=1)
    assert weights.weights.figures() == calls


@needed
@pytest.mark.usefixtures("way")
def test_bits_depend_on_values_and_shapes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = library.library()
    assert found is not None
    for x, w, b, attrs in random_calls(12):
        expected = ops.conv2d(x, w, b, **attrs).tobytes()
        primitives.forget()
        weights.weights.forget()
        for limit in (0.0, float("inf")):  # with and without threads
            share(monkeypatch, limit)
            with found.limits(3):
                assert ops.conv2d(x, w, b, **attrs).tobytes() == expected
        for offset in (1, 2, 3):
            moved = np.empty(x.size + offset, F32)[offset:].reshape(x.shape)
            moved[...] = x
            assert ops.conv2d(moved, w, b, **attrs).tobytes() == expected
        unaligned = np.frombuffer(bytearray(x.nbytes + 1), np.uint8)[1:].view(F32).reshape(x.shape)
        unaligned[...] = x
        last = np.ascontiguousarray(x.transpose(order.LAST)).transpose(order.FIRST)
        for like in (unaligned, last, np.asfortranarray(x), x[:, :, ::-1][:, :, ::-1]):
            assert ops.conv2d(like, np.asfortranarray(w), b, **attrs).tobytes() == expected


@needed
@pytest.mark.usefixtures("way")
def test_special_values_come_out_where_they_go_in() -> None:
    x, w = data((2, 6, 12, 12)), data((5, 6, 3, 3), 1)
    x[0, 1, 3, 4], x[1, 2, 8, 8], x[1, 0, 1, 1], x[0, 5, 11, 11] = np.nan, np.inf, -np.inf, F32(1e-42)
    for attrs in ({}, {"padding": 1}, {"stride": 2}, {"dilation": 2}):
        ours, theirs = ops.conv2d(x, w, **attrs), by_im2col(x, w, **attrs)
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
        np.testing.assert_array_equal(ours[np.isinf(theirs)], theirs[np.isinf(theirs)])
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    depthwise = ops.conv2d(x, data((6, 1, 3, 3), 2), groups=6)
    np.testing.assert_array_equal(np.isfinite(depthwise), np.isfinite(by_im2col(x, data((6, 1, 3, 3), 2), groups=6)))
    assert not np.signbit(ops.conv2d(np.zeros((1, 2, 4, 4), F32), data((2, 2, 3, 3)))).any()


@needed
@pytest.mark.parametrize("shape", [(8, 4, 3, 3), (64, 32, 3, 3), (96, 64, 3, 3)])  # compared as they are, by digest, by marks of pages
def test_a_written_weight_is_seen(shape: Any) -> None:
    x, w = data((1, shape[1], 9, 9)), data(shape, 1)
    if digest.digest(w) is None:
        loops.wait()
    before = weights.weights.figures()
    ops.conv2d(x, w)
    ops.conv2d(x, w)
    after = weights.weights.figures()
    assert (after["hits"] - before["hits"], after["misses"] - before["misses"]) == (1, 1)

    def check() -> None:
        np.testing.assert_array_equal(ops.conv2d(x, w), ops.conv2d(x, w.copy()))
        ops.conv2d(x, w)
        ops.conv2d(x, w)

    w[3, 2, 1, 0] += F32(1)
    check()
    w[[0, 1]] = w[[1, 0]]
    check()
    memoryview(w).cast("B").cast("f")[5] = 2.5
    check()
    w.ravel()[-1] = np.nextafter(w.ravel()[-1], F32(9))
    check()


@needed
def test_a_weight_that_nobody_wrote_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = data((1, 64, 9, 9)), data((96, 64, 3, 3), 1)
    if digest.digest(w) is None:
        loops.wait()
    if written.watch(loops.address(w), w.nbytes) is None:
        pytest.skip("no marks of written pages on this system")
    read: list[int] = []
    monkeypatch.setattr(weights, "digest", lambda array: read.append(array.size) or digest.digest(array))
    results = [ops.conv2d(x, w) for _ in range(5)]
    assert len(read) == 2  # packed, then vouched for
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    w[50, 3] *= F32(2)
    changed = [ops.conv2d(x, w) for _ in range(4)]
    assert len(read) == 4  # packed anew: what is kept is new, too
    np.testing.assert_array_equal(changed[3], changed[0])
    assert (changed[0] != results[0]).any()


@needed
def test_packed_weights_are_bounded() -> None:
    kept = [data((32, 32, 3, 3), seed) for seed in range(6)]
    with config.override(packed_bytes=4 * kept[0].nbytes):
        for w in kept:
            ops.conv2d(data((1, 32, 6, 6)), w)
            assert weights.weights.figures()["held_bytes"] <= 4 * w.nbytes
        with config.override(packed_bytes=0):
            ops.conv2d(data((1, 32, 6, 6)), kept[0])
        assert weights.weights.figures()["held_bytes"] <= 4 * kept[0].nbytes
    for size in range(8, 8 + 2 * primitives._MAX_KEPT):
        primitives.kept(("nothing", size), library.library(), object)  # type: ignore[arg-type]  # there is one
    assert primitives.figures()["primitives"] <= primitives._MAX_KEPT
    primitives.forget()


def test_a_digest_differs_where_any_element_does() -> None:
    x = data(5_003)
    if digest.digest(x) is None:
        loops.wait()
    if digest.digest(x) is None:
        pytest.skip("no generated code")
    seen = {digest.digest(x)}
    for k in (0, 1, 63, 64, 2_500, 4_999, 5_002):
        y = x.copy()
        y.view(np.uint32)[k] ^= 1
        seen.add(digest.digest(y))
        y = x.copy()
        y[[k, (k + 64) % 5_003]] *= F32(-1)  # neighbours in one lane
        seen.add(digest.digest(y))
        y = x.copy()
        y[[k, (k + 640) % 5_003]] = y[[(k + 640) % 5_003, k]]
        seen.add(digest.digest(y))
    assert len(seen) == 22 and digest.digest(x.copy()) in seen


@needed
def test_steps_after_a_convolution_have_the_bits_of_ops_after_it() -> None:
    found = library.library()
    assert found is not None
    done = 0
    for x, w, _, attrs in random_calls(40):
        x[0, 0, 2, 2], x[-1, -1, 5, 5] = np.nan, np.inf
        try:
            made = primitive(x, w, attrs)
        except library.OneDNNError:  # im2col does it
            continue
        numbers = [data(w.shape[0], 11 + k) for k in range(4)]
        images = np.ascontiguousarray(x.transpose(order.LAST))
        plain = convolution.run(found, made, images, w, None)
        mean, scale, weight, bias = numbers
        expected = (plain - mean) / scale * weight + bias
        waiting = convolution.Waiting(found, made.key, made, images, w, None)
        if waiting.fill((("sub", mean), ("div", scale), ("mul", weight), ("add", bias))):
            done += 1
            there = ~np.isnan(expected)
            np.testing.assert_array_equal(waiting.memory.view(np.uint32)[there], expected.view(np.uint32)[there])
            assert np.isnan(waiting.memory[~there]).all()
    assert done > 30


@needed
def test_a_waiting_convolution_is_claimed_once() -> None:
    x, w, b = data((1, 8, 6, 6)), data((4, 8, 3, 3), 1), data(4, 2)
    expected = ops.conv2d(x, w)
    with order.kept():
        for how in ("settle", "finish", "other", "refused"):
            pending.ask()
            result = ops.conv2d(x, w)
            pending.answered()
            assert pending._waiting and order.channels_innermost(result)
            if how == "settle":
                pending.settle()
                np.testing.assert_array_equal(result, expected)
            elif how == "finish":
                assert pending.finish(result, (("add", b),))
                np.testing.assert_array_equal(result, expected + b[:, None, None])
            elif how == "other":
                assert not pending.finish(result.copy(), (("add", b),)) and not pending.finish(result[:, :2], ())
                pending.settle()
                np.testing.assert_array_equal(result, expected)
            else:
                assert not pending.finish(result, (("add", b.astype(np.float64)),))
                np.testing.assert_array_equal(result, expected)
            assert not pending._waiting and not pending.finish(result, ())
        pending.ask()
        ops.conv2d(x, w)
        pending.drop()
        assert not pending._waiting and not pending.asker()


@needed
def test_several_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    share(monkeypatch, 2e4)  # some of both kinds
    calls = list(random_calls(10))
    expected = [ops.conv2d(x, w, b, **attrs).tobytes() for x, w, b, attrs in calls]
    wrong: list[int] = []

    def work(first: int) -> None:
        for k in range(60):
            x, w, b, attrs = calls[(k + first) % 10]
            if ops.conv2d(x, w, b, **attrs).tobytes() != expected[(k + first) % 10]:
                wrong.append(k)

    in_threads(4, work)
    assert not wrong


@needed
def test_an_interrupt_leaves_no_part_undone(monkeypatch: pytest.MonkeyPatch, pythons_interrupts: None) -> None:
    share(monkeypatch)
    monkeypatch.setattr(threads, "cores", lambda: 2)
    found = library.library()
    assert found is not None
    driver()
    loops.wait(60.0)
    if threadpool.stream(found) is None:
        pytest.skip("this library has no place for threads of ours")
    x, w = data((4, 32, 60, 60)), data((32, 32, 3, 3), 1)
    expected = ops.conv2d(x, w).tobytes()
    begun = threading.Event()
    real = threadpool.run

    def run(*arguments: Any) -> None:
        begun.set()
        real(*arguments)

    monkeypatch.setattr(threadpool, "run", run)
    killer = threading.Thread(target=lambda: (begun.wait(), _thread.interrupt_main()))
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            ops.conv2d(x, w)
    killer.join()
    assert ops.conv2d(x, w).tobytes() == expected


@needed
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_convolves() -> None:
    x, w = data((2, 32, 40, 40)), data((64, 32, 3, 3), 1)
    expected = ops.conv2d(x, w).tobytes()
    child = os.fork()
    if child == 0:
        os._exit(0 if ops.conv2d(x, w).tobytes() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_settings_and_what_cannot_be_loaded(tmp_path: Path) -> None:
    for word in ("0", "off", "No", "false"):
        with config.override(onednn=word):
            assert library.library() is None and "BCVM_ONEDNN" in library.state()[1]
    with config.override(onednn=str(tmp_path / "libdnnl.so.3")):
        assert library.library() is None and "does not exist" in library.state()[1]
    other = tmp_path / "libother.so"
    other.write_bytes(b"no library")
    with config.override(onednn=str(other)):
        assert library.library() is None and "cannot be used" in library.state()[1]
        x, w = data((1, 2, 5, 5)), data((3, 2, 3, 3), 1)
        np.testing.assert_array_equal(ops.conv2d(x, w), by_im2col(x, w))


def test_channels_innermost_is_neither_plain_nor_strided() -> None:
    x = data((2, 3, 4, 5))
    last = np.ascontiguousarray(x.transpose(order.LAST)).transpose(order.FIRST)
    assert order.channels_innermost(last) and not order.channels_innermost(x)
    for other in (last[:, :2], last[:, :, ::2], x.transpose(0, 1, 3, 2), x[:, :1], x[0]):
        assert not order.channels_innermost(other)
    if library.library() is not None:
        made = convolution.plain(last)
        assert made.flags.c_contiguous
        np.testing.assert_array_equal(made, x)
