"""Memory of large results: used again, never shared, and the arrays are like any others."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from bcvm_core.codegen.stencils import offsets as c
from bcvm_core.codegen.stencils import recycle
from bcvm_core.codegen.stencils import recycle_code as r
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.kernel import kernel_for
from tests.in_threads import in_threads

GRAPH = FusedGraph((Input("float32"),), (Node("add", (0, Const(1.0))),), (1,))
LARGE = c.RECYCLED_MIN // 4


def address(x: Any) -> int:
    found: int = x.__array_interface__["data"][0]
    return found


@pytest.fixture
def entry() -> Any:
    if not recycle.recycling()[0]:
        pytest.skip("results are not recycled here")
    return kernel_for(GRAPH).entry


def test_a_block_serves_the_next_result(entry: Any) -> None:
    x = np.zeros(LARGE, np.float32)
    first = entry(x)
    at = address(first)
    del first
    before = recycle.figures()["reused"]
    second = entry(x)
    assert address(second) == at
    assert recycle.figures()["reused"] == before + 1
    assert (second == 1).all()


def test_a_block_stays_whole_whatever_part_of_it_was_used(entry: Any) -> None:
    """Sizes that change at every call must not leave ever smaller blocks behind."""
    large, small = np.zeros(LARGE + LARGE // 2, np.float32), np.zeros(LARGE, np.float32)
    held = [entry(large) for _ in range(r.BLOCKS_MAX)]  # what others left is taken, so the last one is fresh
    at = address(held.pop())
    for x in (small, large, small, large):
        y = entry(x)
        assert address(y) == at and (y == 1).all()
        del y


def test_a_block_that_is_far_too_large_is_left_for_others(entry: Any) -> None:
    at = address(entry(np.zeros(LARGE + r.SLACK // 4 + 4096, np.float32)))
    assert address(entry(np.zeros(LARGE, np.float32))) != at


def test_results_that_live_share_nothing(entry: Any) -> None:
    x = np.arange(LARGE, dtype=np.float32)
    kept = [entry(x + k) for k in range(5)]
    views = [y[::7] for y in kept]
    del kept[::2]
    gc.collect()
    more = [entry(x * 0 + 9) for _ in range(5)]
    for k, view in enumerate(views):
        np.testing.assert_array_equal(view, (x + k + 1)[::7])
    assert all((y == 10).all() for y in more)


def test_results_are_ordinary_arrays(entry: Any) -> None:
    y = entry(np.zeros(LARGE, np.float32))
    assert y.flags.owndata and y.flags.writeable and y.base is None
    assert address(y) % 64 == 0
    y.resize(3 * LARGE, refcheck=False)
    assert (y[:LARGE] == 1).all() and not y[LARGE:].any()
    y.resize(10, refcheck=False)
    assert (y == 1).all()
    z = np.empty(LARGE, np.float32)  # NumPy's own allocator is back in its place
    assert np.core.multiarray.get_handler_name(z) == np.core.multiarray.get_handler_name() != "bcvm" if not hasattr(np, "_core") else True


def test_small_and_huge_results_are_not_recycled(entry: Any) -> None:
    before = recycle.figures()["blocks"]
    for count in (10, LARGE - 1, c.RECYCLED_MAX // 4 + 1):
        y = entry(np.zeros(count, np.float32))
        del y
        assert recycle.figures()["blocks"] == before


def test_what_is_held_is_bounded(entry: Any) -> None:
    limit = int.from_bytes(recycle.pool()[r.P_LIMIT : r.P_LIMIT + 8], "little")
    kept = [entry(np.zeros(count, np.float32)) for count in range(LARGE, LARGE + 50000, 500)]
    assert len(kept) > r.BLOCKS_MAX
    del kept
    figures = recycle.figures()
    assert figures["blocks"] <= r.BLOCKS_MAX
    assert figures["held_bytes"] <= limit
    kept = [entry(np.zeros(limit // 8, np.float32)) for _ in range(4)]
    del kept
    assert recycle.figures()["held_bytes"] <= limit


def test_python_calls_recycle_too() -> None:
    kernel = kernel_for(GRAPH)
    x = np.zeros(LARGE, np.float32)
    y = kernel.call(x)
    at = address(y)
    del y
    assert address(kernel.call(x)) == at


def test_threads_take_turns(entry: Any) -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        x = np.full(LARGE + 16 * k, k, np.float32)
        for _ in range(60):
            if not (entry(x) == k + 1).all():
                wrong.append(k)

    in_threads(4, work)
    assert not wrong


def test_arrays_outlive_everything_at_exit(_folder: str) -> None:
    """A result that goes when modules are gone already."""
    code = f"""
import sys, numpy as np
from bcvm_core import config
config.current.cache_dir = {_folder!r}
from bcvm_core.codegen import loops
from bcvm_core.codegen.stencils import kernel, library, driver
from bcvm_core.codegen.stencils.graph import *
library.family(4), driver.driver(); loops.wait()
entry = kernel.kernel_for(FusedGraph((Input("float32"),), (Node("add", (0, Const(1.0))),), (1,))).entry
class Late:
    def __del__(self): self.y = None
late = Late(); late.y = [entry(np.zeros({LARGE}, np.float32)) for _ in range(3)]; late.me = late
sys.late = late
np.late = [entry(np.zeros({LARGE}, np.float32)) for _ in range(3)]
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "done", "")
