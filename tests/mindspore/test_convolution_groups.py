"""Convolutions with norm, residual and relu as one step of a flat program: which there are, their bits, and when their ops run alone."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

import bcvm_core as bcvm
from bcvm_core import config, testing
from bcvm_core.codegen.onednn import following, library
from bcvm_core.codegen.stencils import crew, threads
from bcvm_core.fusion import convolutions
from bcvm_core.mindspore import held_ahead, held_groups
from bcvm_core.ops import pending
from bcvm_core.tiers import effort
from bcvm_core.tiers.beside import beside
from bcvm_core.vm.flatten import program as flat
from tests.in_threads import in_threads

pytestmark = [pytest.mark.mindspore, pytest.mark.skipif(library.library() is None, reason=library.state()[1])]
F32 = np.float32


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    with bcvm.enable():
        yield
    assert not pending._waiting


def data(shape: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


class Residual(nn.Cell):
    """A residual block with a projection, whose sum has its operands in both orders; a bias; a result that two read."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(8, 16, 3, stride=2, pad_mode="pad", padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 16, 3, pad_mode="same")
        self.bn2 = nn.BatchNorm2d(16)
        self.project = nn.Conv2d(8, 16, 1, stride=2)
        self.bn3 = nn.BatchNorm2d(16)
        self.conv4 = nn.Conv2d(16, 16, 3, pad_mode="pad", padding=1, has_bias=True)
        self.conv5 = nn.Conv2d(16, 16, 1)
        self.relu = nn.ReLU()
        rng = np.random.default_rng(5)
        for p in self.get_parameters():
            values = rng.standard_normal(p.shape) * 0.2 if "weight" in p.name else rng.random(p.shape) + 0.5
            p.set_data(ms.Tensor(values.astype(F32)))

    def construct(self, x: Any) -> Any:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y = self.relu(y + self.bn3(self.project(x)))
        z = self.relu(self.conv4(y) + y)
        last = self.conv5(z)
        return self.relu(last), ops.mean(last, (2, 3))


@pytest.fixture
def net() -> Residual:
    made = Residual()
    made.set_train(False)
    return made


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call of a group: whether it ran whole."""
    found: list[bool] = []
    call = held_groups.HeldGroup.__call__

    def noted(self: Any, *values: Any) -> Any:
        result = call(self, *values)
        found.append(result is not None)
        return result

    monkeypatch.setattr(held_groups.HeldGroup, "__call__", noted)
    return found


def results(net: Any, x: Any) -> list[Any]:
    return [part.asnumpy() for part in net(ms.Tensor(x))]


def one_by_one(net: Any, x: Any) -> list[Any]:
    with config.override(fuse=False):
        return results(net, x)


def same(ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_array_equal(a.view(np.int32)[~np.isnan(a)], b.view(np.int32)[~np.isnan(b)])


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """(thread, steps) of what is made before it is called, on a machine of several cores."""
    found: list[tuple[str, Any]] = []
    make = following.Following.make

    def noted(self: Any) -> None:
        found.append((threading.current_thread().name, self.plain.key.images[2:]))
        make(self)

    monkeypatch.setattr(threads, "cores", lambda: 2)
    monkeypatch.setattr(following.Following, "make", noted)
    return found


def finish() -> None:
    """Wait for those who make something ahead."""
    for thread in threading.enumerate():
        if thread.name == "bcvm-prepare":
            thread.join(60)
    assert crew.crew.spared == 0


def test_what_follows_is_made_ahead_with_new_shapes(net: Residual, ahead: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    x = data((2, 8, 12, 12))
    for _ in range(3):
        results(net, x)
    finish()
    ahead.clear()
    reached: list[Any] = []
    work = held_ahead._work
    monkeypatch.setattr(held_ahead, "_work", lambda waiting, crew: (reached.extend(waiting), work(waiting, crew)))
    wide = data((2, 8, 18, 14))
    ours = results(net, wide)
    finish()
    assert [shapes[0] for _, shapes in reached] == [(2, 16, 9, 7), (2, 8, 18, 14), (2, 16, 9, 7)]  # all after the first
    assert {name for name, _ in ahead} <= {"bcvm-prepare"}
    for group, shapes in reached:
        assert shapes in group.known and group.coming is None
    same(ours, one_by_one(net, wide))
    reached.clear()
    same(results(net, wide), ours)
    assert not reached  # nothing is new


def test_the_last_are_made_first(net: Residual, ahead: list[tuple[str, Any]]) -> None:
    for _ in range(3):
        results(net, data((1, 8, 12, 12)))
    finish()
    ahead.clear()
    one = next(group for group in gc.get_objects() if type(group) is held_groups.HeldGroup and len(group.later) == 3)
    held_ahead.start(one, ((1, 8, 30, 30), one.weight_shape), one.later, ())
    finish()
    assert [size for _, size in ahead] == [(15, 15), (30, 30), (15, 15)]
    ahead.clear()
    one.later[-1].known[(1, 16, 20, 20), one.later[-1].weight_shape] = None  # the program was there
    held_ahead.start(one, ((1, 8, 40, 40), one.weight_shape), one.later, ())
    finish()
    assert [size for _, size in ahead] == [(40, 40), (20, 20)]


class Pooled(nn.Cell):
    """Convolutions with maxima of windows between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3, stride=2), nn.Conv2d(16, 8, 1)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm2d(16), nn.BatchNorm2d(16), nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(3, stride=2, pad_mode="same")
        self.relu = nn.ReLU()

    def construct(self, x: Any) -> Any:
        x = self.pool(self.relu(self.bn1(self.first(x))))
        x = self.relu(self.bn2(self.second(x)))
        return self.bn3(self.third(x))


