"""Scenarios about Cells that hold Cells: SequentialCell, CellList, CellDict, plain lists and dicts, changed between calls."""

from __future__ import annotations

from typing import Any

from cells_support import Log, dense, scenario, tensor
from mindspore import nn, ops


@scenario()
def one_child_is_called_twice(log: Log) -> None:
    class Twice(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layer = dense(3, 3)
            self.alias = self.layer

        def construct(self, x: Any) -> Any:
            return self.layer(self.alias(x) + 1)

    net, x = Twice(), tensor(2, 3)
    log.thrice(net, x)
    net.alias = dense(3, 3, seed=8)
    log.thrice(net, x)


@scenario()
def sequential_cells(log: Log) -> None:
    net, x = nn.SequentialCell([dense(3, 4), nn.ReLU(), dense(4, 2)]), tensor(5, 3)
    log.thrice(net, x)
    net.append(nn.Tanh())
    log.thrice(net, x)
    net[3] = nn.Sigmoid()
    log.thrice(net, x)
    net[0] = dense(3, 4, seed=20)
    log.thrice(net, x)
    del net[1]
    log.thrice(net, x)
    log.thrice(net[1:], tensor(5, 4))
    log(len(net), repr(net))


@scenario()
def cell_lists(log: Log) -> None:
    class Stack(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.CellList([dense(3, 3, seed=i) for i in range(3)])

        def construct(self, x: Any) -> Any:
            for i, layer in enumerate(self.layers):
                x = layer(x) if i % 2 else layer(x).tanh()
            return self.layers[-1](x), self.layers[0](x), len(self.layers)

    net, x = Stack(), tensor(2, 3)
    log.thrice(net, x)
    net.layers.append(dense(3, 3, seed=7))
    log.thrice(net, x)
    net.layers.insert(0, nn.Tanh())
    log.thrice(net, x)
    net.layers[1] = nn.Identity()
    log.thrice(net, x)
    net.layers.extend([nn.ReLU(), nn.Sigmoid()])
    log.thrice(net, x)
    del net.layers[2]
    log.thrice(net, x)
    net.layers = nn.CellList([nn.ReLU()])
    log.thrice(net, x)


@scenario()
def cell_dicts(log: Log) -> None:
    class Choice(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.CellDict({"a": dense(3, 3), "b": nn.ReLU()})

        def construct(self, x: Any, which: str = "a") -> Any:
            x = self.parts[which](x)
            for name in self.parts.keys():  # noqa: SIM118 - a CellDict's own keys
                if name != which:
                    x = self.parts[name](x)
            return x

    net, x = Choice(), tensor(2, 3)
    log.thrice(net, x)
    log.thrice(net, x, "b")
    log.thrice(net, x, which="b")
    net.parts["b"] = nn.Tanh()
    log.thrice(net, x)
    net.parts.update({"c": dense(3, 3, seed=9)})
    log.thrice(net, x, "c")
    net.parts.pop("a")
    log.error(net, x)
    log.thrice(net, x, "b")


@scenario()
def lists_and_dicts_of_plain_python(log: Log) -> None:
    class Held(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = dense(3, 3), dense(3, 3, seed=4)
            self.order = [self.a, self.b]
            self.table = {"scale": 2.0, "act": ops.relu}

        def construct(self, x: Any) -> Any:
            for layer in self.order:
                x = self.table["act"](layer(x)) * self.table["scale"]
            return x

    net, x = Held(), tensor(2, 3)
    log.thrice(net, x)
    net.order.reverse()
    log.thrice(net, x)
    net.order.append(net.a)
    log.thrice(net, x)
    net.table["scale"] = -1.0
    log.thrice(net, x)
    net.table["act"] = ops.tanh
    log.thrice(net, x)
    net.order[0] = nn.Identity()
    log.thrice(net, x)


@scenario()
def models_come_and_go(log: Log) -> None:
    x = tensor(2, 3)
    for seed in range(4):
        net = nn.SequentialCell([dense(3, 3, seed=seed), nn.ReLU()])
        log.thrice(net, x)
        del net
