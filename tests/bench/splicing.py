"""How long BCVM takes for what it has never seen, and where: `python -m tests.bench.splicing [--functions N] [--graphs N]`.

Distances to the first result, each for functions that all differ in their six ops: from a
segment and its arguments (the splice), from a linked function (plan, splice, call), and from a
Python function (source, regions, compile, plan, splice, call). The table under them gives the parts
of the last one, each without the parts in it. "cpu" is the time of the processor, which a busy
machine does not stretch; "wall" is what the user waits.
"""

from __future__ import annotations

import argparse
import functools
import gc
import linecache
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np

import bcvm_core as bcvm
from bcvm_core.codegen.stencils import kernel, region_entry, splice
from bcvm_core.frontend import source
from bcvm_core.frontend.lowering import RegionLowerer
from bcvm_core.fusion import segments
from bcvm_core.tiers.fuse import FusedSite
from bcvm_core.vm import former, linked, plan, region, runs, twin
from tests.bench.peers import sources
from tests.bench.progress import cases

SHAPE = (64, 64)
GRAPHS, FUNCTIONS = 400, 150
_clock = time.thread_time_ns

PARTS: tuple[tuple[str, Any, str], ...] = (
    ("source found", source, "_index_of"),
    ("source checked", source, "_in_text"),
    ("Linker.__init__", linked.Linker, "__init__"),
    ("Linker.link", linked.Linker, "link"),
    ("scope analysed", former.Former, "__init__"),
    ("runs found", runs.RunFormer, "block"),
    ("runs emitted", runs.RunFormer, "_emit_run"),
    ("run lowered", RegionLowerer, "statement"),
    ("program finished", RegionLowerer, "finish"),
    ("compiled", twin, "compile_like"),
    ("constants put in", twin, "put_constants"),
    ("region bound", region.Region, "bind_as"),
    ("plan written", plan.PlanWriter, "source"),
    ("steps run", region.RegionRunner, "__call__"),
    ("kernel made", FusedSite, "_prepare"),
    ("graph lowered", kernel, "lower"),
    ("form packed", splice.Splicer, "form"),
    ("stencils spliced", splice.Splicer, "splice"),
    ("native site made", region_entry.NativeSite, "__init__"),
)


def arguments() -> tuple[Any, Any]:
    """The two arrays of all functions."""
    rng = np.random.default_rng(5)
    return rng.uniform(-2, 2, SHAPE).astype(np.float32), rng.uniform(-2, 2, SHAPE).astype(np.float32)


def plain(seed: int) -> Callable[..., Any]:
    """A function that nobody has seen, with its source where `inspect` looks for it."""
    text = "import numpy as np\n" + sources.generated(seed, sources.NUMPY)
    name = f"<never seen {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    function: Callable[..., Any] = namespace["f"]
    return function


Times = tuple[float, float]  # milliseconds: by the clock on the wall, and of the processor


def timed(call: Callable[..., Any], *args: Any) -> Times:
    """The times of one call."""
    cpu, start = time.thread_time_ns(), time.perf_counter_ns()
    call(*args)
    end = time.perf_counter_ns()
    return (end - start) / 1e6, (time.thread_time_ns() - cpu) / 1e6


def percentile(times: list[float], share: float) -> float:
    """The smallest figure that this share of the others does not exceed."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def segment_of(function: Any) -> segments.Segment:
    """The one segment of a linked function's one region."""
    (site,) = function.__bcvm__.table.live
    (found,) = segments.find(site.code.program)
    return found


def first_splices(seeds: list[int]) -> list[Times]:
    """From segments to results, one after the other."""
    x, b = arguments()
    sites = [FusedSite(segment_of(bcvm.jit(plain(seed)))) for seed in seeds]
    times = [timed(site, *(x, b)[: len(site.segment.inputs)]) for site in sites]
    assert all(site.calls == 1 for site in sites), {p.reason for site in sites for p in site.patterns.values()}
    return times


def splices_between(seeds: list[int]) -> list[Times]:
    """The same, each right after its function was linked: nothing of the splicer is in the processor's caches any more."""
    x, b = arguments()
    out = []
    for seed in seeds:
        site = FusedSite(segment_of(bcvm.jit(plain(seed))))
        out.append(timed(site, *(x, b)[: len(site.segment.inputs)]))
    return out


