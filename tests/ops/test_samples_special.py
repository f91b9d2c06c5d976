"""Every op on the samples of the one list, with NaN, infinities, -0.0, subnormal and largest numbers."""

from __future__ import annotations

import pytest

from bcvm_core.ops.registry import OpInfo
from tests import sample_forms as forms
from tests.sample_checks import ROWS, by_numpy, check, noted

each_row = pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)


@each_row
def test_special_values(op: OpInfo) -> None:
    for name, value in forms.SPECIAL.items():
        if name == "largest" and not by_numpy(op):
            continue  # what overflows in float32 need not in float64
        for sample in filter(forms.has_floats, forms.every(op)):
            with noted(name, sample):
                for place in (0, 5):
                    check(op, forms.with_special(sample, value, place))
                check(op, forms.with_special(forms.in_type(sample, forms.FLOATS["bfloat16"]), value, 1))
