"""The recorded cases that are plain programs: same values, through the VM, by CALL_OP."""

from __future__ import annotations

import pytest

from bcvm_core.errors import StrictError

from .records import Case, Recorder, assert_matches, load, run, tolerance

CASES = [case for case in load() if case.kind in "abcdei"]

# c35 records the float64 reference; the program under test runs on float32.
_FLOAT32 = {"c35": "out = layernorm(x)\n"}


def _prepared(case: Case) -> Case:
    more = _FLOAT32.get(case.id, "")
    return Case(case.id, case.kind, case.symptom, case.repro + "\n" + more, case.check, case.tol, case.expected_data)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::SyntaxWarning")
def test_value_and_share(case: Case) -> None:
    recorder = Recorder()
    out = run(_prepared(case), recorder)
    assert_matches(out, case.expected_data, *tolerance(case.tol))
    stats = recorder.stats()
    assert stats.call_op > 0, "nothing ran through the VM"
    assert stats.share() >= 0.95, f"{stats!r} {stats.reasons}"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::SyntaxWarning")
def test_strict_passes(case: Case) -> None:
    try:
        out = run(_prepared(case), Recorder(strict=True))
    except StrictError as error:
        pytest.fail(str(error))
    assert_matches(out, case.expected_data, *tolerance(case.tol))
