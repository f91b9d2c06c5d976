"""Long calls run beside the main thread: same results, events and errors, and an interrupt need not wait for them."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core import testing
from bcvm_core.ops import registry
from bcvm_core.tiers import beside as module
from bcvm_core.tiers import effort
from bcvm_core.tiers.beside import beside
from bcvm_core.tiers.pool import pool
from bcvm_core.tiers.select import CallSite

X = np.linspace(-2.0, 2.0, 24).reshape(4, 6)


@pytest.fixture
def everything_is_long(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls of a few elements count as long, and are made beside."""
    for name, value in {"LONG_ELEMENTS": 2, "LONG_FLOPS": 2, "SHORT": 2}.items():
        monkeypatch.setattr(effort, name, value)
    monkeypatch.setattr(module, "SHORT", 2)
    beside.start()
    yield
    beside.stop()


def _threads_of(name: str) -> Any:
    """Let kernel `name` note the threads it runs in."""
    seen: list[int] = []

    def make(fn: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*operands: Any, **attrs: Any) -> Any:
            seen.append(threading.get_ident())
            return fn(*operands, **attrs)

        return noting

    return testing._swapped(name, make, pool), seen


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("exp", (X,), {}),
    ("add", (X, X), {}),
    ("add", (X, 1.5), {}),
    ("subtract", (2, X), {}),
    ("where", (X > 0, X, -X), {}),
    ("sum", (X,), {"axis": 1}),
    ("mean", (X,), {}),
    ("sort", (X[::-1],), {}),
    ("matmul", (X, X.T), {}),
    ("matmul", (X.astype(int), X.T.astype(int)), {}),
    ("concatenate", ([X, X],), {"axis": 0}),
    ("softmax", (X,), {}),
    ("conv2d", (np.ones((1, 2, 5, 5), np.float32), np.ones((3, 2, 3, 3), np.float32)), {}),
    ("getitem", (X, np.array([0, 2, 2])), {}),
    ("reshape", (X.T,), {"shape": (24,)}),
    ("tile", (X,), {"reps": (2, 2)}),
    ("arange", (), {"args": (0, 20, 3)}),
    ("full", (), {"shape": (3, 4), "fill_value": 2.5}),
    ("einsum", (["ij,kj->ik", X, X],), {}),
]


@pytest.mark.parametrize(("op", "operands", "attrs"), CALLS, ids=[f"{n}-{call[0]}" for n, call in enumerate(CALLS)])
def test_results_are_the_same_bits_from_another_thread(
    op: str, operands: tuple[Any, ...], attrs: dict[str, Any], everything_is_long: None
) -> None:
    site = CallSite(op, syntax=False)
    value = site(*operands, **attrs)
    (kernel,) = pool.ran(site.signature)[:1]
    swapped, seen = _threads_of(kernel)
    with swapped:
        testing.assert_same_bits(CallSite(op, syntax=False)(*operands, **attrs), value)
    assert seen and threading.get_ident() not in seen
    beside.stop()
    try:
        testing.assert_same_bits(CallSite(op, syntax=False)(*operands, **attrs), value)
    finally:
        beside.start()


def _noting() -> tuple[Callable[..., Any], list[int]]:
    seen: list[int] = []
    return lambda *_operands, **_attrs: seen.append(threading.get_ident()), seen


def test_other_threads_make_their_calls_themselves(everything_is_long: None) -> None:
    fn, seen = _noting()
    call = beside.guarded(registry.row("exp"), fn, (X,))
    thread = threading.Thread(target=call, args=(X,))
    thread.start()
    thread.join()
    assert seen == [thread.ident]
    call(X)
    assert seen[1] != threading.get_ident()


def test_what_writes_into_the_users_arrays_is_done_here(everything_is_long: None) -> None:
    fn, seen = _noting()
    beside.guarded(registry.row("add"), fn, (X, X))(X, X, out=np.empty_like(X))
    assert beside.guarded(registry.row("setitem"), fn, (X, slice(None), X)) is fn
    assert seen == [threading.get_ident()]
    testing.assert_same_bits(CallSite("sqrt")(X + 2, out=np.empty_like(X)), np.sqrt(X + 2))


def test_when_nobody_asks_calls_are_not_touched() -> None:
    assert not beside.on
    site = CallSite("add")
    site(X, X)
    (plan,) = site._state[1].values()
    assert plan.fn in [entry.fn for entry in pool.kernels("add")]


@bcvm.jit
def logarithm(x: Any) -> Any:
    y = np.log(x) + 1
    return y * 2


