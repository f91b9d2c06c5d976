"""Reductions against NumPy: kind of result, dtype, shape, values, errors."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from bcvm_core import fpstatus
from bcvm_core.errors import Decline
from bcvm_core.ops import registry

TREES = ("sum", "prod", "mean", "var", "std", "nansum")
EXACT = ("max", "min", "ptp", "any", "all", "argmax", "argmin")
DTYPES = ("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128")
SHAPES = ((), (1,), (5,), (3, 4), (2, 3, 70), (1, 1, 1), (4, 0), (0, 4), (1030,))
TOLERANCE = {"float16": 2e-3, "float32": 2e-6, "complex64": 2e-6, "float64": 1e-14, "complex128": 1e-14}


def call(name: str, *operands: Any, **attrs: Any) -> Any:
    return registry.row(name).definition(*operands, **attrs)


def sample(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(7)
    if dtype == "bool":
        return rng.random(shape) < 0.5 if shape else np.array(True)
    if dtype[0] in "iu":
        return rng.integers(0, 5, shape).astype(dtype)
    x = rng.standard_normal(shape)
    return np.asarray(x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def axes_for(shape: tuple[int, ...]) -> list[Any]:
    return [None, *range(-len(shape), len(shape)), *([(0, 1), (0, -1)] if len(shape) > 1 else []), ()]


def outcome(function: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return function(*args, **kwargs)
        except Exception as error:
            return error


def check(ours: Any, theirs: Any, exact: bool, tolerance: float = 0.0) -> None:
    assert type(ours) is type(theirs), (ours, theirs)
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    if exact:
        assert ours.tobytes() == theirs.tobytes()
    else:
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TREES + EXACT)
def test_against_numpy(name: str, dtype: str) -> None:
    function = getattr(np, name)
    for shape in SHAPES:
        x = sample(shape, dtype)
        for axis in axes_for(shape):
            if name.startswith("arg") and isinstance(axis, tuple):
                continue
            for keepdims in (False, True):
                theirs = outcome(function, x, axis=axis, keepdims=keepdims)
                ours = outcome(call, name, x, axis=axis, keepdims=keepdims)
                if isinstance(ours, Decline):
                    assert isinstance(theirs, Exception), (name, shape, axis)
                elif isinstance(theirs, Exception):
                    assert type(ours) is type(theirs), (ours, theirs)
                else:
                    exact = dtype[0] not in "fc" and theirs.dtype.kind not in "fc" or name in EXACT
                    check(ours, theirs, exact, TOLERANCE.get(theirs.dtype.name, 1e-12) * (20 if dtype == "float16" else 2))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var"])
@pytest.mark.parametrize(
    "given, dtype",
    [
        ("float32", "float64"),
        ("float64", "float32"),
        ("int8", "float32"),
        ("float32", "float16"),
        ("float64", "complex128"),
        ("float32", "int64"),
        ("bool", "float64"),
        ("int32", "int8"),
    ],
)
def test_dtype_attribute(name: str, given: str, dtype: str) -> None:
    x = sample((3, 70), given)
    theirs = outcome(getattr(np, name), x, axis=1, dtype=dtype)
    ours = outcome(call, name, x, axis=1, dtype=dtype)
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs)
    elif not isinstance(ours, Decline):
        check(ours, theirs, False, 20 * TOLERANCE.get(dtype, 1e-6))


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "std"])
def test_results_lie_in_memory_as_numpys_do(name: str) -> None:
    """Else a reshape of a result would be a view here and a copy there."""
    rng = np.random.default_rng(11)
    for _ in range(300):
        ndim = int(rng.integers(2, 5))
        x = rng.random(rng.integers(2, 4, ndim)).transpose(rng.permutation(ndim))
        x = x[tuple(slice(None, None, int(rng.choice([1, 1, -1]))) for _ in range(ndim))]
        if rng.random() < 0.2 and name in ("sum", "mean", "prod"):
            x = np.broadcast_to(x[:1], (3, *x.shape[1:]))
        axes = tuple(sorted(rng.permutation(ndim)[: rng.integers(1, ndim)].tolist()))
        ours, theirs = call(name, x, axis=axes), getattr(np, name)(x, axis=axes)
        if min(np.shape(theirs), default=1) > 1:
            assert np.asarray(ours).strides == np.asarray(theirs).strides
        assert (
            call(name, x, axis=axes, keepdims=True).flags.c_contiguous == getattr(np, name)(x, axis=axes, keepdims=True).flags.c_contiguous
        )


def test_float64_truth() -> None:
    x = np.random.default_rng(3).standard_normal((40, 3000)).astype(np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(call("sum", x, axis=1), wide.sum(1), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(call("mean", x), wide.mean(), rtol=1e-5)
    np.testing.assert_allclose(call("var", x, axis=0, ddof=1), wide.var(0, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(call("std", x + 1e4), (x + np.float32(1e4)).astype(np.float64).std(), rtol=1e-6)


def test_sixteen_bit_floats_are_rounded_once() -> None:
    x = (np.random.default_rng(3).random((4, 3000)) * 4).astype(np.float16)
    wide = x.astype(np.float64)
    assert call("sum", x, axis=1).tolist() == wide.sum(1).astype(np.float16).tolist()
    assert call("mean", x, axis=0).tolist() == wide.mean(0).astype(np.float16).tolist()
    b = x.astype(ml_dtypes.bfloat16)
    result = call("sum", b, axis=1)
    assert result.dtype == ml_dtypes.bfloat16
    assert result.tolist() == b.astype(np.float64).sum(1).astype(ml_dtypes.bfloat16).tolist()
    assert call("mean", b).dtype == ml_dtypes.bfloat16 and type(call("mean", b)) is ml_dtypes.bfloat16
    assert call("var", b, axis=1).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "max", "min", "argmax"])
def test_special_values_are_of_the_same_kind(name: str) -> None:
    rows = np.array([[1, np.nan, 2], [np.inf, 1, 2], [np.inf, -np.inf, 1], [-0.0, -0.0, -0.0], [3e38, 3e38, 3e38], [-np.inf] * 3])
    for dtype in (np.float32, np.float64):
        x = rows.astype(dtype)
        with np.errstate(all="ignore"):
            theirs, ours = getattr(np, name)(x, axis=1), call(name, x, axis=1)
        assert [str(v) for v in ours] == [str(v) for v in theirs]


def test_events_reach_the_users_error_state() -> None:
    x = np.full(3, 3e38, np.float32)
    with fpstatus.recording() as rec:
        call("sum", x)
    assert rec.kinds == ["overflow"]
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        call("sum", x)
    with fpstatus.recording() as rec:
        call("sum", np.ones(5))
    assert rec.kinds == []


def test_what_numpy_warns_about_is_left_to_python() -> None:
    for name, x, attrs in (
        ("var", np.zeros(1), {"ddof": 1}),
        ("std", np.zeros((2, 3)), {"axis": 0, "ddof": 2}),
        ("var", np.array(1.0), {"ddof": 1}),
        ("sum", np.ones(3, complex), {"dtype": float}),
        ("sum", np.ma.masked_array([1.0, 2.0]), {}),
    ):
        with pytest.raises(Decline):
            call(name, x, **attrs)
    assert call("mean", np.zeros((0, 3)), axis=1).shape == (0,)


@pytest.mark.parametrize("x", [[np.inf, 1], [3e38, -3e38], [2e19, -2e19, 2e19, -2e19], [np.nan, 1], [1, 2], [[np.inf], [1]]])
@pytest.mark.parametrize("name", ["var", "std", "mean", "sum"])
def test_events_name_numpys_steps(name: str, x: Any) -> None:
    x = np.array(x, np.float32)
    with fpstatus.recording() as seen:
        call(name, x)
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        getattr(np, name)(x)
    texts = [str(w.message) for w in expected]
    assert [seen.text(kind, "reduce") for kind in seen.kinds] == texts[: len(seen.kinds)] and bool(seen.kinds) == bool(texts)


@pytest.mark.parametrize(
    ("x", "attrs"), [(np.zeros(0), {}), (np.zeros((0, 3), np.float32), {"axis": 0}), (np.zeros(0, int), {"keepdims": True})]
)
def test_the_mean_of_nothing_warns_as_numpys(x: Any, attrs: dict[str, Any]) -> None:
    with fpstatus.recording() as seen:
        result = call("mean", x, **attrs)
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        reference = np.mean(x, **attrs)
    check(result, reference, False)
    assert [seen.text(kind, "mean") for kind in seen.kinds] == [str(w.message) for w in expected]


@pytest.mark.parametrize("name", ["sum", "mean", "var", "max", "any", "prod", "std", "argmax"])
@pytest.mark.parametrize("axis", [3, -4, (0, 0), "a", 1.5])
def test_errors(name: str, axis: Any) -> None:
    x = np.ones((2, 3, 4), np.float32)
    with pytest.raises(Exception) as theirs:
        getattr(np, name)(x, axis=axis)
    with pytest.raises(type(theirs.value)):
        call(name, x, axis=axis)


def test_empty_maximum_raises() -> None:
    with pytest.raises(ValueError, match="zero-size"):
        call("max", np.zeros((0, 3)), axis=0)
    assert call("max", np.zeros((0, 3)), axis=0, initial=1).tolist() == [1, 1, 1]
    assert call("max", np.array([1, 5, 3]), where=np.array([True, False, True]), initial=0) == 3


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"axis": 0},
        {"axis": 1},
        {"axis": (0, 1)},
        {"keepdims": True},
        {"ord": 1, "axis": 0},
        {"ord": np.inf, "axis": 1},
        {"ord": "fro"},
        {"ord": 2, "axis": -1, "keepdims": True},
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32"])
def test_norm(attrs: dict[str, Any], dtype: str) -> None:
    x = sample((4, 70), dtype)
    check(call("norm", x, **attrs), np.linalg.norm(x, **attrs), False, 1e-2 if dtype == "float16" else 1e-5)


def test_other_norms_are_numpys() -> None:
    for attrs in ({"ord": 2}, {"ord": "nuc"}, {"ord": 3, "axis": 0}, {"ord": -2}):
        with pytest.raises(Decline):
            call("norm", np.eye(3), **attrs)


def test_logsumexp() -> None:
    x = np.array([[1000.0, 1000.0], [-1000.0, -1001.0], [-np.inf, -np.inf], [np.inf, 1.0], [np.nan, 0.0]])
    result = call("logsumexp", x, axis=1)
    np.testing.assert_allclose(result, [1000.6931471805599, -999.6867383124818, -np.inf, np.inf, np.nan], rtol=1e-15)
    assert call("logsumexp", np.zeros((3, 0)), axis=1).tolist() == [-np.inf] * 3
    assert type(call("logsumexp", np.ones(4, np.float32))) is np.float32
    assert call("logsumexp", x, axis=1, keepdims=True).shape == (5, 1)
    with fpstatus.recording() as rec:
        call("logsumexp", x, axis=1)
    assert rec.kinds == []


def test_lists_and_scalars() -> None:
    assert call("sum", [1, 2, 3]) == 6 and type(call("sum", [1, 2, 3])) is type(np.sum([1, 2, 3]))
    assert call("mean", [1, 2]) == 1.5 and call("sum", 2.5) == 2.5
    assert call("cumsum", np.array(5.0, np.float32)).shape == (1,)
    assert type(call("count_nonzero", np.ones(3))) is type(np.count_nonzero(np.ones(3)))


CHOSEN = [
    {"where": np.arange(12).reshape(3, 4) % 3 > 0}, {"where": np.array([True, False, True, True])},
    {"where": np.array([[True], [True], [False]])}, {"where": True}, {"where": [True, False, True, True], "keepdims": True},
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TREES + ("nanmean", "nanvar", "nanstd", "nanprod"))
def test_chosen_elements(name: str, dtype: str) -> None:
    """`where=` and `initial=`: NumPy's results, within rounding."""
    x = sample((3, 4), dtype)
    starts: list[dict[str, Any]] = (
        [{}, {"initial": 2}, {"initial": np.float32(0.5)}] if name in ("sum", "prod", "nansum", "nanprod") else [{}]
    )
    for chosen in CHOSEN:
        for start in starts:
            for axis in (None, 0, 1, (0, 1), -1):
                attrs = {**chosen, **start, "axis": axis}
                theirs, ours = outcome(getattr(np, name), x, **attrs), outcome(call, name, x, **attrs)
                if isinstance(ours, Decline):
                    assert isinstance(theirs, Exception) or dtype[0] == "c" or dtype[0] in "biu" and name[:3] == "nan", (attrs, theirs)
                elif isinstance(theirs, Exception):
                    assert type(ours) is type(theirs), (ours, theirs)
                else:
                    check(ours, theirs, False, TOLERANCE.get(theirs.dtype.name, 1e-12) * 20)


