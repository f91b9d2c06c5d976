"""Small functions, plain and jitted, warm: `python -m tests.bench.functions`.

Both run in turn and the median of the rounds counts; the ratio is that of the medians. Nothing is
fused in this version: what differs is the way to the kernels, and the kernels of canonical algorithms.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import bcvm_core as bcvm
from tests.bench import progress

ROUNDS, ROUND_S = 15, 0.02


def clipped(x: Any) -> Any:
    """Three elementwise ops that are exact."""
    return np.maximum(x, 0) * 2 + 1


def gate(x: Any) -> Any:
    """exp and tanh have canonical algorithms."""
    return np.tanh(x) * np.exp(-x)


def softmax(x: Any) -> Any:
    """Reductions and exp."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x: Any) -> Any:
    """mean and var run by the fixed tree."""
    return (x - np.mean(x, axis=-1, keepdims=True)) / np.sqrt(np.var(x, axis=-1, keepdims=True) + 1e-5)


def scalar_loop(n: Any) -> Any:
    """No tensor at all."""
    total = 0
    for i in range(n):
        total += i % 7
    return total


def per_call_us(function: Callable[[Any], Any], argument: Any) -> Callable[[], float]:
    """A measurement of `function(argument)`; the number of calls fits the length of a round."""
    timer = timeit.Timer(lambda: function(argument))
    calls, seconds = timer.autorange()
    calls = max(1, int(calls * ROUND_S / seconds))
    return lambda: timer.timeit(calls) / calls * 1e6


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(7)
    shapes = ((4, 4), (64, 64), (512, 512))
    print(f"{'function':<14}{'argument':<22}{'plain us':>12}{'jitted us':>12}{'ratio':>8}")
    cases = [(f, rng.standard_normal(shape).astype(np.float32)) for f in (clipped, gate, softmax, layer_norm) for shape in shapes]
    for function, argument in progress.cases("functions", [*cases, (scalar_loop, 1000)]):
        jitted = bcvm.jit(function)
        for _ in range(50):
            jitted(argument)
        measures = per_call_us(function, argument), per_call_us(jitted, argument)
        times = [median(column) for column in zip(*([m() for m in measures] for _ in range(ROUNDS)), strict=True)]
        shown = f"float32 {argument.shape}" if isinstance(argument, np.ndarray) else repr(argument)
        print(f"{function.__name__:<14}{shown:<22}{times[0]:>12.2f}{times[1]:>12.2f}{times[1] / times[0]:>8.2f}")


if __name__ == "__main__":
    main()
