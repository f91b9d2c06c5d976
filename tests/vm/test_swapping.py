"""Code that is linked again: who carries it gets the new one, and nobody goes through all objects to find them where none are unknown."""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core.jit import jit, linker_of
from bcvm_core.vm import twin
from bcvm_core.vm.region import Region
from tests.cache.test_memory import same

X = np.linspace(-2.0, 2.0, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The codes whose holders were searched for."""
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")
    found: list[Any] = []
    real = gc.get_referrers

    def spy(*objects: Any) -> list[Any]:
        found.extend(objects)
        return real(*objects)

    monkeypatch.setattr(gc, "get_referrers", spy)
    yield found


def make() -> Callable[..., Any]:
    @jit
    def f(x: Any, wide: bool) -> Any:
        if wide:
            return np.tanh(x) * 2.0 + 1.0
        return np.maximum(x, 0.0) - x * 0.5

    return f


def test_a_region_goes_native_without_a_search(searches: list[Any]) -> None:
    f = make()
    for wide in (True, False):
        for _ in range(4):
            f(X, wide)
    linker = linker_of(f)
    assert linker is not None
    natives = [site.native.function for site in linker.table.live if isinstance(site, Region) and site.native is not None]
    assert len(natives) == 2 and set(natives) <= set(f.__code__.co_consts)
    assert searches == []


def test_a_copy_that_nobody_knows_of_gets_the_new_code(searches: list[Any]) -> None:
    f = make()
    old = f.__code__
    copy = types.FunctionType(old, f.__globals__, "copy", None, f.__closure__)
    for _ in range(4):
        f(X, True)
    assert f.__code__ is not old and copy.__code__ is f.__code__
    assert searches and searches[0] is old


def test_a_call_that_goes_on_in_another_thread_hides_no_copy(searches: list[Any]) -> None:
    going, end = threading.Event(), threading.Event()

    @jit
    def f(x: Any, wait: bool) -> Any:
        if wait:
            going.set()
            end.wait(60)
        return np.tanh(x) * 2.0 + 1.0

    other = threading.Thread(target=f, args=(X, True))
    other.start()
    assert going.wait(60)
    old = f.__code__
    copy = types.FunctionType(old, f.__globals__, "copy", None, f.__closure__)
    expected = f(X, False)
    for _ in range(4):
        assert same(f(X, False), expected)
    end.set()
    other.join()
    assert f.__code__ is not old and copy.__code__ is f.__code__ and searches


def test_it_is_counted_who_holds_a_code() -> None:
    code = compile("def f(stop): stop() if stop else None", "<held>", "exec").co_consts[0]
    assert twin.is_unheld(code, 1)
    assert not twin.is_unheld(code, 0) and not twin.is_unheld(code, 2)
    more = [code]
    assert not twin.is_unheld(code, 1)
    more.clear()
    function = types.FunctionType(code, {})
    seen: list[bool] = []
    function(lambda: seen.append(twin.is_unheld(code, 1)))
    del function
    assert seen == [False] and twin.is_unheld(code, 1), "a frame is no holder, its function is"


def test_the_count_keeps_no_frame() -> None:
    marked = type("Marked", (), {})()
    before = sys.getrefcount(marked)

    def within(kept: Any) -> None:
        twin.is_unheld(within.__code__, 0)

    gc.disable()
    try:
        within(marked)
        assert sys.getrefcount(marked) == before
    finally:
        gc.enable()
