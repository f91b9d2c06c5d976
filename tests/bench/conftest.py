"""Both kernels, installed for this run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kernelspecs(repository: Path) -> None:
    """The `bcvm` kernelspec, importing this checkout."""
    from bcvm_kernel import install

    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(repository), os.environ.get("PYTHONPATH")]))
    install(user=True)
