"""One library on the dynamic workloads: `python dynamic_worker.py LIBRARY STEPS`, figures as JSON on the last line.

Each workload is a function of arrays and a stream of operands whose sizes change at every step. All
libraries get the same numbers and formulas, in words of their own. Afterwards every size is called
again, several times: the least of those is what a warm call of that size takes. Beside the wall's time
stands the processor's, of the calling thread, and what may lengthen it: how often the thread had to make
way, pages of fresh memory, and the time that Python collected garbage.
"""

from __future__ import annotations

import gc
import json
import math
import random
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

AGAIN = 3
Step = tuple[tuple[Any, ...], tuple[Any, ...]]  # what makes the size, operands


# -- the workloads -----------------------------------------------------------------------------------

relu: Any = None  # words of the library, which `Library` puts in
softmax: Any = None
tanh: Any = None
sigmoid: Any = None
silu: Any = None
concat: Any = None
turned: Any = None


def detector(x: Any, w: Any, b: Any, head: Any) -> Any:
    """Boxes by score: (batch, places, channels)."""
    h = relu(x @ w + b)
    scores = softmax(h @ head)
    return concat([scores, tanh(h) * 0.5], -1).mean(1)


def language(x: Any, wq: Any, wk: Any, wv: Any, up: Any, down: Any, mask: Any) -> Any:
    """A block of a language model: (batch, length, 64), causal."""
    q, k, v = x @ wq, x @ wk, x @ wv
    weights = softmax(q @ turned(k, -1, -2) * 0.125 + mask)
    x = x + weights @ v
    return x + silu(x @ up) @ down


def generator(x: Any, style: Any, wide: bool) -> Any:
    """A step of a conditional generator: the branch and the size change."""
    if wide:
        return tanh(x * style + 1.0) * sigmoid(x - style)
    y = relu(x + style)
    return y * 2.0 - sigmoid(y)


def detector_steps(make: Library, rng: random.Random) -> Iterator[Step]:
    head = make((32, 8), 3)
    while True:
        batch, places, channels = rng.randint(1, 8), rng.randint(16, 256), 16 * rng.randint(1, 4)
        operands = make((batch, places, channels), 0), make((channels, 32), 1), make((32,), 2), head
        yield (batch, places, channels), operands


def language_steps(make: Library, rng: random.Random) -> Iterator[Step]:
    square = [make((64, 64), seed) for seed in range(3)]
    up, down = make((64, 256), 4), make((256, 64), 5)
    while True:
        batch, length = rng.randint(1, 4), rng.randint(1, 128)
        mask = make.like(np.triu(np.full((length, length), -1e9, np.float32), 1))
        yield (batch, length), (make((batch, length, 64), 7), *square, up, down, mask)


def generator_steps(make: Library, rng: random.Random) -> Iterator[Step]:
    while True:
        rows, columns, wide = rng.randint(1, 64), rng.randint(1, 512), rng.random() < 0.5
        yield (rows, columns, wide), (make((rows, columns), 1), make((columns,), 2), wide)


WORKLOADS = {"detector": (detector, detector_steps), "language": (language, language_steps), "generator": (generator, generator_steps)}


# -- the libraries -----------------------------------------------------------------------------------


class Library:
    """How a library makes arrays, compiles a function and waits for a result."""

    def __init__(
        self, words: dict[str, Callable[..., Any]], like: Callable[[Any], Any], compiled: Callable[..., Any], wait: Any = None
    ) -> None:
        globals().update(words)
        self.like, self.compiled, self.wait = like, compiled, wait or (lambda y: y)
        self.begin: Callable[[], None] = lambda: None  # before each step
        self.figures: Callable[[], dict[str, Any]] = dict  # what it counted since it was asked last

    def __call__(self, shape: tuple[int, ...], seed: int) -> Any:
        return self.like((np.random.default_rng(seed).standard_normal(shape) * 0.3).astype(np.float32))


