"""Fused kernels beside everybody else's: `python -m tests.bench.fusion [--only first,warm,...] [--without NAME] [--one-core]`.

Every peer is a worker in an environment of its own (`tests.bench.peers`), with the same inputs and
expressions. In each round all of them measure once, one after the other; the median of the rounds counts,
and ratios are those of medians. Peers that cannot be installed are left out, with a line that says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from tests.bench.peers import sources
from tests.bench.peers.environments import PROGRAMS, PeerError, Process, start
from tests.bench.progress import cases

ARRAY_PEERS = ("BCVM", "NumPy", "numexpr", "numba", "JAX jit", "torch eager", "torch.compile")
BOTH_TEXTS = ("BCVM, NumPy's text", *ARRAY_PEERS)
TENSOR_PEERS = ("BCVM on MindSpore", "MindSpore PyNative", "ms.jit")
NEVER_SEEN = {"torch.compile": 1, "ms.jit": 4, "JAX jit": 4, "numba": 2}  # functions per round of those that take long
PAUSE_S = 0.02  # lets a peer's threads come to rest before the next one is measured


@dataclass
class Options:
    """How much is measured, and by whom; `left_out` is why a peer takes no part."""

    rounds: int = 9
    seconds: float = 0.002  # of a batch
    left_out: dict[str, str] = field(default_factory=dict)


def heading(text: str, first: str, columns: list[str]) -> None:
    """The head of a table."""
    print(f"\n{text}\n{first:<24}" + "".join(f"{c:>18}" for c in columns), flush=True)


def line(name: str, cells: list[str]) -> None:
    print(f"{name:<24}" + "".join(f"{c:>18}" for c in cells), flush=True)


def each(workers: list[Process], ask: Callable[[Process], Any], options: Options) -> dict[str, Any]:
    """The answers of all; who fails is left out from now on."""
    answers = {}
    for worker in list(workers):
        try:
            answers[worker.program.name] = ask(worker)
        except PeerError as error:
            options.left_out[worker.program.name] = str(error)
            print(f"left out: {worker.program.name}: {error}", flush=True)
            workers.remove(worker)
            worker.close()
        time.sleep(PAUSE_S)
    return answers


def same_results(samples: dict[str, Any]) -> None:
    """Whoever computes something else, or in another type, is pointed out."""
    if not samples:
        return
    truth = next((samples[name] for name in ("NumPy", "MindSpore PyNative") if name in samples), next(iter(samples.values())))
    for name, found in samples.items():
        if found["dtype"] != truth["dtype"] or not np.allclose(found["sample"], truth["sample"], rtol=1e-4, atol=1e-5):
            print(f"  ! {name} computes something else ({found['dtype']})")


def steady(workers: list[Process], function: str, shape: tuple[int, ...], options: Options) -> dict[str, float]:
    """Nanoseconds per warm call, medians of interleaved rounds."""
    same_results(each(workers, lambda w: w.ask("prepare", case="c", function=function, shape=shape, seconds=options.seconds), options))
    rounds = [each(workers, lambda w: w.ask("round", case="c"), options) for _ in range(options.rounds)]
    each(workers, lambda w: w.ask("forget", case="c"), options)
    return {w.program.name: median(r[w.program.name] for r in rounds) for w in workers}


def alive(names: tuple[str, ...], options: Options) -> list[Process]:
    workers = start(names, options.left_out)
    if workers:
        print("  " + ", ".join(dict.fromkeys(w.versions for w in workers)))
    return workers


# -- the tables -------------------------------------------------------------------------------------


def first(options: Options) -> None:
    """From a never-seen function to its result. "Processor" is time in the peer's own process, without compilers that it starts."""
    for names, shape in ((ARRAY_PEERS, (64, 64)), (TENSOR_PEERS, (64, 64))):
        workers = alive(names, options)
        rounds = max(3, options.rounds - 1)
        seeds = sources.distinct_seeds(1_000_000, 15 * (rounds + 1))
        times: dict[str, list[list[float]]] = {w.program.name: [] for w in workers}
        for k in range(rounds):
            ask = partial(ask_first, seeds[15 * k : 15 * k + 15], shape)
            for name, found in each(workers, ask, options).items():
                times[name] += [[wall / 1e6, cpu / 1e6] for wall, cpu in found]
        heading(
            "From a never-seen function of six ops to its result, ms",
            f"float32 {shape}",
            ["functions", "first of all", "wall: median", "P99", "processor: median", "P99", "to ours"],
        )
        report_first(times)
        for worker in workers:
            worker.close()


