"""MindSpore tensors in regions that one kernel does whole: a function in the region's place, when it runs, when it hands over."""

from __future__ import annotations

import gc
import pickle
import sys
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, ops

import bcvm_core as bcvm
from tests.in_threads import in_threads
from tests.vm import native_support

pytestmark = pytest.mark.mindspore
warmed = partial(native_support.warmed, calls=4)
A = np.linspace(-3.0, 3.0, 24, dtype=np.float32).reshape(4, 6)


@pytest.fixture(scope="module", autouse=True)
def _kernels() -> None:
    assert bcvm.ready()


def make() -> Callable[..., Any]:
    def f(x: Any, b: Any) -> Any:
        return ops.relu(x + b) * 2.0

    return bcvm.jit(f)


def plain(x: Any, b: Any) -> Any:
    return ops.relu(x + b) * 2.0


def bits(value: Any) -> Any:
    return value.dtype, value.shape, value.asnumpy().tobytes()


def test_it_takes_the_place_of_a_region() -> None:
    f, x = make(), Tensor(A)
    region = warmed(f, x, x)
    before = region.native.hits  # type: ignore[union-attr]
    for k in range(10):
        y = Tensor(A + k)  # another tensor, elsewhere in memory
        assert bits(f(x, y)) == bits(plain(x, y))
    assert region.native.hits == before + 10  # type: ignore[union-attr]
    assert f.stats().ops["relu"].call_op == 14
    assert f.stats().share() == 1.0
    assert type(f(x, x)) is Tensor


OTHERS = {
    "wider type": lambda: Tensor(A.astype(np.float64)),
    "half": lambda: Tensor(A.astype(np.float16)),
    "integers": lambda: Tensor(np.ones((4, 6), np.int32)),
    "number": lambda: 3.0,
    "row": lambda: Tensor(np.ones(6, np.float32)),
    "column": lambda: Tensor(np.ones((4, 1), np.float32)),
    "0-d": lambda: Tensor(np.float32(2.0)),
    "more axes": lambda: Tensor(np.ones((2, 4, 6), np.float32)),
    "empty": lambda: Tensor(np.ones((0, 4, 6), np.float32)),
    "transposed": lambda: Tensor(np.ascontiguousarray(A.T)).T,
    "part": lambda: Tensor(np.ones((8, 6), np.float32))[2:6],
    "step": lambda: Tensor(np.ones((8, 6), np.float32))[::2],
    "parameter": lambda: Parameter(Tensor(A)),
    "result": lambda: ops.sigmoid(Tensor(A)),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_whatever_comes_gives_what_mindspore_gives(other: Any) -> None:
    f, x = make(), Tensor(A)
    warmed(f, x, x)
    value = other()
    for _ in range(4):
        for args in ((x, value), (value, x), (x, x)):
            assert bits(f(*args)) == bits(plain(*args))


def test_errors_are_mindspores() -> None:
    f, x = make(), Tensor(A)
    warmed(f, x, x)
    with pytest.raises(ValueError, match="(?i)broadcast|shape"):
        f(x, Tensor(np.ones(5, np.float32)))
    with pytest.raises(TypeError):
        f(x, None)
    assert bits(f(x, x)) == bits(plain(x, x))


def test_floating_point_events_are_silent_as_in_mindspore() -> None:
    @bcvm.jit
    def f(x: Any, y: Any) -> Any:
        return x / y + 1.0

    x, zero = Tensor(A), Tensor(np.zeros_like(A))
    warmed(f, x, Tensor(np.ones_like(A)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = f(x, zero).asnumpy()
    with np.errstate(all="ignore"):
        assert np.array_equal(found, A / np.zeros_like(A) + 1.0, equal_nan=True)


def test_gradients_see_every_op() -> None:
    f, x = make(), Tensor(A)
    region = warmed(f, x, x)
    runs = region.hits
    found = ms.grad(lambda v: f(v, x).sum())(x)
    assert bits(found) == bits(ms.grad(lambda v: plain(v, x).sum())(x))
    assert region.hits == runs
    assert bits(f(x, x)) == bits(plain(x, x))


def test_a_switched_off_vm_and_debuggers_are_respected() -> None:
    f, x = make(), Tensor(A)
    region = warmed(f, x, x)
    runs = region.hits
    with bcvm.override(enabled=False):
        f(x, x)
    with bcvm.override(force_tier="plain"):
        f(x, x)
    sys.settrace(lambda *args: None)
    try:
        f(x, x)
    finally:
        sys.settrace(None)
    assert region.hits == runs
    f(x, x)
    assert region.hits == runs + 1
    before = region.native.hits  # type: ignore[union-attr]
    with bcvm.override(fuse=False):
        assert bits(f(x, x)) == bits(plain(x, x))
    assert region.native.hits == before  # type: ignore[union-attr]


def test_a_rebound_callee_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = make(), Tensor(A)
    warmed(f, x, x)
    monkeypatch.setattr(ops, "relu", ops.abs)
    assert bits(f(x, x)) == bits(ops.abs(x + x) * 2.0)


def test_many_shapes_run_by_it_and_few_are_kept() -> None:
    f = make()
    x = Tensor(A)
    region = warmed(f, x, x)
    for n in range(1, 200):
        y = Tensor(np.full((n, 3), -0.0, np.float32))
        for _ in range(2):
            assert bits(f(y, y)) == bits(plain(y, y))
    assert region.native.hits >= 199  # type: ignore[union-attr]
    assert len(region.native.views) <= 64  # type: ignore[union-attr]


def test_results_own_their_memory() -> None:
    f, x = make(), Tensor(A)
    warmed(f, x, x)
    one = f(x, x)
    kept = one.asnumpy().copy()
    two = f(Tensor(A + 1), x)
    assert one.data_ptr() != two.data_ptr()
    one += 1.0
    assert np.array_equal(x.asnumpy(), A)
    assert np.array_equal(one.asnumpy(), kept + 1)


def test_tensors_and_functions_can_go() -> None:
    f, x = make(), Tensor(A)
    region = weakref.ref(warmed(f, x, x))
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None
    del f
    gc.collect()
    assert region() is None


def test_code_pickled_by_value_runs_plainly_elsewhere() -> None:
    f, x = make(), Tensor(A)
    native = warmed(f, x, x).native
    assert native is not None
    assert pickle.loads(pickle.dumps(native.function))(x, x) is None


def test_several_results() -> None:
    @bcvm.jit
    def f(x: Any, y: Any) -> Any:
        total = x + y
        product = total * y
        return total - product, total, product

    x = Tensor(A)
    for _ in range(6):
        found = f(x, x)
        assert [bits(v) for v in found] == [bits(v) for v in (x + x - (x + x) * x, x + x, (x + x) * x)]


def test_threads() -> None:
    f, x = make(), Tensor(A)
    warmed(f, x, x)
    wrong: list[int] = []

    def work(k: int) -> None:
        y = Tensor(A + k)
        expected = bits(plain(y, y))
        wrong.extend(n for n in range(300) if bits(f(y, y)) != expected)

    in_threads(6, work)
    assert wrong == []
