"""Recurrent layers as loops over time, control flow, and steps of optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core import ops
from tests.onnx_nodes.table import op, part

Parts = dict[str, Any]  # what one direction of a layer holds


@part
def directions(x: Any, layout: int, direction: str, **tensors: Any) -> list[tuple[Any, Parts]]:
    """(inputs in the order of time, this direction's parameters and first states) for one or two directions."""
    steps = np.swapaxes(x, 0, 1) if layout else x
    found = []
    count = 2 if direction == "bidirectional" else 1
    for d in range(count):
        turned = direction == "reverse" or d == 1
        found.append((np.flip(steps, 0) if turned else steps, {name: pick(t, name, d, layout) for name, t in tensors.items()}))
    return found


@part
def pick(tensor: Any, name: str, d: int, layout: int) -> Any:
    """One direction of a parameter, or of a first state (which may have the batch first)."""
    if tensor is None:
        return None
    return tensor[:, d] if layout and name in ("h", "c") else tensor[d]


@part
def gathered(runs: list[tuple[list[Any], list[Any]]], layout: int, direction: str) -> Any:
    """(all hidden states, the last one, the last of further states) as ONNX lays them out."""
    every = []
    for d, (hidden, _) in enumerate(runs):
        steps = np.stack(hidden)
        every.append(np.flip(steps, 0) if direction == "reverse" or d == 1 else steps)
    y = np.stack(every, axis=1)
    last = [np.stack([states[i] for _, states in runs]) for i in range(len(runs[0][1]))]
    if layout:
        return (y.transpose(2, 0, 1, 3), *(np.swapaxes(state, 0, 1) for state in last))
    return (y, *last)


@part
def first(state: Any, x: Any, width: int) -> Any:
    """A first state, zeros where none is given."""
    return np.zeros((x.shape[1], width), x.dtype) if state is None else state


@op("RNN")
def rnn(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    hidden_size: int = 0,
    layout: int = 0,
    direction: str = "forward",
) -> Any:
    runs = []
    for steps, p in directions(x, layout, direction, w=w, r=r, b=b, h=h):
        state, hidden = first(p["h"], steps, hidden_size), []
        for step in steps:
            state = ops.linear(step, p["w"]) + ops.linear(state, p["r"])
            if p["b"] is not None:
                state = state + p["b"][:hidden_size] + p["b"][hidden_size:]
            state = np.tanh(state)
            hidden.append(state)
        runs.append((hidden, [state]))
    return gathered(runs, layout, direction)


@op("GRU")
def gru(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    hidden_size: int = 0,
    layout: int = 0,
    direction: str = "forward",
    linear_before_reset: int = 0,
) -> Any:
    runs = []
    for steps, p in directions(x, layout, direction, w=w, r=r, b=b, h=h):
        state, hidden = first(p["h"], steps, hidden_size), []
        biases = np.zeros(6 * hidden_size, x.dtype) if p["b"] is None else p["b"]
        of_x, of_h = biases[: 3 * hidden_size], biases[3 * hidden_size :]
        gates, new = slice(0, 2 * hidden_size), slice(2 * hidden_size, None)
        for step in steps:
            xs = step @ p["w"].T + of_x
            update, reset = np.split(ops.sigmoid(xs[:, gates] + state @ p["r"][gates].T + of_h[gates]), 2, axis=1)
            if linear_before_reset:
                fresh = np.tanh(xs[:, new] + reset * (state @ p["r"][new].T + of_h[new]))
            else:
                fresh = np.tanh(xs[:, new] + (reset * state) @ p["r"][new].T + of_h[new])
            state = (1 - update) * fresh + update * state
            hidden.append(state)
        runs.append((hidden, [state]))
    return gathered(runs, layout, direction)


@op("LSTM")
def lstm(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    c: Any = None,
    peepholes: Any = None,
    hidden_size: int = 0,
    layout: int = 0,
    direction: str = "forward",
) -> Any:
    runs = []
    for steps, p in directions(x, layout, direction, w=w, r=r, b=b, h=h, c=c, peepholes=peepholes):
        state, cell, hidden = first(p["h"], steps, hidden_size), first(p["c"], steps, hidden_size), []
        peep = np.zeros(3 * hidden_size, x.dtype) if p["peepholes"] is None else p["peepholes"]
        at_input, at_output, at_forget = np.split(peep, 3)
        for step in steps:
            z = step @ p["w"].T + state @ p["r"].T
            if p["b"] is not None:
                z = z + np.sum(p["b"].reshape(2, -1), axis=0)
            i, o, f, g = np.split(z, 4, axis=1)
            cell = ops.sigmoid(f + at_forget * cell) * cell + ops.sigmoid(i + at_input * cell) * np.tanh(g)
            state = ops.sigmoid(o + at_output * cell) * np.tanh(cell)
            hidden.append(state)
        runs.append((hidden, [state, cell]))
    return gathered(runs, layout, direction)


# --- control flow ------------------------------------------------------------------------------


@op("If")
def branch(condition: Any, graph: Any, then_branch: Any, else_branch: Any) -> Any:
    return tuple(graph(then_branch if bool(condition) else else_branch))


@op("Loop")
def loop(limit: Any, condition: Any, *state: Any, graph: Any, body: Any) -> Any:
    held, scanned, i = list(state), [], 0
    going = condition is None or bool(condition)
    while going and (limit is None or i < int(limit)):
        again, *results = graph(body, np.asarray(i), np.asarray(going), *held)
        held = results[: len(held)]
        scanned.append(results[len(held) :])
        going, i = bool(again), i + 1
    return (*held, *(np.stack(values) for values in zip(*scanned, strict=True)))


@op("Scan")
def scan(*inputs: Any, graph: Any, body: Any, num_scan_inputs: int, **axes: Any) -> Any:
    count = len(inputs) - num_scan_inputs
    held, lists = list(inputs[:count]), inputs[count:]
    reads, writes = (axes.get(name) or [0] * 99 for name in ("scan_input_axes", "scan_output_axes"))
    backwards, ends = (axes.get(name) or [0] * 99 for name in ("scan_input_directions", "scan_output_directions"))
    lists = [np.moveaxis(x, a, 0) for x, a in zip(lists, reads, strict=False)]
    lists = [np.flip(x, 0) if turned else x for x, turned in zip(lists, backwards, strict=False)]
    scanned = []
    for step in zip(*lists, strict=True):
        results = graph(body, *held, *step)
        held = results[:count]
        scanned.append(results[count:])
    found = [np.stack(values[::-1] if turned else values) for values, turned in zip(zip(*scanned, strict=True), ends, strict=False)]
    return (*held, *(np.moveaxis(y, 0, a) for y, a in zip(found, writes, strict=False)))


# --- optimizers --------------------------------------------------------------------------------


@op("Adagrad")
def adagrad(rate: Any, step: Any, *tensors: Any, decay_factor: float = 0.0, epsilon: float = 0.0, norm_coefficient: float = 0.0) -> Any:
    count, new, squares = len(tensors) // 3, [], []
    rate = (rate / (1 + step * decay_factor)).astype(rate.dtype)
    for i in range(count):
        x, g, h = tensors[i::count]
        g = norm_coefficient * x + g
        h = h + g * g
        new.append(x - rate * g / (np.sqrt(h) + epsilon))
        squares.append(h)
    return (*new, *squares)


@op("Adam")
def adam(
    rate: Any,
    step: Any,
    *tensors: Any,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Any:
    count, new, means, squares = len(tensors) // 4, [], [], []
    if int(step) > 0:
        rate = (rate * np.sqrt(1 - beta ** int(step)) / (1 - alpha ** int(step))).astype(rate.dtype)
    for i in range(count):
        x, g, v, h = tensors[i::count]
        g = norm_coefficient * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * (g * g)
        new.append((1 - norm_coefficient_post) * (x - rate * v / (np.sqrt(h) + epsilon)))
        means.append(v)
        squares.append(h)
    return (*new, *means, *squares)


@op("Momentum")
def momentum(rate: Any, step: Any, *tensors: Any, alpha: float, beta: float, mode: str, norm_coefficient: float) -> Any:
    count, new, means = len(tensors) // 3, [], []
    share = beta if int(step) > 0 else 1.0
    for i in range(count):
        x, g, v = tensors[i::count]
        g = norm_coefficient * x + g
        v = alpha * v + share * g
        new.append(x - rate * (g + alpha * v if mode == "nesterov" else v))
        means.append(v)
    return (*new, *means)
