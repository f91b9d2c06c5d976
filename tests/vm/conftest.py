"""Fused kernels are there before the tests of the machine begin, so that they take part."""

from __future__ import annotations

import pytest

from bcvm_core import testing


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    assert testing.await_stencils(), "the stencils of fused kernels did not come"
