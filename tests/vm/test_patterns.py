"""Patterns of fused kernels: numbered, prepared before they are asked for, and told by `explain`."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core.events import Spliced, bus
from bcvm_core.tiers import graphs

X = np.linspace(-2.0, 2.0, 24, dtype=np.float32).reshape(4, 6)


@bcvm.jit
def branches(x: Any, b: Any, first: bool) -> Any:
    if first:
        return np.maximum(x + b, 0) * 2
    y = np.tanh(x) * b
    return y - 1


def _made(first: bool) -> Any:
    def f(x: Any, b: Any) -> Any:
        if first:
            return np.maximum(x + b, 0) * 2
        y = np.abs(x) * b
        return y - 1

    return bcvm.jit(f)


def _wait() -> None:
    for thread in threading.enumerate():
        if thread.name == "bcvm-prepare":
            thread.join(30)


def _lines(function: Any, word: str) -> list[str]:
    return [line.strip() for line in function.explain().splitlines() if word in line]


def test_the_first_use_of_a_pattern_is_told() -> None:
    f = _made(True)
    f(X, X)
    (line,) = _lines(f, "pattern ")[:1]
    assert re.fullmatch(r"pattern \d+ \(float32:contiguous, float32:contiguous\): spliced at first use in \d+ us", line)


def test_code_that_a_call_makes_for_another_way_to_repeat_is_told_to_listeners() -> None:
    told: list[Spliced] = []
    leave = bus.subscribe(lambda event: told.append(event) if isinstance(event, Spliced) and not event.prepared else None)
    try:
        f = _made(True)
        for column in (X, X[:, :1], X[:, :1], X[:2], X[:2, :1]):
            f(X[: len(column)], column)
    finally:
        leave()
    assert [(event.ops, event.operands) for event in told] == [
        (("add", "maximum", "multiply"), "float32:contiguous, float32:contiguous"),
        (("add", "maximum", "multiply"), "float32:contiguous, float32:column"),
    ]
    assert len({event.pattern for event in told}) == 2 and all(event.duration_us > 0 for event in told)


def test_numbers_tell_patterns_apart() -> None:
    column, row = X[:, :1], X[0]
    patterns = [graphs.inputs_of(v) for v in ((X, X), (X, row), (X, column), (X[::2], X[::2]), (X, X.astype(np.float64)))]
    assert len({graphs.pattern_of(p) for p in patterns}) == len({graphs.pattern_text(p) for p in patterns}) == 5


def test_another_way_to_repeat_is_another_pattern_and_a_new_shape_is_not() -> None:
    f = _made(True)
    f(X, X)
    _wait()
    before = len(_lines(f, "pattern "))
    f(np.ones((7, 3), np.float32), np.ones((7, 3), np.float32))
    assert len(_lines(f, "pattern ")) == before
    f(X, X[:, :1])
    assert len(_lines(f, "pattern ")) == before + 1
    assert any("float32:column" in line for line in _lines(f, "pattern "))


def test_the_branch_not_taken_is_prepared() -> None:
    f = _made(True)
    f(X, X)
    _wait()
    (line,) = _lines(f, "prepared")
    assert "float32:contiguous" in line
    assert "not run by the VM" in f.explain()


def test_what_was_prepared_runs() -> None:
    branches(X, X, True)
    _wait()
    found = branches(X, X, False)
    assert np.array_equal(found, np.asarray(bcvm.ops.tanh(X)) * X - 1)
    assert branches.stats().ops["tanh"].call_op == 1
    assert len(_lines(branches, "prepared")) == 1
    wide = X.astype(np.float64)
    assert np.array_equal(branches(wide, wide, False), np.asarray(bcvm.ops.tanh(wide)) * wide - 1)
    assert branches.stats().share() == 1.0


@pytest.mark.parametrize("operand, reason", [(X.astype(complex), "complex128"), (np.float32(1.0), "without axes")])
def test_the_reason_of_a_refusal_is_told_and_the_ops_run_one_by_one(operand: Any, reason: str) -> None:
    f = _made(True)
    found = f(X, operand)
    expected = np.maximum(X + operand, 0) * 2
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)
    (line,) = _lines(f, "[REJECTED]")[:1]
    assert reason in line
    assert f.stats().share() == 1.0


def test_segments_of_a_cell_say_why_they_are_not_fused() -> None:
    f = _made(True)
    with pytest.raises(ValueError, match="broadcast"):
        f(X, np.ones(5, np.float32))
    assert "shape mismatch: [4, 6] vs [5]" in f.explain()