def ask_first(seeds: list[int], shape: tuple[int, ...], worker: Process) -> Any:
    """The first calls of as many functions as the peer's pace allows."""
    return worker.ask("first", seeds=seeds[: NEVER_SEEN.get(worker.program.name, len(seeds))], shape=shape)


def report_first(times: dict[str, list[list[float]]]) -> None:
    """Lines of medians; the very first call of a process stands apart."""
    ours = next((median(cpu for _, cpu in t[1:]) for name, t in times.items() if name.startswith("BCVM") and len(t) > 1), float("nan"))
    for name, found in times.items():
        if len(found) < 2:
            continue
        columns = [sorted(t[k] for t in found[1:]) for k in range(2)]
        cells = [str(len(found)), f"{found[0][0]:.1f}"]
        for own in columns:
            cells += [f"{median(own):.3f}", f"{own[int(len(own) * 0.99)]:.2f}" if len(own) >= 50 else f"<= {own[-1]:.2f}"]
        line(name, [*cells, f"{median(columns[1]) / ours:.3f}"])


def warm(options: Options) -> None:
    """Small calls."""
    workers = alive(BOTH_TEXTS, options)
    heading("A warm call, us (ratio to NumPy)", "float32", ["an empty one", "relu(x)+1, 16", "relu(x)+1, 64x64", "chain, 64x64"])
    cases = (("nothing", (16,)), ("relu1", (16,)), ("relu1", (64, 64)), ("chain", (64, 64)))
    table(workers, [steady(workers, f, s, options) for f, s in cases], "NumPy")
    for worker in workers:
        worker.close()
    workers = alive(TENSOR_PEERS, options)
    heading("A warm call, us (ratio to PyNative)", "MindSpore tensors", ["relu(x)+1, 16", "relu(x)+1, 64x64", "chain, 64x64"])
    table(workers, [steady(workers, f, s, options) for f, s in cases[1:]], "MindSpore PyNative")
    for worker in workers:
        worker.close()


def table(workers: list[Process], columns: list[dict[str, float]], base: str) -> None:
    """A line per peer: microseconds, and in brackets the ratio to `base`."""
    for worker in workers:
        name = worker.program.name
        cells = []
        for column in columns:
            ratio = f" ({column[name] / column[base]:.3f})" if name in column and base in column else ""
            cells.append(f"{column[name] / 1e3:.3f}{ratio}" if name in column else "-")
        line(name, cells)


def shapes(options: Options) -> None:
    """New shapes, new patterns."""
    for names in (ARRAY_PEERS, TENSOR_PEERS):
        workers = alive(names, options)
        each(workers, lambda w: w.ask("prepare", case="c", function="chain", shape=(64, 64), seconds=options.seconds), options)
        asked = [(40 + 3 * k % 31, 40 + 5 * k % 37) for k in range(60)]
        early, late = (each(workers, partial(ask_shapes, part), options) for part in (asked[:20], asked[20:]))
        heading(
            "The chain for a new shape of the same pattern: single calls, us, medians",
            "float32",
            ["first 20 shapes", "next 40", "same again", "known shape", "next / known"],
        )
        for worker in workers:
            name = worker.program.name
            if name in late:
                new, again, known = (median(t[k] for t in late[name]) / 1e3 for k in range(3))
                start_ = median(t[0] for t in early[name]) / 1e3
                line(name, [f"{start_:.2f}", f"{new:.2f}", f"{again:.2f}", f"{known:.2f}", f"{new / known:.2f}"])
        patterns(workers, options)
        for worker in workers:
            worker.close()


