"""Memory for code over many chains that all differ: `python -m tests.bench.code_memory [--chains N]`.

Each chain is spliced, run once and dropped, as a cache would drop it; `held` of them are kept at any time.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

import bcvm_core as bcvm
from bcvm_core.codegen.stencils import arena
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.kernel import FusedKernel, kernel_for
from tests.bench.progress import cases

CHAINS, HELD = 100_000, 64
_STRIDE = 6_180_339  # without a divisor in common with ten million
_OPS = ("add", "subtract", "multiply", "maximum", "minimum", "abs", "tanh", "sqrt", "negative", "square")


def chain(number: int) -> FusedGraph:
    """A chain of eight ops; each number below ten million gives another one, the lengths of their code in no order."""
    number = number * _STRIDE % len(_OPS) ** 7
    nodes: list[Node] = [Node("add", (0, 1))]
    while len(nodes) < 8:
        number, digit = divmod(number, len(_OPS))
        value = len(nodes) + 1
        operands: tuple[Any, ...] = (value, 1) if digit < 3 else (value, Const(digit)) if digit < 5 else (value,)
        nodes.append(Node(_OPS[digit], operands))
    return FusedGraph((Input("float32"), Input("float32")), tuple(nodes), (len(nodes) + 1,))


def resident_kb() -> int:
    """Memory of this process."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1])


def main() -> None:
    """Print a line at each power of ten."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.code_memory")
    parser.add_argument("--chains", type=int, default=CHAINS)
    chains = parser.parse_args().chains
    if not bcvm.ready():
        print("code_memory: left out, there are no stencils for this machine")
        return
    x = np.linspace(0.5, 1.5, 100, dtype=np.float32)
    held: deque[FusedKernel] = deque(maxlen=HELD)
    marks = sorted({10**k for k in range(2, 9) if 10**k < chains} | {chains, max(1, chains // 2)})
    print(
        f"{'distinct chains (' + str(HELD) + ' held)':<28}{'code in use, KB':>18}{'arena, KB':>12}{'process, MB':>14}{'cpu ms a chain':>16}"
    )
    done, since = 0, time.thread_time()
    for mark in cases("code memory", marks):
        for number in range(done, mark):
            kernel = kernel_for(chain(number))
            assert number % 1000 or kernel.outcome((x, x)) is not None
            held.append(kernel)
        each = (time.thread_time() - since) * 1e3 / (mark - done)
        shared = arena.shared()
        print(
            f"{mark:<28,}{shared.used_bytes / 1024:>18.0f}{shared.reserved_bytes / 1024:>12.0f}{resident_kb() / 1024:>14.1f}{each:>16.3f}",
            flush=True,
        )
        done, since = mark, time.thread_time()


if __name__ == "__main__":
    main()
