"""The recorded cases that are plain programs: same values, through the VM, by CALL_OP."""

from __future__ import annotations

import pytest

from bcvm_core.errors import StrictError
from bcvm_core.testing import TIERS, force_tier

from .records import Case, Recorder, assert_matches, load, run, tolerance

CASES = [case for case in load() if case.kind in "abcdei"]

KERNEL_CASES = [case for case in load() if case.kind in "gh"]  # most hold no tensor work; they run in a kernel, too

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


@pytest.mark.parametrize("case", KERNEL_CASES, ids=lambda c: c.id)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_value_of_what_kernels_show(case: Case) -> None:
    for _ in range(2):
        assert_matches(run(case, Recorder(strict=True)), case.expected_data, *tolerance(case.tol))


def test_c79_the_same_text_from_every_tier() -> None:
    case = next(case for case in KERNEL_CASES if case.id == "c79")
    shown = [run(case, Recorder())]
    for tier in TIERS:
        with force_tier(tier):
            shown.append(run(case, Recorder()))
    assert shown.count(shown[0]) == len(shown)
