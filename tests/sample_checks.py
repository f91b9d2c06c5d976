"""How a sample is held against the reference of its op.

The definition is compared with NumPy itself on the same operands where the op's bits are NumPy's, else with
NumPy in float64. That the kernels give the definition's bits is `tests/tiers/test_samples.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

from bcvm_core.errors import Decline
from bcvm_core.ops import registry
from bcvm_core.ops.registry import OpInfo
from tests.reference import OWN, RANDOM, reference
from tests.sample_values import Sample
from tests.samples import copied, has_data

ROWS = [row for row in registry.rows() if row.name not in RANDOM and has_data(row)]
KEEP = {"nll_loss": {"target"}, "cross_entropy": {"target"}, "masked_fill": {"mask"}, "attention": {"mask"},
        "max_unpool1d": {"indices"}, "max_unpool2d": {"indices"}, "max_unpool3d": {"indices"},
        "embedding": {"x"}, "embedding_lookup": {"index"}}  # fmt: skip
"""Operands that are no numbers: classes, places, masks."""


@contextmanager
def noted(what: str, sample: Sample) -> Iterator[None]:
    """Say which variant of which sample failed."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{what}: {sample}")
        raise


def by_numpy(op: OpInfo) -> bool:
    """Whether the reference is NumPy's function on the same operands."""
    return op.exact and op.name not in OWN


def wide(op: OpInfo, name: str, value: Any) -> Any:
    """Floats as float64; integers as well where an own op computes with them."""
    if type(value) in (tuple, list):
        return type(value)([wide(op, name, item) for item in value])
    if not isinstance(value, np.ndarray | np.generic):
        return value
    array = np.asarray(value)
    counts = op.name in OWN and op.family not in ("shape", "create") and op.name != "divide_rounded" and name not in KEEP.get(op.name, ())
    if array.dtype.kind in "fV" or (array.dtype.kind in "iub" and counts):
        array = array.astype(np.float64)
    return array.copy() if isinstance(value, np.ndarray) else array[()]


def outcome(function: Any, *operands: Any, **attrs: Any) -> Any:
    """The result, or the exception."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*operands, **attrs)
        except Exception as error:
            return error


def expected(op: OpInfo, sample: Sample) -> Any:
    function = reference(op)
    assert function is not None
    operands, attrs = sample
    if by_numpy(op):
        return outcome(function, *copied(operands), **{name: copied(value) for name, value in attrs.items()})
    names = [p.name for p in op.operands]
    widened = [wide(op, name, value) for name, value in zip(names, operands, strict=True)]
    return outcome(function, *widened, **{name: wide(op, name, value) for name, value in attrs.items()})


def given(op: OpInfo, sample: Sample) -> Any:
    operands, attrs = sample
    return outcome(op.definition, *copied(operands), **{name: copied(value) for name, value in attrs.items()})


def compare(op: OpInfo, ours: Any, theirs: Any, factor: float = 16.0) -> None:
    """Equal to the bit (but for NaN's) where the reference is NumPy's own result, else within rounding of the result's type."""
    if isinstance(theirs, tuple | list):
        assert isinstance(ours, tuple | list) and len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            compare(op, a, b, factor)
        return
    if theirs is None or not isinstance(theirs, np.ndarray | np.generic | int | float | complex):
        assert (ours is None) == (theirs is None) and (theirs is None or ours == theirs)
        return
    a, b = np.asarray(ours), np.asarray(theirs)
    assert a.shape == b.shape, (a.shape, b.shape)
    if by_numpy(op):
        assert type(ours) is type(theirs) and a.dtype == b.dtype
        if a.dtype.kind in "fV":
            a, b = a.astype(np.float64), b.astype(np.float64)
            number = ~np.isnan(a)
            np.testing.assert_array_equal(np.signbit(a)[number], np.signbit(b)[number])
        np.testing.assert_array_equal(a, b)
        return
    _near(a, b, factor)


def _near(a: Any, b: Any, factor: float) -> None:
    if a.dtype.kind in "iub":  # what has no fraction is cut, what is bool is a sum that is not 0
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(a, b != 0 if a.dtype.kind == "b" else b.astype(a.dtype))
        return
    eps = factor * float(ml_dtypes.finfo(a.dtype).eps) if a.dtype.kind in "fV" else 1e-5
    with np.errstate(all="ignore"):
        b = b.astype(a.dtype)
    kind = np.complex128 if a.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(a.astype(kind), b.astype(kind), rtol=eps, atol=eps)


def check(op: OpInfo, sample: Sample) -> None:
    """The same result, or both refuse. A call that a definition leaves to Python is Python's."""
    ours, theirs = given(op, sample), expected(op, sample)
    if isinstance(ours, Decline):
        return
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        assert isinstance(ours, type(theirs)) if by_numpy(op) else isinstance(ours, Exception) is isinstance(theirs, Exception), (
            ours,
            theirs,
        )
        return
    compare(op, ours, theirs)
