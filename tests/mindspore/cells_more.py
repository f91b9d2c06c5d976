"""Scenarios about what is easily kept too long: constants, configurations, results that are written, random numbers, memory."""

from __future__ import annotations

import contextlib
import enum
import functools
import gc
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mindspore as ms
import numpy as np
from cells_support import Log, dense, parameter, scenario, tensor, weighted
from mindspore import mint, nn, ops


@scenario(share=0.9)
def sums_of_weights_alone(log: Log) -> None:
    class Derived(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.constant = parameter(3, 3), tensor(3, seed=4)
            self.pieces = ms.ParameterTuple([parameter(3, seed=5, name="p0"), parameter(3, seed=6, name="p1")])

        def construct(self, x: Any) -> Any:
            kernel = (self.weight.T + self.weight) / self.weight.norm()
            total = sum(p * 2 for p in self.pieces)
            return x @ kernel + (self.constant + 1).exp() + self.weight.reshape(-1)[:3] + total, self.weight.sum() > 0

    net, x = Derived(), tensor(2, 3)
    log.thrice(net, x)
    net.weight.set_data(tensor(3, 3, seed=7))
    log.thrice(net, x)
    net.constant[1] = 4.0
    log.thrice(net, x)
    net.pieces[1].set_data(tensor(3, seed=8))
    log.thrice(net, x)
    net.weight[0, 0] = -9.0
    log.thrice(net, x)
    net.pieces = ms.ParameterTuple([parameter(3, seed=9, name="p2")])
    log.thrice(net, x)


class Kind(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


@dataclass
class Inner:
    widths: list[int] = field(default_factory=lambda: [1, 2])
    act: Callable[[Any], Any] = ops.relu


@dataclass
class Config:
    scale: float = 2.0
    kind: Kind = Kind.SUM
    inner: Inner = field(default_factory=Inner)


class Configured(nn.Cell):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def construct(self, x: Any) -> Any:
        c = self.config
        for width in c.inner.widths:
            x = c.inner.act(x * width + c.scale)
        return x.sum(-1) if c.kind is Kind.SUM else x.mean(-1)


@scenario(share=0.0)
def configurations_change(log: Log) -> None:
    x = tensor(2, 3)
    for config in (Config(), types.SimpleNamespace(scale=1.0, kind=Kind.MEAN, inner=types.SimpleNamespace(widths=(1,), act=ops.tanh))):
        net = Configured(config)
        log.thrice(net, x)
        config.scale = -1.0
        log.thrice(net, x)
        config.inner.widths = [3]
        log.thrice(net, x)
        config.inner.widths.append(5)
        log.thrice(net, x)
        config.inner.act = ops.sigmoid
        log.thrice(net, x)
        config.kind = Kind.MEAN if config.kind is Kind.SUM else Kind.SUM
        log.thrice(net, x)
        config.inner = Inner([2])
        log.thrice(net, x)
        log.thrice(nn.SequentialCell([net, nn.ReLU()]), x)
        config.inner.widths[0] = 7
        log.thrice(nn.SequentialCell([net, nn.ReLU()]), x)


SETTINGS: dict[str, Any] = {"gain": 2.0, "steps": [1, 2]}


def helper(x: Any, times: float = 1.0) -> Any:
    return x * times * SETTINGS["gain"]


@scenario(share=0.5)
def helpers_and_their_globals_change(log: Log) -> None:
    limit = [1.0]

    class Uses(nn.Cell):
        def construct(self, x: Any) -> Any:
            return helper(x) + limit[0] + len(SETTINGS["steps"])

    global helper
    kept, net, x = helper, Uses(), tensor(2, 3)
    log.thrice(net, x)
    SETTINGS["gain"] = 3.0
    log.thrice(net, x)
    SETTINGS["steps"].append(3)
    log.thrice(net, x)
    limit[0] = -5.0
    log.thrice(net, x)
    kept.__defaults__ = (10.0,)
    log.thrice(net, x)
    helper = lambda v: v - 1  # noqa: E731 - a replaced function is the point
    log.thrice(net, x)
    helper = kept
    kept.__defaults__ = (1.0,)
    SETTINGS.update(gain=2.0, steps=[1, 2])
    log.thrice(net, x)


@scenario(share=0.5)
def results_are_written(log: Log) -> None:
    class Gives(nn.Cell):
        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what
            self.constant, self.weight = tensor(2, 3, seed=3), parameter(2, 3)

        def construct(self, x: Any) -> Any:
            if self.what == "input":
                return x
            if self.what == "constant":
                return self.constant
            if self.what == "weight":
                return self.weight
            if self.what == "sum":
                return self.constant + self.weight
            if self.what == "made":
                return ops.zeros((2, 3), ms.float32)
            if self.what == "view":
                return x[0]
            if self.what == "reshaped":
                return x.reshape(3, 2)
            if self.what == "identity":
                return nn.Identity()(x)
            return ops.broadcast_to(x[:1], (2, 3)), x.T

    for what in ("input", "constant", "weight", "sum", "made", "view", "reshaped", "identity", "rest"):
        net, x = Gives(what), tensor(2, 3)
        for _ in range(3):
            y = net(x)
            y = y if isinstance(y, tuple) else (y,)
            log(what, y, y[0] is x, y[0] is net.constant, y[0] is net.weight)
            for part in y:
                part[0] = 5.0
            log(x, net.constant, net.weight, y)


@scenario(share=0.3)
def random_numbers(log: Log) -> None:
    """Every call draws anew; MindSpore's own numbers are others in every run, whatever the seed."""

    class Random(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.inner = nn.Dropout(p=0.5), dense(3, 3)

        def construct(self, x: Any) -> Any:
            y = self.inner(x)
            return self.drop(y), ops.dropout(y, p=0.3, training=self.training), y + ops.standard_normal(y.shape)

    net, x = Random(), tensor(4, 3)
    for train in (False, True):
        net.set_train(train)
        log([part.shape for part in net(x)], net(x)[0] if not train else None)
        seen = [tuple(part.asnumpy().tobytes() for part in net(x)) for _ in range(3)]
        log([len(set(parts)) for parts in zip(*seen, strict=True)])


@scenario()
def types_decide(log: Log) -> None:
    class Types(nn.Cell):
        def construct(self, x: Any, y: Any = 2) -> Any:
            if not isinstance(x, ms.Tensor):
                return ms.Tensor(x) if isinstance(x, np.ndarray) else x
            if x.dtype == ms.float16:
                x = x.astype(ms.float32)
            elif x.dtype in (ms.int32, ms.int64):
                x = x / 2
            if isinstance(y, int | float) and not isinstance(y, bool):
                return x * y
            return type(x).__name__, ops.is_tensor(y), str(x.dtype), x

    net = Types()
    for _ in range(2):
        for dtype in (np.float32, np.float16, np.int32, np.float64):
            log.thrice(net, tensor(2, 3, dtype=dtype))
        for y in (3, 0.5, True, "word", tensor(1), None):
            log.thrice(net, tensor(2, 3), y)
        log.thrice(net, parameter(2, 3), 2)


@scenario(share=0.0)
def arrays_and_numbers_as_inputs(log: Log) -> None:
    class Plain(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 2 + 1

    net = Plain()
    for _ in range(2):
        for x in (3, 2.5, True, np.float32(2), np.arange(3.0), [1, 2], "ab", (1,)):
            log.error(net, x)
    log.error(nn.ReLU(), np.ones(3, np.float32))
    log.error(nn.ReLU(), 3.0)
    log.error(dense(3, 3), np.ones((2, 3), np.float32))


def doubled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of users'."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) * 2

    return wrapper


@contextlib.contextmanager
def block(seen: list[str]) -> Any:
    seen.append("in")
    yield 3.0
    seen.append("out")


@scenario(share=0.3)
def odd_python(log: Log) -> None:
    seen: list[str] = []

    class Odd(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.CellList([dense(3, 3, seed=s) for s in (1, 2)])

        def pieces(self, x: Any) -> Any:
            for layer in self.layers:
                yield layer(x)

        @doubled
        def construct(self, x: Any, mode: int) -> Any:
            match mode:
                case 0:
                    return sum(layer(x) for layer in self.layers)
                case 1:
                    with block(seen) as k:
                        return x * k
                case 2:
                    try:
                        return self.layers[5](x)
                    except (IndexError, TypeError):
                        x = x - 1
                    finally:
                        seen.append("finally")
                case 3 if (n := x.shape[0]) > 1:
                    first, *rest = self.pieces(x)
                    x = first + len(rest) * n
                    del first
                case _:
                    x = x if 0 < x.ndim <= 2 else -x

            class Local:
                scale = 4.0

            return x * Local.scale

    net, x = Odd(), tensor(2, 3)
    for _ in range(2):
        for mode in range(5):
            log.thrice(net, x, mode)
    log(seen)


@scenario(share=0.0)
def compiled_helpers_and_mixed_precision(log: Log) -> None:
    @ms.jit
    def compiled(v: Any) -> Any:
        return v * 2 + 1

    class Uses(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = dense(3, 3)

        def construct(self, x: Any) -> Any:
            return compiled(self.inner(x)) - 1

    net, x = Uses(), tensor(2, 3)
    log.thrice(net, x)
    for level in ("O2", "O3"):
        mixed = ms.amp.auto_mixed_precision(weighted(nn.SequentialCell([dense(3, 4), nn.LayerNorm((4,)), nn.Tanh()])), level)
        log.thrice(mixed, x)
    model = ms.Model(dense(3, 3), loss_fn=nn.MSELoss(), metrics={"mae"})
    log.thrice(model.predict, x)


@scenario()
def properties_and_lookups_of_ones_own(log: Log) -> None:
    class Own(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self._gain = 2.0
            self.blocks = 2
            for i in range(self.blocks):
                setattr(self, f"block{i}", dense(3, 3, seed=i))

        @property
        def gain(self) -> float:
            return self._gain

        @gain.setter
        def gain(self, value: float) -> None:
            self._gain = value * 10

        def construct(self, x: Any) -> Any:
            for i in range(self.blocks):
                x = getattr(self, f"block{i}")(x) * self.gain
            return x if hasattr(self, "block0") and not hasattr(self, "block9") else -x

    net, x = Own(), tensor(2, 3)
    log.thrice(net, x)
    net.gain = 0.3
    log.thrice(net, x)
    net.block1 = nn.Tanh()
    log.thrice(net, x)
    net.block9 = nn.Tanh()
    log.thrice(net, x)
    net.blocks = 1
    log.thrice(net, x)


@scenario(share=0.5)
def cells_with_a_getattr_of_their_own(log: Log) -> None:
    class Proxy(nn.Cell):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

        def construct(self, x: Any) -> Any:
            return self.inner(x) * self.factor

    inner = dense(3, 3)
    inner.factor = 3.0
    net, x = Proxy(inner), tensor(2, 3)
    log.thrice(net, x)
    inner.factor = 5.0
    log.thrice(net, x)
    net.factor = 7.0
    log.thrice(net, x)


@scenario()
def nothing_is_kept_alive(log: Log) -> None:
    net = nn.SequentialCell([dense(3, 4), nn.ReLU(), dense(4, 2)])
    x = tensor(2, 3)
    for _ in range(3):
        net(x)
    watched = [weakref.ref(x), weakref.ref(net), weakref.ref(net[0].weight)]
    weight = net[2].weight
    old = weakref.ref(weight)
    net[2].weight = parameter(2, 4, name="new")
    y = net(tensor(1, 3))
    del weight, x
    gc.collect()
    log(old() is None, watched[0]() is None, y)
    del net
    gc.collect()
    log([ref() is None for ref in watched])


@scenario()
def masks_of_flags(log: Log) -> None:
    """Numbers, booleans and None look alike to a careless guard: 1, 1.0 and True, 0.0 and -0.0."""

    class Flags(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.k: Any = 1

        def construct(self, x: Any, n: Any = 0) -> Any:
            return x * self.k + n, str(self.k), 1 / x if self.k is True else x

    net, x = Flags(), tensor(2, 3)
    for k in (1, 1.0, True, 0, 0.0, -0.0, False):
        net.k = k
        log.thrice(net, x)
        log.thrice(net, x, k)
    i = ms.Tensor([1, 2], ms.int32)
    for k in (1, 1.0, True, 2.5):
        net.k = k
        log.thrice(net, i, k)
    log.thrice(nn.SequentialCell([nn.Identity(), net]), mint.zeros((2,)))
