"""torch on the CPU, eager or, with the argument `compile`, by `torch.compile(dynamic=True)`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import sources
import torch
import worker


class Torch(worker.Peer):
    name = "torch"
    header = "import torch\n"
    words = sources.in_module("torch")

    def versions(self) -> str:
        return f"torch {torch.__version__}, {torch.get_num_threads()} threads"

    def array(self, x: Any) -> Any:
        return torch.from_numpy(x)

    def to_numpy(self, y: Any) -> Any:
        return y.numpy()


class Compiled(Torch):
    name = "torch.compile"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(function, dynamic=True)


torch.set_grad_enabled(False)
worker.serve(Compiled() if "compile" in sys.argv[1:] else Torch())
