"""What a profile costs while it is on: `python -m tests.bench.profiling [--rounds N]`.

Each workload is padded with Python's own work until it calls about 100,000 regions a second with the profile off; the same calls are
then made within a profile. Processor time of this thread, medians of interleaved rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import bcvm_core as bcvm
from tests.bench.progress import cases

PERIOD_NS, CALLS = 10_000, 2000


def one_kernel(x: Any, b: Any) -> Any:
    """Machine code takes the place of its region."""
    return np.maximum(x + b, 0) * 2.0


def one_op(x: Any, b: Any) -> Any:
    """Its region runs in Python: an op of the pool."""
    return x @ b


def two_ops(x: Any, b: Any) -> Any:
    """Two ops, that don't fuse."""
    return np.swapaxes(x @ b, 0, 1)


def batch(f: Callable[..., Any], x: Any, padding: range) -> float:
    """Nanoseconds a call."""
    started = time.thread_time_ns()
    for _ in range(CALLS):
        f(x, x)
        for _ in padding:
            pass
    return (time.thread_time_ns() - started) / CALLS


def main() -> None:
    """Print a line per workload."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.profiling")
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    if not bcvm.ready():
        print("profiling: left out, there are no stencils for this machine")
        return
    x = np.ones((8, 8), np.float32)
    print(f"{'workload':<14}{'off, us':>10}{'sums, us':>10}{'trace, us':>11}{'sums cost':>11}{'trace costs':>13}")
    for function in cases("profiling", (one_kernel, one_op, two_ops)):
        f = bcvm.jit(function)
        batch(f, x, range(0))
        bare = min(batch(f, x, range(0)) for _ in range(9))
        step = (min(batch(f, x, range(400)) for _ in range(9)) - bare) / 400
        padding = range(max(0, int((PERIOD_NS - bare) / step)))
        off, sums, trace = [], [], []
        for _ in range(rounds):
            off.append(batch(f, x, padding))
            for kept, found in ((0, sums), (CALLS + 10, trace)):
                with bcvm.profile(max_calls=kept):
                    f(x, x)
                    found.append(batch(f, x, padding))
            f(x, x)
        a, b, c = median(off), median(sums), median(trace)
        print(f"{function.__name__:<14}{a / 1e3:>10.2f}{b / 1e3:>10.2f}{c / 1e3:>11.2f}{b / a - 1:>11.1%}{c / a - 1:>13.1%}", flush=True)


if __name__ == "__main__":
    main()
