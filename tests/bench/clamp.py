"""A batch that fluctuates, with clamping and without: `python -m tests.bench.clamp [--rivals]`.

Versions that are made per size: oneDNN's convolutions, and recompiled kernels where they are for one shape each (`specialise="shape"`); by
default they are for a class of sizes. Batches are drawn at random from 1 to 32. First calls are those that met a new size.

`--rivals`: a small network on batches of 1 to 12 by compilers that work per shape, batches as they come and filled up by hand, and by BCVM.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import bcvm_core as bcvm
from bcvm_core import ops
from bcvm_core.codegen.onednn import primitives
from bcvm_core.codegen.stencils import arena
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.kernel import FusedKernel
from bcvm_core.tiers import hot, recompile
from tests.bench.fusion import heading, line
from tests.bench.peers.environments import PeerError, Program, environment_of, interpreter
from tests.bench.progress import cases

STEPS, ROUNDS = 400, 3
RIVAL_STEPS, RIVAL_MOST = 120, 12
WORKER = Path(__file__).parent / "peers" / "clamp_worker.py"
RULE = (1, 32, 4)


def batches(seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(1, 33, STEPS).tolist()


def convolutions() -> tuple[int, float, float, float]:
    """(primitives, median us per image of a first call, of a later one, ms of all calls) of a network's convolution."""
    weight = np.ones((64, 32, 3, 3), np.float32)
    images = np.ones((32, 14, 14, 32), np.float32)
    ops.conv2d(images[:1], weight, layout="NHWC", padding=1)
    primitives.forget()
    first, later, total = [], [], 0.0
    for n in batches():
        before = primitives.figures()["primitives"]
        started = time.thread_time_ns()
        ops.conv2d(images[:n], weight, layout="NHWC", padding=1)
        spent = (time.thread_time_ns() - started) / 1000
        total += spent
        (first if primitives.figures()["primitives"] > before else later).append(spent / n)
    return primitives.figures()["primitives"], median(first), median(later), total / 1000


def versions(specialise: str) -> tuple[int, int, int]:
    """(searches, versions in use, bytes of their code) of a kernel that any candidate may replace."""
    from bcvm_core.tiers import race

    race.ENOUGH, known = 10.0, race.ENOUGH  # what is counted is versions, not what they gain
    graph = FusedGraph((Input("float32"),) * 2, (Node("add", (0, 1)), Node("maximum", (2, Const(0)))), (3,))
    kernel = FusedKernel(graph)
    gc.collect()
    used, searches = arena.shared().used_bytes, recompile.figures.searches
    x = np.ones((32, 4096), np.float32)
    with bcvm.override(hot_threshold_ms=0.0, specialise=specialise):
        hot.forget()
        hot.watch(kernel, ("add", "maximum"))
        for seed in range(ROUNDS):
            for n in batches(seed):
                kernel([x[:n], x[:n]])
                recompile.wait()
                recompile.figures.worker_cpu_s = 0.0
    race.ENOUGH = known
    gc.collect()
    classes: list[Any] = list(kernel.heat.classes.values()) if kernel.heat is not None else []
    in_use = sum(found.code is not None for found in classes)
    return recompile.figures.searches - searches, in_use, arena.shared().used_bytes - used


def rivals() -> None:
    """Compiles, memory and time of each, with batches as they come and filled up."""
    peers = (
        Program("BCVM", "clamp_worker", (), ("bcvm",), "bcvm_core"),
        Program("torch.compile, dynamic=False", "clamp_worker", ("torch", "numpy"), ("torch",)),
        Program("JAX jit", "clamp_worker", ("jax",), ("jax",)),
        Program("ms.jit", "clamp_worker", ("mindspore==2.10.*", "numpy<2"), ("mindspore",), "mindspore"),
    )
    heading(
        f"{RIVAL_STEPS} batches of 1 to {RIVAL_MOST}", "", ["sizes", "compiles", "memory, MB", "all calls, ms", "longest, ms", "median, ms"]
    )
    for peer in peers:
        for step in (0, RULE[2]):
            try:
                found = _rival(peer, step)
            except PeerError as error:
                print(f"{peer.name}: left out: {error}")
                break
            times, slow = found["times"], 10 * median(found["times"])
            compiles = found["compiles"] if found["compiles"] is not None else f"{sum(took > slow for took in times)} slow"
            cells = [f"{found['sizes']}", f"{compiles}", f"{found['kb'] / 1024:.1f}"]
            cells += [f"{sum(times):.0f}", f"{max(times):.0f}", f"{median(times):.3f}"]
            line(f"{peer.name}{', filled up' if step else ''}", cells)


def _rival(peer: Program, step: int) -> dict[str, Any]:
    """What a worker found. Raises PeerError."""
    command = [interpreter(peer), str(WORKER), *peer.arguments, str(RIVAL_STEPS), str(RIVAL_MOST), str(step)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment_of(peer), timeout=900)
    if done.returncode:
        raise PeerError([f"ended with {done.returncode}", *done.stderr.strip().splitlines()][-1][:160])
    found: dict[str, Any] = json.loads(next(text for text in done.stdout.splitlines() if text.startswith("{")))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.clamp")
    parser.add_argument("--rivals", action="store_true")
    if parser.parse_args().rivals:
        rivals()
        return
    if not bcvm.ready():
        print("clamp: left out, there are no stencils for this machine")
        return
    for title, rule in cases("clamp", (("without", None), (f"clamp_batch_size{RULE}", RULE))):
        clamp = None if rule is None else bcvm.clamp_batch_size(*rule)
        made, first, later, total = convolutions()
        print(f"{title}: {made} convolutions, us per image: first calls {first:.1f}, later {later:.1f}; all {STEPS} calls {total:.0f} ms")
        for specialise in ("shape", "class"):
            searches, in_use, size = versions(specialise)
            print(f"  recompiled per {specialise}: {searches} searches, {in_use} versions in use, {size:,} bytes of code")
        if clamp is not None:
            clamp.remove()


if __name__ == "__main__":
    main()
