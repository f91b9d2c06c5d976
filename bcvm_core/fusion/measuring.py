"""Measures the figures of `machine.Machine`: in a second or so, on machines that others use too.

Every probe runs once per round, for a fraction of a millisecond where its size allows it; the median of the rounds counts (the best one
where several threads work), and rates are taken from the difference of a long and a short call of the same round, so that neither the
call nor a busy neighbour is in them. Nothing here runs unless somebody asks for a measurement.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from ..codegen import loops
from ..codegen.stencils import crew as crews
from ..codegen.stencils import kernel, library, threads
from ..codegen.stencils.driver import driver
from ..codegen.stencils.graph import FusedGraph, Input, Node, NotFusable
from ..dtypes import BY_NAME
from ..ops import registry
from .hardware import cache_sizes, cpu_name, versions
from .machine import Level, Machine

ROUNDS: Final = 7
_BATCH_NS: Final = 60_000  # short beside the time that a scheduler gives to somebody else
_BATCHES: Final = 5
_ONCE_NS: Final = 3_000_000  # longer batches are run once
_SHARE_NS: Final = 120_000_000  # a probe that has taken so long rests after three rounds
_SHORT, _LONG = 4, 20  # multiplications and additions in the chains whose difference is the arithmetic
_ELEMENTS: Final = 1024  # of them: a few KiB, in every nearest cache
_NEAR: Final = 16 << 20  # bytes between which copies in a cache go back and forth, at most
_FAR, _FAR_MAX = 32 << 20, 96 << 20  # in memory: twice the last cache within these
_TYPES: Final = ("float32", "float64", "float16", "bfloat16", "int32", "int64")

_SHARED: Final = ("product.", "copies.")  # on several threads: one stolen core makes all wait, so the best round counts
_BUDGET_NS: Final = 1_500_000_000  # no further round once so much is spent, if there were three
_BINARY: Final = ("multiply", "add", "divide")

Probe = Callable[[], float]  # one measurement: nanoseconds, or a rate


def measure(rounds: int = ROUNDS, progress: Callable[[Sequence[int]], Iterable[int]] = lambda rounds: rounds) -> Machine:
    """The machine as it is now. Stencils that are not there yet are waited for first, for half a minute at most.

    `progress` wraps the rounds, of which the last ones are left out when there are enough measurements.
    """
    if not registry.rows():
        registry.load_families()
    kernels = _Kernels()
    sizes = cache_sizes()
    probes: dict[str, Probe] = {**_copies(sizes), **kernels.probes(sizes[0]), **_products(), **_calls()}
    samples: dict[str, list[float]] = {name: [] for name in probes}
    for probe in probes.values():
        probe()  # memory is there, code is warm
    spent = dict.fromkeys(probes, 0)
    for k in progress(range(rounds)):
        if k >= 3 and sum(spent.values()) > _BUDGET_NS:
            break
        for name, probe in probes.items():
            if k < 3 or spent[name] < _SHARE_NS:
                started = time.perf_counter_ns()
                samples[name].append(probe())
                spent[name] += time.perf_counter_ns() - started
    figures = {name: max(found) if name.startswith(_SHARED) else statistics.median(found) for name, found in samples.items()}
    return _machine(figures, sizes, statistics.median(map(_spread, samples.values())))


# -- probes ---------------------------------------------------------------------------------------


def _per_call(call: Callable[[], Any], of: Callable[[list[float]], float] = statistics.median) -> Probe:
    """A probe that gives nanoseconds per call, the median of a few batches; how many calls make a batch is settled at its first use.

    Calls on several threads take `of=min`, for the reason that `_SHARED` gives.
    """
    count = 0
    now = time.perf_counter_ns

    def run(calls: int) -> float:
        started = now()
        for _ in range(calls):
            call()
        return (now() - started) / calls

    def probe() -> float:
        nonlocal count
        if not count:
            call()
            count = max(1, min(1000, int(_BATCH_NS / max(1.0, run(3)))))
        first = run(count)
        return first if first * count > _ONCE_NS else of([first, *(run(count) for _ in range(_BATCHES - 1))])

    return probe


def _slope(short: Probe, long: Probe, work: float) -> Probe:
    """Work per nanosecond, by the difference of two probes; by the long one alone where noise has swallowed the difference."""

    def probe() -> float:
        low, high = short(), long()
        return work / (high - low if high > 1.05 * low else high)

    return probe


def _one_by_one(ops: Sequence[str]) -> Callable[..., Any]:
    definitions = [registry.row(op).definition for op in ops]

    def chain(x: Any, y: Any) -> Any:
        for op, definition in zip(ops, definitions, strict=True):
            y = definition(y, x) if op in _BINARY else definition(y)
        return y

    return chain


class _Kernels:
    """Probes of our own kernels; of NumPy's where there are no stencils."""

    def __init__(self) -> None:
        for width in (4, 8):
            library.family(width)
        loops.wait(30.0)

    def fused(self, dtype: str, ops: Sequence[str]) -> kernel.FusedKernel | None:
        """The kernel of a chain of ops over two arrays; None where there are no stencils for it."""
        nodes = tuple(Node(op, (k + 1, 0) if op in _BINARY else (k + 1,)) for k, op in enumerate(ops))
        graph = FusedGraph((Input(dtype), Input(dtype)), nodes, (len(ops) + 1,))
        for _ in range(3):
            try:
                return kernel.FusedKernel(graph)
            except NotFusable:
                loops.wait(30.0)  # stencils, or the code around them, may be on their way
        return None

    def entry(self, dtype: str, ops: Sequence[str]) -> Callable[..., Any]:
        """A function of two arrays that runs a chain of ops, as one kernel where that can be."""
        found = self.fused(dtype, ops)
        return _one_by_one(ops) if found is None else found.entry

    def probes(self, nearest: int) -> dict[str, Probe]:
        """Arithmetic, exp, calls, and how fast kernels go through a cache of `nearest` bytes (a copy by NumPy is over too soon)."""
        out: dict[str, Probe] = {}
        for dtype in _TYPES:
            x = np.full(_ELEMENTS, 1, BY_NAME[dtype].numpy)
            zero = np.zeros_like(x)
            chains = [self.entry(dtype, ("multiply", "add") * count) for count in (_SHORT, _LONG)]
            short, long = (_per_call(lambda f=f, x=x, y=zero: f(x, y)) for f in chains)  # type: ignore[misc]
            out[f"arithmetic.{dtype}"] = _slope(short, long, 2.0 * (_LONG - _SHORT) * _ELEMENTS)
            if BY_NAME[dtype].kind == "float":
                for name, ops in (("exp", ("exp",)), ("divide", ("divide", "divide"))):
                    f = self.entry(dtype, ops)
                    few, many = (_per_call(lambda f=f, x=x[:n]: f(x, x)) for n in (_ELEMENTS // 8, _ELEMENTS))  # type: ignore[misc]
                    out[f"{name}.{dtype}"] = _slope(few, many, len(ops) * _ELEMENTS * 7 / 8)
        twice = ("negative", "negative")
        through, stream = self.fused("float32", twice), self.entry("float32", twice)
        part, half = (np.zeros(nearest // n, np.float32) for n in (64, 16))  # read and written: an eighth and half of the cache
        short, long = (_per_call(lambda x=x: stream(x, x)) for x in (part, half))  # type: ignore[misc]
        out["copy.0"] = _slope(short, long, 8.0 * (half.size - part.size))
        small = np.zeros(16, np.float32)
        out["call"] = _per_call(lambda: stream(small, small))
        out["slow"] = out["call"] if through is None else _per_call(lambda: through.call(small, small))
        out["gain"] = self._gain()
        return out

    def _gain(self) -> Probe:
        """A few milliseconds of arithmetic on one core, then on all. As busy as the machine is: what others take of it is not there."""
        busy = self.fused("float32", ("multiply", "add") * _LONG)
        if busy is None or threads.cores() == 1:
            return lambda: 1.0
        x = np.zeros(1 << 20, np.float32)

        def probe() -> float:
            took = []
            for cores in (1, threads.cores()):
                started = time.perf_counter_ns()
                busy((x, x), cores=cores)
                took.append(time.perf_counter_ns() - started)
            return took[0] / took[1]

        return probe


def _copies(sizes: Sequence[int]) -> dict[str, Probe]:
    """Copies within each level but the nearest, by one core and, where they share it, by all."""
    out: dict[str, Probe] = {}
    far = min(max(2 * sizes[-1], _FAR), _FAR_MAX)
    source, target = (np.zeros(far // 2, np.uint8) for _ in range(2))
    source[:] = 1  # pages of its own: those of zeros are one page
    for k, held in enumerate([*(min(size // 2, _NEAR) for size in sizes), far]):
        many = held // 2
        few = many // 4 if many < _NEAR // 4 else 0
        long = _per_call(lambda a=target[:many], b=source[:many]: np.copyto(a, b))  # type: ignore[misc]
        short = _per_call(lambda a=target[:few], b=source[:few]: np.copyto(a, b)) if few else float  # type: ignore[misc]
        out[f"copy.{k}"] = _slope(short, long, 2.0 * (many - few))
        if k >= 2 or k == len(sizes):
            out[f"copies.{k}"] = _together(source[:many], target[:many])

    def fresh() -> float:
        started = time.perf_counter_ns()
        made = np.empty(_NEAR, np.uint8)
        made[::1024] = 1
        return made.size / (time.perf_counter_ns() - started)

    out["fresh"] = fresh
    return out


def _together(source: Any, target: Any) -> Probe:
    """Bytes per nanosecond that all cores copy together."""
    count = threads.cores()
    bounds = [round(k * source.size / count) for k in range(count + 1)]
    pieces = list(zip(bounds, bounds[1:], strict=False))

    def piece(bound: tuple[int, int]) -> None:
        np.copyto(target[bound[0] : bound[1]], source[bound[0] : bound[1]])

    timed = _per_call(lambda: threads.workers.run(piece, pieces, count), min)
    return lambda: 2.0 * source.size / timed()


def _products() -> dict[str, Probe]:
    """Products of matrices as BLAS runs them."""
    out: dict[str, Probe] = {}
    for dtype, n in (("float32", 256), ("float64", 192)):
        a, b, c = (np.full((n, n), 0.5, dtype) for _ in range(3))
        timed = _per_call(lambda a=a, b=b, c=c: np.matmul(a, b, out=c), min)  # type: ignore[misc]
        out[f"product.{dtype}"] = lambda timed=timed, n=n: 2.0 * n**3 / timed()  # type: ignore[misc]
    return out


def _calls() -> dict[str, Probe]:
    """What calls cost besides their work."""
    x = np.zeros(16, np.float32)
    rows = crews.table(threads.cores())
    idle = driver().addresses.get("pool_nothing", 0)

    def together() -> None:
        if idle:
            crews.crew.run(idle, rows)

    from ..tiers.select import CallSite

    add, exp = CallSite("add"), CallSite("exp")  # NumPy's, and one of our own

    def two() -> None:
        add(x, x)
        exp(x)

    both = _per_call(two)
    return {"op": lambda: both() / 2, "wake": _per_call(together)}


# -- figures --------------------------------------------------------------------------------------


def _spread(samples: list[float]) -> float:
    """The middle half of the samples, relative to their median."""
    low, middle, high = statistics.quantiles(samples, n=4) if len(samples) > 1 else samples * 3
    return (high - low) / middle


def _machine(figures: dict[str, float], sizes: Sequence[int], noise: float) -> Machine:
    def table(kind: str) -> dict[str, float]:
        return {name.partition(".")[2]: round(value, 4) for name, value in figures.items() if name.startswith(f"{kind}.")}

    arithmetic = table("arithmetic")
    return Machine(
        cpu=cpu_name(),
        versions=versions(),
        cores=threads.cores(),
        gain=round(min(max(1.0, figures["gain"]), threads.cores()), 3),
        levels=_levels(figures, sizes),
        arithmetic=arithmetic,
        product=table("product"),
        divide_ns={dtype: round(1 / rate, 4) for dtype, rate in table("divide").items()},
        exp_ns={dtype: round(1 / rate, 4) for dtype, rate in table("exp").items()},
        call_ns=round(figures["call"], 1),
        op_ns=round(figures["op"], 1),
        handover_ns=round(max(figures["slow"] - figures["call"], figures["call"]), 1),
        wake_ns=round(figures["wake"], 1),
        fresh_gbs=round(figures["fresh"], 3),
        noise=round(noise, 3),
    )


def _levels(figures: dict[str, float], sizes: Sequence[int]) -> tuple[Level, ...]:
    """Noise may make a far level look faster than a near one: it is as fast at most. Of a cache that is larger than what was copied
    to measure memory (a share of somebody's, on virtual machines) only half as much counts.
    """
    cores = threads.cores()
    names = [*(f"L{k + 1}" for k in range(len(sizes))), "memory"]
    out: list[Level] = []
    for k, (name, size) in enumerate(zip(names, [*sizes, None], strict=True)):
        one = figures[f"copy.{k}"]
        every = max(one, figures.get(f"copies.{k}", one * cores))
        if out:
            one, every = min(one, out[-1].gbs), min(every, out[-1].gbs_all)
        held = None if size is None else min(size, _FAR_MAX // 2)
        out.append(Level(name, held, round(one, 3), round(max(every, one), 3)))
    return tuple(out)
