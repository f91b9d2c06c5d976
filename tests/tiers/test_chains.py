"""Chains of elementwise ops with reductions among them: the bits of the ops one by one, and a reason where they don't run."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import bcvm_core as bcvm
from bcvm_core import ops
from bcvm_core.codegen import loops
from bcvm_core.codegen.stencils import offsets, target, threads
from bcvm_core.codegen.stencils.driver import driver
from bcvm_core.codegen.stencils.library import family
from bcvm_core.events import Spliced, bus
from bcvm_core.fusion import decisions, splits
from tests.in_threads import in_threads, share
from tests.tiers.chain_support import DTYPES, FORMS, centred, chain_of, one_by_one, relu_mean, same_bits, scaled_softmax, warmed
from tests.tiers.chain_support import norm_written_out as written_out
from tests.vm.native_support import region_of

SHAPES = ((7, 3), (300, 64), (5, 1000), (2, 17000), (4, 9, 33), (2, 3, 5, 65), (1, 40))


@pytest.fixture(autouse=True, scope="module")
def _ready() -> None:
    if target.host() is None:
        pytest.skip("no stencils for this processor")
    for found in (family(4), family(8), driver()):
        loops.wait()
        assert found.failed == ""


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A machine of three cores, for which everything is large."""
    from bcvm_core.codegen.rows import chain

    monkeypatch.setattr(threads, "cores", lambda: 3)
    monkeypatch.setattr(chain, "LARGE_NS", 0)
    share(monkeypatch)
    yield 3


def numbers(dtype: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    scale = 0.25 if dtype == "float16" else 2.0  # sums of squares overflow there
    return lambda shape: (rng.standard_normal(shape) * scale).astype(DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORMS)
def test_every_form_has_the_bits_of_its_ops(name: str, dtype: str) -> None:
    if (name, dtype) == ("norm_written_out", "bfloat16"):
        pytest.skip("NumPy has no type for the sum of a bfloat16 and a number")
    function, operands = FORMS[name]
    for shape in SHAPES:
        args = operands(shape, numbers(dtype))
        same_bits(warmed(function, *args)(*args), one_by_one(function, *args))


@pytest.mark.parametrize("name", FORMS)
def test_cut_up_among_threads(name: str, cores: int) -> None:
    function, operands = FORMS[name]
    for shape in SHAPES:
        args = operands(shape, numbers("float32", 1))
        same_bits(warmed(function, *args)(*args), one_by_one(function, *args))


LONG: tuple[Any, ...] = (
    lambda x, y: np.sum((x - y) ** 2),
    lambda x, y: np.mean(x * y),
    lambda x, y: np.prod(1.0 + (x - y) * 1e-3),
    lambda x, y: np.max(x - y),
    lambda x, y: np.min(x * y),
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [offsets.CHAIN_CUT + 1, 2 * offsets.CHAIN_PART * 7 - 1, 1_000_003])
def test_long_rows_are_cut_along_the_tree(n: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = numbers(dtype, n)
    x, y = make((n,)), make((n,))
    for large in (False, True):
        if large:
            monkeypatch.setattr("bcvm_core.codegen.rows.chain.LARGE_NS", 0)
            share(monkeypatch)
            monkeypatch.setattr(threads, "cores", lambda: 3)
        for function in LONG:
            same_bits(warmed(function, x, y)(x, y), one_by_one(function, x, y))


SPECIAL = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5, 3e38, 1e-45, 1e-38])


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(FORMS)), values=st.lists(SPECIAL, min_size=12, max_size=12), where=st.integers(0, 11))
def test_special_values(name: str, values: list[float], where: int) -> None:
    function, operands = FORMS[name]
    ordinary = operands((3, 4), numbers("float32"))
    jitted = warmed(function, *ordinary)
    x = np.array(values, np.float32).reshape(3, 4)
    some = np.roll(x, where)
    some[1] = ordinary[0][1]
    for given_ in (x, some):
        args = (given_, *ordinary[1:])
        with warnings.catch_warnings(record=True) as ours:
            warnings.simplefilter("always")
            found = jitted(*args)
        with warnings.catch_warnings(record=True) as theirs:
            warnings.simplefilter("always")
            wanted = one_by_one(function, *args)
        same_bits(found, wanted)
        assert [str(w.message) for w in ours] == [str(w.message) for w in theirs]


