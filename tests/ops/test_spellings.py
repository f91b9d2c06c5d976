"""Calls as users write them: bound through the table, run by the definition, compared with the call itself."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import pytest

from bcvm_core.errors import Decline
from bcvm_core.ops import registry
from bcvm_core.ops.registry import BoundCall

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
V = np.array([3, 1, 2, 1])
M = X > 4
C = np.array([[1 + 2j, 3 - 1j]], np.complex64)


def f(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return "function", function, args, kwargs


def m(name: str, x: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return "method", name, (x, *args), kwargs


SUPPORTED = [
    f(np.reshape, X, (4, 3)), f(np.reshape, X, -1, order="F"), m("reshape", X, 2, 6), m("reshape", X, (2, -1)),
    m("reshape", X, 12, order="F"), m("reshape", X.T, -1), f(np.transpose, X), f(np.transpose, X, (1, 0)), m("transpose", X),
    m("transpose", X, 1, 0), m("transpose", X, (1, 0)), m("transpose", X, None), f(np.swapaxes, X, 0, 1), m("swapaxes", X, 0, -1),
    f(np.moveaxis, X, 0, 1), f(np.squeeze, X[None]), f(np.squeeze, X[None], axis=0), m("squeeze", X[None], 0),
    f(np.expand_dims, X, 1), f(np.expand_dims, X, axis=(0, -1)), f(np.ravel, X), f(np.ravel, X.T, order="K"), m("ravel", X),
    m("flatten", X), m("flatten", X, "F"), f(np.broadcast_to, X, (2, 3, 4)), f(np.flip, X), f(np.flip, X, 1), f(np.flipud, X),
    f(np.fliplr, X), f(np.diagonal, X, 1), m("diagonal", X), m("view", X, np.int32), m("view", X), f(np.atleast_1d, 3.0),
    f(np.atleast_2d, V, 5), f(np.atleast_3d, X), f(np.ascontiguousarray, X.T), f(np.ascontiguousarray, X, dtype=np.float64),
    f(np.concatenate, [X, X]), f(np.concatenate, (X, X * 2), axis=1), f(np.concatenate, [X, V[:3, None]], 1), f(np.concatenate, X),
    f(np.concatenate, [X, X], axis=None), f(np.concatenate, [X, X], dtype=np.float64), f(np.stack, [X, X], axis=-1),
    f(np.hstack, [X, X]), f(np.vstack, (X, V)), f(np.dstack, [X, X]), f(np.column_stack, [V, V]), f(np.split, X, 2, axis=1),
    f(np.split, X, [1]), f(np.array_split, V, 3), f(np.tile, V, (2, 1)), f(np.repeat, X, 2, axis=0), f(np.repeat, V, [1, 0, 2, 1]),
    m("repeat", V, 2), f(np.roll, X, 1), f(np.roll, X, (1, 2), axis=(0, 1)), f(np.rot90, X), f(np.rot90, X, k=2), f(np.pad, X, 1),
    f(np.pad, X, ((1, 0), (2, 1)), constant_values=5), f(np.pad, X, 1, mode="edge"), f(np.pad, X, 2, "reflect"), f(np.triu, X),
    f(np.tril, X, -1), f(np.diag, X), f(np.diag, V, k=1), f(np.meshgrid, V, V[:2]), f(np.meshgrid, V, V[:2], indexing="ij"),
    f(np.copy, X), m("copy", X), m("copy", X.T, order="K"), f(np.diff, V), f(np.diff, X, axis=0), f(np.diff, V, n=2),
    f(np.sort, X, axis=0), f(np.sort, X, axis=None), f(np.argsort, V), f(np.argsort, V, kind="stable"), m("argsort", X, axis=0),
    f(np.unique, V), f(np.unique, V, return_counts=True), f(np.unique, V, True, True, True), f(np.searchsorted, np.sort(V), 2),
    f(np.searchsorted, np.sort(V), V, side="right"), m("searchsorted", np.sort(V), V), f(np.take, X, [0, 2], axis=1),
    f(np.take, X, V), f(np.take, X, 40, mode="clip"), m("take", X, V, axis=0, mode="wrap"),
    f(np.take_along_axis, X, np.argsort(X, 1), 1), f(np.nonzero, M), m("nonzero", M), f(np.argwhere, M), f(np.flatnonzero, M),
    f(np.zeros, 3), f(np.zeros, (2, 3), np.int8), f(np.ones, shape=(2,), dtype=bool), f(np.full, (2, 2), 7),
    f(np.full, 3, fill_value=1.5, dtype=np.float32), f(np.zeros_like, X), f(np.ones_like, X, dtype=int), f(np.full_like, X, 3),
    f(np.full_like, a=V, fill_value=2), f(np.zeros_like, X, shape=(2,)), f(np.arange, 5), f(np.arange, 1, 7, 2),
    f(np.arange, 0.0, 1.0, 0.25, dtype=np.float32), f(np.linspace, 0, 1, 5), f(np.linspace, 0, 1, num=3, endpoint=False),
    f(np.linspace, 0, 1, 3, retstep=True), f(np.eye, 3), f(np.eye, 2, 3, 1), f(np.eye, N=2, dtype=int), f(np.identity, 3),
    f(np.array, [1, 2]), f(np.array, [[1.0], [2.0]], np.float32), f(np.array, X), f(np.array, 3, ndmin=2), f(np.asarray, [1, 2.5]),
    f(np.asarray, X), f(np.asarray, a=X, dtype=int), f(np.matmul, X, X.T), f(np.matmul, X, V), f(np.dot, X, X.T), m("dot", X, V),
    f(np.dot, V, V), f(np.vdot, C, C), f(np.inner, X, X), f(np.outer, V, V), f(np.kron, V, V), f(np.tensordot, X, X, axes=2),
    f(np.tensordot, X, X, ([0], [0])), f(np.einsum, "ij,kj->ik", X, X), f(np.einsum, "ii", X[:, :3]),
    f(np.einsum, "ij,jk", X, X.T, optimize=True), f(np.trace, X), m("trace", X, 1), f(np.sum, V), m("sum", V, 0), f(np.max, X, 1),
    m("max", X, axis=0), f(np.amax, X), f(np.amin, X, axis=1, keepdims=True), m("min", X), f(np.argmax, X), m("argmax", X, 1),
    m("argmin", X, axis=0, keepdims=True), f(np.any, M), m("any", M, 0), f(np.all, M, axis=1), m("all", M), f(np.ptp, X, axis=0),
    f(np.count_nonzero, M), f(np.count_nonzero, M, axis=0), f(np.cumsum, X), m("cumsum", X, 0), f(np.cumprod, V, dtype=np.float64),
    m("cumprod", V), m("prod", V), f(np.max, X, initial=50), f(np.max, X, where=M, initial=0), m("item", X[0, 0]), m("item", X, 5),
    m("item", X, (1, 2)), m("tolist", X), f(len, X), f(len, (1, 2)), f(int, X[0, 1]), f(float, np.array(2)),
    f(bool, np.array([3.0])), f(bool, 0), f(int, "12"), f(tuple, [1, 2]), f(tuple, V), f(list, V), f(list, (1, 2)), f(min, 3, 1, 2),
    f(max, [4, 5]), f(max, np.float32(2), 1.5), f(range, 3), f(slice, 1, 5), f(slice, 1, 5, 2), f(range, 1, 9, 2), f(np.shape, X),
    f(np.ndim, 3.0), f(np.size, X), f(np.size, X, 1), f(np.bincount, V), f(np.bincount, V, V / 2, minlength=7),
    f(np.hsplit, X, 2), f(np.hsplit, V, [1]), f(np.vsplit, X, 3), f(np.dsplit, X[None], (1, 3)), m("sort", np.array([3, 1, 2])),
    m("sort", V[::-1].copy(), axis=0, kind="stable"), f(np.median, X), f(np.median, X, axis=(0, 1), keepdims=True), f(np.nanmax, X, 1),
    f(np.nanmin, X, axis=0, initial=-3, where=M), f(np.isclose, X, X + 1e-7), f(np.isclose, X, 1, rtol=0.5, equal_nan=True),
    f(np.allclose, X, X), f(np.allclose, V, V + 1, atol=0.25), f(np.fix, X - 5.5),
    f(np.linalg.inv, X[:, :3] + 9 * np.eye(3)), f(np.linalg.det, X[:, :3] + 9 * np.eye(3)), f(np.linalg.qr, X),
    f(np.linalg.qr, X, mode="r"), f(np.linalg.solve, X[:, :3] + 9 * np.eye(3), X), f(np.linalg.cholesky, 9 * np.eye(3) + 1),
]  # fmt: skip


def bound(case: tuple[Any, ...]) -> BoundCall | None:
    kind, what, args, kwargs = case
    found = registry.by_callable(what) if kind == "function" else registry.by_method(what)
    assert found is not None, what
    op, spelling = found
    return registry.bind(op, spelling, args, kwargs) if kind == "function" else registry.bind(op, spelling, args[1:], kwargs, args[0])


def direct(case: tuple[Any, ...]) -> Any:
    kind, what, args, kwargs = case
    return what(*args, **kwargs) if kind == "function" else getattr(args[0], what)(*args[1:], **kwargs)


def run(call: BoundCall) -> Any:
    return call.op.definition(*call.operands, **call.attrs)


def same(ours: Any, theirs: Any, args: Any = ()) -> None:
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, args)
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.strides == theirs.strides
        assert ours.tobytes() == theirs.tobytes() and ours.flags.writeable == theirs.flags.writeable
        for arg in args:
            if isinstance(arg, np.ndarray):
                assert (ours is arg) == (theirs is arg)
                assert np.may_share_memory(ours, arg) == np.may_share_memory(theirs, arg), "a view stays a view"
    else:
        assert ours == theirs


def name_of(case: tuple[Any, ...]) -> str:
    return case[1] if isinstance(case[1], str) else case[1].__name__


@pytest.mark.parametrize("case", SUPPORTED, ids=name_of)
def test_call_means_what_it_says(case: tuple[Any, ...]) -> None:
    call = bound(case)
    assert call is not None, "the table does not take this call"
    assert len(call.operands) == len(call.op.operands)
    same(run(call), direct(case), case[2])


def test_every_exact_row_with_a_numpy_function_is_sampled() -> None:
    sampled = set()
    for case in SUPPORTED:
        call = bound(case)
        assert call is not None
        sampled.add(call.op.name)
    families = ("reduce", "linalg", "shape", "create")
    rows = {
        op.name
        for op in registry.rows()
        if op.family in families
        and op.exact
        and any(s.kind in ("function", "method") and not s.target.startswith("bcvm") for s in op.spellings)
    }
    assert rows - sampled <= {"empty", "empty_like", "fill", "broadcast_arrays"}


UNSUPPORTED = [
    f(np.sum, X, 0, None, X[0]), f(np.sum, X, out=X[0], axis=0), f(np.max, X, out=X[0], axis=0),
    f(np.reshape, X), f(np.stack, [X], out=X), m("reshape", X, 3, 4, copy=False), f(np.arange, start=3), f(np.arange, 3, like=X),
    f(np.array, X, subok=True), m("view", X, type=np.ndarray), f(np.sort, X, order="a"), f(np.matmul, X, X.T, out=X),
    f(np.einsum, "ij", X, out=X), f(max, V, key=abs), f(np.sum), f(len), f(np.sum, X, axes=1), f(np.concatenate, [X], 0, X),
    f(np.diff, V, prepend=0), f(int, "1", 2), f(np.dot, X, V, V[:3]),
]  # fmt: skip


@pytest.mark.parametrize("case", UNSUPPORTED, ids=name_of)
def test_other_calls_go_to_the_host(case: tuple[Any, ...]) -> None:
    assert bound(case) is None


ERRORS = [
    f(np.reshape, X, (5, 5)), m("reshape", X, 5), m("reshape", X, 1.5), f(np.transpose, X, (0, 0)), f(np.concatenate, [X, V]),
    f(np.concatenate, []), f(np.stack, [X, V]), f(np.take, X, 99), f(np.squeeze, X, axis=0), f(np.expand_dims, X, 9),
    f(np.matmul, X, X), f(np.dot, X, X), f(np.split, X, 5), f(np.broadcast_to, X, (2, 2)), f(np.arange), f(np.zeros, -1),
    f(np.einsum, "ij,jk", X, X), f(np.pad, X, 1, mode="no"), f(np.pad, X, 1, mode="edge", constant_values=1), m("item", X),
    f(len, 5), f(len, np.array(1)), f(int, "a"), f(bool, X), f(max, []), f(max, 1), f(np.argmax, V[:0]), f(np.max, V[:0]),
    f(np.linspace, 0, 1, -1), f(np.tensordot, X, V), f(np.searchsorted, X, 1), f(range, 1.5), m("swapaxes", X, 0, 7),
    f(np.eye, 2, dtype="zz"),
]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS, ids=name_of)
def test_errors_are_numpys(case: tuple[Any, ...]) -> None:
    call = bound(case)
    assert call is not None
    with pytest.raises(Exception) as theirs:
        direct(case)
    with pytest.raises((type(theirs.value), Decline)) as ours:
        run(call)
    if not isinstance(ours.value, Decline):
        assert str(ours.value) == str(theirs.value)


KEYS = [
    0, -1, (0, 1), slice(None, None, -2), (slice(1, 3), None, 0), ..., (..., 1), [0, 2], V, M, (V % 3, 0), (slice(None), [0, 1]),
    np.array(True), (None,), (),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_getitem(key: Any) -> None:
    row = registry.by_operator("Subscript")
    assert row is not None and row.name == "getitem" and row.scalar is operator.getitem
    same(
        row.definition(X, key) if not isinstance(key, np.ndarray) or key is not V else row.definition(X, key % 3),
        X[key if key is not V else V % 3],
        (X,),
    )


@pytest.mark.parametrize("key", [7, (0, 9), "a", 1.5, ([0, 1], [0, 1, 2]), np.ones((2, 2), bool)], ids=str)
def test_getitem_errors(key: Any) -> None:
    with pytest.raises(Exception) as theirs:
        X[key]
    with pytest.raises(type(theirs.value)) as ours:
        registry.row("getitem").definition(X, key)
    assert str(ours.value) == str(theirs.value)


def test_writes() -> None:
    x = X.copy()
    setitem = registry.row("setitem")
    assert setitem.writes and setitem.definition(x, (slice(None), 0), 9) is None
    assert x[:, 0].tolist() == [9, 9, 9]
    call = bound(m("fill", x, 2))
    assert call is not None and call.op.writes and run(call) is None and (x == 2).all()
    with pytest.raises(ValueError, match="read-only"):
        setitem.definition(np.broadcast_to(x, (2, 3, 4)), 0, 1)


@pytest.mark.parametrize("name", ["shape", "ndim", "size", "dtype", "T", "itemsize", "nbytes", "strides", "real", "imag"])
def test_attributes(name: str) -> None:
    found = registry.by_attribute(name)
    assert found is not None
    for x in (X, X[:, ::-1], C, np.float32(2), np.zeros((0, 3))):
        same(found[0].definition(x), getattr(x, name), (x,))
    assert found[0].result == ("tensor" if name in ("T", "real", "imag") else "python")


def test_conversions_that_warn_or_run_user_code_are_left_to_python() -> None:
    class Own:
        def __len__(self) -> int:
            return 3

    for name, value in (
        ("int", np.array([1])),
        ("float", C),
        ("bool", np.zeros(0)),
        ("len", Own()),
        ("bool", Own()),
        ("tuple", iter([1])),
        ("list", iter("ab")),
    ):
        with pytest.raises(Decline):
            registry.row(name).definition(value)
    for name in ("min_of", "max_of"):
        with pytest.raises(Decline):
            registry.row(name).definition((iter([1, 2]),))


def test_broadcast_arrays() -> None:
    call = bound(f(np.broadcast_arrays, X, V))
    assert call is not None
    for ours, theirs in zip(run(call), direct(f(np.broadcast_arrays, X, V)), strict=True):
        assert ours.shape == theirs.shape and ours.strides == theirs.strides and (ours == theirs).all()


def test_empty_has_the_shape_asked_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for case in (f(np.empty, (2, 3), np.int16), f(np.empty_like, X), f(np.empty_like, X.T, shape=(3,))):
            call = bound(case)
            assert call is not None
            ours, theirs = run(call), direct(case)
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype and ours.strides == theirs.strides
