"""What NumPy spells and takes is in the op table, or stands in the list of what is left to Python, with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bcvm_core import coverage
from bcvm_core.coverage.reasons import LEFT_NAMES, LEFT_PARAMETERS
from bcvm_core.ops import registry
from tests import signatures

OWNERS: dict[str, Any] = {"numpy": np, "numpy.linalg": np.linalg, "numpy.ndarray": np.ndarray}
ENTRIES = [e for e in coverage.entries() if e.owner in OWNERS and e.kind in ("function", "method") and hasattr(OWNERS[e.owner], e.name)]
UNSHOWN = ("numpy.ndarray.dot",)
"""Have neither a signature nor a docstring in some releases."""


def test_there_are_the_families_that_models_use() -> None:
    groups = coverage.families()
    assert list(groups) == "shape create binary unary logic reduce matmul nn activations losses random".split()
    assert sum(map(len, groups.values())) >= 120
    assert all(name.isidentifier() for families in groups.values() for names in families for name in names)


def test_every_spelling_has_a_column() -> None:
    assert {e.owner for e in coverage.entries()} <= coverage.DOORS.keys()


def names_of_families() -> Iterator[str]:
    for families in coverage.families().values():
        for names in families:
            yield from names


@pytest.mark.parametrize("owner", ["numpy", "numpy.ndarray"])
def test_every_name_that_numpy_has_is_spelled(owner: str) -> None:
    there = {n for n in names_of_families() if callable(getattr(OWNERS[owner], n, None))}
    find = registry.by_method if owner == "numpy.ndarray" else lambda name: registry.by_callable(getattr(np, name))
    assert [n for n in sorted(there) if find(n) is None and coverage.reason_for_name(f"{owner}.{n}") is None] == []


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.target)
def test_every_parameter_that_numpy_has_is_taken_or_left_with_a_reason(entry: coverage.Entry) -> None:
    function = getattr(OWNERS[entry.owner], entry.name)
    real = signatures.of_numpy(function)
    if real is None:
        assert entry.target in UNSHOWN, "no signature and no docstring"
        return
    left = real - coverage.supported(entry)
    ufunc = isinstance(function, np.ufunc)
    assert [name for name in sorted(left) if coverage.reason_for_parameter(entry.target, name, ufunc) is None] == []


def test_docstrings_give_the_parameters_where_nothing_else_does() -> None:
    assert signatures.of_numpy(np.ndarray.sum) == {"axis", "dtype", "out", "keepdims", "initial", "where"}
    assert signatures.of_numpy(np.concatenate) >= {"axis", "out", "dtype", "casting"}
    assert signatures.of_numpy(np.bincount) >= {"weights", "minlength"}


def test_reasons_are_sentences_about_something_that_is_there() -> None:
    assert all(len(why) > 15 for why in (*LEFT_NAMES.values(), *LEFT_PARAMETERS.values()))
    spelled = {e.target for e in coverage.entries()}
    assert [name for name in LEFT_NAMES if name in spelled] == [], "spelled and left"


def test_the_page_has_every_op_and_reason() -> None:
    from bcvm_core.coverage import page

    assert page.counts().partition(" ")[0].isdigit()
    table = page.by_row()
    assert [row.name for row in registry.rows() if f"| **{row.name}** |" not in table and row.spellings] == []
    families = page.by_family()
    assert all(f"| **{names[0]}** |" in families for group in coverage.families().values() for names in group)
    assert all(why in page.reasons() for why in LEFT_NAMES.values())
    lines = [line for line in (table + "\n" + families).splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {
        len(set(coverage.DOORS.values())) + 3,
        len(set(coverage.DOORS.values())) + 2,
    }
