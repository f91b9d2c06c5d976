"""Kernels on the samples of the one list: the bits of the definition, in every element type and layout, with and without generated code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bcvm_core import testing
from bcvm_core.ops.registry import OpInfo
from bcvm_core.tiers.select import CallSite
from tests import sample_forms as forms
from tests.sample_checks import ROWS, outcome
from tests.sample_values import Sample
from tests.samples import copied

each_row = pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
BLAS = "matmul dot inner linear bmm addmm addmv addbmm baddbmm matmul_transposed tensordot einsum vdot attention cdist".split()
"""Products: the library's order of additions goes by strides, and a site copies what is strided first."""


def variants(op: OpInfo) -> list[Sample]:
    found = []
    for sample in forms.every(op):
        found += [sample, forms.stretched(sample)] if not op.writes else [sample]
        found += [forms.mapped(sample, layout) for layout in forms.LAYOUTS.values()]
        found += [forms.cut(op, sample, how) for how in forms.CUTS]
        if forms.has_floats(sample):
            typed = [forms.in_type(sample, dtype) for dtype in forms.TYPES.values()]
            found += typed + [forms.mapped(s, forms.LAYOUTS["backwards"]) for s in typed[:4]]
            found += [forms.with_special(s, value, 3) for s in typed[1:3] for value in forms.SPECIAL.values()]
    return found


def same(op: OpInfo, sample: Sample, function: Any) -> None:
    operands, attrs = sample
    theirs = outcome(op.definition, *copied(operands), **copied(attrs))
    ours = outcome(function, *copied(operands), **copied(attrs))
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        assert type(ours) is type(theirs), (ours, theirs)
    elif op.name in BLAS:
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (ours, theirs)), strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-5, atol=1e-5)
    else:
        testing.assert_same_bits(ours, theirs)


@each_row
def test_bits_are_the_definitions(op: OpInfo) -> None:
    site = CallSite(op, syntax=False)
    for sample in variants(op):
        same(op, sample, site)


@each_row
def test_bits_are_the_definitions_without_generated_code(op: OpInfo) -> None:
    with testing.forbid_executable_memory():
        site = CallSite(op, syntax=False)
        for sample in variants(op)[::5]:
            same(op, sample, site)
