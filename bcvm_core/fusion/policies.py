"""Fusion policies: under which rules a marked region may be fused. A registry that users can add to.

A policy looks at rows of the op table only: whether operands at hand fit (layout, sizes, hardware)
is decided when the region meets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import locks
from ..errors import BcvmError
from ..ops.registry import OpInfo

Predicate = Callable[[Sequence[OpInfo]], bool]


class PolicyError(BcvmError):
    """A fusion policy does not exist, or its number is taken."""


@dataclass(frozen=True, slots=True)
class FusionPolicy:
    """One policy. `fits(rows)` says whether the ops of a region, in order, are of the kind it fuses.

    `dtypes`: element types it is meant for (empty: all). `contiguous`: strided operands are refused.
    """

    id: int
    name: str
    description: str
    fits: Predicate
    dtypes: tuple[str, ...] = ()
    contiguous: bool = False

    def __str__(self) -> str:
        return f"policy_{self.id:03d}"


_SHIPPED_LIMIT = 100  # user policies are numbered from here
_lock = locks.lock()
_policies: dict[int, FusionPolicy] = {}


def add(policy: FusionPolicy) -> FusionPolicy:
    """Register a policy. Raises PolicyError when the number is taken or cannot be written as `policy_NNN`."""
    with _lock:
        if not 0 < policy.id <= 0xFFFF:
            raise PolicyError(f"{policy.id} is no policy number", fix="use 1 to 65535")
        if policy.id in _policies:
            raise PolicyError(f"{policy} exists: {_policies[policy.id].name}", fix=f"use a number from {free_id()}")
        _policies[policy.id] = policy
    return policy


def remove(policy_id: int) -> None:
    """Forget a user's policy; the shipped ones stay. Raises PolicyError."""
    if policy_id < _SHIPPED_LIMIT:
        raise PolicyError(f"policy_{policy_id:03d} is shipped with BCVM", fix="remove only what you added")
    with _lock:
        if _policies.pop(policy_id, None) is None:
            raise PolicyError(f"there is no policy_{policy_id:03d}", fix=_known())


def get(policy_id: int) -> FusionPolicy:
    """The policy of a number. Raises PolicyError."""
    found = _policies.get(policy_id)
    if found is None:
        raise PolicyError(f"there is no policy_{policy_id:03d}", fix=_known())
    return found


def all_policies() -> tuple[FusionPolicy, ...]:
    """Every policy, by number."""
    return tuple(_policies[key] for key in sorted(_policies))


def free_id() -> int:
    """The next number for a user's policy."""
    return max(_SHIPPED_LIMIT, max(_policies, default=0) + 1)


def choose(rows: Sequence[OpInfo]) -> FusionPolicy | None:
    """The first policy, by number, that a region of these ops fits; None when there is none."""
    return next((policy for policy in all_policies() if policy.fits(rows)), None)


def _known() -> str:
    return f"known: {', '.join(map(str, all_policies()))}"


# --- the shipped policies ----------------------------------------------------------------------


def _kinds(rows: Sequence[OpInfo]) -> list[str]:
    return [row.fuse for row in rows]


def _activation_chain(rows: Sequence[OpInfo]) -> bool:
    return bool(rows) and any(row.policy == 1 for row in rows) and all(kind == "elementwise" for kind in _kinds(rows))


def _with_bias(rows: Sequence[OpInfo]) -> bool:
    kinds = _kinds(rows)
    return bool(kinds) and kinds[0] in ("matmul", "conv") and all(kind == "elementwise" for kind in kinds[1:])


def _elementwise(rows: Sequence[OpInfo]) -> bool:
    return bool(rows) and all(kind == "elementwise" for kind in _kinds(rows))


def _normalisation(rows: Sequence[OpInfo]) -> bool:
    kinds = set(_kinds(rows))
    return "reduce" in kinds and kinds <= {"reduce", "elementwise"}


def _attention(rows: Sequence[OpInfo]) -> bool:
    if any(row.policy == 5 for row in rows):
        return True
    kinds = _kinds(rows)
    products = [i for i, kind in enumerate(kinds) if kind == "matmul"]
    return len(products) == 2 and "reduce" in kinds[products[0] : products[1]] and set(kinds) <= {"matmul", "reduce", "elementwise", "view"}


for _policy in (
    FusionPolicy(
        1,
        "activation chain",
        "activations and the arithmetic around them on contiguous inputs",
        _activation_chain,
        ("float16", "bfloat16", "float32"),
        contiguous=True,
    ),
    FusionPolicy(2, "product and bias", "conv or matmul, then bias and activation", _with_bias),
    FusionPolicy(3, "elementwise graph", "elementwise ops with broadcasting", _elementwise),
    FusionPolicy(4, "normalisation", "softmax, norms: reductions and the elementwise ops around them", _normalisation),
    FusionPolicy(5, "attention", "products of queries, keys and values with a softmax between", _attention),
):
    add(_policy)
