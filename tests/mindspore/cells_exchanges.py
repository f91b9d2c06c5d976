"""Scenarios that change what a flattened Cell has looked at: classes, methods, dictionaries, parts; and errors, warnings, gradients."""

# ruff: noqa: B023 (closures of one round)
from __future__ import annotations

import collections
import copy
import warnings
from typing import Any

import mindspore as ms
import numpy as np
from cells_support import Log, dense, parameter, scenario, tensor
from cells_traps import Of
from mindspore import nn, ops


@scenario(share=0.0)
def names_of_parameters(log: Log) -> None:
    net = Of(lambda self, x: (x + self.w, self.w.name, self.w.requires_grad, self.w.shape), w=parameter(2, name="first"))
    log.thrice(net, tensor(2))
    net.w.name = "second"
    log.thrice(net, tensor(2))
    net.w.requires_grad = False
    log.thrice(net, tensor(2))


@scenario(share=0.0)
def parameters_change_shape_and_type(log: Log) -> None:
    net = Of(lambda self, x: (x + self.w, self.w.dtype, self.w.ndim, self.w.shape, len(self.w)), w=parameter(2, name="first"))
    log.thrice(net, tensor(2))
    net.w.set_data(tensor(3, 2), slice_shape=True)
    log.thrice(net, tensor(2))
    net.w.set_dtype(ms.float16)
    log.thrice(net, tensor(2))


@scenario(share=0.0)
def tensor_methods_are_replaced(log: Log) -> None:
    net = Of(lambda self, x: (x.sum(), x + 1, -x, ops.relu(x), x.shape))
    changes: list[tuple[Any, str, Any]] = [
        (ms.Tensor, "sum", lambda self, *a, **k: "sum"),
        (ms.Tensor, "__add__", lambda self, other: "add"),
        (ms.Tensor, "__neg__", lambda self: "neg"),
        (ops, "relu", lambda x: "relu"),
    ]
    log.thrice(net, tensor(2))
    for owner, name, value in changes:
        own = name in vars(owner)
        old = vars(owner).get(name)
        setattr(owner, name, value)
        try:
            for _ in range(2):
                log([r if isinstance(r, str) else type(r).__name__ for r in net(tensor(2))])
        finally:
            if own:
                setattr(owner, name, old)
            else:
                delattr(owner, name)
        log.thrice(net, tensor(2))


@scenario(share=0.0)
def cell_call_is_replaced(log: Log) -> None:
    net = Of(lambda self, x: self.inner(x) + 1, inner=nn.ReLU())
    log.thrice(net, tensor(2))
    for name in ("__call__", "__getattr__"):
        old = vars(nn.Cell)[name]
        count = [0]

        def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            return old(self, *args, **kwargs)

        setattr(nn.Cell, name, counting)
        try:
            log.thrice(net, tensor(2))
            log(count[0] if name == "__call__" else count[0] > 0)
        finally:
            setattr(nn.Cell, name, old)
        log.thrice(net, tensor(2))


