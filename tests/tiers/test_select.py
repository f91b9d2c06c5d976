"""CallSite: one answer with NumPy, and what it leaves to Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bcvm_core.errors import Decline, SignatureError
from bcvm_core.isa import signature as signatures
from bcvm_core.tiers import log
from bcvm_core.tiers.select import CallSite, signature_of


def _classes(site: CallSite) -> str:
    return str(signatures.table.row(site.signature))


def test_runs_numpy_and_names_the_signature() -> None:
    site = CallSite("add")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert site.signature == 0
    assert (site(x, x) == x + x).all()
    assert _classes(site) == "add(float32:contiguous:host, float32:contiguous:host)"
    site(x, x[0])
    assert _classes(site) == "add(float32:contiguous:host, float32:broadcast:host)"
    site(x, 2)
    assert _classes(site) == "add(float32:contiguous:host, pyint:scalar:host)"
    site(x.T, x.T)
    assert _classes(site) == "add(float32:strided:host, float32:strided:host)"
    assert signature_of("add", (x, x)) == signature_of("add", (np.ones((7, 1)).astype("f4"),) * 2)


class _Sub(np.ndarray):
    pass


@pytest.mark.parametrize(
    "value",
    [
        np.ones(3).view(_Sub),
        np.ma.ones(3),
        np.array([1, "a"], dtype=object),
        np.array(["a", "b", "c"]),
        np.ones(3, dtype=">f4"),
        np.ones(3, dtype=np.longdouble),
        np.array(["2020-01-01"] * 3, dtype="M8[D]"),
        np.str_("a"),
        np.longdouble(1),
        "text",
        {1: 2},
    ],
    ids=lambda v: type(v).__name__ + str(getattr(v, "dtype", "")),
)
def test_leaves_to_python(value: object) -> None:
    site = CallSite("add")
    for _ in range(2):  # cold and warm
        with pytest.raises(Decline):
            site(np.ones(3), value)
    assert (site(np.ones(3), 1.0) == 2).all()


def test_python_values_run_the_operator() -> None:
    site = CallSite("add")
    assert site(1, 2) == 3
    assert type(site(1, 2)) is int
    with pytest.raises(Decline):
        site("a", "b")  # a function or the operator?
    assert CallSite("add", syntax=True)("a", "b") == "ab"
    assert CallSite("multiply", syntax=True)([1], 2) == [1, 1]
    function = CallSite("add", syntax=False)
    assert type(function(1, 2)) is np.int64


def test_in_place() -> None:
    site = CallSite("add")
    x = np.arange(4, dtype=np.float32)
    same = x
    assert site(x, 1, out=x) is same
    assert x.tolist() == [1, 2, 3, 4]
    view = np.arange(5.0)
    expected = np.arange(5.0)
    expected[1:] += expected[:-1]
    site(view[1:], view[:-1], out=view[1:])
    assert (view == expected).all()


def test_in_place_checks_come_before_the_write() -> None:
    site = CallSite("add")
    x = np.arange(4)
    with pytest.raises(Decline):
        site.compute_for(x, x, 0.5)
    with pytest.raises(Decline):
        site.compute_for(np.zeros(1), np.zeros(1), np.ones(3))
    locked = np.ones(3)
    locked.flags.writeable = False
    with pytest.raises(Decline):
        site.compute_for(locked, locked, 1)
    assert x.tolist() == [0, 1, 2, 3]


def test_a_target_that_is_no_array_is_rebound() -> None:
    site = CallSite("add")
    x = np.ones(3)
    assert (site(0, x, out=0) == 1).all()
    with pytest.raises(Decline):
        site([1], x, out=[1])


def test_the_operator_asks_python_first() -> None:
    """Text formats, lists repeat: only with an array beside it is a sequence NumPy's."""
    for operands in (("%s", np.ones(2)), ([1, 2], np.int64(2)), ("a", np.int64(2))):
        with pytest.raises(Decline):
            CallSite("remainder")(*operands)
    assert CallSite("add")([1.0, 2.0], np.ones(2)).tolist() == [2, 3]


def test_a_full_signature_table_leaves_the_call_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(table: object, signature: object) -> int:
        raise SignatureError("the signature table is full")

    monkeypatch.setattr(signatures.SignatureTable, "intern", full)
    with pytest.raises(Decline, match="full"):
        CallSite("add")(np.ones(3), 1)


def test_items_of_sequences_are_operands() -> None:
    site = CallSite("concatenate")
    x = np.ones((2, 3), np.float32)
    assert site([x, x.astype(np.float64)]).dtype == np.float64
    assert _classes(site) == "concatenate(float32:contiguous:host, float64:contiguous:host)"
    assert site((x, x)).shape == (4, 3)
    assert site([x] * 40).shape == (80, 3)
    assert _classes(site) == "concatenate(float32:contiguous:host)"
    with pytest.raises(Decline):
        site([x, np.ma.array(x)])
    with pytest.raises(ValueError, match="at least one"):
        site([])


def test_optional_tensors_count_as_operands() -> None:
    site = CallSite("clip")
    x = np.linspace(-1, 1, 5)
    assert site(x, a_min=0.0).min() == 0
    assert _classes(site) == "clip(float64:contiguous:host, pyfloat:scalar:host)"
    with pytest.raises(Decline):
        site(x, a_min=np.ma.zeros(5))
    out = x.copy()
    assert site(x, a_min=np.zeros(5), out=out) is out
    assert out.min() == 0


def test_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    x = np.ones((2, 3, 4, 5), np.float32)
    with caplog.at_level("DEBUG", logger="bcvm"):
        site = CallSite("sqrt", shape_hint="[B, *, *, *]")
        site(x)
        site(x[:1])
        CallSite("sqrt")(x)
    expected = f"[BCVM] Compile for sig=0x{site.signature:04X}, shape_hint="
    assert [record.getMessage() for record in caplog.records] == [expected + "[B,*,*,*]", expected + "[*,*,*,*]"]


def test_levels_in_mindspores_spelling() -> None:
    assert [log.level_of(text) for text in ("DEBUG", "0", "1", "warning", "9", "")] == [10, 10, 20, 30, 30, 30]


_PAIRS = (
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(6, dtype=np.float32).reshape(3, 2).T,
    np.arange(3, dtype=np.float64),
    np.arange(9, dtype=np.int64).reshape(3, 3),
    np.float32(2.5),
    np.array(1.5),
    True,
    2,
    np.ones((2, 3)).view(_Sub),
    "text",
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", ["add", "floor_divide", "matmul", "concatenate", "where"])
def test_the_way_of_two_operands_is_the_way_of_any(op: str) -> None:
    def outcome(call: Any, *operands: Any) -> Any:
        try:
            value = call(*operands)
        except Exception as error:
            return type(error), str(error)
        return type(value), getattr(value, "dtype", None), np.asarray(value).tobytes()

    two, anyhow = CallSite(op), CallSite(op)
    for _ in range(2):
        for a in _PAIRS:
            for b in _PAIRS:
                expected = outcome(anyhow, a, b)
                assert outcome(two.two, a, b) == expected, (a, b)
                assert two.signature == anyhow.signature
                if two._pair is not None and type(a) is type(b) is np.ndarray:
                    assert two._pair(a, b) == two._key((a, b), {})
    assert [p.counter.calls for p in two._state[1].values()] == [p.counter.calls for p in anyhow._state[1].values()]