def test_shapes_are_followed_through_maxima_of_windows(ahead: list[tuple[str, Any]]) -> None:
    net = Pooled()
    net.set_train(False)
    for size in (20, 20, 20, 31):
        ahead.clear()
        x = ms.Tensor(data((1, 3, size, size)))
        found = net(x).asnumpy()
        finish()
    assert found.shape == (1, 8, 8, 8)
    groups = [group for group in gc.get_objects() if type(group) is held_groups.HeldGroup and group.weight_shape == (16, 3, 3, 3)]
    one = next(group for group in groups if len(group.later) == 2)
    reached = held_ahead._reached(one, ((2, 3, 41, 30), one.weight_shape), one.later, one.pools)
    assert [shapes[0] for _, shapes in reached] == [(2, 16, 21, 15), (2, 16, 11, 8)]
    assert [group.weight_shape for group, _ in reached] == [(16, 16, 3, 3), (8, 16, 1, 1)]


def test_groups_of_a_program(net: Residual) -> None:
    results(net, data((1, 8, 12, 12)))
    program = bcvm.program_of(net)
    found = convolutions.find(program, frozenset(), flat.first_alone(program), [])
    names = [[flat.op_name(program.instructions[pc]) for pc in group.pcs] for group in found]
    norm = ["conv2d", "batch_norm_parts", "getitem"]
    assert names == [[*norm, "relu"], norm, [*norm, "add", "relu"], ["conv2d", "bias_add", "add", "relu"]]  # two read what conv5 gives
    assert [group.first for group in found] == [False, False, True, False]
    assert not convolutions.find(program, frozenset(found[0].pcs[:1]), frozenset(), [])[0].norm  # what is not alone is no norm of a group


def test_bits_of_one_op_after_the_other(net: Residual, done: list[bool]) -> None:
    results(net, data((1, 8, 12, 12)))
    results(net, data((1, 8, 12, 12)))  # the sites go first
    assert done == [False] * 4
    for seed, shape in enumerate([(1, 8, 12, 12), (3, 8, 9, 14), (2, 8, 30, 30)]):
        x = data(shape, seed)
        for special in (None, np.nan, -np.inf, -0.0):
            if special is not None:
                x[0, 1, 4, 4] = special
            done.clear()
            ours = results(net, x)
            assert done == [True] * 4
            same(ours, one_by_one(net, x))


def test_measured_they_run_whole_and_are_told_as_one(net: Residual, done: list[bool]) -> None:
    x = data((2, 8, 12, 12), 4)
    expected = [results(net, x) for _ in range(3)][-1]
    with bcvm.profile() as profile:
        results(net, x)  # sites choose again
        done.clear()
        same(results(net, x), expected)
        same(results(net, x), expected)
    assert done == [True] * 8
    whole = {row.op: row.calls for row in profile.rows if "+" in row.op}
    assert whole["conv2d+bias_add+add+relu"] == 2
    assert whole["conv2d+batch_norm_parts+relu"] == whole["conv2d+batch_norm_parts"] == whole["conv2d+batch_norm_parts+add+relu"] == 2


