"""Attention of BERT-base beside torch, JAX and MindSpore: `python -m tests.bench.attention [--rounds N] [--only one,all,peak,ways]`.

Twelve heads of 64, float32. Every peer is a worker in an environment of its own (`tests.bench.peers`); in each round all of them measure
one after the other, and the median of the rounds counts: of the processor's time in the peer's process on one thread, of the wall's clock
on all. `ways` runs the alternatives of the decision in one process, in turn.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import numpy as np

from tests.bench.fusion import PAUSE_S, Options, heading, line
from tests.bench.peers.environments import BY_NAME, PeerError, Process, Program, start
from tests.bench.progress import cases

BATCHES, LENGTHS = (1, 4, 16), (16, 64, 128, 512)
Forms = dict[str, Process]


def workers(threads: int, options: Options) -> Forms:
    """The worker of each form of attention."""
    suffix = "one thread" if threads else "all threads"
    count = str(threads)
    made = (
        Program(f"BCVM, {suffix}", "attention_worker", (), ("bcvm", count), "bcvm_core"),
        Program(f"torch, {suffix}", "attention_worker", ("torch", "numpy"), ("torch", count)),
        Program(f"JAX, {suffix}", "attention_worker", ("jax",), ("jax", count)),
        Program(f"MindSpore, {suffix}", "attention_worker", ("mindspore==2.10.*", "numpy<2"), ("mindspore", count), "mindspore"),
    )
    BY_NAME.update({program.name: program for program in made})
    found = start(tuple(program.name for program in made), options.left_out)
    print("  " + ", ".join(w.versions for w in found))
    return {form: w for w in found for form in w.ask("forms")}


def asked(forms: Forms, options: Options, do: str, turn: int = 0, **arguments: Any) -> dict[str, Any]:
    """The answers by form; a form that fails is left out from now on.

    Who is asked first changes with `turn`: some threads go on spinning after a call, and whoever comes next has one core less.
    """
    answers, order = {}, list(forms.items())
    first = turn % len(order)
    for form, worker in order[first:] + order[:first]:
        try:
            answers[form] = worker.ask(do, form=form, **arguments)
        except PeerError as error:
            print(f"left out: {form}: {error}", flush=True)
            options.left_out[form] = str(error)
            del forms[form]
        time.sleep(PAUSE_S)
    return answers


def times(options: Options, threads: int) -> None:
    """Microseconds, and how many times as long the best of the others takes."""
    forms, clock = workers(threads, options), 1 if threads else 0
    columns = list(forms)
    title = "One thread, us of the processor" if threads else "All threads, us by the wall"
    heading(title, "batch, length", [*columns, "best other/ours"])
    for batch in BATCHES:
        for length in LENGTHS:
            arguments = {"batch": batch, "length": length, "seconds": options.seconds}
            rounds = [asked(forms, options, "measure", turn, **arguments) for turn in range(options.rounds)]
            found = {form: median(r[form][clock] for r in rounds) for form in rounds[-1]}
            ratio = min((t for form, t in found.items() if form != "BCVM"), default=float("nan")) / found["BCVM"]
            line(f"{batch}, {length}", [*(f"{found[f] / 1e3:.1f}" if f in found else "-" for f in columns), f"{ratio:.2f}"])
    for worker in set(forms.values()):
        worker.close()


def peaks(options: Options) -> None:
    """Memory at the peak of one call, its result included, in MB."""
    forms = workers(0, options)
    columns = list(forms)
    heading("Peak of a call, MB (the result is the last column)", "batch, length", [*columns, "result"])
    for batch, length in ((1, 512), (4, 512), (16, 512)):
        found = asked(forms, options, "peak", batch=batch, length=length)
        line(
            f"{batch}, {length}", [*(f"{found[f] / 1e6:.1f}" if f in found else "-" for f in columns), f"{batch * length * 3072 / 1e6:.1f}"]
        )
    for worker in set(forms.values()):
        worker.close()


def ways(options: Options) -> None:
    """The alternatives of the decision: one kernel, or all scores first; "*" marks the choice."""
    from bcvm_core.codegen.attention import entry
    from bcvm_core.fusion import groups, splits
    from bcvm_core.fusion.machines import usable
    from bcvm_core.tiers import attending

    heading("Ways to run attention, us: median of the wall", "batch, length, way", ["predicted", "measured", "of the processor"])
    for batch in (1, 16):
        for length in LENGTHS:
            shape = (batch, 12, length, 64)
            q, k, v = (np.random.default_rng(s).standard_normal(shape).astype(np.float32) for s in range(3))
            operands = tuple((x.shape, x.strides) for x in (q, k, v))
            plans = {halves: entry.plan(operands, 4, False, False, entry.ROWS // (1 + halves)) for halves in (False, True)}
            decision = splits.decide(groups.attention(batch, 12, length, 64), usable(), same_bits=True, runs=True)
            spent: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
            for _ in range(max(5, options.rounds * (1 if batch * length > 4096 else 20))):
                for halves, seen in spent.items():
                    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
                    plan = plans[halves]
                    assert plan is not None
                    entry.attend(plan, q, k, v, None, False, 0.125, halves)
                    seen.append((time.perf_counter_ns() - wall, time.process_time_ns() - cpu))
            for halves, name in ((False, splits.WHOLE), (True, attending.HALVES)):
                candidate = next(c for c in decision.candidates if c.name == name)
                mark = " *" if candidate is decision.chosen else ""
                figures = (median(s[k] for s in spent[halves]) / 1e3 for k in range(2))
                line(f"{batch}, {length}, {name}{mark}".ljust(34), [f"{candidate.predicted_ns / 1e3:.0f}", *(f"{t:.0f}" for t in figures)])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.01)
    parser.add_argument("--only", default="one,all,peak,ways")
    given = parser.parse_args()
    options = Options(given.rounds, given.seconds)
    for name, run in (("one", lambda: times(options, 1)), ("all", lambda: times(options, 0))):
        if name in given.only.split(","):
            run()
    for name, table in cases("attention", (("peak", peaks), ("ways", ways))):
        if name in given.only.split(","):
            table(options)


if __name__ == "__main__":
    main()
