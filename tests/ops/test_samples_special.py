"""Every op on the samples of the one list, with NaN, infinities, -0.0, subnormal and largest numbers."""

from __future__ import annotations

import pytest

from bcvm_core.ops.registry import OpInfo
from tests import sample_forms as forms
from tests.sample_checks import ROWS, by_numpy, check

each_row = pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)


@each_row
@pytest.mark.parametrize("name", forms.SPECIAL)
def test_special_values(op: OpInfo, name: str) -> None:
    if name == "largest" and not by_numpy(op):
        pytest.skip("what overflows in float32 need not in float64")
    for sample in forms.every(op):
        if forms.has_floats(sample):
            for place in (0, 5):
                check(op, forms.with_special(sample, forms.SPECIAL[name], place))
            check(op, forms.with_special(forms.in_type(sample, forms.FLOATS["bfloat16"]), forms.SPECIAL[name], 1))
