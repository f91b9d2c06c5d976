"""Large calls of fused kernels: whatever is chosen the bits are the same, and what was chosen can be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import bcvm_core as bcvm
from bcvm_core.codegen import loops
from bcvm_core.codegen.stencils import target, threads
from bcvm_core.codegen.stencils.driver import driver
from bcvm_core.codegen.stencils.kernel import LARGE_NS, FusedKernel
from bcvm_core.codegen.stencils.library import family
from bcvm_core.errors import LoweringError
from bcvm_core.fusion import decisions, machines, splits
from bcvm_core.jit import linker_of
from bcvm_core.tiers import fuse, large
from bcvm_core.tiers.fuse import FusedSite
from bcvm_core.tiers.graphs import graph_of, inputs_of
from bcvm_core.vm.region import Region

FILE = Path(__file__).parent.parent / "fusion" / "machine.json"


@pytest.fixture(autouse=True)
def _ready(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stencils, and a machine of four cores whose figures are known."""
    if target.host() is None:
        pytest.skip("no stencils for this processor")
    for found in (family(4), family(8), driver()):
        loops.wait()
        assert found.failed == ""
    monkeypatch.setattr(threads, "cores", lambda: 4)
    decisions.clear()
    with bcvm.override(machine=str(FILE)):
        yield
    machines.forget()


def normalise(x: Any, m: Any, v: Any) -> Any:
    return (x - m) / np.sqrt(v + 1e-5)


def chain(x: Any, b: Any) -> Any:
    return np.maximum(x + b, 0.0) * 2.0


def operands(rows: int = 1000, columns: int = 400, dtype: str = "float64") -> tuple[Any, Any, Any]:
    random = np.random.default_rng(5)
    return random.random((rows, columns)).astype(dtype), random.random((rows, 1)).astype(dtype), random.random((rows, 1)).astype(dtype)


def fused(function: Any) -> FusedSite:
    (region,) = [s for s in linker_of(function).table.live if isinstance(s, Region)]  # type: ignore[union-attr]
    (site,) = region.fused
    return site


def records(site: FusedSite) -> list[decisions.Record]:
    return [r for p in site.patterns.values() for r in (p.record, *(p.large.records if p.large else ())) if r is not None]


def names(site: FusedSite) -> list[str]:
    return [r.decision.chosen.name for r in records(site) if r.decision.chosen is not None]


def same_bits(made: Any, wanted: Any) -> bool:
    return (made.dtype, made.shape, made.strides, made.tobytes()) == (wanted.dtype, wanted.shape, wanted.strides, wanted.tobytes())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [splits.WHOLE, splits.BLOCKED, splits.SMALL_FIRST])
def test_every_candidate_gives_the_same_bits(name: str, dtype: str) -> None:
    f = bcvm.jit(lambda x, m, v: (x - m) / np.sqrt(v + 1e-5))
    x, m, v = operands(dtype=dtype)
    wanted = normalise(x, m, v)
    assert same_bits(f(x, m, v), wanted)
    site = fused(f)
    given = [{0: x, 1: m, 2: v}[k] for k in range(3)]
    order = [given[k] for k in _order(site)]
    decision = splits.decide(large.group_of(site.segment, large.describe(order)), same_bits=True, runs=True)
    (candidate,) = [c for c in decision.candidates if c.name == name]
    kernel = FusedKernel(graph_of(site.segment, inputs_of(order)))
    assert same_bits(large.carry_out(site.segment, candidate, order)(kernel, order), wanted)


def _order(site: FusedSite) -> list[int]:
    """Positions of the function's operands in the order of the segment's inputs: the region's loads are numbered in that of the code."""
    return list(np.argsort(np.argsort(site.segment.inputs)))


@pytest.mark.parametrize("order", ["C", "F"])
def test_small_results_first_lays_results_out_as_numpy_does(order: str) -> None:
    f = bcvm.jit(normalise)
    x, m, v = operands(3000, 2000)
    x = np.asarray(x, order=order)
    for _ in range(4):
        assert same_bits(f(x, m, v), normalise(x, m, v))
    assert names(fused(f)) == [splits.SMALL_FIRST]


def test_a_size_class_is_decided_once_and_measured() -> None:
    f = bcvm.jit(normalise)
    for rows in (3000, 3001, 3002):
        x, m, v = operands(rows, 2000)
        f(x, m, v)
    (record,) = records(fused(f))
    assert record.measured.calls == 3
    assert record.measured.best_ns > 0
    x, m, v = operands(300, 2000)
    assert same_bits(f(x, m, v), normalise(x, m, v))
    assert len(records(fused(f))) == 2
    assert {r.decision.source for r in records(fused(f))} == {str(FILE)}


