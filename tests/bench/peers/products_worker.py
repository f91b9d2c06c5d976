"""Products by weights and what follows them, as torch, NumPy and BCVM spell them: `products_worker.py PEER THREADS` (1, or 0 for all).

BCVM takes part three times: "apart" calls its ops one by one, "fused" is a function under `@bcvm.jit`, "reproducible" is what people write
with NumPy, under that setting.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

if sys.argv[-1] == "1":  # before NumPy is there
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import worker

Call = Callable[[], Any]


class Products(worker.Worker):
    """Times one call of a product with a tail."""

    def product(self, tail: str, rows: int, depth: int, columns: int, seconds: float) -> list[float]:
        """Nanoseconds per call: [by the wall's clock, of the processor in this process], the least of a few batches each."""
        shapes = (rows, depth), (columns, depth), (rows, columns)
        x, w, r = [worker.numbers(shape, k).astype(np.float32) for k, shape in enumerate(shapes, 1)]
        call = self.peer.call(tail, x, w / np.float32(np.sqrt(depth)), w[:, 0].copy(), r)  # type: ignore[attr-defined]
        for _ in range(3):
            call()
        self.peer.ready()
        for _ in range(2):
            call()
        calls = 1
        while self._batch(call, calls)[0] < seconds * 1e9 / 2 and calls < 1 << 20:
            calls *= 2
        batches = [self._batch(call, calls) for _ in range(5)]
        return [min(b[k] for b in batches) / calls for k in range(2)]

    def _batch(self, call: Call, calls: int) -> tuple[int, int]:
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        for _ in repeat(None, calls):
            call()
        return time.perf_counter_ns() - wall, time.process_time_ns() - cpu


class NumPy(worker.Peer):
    """As people write it; NumPy has no erf, so its gelu is the one by tanh."""

    def call(self, tail: str, x: Any, w: Any, b: Any, r: Any) -> Call:
        def gelu(y: Any) -> Any:
            return 0.5 * y * (1 + np.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))

        known: dict[str, Call] = {
            "none": lambda: x @ w.T,
            "bias": lambda: x @ w.T + b,
            "relu": lambda: np.maximum(x @ w.T + b, 0),
            "gelu": lambda: gelu(x @ w.T + b),
            "residual": lambda: x @ w.T + b + r,
        }
        return known[tail]


class Bcvm(worker.Peer):
    """`way`: "apart", "fused" or "reproducible"."""

    way = "apart"

    def versions(self) -> str:
        import bcvm_core

        return f"BCVM {bcvm_core.version.__version__}, {self.way}"

    def ready(self) -> None:
        from bcvm_core.codegen import loops

        assert loops.wait(120)

    def call(self, tail: str, x: Any, w: Any, b: Any, r: Any) -> Call:
        from bcvm_core import ops

        known: dict[str, Call] = {
            "none": lambda: ops.linear(x, w),
            "bias": lambda: ops.linear(x, w, b),
            "relu": lambda: ops.relu(ops.linear(x, w, b)),
            "gelu": lambda: ops.gelu(ops.linear(x, w, b)),
            "residual": lambda: np.add(ops.linear(x, w, b), r),
        }
        return known[tail]


class Fused(Bcvm):
    way = "fused"

    def call(self, tail: str, x: Any, w: Any, b: Any, r: Any) -> Call:
        import bcvm_core as bcvm
        from bcvm_core import ops

        def none(x: Any, w: Any, b: Any, r: Any) -> Any:
            return ops.linear(x, w)

        def bias(x: Any, w: Any, b: Any, r: Any) -> Any:
            return ops.linear(x, w, b)

        def relu(x: Any, w: Any, b: Any, r: Any) -> Any:
            return ops.relu(ops.linear(x, w, b))

        def gelu(x: Any, w: Any, b: Any, r: Any) -> Any:
            return ops.gelu(ops.linear(x, w, b))

        def residual(x: Any, w: Any, b: Any, r: Any) -> Any:
            return ops.linear(x, w, b) + r

        made = bcvm.jit({f.__name__: f for f in (none, bias, relu, gelu, residual)}[tail])
        return lambda: made(x, w, b, r)


class Reproducible(Bcvm):
    way = "reproducible"

    def call(self, tail: str, x: Any, w: Any, b: Any, r: Any) -> Call:
        import bcvm_core as bcvm
        from bcvm_core import config, ops

        config.current.reproducible = True
        w = np.ascontiguousarray(w.T)

        def none(x: Any, w: Any, b: Any, r: Any) -> Any:
            return x @ w

        def bias(x: Any, w: Any, b: Any, r: Any) -> Any:
            return x @ w + b

        def relu(x: Any, w: Any, b: Any, r: Any) -> Any:
            return np.maximum(x @ w + b, 0)

        def gelu(x: Any, w: Any, b: Any, r: Any) -> Any:
            return ops.gelu(x @ w + b)

        def residual(x: Any, w: Any, b: Any, r: Any) -> Any:
            return x @ w + b + r

        made = bcvm.jit({f.__name__: f for f in (none, bias, relu, gelu, residual)}[tail])
        return lambda: made(x, w, b, r)


class Torch(worker.Peer):
    name = "torch"

    def versions(self) -> str:
        import torch

        return f"torch {torch.__version__}, {torch.get_num_threads()} threads"

    def call(self, tail: str, x: Any, w: Any, b: Any, r: Any) -> Call:
        import torch
        from torch.nn.functional import gelu, linear, relu

        x, w, b, r = map(torch.from_numpy, (x, w, b, r))
        known: dict[str, Call] = {
            "none": lambda: linear(x, w),
            "bias": lambda: linear(x, w, b),
            "relu": lambda: relu(linear(x, w, b)),
            "gelu": lambda: gelu(linear(x, w, b)),
            "residual": lambda: linear(x, w, b) + r,
        }
        return known[tail]


def main() -> None:
    """Serve as the peer that the command line names."""
    name, count = sys.argv[1], int(sys.argv[2])
    if name == "torch":
        import torch

        torch.set_grad_enabled(False)
        if count:
            torch.set_num_threads(count)
    elif name != "numpy" and count == 1:
        from bcvm_core.codegen.stencils import threads

        threads.cores = lambda: 1
    known = {"torch": Torch, "numpy": NumPy, "apart": Bcvm, "fused": Fused, "reproducible": Reproducible}
    worker.serve(known[name](), Products)


if __name__ == "__main__":
    main()
