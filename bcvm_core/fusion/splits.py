"""How a group of ops is cut into kernels: the candidates, their predicted times, and the choice.

The choice is a fixed rule of the group and the figures: what `costs.refusal` speaks against is out, of the others those within 5% of the
fastest by prediction count, and of them the one with the least work (compute and traffic together), then with fewer kernels. Where
candidates give different bits the figures are the nominal ones on every machine, so that results depend on shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from types import MappingProxyType

from .costs import GROWTH, Part, blocks_of, part_of, refusal
from .decisions import Candidate, Decision
from .groups import Group, MismatchError, broadcast
from .machine import NOMINAL, Machine
from .machines import InForce, in_force

_NOMINAL = InForce(NOMINAL, "nominal")
_MAX_STEPS = 7  # of a group whose every partition is looked at
_HARDLY = 1.05  # times as long as the fastest: the model is no finer
_MAX_SMALL = 3  # results that are worked out before the rest

WHOLE, BLOCKED, SMALL_FIRST, ONE_BY_ONE = "one kernel", "one kernel in blocks", "small results first", "op by op"
APART = "reductions by themselves"


def decide(
    group: Group,
    figures: InForce | None = None,
    *,
    same_bits: bool = False,
    at_once: int = 0,
    runs: bool = False,
    refused: Mapping[str, str] = MappingProxyType({}),
) -> Decision:
    """Choose how to run a group.

    `same_bits`: all candidates compute the same bits, so the figures of this machine may choose (`figures`; default: those in force).
    `runs`: the choice is carried out, for a group that has a kernel: its ops one by one are no choice then. `at_once`: groups of up to
    so many elements run as one kernel, since their calls are not looked at. `refused`: candidates that are out for a reason of the
    caller's, by name.
    """
    figures = (figures or in_force()) if same_bits else _NOMINAL
    try:
        elements = math.prod(broadcast(*[group.values[s.result].shape for s in group.steps if s.kind == "elementwise"] or [()]))
        found = list(_candidates(group, figures.machine, handed=runs and elements > at_once))
    except MismatchError as error:
        return Decision(group, figures.source, (), None, f"shape mismatch: {error}", runs)
    reasons = [refused.get(c.name) or _against(group, c, figures.machine) for c in found]
    if _is_plain(group) and elements <= at_once:
        reasons = ["" if c.name == WHOLE else f"small: up to {at_once} elements are one call" for c in found]
    best = _best(found, [k for k, reason in enumerate(reasons) if not reason and not (runs and found[k].name == ONE_BY_ONE)])
    fastest = found[best].predicted_ns
    candidates = tuple(
        Candidate(c.name, c.parts, "" if k == best else reasons[k] or _slower(c.predicted_ns / fastest)) for k, c in enumerate(found)
    )
    return Decision(group, figures.source, candidates, candidates[best], runs=runs)


def _is_plain(group: Group) -> bool:
    return all(step.kind == "elementwise" for step in group.steps)


def _candidates(group: Group, machine: Machine, *, handed: bool) -> Iterator[Candidate]:
    return _elementwise(group, machine, handed) if _is_plain(group) else _partitions(group, machine)


def _best(found: list[Candidate], allowed: list[int]) -> int:
    """The fastest; of those that are hardly slower the one with the least work, since traffic hides compute only in part."""
    allowed = allowed or [len(found) - 1]
    limit = _HARDLY * min(found[k].predicted_ns for k in allowed)

    def order(k: int) -> tuple[float, int, int]:
        work = sum(p.prediction.compute_ns + p.prediction.traffic_ns + p.prediction.overhead_ns for p in found[k].parts)
        return round(work, 3), len(found[k].parts), k

    return min((k for k in allowed if found[k].predicted_ns <= limit), key=order)


def _slower(ratio: float) -> str:
    if ratio < _HARDLY:
        return "hardly faster, more work" if ratio < 0.995 else "no faster"
    return f"slower by {ratio - 1:.0%}" if ratio < 2 else f"{ratio:.3g} times as long"


def _against(group: Group, candidate: Candidate, machine: Machine) -> str:
    return next(filter(None, (refusal(group, part, machine.cores) for part in candidate.parts)), "")


# -- elementwise groups ---------------------------------------------------------------------------


def _elementwise(group: Group, machine: Machine, handed: bool) -> Iterator[Candidate]:
    """`handed`: the call comes to Python first, whatever is chosen."""
    every = range(len(group.steps))
    yield Candidate(WHOLE, (part_of(group, every, machine, 1, handed=handed),))
    if machine.cores > 1 and blocks_of(group, group.steps) > 1:
        yield Candidate(BLOCKED, (part_of(group, every, machine, machine.cores),))
    small = small_first(group)
    if small:
        parts = [part_of(group, steps, machine, 1, handed=True) for steps in small[:-1]]
        yield Candidate(SMALL_FIRST, (*parts, part_of(group, small[-1], machine, handed=True)))
    if len(group.steps) > 1:
        yield Candidate(ONE_BY_ONE, tuple(part_of(group, (k,), machine, 1, alone=True) for k in every))


def small_first(group: Group) -> tuple[tuple[int, ...], ...]:
    """Positions of steps whose results are small, a part for each result that a large step reads, then those of the large steps; or ().

    In one kernel a small result (of a row, a column) is worked out again for every element of the large ones.
    """
    largest = max(group.values[step.result].elements for step in group.steps)
    maker = {step.result: k for k, step in enumerate(group.steps)}
    small = {k for k, step in enumerate(group.steps) if GROWTH * group.values[step.result].elements <= largest}
    large = tuple(k for k in range(len(group.steps)) if k not in small)
    wanted = list(dict.fromkeys(maker[v] for k in large for v in group.steps[k].operands if maker.get(v) in small))
    if not 0 < len(wanted) <= _MAX_SMALL or any(maker.get(v) in small for v in group.outputs):
        return ()
    return (*(_cone(group, maker, k) for k in wanted), large)


def _cone(group: Group, maker: dict[int, int], last: int) -> tuple[int, ...]:
    """The steps that a step's result depends on, with it."""
    found, todo = set(), [last]
    while todo:
        k = todo.pop()
        if k not in found:
            found.add(k)
            todo += [maker[v] for v in group.steps[k].operands if v in maker]
    return tuple(sorted(found))


