"""Whether a product and its tail run as one: decided by the machine model for a size class, and told with its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from . import splits
from .decisions import Decision
from .epilogues import Epilogue, plain_tail
from .groups import Group, MismatchError, Step, Value, of_segment

DEEP: Final = 1024  # terms of a sum from which on the product takes so long that a pass over its result hardly counts
_BLAS: Final = "the product is that of BLAS, whose bits depend on how it is cut"
SMALL: Final = 1 << 19  # elements of a product that are still near when it is done: a tail gains nothing by blocks, and pays for them


class _Possible(dict[str, str]):
    """Reasons against candidates by name: against all that are not known, since nothing carries them out."""

    def __missing__(self, _name: str) -> str:
        return "no kernel for such a cut"

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


def group_of(epilogue: Epilogue, values: Sequence[Value], shape: tuple[int, ...]) -> Group:
    """The product, of that shape, and its tail as a group. `values`: those of `inputs`. Raises MismatchError."""
    tail = of_segment(plain_tail(epilogue), (Value(shape, values[0].dtype), *values[2:]))
    moved = [*range(2, len(tail.values) + 2)]  # the operands of the product stand before
    first = Step("linear" if epilogue.by_weight else "matmul", (0, 1), 2, label=epilogue.op)
    steps = [Step(s.op, tuple(moved[k] for k in s.operands), moved[s.result], s.attrs) for s in tail.steps]
    return Group((*values[:2], *tail.values), (first, *steps), tuple(moved[k] for k in tail.outputs))


def decide(epilogue: Epilogue, values: Sequence[Value], shape: tuple[int, ...], *, ours: bool = True) -> Decision:
    """One kernel for both, or the product and then its tail: the bits are the same. `ours`: the product is no one else's."""
    title = Group(tuple(values), (), ())
    try:
        group = group_of(epilogue, values, shape)
    except MismatchError as error:
        return Decision(title, "nominal", (), None, f"shape mismatch: {error}", True)
    names = [step.name for step in group.steps]
    apart = f"{names[0]} | {', '.join(names[1:])}"
    elements = group.values[group.outputs[0]].elements
    reason = _BLAS if not ours else ""
    if elements <= SMALL:
        reason = f"small: up to {SMALL:,} elements of a product are still in the cache for a pass of their own"
    elif values[0].shape[-1] > DEEP:
        reason = f"deep: after sums of more than {DEEP} terms a pass over their results hardly counts"
    return splits.decide(group, same_bits=True, runs=True, refused=_Possible({splits.WHOLE: reason, apart: ""}))
