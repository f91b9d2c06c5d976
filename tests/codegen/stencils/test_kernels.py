"""Fused kernels over arrays of all shapes, strides and alignments; nothing outside is touched."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np
import pytest

from bcvm_core.codegen.stencils import kernel as kernels
from bcvm_core.codegen.stencils import threads
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.kernel import kernel_for
from bcvm_core.dtypes import BY_NAME
from bcvm_core.testing import assert_same_bits
from tests.codegen.stencils.data import REAL, numbers, one_by_one, ordinary
from tests.ops.elementwise_arguments import layouts

CHAIN = FusedGraph(
    (Input("float32"), Input("float32")),
    (Node("add", (0, 1)), Node("relu", (2,)), Node("multiply", (3, Const(2.0))), Node("tanh", (2,)), Node("subtract", (4, 5))),
    (6, 2),
)


def chain(dtype: str) -> FusedGraph:
    """A graph that keeps any type."""
    op = "logical_xor" if dtype == "bool" else "maximum"
    return FusedGraph((Input(dtype), Input(dtype)), (Node(op, (0, 1)), Node("where", (2, 2, 1)), Node(op, (3, 0))), (4,))


def expect(graph: FusedGraph, *arrays: Any) -> list[Any]:
    return one_by_one(graph, arrays)[0]


@pytest.mark.parametrize("dtype", REAL)
def test_every_length_and_offset(dtype: str) -> None:
    kernel = kernel_for(chain(dtype))
    size = BY_NAME[dtype].numpy.itemsize
    for length in [*range(1, 101), 1000, 4099]:
        memory = np.zeros((length + 2) * size + 8, np.uint8)
        shift = length % 8
        x = memory[shift : shift + length * size].view(BY_NAME[dtype].numpy)
        x[:] = ordinary(dtype, length, length)
        y = ordinary(dtype, length, length + 1)
        for call in (kernel.call, kernel.entry):
            assert_same_bits(call(x, y), expect(chain(dtype), x, y)[0], f"{dtype} {length}")


def test_every_layout_against_every_other() -> None:
    kernel = kernel_for(CHAIN)
    data = ordinary("float32", 240, 1)
    other = ordinary("float32", 240, 2)
    for name, x in layouts(data).items():
        for second_name, y in layouts(other).items():
            if x.shape != y.shape or not x.ndim:
                continue
            wanted = expect(CHAIN, x, y)
            for call in (kernel.call, kernel.entry, kernel.entry):
                made = call(x, y)
                if not x.size:
                    assert made is None
                    continue
                assert_same_bits(list(made), wanted, f"{name}, {second_name}")
                assert [a.strides for a in made] == [a.strides for a in wanted], f"{name}, {second_name}"


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((7, 33), (33,)),
    ((7, 33), (7, 1)),
    ((7, 33), (1, 1)),
    ((7, 1), (1, 33)),
    ((33,), (7, 33)),
    ((3, 4, 5), (4, 1)),
    ((3, 4, 5), (3, 1, 5)),
    ((3, 1, 5), (1, 4, 1)),
    ((2, 3, 4, 5), (3, 1, 1)),
    ((1,), (5,)),
    ((1, 1), (1,)),
    ((200, 3), (3,)),
    ((2, 1, 3, 1, 2), (1, 4, 1, 5, 1)),
]


@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_broadcasting(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    kernel = kernel_for(CHAIN)
    x = ordinary("float32", int(np.prod(first)), 1).reshape(first)
    y = ordinary("float32", int(np.prod(second)), 2).reshape(second)
    for a, b in ((x, y), (np.asfortranarray(x), y), (x[..., ::-1], y), (np.repeat(x, 2, axis=-1)[..., ::2], y), (x[::-1], y[::-1])):
        wanted = expect(CHAIN, a, b)
        for call in (kernel.entry, kernel.call, kernel.entry):  # the second call of the entry knows the pattern
            made = call(a, b)
            assert_same_bits(list(made), wanted)
            assert [m.strides for m in made] == [w.strides for w in wanted]


def test_what_does_not_fit_is_left_to_python() -> None:
    kernel = kernel_for(CHAIN)
    x = ordinary("float32", 6, 1)

    class Mine(np.ndarray):  # type: ignore[type-arg]
        pass

    for arrays in (
        (x, x.astype(np.float64)),
        (x, x[:4]),
        (x,),
        (x, x, x),
        (x, 1.0),
        (x, x.view(Mine)),
        (np.float32(1), np.float32(2)),
        (np.array(1, np.float32), np.array(1, np.float32)),
        (x[:0], x[:0]),
        (x, x.astype(x.dtype.newbyteorder())),
        (x, None),
    ):
        assert kernel.call(*arrays) is None
        assert kernel.entry(*arrays) is None


def test_events_send_the_call_back_and_leave_nothing_behind() -> None:
    graph = FusedGraph((Input("float32"),), (Node("multiply", (0, Const(3e38))),), (1,))
    kernel = kernel_for(graph)
    good, bad = np.full(50, 0.5, np.float32), np.full(50, 4.0, np.float32)
    for call in (kernel.entry, kernel.call):
        assert call(good) is not None
        assert call(bad) is None
        with np.errstate(all="raise"):
            assert call(good) is not None  # the flag of the call before is gone
            np.add(good, good)


def test_underflow_counts_only_where_somebody_listens() -> None:
    graph = FusedGraph((Input("float32"),), (Node("multiply", (0, Const(1e-38))),), (1,))
    kernel = kernel_for(graph)
    x = np.full(9, 1e-3, np.float32)
    for call in (kernel.entry, kernel.call):
        assert_same_bits(call(x), expect(graph, x)[0])
        with np.errstate(under="warn"):
            assert call(x) is None


def test_results_go_where_they_are_wanted() -> None:
    kernel = kernel_for(CHAIN)
    x, y = ordinary("float32", 60, 1).reshape(6, 10), ordinary("float32", 60, 2).reshape(6, 10)
    wanted = expect(CHAIN, x, y)
    big = np.zeros((12, 20), np.float32)
    outs = [big[::2, ::2], np.zeros((10, 6), np.float32).T]
    assert kernel((x, y), outs) is not None
    assert_same_bits([np.ascontiguousarray(o) for o in outs], wanted)
    assert not big[1::2].any() and not big[:, 1::2].any()
    assert kernel((x, y), [outs[0]]) is None
    assert kernel((x, y), [outs[0], np.zeros((6, 9), np.float32)]) is None
    assert kernel((x, y), [outs[0], np.zeros((6, 10))]) is None
    fixed = np.zeros((6, 10), np.float32)
    fixed.flags.writeable = False
    assert kernel((x, y), [outs[0], fixed]) is None


@pytest.mark.parametrize("length", [1, 31, 32, 100, 5000])
def test_outputs_may_be_inputs(length: int) -> None:
    kernel = kernel_for(CHAIN)
    for order in ((0, 1), (1, 0)):
        arrays = [ordinary("float32", length, 1), ordinary("float32", length, 2)]
        wanted = expect(CHAIN, *arrays)
        assert kernel(arrays, [arrays[order[0]], arrays[order[1]]]) is not None
        assert_same_bits([arrays[order[0]], arrays[order[1]]], wanted)


def test_large_calls_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_for(CHAIN)
    monkeypatch.setattr(threads, "cores", lambda: 3)
    count = kernel.limit * 2 + 12345
    x, y = ordinary("float32", count, 1), ordinary("float32", count, 2)
    assert_same_bits(list(kernel.entry(x, y)), expect(CHAIN, x, y))
    square = x[: count // 100 * 100].reshape(-1, 100)
    for a, b in ((square, y[:100]), (square.T, y[:100, None]), (square[:, ::-1], square)):
        made, wanted = kernel.entry(a, b), expect(CHAIN, a, b)
        assert_same_bits(list(made), wanted)
        assert [m.strides for m in made] == [w.strides for w in wanted]
    names = {t.name for t in __import__("threading").enumerate()}
    assert "bcvm-kernels" in names


def test_a_failing_piece_is_reported() -> None:
    def run(piece: int) -> None:
        if piece == 7:
            raise ValueError("piece 7")

    with pytest.raises(ValueError, match="piece 7"):
        threads.workers.run(run, range(20), 3)
    done: list[int] = []
    threads.workers.run(done.append, range(20), 3)
    assert sorted(done) == list(range(20))


def test_an_event_in_any_piece_counts() -> None:
    graph = FusedGraph((Input("float32"),), (Node("divide", (Const(1.0), 0)),), (1,))
    kernel = kernel_for(graph)
    x = np.ones(kernel.limit * 3, np.float32)
    assert kernel.entry(x) is not None
    x[-5] = 0
    assert kernel.entry(x) is None


def _guarded(count: int, dtype: Any, at_end: bool) -> tuple[Any, Any]:
    """An array that lies against memory that may not be touched."""
    size = count * dtype.itemsize
    pages = -(-size // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None).mprotect
    for page in (0, pages + 1):
        assert protect(ctypes.c_void_p(base + page * mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    offset = (pages + 1) * mmap.PAGESIZE - size if at_end else mmap.PAGESIZE
    return np.frombuffer(memory, dtype, count, offset), memory


def _touch_only_ones_own(dtype: str) -> None:
    kernel = kernel_for(chain(dtype))
    kind = BY_NAME[dtype].numpy
    for count in [*range(1, 70), 1000]:
        for at_end in (False, True):
            arrays = [_guarded(count, kind, at_end)[0] for _ in range(3)]
            for k, x in enumerate(arrays[:2]):
                x[:] = ordinary(dtype, count, k)
            assert kernel(arrays[:2], [arrays[2]]) is not None
            assert kernel.entry(*arrays[:2]) is not None
            backwards = [x[::-1] for x in arrays]
            assert kernel(backwards[:2], [backwards[2]]) is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("dtype", REAL)
def test_nothing_outside_is_read_or_written(dtype: str) -> None:
    child = os.fork()
    if child == 0:  # a fault ends the child only
        try:
            _touch_only_ones_own(dtype)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_cost_decides_what_is_large() -> None:
    cheap = kernel_for(FusedGraph((Input("float32"),), (Node("negative", (0,)),), (1,)))
    dear = kernel_for(CHAIN)
    assert cheap.limit > dear.limit > 1000
    assert kernels.LARGE_NS / dear.ns_per_element == pytest.approx(dear.limit, rel=0.01)


def test_random_shapes_and_strides() -> None:
    rng = np.random.default_rng(5)
    kernel = kernel_for(CHAIN)
    for _ in range(150):
        ndim = int(rng.integers(1, 5))
        shape = [int(rng.integers(1, 6)) for _ in range(ndim)]
        arrays = []
        for k in range(2):
            own = [1 if rng.random() < 0.25 else d for d in shape][int(rng.integers(0, ndim)) if rng.random() < 0.3 else 0 :]
            base = numbers("float32", int(np.prod(own)) * 2 ** len(own), k).reshape([2 * d for d in own])
            base = np.where(np.isfinite(base), np.clip(base, -5, 5), 1).astype(np.float32)
            view = base[
                tuple(
                    slice(None, None, 2) if rng.random() < 0.5 else slice(d - 1, None, -1) if rng.random() < 0.4 else slice(0, d)
                    for d in own
                )
            ]
            arrays.append(view.transpose(rng.permutation(view.ndim)) if rng.random() < 0.3 and len(set(own)) == 1 else view)
        try:
            np.broadcast_shapes(*(x.shape for x in arrays))
        except ValueError:
            continue
        wanted = expect(CHAIN, *arrays)
        made = kernel.entry(*arrays)
        assert_same_bits(list(made), wanted)
        assert [m.strides for m in made] == [w.strides for w in wanted], [(a.shape, a.strides) for a in arrays]


def test_pieces_run_in_the_mode_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpore makes threads flush subnormal numbers; a large call must not mix both kinds."""
    seen: list[int] = []
    kernel = kernel_for(FusedGraph((Input("float32"),), (Node("multiply", (0, Const(0.5))),), (1,)))
    original = kernels._packed

    def packed(common: Any, piece: Any) -> Any:
        seen.append(common[4])
        return original(common, piece)

    monkeypatch.setattr(kernels, "_packed", packed)
    monkeypatch.setattr(kernel, "limit", 10)
    assert kernel.call(np.ones(20000, np.float32)) is not None
    assert set(seen) == {kernel._driver.mode()}
    assert seen[0] & 0x1F80 == 0x1F80  # all events are masked, as everywhere in Python