# -- rows -----------------------------------------------------------------------------------------


def rows(group: Group, figures: InForce) -> Decision:
    """The decision for reductions and what is around them where rows fit the cache: one kernel, whatever the figures say.

    The others are recorded with what they would take: reductions by themselves between elementwise kernels, and op by op.
    """
    machine = figures.machine
    runs: list[list[int]] = []
    for k, step in enumerate(group.steps):
        if runs and step.kind == "elementwise" == group.steps[runs[-1][-1]].kind:
            runs[-1].append(k)
        else:
            runs.append([k])
    found = [
        Candidate(WHOLE, (part_of(group, range(len(group.steps)), machine),)),
        Candidate(APART, tuple(part_of(group, run, machine, alone=len(run) == 1) for run in runs)),
        Candidate(ONE_BY_ONE, tuple(part_of(group, (k,), machine, 1, alone=True) for k in range(len(group.steps)))),
    ]
    if len(runs) == len(group.steps):
        del found[1]
    whole = found[0]
    others = [Candidate(c.name, c.parts, _against_rows(whole, c)) for c in found[1:]]
    return Decision(group, figures.source, (whole, *others), whole, runs=True)


def _against_rows(whole: Candidate, other: Candidate) -> str:
    ratio = other.predicted_ns / whole.predicted_ns
    return _slower(ratio) if ratio > 1 else "what lies between would go through memory whole"


# -- others ---------------------------------------------------------------------------------------


def _partitions(group: Group, machine: Machine) -> Iterator[Candidate]:
    """Every way to cut the steps into runs; of long groups only the whole, one cut, and each by itself."""
    count = len(group.steps)
    for cuts in range(count):
        if count > _MAX_STEPS and 1 < cuts < count - 1:
            continue
        for places in combinations(range(1, count), cuts):
            bounds = (0, *places, count)
            parts = tuple(part_of(group, range(a, b), machine) for a, b in zip(bounds, bounds[1:], strict=False))
            yield Candidate(_name(group, parts), parts)


def _name(group: Group, parts: tuple[Part, ...]) -> str:
    if len(parts) == 1:
        return WHOLE
    return " | ".join(", ".join(group.steps[k].name for k in part.steps) for part in parts)
