"""Floating-point events: recorded inside `recording()`, reported as NumPy would outside."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
import pytest

from bcvm_core.devices import fpstatus

X = np.array([0.0, -1.0, 1e4])


def test_numpys_and_noted_events_are_collected_once_in_order() -> None:
    with np.errstate(all="warn"), fpstatus.recording() as record:
        np.exp(X)
        np.log(X)
        fpstatus.note("overflow", "exp")
        fpstatus.note("underflow", "exp")
    assert record.kinds == ["overflow", "divide", "invalid", "underflow"]
    assert record.modes == {"divide": "warn", "overflow": "warn", "underflow": "warn", "invalid": "warn"}


def test_ignored_kinds_are_not_recorded() -> None:
    with np.errstate(all="warn", divide="ignore", under="ignore"), fpstatus.recording() as record:
        np.log(X)
        fpstatus.note("divide")
        fpstatus.note("underflow")
    assert record.kinds == ["invalid"]


def test_the_users_state_comes_back_after_errors_too() -> None:
    def handler(text: str, flag: int) -> None:
        raise AssertionError("not while recording")

    with np.errstate(all="call", call=handler):
        before = np.geterr(), np.geterrcall()
        with pytest.raises(ZeroDivisionError), fpstatus.recording() as record:
            np.log(X)
            raise ZeroDivisionError
        assert (np.geterr(), np.geterrcall()) == before
        assert record.call is handler and record.modes["divide"] == "call"


def test_recordings_nest_and_know_the_users_modes() -> None:
    with np.errstate(all="raise"), fpstatus.recording() as outer:
        with fpstatus.recording() as inner:
            np.log(X)
            fpstatus.note("overflow")
        fpstatus.note("underflow")
        np.exp(X)
    assert inner.modes == outer.modes == dict.fromkeys(fpstatus.KINDS, "raise")
    assert inner.kinds == ["divide", "invalid", "overflow"] and outer.kinds == ["underflow", "overflow"]


def test_threads_record_for_themselves() -> None:
    seen: list[list[str]] = []

    def work() -> None:
        with np.errstate(all="warn"), fpstatus.recording() as record:
            np.log(X[:1])
        seen.append(record.kinds)

    with np.errstate(all="warn"), fpstatus.recording() as record:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [["divide"]] and record.kinds == []


@pytest.mark.parametrize("kind", fpstatus.KINDS)
def test_outside_a_recording_every_mode_acts_as_numpys(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{fpstatus.TEXT[kind]} encountered in exp"
    with np.errstate(all="ignore"):
        fpstatus.note(kind, "exp")
    with np.errstate(all="warn"), pytest.warns(RuntimeWarning, match=f"^{text}$") as caught:
        fpstatus.note(kind, "exp")
    assert caught[0].filename == __file__
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=f"^{text}$"):
        fpstatus.note(kind, "exp")
    with np.errstate(all="print"):
        fpstatus.note(kind, "exp")
    assert capsys.readouterr().out == f"Warning: {text}\n"
    calls: list[Any] = []
    with np.errstate(all="call", call=lambda what, flag: calls.append((what, flag))):
        fpstatus.note(kind, "exp")
    assert calls[0][0] == fpstatus.TEXT[kind]
    log = io.StringIO()
    with np.errstate(all="log", call=log):
        fpstatus.note(kind, "exp")
    assert log.getvalue() == f"Warning: {text}\n"


def test_flag_words_are_reported_in_numpys_order() -> None:
    with np.errstate(all="warn"), fpstatus.recording() as record:
        fpstatus.note_word(fpstatus.INVALID | fpstatus.DIVIDE | fpstatus.OVERFLOW)
        fpstatus.note_word(0)
    assert record.kinds == ["divide", "overflow", "invalid"]
