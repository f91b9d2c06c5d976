"""Installing the kernelspec: the function, the command, and what it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jupyter_client")

from bcvm_kernel import install  # noqa: E402
from bcvm_kernel.kernelspec import main  # noqa: E402


def test_install_writes_a_complete_kernelspec(tmp_path: Path) -> None:
    folder = Path(install(prefix=str(tmp_path)))
    assert folder == tmp_path / "share" / "jupyter" / "kernels" / "bcvm"
    spec = json.loads((folder / "kernel.json").read_text())
    assert spec["argv"][0] == sys.executable
    assert spec["argv"][-4:] == ["-m", "bcvm_kernel", "-f", "{connection_file}"]
    assert spec["language"] == "python"
    assert spec["interrupt_mode"] == "signal"
    assert spec["metadata"]["debugger"] is True
    assert "BCVM" in spec["display_name"]
    assert (folder / "logo-svg.svg").read_text().startswith("<svg")
    for size in (32, 64):
        assert (folder / f"logo-{size}x{size}.png").read_bytes()[:4] == b"\x89PNG"


def test_install_again_replaces_and_other_names_stand_beside(tmp_path: Path) -> None:
    install(prefix=str(tmp_path))
    install(prefix=str(tmp_path))
    other = Path(install(prefix=str(tmp_path), name="bcvm-test"))
    assert json.loads((other / "kernel.json").read_text())["display_name"] == "bcvm-test"
    assert sorted(p.name for p in other.parent.iterdir()) == ["bcvm", "bcvm-test"]


def test_the_command_installs_and_says_where(tmp_path: Path, repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bcvm_kernel", "install", "--prefix", str(tmp_path)],
        cwd=repository, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout.strip().endswith("share/jupyter/kernels/bcvm")
    assert (tmp_path / "share/jupyter/kernels/bcvm/kernel.json").is_file()


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["--prefix", str(blocked)]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "--sys-prefix" in captured.err


def test_a_bad_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="[Nn]ame"):
        install(prefix=str(tmp_path), name="no good")


def test_files_in_the_working_directory_do_not_hide_modules(start: object, tmp_path: Path) -> None:
    """A notebook beside a `token.py` and a `select.py` still gets a kernel."""
    for name in ("token.py", "select.py", "code.py"):
        (tmp_path / name).write_text("raise ImportError('a file of the notebook was taken for a module')\n")
    done = subprocess.run(
        [sys.executable, "-m", "bcvm_kernel", "--version"],
        cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "was taken for a module" not in done.stderr
