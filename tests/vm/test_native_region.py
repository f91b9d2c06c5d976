"""Regions as one kernel, and machine code in their place: when it runs, when it hands over, what is counted."""

from __future__ import annotations

import gc
import pickle
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bcvm_core as bcvm
from bcvm_core.jit import linker_of
from bcvm_core.tiers.pool import pool
from bcvm_core.vm.region import Region
from tests.in_threads import in_threads
from tests.vm.native_support import warmed

X = np.linspace(-3.0, 3.0, 24, dtype=np.float32).reshape(4, 6)


def make() -> Callable[..., Any]:
    def f(x: Any, b: Any) -> Any:
        return np.maximum(x + b, 0) * 2.0

    return bcvm.jit(f)


def plain(x: Any, b: Any) -> Any:
    return np.maximum(x + b, 0) * 2.0


def bits(value: Any) -> Any:
    return value.dtype, value.shape, value.tobytes()


def test_machine_code_takes_the_place_of_a_region() -> None:
    f = make()
    region = warmed(f, X, X)
    before = region.native.hits  # type: ignore[union-attr]
    for _ in range(10):
        assert bits(f(X, X)) == bits(plain(X, X))
    assert region.native.hits == before + 10  # type: ignore[union-attr]
    assert region.hits == 13
    assert f.stats().ops["maximum"].call_op == 13
    assert f.stats().share() == 1.0
    assert "13 runs" in f.explain()


def test_machine_code_counts_for_the_function_that_was_defined_last() -> None:
    f = make()
    warmed(f, X, X)
    linker = linker_of(f)
    assert linker is not None
    earlier = linker.start_again()
    for _ in range(5):
        f(X, X)
    assert f.stats().ops["maximum"].call_op == 5
    assert earlier.ops["maximum"].call_op == 3


@pytest.mark.parametrize("other", [
    np.ones((4, 6)), np.ones((4, 6), np.int32), np.float32(2.0), 3.0, 3, np.ones(6, np.float32), np.ones((4, 1), np.float32),
    np.ones((), np.float32), np.ones((), np.float64), np.ones((1, 4, 6), np.float32), np.ones((0, 4, 6), np.float32), [1.0] * 6,
    np.asfortranarray(X), X[::-1], X[:, ::-1], np.ma.masked_array(X, X > 0),
], ids=lambda v: f"{type(v).__name__}{getattr(v, 'shape', '')}{getattr(v, 'dtype', '')}")  # fmt: skip
def test_whatever_comes_gives_what_numpy_gives(other: Any) -> None:
    f = make()
    warmed(f, X, X)
    for _ in range(3):
        for args in ((X, other), (other, X), (X, X)):
            found, expected = f(*args), plain(*args)
            assert type(found) is type(expected)
            assert bits(np.asarray(found)) == bits(np.asarray(expected))
            assert np.asarray(found).strides == np.asarray(expected).strides


def test_errors_are_the_users() -> None:
    f = make()
    warmed(f, X, X)
    with pytest.raises(ValueError, match="broadcast") as caught:
        f(X, np.ones(5, np.float32))
    assert caught.traceback[-1].frame.code.name == "f"
    with pytest.raises(TypeError):
        f(X, None)
    assert bits(f(X, X)) == bits(plain(X, X))


def test_what_has_no_kernel_is_left_to_the_ops() -> None:
    """They decline, or raise the user's error."""

    @bcvm.jit(strict=True)
    def f(x: Any, y: Any) -> Any:
        return np.exp(x) + y

    for _ in range(3):
        assert bits(f(X, X)) == bits(f(X.copy(), X))
        for strange in (np.array([1, 2], object), np.array(["a"]), np.array([1], "M8[s]")):
            with pytest.raises(bcvm.BcvmError):
                f(strange, strange)
        with pytest.raises(ValueError, match="broadcast"):
            f(X, np.ones(5, np.float32))


def test_floating_point_events_are_reported() -> None:
    @bcvm.jit
    def f(x: Any, y: Any) -> Any:
        return (x / y) + 1.0

    warmed(f, X, np.ones_like(X))
    zero = np.zeros_like(X)
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide|invalid value encountered in divide"):
        f(X, zero)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        f(X, zero)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        f(X, zero)


