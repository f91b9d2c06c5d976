"""The recorded value cases of kinds g and h as cells of a real kernel: the values are those of the record, however often they run."""

from __future__ import annotations

import pickle
from base64 import b64decode
from typing import Any

import pytest

from tests.cases.records import Case, assert_matches, load, tolerance

CASES = [case for case in load() if case.kind in "gh"]
FETCH = "import base64, pickle; base64.b64encode(pickle.dumps(out)).decode()"


def test_there_are_cases() -> None:
    assert {case.id for case in CASES} >= {"c65", "c67", "c79"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("decorated", [True, False], ids=["jit", "cell"])
def test_value(kernel: Any, case: Case, decorated: bool) -> None:
    """`jit` is ours, or nothing: the kernel lowers what a cell defines anyway."""
    assert kernel.run(f"import numpy as np\nfrom bcvm_core import jit\njit = jit if {decorated} else lambda f: f").status == "ok"
    for _ in range(2):
        done = kernel.run(case.repro)
        assert (done.status, done.stdout, done.stderr) == ("ok", "", ""), done.traceback
        out = pickle.loads(b64decode(eval(kernel.run(FETCH).text)))
        assert_matches(out, case.expected_data, *tolerance(case.tol))
