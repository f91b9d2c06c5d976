"""Softmax, norms and reductions beside torch and NumPy: `python -m tests.bench.rows [--rounds N] [--only one,all,fused,reductions,types]`.

Every peer is a worker in an environment of its own (`tests.bench.peers`). In each round all of them
measure one after the other; the median of the rounds counts. Beside the wall's clock stands the
time of the processor in the peer's process: on a machine that others use too, only that of one
thread can be trusted.
"""

from __future__ import annotations

import argparse
import math
from statistics import median

from tests.bench.fusion import Options, each, heading, line
from tests.bench.peers.environments import BY_NAME, Process, Program, start
from tests.bench.peers.row_forms import FORMS
from tests.bench.progress import cases

SHAPES = ((1024, 1000), (512, 32000), (4096, 64), (7, 3))
OPS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "logsumexp", "var", "std")
SIZES = ((1000, 1000), (2000, 2000), (4000, 4000))
REDUCTIONS = ("sum", "mean", "var", "prod", "max", "min", "argmax", "any", "cumsum")
Shapes = tuple[tuple[int, ...], ...]
Times = dict[str, tuple[float, float]]


def peers(threads: int, *, compiled: bool = False) -> tuple[str, ...]:
    """The programs that take part, known to `environments` by name; `compiled`: `torch.compile` too."""
    suffix = "one thread" if threads else "all threads"
    made = (
        Program(f"BCVM, {suffix}", "rows_worker", (), ("bcvm", str(threads)), "bcvm_core"),
        Program(f"torch, {suffix}", "rows_worker", ("torch", "numpy"), ("torch", str(threads))),
        Program("NumPy", "rows_worker", (), ("numpy", str(threads)), "numpy"),
        *([Program(f"torch.compile, {suffix}", "rows_worker", ("torch", "numpy"), ("compile", str(threads)))] if compiled else []),
    )
    BY_NAME.update({program.name: program for program in made})
    return tuple(program.name for program in made)


def measure(workers: list[Process], op: str, shape: tuple[int, ...], axis: int | None, dtype: str, options: Options) -> Times:
    """Median (wall, processor) nanoseconds per call."""
    found = [
        each(workers, lambda w: w.ask("row", op=op, shape=shape, dtype=dtype, axis=axis, seconds=options.seconds), options)
        for _ in range(options.rounds)
    ]
    return {w.program.name: tuple(median(r[w.program.name][k] for r in found) for k in range(2)) for w in workers}  # type: ignore[misc]


def _cell(times: Times, name: str) -> str:
    return "-" if name not in times else f"{times[name][0] / 1e3:.2f} ({times[name][1] / 1e3:.2f})"


def rows(options: Options, threads: int, shapes: Shapes = SHAPES, dtype: str = "float32") -> None:
    """Norms and the like over the last axis."""
    names = peers(threads)
    workers = start(names, options.left_out)
    print("  " + ", ".join(w.versions for w in workers))
    heading(f"{dtype}, us by the wall (by the processor)", "op, shape", [*names, "wall: torch/ours", "processor"])
    for shape in cases("rows", shapes):
        for op in OPS:
            times = measure(workers, op, shape, -1, dtype, options)
            ratios = [f"{times[names[1]][k] / times[names[0]][k]:.2f}" for k in range(2)] if names[1] in times else []
            line(f"{op} {shape}", [*(_cell(times, name) for name in names), *ratios])
    for worker in workers:
        worker.close()


def fused(options: Options, threads: int = 1, shapes: Shapes = SHAPES, dtype: str = "float32") -> None:
    """Elementwise ops with reductions and norms among them."""
    names = peers(threads, compiled=True)
    workers = start(names, options.left_out)
    print("  " + ", ".join(w.versions for w in workers))
    heading(f"{dtype}, us by the processor", "form, shape", [*names, "torch/ours", "compile/ours", "NumPy/ours"])
    for shape in cases("rows", shapes):
        for form in FORMS:
            times = measure(workers, form, shape, None, dtype, options)
            cells = [f"{times[n][1] / 1e3:.2f}" if n in times else "-" for n in names]
            ratios = [f"{times[names[k]][1] / times[names[0]][1]:.2f}" if names[k] in times else "-" for k in (1, 3, 2)]
            line(f"{form} {shape}", [*cells, *ratios])
    for worker in workers:
        worker.close()


def reductions(options: Options, dtype: str = "float32") -> None:
    """Reductions of everything and of the first axis, as a share of the bandwidth of a copy by NumPy (bytes read and written)."""
    names = peers(1)
    workers = start(names, options.left_out)
    heading(f"{dtype}, us by the wall (by the processor)", "op, shape, axis", [*names, "of copy bandwidth", "processor: torch/ours"])
    for shape in SIZES:
        copy = measure(workers[-1:], "copy", shape, None, dtype, options)["NumPy"][1]
        line(f"copy {shape}", ["", "", f"{copy / 1e3:.1f}"])
        for op in REDUCTIONS:
            for axis in (None, 0):
                times = measure(workers, op, shape, axis, dtype, options) if (op, axis) != ("cumsum", None) else {}
                if names[0] not in times:
                    continue
                ours = times[names[0]][1]
                passes = 2 if op in ("var", "cumsum") else 1  # var must read twice, cumsum writes as well
                ratio = f"{times[names[1]][1] / ours:.2f}" if names[1] in times else "-"
                line(f"{op} {math.prod(shape):.0e} {axis}", [*(_cell(times, n) for n in names), f"{passes * copy / 2 / ours:.2f}", ratio])
    for worker in workers:
        worker.close()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="one,all,fused,reductions,types")
    parser.add_argument("--rows", type=int, action="append", help="only shapes of so many rows (1024, 512, 4096, 7)")
    options = parser.parse_args()
    asked, settings = options.only.split(","), Options(options.rounds, 0.02)
    shapes = tuple(shape for shape in SHAPES if not options.rows or shape[0] in options.rows)
    if "one" in asked:
        rows(settings, 1, shapes)
    if "all" in asked:
        rows(settings, 0, shapes)
    if "fused" in asked:
        fused(settings, 1, shapes)
    if "reductions" in asked:
        reductions(settings)
    if "types" in asked:
        for dtype in ("float64", "float16"):
            rows(settings, 1, shapes, dtype)


if __name__ == "__main__":
    main()