def test_small_calls_stay_in_machine_code() -> None:
    f = bcvm.jit(chain)
    x, b = np.ones((4, 6), np.float32), np.ones(6, np.float32)
    for _ in range(20):
        f(x, b)
    (region,) = [s for s in linker_of(f).table.live if isinstance(s, Region)]  # type: ignore[union-attr]
    assert region.native is not None
    assert region.native.hits >= 17
    (record,) = records(fused(f))
    assert record.decision.chosen is not None
    assert record.decision.chosen.name == splits.WHOLE
    assert 1 <= record.measured.calls <= fuse._TIMED_CALLS + 1  # the first calls only


def test_large_calls_of_a_native_region_are_decided() -> None:
    f = bcvm.jit(chain)
    b = np.float32(1) + np.arange(64, dtype=np.float32)
    for _ in range(5):
        f(np.ones((4, 64), np.float32), b)
    x = np.linspace(-9, 9, 64 * 100_000, dtype=np.float32).reshape(-1, 64)
    for _ in range(2):
        assert same_bits(f(x, b), chain(x, b))
    assert names(fused(f)) == [splits.WHOLE, splits.BLOCKED]


def test_an_event_in_a_small_result_is_reported_by_python() -> None:
    f = bcvm.jit(normalise)
    x, m, v = operands(3000, 2000)
    f(x, m, v)
    assert names(fused(f)) == [splits.SMALL_FIRST]
    v[7] = -1.0
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
        made = f(x, m, v)
    with np.errstate(all="ignore"):
        assert np.array_equal(made, normalise(x, m, v), equal_nan=True)


def test_one_core_without_small_results_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "cores", lambda: 1)
    f = bcvm.jit(chain)
    x = np.ones((2000, 1000), np.float32)
    f(x, x)
    (pattern,) = fused(f).patterns.values()
    assert pattern.large is None
    assert pattern.kernel is not None
    assert pattern.kernel.director is None


def test_blocks_are_for_calls_that_surely_gain() -> None:
    f, g = bcvm.jit(lambda x, b: np.maximum(x + b, 0.0) * 2.0), bcvm.jit(lambda x, b: np.maximum(x, 0.0) * (b + 2.0))
    x = np.ones((4, 6), np.float32)
    f(x, x)
    g(x, x)
    (plain,), (partial,) = ([p.kernel for p in fused(h).patterns.values()] for h in (f, g))
    given, nominal = machines.usable(), machines.InForce(machines.nominal(4), "nominal")
    assert plain is not None and partial is not None
    assert large.limit_of(plain, fused(f).segment, given) == int(10 * 20_000 / plain.ns_per_element) == plain.limit
    assert large.limit_of(plain, fused(f).segment, nominal) == int(max(LARGE_NS, 10 * 30_000) / plain.ns_per_element)
    assert large.limit_of(partial, fused(g).segment, nominal) == int(10 * 30_000 / partial.ns_per_element)


def test_explain_shows_the_decision_with_its_numbers() -> None:
    f = bcvm.jit(normalise)
    x, m, v = operands(3000, 2000)
    f(x, m, v)
    for text in (f.explain(), bcvm.explain(f)):  # type: ignore[attr-defined]
        assert "small results first, predicted" in text
        assert "measured" in text
        assert "one kernel: predicted" in text
        assert "[REJECTED]" in text
        assert f"by {FILE} figures" in text
        assert "no kernel acts" not in text
    assert bcvm.explain().startswith("subtract, add, sqrt, divide on float64[3000, 2000], ")
    with pytest.raises(LoweringError, match="was not lowered"):
        bcvm.explain(normalise)


def test_explain_says_why_shapes_were_not_fused() -> None:
    def two(x: Any, y: Any) -> Any:
        a = x + 1.0
        b = y * 2.0
        return a, b

    f = bcvm.jit(two)
    x, y = np.ones((2, 3)), np.ones(4)
    for _ in range(2):
        a, b = f(x, y)
    assert a.shape == (2, 3) and b.shape == (4,)
    assert "[REJECTED] shape mismatch: [2, 3] vs [4]" in f.explain()  # type: ignore[attr-defined]


def test_a_bad_file_of_figures_stops_nothing(tmp_path: Path) -> None:
    with bcvm.override(machine=str(tmp_path / "none.json")):
        f = bcvm.jit(chain)
        x = np.ones((4, 6), np.float32)
        for _ in range(3):
            assert same_bits(f(x, x), chain(x, x))
        assert f.stats().call_host == 0  # type: ignore[attr-defined]