def test_elements_that_are_left_out_do_not_count() -> None:
    x = np.array([[np.nan, 1, 2], [np.inf, 3, 5]], np.float32)
    keep = np.isfinite(x)
    assert call("sum", x, where=keep) == 11 and call("mean", x, axis=1, where=keep).tolist() == [1.5, 4]
    assert call("var", x, where=keep) == np.float32(2.1875) and call("nanmean", x, axis=0).tolist() == [np.inf, 2, 3.5]
    assert call("prod", x, where=keep, initial=2) == 60 and call("sum", x[:, :0], initial=3.5) == 3.5
    assert call("nanstd", x[:1]) == 0.5 and call("sum", x, where=False, axis=0).tolist() == [0, 0, 0]
    for name in ("mean", "var", "std"):
        with pytest.raises(Decline):
            call(name, x, axis=1, where=np.array([[True], [False]]))
    for name in ("nanmean", "nanmax", "nanvar"):
        with pytest.raises(Decline):
            call(name, x[:, :1] * np.float32(np.nan))


@pytest.mark.parametrize("where", [np.ones((2, 3, 4), bool), np.ones(3, bool), np.array([1, 0, 1, 1]), None])
def test_masks_that_fit_nothing_are_numpys_error(where: Any) -> None:
    with pytest.raises((TypeError, ValueError, Decline)):
        call("sum", np.ones((3, 4)), where=where)


@pytest.mark.parametrize("initial", [None, "a", 1j, np.ones(3), 1e300])
def test_initial_values_that_numpy_looks_at_itself(initial: Any) -> None:
    with pytest.raises(Decline):
        call("sum", np.ones(3, np.float32), initial=initial)
