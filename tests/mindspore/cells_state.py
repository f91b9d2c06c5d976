"""Scenarios about what Cells hold: parameters, buffers, containers, flags, attributes that change between calls."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from cells_support import Log, dense, parameter, scenario, tensor, weighted
from mindspore import mint, nn, ops


class Scaled(nn.Cell):
    """A parameter, a buffer, a number and a child."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = parameter(3)
        self.register_buffer("shift", tensor(3, seed=4))
        self.factor = 2.0
        self.inner = dense(3, 3)

    def construct(self, x: Any) -> Any:
        return self.inner(x) * self.weight * self.factor + self.shift


@scenario()
def parameters_get_new_data(log: Log) -> None:
    net, x = Scaled(), tensor(2, 3)
    log.thrice(net, x)
    net.weight.set_data(tensor(3, seed=9))
    log.thrice(net, x)
    net.inner.weight.set_data(net.inner.weight * 2)
    net.inner.weight.asnumpy()[0, 0]  # reading changes nothing
    log.thrice(net, x)
    net.weight[0] = 5.0
    log.thrice(net, x)
    net.weight.assign_value(tensor(3, seed=10))
    log.thrice(net, x)
    ops.assign(net.weight, tensor(3, seed=11))
    log.thrice(net, x)


@scenario()
def parameters_are_replaced(log: Log) -> None:
    net, x = Scaled(), tensor(2, 3)
    log.thrice(net, x)
    net.weight = parameter(3, seed=12, name="other")
    log.thrice(net, x)
    net.inner.weight = parameter(3, 3, seed=13, name="third")
    log.thrice(net, x)
    net.weight = parameter(1, seed=14, name="broadcasts")
    log.thrice(net, x)
    log([p.name for p in net.get_parameters()], [p.name for p in net.trainable_params()])


@scenario()
def parameters_have_flags(log: Log) -> None:
    net, x = Scaled(), tensor(2, 3)
    log.thrice(net, x)
    net.weight.requires_grad = False
    log.thrice(net, x)
    log(len(net.trainable_params()), net.weight.requires_grad, net.weight.name)
    net.weight.set_dtype(ms.float16)
    log.thrice(net, x)


