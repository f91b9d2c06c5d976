"""Weights that products keep packed: a write is always seen, bits are the same, memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bcvm_core import config
from bcvm_core.codegen import loader, loops
from bcvm_core.codegen.products import jobs, product
from bcvm_core.codegen.products import weights as kept
from bcvm_core.codegen.stencils import threads
from bcvm_core.codegen.stencils.target import host
from bcvm_core.devices import written
from bcvm_core.ops import chains
from tests.in_threads import share

from .split_products import by_definition

pytestmark = pytest.mark.skipif(host() is None or bool(loader.obstacle()), reason="no code for products here")
F32 = np.float32


def data(shape: Any, seed: int = 0, dtype: Any = F32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.fixture(autouse=True)
def _own(monkeypatch: pytest.MonkeyPatch) -> Iterator[kept.KeptWeights]:
    """An empty store for each test."""
    if written.watch(loops.address(np.empty(1 << 20, np.uint8)), 1 << 20) is None:
        pytest.skip("no marks of written pages on this system")
    own = kept.KeptWeights()
    monkeypatch.setattr(jobs, "weights", own)
    yield own


def times(x: Any, w: Any) -> Any:
    made = product.multiply(x, w.T)
    assert made is not None
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2, 300, 600), (14, 256, 512), (17, 1000, 130), (40, 768, 96), (130, 513, 257), (250, 97, 1003)])
def test_kept_weights_give_the_same_bits(dtype: str, shape: tuple[int, int, int], _own: kept.KeptWeights) -> None:
    rows, depth, columns = shape
    x, w = data((rows, depth), 1, dtype), data((columns, depth), 2, dtype)
    expected = by_definition(x, w.T)
    for _ in range(4):
        np.testing.assert_array_equal(times(x, w), expected)
    assert (_own.packs, _own.hits) == (1, 2)  # the second product packs


def test_pieces_of_several_threads(monkeypatch: pytest.MonkeyPatch, _own: kept.KeptWeights) -> None:
    x, w = data((60, 300)), data((1000, 300), 1)
    expected = times(x, w)
    monkeypatch.setattr(jobs, "SEVERAL", 1.0)
    monkeypatch.setattr(threads, "cores", lambda: 3)
    share(monkeypatch)
    for _ in range(3):
        np.testing.assert_array_equal(times(x, w), expected)
    assert _own.hits == 2


def test_a_written_weight_is_seen(_own: kept.KeptWeights) -> None:
    x, w = data((20, 400)), data((333, 400), 1)
    for _ in range(3):
        times(x, w)

    def check() -> None:
        expected = chains.multiply(x, w.T)
        for _ in range(3):
            np.testing.assert_array_equal(times(x, w), expected)

    w[3, 7] += F32(1)
    check()
    w[[0, 1]] = w[[1, 0]]
    check()
    memoryview(w).cast("B").cast("f")[5] = 2.5
    check()
    w.reshape(-1)[-1] = 7  # beyond the last whole page
    check()
    w.reshape(-1)[0] = 8  # before the first
    check()


def test_other_memory_at_the_same_place_is_seen() -> None:
    x = data((20, 400))
    for seed in range(6):
        w = data((333, 400), seed)
        for _ in range(3):
            np.testing.assert_array_equal(times(x, w), chains.multiply(x, w.T))
        del w


def test_what_is_multiplied_once_is_not_kept(_own: kept.KeptWeights) -> None:
    held = [data((200, 300), seed) for seed in range(5)]
    for w in held:
        times(data((8, 300)), w)
    assert _own.figures() == {"held_bytes": 0, "weights": 0, "hits": 0, "packs": 0}


def test_memory_written_at_every_step_is_soon_packed_within_its_products(_own: kept.KeptWeights) -> None:
    x, w = data((8, 300)), data((200, 300))
    for _ in range(60):
        w += F32(1)
        np.testing.assert_array_equal(times(x, w), chains.multiply(x, w.T))
    assert _own.packs < 15


def test_memory_is_bounded_and_what_fits_stays(_own: kept.KeptWeights) -> None:
    x, model = data((8, 256)), [data((256, 256), seed) for seed in range(6)]
    one = 256 * 256 * 4
    with config.override(packed_bytes=4 * one):
        for _ in range(10):
            for w in model:
                np.testing.assert_array_equal(times(x, w), chains.multiply(x, w.T))
            assert _own.held <= 4 * one
        assert (_own.packs, _own.hits) == (4, 4 * 8)  # no weight takes another one's place in turn
        for _ in range(50):
            times(x, model[5])  # the others are idle meanwhile
        assert _own.packs == 5
        assert _own.held == 4 * one
        large = data((2048, 256), 8)
        for _ in range(60):  # too large for all of the memory: it takes nobody's place
            times(x, large)
        assert (_own.packs, _own.held) == (5, 4 * one)
    with config.override(packed_bytes=0):
        fresh = data((256, 256), 9)
        for _ in range(3):
            np.testing.assert_array_equal(times(x, fresh), chains.multiply(x, fresh.T))
        assert _own.packs == 5


def test_without_marks_nothing_is_kept(_own: kept.KeptWeights) -> None:
    x, w = data((8, 300)), data((200, 300))
    with config.override(watch_writes=False):
        for _ in range(4):
            np.testing.assert_array_equal(times(x, w), chains.multiply(x, w.T))
    assert _own.packs == 0


def test_the_default_is_an_eighth_of_the_memory() -> None:
    assert max(256 << 20, config.memory() // 8) == config.EIGHTH
    assert config.memory() >= 1 << 20
