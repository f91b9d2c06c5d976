"""The recorded cases: reading them, running their programs, and comparing with the recorded values."""

from __future__ import annotations

import json
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bcvm_core.jit import jit
from bcvm_core.vm.stats import Stats

FILE = Path(__file__).with_name("cases.jsonl")


@dataclass(frozen=True)
class Case:
    """One record; see `cases.jsonl`."""

    id: str
    kind: str
    symptom: str
    repro: str
    check: str
    tol: str
    expected_data: Any


def load(check: str = "value") -> list[Case]:
    """All cases checked that way."""
    rows = [json.loads(line) for line in FILE.read_text().splitlines()]
    names = Case.__dataclass_fields__
    return [Case(**{n: row.get(n) for n in names}) for row in rows if row["check"] == check]


def tolerance(text: str) -> tuple[float, float]:
    """(rtol, atol) of a `tol` text; exact is (0, 0)."""
    rtol = atol = 0.0
    for part in (text or "exact").replace(";", ",").split(","):
        words = part.replace("to these values", "").split()
        if len(words) >= 2 and words[0] == "rtol":
            rtol = float(words[1])
        elif len(words) >= 2 and words[0] == "atol":
            atol = float(words[1])
    return rtol, atol


def run(case: Case, make_jit: Callable[..., Any]) -> Any:
    """Run the program of a case with the given `jit`; returns `out`."""
    filename = f"<case {case.id}>"
    linecache.cache[filename] = (len(case.repro), None, case.repro.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"np": np, "jit": make_jit, "__name__": f"case_{case.id}"}
    exec(compile(case.repro, filename, "exec"), namespace)
    return namespace["out"]


class Recorder:
    """A `jit` that remembers what it made, so that the counters of a whole case can be added up."""

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.functions: list[Any] = []

    def __call__(self, function: Any) -> Any:
        made = jit(function, strict=self.strict)
        self.functions.append(made)
        return made

    def stats(self) -> Stats:
        total = Stats()
        for function in self.functions:
            if hasattr(function, "stats"):
                total.merge(function.stats())
        return total


def assert_matches(actual: Any, expected: Any, rtol: float, atol: float, path: str = "out") -> None:
    """Compare a value with its record: type, dtype, shape, numbers (-0.0 and NaN included)."""
    if "py" in expected:
        _assert_python(actual, expected, rtol, atol, path)
        return
    assert isinstance(actual, np.ndarray | np.generic), f"{path}: {type(actual)}"
    assert str(actual.dtype) == expected["dtype"], f"{path}: {actual.dtype}"
    assert list(actual.shape) == expected["shape"], f"{path}: {actual.shape}"
    values = _numbers(expected["values"], actual.dtype, expected["shape"])
    if rtol or atol:
        np.testing.assert_allclose(actual, values, rtol=rtol, atol=atol, equal_nan=True, err_msg=path)
    else:
        np.testing.assert_array_equal(np.asarray(actual), values, err_msg=path)
        if values.dtype.kind == "f":
            same = np.signbit(actual) == np.signbit(values)
            assert (same | np.isnan(values)).all(), f"{path}: sign of zero"


def _numbers(values: Any, dtype: np.dtype[Any], shape: list[int]) -> np.ndarray[Any, Any]:
    flat: list[Any] = []

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                walk(item)
        else:
            flat.append(float(value) if isinstance(value, str) else value)

    walk(values)
    return np.array(flat, dtype=dtype).reshape(shape)


def _assert_python(actual: Any, expected: Any, rtol: float, atol: float, path: str) -> None:
    kind = expected["py"]
    assert type(actual).__name__ == kind, f"{path}: {type(actual).__name__} instead of {kind}"
    if kind in ("list", "tuple"):
        assert len(actual) == len(expected["items"]), path
        for index, (one, other) in enumerate(zip(actual, expected["items"], strict=True)):
            assert_matches(one, other, rtol, atol, f"{path}[{index}]")
    elif kind == "dict":
        pairs = expected.get("items", expected.get("value"))
        pairs = pairs.items() if isinstance(pairs, dict) else pairs
        recorded = {str(k["value"]) if isinstance(k, dict) else str(k): v for k, v in pairs}
        assert {str(k) for k in actual} == set(recorded), path
        for key, value in actual.items():
            assert_matches(value, recorded[str(key)], rtol, atol, f"{path}[{key!r}]")
    elif kind == "float":
        value = float(expected["value"])
        assert np.isclose(actual, value, rtol=rtol, atol=atol, equal_nan=True), f"{path}: {actual}"
    elif kind != "NoneType":
        assert actual == expected["value"], f"{path}: {actual!r}"
