"""Workloads whose sizes and branches change at every step.

`python -m tests.bench.dynamic [--steps N] [--rival-steps N] [--runs N] [--peers NAME ...]`

A detector with changing batch, number of places and channels, a block of a language model with random lengths, and a
conditional generator, each in words of the library that runs it. Tables: what a step takes, and beside what a warm call of
its own size takes; which steps took more than three times that, by the wall, by the processor's time of the calling thread, and by
the latter in each of several runs, processes of their own with the same steps; then what BCVM compiled within steps, in
milliseconds. What the machine does to a process comes at other steps each time; what a library does comes at the same. Compilers
that work per shape get fewer steps and one run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter
from pathlib import Path
from statistics import mean, median
from typing import Any

from tests.bench.fusion import heading, line
from tests.bench.peers.environments import PeerError, Program, environment_of, interpreter
from tests.bench.progress import cases
from tests.bench.splicing import percentile

WORKER = Path(__file__).parent / "peers" / "dynamic_worker.py"
PEERS = (
    Program("BCVM", "dynamic_worker", (), ("bcvm",), "bcvm_core"),
    Program("NumPy", "dynamic_worker", (), ("numpy",), "numpy"),
    Program("torch eager", "dynamic_worker", ("torch", "numpy"), ("torch",)),
    Program("torch.compile", "dynamic_worker", ("torch", "numpy"), ("compile",)),
    Program("JAX jit", "dynamic_worker", ("jax",), ("jax",)),
    Program("ms.jit", "dynamic_worker", ("mindspore==2.10.*", "numpy<2"), ("ms.jit",), "mindspore"),
    Program("ms.jit, dynamic=1", "dynamic_worker", ("mindspore==2.10.*", "numpy<2"), ("ms.jit dynamic",), "mindspore"),
)
COMPILERS = ("torch.compile", "JAX jit", "ms.jit", "ms.jit, dynamic=1")
FIRST = 10  # steps from which on none may be much slower than a warm one of its size
SLOW = 3  # times a warm step
FRESH = 16  # pages of fresh memory that make a step slow
CAUSES = ("compile", "collection", "fresh memory", "other")
Found = dict[str, Any]


def measure(peer: Program, steps: int) -> list[Found]:
    """What a worker found, a dictionary per workload. Raises PeerError."""
    command = [interpreter(peer), str(WORKER), *peer.arguments, str(steps)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment_of(peer), timeout=1800)
    except subprocess.TimeoutExpired as error:
        raise PeerError("took too long") from error
    if done.returncode:
        raise PeerError([f"ended with {done.returncode}", *done.stderr.strip().splitlines()][-1][:160])
    return [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]


def times_of(found: Found) -> list[str]:
    """Cells of the table of steps, microseconds and ratios."""
    times, warm = found["times"], found["warm"]
    over = [took / least for took, least in zip(times, warm, strict=True)][FIRST:]
    return [
        f"{len(times):,}",
        f"{found['sizes']:,}",
        f"{median(times):.0f}",
        f"{percentile(times, 0.99):.0f}",
        f"{percentile(times, 0.99) / median(times):.1f}",
        f"{max(times[FIRST:]) / 1000:.2f}",
        f"{median(over):.2f}",
    ]


def slow(found: Found, times: str, warm: str) -> set[int]:
    """The steps after the first ones that took more than three times a warm call of their size."""
    pairs = zip(found[times], found[warm], strict=True)
    return {k for k, (took, least) in enumerate(pairs) if k >= FIRST and took > SLOW * least}


def cause_of(found: Found, step: int) -> str:
    """What is known to have made a step slow."""
    if found.get("compile_us", [0.0] * (step + 1))[step]:
        return "compile"
    if found["cpu"][step] - found["collecting"][step] <= SLOW * found["warm_cpu"][step]:
        return "collection"
    return "fresh memory" if found["pages"][step] >= FRESH else "other"


def slow_of(runs: list[Found]) -> list[str]:
    """Cells of the table of slow steps: medians of runs, then the steps that were slow in each, and why."""
    wall = [slow(run, "times", "warm") for run in runs]
    cpu = [slow(run, "cpu", "warm_cpu") for run in runs]
    alone = [sum(not run["switches"][k] for k in steps) for run, steps in zip(runs, cpu, strict=True)]
    always = set.intersection(*cpu)
    causes = Counter(cause_of(runs[0], step) for step in always)
    return [
        *(f"{median(map(len, counts)):.0f}" for counts in (wall, cpu)),
        f"{median(alone):.0f}",
        f"{len(always)}" if len(runs) > 1 else "-",
        *(f"{causes[name]}" if len(runs) > 1 else "-" for name in CAUSES),
    ]


def compile_of(found: Found) -> list[str]:
    """Cells of the table of compile work within steps, milliseconds."""
    spent = [us / 1000 for us in found["compile_us"] if us]
    counts = found["events"]
    steps = len(found["times"])
    return [
        f"{counts.get('Selected', 0)}",
        f"{counts.get('Spliced', 0)}",
        f"{len(spent) / steps:.1%}",
        f"{mean(spent):.3f}" if spent else "-",
        f"{percentile(spent, 0.99):.3f}" if spent else "-",
        f"{percentile([us / 1000 for us in found['compile_us']], 0.99):.3f}",
    ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.dynamic")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rival-steps", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", nargs="+", choices=[peer.name for peer in PEERS], default=[peer.name for peer in PEERS])
    options = parser.parse_args()
    if min(options.steps, options.rival_steps) <= FIRST:
        parser.error(f"at least {FIRST + 1} steps, since the first {FIRST} are not compared with warm ones")
    found: dict[str, list[list[Found]]] = {}  # by peer: of each run, by workload
    for peer in cases("dynamic shapes", PEERS):
        if peer.name not in options.peers:
            continue
        steps, runs = (options.rival_steps, 1) if peer.name in COMPILERS else (options.steps, options.runs)
        try:
            found[peer.name] = [measure(peer, steps) for _ in range(runs)]
        except PeerError as error:
            print(f"{peer.name}: left out: {error}")
    for k, name in enumerate(f["workload"] for f in next(iter(found.values()), [[]])[0]):
        heading(f"{name}: us per step", "", ["steps", "sizes", "median", "P99", "P99 / median", "longest, ms", "step / warm"])
        for peer_name, runs in found.items():
            line(peer_name, times_of(middle([run[k] for run in runs])))
        by = ["by the wall", "by the CPU", "not switched", "in every run", *CAUSES]
        heading(f"{name}: steps over {SLOW} times warm", "", by)
        for peer_name, runs in found.items():
            line(peer_name, slow_of([run[k] for run in runs]))
    heading(
        "BCVM: compile work within steps, ms",
        "",
        ["selections", "splices", "of the steps", "mean", "P99 of those", "P99 of all steps"],
    )
    for k, run in enumerate(found.get("BCVM", [[]])[0]):
        line(run["workload"], compile_of(middle([other[k] for other in found["BCVM"]])))


def middle(runs: list[Found]) -> Found:
    """The run whose median step is the median of all runs."""
    return sorted(runs, key=lambda run: median(run["times"]))[len(runs) // 2]


if __name__ == "__main__":
    main()
