"""One answer with NumPy: element types x scalars x layouts x special values, results and in-place writes."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcvm_core import dtypes
from bcvm_core.devices import base
from bcvm_core.errors import Decline
from bcvm_core.ops import registry
from bcvm_core.testing import assert_same_bits
from bcvm_core.tiers import keys
from bcvm_core.tiers.select import CallSite

NAMES = [row.name for row in dtypes.TABLE]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "power",
    "pow",
    "maximum",
    "minimum",
    "equal",
    "less",
    "bitwise_and",
    "left_shift",
]
UNARY = ["negative", "absolute", "sqrt", "floor", "sign", "isnan", "invert", "square", "logical_not"]
SCALARS: list[Any] = [
    True,
    2,
    -3,
    300,
    2**40,
    0.5,
    float("nan"),
    float("inf"),
    -0.0,
    1e300,
    1j,
    np.float32(1.5),
    np.int8(-7),
    np.float64(1e-320),
    np.bool_(False),
]


def _special(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Twelve values with the corners of the type among them."""
    row = dtypes.BY_NUMPY[dtype]
    if row.kind == "bool":
        return np.array([True, False, True] * 4)
    if row.kind in ("int", "uint"):
        info = np.iinfo(dtype)
        low = -1 if row.kind == "int" else 0
        return np.array([0, 1, 2, 3, low, info.max, info.min, info.max - 1, 7, 5, 100, 1], dtype)
    real = dtype if row.kind == "float" else np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    info = ml_dtypes.finfo(real)
    with np.errstate(all="ignore"):
        values = np.array([0.0, -0.0, 1, -1.5, np.inf, -np.inf, np.nan, 3.25, 1e-3, 7, -2, 0.1]).astype(real)
        values[8] = info.tiny
        values[9] = info.max
        return values.astype(dtype) if row.kind == "float" else (values + 1j * values[::-1]).astype(dtype)


def _layouts(x: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "plain": x.reshape(3, 4),
        "transposed": x.reshape(4, 3).T,
        "every second": np.repeat(x, 2)[::2].reshape(3, 4)[:, ::-1],
        "row": x[:4],
        "column": x[:3].reshape(3, 1),
        "zero-d": x[3:4].reshape(()),
        "one": x[3:4].reshape(1, 1),
        "stretched": np.broadcast_to(x[:4], (3, 4)),
    }


def _outcome(call: Any) -> tuple[str, Any]:
    """A result, or the exception's type and text."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return "value", call()
    except Decline:
        raise
    except Exception as error:
        return "error", (type(error), str(error))


def _same(site: CallSite, reference: Any, *operands: Any) -> None:
    got = _outcome(lambda: site(*operands))
    expected = _outcome(lambda: reference(*operands))
    assert got[0] == expected[0], (got, expected)
    assert_same_bits(got[1], expected[1])


def _reference(name: str) -> Any:
    return operator.pow if name == "pow" else registry.row(name).definition


@pytest.mark.parametrize("name", BINARY)
def test_binary_promotion(name: str) -> None:
    site = CallSite(name, syntax=False)
    reference = _reference(name)
    for left in NAMES:
        a = _special(dtypes.BY_NAME[left].numpy).reshape(3, 4)
        for right in NAMES:
            _same(site, reference, a, _special(dtypes.BY_NAME[right].numpy)[:4])
        for scalar in SCALARS:
            _same(site, reference, a, scalar)
            _same(site, reference, scalar, a)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    site = CallSite(name)
    for dtype in NAMES:
        for x in _layouts(_special(dtypes.BY_NAME[dtype].numpy)).values():
            _same(site, _reference(name), x)


@pytest.mark.parametrize("name", ["add", "multiply", "divide", "greater"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "complex64"])
def test_layouts(name: str, dtype: str) -> None:
    site = CallSite(name)
    shapes = _layouts(_special(dtypes.BY_NAME[dtype].numpy))
    for a in shapes.values():
        for b in shapes.values():
            _same(site, _reference(name), a, b)


_IN_PLACE = {
    "add": operator.iadd,
    "subtract": operator.isub,
    "multiply": operator.imul,
    "divide": operator.itruediv,
    "floor_divide": operator.ifloordiv,
}


@pytest.mark.parametrize("name", _IN_PLACE)
@pytest.mark.parametrize("way", ["direct", "checked first"])
def test_in_place_is_the_operator(name: str, way: str) -> None:
    """The same writes, or the same refusal and nothing written."""
    site = CallSite(name)
    for left in NAMES:
        for right in [*NAMES, *SCALARS]:
            a = _special(dtypes.BY_NAME[left].numpy).reshape(3, 4)
            b = _special(dtypes.BY_NAME[right].numpy)[:4] if isinstance(right, str) else right
            expected, mine, before = a.copy(), a.copy(), a.copy()
            wanted = _outcome(lambda: _IN_PLACE[name](expected, b))  # noqa: B023
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    if way == "direct":
                        assert site(mine, b, out=mine) is mine
                    else:
                        mine[...] = site.compute_for(mine, mine, b)
                except (Decline, TypeError, OverflowError):
                    assert wanted[0] == "error", (left, right)
                    assert_same_bits(mine, before)
                    continue
            assert wanted[0] == "value", (left, right, wanted)
            assert_same_bits(mine, expected)


def test_in_place_with_overlap() -> None:
    for delta in (1, 2, -1):
        mine, expected = np.arange(9.0), np.arange(9.0)
        target, source = (slice(delta, None), slice(None, -delta)) if delta > 0 else (slice(None, delta), slice(-delta, None))
        expected[target] += expected[source]
        CallSite("add")(mine[target], mine[source], out=mine[target])
        assert_same_bits(mine, expected)


# --- equal keys, equal signatures ----------------------------------------------------------------

_dtype = st.sampled_from([np.float32, np.float64, np.int8, np.bool_])
_dim = st.sampled_from([0, 1, 2, 3])


@st.composite
def _operand(draw: st.DrawFn) -> Any:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.sampled_from(SCALARS))
    shape = tuple(draw(st.lists(_dim, max_size=4)))
    x = np.zeros(shape, draw(_dtype))
    if kind < 4:
        x = x.T
    if kind < 3 and x.ndim:
        x = x[..., ::-1]
    return x


_KINDS = {"elementwise": ("add", 2), "ternary": ("where", 3), "unary": ("sqrt", 1), "optional": ("clip", 3), "product": ("matmul", 2)}


@given(st.sampled_from(sorted(_KINDS)), st.data())
def test_equal_keys_mean_equal_signatures(kind: str, data: st.DataObject) -> None:
    name, count = _KINDS[kind]
    op = registry.row(name)
    key = keys.maker(op)
    seen: dict[Any, Any] = {}
    for _ in range(12):
        operands = tuple(data.draw(_operand()) for _ in range(count))
        classes = base.classify_all(op, operands, {})
        assert seen.setdefault(key(operands, {}), classes) == classes, operands
