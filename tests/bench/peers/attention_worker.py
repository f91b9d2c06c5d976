"""Attention as each peer spells it: `attention_worker.py PEER THREADS` (1, or 0 for all).

Peers whose threads cannot be counted any other way are bound to one processor.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

PEER, THREADS = sys.argv[1], int(sys.argv[2])
HEADS, SIZE = 12, 64
if THREADS and PEER in ("jax", "mindspore"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("GLOG_v", "3")

import numpy as np  # noqa: E402
import worker  # noqa: E402

Call = Callable[[], Any]


class Attention(worker.Worker):
    """Times one call over float32 (batch, 12, length, 64)."""

    def __init__(self, peer: Any) -> None:
        super().__init__(peer)
        self.calls: dict[tuple[str, int, int], tuple[Call, int]] = {}

    def forms(self) -> list[str]:
        return list(self.peer.forms)  # type: ignore[attr-defined]

    def measure(self, form: str, batch: int, length: int, seconds: float) -> list[float]:
        """Nanoseconds per call: [by the wall's clock, of the processor in this process], the least of a few batches each."""
        found = self.calls.get((form, batch, length))
        if found is None:
            call = self._made(form, batch, length)
            for _ in range(3):
                call()
            self.peer.ready()
            count = 1
            while self._batch(call, count)[0] < seconds * 1e9 / 2 and count < 1 << 16:
                count *= 2
            found = self.calls[form, batch, length] = call, count
        batches = [self._batch(*found) for _ in range(5)]
        return [min(b[k] for b in batches) / found[1] for k in range(2)]

    def peak(self, form: str, batch: int, length: int) -> float:
        """Bytes at the peak of a call over what was resident before."""
        self.calls.clear()
        small = self._made(form, 1, 16)
        for _ in range(3):
            small()
        call = self._made(form, batch, length)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what was freed before is no room for this call
        Path("/proc/self/clear_refs").write_text("5")
        before = worker._status("VmRSS")
        call()
        return worker._status("VmHWM") - before

    def _made(self, form: str, batch: int, length: int) -> Call:
        shape = (batch, HEADS, length, SIZE)
        call: Call = self.peer.call(form, *(worker.numbers(shape, k) for k in range(3)))  # type: ignore[attr-defined]
        return call

    def _batch(self, call: Call, calls: int) -> tuple[int, int]:
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        for _ in repeat(None, calls):
            call()
        return time.perf_counter_ns() - wall, time.process_time_ns() - cpu


class Bcvm(worker.Peer):
    forms = ("BCVM",)

    def versions(self) -> str:
        import bcvm_core

        if THREADS:
            from bcvm_core.codegen.stencils import threads

            threads.cores = lambda: 1
        return f"BCVM {bcvm_core.version.__version__}"

    def call(self, _form: str, q: Any, k: Any, v: Any) -> Call:
        from bcvm_core import ops

        return lambda: ops.attention(q, k, v)


class Torch(worker.Peer):
    forms = ("torch eager", "torch sdpa", "torch.compile")

    def versions(self) -> str:
        import torch

        torch.set_grad_enabled(False)
        if THREADS:
            torch.set_num_threads(THREADS)
        return f"torch {torch.__version__}, {torch.get_num_threads()} threads"

    def call(self, form: str, *given: Any) -> Call:
        import torch

        q, k, v = map(torch.from_numpy, given)

        def eager(q: Any, k: Any, v: Any) -> Any:
            return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v

        if form == "torch sdpa":
            return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)
        function = torch.compile(eager, dynamic=False) if form == "torch.compile" else eager
        return lambda: function(q, k, v)


class Jax(worker.Peer):
    forms = ("JAX jit", "JAX nn")

    def versions(self) -> str:
        import jax

        return f"JAX {jax.__version__}"

    def call(self, form: str, *given: Any) -> Call:
        import jax
        import jax.numpy as jnp

        def formula(q: Any, k: Any, v: Any) -> Any:
            return jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) * 0.125, -1) @ v

        if form == "JAX nn":  # (batch, length, heads, size)
            given = tuple(np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in given)
        q, k, v = (jax.block_until_ready(jnp.asarray(x)) for x in given)
        function = jax.jit(jax.nn.dot_product_attention if form == "JAX nn" else formula)
        return lambda: jax.block_until_ready(function(q, k, v))


class MindSpore(worker.Peer):
    forms = ("MindSpore PyNative",)

    def versions(self) -> str:
        import mindspore as ms

        ms.set_context(pynative_synchronize=True)
        ms.set_device("CPU")
        return f"MindSpore {ms.__version__}"

    def call(self, _form: str, *given: Any) -> Call:
        import mindspore as ms
        from mindspore import ops

        q, k, v = map(ms.Tensor, given)
        return lambda: ops.softmax(q @ k.swapaxes(-1, -2) * 0.125, -1) @ v


if __name__ == "__main__":
    worker.serve({"bcvm": Bcvm, "torch": Torch, "jax": Jax, "mindspore": MindSpore}[PEER](), Attention)
