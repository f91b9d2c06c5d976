"""Which figures are in force: a file, a measurement that is kept, or the nominal ones. And the command that shows them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bcvm_core as bcvm
from bcvm_core import cli
from bcvm_core.codegen.stencils import threads
from bcvm_core.fusion import machines, measuring
from bcvm_core.fusion.hardware import cache_sizes, cpu_name
from bcvm_core.fusion.machine import Machine, MachineError, from_json

FILE = Path(__file__).parent / "machine.json"
GIVEN = machines.from_file(FILE)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Machine]]:
    """A cache folder of its own, and a measurement that takes no time; the list has what was "measured"."""
    made: list[Machine] = []

    def measure(**_: object) -> Machine:
        made.append(GIVEN)
        return GIVEN

    monkeypatch.setattr(measuring, "measure", measure)
    with bcvm.override(cache_dir=str(tmp_path), machine=None):
        yield made
    machines.forget()


def test_without_a_measurement_the_figures_are_nominal(measured: list[Machine]) -> None:
    assert machines.in_force() == machines.InForce(machines.nominal(threads.cores()), "nominal")
    assert measured == []


def test_a_measurement_is_made_once_and_kept(measured: list[Machine]) -> None:
    assert machines.measured() == (GIVEN, True)
    assert machines.measured() == (GIVEN, False)
    assert machines.in_force() == machines.InForce(GIVEN, "measured")
    assert len(measured) == 1
    assert machines.measured(again=True) == (GIVEN, True)
    assert len(measured) == 2


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other magic", "no machine inside"])
def test_a_damaged_file_is_replaced(measured: list[Machine], damage: str) -> None:
    machines.measured()
    path = machines.path()
    whole = path.read_bytes()
    if damage == "no machine inside":
        machines.store.write_sealed(path, b"{}", machines._MAGIC)
    else:
        body = {"cut": whole[:-10], "flipped": whole[:-1] + bytes([whole[-1] ^ 1]), "empty": b"", "other magic": b"X" + whole[1:]}
        path.write_bytes(body[damage])
    machines.forget()
    assert machines.read() is None
    assert machines.in_force().source == "nominal"
    assert machines.measured() == (GIVEN, True)
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_no_error(measured: list[Machine], tmp_path: Path) -> None:
    (tmp_path / "machine").write_text("a file is in the way")
    assert machines.measured() == (GIVEN, True)
    assert machines.measured() == (GIVEN, True)


def test_the_name_of_the_file_depends_on_cores_and_processor(measured: list[Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    names = {machines.path().name}
    monkeypatch.setattr(threads, "cores", lambda: 77)
    names.add(machines.path().name)
    monkeypatch.setattr(machines, "cpu_name", lambda: "another one")
    names.add(machines.path().name)
    assert len(names) == 3


def test_a_given_file_counts_whatever_was_measured(measured: list[Machine]) -> None:
    with bcvm.override(machine=str(FILE)):
        assert machines.in_force() == machines.InForce(GIVEN, str(FILE))
    assert machines.in_force().source == "nominal"


def test_a_given_file_that_cannot_be_used(measured: list[Machine], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with bcvm.override(machine=str(tmp_path / "none.json")):
        with pytest.raises(MachineError, match="cannot read"):
            machines.in_force()
        with caplog.at_level(logging.WARNING, "bcvm"):
            assert machines.usable().source == "nominal"
            assert machines.usable().source == "nominal"
    assert len(caplog.records) == 1  # said once


def test_the_environment_names_a_file(repository: Path) -> None:
    code = "from bcvm_core.fusion import machines; print(machines.in_force().machine.cpu)"
    env = {**__import__("os").environ, "BCVM_MACHINE": str(FILE)}
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == GIVEN.cpu


def test_nothing_is_measured_at_import(repository: Path) -> None:
    code = "import sys, bcvm_core, bcvm_core.cli; print([m for m in ('measuring', 'machine') if f'bcvm_core.fusion.{m}' in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_real_measurement_is_a_machine() -> None:
    found = measuring.measure(rounds=2)  # the class refuses figures that cannot be
    assert found.cores == threads.cores()
    assert {"float32", "float64", "float16"} <= set(found.arithmetic)
    assert set(found.product) == {"float32", "float64"}
    assert [level.name for level in found.levels] == [*(f"L{k + 1}" for k in range(len(cache_sizes()))), "memory"]
    assert found.exp_ns["float64"] > found.exp_ns["float32"] / 4
    assert found.arithmetic["float32"] > 0.05  # a tenth of what NumPy alone would do
    assert 10 < found.call_ns < 1e6
    assert from_json(found.to_json()) == found


def test_the_system_names_processor_and_caches() -> None:
    assert cpu_name()
    sizes = cache_sizes()
    assert 1 <= len(sizes) <= 3
    assert list(sizes) == sorted(set(sizes))
    assert 4096 <= sizes[0] <= 1 << 20


# -- bcvm machine ---------------------------------------------------------------------------------


def test_the_command_measures_once(measured: list[Machine], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["machine"]) == 0
    first = capsys.readouterr().out
    assert GIVEN.text() in first
    assert "measured now" in first
    assert cli.main(["machine"]) == 0
    assert "measured earlier" in capsys.readouterr().out
    assert cli.main(["machine", "--again"]) == 0
    assert "measured now" in capsys.readouterr().out
    assert len(measured) == 2


def test_the_command_prints_what_the_setting_takes(measured: list[Machine], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["machine", "--json"]) == 0
    written = tmp_path / "written.json"
    written.write_text(capsys.readouterr().out, encoding="utf-8")
    assert json.loads(written.read_text(encoding="utf-8"))["cpu"] == GIVEN.cpu
    with bcvm.override(machine=str(written)):
        assert machines.in_force().machine == GIVEN
        assert cli.main(["machine"]) == 0
        assert str(written) in capsys.readouterr().out
        assert cli.main(["machine", "--again"]) == 2
        assert "nothing is measured" in capsys.readouterr().err


def test_the_command_says_what_is_wrong_with_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}", encoding="utf-8")
    with bcvm.override(machine=str(bad)):
        assert cli.main(["machine"]) == 2
    assert "no figures of a machine" in capsys.readouterr().err
    machines.forget()


def test_the_command_says_when_nothing_could_be_kept(measured: list[Machine], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "machine").write_text("a file is in the way")
    assert cli.main(["machine"]) == 0
    assert "not kept" in capsys.readouterr().out
