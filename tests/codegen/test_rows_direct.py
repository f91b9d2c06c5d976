"""The short way to kernels over rows: the same results, and whatever is not as it was goes the long way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from bcvm_core import ops
from bcvm_core.codegen.rows.direct import Direct
from bcvm_core.codegen.stencils import offsets
from bcvm_core.tiers import select
from bcvm_core.tiers.pool import pool
from tests.codegen.test_rows import DTYPES, definition, made, numbers, same_bits
from tests.in_threads import in_threads

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "softmax": ("softmax", {}),
    "softmax of an axis": ("softmax", {"axis": -1}),
    "layer_norm": ("layer_norm", {}),
    "layer_norm with parameters": ("layer_norm", {"weight": 1, "bias": 1}),
    "layer_norm, turned round": ("layer_norm", {"eps": 1e-3, "bias": 1, "weight": 1}),
    "rms_norm": ("rms_norm", {"weight": 1}),
    "sum": ("sum", {}),
    "mean": ("mean", {"axis": -1, "keepdims": True}),
    "var": ("var", {"axis": (0, 1), "ddof": 1}),
    "std": ("std", {"keepdims": False, "axis": 1}),
    "logsumexp": ("logsumexp", {"axis": -1}),
}


def attrs_for(given: dict[str, Any], x: Any) -> dict[str, Any]:
    return {k: numbers(x.shape[-1:], "float32", 3).astype(x.dtype) if k in ("weight", "bias") else v for k, v in given.items()}


def direct_of(op: str, dtype: str) -> Direct:
    found = made(op, dtype).direct  # type: ignore[attr-defined]
    assert isinstance(found, Direct)
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_known_calls_have_the_bits_of_the_definition(name: str, dtype: str) -> None:
    op, given = CALLS[name]
    direct = direct_of(op, dtype)
    x = numbers((7, 3), dtype)
    attrs = attrs_for(given, x)
    assert direct.learn((x,), attrs)
    assert direct.function is not None
    for shape in ((7, 3), (5, 3), (2, 3)):
        x = numbers(shape, dtype, 1)
        same_bits(direct.function(x, **attrs), definition(op, x, **attrs))


def test_what_is_not_known_is_none() -> None:
    direct = direct_of("layer_norm", "float32")
    x, w = numbers((7, 3), "float32"), numbers((3,), "float32")
    eps = float("1e-4")
    assert direct.learn((x,), {"weight": w, "eps": eps})
    call: Callable[..., Any] = direct.function  # type: ignore[assignment]
    assert call(x, weight=w, eps=eps) is not None
    assert call(x, weight=w, eps=float("1e-4")) is None  # not the same object
    assert call(x, eps=eps, weight=w) is None
    assert call(x, weight=w) is None
    assert call(x) is None
    assert call() is None
    assert call(x, x, weight=w, eps=eps) is None
    assert call(x, weight=w[:2], eps=eps) is None
    assert call(x, weight=w.astype(np.float64), eps=eps) is None
    assert call(x.astype(np.float64), weight=w, eps=eps) is None
    assert call(x.T, weight=w, eps=eps) is None
    assert call(x[:0], weight=w, eps=eps) is None


def test_what_may_change_is_not_learnt() -> None:
    x = numbers((7, 3), "float32")
    for op, attrs in (
        ("var", {"axis": [0]}),
        ("var", {"axis": -1, "dtype": np.dtype(np.float64)}),
        ("sum", {"axis": -1, "initial": 1.0}),
        ("layer_norm", {"normalized_shape": (3,)}),
        ("layer_norm", {"bias": x[0]}),
    ):
        direct = direct_of(op, "float32")
        before = direct.learnt
        assert op == "sum" or not direct.learn((x,), attrs)
        assert direct.learnt == before


def test_many_forms_take_turns() -> None:
    direct = direct_of("mean", "float32")
    x = numbers((4, 5, 6), "float32")
    values = [(axis, keep) for axis in (0, 1, 2, -1, -2, (0, 1), (1, 2), None) for keep in (True, False)]
    for axis, keep in values:
        attrs = {"axis": axis, "keepdims": keep}
        assert direct.learn((x,), attrs)
        same_bits(direct.function(x, **attrs), definition("mean", x, **attrs))  # type: ignore[misc]
    known = [direct.function(x, axis=axis, keepdims=keep) is not None for axis, keep in values]  # type: ignore[misc]
    assert known == [False] * (len(values) - offsets.FORMS_MAX) + [True] * offsets.FORMS_MAX


def test_calls_of_ops_take_it_and_are_counted() -> None:
    made("var", "float32")
    x = numbers((7, 3), "float32")
    attrs = {"axis": -1}
    ops.var(x, **attrs)
    site = select._eager["var"]
    assert site._direct is not None
    before = site._direct[2].counter.calls
    for _ in range(5):
        same_bits(ops.var(x, **attrs), definition("var", x, **attrs))
    assert site._direct[2].counter.calls == before + 5


def test_a_kernel_of_the_users_comes_first() -> None:
    made("var", "float32")
    x = numbers((7, 3), "float32")
    attrs = {"axis": -1}
    ops.var(x, **attrs)
    (name,) = [entry.name for entry in pool.kernels("var") if pool.ran(select._eager["var"].signature) == (entry.name,)]
    pool.swap(name, lambda x, **_: np.float32(42))
    try:
        assert ops.var(x, **attrs) == 42
    finally:
        pool.restore(name)
    same_bits(ops.var(x, **attrs), definition("var", x, **attrs))


def test_events_go_the_long_way() -> None:
    made("sum", "float32")
    attrs = {"axis": -1}
    x = np.full((2, 4), 3e38, np.float32)
    ops.sum(np.ones((2, 4), np.float32), **attrs)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert np.isinf(ops.sum(x, **attrs)).all()
    with warnings.catch_warnings(record=True) as wanted:
        warnings.simplefilter("always")
        definition("sum", x, **attrs)
    assert [str(w.message) for w in found] == [str(w.message) for w in wanted]
    assert found and "overflow" in str(found[0].message)


def test_threads_that_learn_at_once() -> None:
    direct = direct_of("std", "float64")
    x = numbers((30, 40), "float64")
    wanted = {axis: definition("std", x, axis=axis) for axis in (-1, 0, 1, -2)}

    def work(number: int) -> None:
        for k in range(200):
            axis = (-1, 0, 1, -2)[(number + k) % 4]
            direct.learn((x,), {"axis": axis})
            found = None if direct.function is None else direct.function(x, axis=axis)
            if found is not None:
                same_bits(found, wanted[axis])

    in_threads(4, work)
