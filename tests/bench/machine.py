"""Predicted and measured times of kernels, all candidates of each decision: `python -m tests.bench.machine [--again]`.

Figures are those measured here (`--again`: now). Candidates of one group are run in turn, round by round, on the same operands; the
median of the rounds counts. "*" marks the choice. On a machine that others use too, processor time says more than the wall's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from bcvm_core.codegen import loops
from bcvm_core.codegen.stencils import library
from bcvm_core.codegen.stencils.graph import Input
from bcvm_core.codegen.stencils.kernel import FusedKernel
from bcvm_core.frontend.annotations import TensorSpec
from bcvm_core.fusion import decisions, machines, splits
from bcvm_core.fusion.segments import Segment, find
from bcvm_core.lower import lower
from bcvm_core.ops import registry
from bcvm_core.tiers import large
from bcvm_core.tiers.graphs import graph_of, layout_of
from bcvm_core.tiers.select import CallSite
from tests.bench import progress

ROUNDS, BATCH_NS = 9, 2_000_000
Case = tuple[str, Callable[..., Any], list[Any]]


def rng_array(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(0).random(shape).astype(dtype)


def relu_add_sigmoid(x: Any, b: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-(np.maximum(x, 0.0) + b)))


def normalise(x: Any, m: Any, v: Any) -> Any:
    return (x - m) / np.sqrt(v + 1e-5)


def gated(x: Any, row: Any) -> Any:
    return x * np.tanh(np.exp(row) + 1.0)


def scale_shift(x: Any) -> Any:
    return x * 2.0 + 1.0


def cases() -> list[Case]:
    """(name, function, operands)."""
    out: list[Case] = []
    for shape in ((1, 64, 1, 1), (8, 64, 56, 56), (32, 64, 224, 224)):
        out.append((f"relu-add-sigmoid {shape}", relu_add_sigmoid, [rng_array(*shape), rng_array(1, 64, 1, 1)]))
    for n in (1_000, 100_000, 10_000_000):
        out.append((f"x * 2 + 1, {n:,}", scale_shift, [rng_array(n)]))
    for dtype in ("float32", "float64"):
        out.append((f"x * tanh(exp(row) + 1), {dtype}", gated, [rng_array(2000, 1000, dtype=dtype), rng_array(1000, dtype=dtype)]))
        columns = [rng_array(2000, 1, dtype=dtype) for _ in range(2)]
        out.append((f"(x - m) / sqrt(v + e), {dtype}", normalise, [rng_array(2000, 1000, dtype=dtype), *columns]))
    return out


def segment_of(function: Callable[..., Any], operands: list[Any]) -> tuple[Segment, list[Any]]:
    """The one segment of a function of arrays, and the operands in its order."""
    program = lower(function, *[TensorSpec(str(x.dtype), list(x.shape)) for x in operands])
    loaded = [i.operands[0] for i in program.instructions if i.opcode == "LOAD_TENSOR"]
    (found,) = find(program)
    return found, [operands[loaded.index(register)] for register in found.inputs]


def one_by_one(segment: Segment) -> Callable[[Any, Any], Any]:
    """The ops by the kernels that run them singly."""
    sites = [CallSite(op.op) for op in segment.ops]

    def run(_kernel: Any, given: Any) -> Any:
        values = dict(zip(segment.inputs, given, strict=True))
        for site, op in zip(sites, segment.ops, strict=True):
            values[op.dest] = site(*[values[p] if isinstance(p, int) else p.value for p in op.operands], **dict(op.attrs))
        return values[segment.outputs[0]]

    return run


def timed(calls: list[Callable[[], Any]]) -> list[tuple[float, float]]:
    """Nanoseconds per call, each by the median of interleaved rounds: on the wall, and of the processor (of all threads)."""
    counts = []
    for call in calls:
        call()
        started = time.perf_counter_ns()
        call()
        counts.append(max(1, int(BATCH_NS / max(1, time.perf_counter_ns() - started))))
    samples: list[list[tuple[float, float]]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, count, into in zip(calls, counts, samples, strict=True):
            wall, processor = time.perf_counter_ns(), time.process_time_ns()
            for _ in range(count):
                call()
            into.append(((time.perf_counter_ns() - wall) / count, (time.process_time_ns() - processor) / count))
    return [(median(wall for wall, _ in found), median(cpu for _, cpu in found)) for found in samples]


def show(name: str, decision: decisions.Decision, took: list[tuple[float, float]]) -> None:
    for candidate, (wall, processor) in zip(decision.candidates, took, strict=True):
        mark = "*" if candidate is decision.chosen else " "
        predicted = candidate.predicted_ns
        times = f"{predicted / 1000:12.2f}{wall / 1000:12.2f}{processor / 1000:12.2f}{wall / predicted:8.2f}{processor / predicted:8.2f}"
        print(f"{name:<34}{mark} {candidate.name:<24}{times}  {candidate.reason}", flush=True)
        name = ""


def elementwise(figures: machines.InForce) -> None:
    """The decisions that are carried out: every candidate, forced."""
    for name, function, given in progress.cases("machine model", cases()):
        segment, operands = segment_of(function, given)
        group = large.group_of(segment, large.describe(operands))
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        inputs = [Input(str(x.dtype), layout_of(x, shape)) for x in operands]
        kernel = FusedKernel(graph_of(segment, inputs))
        limit = large.limit_of(kernel, segment, figures)
        small = int(np.prod(shape)) <= limit
        decision = splits.decide(group, figures, same_bits=True, at_once=limit, runs=True)
        runs: list[Callable[[], Any]] = []
        for candidate in decision.candidates:
            run = one_by_one(segment) if candidate.name == splits.ONE_BY_ONE else large.carry_out(segment, candidate, operands)
            whole = candidate.name == splits.WHOLE and small
            entry = kernel.entry
            runs.append((lambda e=entry, o=operands: e(*o)) if whole else (lambda r=run, k=kernel, o=operands: r(k, o)))
        show(name, decision, timed(runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="measure the machine now")
    options = parser.parse_args()
    registry.rows() or registry.load_families()
    for width in (4, 8):
        library.family(width)
    loops.wait()
    machine, _ = machines.measured(again=options.again)
    print(machine.text())
    head = "".join(f"{text:>12}" for text in ("predicted us", "wall us", "CPU us")) + f"{'wall/':>8}{'CPU/':>8}"
    print(f"\n{'group':<34}  {'candidate':<24}{head}")
    elementwise(machines.InForce(machine, "measured"))


if __name__ == "__main__":
    main()
