"""What MindSpore spells and takes is in the op table, or stands in the list of what is left to it, with a reason."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import pytest
from door_support import MODULES, tensor

from bcvm_core import coverage
from bcvm_core.coverage.reasons import LEFT_NAMES, LEFT_PARAMETERS
from bcvm_core.ops import registry
from tests import signatures

pytestmark = pytest.mark.mindspore
OWNERS: dict[str, Any] = {
    "mindspore.ops": MODULES["ops"],
    "mindspore.mint": MODULES["mint"],
    "mindspore.mint.nn.functional": MODULES["F"],
    "mindspore.mint.linalg": MODULES["mint"].linalg,
    "mindspore.mint.special": MODULES["mint"].special,
    "mindspore.Tensor": ms.Tensor,
}
UNSHOWN = {"addcdiv", "flatten", "kthvalue", "reshape", "squeeze", "t"}
"""Functions of `mint` that show neither their parameters nor a docstring that names them."""


def is_spelled(owner: str, name: str) -> bool:
    if owner == "mindspore.Tensor":
        return registry.method_spelling_for(ms.Tensor, name) is not None
    return registry.by_callable(getattr(OWNERS[owner], name)) is not None


@pytest.mark.parametrize("owner", ["mindspore.ops", "mindspore.mint", "mindspore.mint.nn.functional", "mindspore.Tensor"])
def test_every_name_that_mindspore_has_is_spelled(owner: str) -> None:
    """Of the families that models use; methods also with the underscore that means "in place"."""
    names = [name for families in coverage.families().values() for family in families for name in family]
    if owner != "mindspore.ops":
        names += [f"{name}_" for name in names]
    there = [name for name in names if callable(getattr(OWNERS[owner], name, None))]
    assert [n for n in there if not is_spelled(owner, n) and coverage.reason_for_name(f"{owner}.{n}") is None] == []


@pytest.mark.parametrize("owner", OWNERS)
def test_every_parameter_that_mindspore_has_is_taken_or_left_with_a_reason(owner: str) -> None:
    x = tensor([1.0])
    unshown, left = [], []
    for entry in coverage.entries():
        if entry.owner != owner or entry.kind == "attribute" or not hasattr(OWNERS[owner], entry.name):
            continue
        real = (
            signatures.of_mindspore(entry.name, x)
            if owner == "mindspore.Tensor"
            else signatures.of_mindspore(getattr(OWNERS[owner], entry.name))
        )
        if real is None:
            unshown.append(entry.name)
            continue
        left += [f"{entry.name}({p})" for p in real - coverage.supported(entry) if coverage.reason_for_parameter(entry.target, p) is None]
    assert set(unshown) <= UNSHOWN and sorted(left) == []


def test_reasons_are_about_something_that_is_there() -> None:
    """No reason outlives what it was given for."""
    entries = {e.target: e for e in coverage.entries()}
    assert [target for target in entries if coverage.reason_for_name(target) is not None] == []
    stale = [key for key in LEFT_NAMES if key.startswith("mindspore") and "*" not in key and not _exists(key)]
    for key in LEFT_PARAMETERS:
        target, _, parameter = key.rstrip(")").partition("(")
        if target in entries and parameter in coverage.supported(entries[target]):
            stale.append(key)
    assert stale == []


def _exists(target: str) -> bool:
    owner, _, name = target.rpartition(".")
    return hasattr(OWNERS[owner], name)


def test_overloads_written_in_cpp_tell_their_parameters() -> None:
    x = tensor([1.0])
    assert signatures.of_mindspore("max", x) == {"dim", "keepdim", "axis", "keepdims", "initial", "where", "return_indices"}
    assert signatures.of_mindspore("abs", x) == set()
    assert signatures.of_mindspore(MODULES["mint"].div) == {"input", "other", "rounding_mode"}
