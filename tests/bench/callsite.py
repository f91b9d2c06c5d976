"""What a warm CallSite costs over the kernel it calls, in nanoseconds: `python -m tests.bench.callsite`.

Each figure is the least of several rounds, kernel and site in turn, so that noise of the machine
falls on both.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from bcvm_core.ops import registry
from bcvm_core.tiers import selection
from bcvm_core.tiers.pool import pool
from bcvm_core.tiers.select import CallSite
from tests.bench import progress

ROUNDS, CALLS = 9, 20_000


def best(call: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Nanoseconds per call of both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for fn, into in zip((call, other), times, strict=True):
            into.append(timeit.timeit(fn, number=CALLS) / CALLS * 1e9)
    return min(times[0]), min(times[1])


def cases() -> list[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """(what, bare kernel, call site)."""
    x, row = np.ones((8, 8), np.float32), np.ones(8, np.float32)
    mask, out = x > 0, x.copy()
    site = {name: CallSite(name) for name in ("sqrt", "add", "where", "matmul", "sum", "concatenate", "getitem")}
    total, join, pick = (registry.row(name).definition for name in ("sum", "concatenate", "getitem"))
    return [
        ("sqrt(array)", lambda: np.sqrt(x), lambda: site["sqrt"](x)),
        ("add(array, array)", lambda: np.add(x, x), lambda: site["add"](x, x)),
        ("add(array, row)", lambda: np.add(x, row), lambda: site["add"](x, row)),
        ("add(array, 2.0)", lambda: np.add(x, 2.0), lambda: site["add"](x, 2.0)),
        ("add(array, array, out=)", lambda: np.add(x, x, out=out), lambda: site["add"](x, x, out=out)),
        ("where(mask, array, array)", lambda: np.where(mask, x, x), lambda: site["where"](mask, x, x)),
        ("matmul(array, array)", lambda: np.matmul(x, x), lambda: site["matmul"](x, x)),
        ("sum(array, axis=1)", lambda: total(x, axis=1), lambda: site["sum"](x, axis=1)),
        ("concatenate([a, b])", lambda: join([x, x]), lambda: site["concatenate"]([x, x])),
        ("getitem(array, 3)", lambda: pick(x, 3), lambda: site["getitem"](x, 3)),
    ]


def main() -> None:
    registry.rows() or registry.load_families()
    print(f"{'call':<28}{'kernel':>10}{'site':>10}{'overhead':>10}")
    for what, kernel, site in progress.cases("call sites", cases()):
        bare, through = best(kernel, site)
        print(f"{what:<28}{bare:>10.0f}{through:>10.0f}{through - bare:>10.0f}")
    pool.set_selection("sqrt", selection.assemble("ld size[0]\njlt 1024, small\nret sqrt.numpy\nsmall:\nret sqrt.numpy\n"))
    x, site = np.ones((8, 8), np.float32), CallSite("sqrt")
    bare, through = best(lambda: np.sqrt(x), lambda: site(x))
    print(f"{'sqrt, a program of 3 steps':<28}{bare:>10.0f}{through:>10.0f}{through - bare:>10.0f}")


if __name__ == "__main__":
    main()
