"""The elementwise rows: spellings, exactness, calling convention, types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bcvm_core import dtypes
from bcvm_core.ops import activations, elementwise, evaluate, registry

ROWS = {row.name: row for row in elementwise.ROWS + activations.ROWS}
UFUNCS = [row for row in elementwise.ROWS if isinstance(row.definition, np.ufunc)]
CANONICAL = [row for row in ROWS.values() if not row.exact]


def test_there_are_rows_of_every_kind() -> None:
    assert len(ROWS) > 90
    assert {"add", "less", "where", "astype", "exp", "relu", "gelu", "bitwise_and", "isnan", "clip"} <= ROWS.keys()


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_rows_are_complete(row: registry.OpInfo) -> None:
    assert row.doc.endswith((".", "approximation."))
    assert row.spellings and row.params and row.params[0].role == "tensor"
    assert row.fuse == "elementwise" and row.policy in (1, 3)
    if row.gradient is not None:
        assert row.gradient.count(";") <= len(row.operands) - 1


@pytest.mark.parametrize("row", UFUNCS, ids=[r.name for r in UFUNCS])
def test_exact_rows_are_numpys_own_functions(row: registry.OpInfo) -> None:
    spelled = [s.target.rpartition(".")[2] for s in row.spellings if s.target.startswith("numpy.")]
    assert spelled and all(getattr(np, name) is row.definition for name in spelled if hasattr(np, name))
    assert row.exact
    assert row.fp_name == row.definition.__name__  # type: ignore[attr-defined]


OPERATORS = "Add Sub Mult Div FloorDiv Mod Pow LShift RShift BitOr BitXor BitAnd USub UAdd Invert Eq NotEq Lt LtE Gt GtE".split()


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_a_row(name: str) -> None:
    row = registry.by_operator(name)
    assert row is not None and row.scalar is not None
    operands = (7, 2)[: len(row.operands)]
    assert type(row.scalar(*operands)) in (int, float, bool)


@pytest.mark.parametrize("exponent", [2, 0.5, -1, 3, 1, 0])
def test_the_power_operator_keeps_its_short_cuts(exponent: float) -> None:
    x = np.linspace(0.1, 9, 50)
    np.testing.assert_array_equal(ROWS["pow"].definition(x, exponent), x**exponent)
    y = x.copy()
    assert ROWS["pow"].definition(y, exponent, out=y) is y
    np.testing.assert_array_equal(y, x**exponent)


def _type_of_result(row: registry.OpInfo, x: Any) -> Any:
    with np.errstate(all="ignore"):
        return row.definition(x)


NUMPY_NAMED = [row for row in CANONICAL if hasattr(np, row.name)]


@pytest.mark.parametrize("row", NUMPY_NAMED, ids=[r.name for r in NUMPY_NAMED])
@pytest.mark.parametrize("name", [n for n in dtypes.BY_NAME if n != "bfloat16"])
def test_result_types_are_numpys(row: registry.OpInfo, name: str) -> None:
    function = getattr(np, row.name)
    for x in (np.ones((2, 3), name), np.ones((), name), np.ones(1, name)[0], np.ones(0, name)):
        with np.errstate(all="ignore"):
            expected = function(x)
        actual = _type_of_result(row, x)
        assert type(actual) is type(expected) and actual.dtype == expected.dtype and actual.shape == expected.shape


@pytest.mark.parametrize("row", CANONICAL, ids=[r.name for r in CANONICAL])
def test_bfloat16_is_computed_as_float32_and_rounded_once(row: registry.OpInfo) -> None:
    bfloat16 = dtypes.BY_NAME["bfloat16"].numpy
    x = np.linspace(0.25, 3, 12, dtype=np.float32).astype(bfloat16)
    assert row.definition(x).dtype == bfloat16
    if row.name != "elu":
        np.testing.assert_array_equal(row.definition(x), row.definition(x.astype(np.float32)).astype(bfloat16))


@pytest.mark.parametrize("row", NUMPY_NAMED, ids=[r.name for r in NUMPY_NAMED])
def test_memory_layout_is_numpys(row: registry.OpInfo) -> None:
    function = getattr(np, row.name)
    base = np.linspace(0.5, 1.5, 120)
    cube = base.reshape(4, 5, 6)
    views = [cube, cube.T, cube.transpose(1, 2, 0), np.asfortranarray(cube), cube[:, ::-1], cube[::2, :, ::-3], cube[:, :1], base[::-1]]
    views += [np.broadcast_to(base[:6], (5, 6)), np.broadcast_to(base[:5, None], (5, 6)), cube[:, 2:2]]
    for view in views:
        actual, expected = row.definition(view), function(view)
        np.testing.assert_allclose(actual, expected, rtol=1e-14)
        assert actual.strides == expected.strides


@pytest.mark.parametrize("row", CANONICAL, ids=[r.name for r in CANONICAL])
def test_out_receives_the_result_and_is_returned(row: registry.OpInfo) -> None:
    if row.name in ("elu", "softplus"):
        pytest.skip("takes no out")
    x = np.linspace(0.1, 0.9, 40).reshape(5, 8)
    expected = row.definition(x)
    for out in (np.empty_like(x), np.empty((8, 5)).T, np.empty((10, 8))[::2]):
        assert row.definition(x, out=out) is out
        np.testing.assert_array_equal(out, expected)
    overlapping = np.concatenate([x, x])
    source = overlapping[:5]
    assert row.definition(source, out=overlapping[1:6]) is not None
    np.testing.assert_array_equal(overlapping[1:6], expected)
    with pytest.raises(TypeError, match="same_kind"):
        row.definition(x, out=np.empty(x.shape, int))


@pytest.mark.parametrize(
    ("name", "attrs", "expected"),
    [
        ("relu", {}, [0.0, 0.0, 0.0, 2.0, 8.0]),
        ("relu6", {}, [0.0, 0.0, 0.0, 2.0, 6.0]),
        ("leaky_relu", {"negative_slope": 0.5}, [-2.0, -0.5, 0.0, 2.0, 8.0]),
        ("hardtanh", {}, [-1.0, -1.0, 0.0, 1.0, 1.0]),
        ("hardsigmoid", {}, [0.0, 1 / 3, 0.5, 5 / 6, 1.0]),
        ("hardswish", {}, [0.0, -1 / 3, 0.0, 5 / 3, 8.0]),
        ("softsign", {}, [-0.8, -0.5, 0.0, 2 / 3, 8 / 9]),
        ("elu", {"alpha": 2.0}, [2 * np.expm1(-4), 2 * np.expm1(-1), 0.0, 2.0, 8.0]),
        ("softplus", {"beta": 2.0}, [np.log1p(np.exp(-8)) / 2, np.log1p(np.exp(-2)) / 2, np.log(2) / 2, np.log1p(np.exp(4)) / 2, 8.0]),
    ],
)
def test_activations(name: str, attrs: dict[str, float], expected: list[float]) -> None:
    x = np.array([-4.0, -1.0, 0.0, 2.0, 8.0])
    np.testing.assert_allclose(ROWS[name].definition(x, **attrs), expected, rtol=1e-6)
    for dtype in (np.float16, np.float32, dtypes.BY_NAME["bfloat16"].numpy):
        assert ROWS[name].definition(x.astype(dtype), **attrs).dtype == dtype


@pytest.mark.parametrize("row", list(activations.ROWS), ids=[r.name for r in activations.ROWS])
def test_activations_keep_nan_and_raise_no_warning(row: registry.OpInfo) -> None:
    x = np.array([np.nan, -200.0, 0.0, 200.0, np.inf] if row.name != "rsqrt" else [np.nan, 4.0], np.float32)
    with np.errstate(all="raise", under="ignore"):
        if row.name == "softsign":
            x = x[:4]
        actual = row.definition(x)
    assert np.isnan(actual[0]) and not np.isnan(actual[1:]).any()


def test_gelu_knows_two_forms() -> None:
    x = np.linspace(-3, 3, 7)
    exact, tanh = ROWS["gelu"].definition(x), ROWS["gelu"].definition(x, approximate="tanh")
    assert np.absolute(exact - tanh).max() > 1e-5
    np.testing.assert_allclose(exact, tanh, atol=1e-3)
    with pytest.raises(ValueError, match="approximate"):
        ROWS["gelu"].definition(x, approximate="sine")


def test_types_without_an_algorithm_go_to_numpy() -> None:
    z = np.array([1 + 2j, 0.5j])
    np.testing.assert_array_equal(evaluate.run("exp", z), np.exp(z))
    with pytest.raises(TypeError, match="sigmoid"):
        evaluate.run("sigmoid", z)


def test_binding_finds_operands_and_attributes() -> None:
    op, spelling = registry.by_callable(np.clip) or pytest.fail("numpy.clip has no row")
    call = registry.bind(op, spelling, (1, 2), {"a_max": 3})
    assert call is not None and call.operands == (1,) and call.attrs == {"a_min": 2, "a_max": 3}
    op, spelling = registry.by_callable(np.add) or pytest.fail("numpy.add has no row")
    assert registry.bind(op, spelling, (1, 2), {"where": 3}) is None