def test_a_switched_off_vm_and_debuggers_are_respected() -> None:
    f = make()
    region = warmed(f, X, X)
    runs = region.hits
    with bcvm.override(enabled=False):
        assert bits(f(X, X)) == bits(plain(X, X))
    with bcvm.override(force_tier="plain"):
        f(X, X)
    lines: list[int] = []

    def trace(frame: Any, event: str, arg: Any) -> Any:
        lines.append(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        f(X, X)
    finally:
        sys.settrace(None)
    assert region.hits == runs
    assert lines
    f(X, X)
    assert region.hits == runs + 1


def test_fusion_can_be_switched_off() -> None:
    f = make()
    region = warmed(f, X, X)
    runs = region.native.hits  # type: ignore[union-attr]
    with bcvm.override(fuse=False):
        assert bits(f(X, X)) == bits(plain(X, X))
    assert region.native.hits == runs  # type: ignore[union-attr]
    assert f.stats().ops["add"].call_op == region.hits


def test_a_rebound_callee_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    f = make()
    warmed(f, X, X)
    monkeypatch.setattr(np, "maximum", np.minimum)
    assert bits(f(X, X)) == bits(np.minimum(X + X, 0) * 2.0)


def test_kernels_that_were_exchanged_run() -> None:
    f = make()
    region = warmed(f, X, X)
    runs = region.native.hits  # type: ignore[union-attr]
    name = next(entry.name for entry in pool.kernels("maximum"))
    pool.swap(name, lambda x, y: np.minimum(x, y))
    try:
        assert bits(f(X, X)) == bits(np.minimum(X + X, np.float32(0)) * np.float32(2))
        assert "kernels or rules of your own" in f.explain()
    finally:
        pool.restore(name)
    assert region.native.hits == runs  # type: ignore[union-attr]
    assert bits(f(X, X)) == bits(plain(X, X))
    assert region.native.hits == runs + 1  # type: ignore[union-attr]


def test_new_shapes_are_seen_by_the_hints() -> None:
    f = make()
    warmed(f, X, X)
    for n in (2, 3, 5, 7):
        f(np.ones((n, 6), np.float32), np.ones((n, 6), np.float32))
    assert "[4, 6]" not in f.dis()


def test_a_region_is_not_asked_for_sizes_that_it_has_seen_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    f = make()
    ones = [np.ones(shape, np.float32) for shape in ((4, 6), (5, 6), (7, 6), (4, 6), (8, 7), (9, 8))]
    f(ones[0], ones[0])
    f(ones[1], ones[1])  # machine code is there from here on
    asked: list[tuple[int, ...]] = []
    call = Region.__call__
    monkeypatch.setattr(Region, "__call__", lambda self, *args: asked.append(args[0].shape) or call(self, *args))
    for x in ones[2:]:
        assert bits(f(x, x)) == bits(plain(x, x))
    assert asked == [(8, 7)] and "[4, 6]" not in f.dis() and "[s0, 6]" not in f.dis()


def test_the_region_is_asked_only_where_sizes_vary_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    f = make()
    warmed(f, X, X)
    asked: list[tuple[int, ...]] = []
    call = Region.__call__

    def spy(self: Region, *args: Any) -> Any:
        asked.append(args[0].shape)
        return call(self, *args)

    monkeypatch.setattr(Region, "__call__", spy)
    shapes = [(4, 6), *((n, 6) for n in range(5, 105)), *((n, 7 + n) for n in range(5, 105)), (3, 4, 6), (2, 4, 6), (4, 6)]
    for shape in shapes:
        x = np.full(shape, 0.25, np.float32)
        assert bits(f(x, x)) == bits(plain(x, x))
    assert asked == [(5, 6), (5, 12), (3, 4, 6), (2, 4, 6), (4, 6)]
    assert "[...]" in f.dis()


def test_other_element_types_take_over() -> None:
    f = make()
    region = warmed(f, X, X)
    wide = X.astype(np.float64)
    for _ in range(4):
        assert bits(f(wide, wide)) == bits(plain(wide, wide))
    before = region.native.hits  # type: ignore[union-attr]
    f(wide, wide)
    assert region.native.hits == before + 1  # type: ignore[union-attr]
    assert bits(f(X, X)) == bits(plain(X, X))


def test_a_function_with_machine_code_can_go() -> None:
    f = make()
    region = weakref.ref(warmed(f, X, X))
    del f
    gc.collect()
    assert region() is None


def test_functions_made_from_the_same_code_run_it_too() -> None:
    def outer(k: float) -> Any:
        @bcvm.jit
        def inner(x: Any) -> Any:
            return (x + k) * k

        return inner

    one, two = outer(1.0), outer(2.0)
    for _ in range(5):
        assert bits(one(X)) == bits((X + 1.0) * 1.0)
        assert bits(two(X)) == bits((X + 2.0) * 2.0)


def test_code_pickled_by_value_runs_plainly_elsewhere() -> None:
    f = make()
    native = warmed(f, X, X).native
    assert native is not None
    assert pickle.loads(pickle.dumps(native.function))(X, X) is None


def test_several_results() -> None:
    @bcvm.jit
    def f(x: Any, y: Any) -> Any:
        total = x + y
        product = total * y
        return total - product, total, product

    for _ in range(5):
        found = f(X, X)
        assert [bits(v) for v in found] == [bits(v) for v in (X + X - (X + X) * X, X + X, (X + X) * X)]


def test_results_of_different_shapes() -> None:
    @bcvm.jit
    def f(x: Any, y: Any) -> Any:
        small = x * 2
        large = small + y
        return small, large

    small, large = np.ones(6, np.float32), np.ones((4, 6), np.float32)
    for args in ((large, large), (small, large), (large, small), (small, small)) * 2:
        found = f(*args)
        assert [v.shape for v in found] == [args[0].shape, np.broadcast_shapes(args[0].shape, args[1].shape)]


def test_large_arrays_and_threads() -> None:
    f = make()
    warmed(f, X, X)
    large = np.linspace(-1, 1, 3_000_000, dtype=np.float32)
    expected = bits(plain(large, large))
    results: list[bool] = []

    def work(_number: int) -> None:
        results.extend(bits(f(large, large)) == expected for _ in range(3))

    in_threads(4, work)
    assert results == [True] * 12


def test_results_never_share_memory() -> None:
    f = make()
    warmed(f, X, X)
    one, two = f(X, X), f(X, X)
    assert not np.shares_memory(one, two)
    assert not np.shares_memory(one, X)
    assert one.flags.owndata
    assert one.flags.writeable


_values = st.sampled_from([0.0, -0.0, 1.0, -2.5, 1e-40, float("inf"), float("-inf"), float("nan"), 3e38, 7.0])
_types = st.sampled_from([np.float32, np.float64, np.float16, np.int32, np.int8, np.uint8, np.bool_])
_shapes = st.sampled_from([(4, 6), (6,), (4, 1), (1, 6), (1,), (), (0, 6), (2, 4, 6), (3, 1, 1)])


def mixed(x: Any, y: Any, z: Any) -> Any:
    a = x * y
    b = a + z
    c = np.where(b > y, a, b * 2)
    return a, c, abs(c) - z


linked = bcvm.jit(mixed)


@settings(max_examples=150)
@given(st.lists(st.tuples(_types, _shapes, st.lists(_values, min_size=3, max_size=9)), min_size=3, max_size=3))
def test_any_operands(spec: list[tuple[Any, tuple[int, ...], list[float]]]) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operands = [np.resize(np.array(values), shape).astype(dtype) for dtype, shape, values in spec]
        try:
            expected = mixed(*operands)
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                linked(*operands)
            return
        for found, wanted in zip(linked(*operands), expected, strict=True):
            assert type(found) is type(wanted)
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            assert np.array_equal(np.isnan(found), np.isnan(wanted)) if found.dtype.kind == "f" else True
            keep = ~np.isnan(wanted) if found.dtype.kind == "f" else np.ones(found.shape, bool)
            assert np.asarray(found)[keep].tobytes() == np.asarray(wanted)[keep].tobytes()
