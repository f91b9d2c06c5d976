"""Progress bars: shown to people, silent elsewhere, gone at the end."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from bcvm_core import cli, progress
from tests.bench.progress import cases


class Terminal:
    """A stderr that a person looks at; keeps what is written."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """To be put in place by the test itself: pytest puts its own between fixtures and tests."""
    monkeypatch.setattr(progress, "_kernel", lambda: None)
    monkeypatch.setattr(progress, "DELAY_S", 0)
    return Terminal()


def test_a_person_at_a_terminal_sees_one_and_nothing_is_left_of_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    pytest.importorskip("tqdm")
    assert list(progress.bar("counting")(range(3))) == [0, 1, 2]
    assert "counting:" in terminal.text and "3" in terminal.text
    assert terminal.text.rpartition("\r")[2] == "" and not terminal.text.split("\r")[-2].strip()


@pytest.mark.parametrize("wanted", [False, None])
def test_nobody_sees_none(wanted: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_kernel", lambda: None)
    items = [1, 2]
    assert progress.bar("counting", wanted)(items) is items  # not even wrapped
    assert capsys.readouterr().err == ""


def test_true_shows_one_in_any_case_and_false_none(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    pytest.importorskip("tqdm")
    terminal.isatty = lambda: False  # type: ignore[method-assign]
    assert list(progress.bar("counting", True)(range(2))) == [0, 1] and "counting:" in terminal.text
    terminal.text, terminal.isatty = "", lambda: True  # type: ignore[method-assign]
    assert list(progress.bar("counting", False)(range(2))) == [0, 1] and terminal.text == ""


@pytest.mark.parametrize("wanted", [None, True])
def test_without_the_package_there_is_none(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, wanted: Any) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    items = [1, 2]
    assert progress.bar("counting", wanted)(items) is items and terminal.text == ""


def test_one_of_ones_own_is_used(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    seen: list[Any] = []

    def own(items: Any) -> Any:
        seen.append(items)
        return items

    assert list(progress.bar("counting", own)([5])) == [5] and seen == [[5]] and terminal.text == ""


def test_the_commands_have_one(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    pytest.importorskip("tqdm")
    import bcvm_core as bcvm
    from bcvm_core import workload
    from bcvm_core.cache.tuning import Call, Kernel

    shape = (("float32", (3,)),)
    calls = [Call(float(n), Kernel(str(n % 30), 1000, 10.0), 0, shape) for n in range(60)]
    monkeypatch.setattr(workload, "read", lambda path: calls)
    assert cli.main(["cache", "tune", "any", "--no-progress"]) == 0 and terminal.text == ""
    assert cli.main(["cache", "tune", "any"]) == 0 and "tuning:" in terminal.text
    terminal.text = ""

    @bcvm.jit
    def f(x: Any) -> Any:
        return x * 2 + 1

    bcvm.warmup(f, shapes=[(2,), (3,)], progress=False)
    assert terminal.text == ""
    bcvm.warmup(f, shapes=[(2,), (3,)])
    assert "warm-up:" in terminal.text


def test_benchmarks_have_a_bar_and_print_above_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys, "stderr", terminal)
    for n in cases("things", iter(range(3))):
        print("row", n)
    assert capsys.readouterr().out == "row 0\nrow 1\nrow 2\n"
    assert "things" in terminal.text and "0/3" in terminal.text


def test_benchmarks_have_none_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    for n in cases("things", iter(range(3))):
        print("row", n)
    assert capsys.readouterr() == ("row 0\nrow 1\nrow 2\n", "")
