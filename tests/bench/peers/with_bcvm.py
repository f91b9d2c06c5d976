"""BCVM on NumPy arrays: the functions that NumPy runs, but for a sigmoid of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sources
import worker

import bcvm_core as bcvm


class Bcvm(worker.Peer):
    name = "bcvm"
    header = "import numpy as np\nfrom bcvm_core import ops\n"
    words = {**sources.NUMPY, "sigmoid": "ops.sigmoid({0})"}

    def versions(self) -> str:
        return f"BCVM {bcvm.version.__version__}"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return bcvm.jit(function)


if __name__ == "__main__":
    assert bcvm.ready(), "no stencils for this machine"
    worker.serve(Bcvm())
