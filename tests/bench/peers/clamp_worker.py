"""One library on a batch that fluctuates: `python clamp_worker.py LIBRARY STEPS MOST STEP`, a line of JSON.

A small network on batches of 1 to MOST rows. With a STEP the batch is filled up to its group by hand, as `bcvm.clamp_batch_size` groups
sizes, and the result is cut; 0: as it comes. Compiles are told by the library where it counts them, otherwise (None) by what calls take.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

INNER, WIDTH = 64, 32
Words = tuple[Callable[..., Any], Callable[..., Any]]
relu: Any = None
softmax: Any = None


def network(x: Any, w: Any, b: Any, head: Any) -> Any:
    """(batch, 64) to (batch, 32)."""
    return softmax(relu(x @ w + b) @ head)


class Library:
    """`compiled` network, how arrays are made, results awaited, and compiles counted."""

    def __init__(self, words: Words, like: Any, compiled: Any, wait: Any = None, count: Any = None) -> None:
        globals().update(relu=words[0], softmax=words[1])
        self.like, self.call, self.wait = like, compiled(network), wait or (lambda y: y)
        self.count: Callable[[Any], int | None] = count or (lambda _: None)


def _torch() -> Library:
    import torch

    torch.set_grad_enabled(False)
    torch._dynamo.config.recompile_limit = 256
    words = torch.relu, lambda x: torch.softmax(x, -1)
    counted = torch._dynamo.utils.counters
    return Library(words, torch.from_numpy, lambda f: torch.compile(f, dynamic=False), count=lambda _: counted["stats"]["unique_graphs"])


def _jax() -> Library:
    import jax
    import jax.numpy as jnp

    words = jax.nn.relu, jax.nn.softmax
    return Library(words, jnp.asarray, jax.jit, lambda y: y.block_until_ready(), lambda f: f._cache_size())


def _mindspore() -> Library:
    import mindspore as ms
    from mindspore import ops

    def softmax_of(x: Any) -> Any:
        return ops.softmax(x, -1)

    def waited(y: Any) -> Any:
        y.data_ptr()
        return y

    ms.set_device("CPU")
    return Library((ops.relu, softmax_of), ms.Tensor.from_numpy, lambda f: ms.jit(f, capture_mode="ast"), waited)


def _bcvm() -> Library:
    import bcvm_core as bcvm
    from bcvm_core import ops
    from bcvm_core.events import Spliced, bus

    assert bcvm.ready(), "no stencils for this machine"
    seen: list[Any] = []
    bus.subscribe(lambda event: seen.append(event) if isinstance(event, Spliced) else None)
    return Library((ops.relu, ops.softmax), np.asarray, bcvm.jit, count=lambda _: len(seen))


LIBRARIES: dict[str, Callable[[], Library]] = {"torch": _torch, "jax": _jax, "mindspore": _mindspore, "bcvm": _bcvm}


def resident_kb() -> int:
    """Memory of this process."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1])


def main() -> None:
    """See above."""
    name, (steps, most, step) = sys.argv[1], map(int, sys.argv[2:5])
    library = LIBRARIES[name]()
    rng = np.random.default_rng(0)
    array = lambda *shape: library.like((rng.standard_normal(shape) * 0.3).astype(np.float32))  # noqa: E731
    weights = array(INNER, WIDTH), array(WIDTH), array(WIDTH, WIDTH)
    rows = rng.standard_normal((most, INNER)).astype(np.float32)
    times, sizes = [], set()
    before = resident_kb()
    for n in rng.integers(1, most + 1, steps).tolist():
        size = n if not step or n == 1 else min(most, -(-n // step) * step)
        batch = rows[:n] if size == n else np.concatenate([rows[:n], np.repeat(rows[:1], size - n, 0)])
        sizes.add(size)
        x = library.like(np.ascontiguousarray(batch))
        start = time.perf_counter()
        result = library.wait(library.call(x, *weights))
        times.append(1000 * (time.perf_counter() - start))
        assert result[:n].shape[0] == n
    print(json.dumps({"times": times, "sizes": len(sizes), "kb": resident_kb() - before, "compiles": library.count(library.call)}))


if __name__ == "__main__":
    main()
