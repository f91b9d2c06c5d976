"""Tier 3 in figures: the compile worker, what candidates gain, and what calls notice: `python -m tests.bench.recompile [--search NAME]`.

Start of the worker and time of a search by the wall; candidates as the race measured them, then once more, the exchanged code beside the
spliced one in turn, time of the processor on one core; and the time of small calls, by the wall, while nothing else happens and while
the worker compiles all the time. `--search`: the back end; another than the one that is built in is measured for its candidates alone.
"""

from __future__ import annotations

import argparse
import threading
import time
from statistics import median
from typing import Any

import numpy as np

import bcvm_core as bcvm
from bcvm_core.codegen.search import backend, worker
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.kernel import FusedKernel
from bcvm_core.codegen.store import cpu_level
from bcvm_core.tiers import hot, recompile
from tests.bench.progress import cases

ROUNDS, CALLS = 15, 20_000
F32 = Input("float32")
GRAPHS = {
    "add, maximum, multiply": FusedGraph((F32, F32), (Node("add", (0, 1)), Node("maximum", (2, Const(0))), Node("multiply", (3, 1))), (4,)),
    "sigmoid(relu(x+b)*2+1)*tanh(x+b)": FusedGraph(
        (F32, F32),
        (
            Node("add", (0, 1)),
            Node("maximum", (2, Const(0))),
            Node("multiply", (3, Const(2))),
            Node("add", (4, Const(1))),
            Node("sigmoid", (5,)),
            Node("tanh", (2,)),
            Node("multiply", (6, 7)),
        ),
        (8,),
    ),
    "six times tanh": FusedGraph((F32,), tuple(Node("tanh", (k,)) for k in range(6)), (6,)),
    "exp(x)*log(b)": FusedGraph((F32, F32), (Node("exp", (0,)), Node("log", (1,)), Node("multiply", (2, 3))), (4,)),
}
SIZES = (1_000_000, 8_000_000)


def start_of_worker() -> float:
    """Milliseconds from nothing to a worker that takes requests."""
    fresh = worker.Worker()
    started = time.perf_counter()
    fresh._start()
    took = 1000 * (time.perf_counter() - started)
    fresh.close()
    return took


def arrays_for(graph: FusedGraph, n: int) -> list[Any]:
    rng = np.random.default_rng(n)
    return [rng.uniform(0.1, 3, n).astype(np.float32) for _ in graph.inputs]


def searched(graph: FusedGraph, arrays: list[Any]) -> tuple[FusedKernel, hot.Verdict]:
    """A kernel after its first search."""
    kernel = FusedKernel(graph)
    hot.watch(kernel, tuple(node.op for node in graph.nodes))
    outs = [np.empty_like(arrays[0])]
    for _ in range(400):
        kernel(arrays, outs, 1)
        recompile.wait()
        (found,) = kernel.heat.classes.values()  # type: ignore[union-attr]
        if found.verdict.state in (hot.KEPT, hot.DROPPED, hot.ABANDONED):
            break
    return kernel, found.verdict


def beside(kernel: FusedKernel, arrays: list[Any]) -> float:
    """Time of the kernel as it is now over that of the spliced one, medians of rounds in turn."""
    outs = [np.empty_like(arrays[0])]
    times: dict[bool, list[int]] = {True: [], False: []}
    heat, kernel.heat = kernel.heat, None
    for k in range(2 * ROUNDS):
        kernel.heat = heat if k % 2 else None
        started = time.thread_time_ns()
        kernel(arrays, outs, 1)
        times[bool(k % 2)].append(time.thread_time_ns() - started)
    kernel.heat = heat
    return median(times[True]) / median(times[False])


def small_calls() -> list[float]:
    """Microseconds of each of many calls of a small function."""

    @bcvm.jit
    def small(x: Any) -> Any:
        return np.maximum(x, 0) * 2 + 1

    x = np.ones((64, 64), np.float32)
    for _ in range(10):
        small(x)
    now, out = time.perf_counter_ns, []
    for _ in range(CALLS):
        started = now()
        small(x)
        out.append((now() - started) / 1000)
    return sorted(out)


def while_compiling() -> list[float]:
    """The same while a thread asks the worker for one search after the other."""
    graph = GRAPHS["sigmoid(relu(x+b)*2+1)*tanh(x+b)"]
    job = backend.Job(FusedKernel(graph).lowered, 0, 2, cpu_level())
    going = threading.Event()
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            worker.shared().request(backend.place_of("llvm") or "", job, 30.0)
            going.set()

    thread = threading.Thread(target=ask)
    thread.start()
    going.wait()
    found = small_calls()
    over.set()
    thread.join()
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.recompile")
    parser.add_argument("--search", choices=backend.names(), default="llvm")
    search = parser.parse_args().search
    if not bcvm.ready():
        print("recompile: left out, there are no stencils for this machine")
        return
    print("worker ready after ms:", ", ".join(f"{start_of_worker():.0f}" for _ in range(5)))
    with bcvm.override(hot_threshold_ms=0.0, search=search):
        for name, graph in cases("recompile", GRAPHS.items()):
            for n in SIZES:
                arrays = arrays_for(graph, n)
                recompile.figures.worker_cpu_s = 0.0
                kernel, verdict = searched(graph, arrays)
                print(f"\n{name}, {n:,} elements: {verdict.state}; answer after {verdict.compile_ms:.0f} ms")
                for line in verdict.profile:
                    print(f"  {line}")
                if verdict.state == hot.KEPT:
                    print(f"  once more, as it runs now over as it was spliced: {beside(kernel, arrays):.2f}")
    if search != "llvm":
        return
    for title, found in (("nothing else", small_calls()), ("worker busy", while_compiling())):
        p50, p99, p999 = (found[int(share * len(found))] for share in (0.5, 0.99, 0.999))
        print(f"\nsmall calls, {title}: P50 {p50:.2f} us, P99 {p99:.2f}, P99.9 {p999:.1f}, longest {found[-1]:.0f}")
    print(recompile.figures)


if __name__ == "__main__":
    main()
