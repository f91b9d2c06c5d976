"""Softmax, norms and reductions as torch, NumPy and BCVM spell them: `rows_worker.py PEER THREADS` (1, or 0 for all)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
import row_forms
import worker

REDUCTIONS = ("sum", "mean", "prod", "max", "min", "var", "std", "argmax", "argmin", "any", "all", "cumsum")
Call = Callable[[Any], Any]


class Rows(worker.Worker):
    """Times one call of an op over one array."""

    def row(self, op: str, shape: list[int], dtype: str, axis: int | None, seconds: float) -> list[float]:
        """Nanoseconds per call: [by the wall's clock, of the processor in this process], the least of a few batches each."""
        x = worker.numbers(tuple(shape), 1).astype(np.float32)
        if op == "prod":
            x = 1 + x * np.float32(1e-3)
        x = x.astype(dtype)
        if op in row_forms.FORMS:
            y, w, b = (worker.numbers(tuple(s), k).astype(dtype) for k, s in ((2, shape), (3, shape[-1:]), (4, shape[-1:])))
            form, (argument, *others) = self.peer.form(op), map(self.peer.given, (x, y, w, b))  # type: ignore[attr-defined]
            call: Call = lambda x: form(x, *others)  # noqa: E731
        else:
            call, argument = self.peer.call(op, x, axis)  # type: ignore[attr-defined]
        for _ in range(4):
            call(argument)
            self.peer.ready()
        calls = 1
        while self._batch(call, argument, calls)[0] < seconds * 1e9 / 2 and calls < 1 << 20:
            calls *= 2
        batches = [self._batch(call, argument, calls) for _ in range(5)]
        return [min(b[k] for b in batches) / calls for k in range(2)]

    def _batch(self, call: Call, argument: Any, calls: int) -> tuple[int, int]:
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        for _ in repeat(None, calls):
            call(argument)
        return time.perf_counter_ns() - wall, time.process_time_ns() - cpu


class NumPy(worker.Peer):
    """The formulas as people write them."""

    def form(self, name: str) -> row_forms.Form:
        """The function of a form: one for all shapes."""
        self.forms = getattr(self, "forms", None) or self.all_forms()
        return self.forms[name]

    def all_forms(self) -> dict[str, row_forms.Form]:
        return row_forms.in_numpy()

    def given(self, x: Any) -> Any:
        return x

    def call(self, op: str, x: Any, axis: int | None) -> tuple[Call, Any]:
        y = np.empty_like(x)
        w, b = np.ones(x.shape[-1], x.dtype), np.zeros(x.shape[-1], x.dtype)

        def softmax(x: Any) -> Any:
            e = np.exp(x - x.max(axis=-1, keepdims=True))
            return e / e.sum(axis=-1, keepdims=True)

        def log_softmax(x: Any) -> Any:
            s = x - x.max(axis=-1, keepdims=True)
            return s - np.log(np.exp(s).sum(axis=-1, keepdims=True))

        def layer_norm(x: Any) -> Any:
            return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + x.dtype.type(1e-5)) * w + b

        def rms_norm(x: Any) -> Any:
            return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + x.dtype.type(1e-6)) * w

        def logsumexp(x: Any) -> Any:
            m = x.max(axis=-1, keepdims=True)
            return np.log(np.exp(x - m).sum(axis=-1)) + m[..., 0]

        known = {f.__name__: f for f in (softmax, log_softmax, layer_norm, rms_norm, logsumexp)}
        if op == "copy":
            return lambda x: np.copyto(y, x), x
        return known.get(op) or (lambda x: getattr(np, op)(x, axis=axis)), x


class Bcvm(NumPy):
    def versions(self) -> str:
        import bcvm_core

        return f"BCVM {bcvm_core.version.__version__}"

    def ready(self) -> None:
        from bcvm_core.codegen import loops

        assert loops.wait(120)
        time.sleep(0.06)  # chains look again after a while

    def all_forms(self) -> dict[str, row_forms.Form]:
        return row_forms.in_bcvm()

    def call(self, op: str, x: Any, axis: int | None) -> tuple[Call, Any]:
        import bcvm_core

        w, b = np.ones(x.shape[-1], x.dtype), np.zeros(x.shape[-1], x.dtype)
        known = {
            "layer_norm": {"weight": w, "bias": b},
            "rms_norm": {"weight": w},
            "softmax": {},
            "log_softmax": {},
        }
        attrs = known.get(op, {"axis": axis})
        function = getattr(bcvm_core.ops, op)
        function(x, **attrs)
        self.ready()
        return lambda x: function(x, **attrs), x


class Torch(worker.Peer):
    name = "torch"
    compiled = False

    def form(self, name: str) -> row_forms.Form:
        self.forms = getattr(self, "forms", None) or row_forms.in_torch(self.compiled)
        return self.forms[name]

    def given(self, x: Any) -> Any:
        import torch

        return torch.from_numpy(x)

    def versions(self) -> str:
        import torch

        return f"torch {torch.__version__}, {torch.get_num_threads()} threads"

    def call(self, op: str, x: Any, axis: int | None) -> tuple[Call, Any]:
        import torch
        import torch.nn.functional as functional

        x = torch.from_numpy(x)
        y, w, b = torch.empty_like(x), torch.ones(x.shape[-1], dtype=x.dtype), torch.zeros(x.shape[-1], dtype=x.dtype)
        known: dict[str, Call] = {
            "copy": lambda x: y.copy_(x),
            "softmax": lambda x: torch.softmax(x, -1),
            "log_softmax": lambda x: torch.log_softmax(x, -1),
            "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:], w, b),
            "rms_norm": lambda x: functional.rms_norm(x, x.shape[-1:], w),
            "logsumexp": lambda x: torch.logsumexp(x, -1),
        }
        if op in known:
            return known[op], x
        function = getattr(torch, {"max": "amax", "min": "amin"}.get(op, op))
        if axis is None:
            return (lambda x: function(x, dim=())) if op in ("max", "min") else function, x
        return lambda x: function(x, axis), x


class Compiled(Torch):
    name = "torch.compile"
    compiled = True


def main() -> None:
    """Serve as the peer that the command line names."""
    name, count = sys.argv[1], int(sys.argv[2])
    if name in ("torch", "compile"):
        import torch

        torch.set_grad_enabled(False)
        if count:
            torch.set_num_threads(count)
    elif name == "bcvm" and count == 1:
        from bcvm_core.codegen.stencils import threads

        threads.cores = lambda: 1
    worker.serve({"torch": Torch, "compile": Compiled, "bcvm": Bcvm, "numpy": NumPy}[name](), Rows)


if __name__ == "__main__":
    main()
