"""Memory over shapes that all differ: `python -m tests.bench.many_shapes [--shapes N] [--convolutions]`.

A detector in small runs on each shape once: fused chains, a product, a softmax, a sum, a concatenation, all of them on sizes never
seen. Results are dropped; what stays in memory is what BCVM keeps. `--convolutions`: a convolution and relu on images of other sizes each.
"""

from __future__ import annotations

import argparse
import gc
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import bcvm_core as bcvm
from bcvm_core import ops
from bcvm_core.cache.memory import code_cache
from bcvm_core.codegen.stencils import arena
from tests.bench.code_memory import resident_kb

SHAPES, SETTLED = 10_000, 500


def detector(x: Any, w: Any, b: Any) -> Any:
    """(rows, channels) against (channels, 16)."""
    h = np.maximum(x * 0.5 + 1.0, 0) * 2.0
    scores = h @ w + b
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return np.concatenate([p, np.tanh(scores) * p], axis=-1).mean(axis=0)


def shapes(count: int) -> Iterator[tuple[int, int]]:
    """(rows, channels), all different, small and in no order."""
    rows = 200
    order = np.random.default_rng(6).permutation(rows * (-(-count // rows)))[:count]
    for number in order.tolist():
        yield 1 + number % rows, 1 + number // rows


def images(count: int, look: Callable[[int], None], marks: set[int]) -> None:
    """As `measure`, a convolution and relu on images of `count` sizes."""
    weight = np.ones((16, 8, 3, 3), np.float32)
    f = bcvm.jit(lambda x: ops.relu(ops.conv2d(x, weight, padding=1)))
    side = math.isqrt(count - 1) + 1
    for done, number in enumerate(np.random.default_rng(0).permutation(side * side)[:count].tolist(), 1):
        f(np.ones((1, 8, 4 + number // side, 4 + number % side), np.float32))
        if done in marks:
            gc.collect()
            look(done)


def measure(count: int, look: Callable[[int], None], marks: set[int]) -> None:
    """Run the detector on `count` shapes; `look(n)` after the first n of each mark."""
    f = bcvm.jit(detector)
    b = np.zeros(16, np.float32)
    for done, (rows, channels) in enumerate(shapes(count), 1):
        f(np.ones((rows, channels), np.float32), np.ones((channels, 16), np.float32), b)
        if done in marks:
            gc.collect()
            look(done)


def main() -> None:
    """Print a line per mark."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.many_shapes")
    parser.add_argument("--shapes", type=int, default=SHAPES)
    parser.add_argument("--convolutions", action="store_true")
    options = parser.parse_args()
    count = options.shapes
    if not bcvm.ready():
        print("many_shapes: left out, there are no stencils for this machine")
        return
    first = resident_kb()
    print(f"{'shapes':>8}{'process, MB':>13}{'since 500, KB':>15}{'kernels':>9}{'spliced':>9}{'code, KB':>10}")
    settled = 0

    def look(done: int) -> None:
        nonlocal settled
        now, found = resident_kb(), code_cache.figures()
        settled = now if done == SETTLED else settled
        since = f"{now - settled:,}" if settled else ""
        spliced = sum(n for reason, n in found.misses.items() if not reason.startswith("no kernel"))
        used = arena.shared().used_bytes / 1024
        print(f"{done:>8,}{now / 1024:>13.1f}{since:>15}{found.entries:>9}{spliced:>9}{used:>10.0f}", flush=True)

    (images if options.convolutions else measure)(count, look, {1, 100, SETTLED, 1000, 2000, 5000, count})
    print(f"before the first call: {first / 1024:.1f} MB")


if __name__ == "__main__":
    main()