def test_events_are_reported_at_the_users_line(everything_is_long: None) -> None:
    x = np.array([0.0, 1.0, -1.0, 2.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = logarithm(x)
    with np.errstate(all="ignore"):
        testing.assert_close_ulp(result, (np.log(x) + 1) * 2)
    line = logarithm.__wrapped__.__code__.co_firstlineno + 2 if hasattr(logarithm, "__wrapped__") else None
    assert [str(w.message) for w in caught] == ["divide by zero encountered in log", "invalid value encountered in log"]
    assert {w.filename for w in caught} == {__file__} and (line is None or {w.lineno for w in caught} == {line})
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        logarithm(x)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        logarithm(x)


def test_errors_are_raised_where_the_call_was_made(everything_is_long: None) -> None:
    with pytest.raises(ValueError, match="mismatch|not aligned"):
        CallSite("matmul")(np.ones((3, 4)), np.ones((3, 4)))


@bcvm.jit
def doubled(x: Any) -> Any:
    x += 1
    y = np.exp(x)
    return y * 2


def _interrupt_after(seconds: float) -> None:
    threading.Timer(seconds, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals for one thread")
def test_an_interrupt_does_not_wait_and_what_was_given_up_ends(everything_is_long: None, pythons_interrupts: None) -> None:
    ended = threading.Event()

    def endless(_x: Any) -> Any:
        try:
            while True:
                time.sleep(0.02)
        finally:
            ended.set()

    x = np.zeros(4)
    doubled(x.copy())
    name = pool.ran(signature_of("exp", x))[0]
    pool.swap(name, endless)
    try:
        _interrupt_after(0.1)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            doubled(x)
        assert time.monotonic() - began < 2.0
    finally:
        pool.restore(name)
    assert ended.wait(5.0), "the call that nobody waits for goes on for ever"
    before = x.copy()
    np.testing.assert_allclose(doubled(x), np.exp(before + 1) * 2)


def test_a_call_that_is_given_up_before_it_begins_does_not_begin() -> None:
    ran: list[int] = []
    call = module._Call(lambda: ran.append(1), (), {})
    call.give_up()
    call.run()
    assert call.over
    assert not ran


def signature_of(op: str, *operands: Any) -> int:
    site = CallSite(op)
    site(*operands)
    return site.signature


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_makes_long_calls(everything_is_long: None) -> None:
    CallSite("exp")(X)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(CallSite("exp")(X), CallSite("exp")(X)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_users_are_counted() -> None:
    beside.start()
    beside.start()
    beside.stop()
    assert beside.on
    beside.stop()
    beside.stop()
    assert not beside.on


def _empty(*shape: int) -> np.ndarray[Any, Any]:
    return np.broadcast_to(np.float64(1.0), shape)


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "expected"),
    [
        ("add", (_empty(100, 100), _empty(100, 100)), {}, False),
        ("add", (_empty(5000), _empty(5000)), {}, False),
        ("add", (_empty(5000, 1), _empty(5000)), {}, True),
        ("add", (_empty(10**7), 1.0), {}, True),
        ("add", (_empty(10**7), _empty(3)), {}, True),  # an error, but who knows
        ("exp", (_empty(2000, 2000),), {}, True),
        ("exp", (_empty(300, 300),), {}, False),
        ("sum", (_empty(10**5, 10**5),), {"axis": 0}, True),
        ("sum", (_empty(1000, 1000),), {"axis": 0}, False),
        ("sort", (_empty(4_000_000),), {}, True),
        ("sort", (_empty(100_000),), {}, False),
        ("matmul", (_empty(512, 512), _empty(512, 512)), {}, True),
        ("matmul", (_empty(128, 128), _empty(128, 128)), {}, False),
        ("matmul", (_empty(4000), _empty(4000)), {}, False),
        ("conv2d", (_empty(8, 64, 64, 64), _empty(64, 64, 3, 3)), {}, True),
        ("conv2d", (_empty(1, 3, 16, 16), _empty(8, 3, 3, 3)), {}, False),
        ("inverse", (_empty(2000, 2000),), {}, True),
        ("outer", (_empty(20_000), _empty(20_000)), {}, True),
        ("einsum", (["ij,jk->ik", _empty(300, 300), _empty(300, 300)],), {}, True),
        ("einsum", (["ij,ij->", _empty(300, 300), _empty(300, 300)],), {}, False),
        ("einsum", ([_empty(3000), [0], _empty(3000), [1]],), {}, True),
        ("concatenate", ([_empty(10**7), _empty(3)],), {}, True),
        ("concatenate", ([_empty(10), _empty(3)],), {}, False),
        ("getitem", (_empty(10), np.zeros(10**7, np.int8)), {}, True),
        ("getitem", (_empty(10**8), slice(3)), {}, False),
        ("reshape", (np.broadcast_to(np.ones((2000, 1)), (2000, 4000)).T,), {"shape": (-1,)}, True),
        ("zeros", (), {"shape": (5000, 5000)}, True),
        ("zeros", (), {"shape": (50, 50)}, False),
        ("arange", (), {"args": (0.0, 1e8)}, True),
        ("arange", (), {"args": (0, 10, 2)}, False),
        ("repeat", (_empty(100),), {"repeats": 10**6}, True),
        ("tile", (_empty(1000),), {"reps": (100, 100)}, True),
        ("tile", (_empty(10),), {"reps": 3}, False),
        ("one_hot", (np.zeros(5000, int),), {"depth": 5000}, True),
    ],
)
def test_what_is_long(op: str, operands: tuple[Any, ...], attrs: dict[str, Any], expected: bool) -> None:
    row = registry.row(op)
    asked = effort.judge(row)
    assert asked is not None and asked(operands, attrs) is expected
    sizes = [v.size for v in operands if isinstance(v, np.ndarray)]
    if expected and sizes and effort.size_alone(row) and op not in ("concatenate", "einsum"):
        assert np.prod(sizes, dtype=float) >= effort.SHORT, "never asked"


@pytest.mark.parametrize("op", ["transpose", "setitem", "shape", "broadcast_to", "item"])
def test_what_is_never_long(op: str) -> None:
    assert effort.judge(registry.row(op)) is None


def test_tensors_passed_by_name_are_counted_where_they_are() -> None:
    x, weights = np.arange(6), np.linspace(0.0, 1.0, 6)
    rows, scale = np.arange(12.0).reshape(3, 4), np.full(4, 2.0)
    beside.start()
    try:
        testing.assert_same_bits(CallSite("bincount")(x, weights=weights), np.bincount(x, weights))
        assert CallSite("layer_norm")(rows, normalized_shape=(4,), weight=scale, bias=scale).shape == (3, 4)
    finally:
        beside.stop()