def _numpy() -> Library:
    def softmax_of(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def sigmoid_of(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    words = {
        "relu": lambda x: np.maximum(x, 0), "softmax": softmax_of, "tanh": np.tanh, "sigmoid": sigmoid_of,
        "silu": lambda x: x * sigmoid_of(x),
        "concat": np.concatenate, "turned": np.swapaxes,
    }  # fmt: skip
    return Library(words, np.asarray, lambda f: f)


def _bcvm() -> Library:
    import bcvm_core as bcvm
    from bcvm_core import events, ops

    assert bcvm.ready(), "no stencils for this machine"
    spent: list[float] = []  # of compile work within the step, microseconds
    kinds: Counter[str] = Counter()

    caller = threading.get_ident()

    def note(event: Any) -> None:
        if threading.get_ident() != caller:  # made ahead, beside the call
            return
        if isinstance(event, events.Selected | events.Spliced | events.Bound):
            kinds[type(event).__name__] += 1
            spent[-1] += 0.0 if isinstance(event, events.Bound) else event.duration_us

    events.bus.subscribe(note)
    words = {
        "relu": ops.relu, "softmax": ops.softmax, "tanh": np.tanh, "sigmoid": ops.sigmoid, "silu": ops.silu,
        "concat": np.concatenate, "turned": np.swapaxes,
    }  # fmt: skip
    library = Library(words, np.asarray, bcvm.jit)

    def figures() -> dict[str, Any]:
        found = {"compile_us": list(spent), "events": dict(kinds)}
        spent.clear()
        kinds.clear()
        return found

    library.figures = figures
    library.begin = lambda: spent.append(0.0)
    return library


def _jax() -> Library:
    import jax
    import jax.numpy as jnp

    words = {
        "relu": jax.nn.relu, "softmax": jax.nn.softmax, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid, "silu": jax.nn.silu,
        "concat": jnp.concatenate, "turned": jnp.swapaxes,
    }  # fmt: skip
    static = {"generator": (2,)}
    return Library(words, jnp.asarray, lambda f: jax.jit(f, static_argnums=static.get(f.__name__, ())), lambda y: y.block_until_ready())


def _torch(compiled: bool) -> Library:
    import torch

    words = {
        "relu": torch.relu, "softmax": lambda x: torch.softmax(x, -1), "tanh": torch.tanh, "sigmoid": torch.sigmoid,
        "silu": torch.nn.functional.silu, "concat": torch.cat, "turned": torch.swapaxes,
    }  # fmt: skip
    torch.set_grad_enabled(False)
    return Library(words, torch.from_numpy, (lambda f: torch.compile(f, dynamic=True)) if compiled else (lambda f: f))


def _mindspore(dynamic: bool) -> Library:
    import mindspore as ms
    from mindspore import ops

    ms.set_device("CPU")

    def waited(y: Any) -> Any:
        y.data_ptr()  # waits for pending work
        return y

    def softmax_of(x: Any) -> Any:  # its compiler reads the text of functions, so a lambda would not do
        return ops.softmax(x, -1)

    words = {
        "relu": ops.relu, "softmax": softmax_of, "tanh": ops.tanh, "sigmoid": ops.sigmoid, "silu": ops.silu,
        "concat": ops.cat, "turned": ops.swapaxes,
    }  # fmt: skip
    how = {"dynamic": 1} if dynamic else {}
    return Library(words, ms.Tensor.from_numpy, lambda f: ms.jit(f, capture_mode="ast", **how), waited)


LIBRARIES: dict[str, Callable[[], Library]] = {
    "numpy": _numpy,
    "bcvm": _bcvm,
    "jax": _jax,
    "torch": lambda: _torch(False),
    "compile": lambda: _torch(True),
    "ms.jit": lambda: _mindspore(False),
    "ms.jit dynamic": lambda: _mindspore(True),
}


class Watch:
    """(us of the wall, of the processor, times that the thread had to make way, fresh pages, us of collecting garbage) of a call."""

    def __init__(self, library: Library) -> None:
        self.wait, self.begin = library.wait, library.begin
        self.collecting = 0.0
        gc.callbacks.append(self._collected)

    def _collected(self, phase: str, _info: dict[str, Any]) -> None:
        self.collecting += time.thread_time() if phase == "stop" else -time.thread_time()

    def __call__(self, call: Callable[..., Any], operands: tuple[Any, ...]) -> tuple[float, ...]:
        self.begin()
        before, collecting = resource.getrusage(resource.RUSAGE_THREAD), self.collecting
        cpu, start = time.thread_time(), time.perf_counter()
        self.wait(call(*operands))
        took, spent = time.perf_counter() - start, time.thread_time() - cpu
        after = resource.getrusage(resource.RUSAGE_THREAD)
        switches, pages = after.ru_nivcsw - before.ru_nivcsw, after.ru_minflt - before.ru_minflt
        return took * 1e6, spent * 1e6, switches, pages, (self.collecting - collecting) * 1e6


def run(library: Library, name: str, steps: int) -> dict[str, Any]:
    """What every step took, in columns, and what a warm call of its size takes."""
    function, stream = WORKLOADS[name]
    call, watch = library.compiled(function), Watch(library)
    source = stream(library, random.Random(name))
    found, sizes, kept = [], [], {}
    for _ in range(steps):
        size, operands = next(source)
        found.append(watch(call, operands))
        sizes.append(size)
        kept[size] = operands
    figures = library.figures()
    warm = dict.fromkeys(kept, (math.inf, math.inf))
    for _ in range(AGAIN):
        for size, operands in kept.items():
            took, spent, *_ = watch(call, operands)
            warm[size] = min(warm[size][0], took), min(warm[size][1], spent)
    library.figures()
    gc.callbacks.remove(watch._collected)
    columns = dict(zip(("times", "cpu", "switches", "pages", "collecting"), zip(*found, strict=True), strict=True))
    warm_times, warm_cpu = zip(*(warm[size] for size in sizes), strict=True)
    return {**columns, "warm": warm_times, "warm_cpu": warm_cpu, "sizes": len(kept), **figures}


def main() -> None:
    """A line of JSON per workload."""
    library = LIBRARIES[sys.argv[1]]()
    for name in WORKLOADS:
        print(json.dumps({"workload": name, **run(library, name, int(sys.argv[2]))}), flush=True)


if __name__ == "__main__":
    main()
