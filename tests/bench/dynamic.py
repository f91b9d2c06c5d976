"""Workloads whose sizes and branches change at every step.

`python -m tests.bench.dynamic [--steps N] [--rival-steps N] [--peers NAME ...]`

A detector with changing batch, number of places and channels, a block of a language model with random lengths, and a
conditional generator, each in words of the library that runs it. Two tables: what a step takes, and beside what a warm call of
its own size takes; then what BCVM compiled within steps, in milliseconds. Compilers that work per shape get fewer steps.
"""

from __future__ import annotations

import argparse
import json
import subprocess
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
        f"{sum(ratio > 3 for ratio in over)}",
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
    parser.add_argument("--peers", nargs="+", choices=[peer.name for peer in PEERS], default=[peer.name for peer in PEERS])
    options = parser.parse_args()
    if min(options.steps, options.rival_steps) <= FIRST:
        parser.error(f"at least {FIRST + 1} steps, since the first {FIRST} are not compared with warm ones")
    found: dict[str, list[Found]] = {}
    for peer in cases("dynamic shapes", PEERS):
        if peer.name not in options.peers:
            continue
        try:
            found[peer.name] = measure(peer, options.rival_steps if peer.name in COMPILERS else options.steps)
        except PeerError as error:
            print(f"{peer.name}: left out: {error}")
    for k, name in enumerate(f["workload"] for f in next(iter(found.values()), [])):
        heading(
            f"{name}: us per step",
            "",
            ["steps", "sizes", "median", "P99", "P99 / median", "longest, ms", "step / warm", "over 3 times warm"],
        )
        for peer_name, runs in found.items():
            line(peer_name, times_of(runs[k]))
    heading(
        "BCVM: compile work within steps, ms",
        "",
        ["selections", "splices", "of the steps", "mean", "P99 of those", "P99 of all steps"],
    )
    for run in found.get("BCVM", []):
        line(run["workload"], compile_of(run))


if __name__ == "__main__":
    main()