def test_collecting_garbage_while_code_is_placed_does_not_hang() -> None:
    """Code that goes must not wait for the lock that its own thread holds."""
    from bcvm_core.codegen.stencils import arena

    shared = arena.shared()
    kernel = kernel_for(FusedGraph((Input("float32"),), (Node("exp2", (0,)), Node("square", (1,))), (2,)))
    with shared._lock:
        del kernel
    assert shared.used_bytes > 0


def test_an_interrupt_is_heard_between_the_pieces_of_a_long_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one core, too: a long call comes back to Python now and then, and what was not done stays undone."""
    monkeypatch.setattr(kernels, "_PATIENCE_NS", 5_000)
    kernel = kernel_for(CHAIN)
    arrays = [np.linspace(-2, 2, 200_000, dtype=np.float32) for _ in range(2)]
    for actual, wanted in zip(kernel(arrays, cores=1), expect(CHAIN, *arrays), strict=True):
        assert_same_bits(actual, wanted)
    done: list[Any] = []
    drive = kernel._driver.drive

    def interrupted(job: int) -> None:
        drive(job)
        done.append(job)
        if len(done) == 3:
            raise KeyboardInterrupt

    class Driver:
        mode = staticmethod(kernel._driver.mode)

    Driver.drive = staticmethod(interrupted)  # type: ignore[attr-defined]
    monkeypatch.setattr(kernel, "_driver", Driver)
    with pytest.raises(KeyboardInterrupt):
        kernel(arrays, cores=1)
    assert len(done) == 3
