"""Rows of the op table for these tests."""

from __future__ import annotations

import importlib

import pytest

from bcvm_core.ops import registry


@pytest.fixture(scope="session", autouse=True)
def _op_table() -> None:
    if registry.rows():
        return
    for family in registry._FAMILIES:
        try:
            module = importlib.import_module(f"bcvm_core.ops.{family}")
        except ModuleNotFoundError:
            continue
        for row in module.ROWS:
            registry.register(row)
