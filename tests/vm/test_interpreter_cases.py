"""The recorded cases, and calls with every kind of argument, through the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bcvm_core.errors import LoweringError
from bcvm_core.vm.interpreted import interpreted
from tests.cases.records import assert_matches, run, tolerance
from tests.cases.test_cases import CASES, _prepared


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::SyntaxWarning")
def test_recorded_values(case: Any) -> None:
    made: list[Any] = []

    def make(function: Any) -> Any:
        try:
            made.append(interpreted(function))
        except LoweringError:  # code without a source text runs as it is
            return function
        return made[-1]

    out = run(_prepared(case), make)
    assert_matches(out, case.expected_data, *tolerance(case.tol))
    assert not made or sum(f.__bcvm_interpreted__.stats.call_op for f in made) > 0


X = np.ones((2, 3), np.float32)


def every_kind(x, /, y=2, *rest, k=3, **more):
    return x * y + k, rest, more


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((X,), {}),
    ((X, 3), {}),
    ((X, 3, 4, 5), {"k": 1, "z": 2}),
    ((X,), {"y": 4, "x": 5}),
    ((), {}),
    ((), {"x": 1}),
]


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_arguments_bind_as_in_a_call(args: Any, kwargs: Any) -> None:
    def outcome(call: Any) -> Any:
        try:
            value, rest, more = call(*args, **kwargs)
        except TypeError as error:
            return str(error)
        return np.asarray(value).tolist(), rest, more

    assert outcome(interpreted(every_kind)) == outcome(every_kind)
