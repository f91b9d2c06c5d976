"""Networks of convolutions as flat programs: the bits of one op after the other, however things lie in memory and are computed at once."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import mint, nn, ops

import bcvm_core as bcvm
from bcvm_core import config, testing
from bcvm_core import ops as b
from bcvm_core.codegen.onednn import convolution, library
from bcvm_core.ops import pending
from bcvm_core.tiers import beside as module
from bcvm_core.tiers import effort
from bcvm_core.vm.flatten import program as flat

pytestmark = [pytest.mark.mindspore, pytest.mark.skipif(library.library() is None, reason=library.state()[1])]
F32 = np.float32


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    with bcvm.enable():
        yield
    assert not pending._waiting


def data(shape: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


class Block(nn.Cell):
    """What residual networks are made of, and a part that reads a convolution twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, stride=2, pad_mode="pad", padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(3, 2, pad_mode="same")
        self.conv2 = nn.Conv2d(16, 16, 3, pad_mode="pad", padding=1, group=16)
        self.bn2 = nn.BatchNorm2d(16)
        self.conv3 = nn.Conv2d(16, 24, 1, has_bias=True)
        self.relu = nn.ReLU()
        rng = np.random.default_rng(5)
        for p in self.get_parameters():
            values = rng.standard_normal(p.shape) * 0.5 if "conv" in p.name else rng.random(p.shape) + 0.5
            p.set_data(ms.Tensor(values.astype(F32)))

    def construct(self, x: Any) -> Any:
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        y = self.conv2(x)
        z = self.bn2(y)
        last = self.conv3(self.relu(z + x))
        return last, ops.mean(y, (2, 3)), mint.reshape(last, (x.shape[0], -1)), ops.cat((z, y), 1)


@np.errstate(invalid="ignore")
def one_by_one(net: Block, x: Any) -> list[Any]:
    """The same by single ops, on plain arrays."""
    p = {name: parameter.asnumpy() for name, parameter in net.parameters_and_names()}

    def norm(v: Any, name: str) -> Any:
        parts = [p[f"{name}.{part}"] for part in ("moving_mean", "moving_variance", "gamma", "beta")]
        return b.batch_norm(v, *parts, eps=1e-5)

    x = b.relu(norm(b.conv2d(x, p["conv1.weight"], stride=2, padding=1), "bn1"))
    x = b.max_pool2d(x, 3, stride=2, padding="same")
    y = b.conv2d(x, p["conv2.weight"], padding=1, groups=16)
    z = norm(y, "bn2")
    last = b.conv2d(b.relu(z + x), p["conv3.weight"])
    last = b.bias_add(last, p["conv3.bias"])
    return [last, b.mean(y, axis=(2, 3)), last.reshape(len(x), -1), np.concatenate((z, y), 1)]


def flattened(net: Any, x: Any) -> list[Any]:
    before = bcvm.stats()
    made = net(ms.Tensor(x))
    assert bcvm.stats().since(before).share() == 1
    return [part.asnumpy() for part in made]


@pytest.fixture(scope="module")
def net() -> Block:
    made = Block()
    made.set_train(False)
    return made


def test_bits_of_one_op_after_the_other(net: Block) -> None:
    for seed, shape in enumerate([(2, 3, 30, 30), (1, 3, 31, 17), (5, 3, 30, 30), (1, 3, 8, 8)]):
        x = data(shape, seed)
        if seed == 1:
            x[0, 1, 4, 4], x[0, 2, 20, 9] = np.nan, np.inf
        for _ in range(3):
            for ours, theirs in zip(flattened(net, x), one_by_one(net, x), strict=True):
                assert ours.flags.c_contiguous
                np.testing.assert_array_equal(ours.view(np.int32)[~np.isnan(theirs)], theirs.view(np.int32)[~np.isnan(theirs)])
                np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
        with config.override(fuse=False):
            for ours, theirs in zip(flattened(net, x), one_by_one(net, x), strict=True):
                np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_allclose(flattened(net, data(shape))[0], _by_mindspore(net, data(shape)), rtol=1e-4, atol=1e-4)


def _by_mindspore(net: Any, x: Any) -> Any:
    with config.override(enabled=False):
        return net(ms.Tensor(x))[0].asnumpy()


