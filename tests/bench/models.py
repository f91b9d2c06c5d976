"""Models of mindcv, MindSpore PyNative beside BCVM: `python -m tests.bench.models [--large] [--cpu] [name ...]`.

PyNative computes synchronously (asynchronous calls would be charged to whoever reads the result). Both run in turn, the order
changing from round to round, and the median of the rounds counts; the ratio is that of the medians. `first` is BCVM's first call,
in which the program is found; MindSpore had its first call before. `CALL_OP` is the share of the executions of ops that BCVM ran.
On CPUs with AVX-512 the oneDNN in MindSpore 2.10 falls back to its reference convolution, some fifty times slower than what it has
for AVX2: it is held to AVX2 here, unless ONEDNN_MAX_CPU_ISA says otherwise.
Other work on the machine makes wall times useless: `taskset -c 0 python -m tests.bench.models --cpu` compares the processor time that
both take on one core.
The default table has the models and sizes of the tests; `--large` has images of up to 224 pixels and takes long.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import bcvm_core as bcvm
from tests.bench.progress import cases
from tests.models import zoo

ROUNDS, ENOUGH_S = 9, 3.0  # rounds, or as many (three at least) as fit this time
COLUMNS = (
    ("batch", 6),
    ("size", 6),
    ("PyNative ms", 13),
    ("BCVM ms", 10),
    ("ratio", 8),
    ("first ms", 10),
    ("CALL_OP", 9),
    ("max rel. diff.", 16),
)
HEAD = f"{'model':<22}" + "".join(f"{name:>{width}}" for name, width in COLUMNS)


clocks = [time.perf_counter]


def measured(call: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of one call, and its result."""
    clock = clocks[-1]
    start = clock()
    result = call()
    return (clock() - start) * 1e3, result


def by_bcvm(cell: Any, x: Any) -> tuple[float, Any]:
    """The same with BCVM enabled."""
    with bcvm.enable():
        return measured(lambda: cell(x))


def row(name: str, cell: Any, batch: int, size: int) -> str:
    """One line of the table."""
    x = zoo.images(batch, size)
    theirs = cell(x).asnumpy()
    before = bcvm.stats()
    first, ours = by_bcvm(cell, x)
    plain, through = [], []
    begun = time.perf_counter()
    for round_ in range(ROUNDS):
        for turn in (round_, round_ + 1):
            (plain if turn % 2 else through).append((measured(lambda: cell(x)) if turn % 2 else by_bcvm(cell, x))[0])
        if round_ >= 2 and time.perf_counter() - begun > ENOUGH_S:
            break
    share = bcvm.stats().since(before).share()
    a, b = median(plain), median(through)
    apart = zoo.difference(ours.asnumpy(), theirs)
    return f"{name:<22}{batch:>6}{size:>6}{a:>13.1f}{b:>10.1f}{b / a:>8.2f}{first:>10.0f}{share:>9.1%}{apart:>16.1e}"


def rows(models: tuple[zoo.Model, ...], wanted: list[str]) -> Iterator[str]:
    """The lines, as they are measured."""
    for model in cases("models", models):
        if wanted and not any(word in model.name for word in wanted):
            continue
        cell = None
        for size in model.sizes:
            if cell is None or model.fixed_size:
                cell = None  # one model at a time in memory
                gc.collect()
                cell = zoo.built(model, size)
            for batch in zoo.BATCHES:
                yield row(model.name, cell, batch, size)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.models")
    parser.add_argument("--large", action="store_true", help="images of up to 224 pixels")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall time")
    parser.add_argument("name", nargs="*", help="only models with this in their name")
    options = parser.parse_args()
    if options.cpu:
        clocks.append(time.process_time)
    missing = [name for name in ("mindspore", "mindcv") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"models: left out, {' and '.join(missing)} not installed (pip install 'bcvm[mindspore,models]')")
        return
    os.environ.setdefault("GLOG_v", "3")
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
    import mindspore as ms

    ms.set_context(pynative_synchronize=True)
    print(HEAD)
    for line in rows(zoo.LARGE if options.large else zoo.MODELS, options.name):
        print(line, flush=True)


if __name__ == "__main__":
    main()
