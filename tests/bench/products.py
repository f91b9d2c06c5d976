"""Products by weights and what follows them, beside torch and NumPy: `python -m tests.bench.products [--rounds N] [--threads 1]`.

Sizes are those of BERT-base. Every peer is a worker in an environment of its own (`tests.bench.peers`). In each round all of them
measure one after the other; the median of the rounds counts, by the clock of the processor for one thread and by the wall's for all.
"""

from __future__ import annotations

import argparse
from statistics import median

from tests.bench.fusion import Options, each, heading, line
from tests.bench.peers.environments import BY_NAME, Program, start
from tests.bench.progress import cases

WEIGHTS = ((768, 768), (768, 3072), (3072, 768))  # (in, out)
ROWS = (1, 16, 128, 512)
TAILS = ("none", "gelu", "relu", "residual")


def peers(threads: int) -> tuple[str, ...]:
    """The programs that take part, known to `environments` by name."""
    ways = ("apart", "fused", "reproducible")
    made = [Program(f"BCVM {way}", "products_worker", (), (way, str(threads)), "bcvm_core") for way in ways]
    made.append(Program("torch eager", "products_worker", ("torch", "numpy"), ("torch", str(threads))))
    made.append(Program("NumPy text", "products_worker", (), ("numpy", str(threads)), "numpy"))
    BY_NAME.update({program.name: program for program in made})
    return tuple(program.name for program in made)


def table(options: Options, threads: int, tails: list[str], rows: list[int]) -> None:
    """Microseconds per call, and torch's time over that of the fused form."""
    names = peers(threads)
    workers = start(names, options.left_out)
    clock = 1 if threads == 1 else 0
    print("  " + ", ".join(w.versions for w in workers))
    heading(f"float32, us by {'the processor' if clock else 'the wall'}", "weight, rows, tail", [*names, "torch/fused"])
    for depth, columns in cases("products", WEIGHTS):
        for count in rows:
            for tail in tails:
                asked = {"tail": tail, "rows": count, "depth": depth, "columns": columns, "seconds": options.seconds}
                found = [each(workers, lambda w, asked=asked: w.ask("product", **asked), options) for _ in range(options.rounds)]  # type: ignore[misc]
                times = {n: median(r[n][clock] for r in found) for n in names if n in found[-1]}
                ratio = f"{times[names[3]] / times[names[1]]:.2f}" if names[3] in times and names[1] in times else "-"
                line(f"{depth}x{columns} {count} {tail}", [*(f"{times[n] / 1e3:.1f}" if n in times else "-" for n in names), ratio])
    for worker in workers:
        worker.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="1, or 0 for all")
    parser.add_argument("--tails", default=",".join(TAILS))
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    options = parser.parse_args()
    table(Options(options.rounds, 0.01), options.threads, options.tails.split(","), [int(n) for n in options.rows.split(",")])


if __name__ == "__main__":
    main()
