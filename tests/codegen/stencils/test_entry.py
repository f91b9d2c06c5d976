"""The native entry: nothing leaks, errors are reported, and the Python call stands in where it can't be made."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from bcvm_core import config
from bcvm_core.codegen.stencils import entry as entries
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.kernel import kernel_for
from bcvm_core.codegen.stencils.region_entry import NativeSite
from bcvm_core.testing import assert_same_bits
from tests.in_threads import in_threads

ONE = FusedGraph((Input("float32"),), (Node("relu", (0,)), Node("add", (1, Const(1.0)))), (2,))
TWO = FusedGraph((Input("float32"), Input("float32")), (Node("add", (0, 1)), Node("multiply", (0, 1))), (2, 3))


def test_it_is_native_here() -> None:
    assert type(kernel_for(ONE).entry).__name__ == "builtin_function_or_method"


def test_references_are_kept_in_balance() -> None:
    for graph, count in ((ONE, 1), (TWO, 2)):
        entry = kernel_for(graph).entry
        x = np.ones(20, np.float32)
        bad = np.full(20, 3e38, np.float32)
        column = np.ones((20, 1), np.float32)
        calls: list[tuple[Any, ...]] = [(x,) * count, (bad,) * count, (column,) * count, (x[::2],) * count, (None,) * count, (x,)]
        if count == 2:
            calls += [(x, column), (column, x), (x, x[:3])]
        kept = [x, x.dtype, None, True, np.ndarray, bad, column]
        for arguments in calls:
            entry(*arguments)
        gc.collect()
        before = [sys.getrefcount(value) for value in kept]
        for arguments in calls:
            for _ in range(50):
                entry(*arguments)
        after = [sys.getrefcount(value) for value in kept]
        assert all(abs(a - b) < 5 for a, b in zip(after, before, strict=True)), (before, after)  # others use None too


def test_memory_is_kept_in_balance() -> None:
    entry = kernel_for(TWO).entry
    x = np.ones(5000, np.float32)
    bad = np.full(5000, 3e38, np.float32)
    tracemalloc = pytest.importorskip("tracemalloc")
    for _ in range(3):
        entry(x, x), entry(bad, bad)
    tracemalloc.start()
    try:
        for _ in range(10):
            entry(x, x), entry(bad, bad)
        first = tracemalloc.get_traced_memory()[0]
        for _ in range(500):
            entry(x, x), entry(bad, bad)
        assert tracemalloc.get_traced_memory()[0] - first < 4096
    finally:
        tracemalloc.stop()


def test_the_entry_keeps_its_code_alive() -> None:
    entry = kernel_for(ONE).entry
    gc.collect()
    others = [kernel_for(FusedGraph((Input("float32"),), (Node("multiply", (0, Const(float(k)))),) * 3, (3,))) for k in range(50)]
    del others
    gc.collect()
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    assert_same_bits(entry(x), np.maximum(x, np.float32(0)) + np.float32(1))


def test_a_kernel_goes_with_its_last_user() -> None:
    kernel = kernel_for(ONE)
    entry = kernel.entry
    gone = weakref.ref(kernel)
    assert kernel.entry is entry
    del kernel
    assert gone() is not None
    del entry
    assert gone() is None  # without the help of the collector


def test_it_takes_no_keywords_and_any_number_of_arguments() -> None:
    entry = kernel_for(ONE).entry
    assert entry() is None
    assert entry(1, 2, 3) is None
    with pytest.raises(TypeError):
        entry(x=1)


def test_python_takes_over_where_layouts_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_layout_holds", lambda: False)
    entries.runtime.cache_clear()
    try:
        kernel = kernel_for(ONE)
        x = np.linspace(-1, 1, 50, dtype=np.float32)
        assert kernel.entry == kernel.call
        assert_same_bits(kernel.entry(x), np.maximum(x, np.float32(0)) + np.float32(1))
    finally:
        entries.runtime.cache_clear()


def test_many_operands_go_the_python_way() -> None:
    inputs = tuple(Input("float32") for _ in range(20))
    nodes = [Node("add", (0, 1))]
    for k in range(2, 20):
        nodes.append(Node("add", (20 + len(nodes) - 1, k)))
    kernel = kernel_for(FusedGraph(inputs, tuple(nodes), (20 + len(nodes) - 1,)))
    arrays = [np.full(7, k, np.float32) for k in range(20)]
    assert kernel.entry == kernel.call
    assert (kernel.entry(*arrays) == sum(range(20))).all()


def test_the_lock_is_given_away_during_long_calls() -> None:
    kernel = kernel_for(FusedGraph((Input("float64"),), tuple(Node("tanh", (k,)) for k in range(12)), (12,)))
    x = np.linspace(-1, 1, min(kernel.limit, 400_000) - 1)
    assert x.size > kernel.release
    seen: list[int] = []
    stop = threading.Event()

    def count() -> None:
        while not stop.is_set():
            seen.append(1)
            time.sleep(0)  # gives the lock away, and wants it back

    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)  # nobody is made to give it away
    try:
        thread = threading.Thread(target=count)
        thread.start()
        done = len(seen)
        for _ in range(200):  # until the system lets the other thread run, too
            kernel.entry(x)
            if len(seen) > done + 3:
                break
        during = len(seen) - done
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert during > 3


def test_a_site_may_change_its_kernel_while_it_runs() -> None:
    """The lock is given away meanwhile, so another thread may do that: code that runs must not make room for other code."""
    kernel = kernel_for(FusedGraph((Input("float64"),), tuple(Node("tanh", (k,)) for k in range(12)), (12,)))
    kernel.limit = 1 << 40
    site = NativeSite(lambda *_args: None, kernel.entry, (None,), (), False)
    other = kernel_for(FusedGraph((Input("float64"),), (Node("negative", (0,)), Node("negative", (1,))), (2,))).entry
    place, size = kernel._splicer.arena, kernel.code(0).size
    x = np.linspace(-1, 1, 1_500_000)
    wanted = kernel.entry(x)
    assert site.function(x) is None  # the region is told of the first shape
    gone = weakref.ref(kernel.code(0))
    del kernel
    going = threading.Event()
    seen: list[bool] = []

    def change() -> None:
        going.wait()
        site.use(other)
        gc.collect()
        seen.append(gone() is not None)
        for _ in range(8):  # nothing but returns where the code was, if it was freed
            place.put(b"\xc3" * size)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)  # the other thread gets the lock when the kernel gives it away
    thread = threading.Thread(target=change)
    thread.start()
    try:
        time.sleep(0.01)
        going.set()
        made = site.function(x)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert seen == [True]
    assert_same_bits(made, wanted)
    gc.collect()
    assert gone() is None


def test_floating_point_flags_from_before_are_not_mistaken() -> None:
    entry = kernel_for(ONE).entry
    x = np.ones(9, np.float32)
    with np.errstate(all="ignore"):
        np.divide(x, 0)
    assert entry(x) is not None


def test_threads_call_one_entry_at_once() -> None:
    entry = kernel_for(TWO).entry
    wrong: list[Any] = []

    def work(k: int) -> None:
        x, y = np.full(100 + k, k, np.float32), np.full((3, 1), 2, np.float32)
        for _ in range(300):
            for pair in ((x, x), (x, y)):
                total, product = entry(*pair)
                if not ((total == pair[0] + pair[1]).all() and (product == pair[0] * pair[1]).all()):
                    wrong.append(k)

    in_threads(6, work)
    assert not wrong


def test_nothing_is_recycled_when_told_not_to() -> None:
    from bcvm_core.codegen.stencils import recycle

    with config.override(recycled_bytes=0):
        assert recycle.recycling() == (0, 0)
