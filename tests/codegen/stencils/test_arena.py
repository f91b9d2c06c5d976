"""Memory for code: never writable and executable at once, given back, private to each process, flat under endless new chains."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bcvm_core.codegen.stencils import arena, splice
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node, NotFusable
from bcvm_core.codegen.stencils.kernel import kernel_for
from tests.in_threads import in_threads

CHAINS = int(os.environ.get("BCVM_TEST_CHAINS", "3000"))
OPS = ("add", "multiply", "subtract", "divide", "maximum", "minimum")  # 6 ** 7 chains of seven, 279,936


def chain(k: int, length: int = 7) -> FusedGraph:
    """Another chain for every k."""
    nodes = []
    for step in range(length):
        k, choice = divmod(k, len(OPS))
        nodes.append(Node(OPS[choice], (step, Const(1.5 + step))))
    return FusedGraph((Input("float32"),), tuple(nodes), (length,))


def test_blocks_are_distinct_and_reused() -> None:
    own = arena.Arena(1 << 20)
    rng = np.random.default_rng(1)
    blocks: dict[int, bytes] = {}
    for _ in range(3000):
        if blocks and rng.random() < 0.5:
            at = list(blocks)[int(rng.integers(len(blocks)))]
            data = blocks.pop(at)
            assert ctypes.string_at(own.base + at, len(data)) == data
            own.free(at, len(data))
        else:
            data = rng.bytes(int(rng.integers(1, 5000)))
            blocks[own.put(data)] = data
    for at, data in blocks.items():
        assert ctypes.string_at(own.base + at, len(data)) == data
    assert own.used_bytes >= sum(map(len, blocks.values()))
    for at, data in blocks.items():
        own.free(at, len(data))
    assert own.used_bytes == 0


def test_a_full_arena_says_so_and_takes_freed_blocks_of_any_size() -> None:
    own = arena.Arena(1 << 16)
    places = []
    with pytest.raises(arena.ArenaError, match="in use"):
        for _ in range(1000):
            places.append(own.reserve(3000))
    own.free(places.pop(), 3000)
    assert own.reserve(100) > 0
    with pytest.raises(arena.ArenaError):
        own.reserve(1 << 17)


def test_no_page_is_writable_and_executable() -> None:
    kernel_for(chain(1)).entry(np.ones(5, np.float32))
    rights = [line.split()[1][:3] for line in Path("/proc/self/maps").read_text().splitlines() if "bcvm-code" in line]
    assert {"rw-", "r-x"} <= set(rights)
    assert "rwx" not in rights


def test_code_goes_with_its_kernel() -> None:
    shared = arena.shared()
    gc.collect()
    before = shared.used_bytes
    kernels = [kernel_for(chain(k)) for k in range(20)]
    entries = [kernel.entry for kernel in kernels]
    assert shared.used_bytes > before
    del kernels
    x = np.ones(40, np.float32)
    assert all(entry(x) is not None for entry in entries)
    del entries
    assert shared.used_bytes == before


def test_code_memory_is_flat_over_endless_chains() -> None:
    shared = arena.shared()
    x = np.linspace(1, 2, 40, dtype=np.float32)
    live: list[Any] = []
    reserved = 0
    for k in range(CHAINS):
        entry = kernel_for(chain(k)).entry
        if k % 50 == 0:
            assert entry(x) is not None
        live.append(entry)
        if len(live) > 200:
            live.pop(0)
        if k == CHAINS // 3:
            reserved = shared.reserved_bytes
    assert shared.reserved_bytes <= reserved * 1.05 + 65536, (reserved, shared.reserved_bytes, shared.used_bytes)


def test_no_room_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_size: int) -> int:
        raise arena.ArenaError("all 64 MiB for code are in use")

    monkeypatch.setattr(arena.shared(), "reserve", full)
    with pytest.raises(NotFusable, match="in use"):
        kernel_for(chain(4))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_has_code_of_its_own() -> None:
    """What a child writes never reaches the parent, and the other way round; old kernels go on working in both."""
    x = np.linspace(1, 2, 77, dtype=np.float32)
    old = [kernel_for(chain(k)).entry for k in range(30)]
    expected = [entry(x).tobytes() for entry in old]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        ok = False
        try:
            os.close(write)
            os.read(read, 1)  # the parent has reused its freed memory by now
            ok = [entry(x).tobytes() for entry in old] == expected
            fresh = [kernel_for(chain(k)).entry for k in range(1000, 1060)]
            ok = ok and all(entry(x) is not None for entry in fresh) and [entry(x).tobytes() for entry in old] == expected
        finally:
            os._exit(0 if ok else 1)
    half = old[:15]
    del old[15:]
    fresh = [kernel_for(chain(k)).entry for k in range(2000, 2100)]
    os.write(write, b"x")
    assert [entry(x).tobytes() for entry in half] == expected[:15]
    assert os.waitpid(child, 0)[1] == 0
    assert [entry(x).tobytes() for entry in half] == expected[:15]
    assert all(entry(x) is not None for entry in fresh)
    os.close(read), os.close(write)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_freed_memory_waits_for_the_child() -> None:
    own = arena.Arena(1 << 20)
    at = own.put(b"code" * 100)
    own.before_fork()
    own.after_fork_in_parent()
    own.free(at, 400)
    assert own.reserve(400) != at
    own.view[0:8] = (1).to_bytes(8, "little")  # the child reports
    assert own.reserve(400) == at


def test_barred_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def barred(self: Any, descriptor: int, address: int | None, protection: int) -> int:
        raise arena.ArenaError("executable memory is barred (errno 13)")

    monkeypatch.setattr(arena.Arena, "_map", barred)
    monkeypatch.setattr(arena, "_shared", [])
    with pytest.raises(arena.ArenaError, match="barred"):
        arena.shared()
    with pytest.raises(arena.ArenaError, match="barred"):  # remembered
        arena.shared()


def test_code_that_is_going_is_found_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of one form share code while one of them lives; once its memory goes back it must not be shared any more."""
    first = kernel_for(chain(11))
    holder, place = first._splicer, first._splicer.arena
    form = holder.form(first.lowered, 0, 1)
    seen: list[Any] = []
    free = place.free

    def look(at: int, size: int) -> None:
        seen.append(holder.held(form))
        free(at, size)

    assert holder.held(form) is first.codes[0]
    monkeypatch.setattr(place, "free", look)
    del first
    gc.collect()
    assert seen and all(found is None for found in seen)


def test_kernels_come_and_go_in_several_threads() -> None:
    x = np.linspace(0.5, 2.0, 40, dtype=np.float32)
    wanted = {k: kernel_for(chain(k)).call(x).tobytes() for k in range(4)}
    wrong: list[int] = []

    def work(turn: int) -> None:
        for step in range(300):
            k = (turn + step) % 4
            if kernel_for(chain(k)).call(x).tobytes() != wanted[k]:
                wrong.append(k)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(4, work)
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_code_that_is_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    holder = kernel_for(chain(3))._splicer
    monkeypatch.setattr(holder, "_codes", {})
    monkeypatch.setattr(holder, "_look_again", 10)
    monkeypatch.setattr(splice, "_CODES", 10)
    kept = [kernel_for(chain(1000 + k)) for k in range(25)]  # more than are looked at again
    assert all(holder.held(holder.form(k.lowered, 0, 1)) is k.codes[0] for k in kept)
    kept = kept[:5]
    for k in range(100):
        kernel_for(chain(2000 + k))
    assert len(holder._codes) < 70
    assert all(holder.held(holder.form(k.lowered, 0, 1)) is k.codes[0] for k in kept)
