"""`binder/` describes an image of this checkout that can be built and is small enough for Binder; no Docker is needed to check it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def _run(*command: str, cwd: Path) -> str:
    """Run a Python module as a command; returns what it printed."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def recipe(repository: Path) -> str:
    """The Dockerfile that Binder would build."""
    pytest.importorskip("repo2docker", reason="needs jupyter-repo2docker")
    return _run("repo2docker", "--no-build", "--debug", ".", cwd=repository)


def test_repo2docker_accepts_it(recipe: str) -> None:
    instructions = [line for line in recipe.splitlines() if re.match(r"(FROM|COPY|RUN|USER|CMD|ENTRYPOINT) ", line)]
    copied = next(n for n, line in enumerate(instructions) if line.endswith("src/ ${REPO_DIR}/"))
    installed = next(n for n, line in enumerate(instructions) if 'install --no-cache-dir -r "binder/requirements.txt"' in line)
    prepared = instructions.index("RUN ./binder/postBuild")
    assert copied < installed < prepared  # the requirements name this checkout, so it must be there first


def test_python_is_one_of_those_we_support(recipe: str, repository: Path) -> None:
    version = (repository / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    assert version in ("python-3.11", "python-3.12")
    assert "KERNEL_PYTHON_PREFIX=${NB_PYTHON_PREFIX}" in recipe  # one environment, where JupyterLab finds the kernel


def test_pip_resolves_it_without_mindspore(repository: Path, tmp_path: Path) -> None:
    """A dry run that takes nothing for installed; it needs a package index, as installing does."""
    report = tmp_path / "report.json"
    options = ("--dry-run", "--ignore-installed", "--quiet", "--disable-pip-version-check", "--report", str(report))
    _run("pip", "install", *options, "-r", "binder/requirements.txt", cwd=repository)
    found = {item["metadata"]["name"].lower() for item in json.loads(report.read_text(encoding="utf-8"))["install"]}
    assert {"bcvm", "jupyterlab", "ipykernel", "anywidget", "scikit-learn"} <= found
    assert not {"mindspore", "torch", "triton"} & found  # Binder lends one to two GB of memory


def test_the_kernel_is_installed_when_the_packages_are(repository: Path) -> None:
    script = repository / "binder" / "postBuild"
    assert os.access(script, os.X_OK)
    (command,) = [line for line in script.read_text(encoding="utf-8").splitlines() if line.startswith("bcvm ")]
    assert command == "bcvm kernel install --sys-prefix"


def test_the_notebooks_need_no_mindspore(repository: Path) -> None:
    for source in (repository / "notebooks" / "source").glob("*.md"):
        code = "".join(re.findall(r"^```python[^\n]*\n(.*?)^```", source.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))
        assert code and not re.search(r"^\s*(import|from) mindspore", code, re.MULTILINE), source.name
