"""The promotion table against MindSpore itself, for every pair of element types it runs."""

from __future__ import annotations

import itertools
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import MODULES, by_site, numpy_type, type_name

from bcvm_core import dtypes
from bcvm_core.errors import Decline
from bcvm_core.mindspore import promotion

pytestmark = pytest.mark.mindspore
NAMES = [row.name for row in dtypes.TABLE]
SCALARS: dict[str, Any] = {"bool": True, "int": 2, "float": 2.5}

BINARY = (
    "x + y", "x - y", "x * y", "x / y", "x // y", "x % y", "x ** y", "x < y", "x == y", "x != y", "x & y", "x | y",
    "ops.add(x, y)", "ops.div(x, y)", "ops.pow(x, y)", "ops.maximum(x, y)", "ops.atan2(x, y)", "ops.floor_mod(x, y)", "ops.fmod(x, y)",
    "mint.add(x, y)", "mint.mul(x, y)", "mint.div(x, y)", "mint.floor_divide(x, y)", "mint.remainder(x, y)", "mint.minimum(x, y)",
    "mint.pow(x, y)", "mint.lt(x, y)", "mint.logical_and(x, y)", "mint.where(c, x, y)", "ops.cat((x, y))", "x @ y", "ops.where(c, x, y)",
)  # fmt: skip
UNARY = (
    "abs neg sign floor ceil round trunc exp log log1p sqrt rsqrt square reciprocal sin cos tanh erf sigmoid isnan logical_not"
    " sum prod mean amax amin all argmax argmin var std cumprod relu silu gelu softplus hardswish"
).split()


def operand(name: str) -> Any:
    return ms.Tensor.from_numpy(np.ones(3).astype(numpy_type(name)))


TENSORS = {name: operand(name) for name in NAMES}
MASK = ms.Tensor(np.array([True, False, True]))


def compare(text: str, **names: Any) -> tuple[int, list[str]]:
    """(1 when MindSpore ran it, what differs)."""
    try:
        theirs = type_name(eval(text, {**MODULES, **names}))
    except Exception:
        return 0, []
    try:
        ours = type_name(by_site(text, **names))
    except (Decline, TypeError):
        return 1, []  # left to MindSpore: the same by construction
    return 1, [] if ours == theirs else [f"{text} with {[type_name(v) for v in names.values()]}: {ours}, MindSpore {theirs}"]


@pytest.mark.parametrize("text", BINARY)
def test_pairs_of_tensors(text: str) -> None:
    ran, wrong = 0, []
    for a, b in itertools.product(NAMES, NAMES):
        count, difference = compare(text, x=TENSORS[a], y=TENSORS[b], c=MASK)
        ran += count
        wrong += difference
    assert wrong == [] and ran >= 7


@pytest.mark.parametrize("text", [t for t in BINARY if "cat" not in t and "@" not in t])
def test_tensors_with_python_numbers(text: str) -> None:
    ran, wrong = 0, []
    for name, scalar in itertools.product(NAMES, SCALARS.values()):
        for x, y in ((TENSORS[name], scalar), (scalar, TENSORS[name])):
            count, difference = compare(text, x=x, y=y, c=MASK)
            ran += count
            wrong += difference
    assert wrong == [] and (ran >= 12 or "&" in text or "|" in text or "logical" in text)


@pytest.mark.parametrize("name", UNARY)
def test_one_tensor(name: str) -> None:
    ran, wrong = 0, []
    for prefix, dtype in itertools.product(("ops", "mint"), NAMES):
        if hasattr(MODULES[prefix], name):
            extra = ", 0" if name == "cumprod" else ""
            count, difference = compare(f"{prefix}.{name}(x{extra})", x=TENSORS[dtype])
            ran += count
            wrong += difference
    assert wrong == [] and ran >= 2


def test_lattice_is_symmetric_and_closed() -> None:
    for a, b in itertools.product(NAMES, NAMES):
        met = promotion.promote(a, b)
        assert met == promotion.promote(b, a)
        assert met is None or met in NAMES
        assert promotion.promote(a, a) == a


def test_lattice_agrees_with_mindspores_sum_where_it_runs() -> None:
    """Nothing is refused that MindSpore takes: the table is neither too wide nor too narrow."""
    for a, b in itertools.product(NAMES, NAMES):
        try:
            theirs = type_name(TENSORS[a] + TENSORS[b])
        except Exception:
            theirs = None
        assert promotion.promote(a, b) == theirs, (a, b)


def test_a_python_float_is_a_float32_number() -> None:
    x = ms.Tensor(np.zeros(1))
    assert float(by_site("x + 0.1", x=x).asnumpy()[0]) == float(np.float32(0.1)) == float((x + 0.1).asnumpy()[0])
    assert by_site("x == 0.1", x=ms.Tensor(np.array([0.1]))).asnumpy().tolist() == [False]


@pytest.mark.parametrize("text", ["x + s", "s < x", "x == s", "ops.maximum(x, s)"])
def test_integers_that_do_not_fit_are_left_to_mindspore(text: str) -> None:
    """They wrap around in some of its ops and not in others."""
    for dtype, number in ((np.int8, 300), (np.uint8, -2), (np.int32, 2**40), (np.int64, 2**70)):
        with pytest.raises(Decline):
            by_site(text, x=ms.Tensor(np.array([100], dtype)), s=number)


@pytest.mark.parametrize("left", [np.ones(3, np.float32), np.float64(2.5)])
def test_arrays_mixed_in_are_left_to_mindspore(left: Any) -> None:
    with pytest.raises(Decline):
        by_site("a + x", a=left, x=TENSORS["float32"])


ZERO_D = (
    "x + y", "x - y", "x * y", "x / y", "x // y", "x ** y", "ops.fmod(x, y)", "ops.maximum(x, y)", "mint.mul(x, y)", "mint.div(x, y)",
    "x.mul(y)", "ops.where(c, x, y)", "x < y",
)  # fmt: skip
REAL = [name for name in NAMES if "complex" not in name and name != "bfloat16"]  # some pairs with those end the process in MindSpore


@pytest.mark.parametrize("text", ZERO_D)
def test_zero_dimensional_tensors(text: str) -> None:
    """In products a 0-d tensor's wider type gives way; elsewhere it counts like any other."""
    wrong = []
    for a, b in itertools.product(REAL, REAL):
        for x, y in ((TENSORS[a].sum() if a == "float32" else scalar(a), TENSORS[b]), (TENSORS[a], scalar(b)), (scalar(a), scalar(b))):
            wrong += compare(text, x=x, y=y, c=MASK)[1]
    assert wrong == []


def scalar(name: str) -> Any:
    return ms.Tensor.from_numpy(np.ones(()).astype(numpy_type(name)))