def test_rows_of_nothing_but_minus_infinity() -> None:
    x = np.zeros((4, 50), np.float32)
    mask = np.zeros((4, 50), np.float32)
    mask[2] = -np.inf
    f = warmed(scaled_softmax, x, x[0] + 1, x)
    found = f(x, x[0] + 1, mask)
    assert np.isnan(found[2]).all()
    np.testing.assert_array_equal(found[[0, 1, 3]], np.float32(0.02))
    same_bits(found, one_by_one(scaled_softmax, x, x[0] + 1, mask))


def test_masks_of_truth_values_and_of_other_layouts() -> None:
    def function(x: Any, m: Any) -> Any:
        return ops.softmax(np.where(m, x, -1e9))

    x = numbers("float32")((2, 3, 8, 20))
    for mask in (x > 0, x[:, :1, :1] > 0, x[:1, :1] > 0, x[0, 0, 0] > 0):
        same_bits(warmed(function, x, mask)(x, mask), one_by_one(function, x, mask))


def test_what_does_not_lie_in_rows_runs_op_by_op() -> None:
    make = numbers("float32")
    args = make((8, 30)), make((30,))
    f = warmed(relu_mean, *args)
    for x in (make((30, 8)).T, make((8, 60))[:, ::2], make((8, 60))[:, :30], make((16, 30))[::2]):
        same_bits(f(x, args[1]), one_by_one(relu_mean, x, args[1]))
    assert "do not lie in rows" in bcvm.explain(f)


def test_another_kind_of_operands_gets_a_plan_of_its_own() -> None:
    make = numbers("float32")
    f = warmed(relu_mean, make((8, 30)), make((30,)))
    for shapes in (((8, 30), (8, 30)), ((8, 30), (8, 1)), ((2, 8, 30), (30,)), ((1, 30), (30,)), ((8, 30), (30,)), ((30,), (8, 30))):
        args = tuple(map(make, shapes))
        for _ in range(3):
            same_bits(f(*args), one_by_one(relu_mean, *args))
    assert len(chain_of(f).chains) >= 5


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: np.sum(x * 2, axis=0), "only the last axes make rows"),
        (lambda x: np.sum(x * 2, axis=0) + np.sum(x * 3, axis=-1)[:1], "only the last axes make rows"),
        (lambda x: (x * 2) - np.sum(x, axis=-1), "without the rows' axes"),
        (lambda x: (np.sum(x * 2, axis=-1), x + 1), "outputs of several sizes"),
        (lambda x: np.sum(x * 2, axis=-1) + np.sum(x), "reductions over different axes"),
    ],
)
def test_a_refusal_is_told(function: Any, reason: str) -> None:
    x = numbers("float32")((6, 6))
    f = bcvm.jit(function)
    loops.wait(60)
    for _ in range(3):
        same_bits(f(x), one_by_one(function, x))
    assert f"[REJECTED] {reason}" in bcvm.explain(f) or ("[REJECTED]" in bcvm.explain(f) and reason in bcvm.explain(f))
    assert chain_of(f).calls == 0


def test_integers_run_as_before() -> None:
    x = np.arange(24).reshape(4, 6)
    f = bcvm.jit(lambda x: np.sum(x * 2, axis=-1))
    for _ in range(3):
        np.testing.assert_array_equal(f(x), np.sum(x * 2, axis=-1))
    assert "one float type" in bcvm.explain(f)
    y = numbers("float32")((4, 6))  # of the same shape, and taken
    for _ in range(20):
        same_bits(f(y), one_by_one(lambda x: np.sum(x * 2, axis=-1), y))
        if chain_of(f).calls:
            break
        loops.wait()
        time.sleep(0.06)
    assert chain_of(f).calls


