"""Fused kernels are there before the tests of the machine begin, so that they take part."""

from __future__ import annotations

import pytest

import bcvm_core as bcvm


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    assert bcvm.ready(), "the stencils of fused kernels did not come"
