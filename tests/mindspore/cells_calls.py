"""Scenarios about what surrounds `construct`: hooks, casts, gradients, graphs, `__call__` of one's own, other modes and threads."""

from __future__ import annotations

import threading
from typing import Any

import mindspore as ms
from cells_support import Log, dense, parameter, scenario, tensor, weighted
from mindspore import mint, nn, ops


def net_of_two() -> Any:
    return nn.SequentialCell([dense(3, 4), nn.ReLU(), dense(4, 2, seed=5)])


@scenario(share=0.5)
def forward_hooks(log: Log) -> None:
    net, x = net_of_two(), tensor(2, 3)
    log.thrice(net, x)
    calls: list[Any] = []

    def see(cell: Any, inputs: Any, output: Any) -> None:
        calls.append((cell.cls_name, [i.shape for i in inputs], output.shape))

    handle = net[1].register_forward_hook(see)
    log.thrice(net, x)
    change = net[0].register_forward_hook(lambda cell, inputs, output: output * 2)
    log.thrice(net, x)
    outer = net.register_forward_hook(lambda cell, inputs, output: (output, inputs[0]))
    log.thrice(net, x)
    for h in (handle, change, outer):
        h.remove()
    log.thrice(net, x)
    log(calls)


@scenario(share=0.5)
def forward_pre_hooks(log: Log) -> None:
    net, x = net_of_two(), tensor(2, 3)
    log.thrice(net, x)
    handles = [
        net.register_forward_pre_hook(lambda cell, inputs: (inputs[0] + 1,)),
        net[2].register_forward_pre_hook(lambda cell, inputs: inputs[0] * 3),
        net[2].register_forward_pre_hook(lambda cell, args, kwargs: ((args[0] - 1,), kwargs), with_kwargs=True),
    ]
    log.thrice(net, x)
    for handle in handles:
        handle.remove()
        log.thrice(net, x)