@scenario(share=0.0)
def attributes_found_by_own_code(log: Log) -> None:
    seen: list[str] = []

    class Getting(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = parameter(2)
            self.inner = nn.ReLU()

        def __getattr__(self, name: str) -> Any:
            seen.append(name)
            return 3.0 if name == "w" and len(seen) % 2 else super().__getattr__(name)

        def construct(self, x: Any) -> Any:
            return self.inner(x) * self.w

    net = Getting()
    seen.clear()
    log.thrice(net, tensor(2))
    log([name for name in seen if name in ("w", "inner")])


@scenario(share=0.0)
def classes_and_dictionaries_are_exchanged(log: Log) -> None:
    class One(nn.Cell):
        by = 2.0

        def construct(self, x: Any) -> Any:
            return x * self.by

    class Two(One):
        by = 3.0

        def construct(self, x: Any) -> Any:
            return x + self.by

    net, inner = One(), One()
    outer = Of(lambda self, x: self.inner(x), inner=inner)
    for changed in (net, inner):
        for cell in (net, outer):
            log.thrice(cell, tensor(2))
        changed.__class__ = Two
        for cell in (net, outer):
            log.thrice(cell, tensor(2))
    inner.__dict__ = {**inner.__dict__, "by": 9.0}
    net.__dict__ = {**net.__dict__, "by": 8.0}
    for cell in (net, outer):
        log.thrice(cell, tensor(2))


@scenario(share=0.0)
def parts_are_reordered(log: Log) -> None:
    net = Of(lambda self, x: [layer(x) for layer in self.layers], layers=nn.CellList([nn.ReLU(), nn.Tanh(), nn.Sigmoid()]))
    log.thrice(net, tensor(2))
    net.layers._cells.move_to_end("0")
    log.thrice(net, tensor(2))
    net.layers.insert(0, nn.ReLU6())
    log.thrice(net, tensor(2))
    net.layers._cells = collections.OrderedDict(a=nn.ReLU())
    log.thrice(net, tensor(2))
    net._cells = collections.OrderedDict(layers=nn.CellList([nn.Tanh()]))
    log.thrice(net, tensor(2))


@scenario(share=0.0)
def dicts_of_cells(log: Log) -> None:
    net = Of(lambda self, x: ([str(k) for k in self.ps], [v(x) for v in self.ps.values()], "a" in self.ps, len(self.ps)))
    net.ps = nn.CellDict({"a": nn.ReLU(), "b": nn.Tanh()})
    log.thrice(net, tensor(2))
    net.ps["c"] = nn.Sigmoid()
    log.thrice(net, tensor(2))
    plain = Of(lambda self, x: [part(x) for part in self.ps.values()])
    plain.ps = {"a": dense(2, 2), "b": nn.ReLU()}
    log.thrice(plain, tensor(2))
    plain.ps["a"] = nn.Tanh()
    log.thrice(plain, tensor(2))


@scenario(share=0.0)
def warnings_of_arrays(log: Log) -> None:
    net = Of(lambda self, x, a: (x + 1, np.log(a), 1.0 / a))
    for values in (np.ones(2), np.zeros(2), np.ones(2), np.zeros(2)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            log(net(tensor(2), values))
        log(sorted(str(w.message) for w in caught))
    quiet = Of(lambda self, x: 1 / x + x / (x - x))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log.thrice(quiet, ms.Tensor(np.array([-1.0, 0.0], np.float32)))
    log(len(caught))


@scenario(share=0.0)
def copies(log: Log) -> None:
    net = Of(_scale_and_layer, by=2.0, layer=dense(2, 2))
    log.thrice(net, tensor(2))
    for other in (copy.copy(net), copy.deepcopy(net)):
        log.thrice(other, tensor(2))
        other.by = 3.0
        other.layer.weight[0] = 9.0
        log.thrice(other, tensor(2))
        log.thrice(net, tensor(2))
    log(sorted(net.__dict__), sorted(vars(net._cells)), repr(net._params))


def _scale_and_layer(self: Any, x: Any) -> Any:
    return self.layer(x) * self.by


@scenario(share=0.0)
def gradients_around_and_within(log: Log) -> None:
    net = Of(lambda self, x: (ops.stop_gradient(self.layer(x)) * x).sum() + self.layer(x * x).sum(), layer=dense(2, 2))
    x = tensor(3, 2)
    weights = net.trainable_params()
    for _ in range(2):
        log(net(x))
        log(ms.value_and_grad(net, grad_position=0, weights=weights)(x))
        log(ms.grad(lambda v: net(v) * 2)(x))
    within = Of(lambda self, x: ms.grad(lambda v: self.layer(v).sum())(x), layer=dense(2, 2))
    log.thrice(within, x)
    frozen = net.set_grad(False)
    log.thrice(frozen, x)
    frozen.set_grad()
    log.thrice(frozen, x)


@scenario(share=0.0)
def empty_and_scalar_tensors(log: Log) -> None:
    net = Of(lambda self, x: x * 2 if x.ndim and x.size > 1 else (x - 1, bool((x < 0).all()), [float(v) for v in x.shape]))
    for x in (tensor(0), tensor(2, 0, 3), ms.Tensor(3.0), ms.Tensor(-3.0), tensor(4), ms.Tensor([0.0]), ms.Tensor(float("nan"))) * 2:
        log(net(x))
    branch = Of(lambda self, x: (1 if x else 2, x and 3, not x, x or 4))
    for x in (ms.Tensor(0.0), ms.Tensor(-0.0), ms.Tensor(1), ms.Tensor([True]), ms.Tensor(float("nan"))) * 2:
        log(branch(x))
    log.error(branch, tensor(2))
    loop = Of(_until_large)
    for start in (0.0, 5.0, 9.0, 100.0):
        log(loop(ms.Tensor(start)))


def _until_large(self: Any, x: Any) -> Any:
    rounds = 0
    while x < 10:
        x = x + 3
        rounds += 1
    return x, rounds


@scenario(share=0.0)
def in_place_operators(log: Log) -> None:
    def add(self: Any, x: Any) -> Any:
        y = x
        y += 1
        z = x.abs()
        w = z
        w *= 2
        return x, y, z, w, x is y, z is w

    net = Of(add)
    for kind in (tensor, parameter):
        for _ in range(3):
            x = kind(3)
            log(net(x), x)


@scenario(share=0.0)
def errors_on_a_later_call(log: Log) -> None:
    net = Of(lambda self, x, y: (x @ y).reshape(2, 2) + [1, 2, 3][x.shape[0]])
    log.error(net, tensor(2, 3), tensor(3, 2))
    log.error(net, tensor(2, 3), tensor(2, 2))
    log.error(net, tensor(3, 3), tensor(3, 2))
    log.error(net, tensor(2, 3), None)
    log.error(net, tensor(2, 3))
    log.error(net, tensor(2, 3), tensor(3, 2))
    log.error(net, tensor(4, 3), tensor(3, 1))


@scenario(share=0.0)
def asynchronous_work_is_waited_for(log: Log) -> None:
    ms.set_context(pynative_synchronize=False)
    try:
        net = Of(lambda self, x: (x * 2 + self.w, x.T, self.w), w=parameter(64, 64))
        x = tensor(64, 64)
        for i in range(20):
            x = ops.matmul(x, x) / 64 + i
            ops.assign(net.w, net.w * 0.5 + x)
            found = net(x)
            x[0] = 5.0
            log(*found)
            net.w += 1
    finally:
        ms.set_context(pynative_synchronize=True)
