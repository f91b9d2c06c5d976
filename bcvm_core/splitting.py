"""How regions were cut into kernels, as plain data: their ops as a graph, the kernels, and each decision with its candidates.

All numbers are those of the records that `explain` prints; nothing is decided or measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from .frontend.lowering import op_name
from .fusion.decisions import Candidate, Decision, Record
from .fusion.machine import ARITHMETIC, FUNCTION, PRODUCT
from .fusion.machines import usable
from .isa.program import Instruction, read_by, written_by
from .ops import registry
from .tiers.chains import ChainSite
from .tiers.epilogue import EpilogueSite
from .tiers.fuse import FusedSite
from .tiers.graphs import pattern_text
from .vm.region import Region, RegionRunner

DECISIONS: Final = 6  # of each kernel, the latest
CANDIDATES: Final = 6  # of each decision: the chosen one, and the fastest of the others


@dataclass(frozen=True, slots=True)
class Node:
    """One op of a region. `reads`: the nodes whose results it reads; `kernel`: the position of its kernel, None: it runs by itself."""

    op: str
    kind: str  # as in the op table: "elementwise", "reduce", ...
    reads: tuple[int, ...]
    kernel: int | None


@dataclass(frozen=True, slots=True)
class PartView:
    """Some ops of a kernel (positions within it) as one call: its work, its density, and the time by the machine model."""

    ops: tuple[int, ...]
    threads: int
    blocks: int
    operations: float
    nbytes: float
    predicted_us: float
    level: str
    bound: str

    @property
    def density(self) -> float:
        """Operations per byte."""
        return self.operations / max(1.0, self.nbytes)


@dataclass(frozen=True, slots=True)
class CandidateView:
    """One way to run a kernel's ops; `reason`: why it was not chosen, "" for the one that was."""

    name: str
    predicted_us: float
    reason: str
    parts: tuple[PartView, ...]


@dataclass(frozen=True, slots=True)
class DecisionView:
    """What was chosen for operands of such shapes, by which figures; `calls` of it were timed, the best took `measured_us`."""

    operands: str
    source: str
    mismatch: str
    candidates: tuple[CandidateView, ...]
    calls: int
    measured_us: float | None


@dataclass(frozen=True, slots=True)
class Kernel:
    """A segment: positions of its nodes, what became of each pattern of operands, and the decisions, the latest last."""

    nodes: tuple[int, ...]
    patterns: tuple[str, ...]
    decisions: tuple[DecisionView, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """A region as it was cut."""

    where: str
    runs: int
    nodes: tuple[Node, ...]
    kernels: tuple[Kernel, ...]
    reason: str  # why it was last left to Python, or ""


@dataclass(frozen=True, slots=True)
class Roof:
    """The machine that decisions were made for: GFLOP/s by kind of work, one core and all, and GB/s by level of memory."""

    source: str
    cpu: str
    cores: int
    compute: tuple[tuple[str, float, float], ...]
    memory: tuple[tuple[str, float, float], ...]


def splits(sites: Iterable[tuple[str, Any]]) -> Iterator[Split]:
    """The regions of two ops or more among (where, site), for each kind of operands that they have run with."""
    for where, site in sites:
        if isinstance(site, Region):
            for plan in list(site.plans.values()):
                if isinstance(plan, RegionRunner):
                    found = _split(where, site, plan)
                    if len(found.nodes) > 1:
                        yield found


def _split(where: str, region: Region, plan: RegionRunner) -> Split:
    code = plan.code.program.instructions
    kernels = [*sorted(plan.segments.items()), *sorted(plan.chains.items())]
    wide = sorted(range(len(kernels)), key=lambda k: is_wide(kernels[k][1]))  # where one runs, those within it don't
    owner = {pc: k for k in wide if not is_wide(kernels[k][1]) or kernels[k][1].calls for pc in kernels[k][1].pcs}
    places: dict[int, int] = {}
    nodes = tuple(_nodes(code, owner, places))
    views = tuple(Kernel(tuple(places[pc] for pc in site.pcs), *_became(site)) for _, site in kernels)
    return Split(where, region.hits, nodes, views, region.last_reason)


def is_wide(site: FusedSite) -> bool:
    """A product with what follows it, a chain with reductions: where it does not run its ops belong to nobody, or to segments within."""
    return isinstance(site, EpilogueSite | ChainSite)


def _nodes(code: Iterable[Instruction], owner: dict[int, int], places: dict[int, int]) -> Iterator[Node]:
    """The ops; `places` is filled with the position of each by its program counter."""
    maker: dict[int, int] = {}
    for pc, instruction in enumerate(code):
        op, reads = op_name(instruction), read_by(instruction)
        if not op:
            moved = maker.get(reads[0]) if instruction.opcode == "MOVE" else None
            maker |= {register: moved for register in written_by(instruction) if moved is not None}
            continue
        found = tuple(dict.fromkeys(maker[register] for register in reads if register in maker))
        places[pc] = len(places)
        maker |= dict.fromkeys(written_by(instruction), places[pc])
        yield Node(op, registry.row(op).fuse, found, owner.get(pc))


def _became(site: FusedSite) -> tuple[tuple[str, ...], tuple[DecisionView, ...]]:
    """What became of the patterns of a segment, and its decisions."""
    patterns, records = [], list[Record](site.records) if isinstance(site, EpilogueSite) else []
    for pattern in list(site.patterns.values()):
        done = "prepared" if pattern.prepared else "spliced at first use"
        took = f"{pattern.splice_us:.0f} µs" if pattern.splice_us < 1000 else f"{pattern.splice_us / 1000:.1f} ms"
        fate = f"{done} in {took}" if pattern.kernel is not None else f"[REJECTED] {pattern.reason}"
        patterns.append(f"{pattern_text(pattern.inputs)}: {fate}")
        records += pattern.records
    if site.refusal:
        patterns.append(f"[REJECTED] {site.refusal}")
    return tuple(patterns), tuple(map(_decision, records[-DECISIONS:]))


def _decision(record: Record) -> DecisionView:
    decision, measured = record.decision, record.measured
    made = {step.result for step in decision.group.steps}
    shapes = ", ".join(str(value) for k, value in enumerate(decision.group.values) if k not in made)
    best = measured.best_ns / 1000 if measured.calls else None
    return DecisionView(shapes, decision.source, decision.mismatch, tuple(_candidates(decision)), measured.calls, best)


def _candidates(decision: Decision) -> Iterator[CandidateView]:
    """The chosen one, then the others by their predicted times."""
    by: Callable[[Candidate], tuple[bool, float]] = lambda c: (c is not decision.chosen, c.predicted_ns)  # noqa: E731
    for candidate in sorted(decision.candidates, key=by)[:CANDIDATES]:
        parts = tuple(
            PartView(
                p.steps, p.threads, p.blocks, p.operations, p.nbytes, p.prediction.total_ns / 1000, p.prediction.level, p.prediction.bound
            )
            for p in candidate.parts
        )
        yield CandidateView(candidate.name, candidate.predicted_ns / 1000, candidate.reason, parts)


def roof() -> Roof:
    """The machine model that kernels are cut by, for float32."""
    figures = usable()
    machine = figures.machine
    names = {PRODUCT: "products", ARITHMETIC: "arithmetic", FUNCTION: "functions"}
    compute = [
        (name, machine.flops_per_ns(kind, "float32", 1), machine.flops_per_ns(kind, "float32", machine.cores))
        for kind, name in names.items()
    ]
    memory = [(level.name, level.gbs, level.gbs_all) for level in machine.levels]
    return Roof(figures.source, machine.cpu, machine.cores, tuple(compute), tuple(memory))
