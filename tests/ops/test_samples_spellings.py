"""Every sample in every spelling of NumPy's and Python's, by position and by keyword: bound through the table, run by a call site,
the result is that of the call itself, and that of `bcvm.ops`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import bcvm_core.ops
from bcvm_core import testing
from bcvm_core.errors import Decline
from bcvm_core.ops import public, registry
from bcvm_core.ops.registry import OpInfo
from bcvm_core.tiers.select import CallSite
from tests import spelled
from tests.reference import OWN
from tests.sample_checks import ROWS, compare
from tests.samples import copied, samples

WITH_NUMPY = [op for op in ROWS if op.name not in OWN]
each_row = pytest.mark.parametrize("op", WITH_NUMPY, ids=lambda op: op.name)


def quiet(function: Any, *args: Any, **kwargs: Any) -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


@each_row
def test_spellings(op: OpInfo) -> None:
    said = set()
    for operands, attrs in samples(op):
        for call in spelled.calls(op, operands, attrs):
            mine = spelled.Call(call.spelling, call.function, copied(call.args), copied(call.kwargs))
            theirs = spelled.Call(call.spelling, call.function, copied(call.args), copied(call.kwargs))
            bound = mine.bind(op)
            assert bound is not None and bound.op is op, call.spelling.target
            try:
                ours = quiet(CallSite(op, syntax=call.spelling.kind == "operator"), *bound.operands, **bound.attrs)
            except Decline:
                continue
            said.add(call.spelling.target)
            compare(op, ours, quiet(theirs.run), 64)
            if op.writes:
                testing.assert_same_bits(mine.args, theirs.args)
    assert said, "no spelling of NumPy's was tried"


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_own_functions(op: OpInfo) -> None:
    """`bcvm.ops.<name>(...)`: operands by position, and all by keyword."""
    function = next((getattr(bcvm_core.ops, s.target.rpartition(".")[2]) for row, s in public.listed() if row is op), None)
    if function is None:
        assert not any(s.target.startswith("bcvm_core.") for s in op.spellings), "only what Python spells itself has no function"
        return
    found = registry.by_callable(function)
    assert found is not None and found[0] is op
    for operands, attrs in samples(op):
        expected = quiet(CallSite(op, syntax=False), *copied(operands), **copied(attrs))
        for by_keyword in (False, True):
            form = spelled.arguments(op, found[1], copied(operands), copied(attrs), by_keyword)
            assert form is not None, "the function cannot say what the sample says"
            testing.assert_same_bits(quiet(function, *form[0], **form[1]), expected)


def test_every_numpy_spelling_is_tried() -> None:
    """Some sample of its op can be written in it; those that need arguments of their own are named."""
    untried = []
    for op in WITH_NUMPY:
        written = {call.spelling.target for operands, attrs in samples(op) for call in spelled.calls(op, operands, attrs)}
        untried += [
            s.target for s in op.spellings if not s.target.startswith("bcvm_core.") and spelled.exists(s) and s.target not in written
        ]
    assert untried == []
