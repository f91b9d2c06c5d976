"""The wheel as a user gets it: built, installed into an empty environment without extras, and used from another folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SMOKE = """
import sys
import numpy as np
import bcvm_core as bcvm

@bcvm.jit
def f(x):
    return np.maximum(x, 0) + 1

x = np.array([[-1.0, 2.0]], np.float32)
assert np.array_equal(f(x), np.array([[1.0, 3.0]], np.float32))
assert f(x).dtype == np.float32
assert not {"mindspore", "IPython", "ipykernel"} & set(sys.modules)
"""


def _run(*command: str | Path, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, repository, cwd=folder)
    (built,) = folder.glob("bcvm-*.whl")
    return built


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs folder of an environment that holds the wheel and its core dependencies alone."""
    folder = tmp_path_factory.mktemp("bare")
    _run(sys.executable, "-m", "venv", folder / "env", cwd=folder)
    programs = folder / "env" / "bin"
    _run(programs / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return programs


def test_the_wheel_holds_the_three_packages_and_nothing_else(wheel: Path, repository: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"bcvm_core", "bcvm_kernel", "bcvm_widgets"}
    assert {"bcvm_core/py.typed", "bcvm_widgets/__init__.py", "bcvm_core/cli.py"} <= names
    for path in (repository / "bcvm_kernel" / "resources").iterdir():
        assert f"bcvm_kernel/resources/{path.name}" in names
    for path in (repository / "widgets" / "bcvm_widgets" / "static").iterdir():
        assert f"bcvm_widgets/static/{path.name}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_core_works_without_extras(bare: Path, tmp_path: Path) -> None:
    _run(bare / "python", "-I", "-W", "error", "-c", SMOKE, cwd=tmp_path)


def test_only_core_dependencies_are_installed(bare: Path, repository: Path, tmp_path: Path) -> None:
    listed = _run(bare / "python", "-m", "pip", "list", "--format", "freeze", cwd=tmp_path)
    installed = {line.partition("==")[0].partition(" @")[0].lower().replace("-", "_") for line in listed.split("\n") if line}
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[<>=~!;\[ ]", spec)[0].lower().replace("-", "_") for spec in project["dependencies"]}
    assert installed - {"pip", "setuptools"} == wanted | {"bcvm"}


def test_the_command_works_without_extras(bare: Path, tmp_path: Path) -> None:
    assert "usage: bcvm" in _run(bare / "bcvm", "--help", cwd=tmp_path)
    report = _run(bare / "bcvm", "doctor", cwd=tmp_path)
    assert "pip install 'bcvm[mindspore]'" in report
    assert "pip install 'bcvm[lab]'" in report


def test_a_missing_extra_is_one_clear_line(bare: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(bare / "bcvm"), "kernel", "install", "--sys-prefix"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.strip() == "bcvm: the Jupyter kernel needs jupyter_client; pip install 'bcvm[lab]'"


def test_all_parts_have_one_version() -> None:
    import bcvm_core
    import bcvm_kernel
    import bcvm_widgets
    from bcvm_core.version import __version__

    assert bcvm_core.__version__ == bcvm_kernel.__version__ == bcvm_widgets.__version__ == __version__
