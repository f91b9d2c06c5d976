"""Style, types and repeated code, by the tools that judge them; one test each so that the run names the one that failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def _tool(repository: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=repository, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}"


def test_ruff_finds_nothing(repository: Path) -> None:
    _tool(repository, "ruff", "check", ".")


def test_the_code_is_formatted(repository: Path) -> None:
    _tool(repository, "ruff", "format", "--check", ".")


@pytest.mark.slow
def test_types_are_strict(repository: Path) -> None:
    _tool(repository, "mypy")
