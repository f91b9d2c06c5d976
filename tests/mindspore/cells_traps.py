"""Scenarios that try to tell a flattened Cell from a plain one: identities, memory that is shared, classes, objects that change."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from cells_support import Log, parameter, scenario, tensor
from mindspore import nn, ops


class Of(nn.Cell):
    """Any function of (self, x, ...) as a Cell."""

    def __init__(self, function: Any, **attributes: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in attributes.items():
            setattr(self, name, value)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def relations(log: Log, result: Any, *others: Any) -> None:
    """Which parts of a result are one object; which share memory, seen by writing to them."""
    flat: list[Any] = []
    pending = [result]
    while pending:
        value = pending.pop(0)
        pending += value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else []
        flat.append(value)
    flat += others
    log([[a is b for b in flat] for a in flat if not isinstance(a, int | float | str | tuple | type(None))])
    tensors = [v for v in flat if isinstance(v, ms.Tensor)]
    log(*tensors)
    log([(str(t.dtype), t.is_contiguous(), t.stride(), t.storage_offset()) for t in tensors])
    for i, t in enumerate(tensors):
        if t.size and t.ndim:
            t[0] = 70.0 + i
            log(*tensors)


SHARING: dict[str, Any] = {
    "itself": lambda self, x: (x, [x], {"k": x}),
    "one twice": lambda self, x: (lambda y: (y, [y, y], {"y": y}))(x + 1),
    "transposed": lambda self, x: (lambda y: (y, y.T, y.T))(x + 1),
    "views of a result": lambda self, x: (lambda y: (y.reshape(-1), y, y[1:], y.transpose(1, 0)[1:]))(x * 2),
    "views of the operand": lambda self, x: (x.T, x.reshape(-1), x[1:], x[:, 1:], x[:, ::2], ops.expand_dims(x, 0)),
    "views of a parameter": lambda self, x: (self.w, self.w.T, self.w.reshape(-1), self.w[1:], x + self.w),
    "view of a view": lambda self, x: (lambda y: (y, y.T[1:], y.T[1:].T))(x.reshape(2, 6) + 0.5),
    "no change": lambda self, x: (x.reshape(x.shape), x.astype(ms.float32), x.contiguous(), x.float(), +x, x.view(3, 4)),
    "ops that may do nothing": lambda self, x: (ops.stop_gradient(x), ops.flatten(x), ops.squeeze(x), x.copy()),
    "layers that do nothing": lambda self, x: (nn.Identity()(x),),
    "dropout in evaluation": lambda self, x: (ops.dropout(x, p=0.5, training=False), self.drop(x)),
    "broadcast": lambda self, x: (ops.broadcast_to(x[:1], (3, 4)) + 0, x.expand_as(x)),
    "split": lambda self, x: ops.split(x, 2, axis=1) + tuple(ops.unbind(x)),
    "chunk of a result": lambda self, x: (lambda y: (*ops.chunk(y, 2, axis=1), y))(x + 1),
    "containers": lambda self, x: (self.items, self.table, self.pair, [self.items], x),
    "list twice": lambda self, x: (lambda k: (k, [k], {"k": k}))([x + 1]),
    "an axis with itself": lambda self, x: (x.swapaxes(0, 0), x.swapdims(1, -1), ops.swapaxes(x, 1, 1), x[0].T, x.transpose(0, 0)),
    "casts": lambda self, x: (ops.cast(x, ms.float32), x.T.astype(ms.float32), x.T.to(ms.float32), ops.stop_gradient(x.T), x.float()),
    "flattened": lambda self, x: (ops.flatten(x), ops.flatten(x, start_dim=0), x.flatten(start_dim=1), nn.Flatten()(x), x.flatten()),
    "everything": lambda self, x: (x[...], x[:], x[:, :], x[()], x[None], x[0:1]),
    "layout of results": lambda self, x: (lambda y: (y, y[1:], y.view(-1), y.is_contiguous()))(x.T + 1),
    "scalar": lambda self, x: (x.sum(), x.shape, x.size, x.ndim, x.dtype),
}


def _sharing(name: str) -> Any:
    def run(log: Log) -> None:
        net = Of(
            SHARING[name], w=parameter(3, 4), drop=nn.Dropout(p=0.5).set_train(False), items=[1, [2]], table={"a": 1}, pair=((1,), [2])
        )
        for _ in range(3):
            x = tensor(3, 4)
            relations(log, net(x), x, net.w, net.items, net.table, net.pair)
            net.w.set_data(tensor(3, 4, seed=5))

    run.__name__ = "sharing: " + name
    return run


for _name in SHARING:
    scenario(share=0.0)(_sharing(_name))


@scenario(share=0.0)
def containers_of_the_caller(log: Log) -> None:
    nets = [
        Of(lambda self, x, more: more),
        Of(lambda self, x, more: (more, [more], more[0], x)),
        Of(lambda self, x, more: [*more]),
        Of(lambda self, x, more: (x + more[0], more[1:], len(more))),
        Of(lambda self, x, more: (more[-1] is None, more, isinstance(more[0], ms.Parameter), type(more[0]).__name__)),
    ]
    for net in nets:
        for _ in range(2):
            x, y, p = tensor(3), tensor(3, seed=2), parameter(3)
            for more in ([y], [y, None], [x, y], (y, p), (p,), [p, [y, x]], [x, x], [1.0, None], (x, {"a": y})):
                result = net(x, more)
                log(result, result is more, type(result) in (tuple, list) and [r is more for r in result])
                relations(log, result, x, *more)


@scenario(share=0.0)
def dicts_of_the_caller(log: Log) -> None:
    nets = [
        Of(lambda self, x, more: more),
        Of(lambda self, x, more: x + more["a"]),
        Of(lambda self, x, more: (more.get("b"), "a" in more, len(more), list(more))),
        Of(lambda self, x, **more: (more, list(more.items()))),
    ]
    x, y = tensor(3), tensor(3, seed=2)
    for net in nets[:3]:
        for more in ({"a": x}, {"a": x, "b": y}, {"b": y, "a": x}, {"a": 1, "b": None}, {"a": True}, {"a": y}) * 2:
            result = net(x, more)
            log(result, result is more)
    for more in ({"a": x}, {"a": x, "b": y}, {"b": y, "a": x}, {"a": 1}, {"a": True}, {"a": 1.0}) * 2:
        log(nets[3](x, **more))


@scenario(share=0.0)
def equal_numbers_that_are_not_the_same(log: Log) -> None:
    nets = [
        Of(lambda self, x, n: (str(n), [n], {"n": n}, x * 2)),
        Of(lambda self, x, n: (x * n, n, isinstance(n, int), n is True, n == 1)),
        Of(lambda self, x, n: (x + (1 if n else 2), {1: "one", 0: "none"}.get(n))),
        Of(lambda self, x, n: (2 ** (n if abs(n) < 9 else 3), isinstance(2 ** (n if abs(n) < 9 else 3), int), x)),
    ]
    for net in nets:
        for n in (0, 1, True, False, 1.0, 0.0, -0.0, float("nan"), float("inf"), -1, 1 << 40) * 2:
            log.error(net, tensor(2), n)


@scenario(share=0.0)
def classes_of_tensors(log: Log) -> None:
    net = Of(
        lambda self, x, y: (isinstance(x, ms.Parameter), type(x) is ms.Tensor, isinstance(y, ms.Tensor), type(x * 2) is ms.Tensor, x is y)
    )
    pairs = [(tensor(2), parameter(2)), (parameter(2), tensor(2)), (parameter(2, name="a"), 1), (tensor(2), None), (tensor(2), np.ones(2))]
    for x, y in pairs * 2:
        log(net(x, y))

    class Shouting(ms.Tensor):
        def __add__(self, other: Any) -> Any:
            return "added"

        def sum(self, *args: Any, **kwargs: Any) -> Any:
            return "summed"

    own = Shouting(np.ones(2, np.float32))
    adding = Of(lambda self, x: (x + 1, x.sum(), type(x).__name__))
    for x in (tensor(2), own, tensor(2), own):
        log(adding(x))


@scenario(share=0.0)
def attributes_on_tensors(log: Log) -> None:
    net = Of(lambda self, x: (x + 1, hasattr(x, "mark"), getattr(x, "mark", None), getattr(x, "mark", None) is None, hasattr(x, "shape")))
    for mark in (None, 3, "a"):
        x = tensor(2)
        log.thrice(net, x)
        if mark:
            x.mark = mark
            log.thrice(net, x)
