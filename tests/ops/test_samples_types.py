"""Every op on the samples of the one list, in every element type."""

from __future__ import annotations

import numpy as np
import pytest

from bcvm_core.errors import Decline
from bcvm_core.ops.registry import OpInfo
from tests import sample_forms as forms
from tests.reference import OWN
from tests.sample_checks import ROWS, by_numpy, check, given, noted

each_row = pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
REFUSE_INTEGERS = {
    "add_scaled", "subtract_scaled", "addmm", "index_add",  # fractions of integers
}  # fmt: skip
REFUSE_BOOL = {"squared_difference", "subtract_scaled", "cross", "tensor_scatter", "frac"}  # NumPy has no difference of truth values


@each_row
def test_element_types(op: OpInfo) -> None:
    """float16, bfloat16, float32, float64 and, where the op takes them, integers and bool."""
    for name, dtype in forms.TYPES.items():
        for sample in filter(forms.has_floats, forms.every(op)):
            with noted(name, sample):
                sample = forms.in_type(sample, dtype)
                if name in forms.INTEGERS and op.name in OWN and isinstance(given(op, sample), TypeError):
                    assert op.name in REFUSE_INTEGERS or (name == "bool" and op.name in REFUSE_BOOL), "takes integers no longer"
                else:
                    check(op, sample)


@each_row
def test_results_keep_the_type_of_floats(op: OpInfo) -> None:
    """What an own op computes from floats of one type has that type."""
    if by_numpy(op) or op.dtype_rule in ("attr", "index", "bool", "other") or op.result != "tensor" or op.name in ("polar", "norm"):
        return
    for dtype in forms.FLOATS.values():
        for sample in forms.every(op):
            if forms.has_floats(sample):
                ours = given(op, forms.in_type(sample, dtype))
                assert isinstance(ours, Decline) or np.asarray(ours).dtype == dtype, op.name
