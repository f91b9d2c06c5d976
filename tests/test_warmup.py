"""Warm-up: caches are full before the first call, and nothing of the user's has run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core.codegen.stencils import target
from bcvm_core.errors import HintError, LoweringError
from bcvm_core.events import Selected, Spliced, bus

LOG: list[Any] = []
W = np.ones((8, 4), np.float32)


def net(x: bcvm.Tensor["B", 8], y: bcvm.Tensor["B", 8], scale: float = 2.0) -> Any:
    a = np.maximum(x + y, 0) * scale
    h = a @ W
    LOG.append("ran")
    if h.shape[0] > 3:
        z = np.exp(h) + h
    else:
        z = np.tanh(h) * h
    return z / z.sum(axis=-1, keepdims=True)


def events_of(call: Any) -> list[Any]:
    seen: list[Any] = []
    remove = bus.subscribe(seen.append)
    try:
        call()
    finally:
        remove()
    return [e for e in seen if isinstance(e, Selected | Spliced)]


@pytest.fixture(autouse=True)
def _empty() -> None:
    LOG.clear()


def test_the_first_call_finds_everything_chosen() -> None:
    cold, warm = bcvm.jit(net), bcvm.jit(lambda x, y: None if x is None else np.maximum(x + y, 0) * 2.0 + np.exp(x))
    args = [np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)] * 2
    assert events_of(lambda: bcvm.jit(net)(*args))
    done = bcvm.warmup(cold)
    assert events_of(lambda: cold(*args)) == []
    bcvm.warmup(warm, shapes=[(4, 8)])
    assert events_of(lambda: warm(*args)) == []
    assert cold(*args).tobytes() == net(*args).tobytes()
    assert done.shapes == len((1, 4, 8, 16)) and done.regions >= 3 and not done.left
    if target.host() is not None:
        assert done.kernels >= 1


def test_nothing_of_the_users_runs_and_nothing_is_counted() -> None:
    f = bcvm.jit(net)
    bcvm.warmup(f, progress=lambda shapes: shapes)
    assert LOG == []
    assert f.stats().call_op == 0 and f.stats().bound == 0
    f(np.ones((4, 8), np.float32), np.ones((4, 8), np.float32))
    assert f.stats().bound >= 2 and f.stats().call_host == 0


def test_every_branch_is_warm() -> None:
    f = bcvm.jit(net)
    bcvm.warmup(f)
    for n in (2, 5, 100):
        x = np.full((n, 8), 0.25, np.float32)
        assert events_of(lambda x=x: f(x, x)) == []
        assert f(x, x).tobytes() == net(x, x).tobytes()


def test_regions_that_draw_or_write_are_left_alone() -> None:
    total = np.zeros(8, np.float32)

    def noisy(x: Any) -> Any:
        total[:] = x * 2
        noise = np.random.rand(8)
        return np.exp(x) + noise

    f = bcvm.jit(noisy)
    state = np.random.get_state()[1].tobytes()  # type: ignore[union-attr]
    done = bcvm.warmup(f, shapes=[(8,)])
    assert np.random.get_state()[1].tobytes() == state and not total.any()  # type: ignore[union-attr]
    assert done.left
    f(np.ones(8, np.float32))
    assert (total == 2).all()


def test_attributes_are_not_read() -> None:
    class Model:
        reads = 0

        @property
        def weight(self) -> Any:
            Model.reads += 1
            return W

        def forward(self, x: Any) -> Any:
            return np.exp(x @ self.weight) + 1

    model = Model()
    model_forward = bcvm.jit(Model.forward)
    done = bcvm.warmup(model_forward, shapes=[{"x": (2, 8)}])
    assert Model.reads == 0 and done.left
    assert model_forward(model, np.ones((2, 8), np.float32)).shape == (2, 4)


def test_what_python_makes_is_not_guessed() -> None:
    def mixed(x: Any) -> Any:
        y = np.asarray(list(map(float, LOG)), np.float32)
        return np.exp(x) * y

    f = bcvm.jit(mixed)
    bcvm.warmup(f, shapes=[(3,)])
    LOG.extend([1, 2, 3])
    assert f(np.zeros(3, np.float32)).tolist() == [1.0, 2.0, 3.0]


def test_errors_of_an_op_are_reasons() -> None:
    f = bcvm.jit(lambda x, y: np.exp(x + y))
    done = bcvm.warmup(f, shapes=[{"x": (3,), "y": (4,)}])
    assert "could not be broadcast" in next(iter(done.left.values()))
    assert f(np.zeros(3), np.zeros(3)).tolist() == [1.0, 1.0, 1.0]


def test_no_warning_comes_of_it(recwarn: pytest.WarningsRecorder) -> None:
    f = bcvm.jit(lambda x: 1 / (x - 1))
    bcvm.warmup(f, shapes=[(5,)])
    assert not recwarn.list


def test_element_types() -> None:
    f = bcvm.jit(lambda x, y: np.exp(x) + y)
    bcvm.warmup(f, shapes=[(4,)], dtypes={"x": "float64", "y": np.float64})
    x = np.zeros(4)
    assert events_of(lambda: f(x, x)) == []
    g = bcvm.jit(lambda x, y: np.exp(x) + y)
    bcvm.warmup(g, shapes=[(4,)], dtypes="float16")
    assert events_of(lambda: g(x.astype(np.float16), x.astype(np.float16))) == []
    with pytest.raises(HintError, match="no element type"):
        bcvm.warmup(g, shapes=[(4,)], dtypes="quaternion")


def test_shapes_that_were_seen_are_a_guide() -> None:
    f = bcvm.jit(lambda x: np.exp(x) * 2 + x)
    for n in (3, 5):
        f(np.zeros((n, 7), np.float64))
    done = bcvm.warmup(f, shapes=[2, 9])
    assert done.shapes == 2 and not done.left
    assert events_of(lambda: f(np.zeros((9, 7)))) == []


def test_shapes_that_do_not_follow_are_refused() -> None:
    with pytest.raises(HintError, match="doesn't follow"):
        bcvm.warmup(bcvm.jit(lambda x: np.exp(x)))
    with pytest.raises(HintError, match="breaks its hint"):
        bcvm.warmup(bcvm.jit(net), shapes=[(4, 9)])
    with pytest.raises(LoweringError, match="does not run through the VM"):
        bcvm.warmup(net)


def test_progress_wraps_the_shapes() -> None:
    seen = []

    def bar(shapes: Any) -> Iterable[Any]:
        for shape in shapes:
            yield shape
            seen.append(len(shapes))

    bcvm.warmup(bcvm.jit(net), shapes=[1, 2, 3], progress=bar)
    assert seen == [3, 3, 3]


def test_what_was_done_reads_well() -> None:
    text = str(bcvm.warmup(bcvm.jit(net), shapes=[4]))
    assert "regions ready for 1 shapes" in text and "kernels spliced" in text
