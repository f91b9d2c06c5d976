"""Every sample in every spelling of MindSpore's, run by a call site on MindSpore's tensors, against the reference in float64.

MindSpore's own result is no reference: many of these have no kernel on the CPU, and the published deviations stand for others.
"""

from __future__ import annotations

import collections
import functools
from typing import Any

import mindspore as ms
import ml_dtypes
import numpy as np
import pytest
from door_support import array, tensor, type_name

from bcvm_core import coverage
from bcvm_core.errors import Decline
from bcvm_core.ops import registry
from bcvm_core.ops.registry import OpInfo, Spelling
from bcvm_core.tiers.select import CallSite
from tests import sample_forms as forms
from tests import spelled
from tests.reference import OWN, RANDOM, reference
from tests.sample_checks import KEEP, outcome
from tests.sample_values import Sample

pytestmark = pytest.mark.mindspore
OWNERS = sorted({e.owner for e in coverage.entries() if e.owner.startswith("mindspore.")})
TYPES = ("float16", "bfloat16", "float64", "int32")

ELSEWHERE = {
    "pad": "widths are pairs from the last axis on", "split": "sizes, a number of parts, or all slices",
    "as": "a tensor in place of a shape", "create": "no operand says that the result is MindSpore's", "norm": "matrix norms",
    "einsum": "an equation before the tensors",
    "first": "elements in the order in which they come", "with_scale": "two results", "triangular_solve": "two results",
    "size_of_a_tensor": "a tensor in place of a size", "tolist": "no tensor", "empty_like": "no numbers",
}  # fmt: skip
"""Rows and dialects whose arguments mean something else in MindSpore: `test_ops.py`, `test_ops_more.py` and `test_forms.py` have them."""


IDLE = {f"mindspore.Tensor.{name}({parameters})" for name in ("max", "min") for parameters in ("*, keepdims", "*, initial, where=None")}
"""Spellings whose arguments mean nothing without an axis, or that only MindSpore has."""


def links() -> dict[str, list[tuple[OpInfo, Spelling]]]:
    found: dict[str, list[tuple[OpInfo, Spelling]]] = collections.defaultdict(list)
    for entry in coverage.entries():
        if entry.owner in OWNERS and entry.kind != "attribute":
            for op, s in entry.overloads:
                alone = Spelling(s.target, s.signature, s.rename, s.kind, s.fixed, s.extra, s.only)
                if op.name not in RANDOM and not {op.name, s.fixed.get("dialect")} & ELSEWHERE.keys():
                    found[entry.owner].append((op, alone))
    return found


def as_tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return tensor(value, value.dtype)
    if isinstance(value, np.generic):
        return value.item()
    return type(value)([as_tensors(item) for item in value]) if type(value) in (list, tuple) else value


def run(op: OpInfo, spelling: Spelling, sample: Sample) -> Any:
    """The call's result; None where the spelling cannot say the sample, a Decline where MindSpore is to run it."""
    form = spelled.arguments(op, spelling, *sample)
    if form is None:
        return None
    args, kwargs = as_tensors(form[0]), {name: as_tensors(value) for name, value in form[1].items()}
    method = spelling.kind == "method"
    bound = registry.bind(op, spelling, args[1:] if method else args, kwargs, *(args[:1] if method else ()))
    assert bound is not None, f"{spelling.target}: does not bind"
    attrs = {name: value for name, value in bound.attrs.items() if value != ()}
    try:
        result = CallSite(op, syntax=False)(*bound.operands, **attrs)
    except (Decline, TypeError) as reason:  # MindSpore says what is wrong
        return reason
    return bound.operands[0] if op.writes else result


def wanted(op: OpInfo, spelling: Spelling, sample: Sample, floats: bool) -> Any:
    """The reference of the sample with what the spelling fixes; integers are numbers where the result is a float."""
    operands, attrs = sample
    attrs = {**{name: value for name, value in spelling.fixed.items() if name != "dialect"}, **attrs}
    if attrs.get("axis") == () and op.shape_rule == "reduce":
        attrs["axis"] = None

    def widen(name: str, value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)([widen(name, item) for item in value])
        numbers = isinstance(value, np.ndarray | np.generic) and (
            value.dtype.kind in "fV"
            or (floats and value.dtype.kind in "iub" and name not in KEEP.get(op.name, ()) and op.family not in ("shape", "create"))
        )
        return np.asarray(value).astype(np.float64)[()] if numbers else value.copy() if isinstance(value, np.ndarray) else value

    function = reference(op)
    assert function is not None
    given = [widen(p.name, value) for p, value in zip(op.operands, operands, strict=False)]
    result = outcome(function, *given, **{name: widen(name, value) for name, value in attrs.items()})
    return given[0] if op.writes else result


def near(ours: Any, theirs: Any) -> None:
    name, a, b = type_name(ours), np.asarray(array(ours)), np.asarray(theirs)
    assert a.shape == b.shape, (a.shape, b.shape)
    if a.dtype.kind in "iub":
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(a, b.astype(a.dtype))
        return
    eps = {"bfloat16": float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps)}.get(name) or float(np.finfo(a.dtype).eps)
    np.testing.assert_allclose(a, b, rtol=32 * eps, atol=32 * eps)


def check(op: OpInfo, spelling: Spelling, sample: Sample) -> bool:
    """Whether the call ran; it then gave the right numbers."""
    ours = run(op, spelling, sample)
    if ours is None or isinstance(ours, Exception):
        return False
    if str(spelling.fixed.get("dialect", "")).startswith("order"):
        ours = (None, ours)
    parts = ours if isinstance(ours, tuple) else (ours,)
    floats = op.name in OWN or any(isinstance(part, ms.Tensor) and part.is_floating_point() for part in parts)
    theirs = wanted(op, spelling, sample, floats)
    assert not isinstance(theirs, Exception), theirs
    others = theirs if isinstance(theirs, tuple | list) else (theirs,)
    assert len(parts) == len(others)
    for a, b in zip(parts, others, strict=True):
        if a is not None:
            near(a, b)
    return True


@functools.cache
def _samples_of(name: str) -> tuple[Sample, ...]:
    return tuple(forms.every(registry.row(name)))


def every(op: OpInfo) -> tuple[Sample, ...]:
    return _samples_of(op.name)


LINKS = links()


@pytest.mark.parametrize("owner", OWNERS)
def test_samples(owner: str) -> None:
    wrong, idle = [], []
    for op, spelling in LINKS[owner]:
        ran = False
        for sample in every(op):
            try:
                ran |= check(op, spelling, sample)
            except AssertionError as error:
                wrong.append((spelling.target, spelling.signature, str(sample[1])[:60], " ".join(str(error).split())[:160]))
        if not ran:
            idle.append(f"{spelling.target}({spelling.signature})")
    assert wrong == [], wrong
    assert set(idle) <= IDLE, sorted(set(idle) - IDLE)


@pytest.mark.parametrize("dtype", TYPES)
def test_element_types(dtype: str) -> None:
    wrong = []
    for op, spelling in (link for owner in OWNERS for link in LINKS[owner]):
        sample = next((s for s in every(op) if forms.has_floats(s)), None)
        if sample is not None:
            try:
                check(op, spelling, forms.in_type(sample, forms.TYPES[dtype]))
            except AssertionError as error:
                wrong.append((spelling.target, spelling.signature, " ".join(str(error).split())[:160]))
    assert wrong == [], wrong
