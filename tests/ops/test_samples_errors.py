"""Error inputs of every op, and that the one list is complete: each op has samples, error inputs and a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bcvm_core.errors import Decline
from bcvm_core.ops import registry
from bcvm_core.ops._rows import NUMPY_2
from bcvm_core.ops.registry import OpInfo
from bcvm_core.tiers.select import CallSite
from tests import sample_errors as errors
from tests import sample_forms as forms
from tests import spelled
from tests.reference import OWN, RANDOM, reference
from tests.sample_checks import outcome
from tests.sample_values import Sample
from tests.samples import copied, python_samples, samples

ROWS = registry.rows()
NUMPYS = [op for op in ROWS if op.name not in OWN and op.name not in RANDOM]
OWNS = [op for op in ROWS if op.name in OWN or op.name in RANDOM]


def run(function: Any, sample: Sample) -> Any:
    return outcome(function, *copied(sample[0]), **{name: copied(value) for name, value in sample[1].items()})


def by_numpy(op: OpInfo, sample: Sample) -> Any:
    """What NumPy or Python makes of the call; None where no spelling of theirs says it."""
    calls = spelled.calls(op, copied(sample[0]), copied(sample[1]))
    return outcome(calls[0].run) if calls else None


def refused(op: OpInfo, sample: Sample, kind: Any) -> None:
    """The definition and a call site raise `kind`, or leave the call to Python, which does."""
    for function in (op.definition, CallSite(op, syntax=False)):
        found = run(function, sample)
        assert isinstance(found, (*kind, Decline) if isinstance(kind, tuple) else (kind, Decline)), found


@pytest.mark.parametrize("op", NUMPYS, ids=lambda op: op.name)
def test_what_numpy_refuses(op: OpInfo) -> None:
    seen = 0
    for sample in forms.every(op):
        for _, wrong in errors.spoiled(op, sample):
            theirs = by_numpy(op, wrong)
            if isinstance(theirs, Exception):
                refused(op, wrong, type(theirs))
                seen += 1
    for wrong, kind in errors.SPECIAL.get(op.name, ()):
        theirs = by_numpy(op, wrong)
        assert theirs is None or isinstance(theirs, kind), theirs
        refused(op, wrong, kind)
        seen += 1
    assert seen or op.name in errors.ANYTHING, "an op without error inputs"


@pytest.mark.parametrize("op", OWNS, ids=lambda op: op.name)
def test_what_own_ops_refuse(op: OpInfo) -> None:
    found: dict[str, Any] = {}
    for sample in forms.every(op):
        for fault, wrong in errors.spoiled(op, sample):
            ours = run(op.definition, wrong)
            if isinstance(ours, Exception) and not isinstance(ours, Decline):
                kind = errors.OTHERWISE.get((op.name, fault), errors.KINDS[fault])
                assert str(ours), "an exception without a word"
                refused(op, wrong, kind)
                found[fault] = ours
    added = {"text"} if op.name in errors.ADD_TEXT and NUMPY_2 else set()
    assert found.keys() == errors.FAULTS.get(op.name, set()) - added
    for wrong, kind in errors.SPECIAL.get(op.name, ()):
        refused(op, wrong, kind)
    assert found or op.name in errors.SPECIAL


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_the_list_is_complete(op: OpInfo) -> None:
    assert samples(op) or python_samples(op), "no sample"
    assert reference(op) is not None or op.name in RANDOM, "no reference"


def test_the_list_names_nothing_else() -> None:
    names = {op.name for op in ROWS}
    assert {*OWN, *RANDOM, *errors.FAULTS, *errors.SPECIAL, *errors.ANYTHING} <= names
    assert {name for name, _ in errors.OTHERWISE} <= names and set().union(*errors.FAULTS.values()) <= errors.KINDS.keys()


def test_errors_are_the_users_own_in_compiled_functions() -> None:
    """Type and text, through `jit`: a region that fails is repeated by Python."""
    import bcvm_core as bcvm

    def f(x: Any, y: Any) -> Any:
        z = x * 2
        return np.concatenate([z, y], axis=1) + 1

    compiled = bcvm.jit(f)
    for x, y in ((np.ones((2, 3)), np.ones((2, 1))), (np.ones((2, 3)), np.ones((3, 1))), (np.ones(3), np.ones(3))):
        ours, theirs = outcome(compiled, x, y), outcome(f, x, y)
        assert type(ours) is type(theirs) and (not isinstance(theirs, Exception) or str(ours) == str(theirs))