def ask_shapes(asked: list[tuple[int, int]], worker: Process) -> Any:
    return worker.ask("shapes", case="c", shapes=asked)


def patterns(workers: list[Process], options: Options) -> None:
    """The first call for other ways in which b repeats in x."""
    found = [each(workers, lambda w: w.ask("patterns", function="chain", shape=(64, 64)), options) for _ in range(3)]
    heading(
        "The chain for a new pattern of b: the first call, ms", "x: 64 x 64", ["a row", "a column", "one element", "another rank", "known"]
    )
    for worker in workers:
        name = worker.program.name
        line(name, [f"{median(f[name][k] for f in found) / 1e6:.3f}" for k in range(5)])


def chain(options: Options) -> None:
    """One expression, all sizes."""
    workers = alive(BOTH_TEXTS, options)
    names = [w.program.name for w in workers]
    heading("sigmoid(relu(x+b)*2+1)*tanh(x+b), us (ratio to NumPy)", "float32", names)
    for n in (1_000, 10_000, 100_000, 1_000_000, 10_000_000):
        found = steady(workers, "chain", (n,), options if n < 1_000_000 else replace(options, rounds=min(options.rounds, 5)))
        base = found.get("NumPy", float("nan"))
        line(f"{n:,}", [f"{found[name] / 1e3:.1f} ({found[name] / base:.3f})" if name in found else "-" for name in names])
    for worker in workers:
        worker.close()


def memory(options: Options) -> None:
    """The peak of one call, in fresh processes."""
    elements = 100_000_000
    heading("Peak memory of eight ops on 400 MB, MB", "float32", ["above input", "output", "above both, %"])
    for name in ARRAY_PEERS:
        workers = start((name,), options.left_out)
        for answer in each(workers, lambda w: w.ask("peak", function="eight", elements=elements), options).values():
            over = (answer["peak"] - answer["out"]) / (2 * answer["out"])
            line(name, [f"{answer['peak'] / 1e6:.1f}", f"{answer['out'] / 1e6:.1f}", f"{over:.2%}"])
        for worker in workers:
            worker.close()


def own(module: str) -> Callable[[Options], None]:
    """A benchmark of BCVM alone, in a process of its own."""

    def run(_options: Options) -> None:
        print(flush=True)
        subprocess.run([sys.executable, "-m", module], check=False)

    run.__doc__ = f"What `python -m {module}` prints."
    return run


SECTIONS: dict[str, Callable[[Options], None]] = {
    "splice": own("tests.bench.splicing"),
    "first": first,
    "warm": warm,
    "shapes": shapes,
    "chain": chain,
    "loop": own("tests.bench.llvm_loop"),
    "memory": memory,
    "code": own("tests.bench.code_memory"),
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fusion")
    parser.add_argument("--only", default="", help=f"some of {','.join(SECTIONS)}")
    parser.add_argument("--without", action="append", default=[], choices=[p.name for p in PROGRAMS], help="leave out a peer")
    parser.add_argument("--one-core", action="store_true", help="everybody on one and the same core: steadier on a busy machine")
    parser.add_argument("--quick", action="store_true", help="three short rounds")
    given = parser.parse_args()
    options = Options(3, 0.001) if given.quick else Options()
    options.left_out.update(dict.fromkeys(given.without, "as was asked"))
    if given.one_core:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # workers inherit it
    wanted = [s for s in given.only.split(",") if s] or list(SECTIONS)
    for name in cases("fusion", wanted):
        SECTIONS[name](options)


if __name__ == "__main__":
    main()
