"""resnet18 and a BERT-base encoder, batch and size changing: `python -m tests.bench.networks [--cpu] [--only PARTS] [name ...]`.

Every peer is a worker in an environment of its own (`tests.bench.peers`) with the same weights and inputs: the same MindSpore Cells
under BCVM, in PyNative mode (synchronous) and by `ms.jit` (`dynamic=1`), torch eager, and the encoder as a jitted function over
arrays. In each round all of them measure one after the other; the median of the rounds counts, and ratios are those of medians.
`--cpu`: everybody on one core, and the processor's time of each process, which other work on the machine leaves alone. Parts: `warm`;
`first`, single calls with sizes that nobody has met, beside warm calls of the same size; `memory`, by how much each process has grown
at its peak since its network was built.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import numpy as np

from tests.bench.fusion import Options, each, heading, line
from tests.bench.peers.environments import BY_NAME, Process, Program, start
from tests.bench.progress import cases

SIZES = {"bert": (16, 32, 64, 128), "resnet18": (64, 128, 224)}
NEW = {"bert": ((1, 23), (2, 45), (1, 77), (4, 101), (3, 51)), "resnet18": ((1, 80), (2, 96), (1, 144), (3, 112), (1, 176))}
BATCHES = (1, 2, 4)
OURS = ("BCVM", "BCVM function")
PEERS = {"BCVM": "bcvm", "BCVM function": "function", "PyNative": "pynative", "ms.jit": "graph", "torch eager": "torch"}


def programs(threads: int) -> tuple[str, ...]:
    """Those who take part, known to `environments` by name."""
    for name, word in PEERS.items():
        requires = ("torch", "numpy") if word == "torch" else ()
        own = "" if word == "torch" else "bcvm_core" if name in OURS else "mindspore"
        BY_NAME[name] = Program(name, "networks_worker", requires, (word, str(threads)), own)
    return tuple(PEERS)


def compared(samples: dict[str, Any]) -> str:
    """The largest difference of anybody's result from torch's (or the first one's), relative to its root mean square."""
    truth = np.array(samples.get("torch eager") or next(iter(samples.values())))
    size = np.sqrt(np.mean(truth**2))
    return f"{max(float(np.max(np.abs(np.array(s) - truth))) / size for s in samples.values()):.0e}"


def warm(network: str, workers: list[Process], options: Options, clock: int) -> None:
    """Warm calls, milliseconds, and how many times as long as BCVM's others take."""
    names = [w.program.name for w in workers]
    heading(f"{network}, warm, ms", "batch, size", [*names, *(f"{n}/BCVM" for n in names if n not in OURS), "apart"])
    for size in SIZES[network]:
        for batch in BATCHES:
            where = {"batch": batch, "size": size}
            samples = each(workers, lambda w, where=where: w.ask("settle", calls=3, **where), options)
            rounds = [each(workers, lambda w, where=where: w.ask("round", calls=3, **where), options) for _ in range(options.rounds)]
            times = {n: median(r[n][clock] for r in rounds) / 1e6 for n in names if all(n in r for r in rounds)}
            ratios = [f"{times[n] / times['BCVM']:.2f}" if n in times and "BCVM" in times else "-" for n in names if n not in OURS]
            line(f"{batch}, {size}", [*(f"{times[n]:.2f}" if n in times else "-" for n in names), *ratios, compared(samples)])


def first(network: str, workers: list[Process], options: Options, clock: int) -> None:
    """First calls with sizes never met, beside warm ones, milliseconds; in brackets their quotient."""
    names = [w.program.name for w in workers]
    heading(f"{network}, first call of a size / warm, ms", "batch, size", names)
    for batch, size in NEW[network]:
        where = {"batch": batch, "size": size}
        new = each(workers, lambda w, where=where: w.ask("once", **where), options)
        each(workers, lambda w, where=where: w.ask("settle", calls=2, **where), options)
        rounds = [each(workers, lambda w, where=where: w.ask("round", calls=3, **where), options) for _ in range(3)]
        cells = []
        for name in names:
            if name in new and all(name in r for r in rounds):
                a, b = new[name][clock] / 1e6, median(r[name][clock] for r in rounds) / 1e6
                cells.append(f"{a:.1f}/{b:.1f} ({a / b:.2f})")
        line(f"{batch}, {size}", cells)


def memory(network: str, workers: list[Process], options: Options) -> None:
    """By how much the processes have grown at their peak, after all sizes up to these."""
    heading(f"{network}, growth of the process at its peak, MB", "batch, size", [w.program.name for w in workers])
    for batch in (1, 4):
        size = SIZES[network][-1]
        each(workers, lambda w, batch=batch, size=size: w.ask("settle", calls=1, batch=batch, size=size), options)
        found = each(workers, lambda w: w.ask("grown"), options)
        line(f"{batch}, {size}", [f"{v / 1e6:.1f}" for v in found.values()])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.networks")
    parser.add_argument("--cpu", action="store_true", help="one core, processor time")
    parser.add_argument("--layers", type=int, default=12, help="of the encoder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="warm,first,memory")
    parser.add_argument("--without", default="", help="peers to leave out")
    parser.add_argument("name", nargs="*", default=["bert", "resnet18"])
    given = parser.parse_args()
    options, asked, clock = Options(given.rounds), given.only.split(","), int(given.cpu)
    for network in cases("networks", given.name):
        names = tuple(n for n in programs(int(given.cpu)) if n not in given.without.split(","))
        if network != "bert":
            names = tuple(n for n in names if n != "BCVM function")
        workers = start(names, options.left_out)
        print("  " + ", ".join(w.versions for w in workers))
        each(workers, lambda w, network=network: w.ask("build", network=network, layers=given.layers), options)
        if "warm" in asked:
            warm(network, workers, options, clock)
        if "first" in asked:
            if "warm" not in asked:
                each(workers, lambda w: w.ask("settle", calls=3, batch=2, size=64), options)
            first(network, workers, options, clock)
        if "memory" in asked:
            memory(network, workers, options)
        print("  " + "; ".join(f"{n}: {t}" for n, t in each(workers, lambda w: w.ask("counted"), options).items() if t))
        for worker in workers:
            worker.close()


if __name__ == "__main__":
    main()
