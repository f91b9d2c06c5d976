"""Figures of a machine that does not exist, so that decisions are the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import bcvm_core as bcvm
from bcvm_core.fusion import decisions, machines
from bcvm_core.fusion.machines import InForce
from bcvm_core.ops import registry

FILE = Path(__file__).parent / "machine.json"


@pytest.fixture(autouse=True, scope="module")
def _ops() -> None:
    if not registry.rows():
        registry.load_families()


@pytest.fixture
def figures() -> InForce:
    """The figures of `machine.json`."""
    return InForce(machines.from_file(FILE), "a file")


@pytest.fixture
def given_machine() -> Iterator[str]:
    """The same, in force for the process; decisions made before are forgotten."""
    decisions.clear()
    with bcvm.override(machine=str(FILE)):
        yield str(FILE)
    machines.forget()