@scenario(share=0.3)
def hooks_registered_in_construct_and_hooks_that_fail(log: Log) -> None:
    class Own(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.ReLU()
            self.times = 0

        def construct(self, x: Any) -> Any:
            if self.times == 0:
                self.inner.register_forward_hook(lambda cell, inputs, output: output + 5)
            self.times = 1
            return self.inner(x)

    def fails(cell: Any, inputs: Any) -> None:
        raise ValueError("a hook that fails")

    log.thrice(Own(), tensor(2, 3))
    net, x = net_of_two(), tensor(2, 3)
    log.thrice(net, x)
    handle = net[1].register_forward_pre_hook(fails)
    log.error(net, x)
    handle.remove()
    log.thrice(net, x)


@scenario(share=0.0)
def backward_hooks(log: Log) -> None:
    net, x = net_of_two(), tensor(2, 3)
    seen: list[Any] = []
    log.thrice(net, x)
    handle = net[1].register_backward_hook(lambda cell, given, made: seen.append((given[0], made[0])))
    pre = net[2].register_backward_pre_hook(lambda cell, made: seen.append(made[0]))
    log.thrice(net, x)
    log.thrice(ms.grad(lambda v: net(v).sum()), x)
    log(seen)
    handle.remove()
    pre.remove()
    log.thrice(ms.grad(lambda v: net(v).sum()), x)
    log.thrice(net, x)


class Casting(nn.Cell):
    """Ops that `to_float` casts the operands of."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = parameter(3)

    def construct(self, x: Any) -> Any:
        return x * self.weight, ops.relu(x), x + 1.5, ops.softmax(x), ops.matmul(x, x.T), mint.exp(x), x.astype(ms.float32) / 3


@scenario(share=0.2)
def to_float(log: Log) -> None:
    x = tensor(2, 3)
    net, casting = net_of_two(), Casting()
    for kind in (ms.float16, ms.float32, ms.float16):
        log.thrice(net, x)
        net.to_float(kind)
        log.thrice(net, x)
        log.thrice(casting, x)
        casting.to_float(kind)
        log.thrice(casting, x)
        log.thrice(nn.SequentialCell([nn.ReLU(), nn.SequentialCell([casting])]), x)
    half = nn.SequentialCell([nn.Tanh().to_float(ms.float16), nn.ReLU()])
    log.thrice(half, x)
    half.to_float(ms.float32)
    log.thrice(half, x)
    conv = weighted(nn.SequentialCell([nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()])).to_float(ms.float16)
    log.thrice(conv, tensor(1, 3, 5, 5))


@scenario(share=0.3)
def gradients(log: Log) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = net_of_two()
            self.scale = parameter(2)

        def construct(self, x: Any) -> Any:
            y = self.layers(x) * self.scale
            return y.exp().sum() if y.mean() > 0 else (y * y).sum()

    net = Net()
    weights = net.trainable_params()
    both = ms.value_and_grad(net, 0, weights)
    for seed in (1, 2, 3):
        x = tensor(2, 3, seed=seed)
        log.thrice(net, x)
        log.thrice(both, x)
        log.thrice(ms.grad(net), x)
    log.thrice(ms.grad(ms.grad(lambda v: (v**3).sum())), tensor(3))
    vector, back = ms.vjp(net.layers, tensor(1, 3))
    log(vector, back(vector))


@scenario(share=0.0)
def training(log: Log) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = weighted(nn.SequentialCell([nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dense(64, 3)]))

        def construct(self, x: Any) -> Any:
            return self.layers(x)

    net, loss = Net(), nn.CrossEntropyLoss()
    net.set_train(True)
    optimizer = nn.Momentum(net.trainable_params(), 0.05, 0.9)
    step = ms.value_and_grad(lambda x, y: loss(net(x), y), None, optimizer.parameters)
    labels = ms.Tensor([0, 2, 1], ms.int32)
    for i in range(4):
        value, grads = step(tensor(3, 1, 4, 4, seed=i), labels)
        optimizer(grads)
        log(value)
    net.set_train(False)
    log.thrice(net, tensor(2, 1, 4, 4, seed=9))
    one_step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer)
    one_step.set_train()
    log(one_step(tensor(3, 1, 4, 4), labels))


@scenario(share=0.0)
def set_grad_and_custom_bprop(log: Log) -> None:
    class Tripled(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 2

        def bprop(self, x: Any, out: Any, dout: Any) -> Any:
            return (dout * 30,)

    net, x = Tripled(), tensor(2, 3)
    log.thrice(net, x)
    log.thrice(ms.grad(lambda v: net(v).sum()), x)
    deep = nn.SequentialCell([net, nn.ReLU()])
    log.thrice(deep, x)
    log.thrice(ms.grad(lambda v: deep(v).sum()), x)
    other = net_of_two()
    other.set_grad()
    log.thrice(other, x)
    other.recompute()
    log.thrice(ms.grad(lambda v: other(v).sum()), x)
    log.thrice(other, x)


@scenario(share=0.0)
def stop_gradient_and_no_grad(log: Log) -> None:
    class Stops(nn.Cell):
        def construct(self, x: Any) -> Any:
            return (ops.stop_gradient(x) * x).sum()

    log.thrice(Stops(), tensor(3))
    log.thrice(ms.grad(Stops()), tensor(3))
    net = net_of_two()
    with ms.no_grad() if hasattr(ms, "no_grad") else ms._no_grad():
        log.thrice(net, tensor(2, 3))


@scenario(share=0.0)
def graphs_are_left_alone(log: Log) -> None:
    class Compiled(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = net_of_two()

        @ms.jit
        def construct(self, x: Any) -> Any:
            return self.layers(x) + 1

    net, x = Compiled(), tensor(2, 3)
    log.thrice(net, x)
    log.thrice(nn.SequentialCell([nn.ReLU(), net]), x)
    plain = net_of_two()

    def doubled(v: Any) -> Any:
        return plain(v) * 2

    log.thrice(plain, x)
    log.thrice(ms.jit(doubled), x)
    log.thrice(plain, x)
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        log.thrice(plain, x)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    log.thrice(plain, x)


@scenario(share=0.5)
def calls_of_their_own(log: Log) -> None:
    class Wrapped(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = dense(3, 3)
            self.calls = 0

        def __call__(self, x: Any) -> Any:
            self.calls += 1
            return super().__call__(x) * 10

        def construct(self, x: Any) -> Any:
            return self.inner(x)

    class Outer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.part = Wrapped()

        def construct(self, x: Any) -> Any:
            return self.part(x) + self.part.construct(x)

    net, x = Outer(), tensor(2, 3)
    log.thrice(net, x)
    log.thrice(net.part, x)
    log.thrice(net.construct, x)
    log(net.part.calls)


@scenario(share=0.5)
def functions_that_are_no_cells(log: Log) -> None:
    net, x = net_of_two(), tensor(2, 3)

    def step(v: Any) -> Any:
        return net(v) @ net(v).T + 1

    log.thrice(step, x)
    log.thrice(lambda v: [net(v + i) for i in range(3)], x)
    log.thrice(nn.SequentialCell([net]), x)


@scenario(share=0.5)
def a_cell_that_is_built_in_construct(log: Log) -> None:
    class Builds(nn.Cell):
        def construct(self, x: Any) -> Any:
            return nn.Softmax(axis=0)(x) + nn.ReLU()(x)

    log.thrice(Builds(), tensor(2, 3))


@scenario(share=0.5)
def other_threads(log: Log) -> None:
    net = net_of_two()
    results: dict[int, Any] = {}

    def work(i: int) -> None:
        for _ in range(3):
            results[i] = net(tensor(2 + i, 3, seed=i))

    for i in range(4):  # one at a time: MindSpore itself crashes when two threads call it at once
        worker = threading.Thread(target=work, args=(i,))
        worker.start()
        worker.join()
    log([results[i] for i in range(4)])


@scenario(share=0.0)
def dispatch_modes_see_the_ops(log: Log) -> None:
    seen: list[str] = []

    class Logger(ms.MsDispatchMode):
        def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
            seen.append(func.name)
            return func(*args, **(kwargs or {}))

    net, x = net_of_two(), tensor(2, 3)
    log.thrice(net, x)
    with Logger():
        log(net(x))
    log(seen)
    log.thrice(net, x)


@scenario()
def attention_with_a_mask_and_a_cache(log: Log) -> None:
    class Attention(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.out = (dense(8, 8, seed=i) for i in range(4))
            self.norm = weighted(nn.LayerNorm((8,)))
            self.heads = 2

        def split(self, x: Any) -> Any:
            b, n, c = x.shape
            return x.reshape(b, n, self.heads, c // self.heads).transpose(0, 2, 1, 3)

        def construct(self, x: Any, mask: Any = None, past: Any = None) -> Any:
            x = self.norm(x)
            q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
            if past is not None:
                k, v = mint.cat((past[0], k), dim=2), mint.cat((past[1], v), dim=2)
            scores = ops.bmm(q, k.swapaxes(-2, -1)) / q.shape[-1] ** 0.5
            if mask is not None:
                scores = scores.masked_fill(mask, -1e9)
            y = ops.softmax(scores, axis=-1) @ v
            b, _, n, _ = y.shape
            return self.out(y.transpose(0, 2, 1, 3).reshape(b, n, -1)), (k, v)

    net = Attention()
    past = None
    for n in (3, 1, 1, 1, 2):
        y, past = net(tensor(2, n, 8, seed=n), past=past)
        log(y, past[0].shape)
    log.thrice(net, tensor(1, 4, 8), ops.triu(ops.ones((4, 4)), 1) > 0)
