"""The registry of fusion policies."""

from __future__ import annotations

import dataclasses
import importlib

import pytest

from bcvm_core.fusion import policies
from bcvm_core.fusion.policies import FusionPolicy, PolicyError
from bcvm_core.ops import registry
from bcvm_core.ops.registry import OpInfo, Param


def _row(name: str, fuse: str, policy: int = 0) -> OpInfo:
    return OpInfo(name, "test", (Param("x", "tensor"),), abs, "", fuse=fuse, policy=policy)


RELU, ADD, EXP = _row("relu", "elementwise", 1), _row("add", "elementwise", 3), _row("exp", "elementwise", 3)
SUM, CONV, MATMUL, VIEW, SORT = (
    _row("sum", "reduce", 4),
    _row("conv2d", "conv", 2),
    _row("matmul", "matmul", 2),
    _row("T", "view"),
    _row("sort", "none"),
)


@pytest.mark.parametrize(
    ("rows", "number"),
    [
        ([RELU, ADD], 1),
        ([CONV, ADD, RELU], 2),
        ([MATMUL], 2),
        ([ADD, EXP], 3),
        ([EXP, SUM, ADD], 4),
        ([MATMUL, ADD, EXP, SUM, ADD, MATMUL], 5),
        ([VIEW, MATMUL, SUM, MATMUL], 5),
        ([SORT, ADD], None),
        ([], None),
    ],
)
def test_shipped_policies(rows: list[OpInfo], number: int | None) -> None:
    chosen = policies.choose(rows)
    assert (chosen.id if chosen else None) == number


def test_names() -> None:
    assert [str(p) for p in policies.all_policies()][:5] == [f"policy_{i:03d}" for i in range(1, 6)]
    assert all(p.description for p in policies.all_policies())


def test_users_add_and_remove_their_own() -> None:
    mine = FusionPolicy(policies.free_id(), "sorting", "anything with a sort", lambda rows: any(r.name == "sort" for r in rows))
    policies.add(mine)
    try:
        assert policies.get(mine.id) is mine
        assert policies.choose([SORT, ADD]) is mine
        with pytest.raises(PolicyError, match="exists"):
            policies.add(dataclasses.replace(mine, name="again"))
    finally:
        policies.remove(mine.id)
    with pytest.raises(PolicyError, match="no policy"):
        policies.get(mine.id)
    for bad in (1, mine.id):
        with pytest.raises(PolicyError):
            policies.remove(bad)
    with pytest.raises(PolicyError, match="no policy number"):
        policies.add(dataclasses.replace(mine, id=0))


def test_every_policy_that_a_row_names_exists() -> None:
    for family in registry._FAMILIES:
        for row in importlib.import_module(f"bcvm_core.ops.{family}").ROWS:
            if row.policy:
                policies.get(row.policy)
