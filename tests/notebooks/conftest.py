"""The kernel `bcvm`, installed into the tests' own Jupyter folders, for notebooks run by other processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kernel_installed(repository: Path) -> str:
    """The name of the kernelspec; kernels import this checkout, installed or not."""
    pytest.importorskip("jupyter_client", reason="notebooks need the extra `lab`")
    from bcvm_kernel import install

    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(repository), os.environ.get("PYTHONPATH")]))
    install(user=True)
    return "bcvm"