@scenario()
def parameters_are_shared(log: Log) -> None:
    class Tied(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = dense(3, 3), dense(3, 3, seed=5)
            self.second.weight = self.first.weight

        def construct(self, x: Any) -> Any:
            return self.second(self.first(x))

    net, x = Tied(), tensor(2, 3)
    log.thrice(net, x)
    net.first.weight.set_data(tensor(3, 3, seed=6))
    log.thrice(net, x)
    net.second.weight = parameter(3, 3, seed=7, name="own")
    log.thrice(net, x)


@scenario()
def buffers(log: Log) -> None:
    net, x = Scaled(), tensor(2, 3)
    log.thrice(net, x)
    net.register_buffer("shift", tensor(3, seed=15))
    log.thrice(net, x)
    net.shift[1] = 7.0
    log.thrice(net, x)
    net.register_buffer("shift", tensor(1, seed=16))
    log.thrice(net, x)
    log([name for name, _ in net.named_buffers()])


@scenario(share=0.4)
def a_parameter_that_counts_its_calls(log: Log) -> None:
    class Counting(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.calls = ms.Parameter(ms.Tensor(0.0), requires_grad=False, name="calls")

        def construct(self, x: Any) -> Any:
            self.calls += 1
            return x * self.calls

    net = Counting()
    log.thrice(net, tensor(2))
    log(net.calls.value())


class Attributes(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.power = 2
        self.act = nn.ReLU()
        self.mode = "mul"
        self.constant = tensor(3, seed=30)
        self.function = mint.exp

    def construct(self, x: Any) -> Any:
        if self.mode == "mul":
            x = x * self.constant
        elif self.mode == "add":
            x = x + self.constant
        return self.function(self.act(x)) ** self.power


@scenario()
def attributes_change(log: Log) -> None:
    net, x = Attributes(), tensor(2, 3)
    log.thrice(net, x)
    for name, value in (
        ("power", 3),
        ("power", 0.5),
        ("mode", "add"),
        ("mode", "none"),
        ("act", nn.Sigmoid()),
        ("constant", tensor(2, 1, seed=31)),
        ("mode", "add"),
        ("constant", 4),
        ("function", mint.abs),
        ("function", lambda v: v - 1),
        ("power", True),
    ):
        setattr(net, name, value)
        log.thrice(net, x)
    net.mode = "mul"
    log.thrice(net, x)
    del net.power
    log.error(net, x)


@scenario()
def attributes_of_children_change(log: Log) -> None:
    net, x = nn.SequentialCell([Attributes(), nn.SequentialCell([Attributes()])]), tensor(2, 3)
    log.thrice(net, x)
    net[0].power = 1
    log.thrice(net, x)
    net[1][0].act = nn.Tanh()
    log.thrice(net, x)


@scenario()
def class_attributes_and_globals_change(log: Log) -> None:
    class Classy(nn.Cell):
        scale = 2.0

        def construct(self, x: Any) -> Any:
            return x * self.scale + OFFSET

    global OFFSET
    net, x = Classy(), tensor(2, 3)
    log.thrice(net, x)
    Classy.scale = 3.0
    log.thrice(net, x)
    net.scale = 4.0
    log.thrice(net, x)
    del net.scale
    log.thrice(net, x)
    OFFSET = 10.0
    log.thrice(net, x)
    OFFSET = 1.0


OFFSET = 1.0


@scenario()
def construct_is_patched(log: Log) -> None:
    class Patched(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x + 1

    def doubled(self: Any, x: Any) -> Any:
        return x * 2

    net, other, x = Patched(), Patched(), tensor(2, 3)
    outer = nn.SequentialCell([net, other])
    log.thrice(outer, x)
    Patched.construct = doubled
    log.thrice(net, x)
    log.thrice(outer, x)
    net.construct = lambda x: x - 3
    log.thrice(net, x)
    log.thrice(outer, x)
    del net.construct
    log.thrice(outer, x)


@scenario()
def methods_and_properties(log: Log) -> None:
    class Rich(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.base = 3.0

        @property
        def scale(self) -> float:
            return self.base + 1

        @staticmethod
        def shifted(x: Any) -> Any:
            return x + 0.5

        @classmethod
        def named(cls, x: Any) -> Any:
            return x * len(cls.__name__)

        def helper(self, x: Any, *rest: Any, **options: Any) -> Any:
            return x * self.scale + len(rest) + options.get("k", 0)

        def construct(self, x: Any) -> Any:
            return self.named(self.shifted(self.helper(x, 1, 2, k=3)))

    class Derived(Rich):
        def helper(self, x: Any, *rest: Any, **options: Any) -> Any:
            return super().helper(x, *rest, **options) - 1

        def construct(self, x: Any) -> Any:
            return super().construct(x) + super(Derived, self).helper(x)  # noqa: UP008 - both forms

    for net in (Rich(), Derived()):
        log.thrice(net, tensor(2, 3))
        net.base = -1.0
        log.thrice(net, tensor(2, 3))


@scenario(share=0.4)
def training_flags(log: Log) -> None:
    net = weighted(nn.SequentialCell([nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(p=0.5)]))
    x = tensor(2, 3, 5, 5)
    log(net.training)
    log.thrice(net, x)
    net.set_train(True)
    net[3].set_train(False)  # the mask is random
    log.thrice(net, x)
    log([p for p in net.get_parameters() if "moving" in p.name])
    net.set_train(False)
    log.thrice(net, x)
    net[3].set_train(True)
    y = net(x)
    log(y.shape, net.training, net[3].training)  # its values are random
    kept = ops.count_nonzero(y).item() / max(1, ops.count_nonzero(net[:3](x)).item())
    log(0.2 < kept < 0.8)


@scenario()
def copies_are_independent(log: Log) -> None:
    net, x = nn.SequentialCell([Scaled(), nn.ReLU()]), tensor(2, 3)
    log.thrice(net, x)
    twin = copy.deepcopy(net)
    log.thrice(twin, x)
    net[0].factor = 5.0
    net[0].weight.set_data(tensor(3, seed=40))
    log.thrice(net, x)
    log.thrice(twin, x)
    twin[0].inner = nn.Identity()
    log.thrice(net, x)
    log.thrice(twin, x)


@scenario()
def checkpoints(log: Log) -> None:
    net, x = Scaled(), tensor(2, 3)
    log.thrice(net, x)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "weights.ckpt")
        ms.save_checkpoint(net, path)
        net.weight.set_data(tensor(3, seed=50))
        log.thrice(net, x)
        log([len(part) for part in ms.load_param_into_net(net, ms.load_checkpoint(path))])
    log.thrice(net, x)
    state = {k: ms.Tensor(v.asnumpy() + 1) for k, v in net.state_dict().items()}
    net.load_state_dict(state)
    log.thrice(net, x)


@scenario()
def views_and_numpy_share_memory_with_parameters(log: Log) -> None:
    class Sliced(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = parameter(4, 3)

        def construct(self, x: Any) -> Any:
            return x + self.table[1:3], self.table[0], self.table.T @ x.reshape(-1)[:4]

    net, x = Sliced(), tensor(2, 3)
    log.thrice(net, x)
    net.table[1] = ms.Tensor(np.float32([1, 2, 3]))
    log.thrice(net, x)