def test_which_convolutions_wait(net: Block) -> None:
    net(ms.Tensor(data((1, 3, 16, 16))))
    found = bcvm.program_of(net)
    convolutions = [pc for pc, name in enumerate(map(flat.op_name, found.instructions)) if name == "conv2d"]
    assert len(convolutions) == 3
    waiting = flat.followed(found)
    assert [pc in waiting for pc in convolutions] == [True, False, True]  # the second is read by a mean as well


def test_written_parameters_are_seen(net: Block) -> None:
    x = data((2, 3, 20, 20), 4)
    for name in ("conv1.weight", "conv2.weight", "bn1.gamma", "bn2.moving_variance", "conv3.bias"):
        parameter = dict(net.parameters_and_names())[name]
        flattened(net, x)
        parameter.set_data(ms.Tensor(parameter.asnumpy() * F32(1.5)))
        np.testing.assert_array_equal(flattened(net, x)[0], one_by_one(net, x)[0])
        ops.assign(parameter, parameter * 0.75)
        np.testing.assert_array_equal(flattened(net, x)[0], one_by_one(net, x)[0])


def _doubled(result: Any) -> Any:
    return tuple(part * 2 for part in result) if type(result) is tuple else result * 2


@pytest.mark.parametrize("kernel", ["conv2d.windows", "batch_norm_parts.numpy", "bias_add.numpy"])
def test_kernels_of_others_see_elements(net: Block, kernel: str) -> None:
    x = data((1, 3, 20, 20), 6)
    expected = flattened(net, x)[0]
    with (
        testing.corrupt_kernel(kernel, _doubled),
        testing.corrupt_kernel("batch_norm.numpy", _doubled if "norm" in kernel else lambda r: r),
    ):
        changed = flattened(net, x)[0]
        np.testing.assert_array_equal(changed, one_by_one(net, x)[0])
    assert (changed != expected).any()
    np.testing.assert_array_equal(flattened(net, x)[0], expected)


def test_calls_beside_the_main_thread_wait_too(net: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LONG_ELEMENTS", "LONG_FLOPS", "SHORT"):
        monkeypatch.setattr(effort, name, 2)
    monkeypatch.setattr(module, "SHORT", 2)
    filled = []
    fill = convolution.Waiting.fill

    def noted(self: Any, steps: Any = ()) -> bool:
        filled.append((threading.get_ident(), [name for name, _ in steps]))
        return fill(self, steps)

    monkeypatch.setattr(convolution.Waiting, "fill", noted)
    x = data((2, 3, 20, 20), 8)
    module.beside.start()
    try:
        ours = flattened(net, x)
    finally:
        module.beside.stop()
    for mine, theirs in zip(ours, one_by_one(net, x), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert [steps for _, steps in filled] == [["sub", "div", "mul", "add"], ["add"]]
    assert threading.get_ident() not in [thread for thread, _ in filled]


ORDER = """
import sys, numpy as np
import bcvm_core as bcvm
if "first" in sys.argv[1]:
    import mindspore as ms
    if "used" in sys.argv[1]:
        ms.ops.conv2d(ms.Tensor(np.ones((1, 8, 9, 9), np.float32)), ms.Tensor(np.ones((8, 8, 3, 3), np.float32))).asnumpy()
rng = np.random.default_rng(0)
x, w = rng.standard_normal((2, 19, 20, 20)).astype("f4"), rng.standard_normal((33, 19, 3, 3)).astype("f4")
made = bcvm.ops.conv2d(x, w, padding=1)
assert ("mindspore" in sys.modules) == ("first" in sys.argv[1])
import hashlib, mindspore as ms
theirs = ms.ops.conv2d(ms.Tensor(x), ms.Tensor(w), pad_mode="pad", padding=1).asnumpy()
assert np.abs(theirs - made).max() < 1e-3
assert bcvm.ops.conv2d(x, w, padding=1).tobytes() == made.tobytes()
print(hashlib.sha256(made).hexdigest(), hashlib.sha256(theirs).hexdigest())
"""


def test_neither_library_changes_the_other() -> None:
    """Who comes first changes the bits of neither; no convolution of ours imports MindSpore."""
    texts = set()
    for how in ("ours", "first", "first and used"):
        done = subprocess.run([sys.executable, "-c", ORDER, how], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout.split("\n")[-2])
    assert len(texts) == 1
