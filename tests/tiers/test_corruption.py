"""The sample suite sees every kernel of the pool: with any one of them wrong in a single bit, it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcvm_core import dtypes, testing
from bcvm_core.errors import PoolError
from bcvm_core.ops import registry
from bcvm_core.tiers.pool import pool
from bcvm_core.tiers.select import CallSite
from tests.samples import copied, has_data, python_samples, samples


def _kernels() -> list[str]:
    if not registry.rows():
        registry.load_families()
    names = []
    for row in registry.rows():
        names += [entry.name for entry in pool.kernels(row.name) if entry.origin != "template"]
        for dtype in () if row.exact else dtypes.BY_NAME:
            try:
                names.append(pool.entry(f"{row.name}.template.{dtype}").name)
            except PoolError:
                continue
    return [name for name in names if name != "matmul.scalar"]  # it can only raise


def _check(op: registry.OpInfo, site: CallSite, reference: Callable[..., Any], operands: tuple[Any, ...], attrs: dict[str, Any]) -> None:
    mine, theirs = copied(operands), copied(operands)
    with np.errstate(all="ignore"):
        expected = reference(*theirs, **attrs)
        got = site(*mine, **attrs)
    if has_data(op):
        testing.assert_same_bits(got, expected)
    else:
        testing.assert_same_bits((got.shape, got.dtype), (expected.shape, expected.dtype))
    testing.assert_same_bits(mine, theirs)  # what the op wrote, and that it wrote nothing else


def _run_samples(op_name: str) -> None:
    """Every sample of an op through the pool gives the bits of its definition; AssertionError where not."""
    op = registry.row(op_name)
    function, operator = CallSite(op, syntax=False), CallSite(op, syntax=True)
    calls = samples(op)
    assert calls or python_samples(op), f"no sample of {op_name} runs"
    for operands, attrs in calls:
        _check(op, function, op.definition, operands, attrs)
    for operands in python_samples(op):
        assert op.scalar is not None
        _check(op, operator, op.scalar, operands, {})


@pytest.mark.parametrize("name", [row.name for row in (_kernels() and registry.rows())])
def test_every_op_gives_the_bits_of_its_definition(name: str) -> None:
    _run_samples(name)


def _with_samples_in_numpy(name: str) -> bool:
    """Whether the op's first kernel is shadowed by generated ones for all samples."""
    op = pool.entry(name).op
    return any(entry.origin == "template" for entry in pool.kernels(op)) and pool.entry(name).origin != "template"


@pytest.mark.parametrize("name", _kernels())
def test_one_wrong_bit_is_seen(name: str) -> None:
    entry = pool.entry(name)
    _run_samples(entry.op)
    how = "last_bit" if has_data(entry.op) else (lambda result: result[:0])
    if entry.origin == "template" or not _with_samples_in_numpy(name):
        with testing.corrupt_kernel(name, how), pytest.raises(AssertionError):
            _run_samples(entry.op)
    else:  # reached where no code may be generated
        with testing.forbid_executable_memory(), testing.corrupt_kernel(name, how), pytest.raises(AssertionError):
            _run_samples(entry.op)
    assert not pool.is_swapped(name)
