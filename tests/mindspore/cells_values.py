"""Scenarios about values: shapes, types and strides that change, NaN and infinities, writes, constants, effects on the host."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from cells_support import Log, dense, scenario, tensor
from mindspore import mint, nn, ops


@scenario(share=0.0)
def effects_happen_once(log: Log) -> None:
    seen: list[Any] = []

    class Noisy(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0
            self.history: list[Any] = []
            self.last: Any = None

        def construct(self, x: Any) -> Any:
            self.count += 1
            y = x * self.count
            self.history.append(y)
            seen.append(self.count)
            self.last = y
            return y + len(self.history)

    net = Noisy()
    for rows in (2, 2, 3, 2):
        log.thrice(net, tensor(rows))
    log(net.count, seen, net.history, net.last)
    outer = nn.SequentialCell([nn.ReLU(), net])
    log.thrice(outer, tensor(2))
    log(net.count, len(seen))


@scenario(share=0.0)
def host_code(log: Log) -> None:
    class Host(nn.Cell):
        def construct(self, x: Any) -> Any:
            values = x.asnumpy()
            y = ms.Tensor(np.sort(values, axis=-1))
            try:
                z = x.reshape(7)
            except ValueError:
                z = y * 2
            with np.errstate(all="ignore"):
                w = z + float(values.sum())
            return w, x.tolist(), f"{x.shape} {x.dtype}", int(x.argmax()), x.item() if x.size == 1 else None

    net = Host()
    log.thrice(net, tensor(2, 3))
    log.thrice(net, tensor(1, 1))
    log.thrice(nn.SequentialCell([nn.ReLU(), net]), tensor(2, 3))


@scenario()
def shapes_and_types_change(log: Log) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.scale = tensor(1)

        def construct(self, x: Any) -> Any:
            return (x * 2 + 1) / 3 + x.mean()

    net = Net()
    for _ in range(2):
        for shape in ((2, 3), (5, 3), (1, 3), (4,), (), (0, 3), (2, 1, 3)):
            if 0 not in shape:  # the mean of nothing is random in MindSpore
                log.thrice(net, tensor(*shape))
        for dtype in (np.float16, np.float64, np.float32):
            log.thrice(net, tensor(2, 3, dtype=dtype))
    log.thrice(nn.ReLU(), tensor(0, 3))
    log.thrice(nn.SequentialCell([nn.ReLU()]), ms.Tensor([[-1, 2]], ms.int32))


@scenario()
def strides_change(log: Log) -> None:
    net = nn.SequentialCell([dense(3, 4), nn.ReLU(), dense(4, 2)])
    x = tensor(3, 6)
    for y in (x.T[:, :3], x[:, ::2], x[:, 3:], tensor(3, 3).T, x[:, :3].copy()):
        log.thrice(net, y)
    log(x)


@scenario()
def special_values(log: Log) -> None:
    net = nn.SequentialCell([nn.Sigmoid(), nn.Tanh(), nn.GELU(approximate=False)])
    nan, inf = float("nan"), float("inf")
    for row in ([nan, 1, 2], [inf, -inf, 0], [1e38, -1e38, 3], [-0.0, 0.0, 1e-40], [88.8, -88.8, -104]):
        log.thrice(net, ms.Tensor([row, [1, 2, 3]], ms.float32))

    class Comparing(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x == x, x > 0, x.isnan(), ops.isfinite(x), ops.where(x > 0, x, -x), x.sum() > 0

    log.thrice(Comparing(), ms.Tensor([nan, inf, -inf, 0, -0.0, 1], ms.float32))


@scenario(share=0.5)
def inputs_are_not_written(log: Log) -> None:
    class Adds(nn.Cell):
        def construct(self, x: Any) -> Any:
            y = x
            y += 1
            x *= 2
            return x, y, y is x

    net, x = Adds(), tensor(2, 3)
    log.thrice(net, x)
    log(x)


@scenario(share=0.4)
def tensors_are_written_in_construct(log: Log) -> None:
    class Writes(nn.Cell):
        def construct(self, x: Any) -> Any:
            y = x * 2
            y[0] = 7.0
            z = y[1:]
            z[:, 1] += 1
            return y, z

    net, x = Writes(), tensor(3, 2)
    log.thrice(net, x)
    log(x)
    log.thrice(nn.SequentialCell([net.__class__()]), x)


@scenario(share=0.9)
def constants_made_in_construct(log: Log) -> None:
    class Makes(nn.Cell):
        def construct(self, x: Any) -> Any:
            position = mint.arange(x.shape[1]) if x.ndim == 3 else ops.arange(x.shape[1])
            mask = ops.tril(ops.ones((x.shape[0], x.shape[0]), x.dtype))
            return mask @ x + position.astype(x.dtype) + ops.zeros_like(x) + ms.Tensor(2.0, ms.float32)

    net = Makes()
    log.thrice(net, tensor(2, 3))
    log.thrice(net, tensor(4, 5))


@scenario()
def big_programs(log: Log) -> None:
    net, x = nn.SequentialCell([dense(8, 8, seed=i, activation="tanh") for i in range(60)]), tensor(2, 8)
    log.thrice(net, x)


@scenario()
def primitives_are_called(log: Log) -> None:
    class Prims(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.add, self.cat, self.mean = ops.Add(), ops.Concat(1), ops.ReduceMean(keep_dims=True)
            self.shape, self.cast = ops.Shape(), ops.Cast()

        def construct(self, x: Any) -> Any:
            y = self.cat((x, self.add(x, x)))
            half = self.cast(y, ms.float16)
            return self.mean(y, 1), self.shape(y), half, ops.Reshape()(y, (-1,)), ops.Transpose()(x, (1, 0))

    net = Prims()
    log.thrice(net, tensor(2, 3))
    net.add = ops.Mul()
    log.thrice(net, tensor(2, 3))
    net.mean.keep_dims  # noqa: B018 - reading changes nothing
    net.cat = ops.Concat(0)
    log.thrice(net, tensor(3, 3))