def test_written_and_other_parameters_are_seen(net: Residual, done: list[bool]) -> None:
    x = data((2, 8, 12, 12), 4)
    for _ in range(3):
        results(net, x)
    for name in ("conv1.weight", "bn1.gamma", "bn2.moving_variance", "bn3.moving_mean", "conv4.bias"):
        parameter = dict(net.parameters_and_names())[name]
        before = results(net, x)
        parameter.set_data(ms.Tensor(parameter.asnumpy() * F32(1.5)))
        after = results(net, x)
        assert (after[0] != before[0]).any()
        same(after, one_by_one(net, x))
        ops.assign(parameter, parameter * 0.75)
        same(results(net, x), one_by_one(net, x))
    done.clear()
    results(net, x)
    assert done == [True] * 4


def test_a_residual_of_another_shape_is_left_to_the_ops(done: list[bool]) -> None:
    class Wide(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 1, has_bias=True)

        def construct(self, x: Any, y: Any) -> Any:
            return ops.relu(self.conv(x) + y)

    net = Wide()
    net.set_train(False)
    x, y = data((2, 4, 5, 5)), data((2, 4, 5, 5), 1)
    for _ in range(3):
        net(ms.Tensor(x), ms.Tensor(y))
    assert done[-1]
    for other in (data((1, 4, 1, 5), 2), data((4, 1, 1), 3)):
        made = net(ms.Tensor(x), ms.Tensor(other)).asnumpy()
        assert not done[-1]
        np.testing.assert_array_equal(made, np.maximum(net.conv(ms.Tensor(x)).asnumpy() + other, 0))


@pytest.mark.parametrize("kernel", ["conv2d.windows", "relu.numpy", "bias_add.numpy"])
def test_kernels_of_others_run(net: Residual, done: list[bool], kernel: str) -> None:
    x = data((1, 8, 12, 12), 6)
    for _ in range(3):
        expected = results(net, x)
    done.clear()
    with testing.corrupt_kernel(kernel, lambda r: r * 2):
        changed = results(net, x)
        same(changed, one_by_one(net, x))
    assert done and not any(done) and (changed[0] != expected[0]).any()
    for _ in range(2):
        same(results(net, x), expected)
    assert done[-4:] == [True] * 4


def test_calls_that_must_be_interruptible_are_left_to_the_ops(net: Residual, done: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    x = data((1, 8, 12, 12), 8)
    for _ in range(3):
        expected = results(net, x)
    beside.start()
    try:
        results(net, x)  # kernels are chosen anew, and the sites go first
        for limit, whole in (("", True), ("LONG_FLOPS", False), ("LONG_ELEMENTS", False)):
            with monkeypatch.context() as patched:
                if limit:
                    patched.setattr(effort, limit, 2)
                done.clear()
                same(results(net, x), expected)
                assert done == [whole] * 4
    finally:
        beside.stop()


def test_several_threads_at_once(net: Residual) -> None:
    inputs = [data((n, 8, size, size), n) for n, size in ((1, 12), (2, 20), (3, 9))]
    for x in inputs:
        results(net, x)
    expected = [results(net, x) for x in inputs]
    wrong: list[int] = []

    def work(first: int) -> None:
        for k in range(first, first + 30):
            made = results(net, inputs[k % 3])
            if not all(np.array_equal(a, b) for a, b in zip(made, expected[k % 3], strict=True)):
                wrong.append(k)

    in_threads(3, work)
    assert not wrong


def test_settings_decide_at_each_call(net: Residual, done: list[bool]) -> None:
    x = data((1, 8, 12, 12), 7)
    for _ in range(3):
        expected = results(net, x)
    done.clear()
    with config.override(onednn="0"):
        close = results(net, x)
    assert done == [False] * 4
    np.testing.assert_allclose(close[0], expected[0], rtol=1e-4, atol=1e-5)
    with bcvm.clamp_batch_size(1, 8, 4):
        same([results(net, x)[1]], [expected[1]])
    assert done[4:] == [False] * 4