def test_numbers_without_axes_are_promoted_as_numpy_does() -> None:
    def function(x: Any) -> Any:
        return np.sqrt(np.sum(x * x)) / 3.0

    for dtype in ("float32", "float64"):
        x = numbers(dtype)((6, 6))
        f = warmed(function, x)
        same_bits(f(x), one_by_one(function, x))
        assert type(f(x)) is type(function(x))


def test_events_are_those_of_the_ops() -> None:
    def function(x: Any) -> Any:
        return np.sum(x * x, axis=-1)

    f = warmed(function, np.ones((4, 9), np.float32))
    x = np.full((4, 9), 1e25, np.float32)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(f(x), np.full(4, np.inf, np.float32))
    assert [str(w.message) for w in found] == ["overflow encountered in multiply"]
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        f(x)


def test_a_region_that_is_a_chain_becomes_native() -> None:
    make = numbers("float32")
    args = make((7, 3)), make((3,)), make((3,))
    f = warmed(written_out, *args)
    for _ in range(3):
        f(*args)
    region = region_of(f)
    assert region.native is not None
    before, runs = region.native.hits, f.stats().ops["var"].call_op
    for _ in range(10):
        same_bits(f(*args), one_by_one(written_out, *args))
    assert region.native.hits == before + 10
    assert f.stats().ops["var"].call_op == runs + 10


def test_the_decision_is_recorded() -> None:
    decisions.clear()
    heard: list[Spliced] = []
    make = numbers("float32")
    args = make((64, 100)), make((100,)), make((100,))
    stop = bus.subscribe(lambda event: heard.append(event) if isinstance(event, Spliced) else None)
    try:
        f = warmed(written_out, *args)
    finally:
        stop()
    text = bcvm.explain(f)
    names = "mean, subtract, var, add, sqrt, divide, multiply, add"
    assert f"{names} as one kernel" in text
    assert f"{names} on float32[64, 100], float32[100], float32[100]: {splits.WHOLE}, predicted" in text
    assert f"{splits.APART}: predicted" in text and f"{splits.ONE_BY_ONE}: predicted" in text
    assert any(event.ops == tuple(names.split(", ")) for event in heard)
    found = [r for r in decisions.latest() if r.decision.group.title == names]
    assert found and found[-1].decision.chosen is not None and found[-1].measured.calls


def test_several_threads_at_once() -> None:
    make = numbers("float32")
    args = make((200, 500)), make((500,)), make((500,))
    f = warmed(written_out, *args)
    wanted = one_by_one(written_out, *args)

    def work(_: int) -> None:
        for _ in range(30):
            same_bits(f(*args), wanted)

    in_threads(4, work)


def test_switched_off_and_exchanged() -> None:
    x = numbers("float32")((6, 8))
    f = warmed(centred, x)
    before = chain_of(f).calls
    with bcvm.override(use_llvm=False):
        same_bits(bcvm.jit(centred)(x), one_by_one(centred, x))
    assert chain_of(f).calls == before


PEAK = """
import resource, time
import numpy as np
import bcvm_core as bcvm
from bcvm_core import ops
from bcvm_core.codegen import loops

@bcvm.jit
def f(x, s, m):
    return ops.softmax(x * s + m)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

x = np.ones((512, 32000), np.float32)
s = np.ones(32000, np.float32)
for _ in range(20):
    f(x[:4], s, s)
    loops.wait()
    time.sleep(0.06)
before = peak()
y = f(x, s, s)
print(peak() - before, y.nbytes / 2**20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is counted in kilobytes there")
def test_memory_is_that_of_the_result() -> None:
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True, timeout=120)
    grown, result = map(float, done.stdout.split())
    assert grown < 1.2 * result, (grown, result)
