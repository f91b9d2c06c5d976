"""Rows of the op table for these tests."""

from __future__ import annotations

import pytest

from bcvm_core.ops import registry


@pytest.fixture(scope="session", autouse=True)
def _op_table() -> None:
    if not registry.rows():
        registry.load_families()