def first_runs(seeds: list[int]) -> list[Times]:
    """From linked functions to results."""
    x, b = arguments()
    linked_functions = [bcvm.jit(plain(seed)) for seed in seeds]
    return [timed(function, x, b) for function in linked_functions]


def first_calls(seeds: list[int]) -> list[Times]:
    """From Python functions to results."""
    x, b = arguments()
    functions = [plain(seed) for seed in seeds]
    return [timed(lambda f=function: bcvm.jit(f)(x, b)) for function in functions]


# -- where the time goes -----------------------------------------------------------------------------


class Profile:
    """Time per part, without the parts called from it."""

    def __init__(self) -> None:
        self.own: dict[str, list[float]] = {}
        self._open: list[list[float]] = []

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            self._open.append([0.0])
            start = _clock()
            try:
                return function(*args, **kwargs)
            finally:
                took = _clock() - start
                (inside,) = self._open.pop()
                if self._open:
                    self._open[-1][0] += took
                self.own.setdefault(name, [0.0])[-1] += took - inside

        return measured

    def next(self) -> None:
        """The next function begins."""
        for times in self.own.values():
            times.append(0.0)


@contextmanager
def profiled() -> Iterator[Profile]:
    """All parts are measured meanwhile (and all are slower by that)."""
    profile = Profile()
    kept = [(owner, name, owner.__dict__[name]) for _, owner, name in PARTS if name in owner.__dict__]
    for title, owner, name in PARTS:
        if name in owner.__dict__:
            setattr(owner, name, profile.wrap(title, getattr(owner, name)))
    try:
        yield profile
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


def parts(seeds: list[int]) -> Iterator[str]:
    """A line per part."""
    x, b = arguments()
    functions = [plain(seed) for seed in seeds]
    totals = []
    with profiled() as profile:
        for function in functions:
            profile.next()
            totals.append(timed(lambda f=function: bcvm.jit(f)(x, b))[1])
    mean, known = sum(totals) / len(totals), 0.0
    for title, _, _ in PARTS:
        part = sum(profile.own.get(title, ())) / len(totals) / 1e6
        known += part
        yield f"    {title:<20}{part:>9.3f}{part / mean:>8.0%}"
    yield f"    {'the rest':<20}{mean - known:>9.3f}{1 - known / mean:>8.0%}"
    yield f"    {'all':<20}{mean:>9.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.splicing")
    parser.add_argument("--functions", type=int, default=FUNCTIONS)
    parser.add_argument("--graphs", type=int, default=GRAPHS)
    options = parser.parse_args()
    if not bcvm.ready():
        print("splicing: left out, there are no stencils for this machine")
        return
    graphs, functions = options.graphs, options.functions
    seeds = sources.distinct_seeds(0, 2 * graphs + 3 * functions)
    head = f"{'to the first result on 64 x 64 float32, ms':<46}{'count':>6}"
    print(head + "".join(f"{clock:>10}{'median':>9}{'P99':>9}{'most':>9}" for clock in ("wall 1st", "cpu 1st")))
    rounds: tuple[tuple[str, Callable[[list[int]], list[Times]], int], ...] = (
        ("from a verified segment and its arguments", first_splices, graphs),
        ("the same, each after other work", splices_between, graphs),
        ("from a linked function and its arguments", first_runs, functions),
        ("from a Python function of six ops", first_calls, functions),
    )
    for what, measure, count in cases("splicing", rounds):
        own, seeds = seeds[:count], seeds[count:]
        gc.collect()
        wall, cpu = ([t[k] for t in measured] for measured in [measure(own)] for k in (0, 1))
        figures = "".join(f"{t[0]:>10.3f}{median(t):>9.3f}{percentile(t, 0.99):>9.3f}{max(t):>9.3f}" for t in (wall, cpu))
        print(f"{what:<46}{count:>6}{figures}", flush=True)
    print("  parts of the last: mean cpu ms, with the cost of measuring them")
    for line in parts(seeds):
        print(line)


if __name__ == "__main__":
    main()
