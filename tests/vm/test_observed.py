"""Without annotations, hints come from the first values a function meets and widen with later ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core.jit import jit, linker_of
from bcvm_core.vm.observed import Observed


@jit
def project(x: Any, w: Any, rebound: Any) -> Any:
    h = x @ w
    rebound = h * 2
    return np.maximum(rebound, 0)


def hints() -> dict[str, str]:
    linker = linker_of(project)
    assert linker is not None
    return {name: str(spec.hint) for name, spec in linker.observed.specs.items()}


def test_hints_are_inferred_and_widened() -> None:
    linker_of(project).observed.specs.clear()  # type: ignore[union-attr]
    project(np.ones((2, 3)), np.ones((3, 4)), np.ones(1))
    assert hints() == {"x": "[2, 3]", "w": "[3, 4]"}
    project(np.ones((5, 3)), np.ones((3, 4)), np.ones(2))
    assert hints() == {"x": "[s0, 3]", "w": "[3, 4]"}
    assert "LOAD_TENSOR  r0, x, [s0, 3]" in project.dis()  # type: ignore[attr-defined]
    assert "matmul(float64:contiguous:host, float64:contiguous:host)" in project.dis()  # type: ignore[attr-defined]
    project(np.ones((7, 6)), np.ones((6, 4)), np.ones(2))
    assert hints() == {"x": "[s0, s1]", "w": "[s2, 4]"}
    project(np.ones((2, 7, 6)), np.ones((6, 4)), np.ones(2))
    assert hints()["x"] == "[...]"


def test_a_new_shape_is_no_new_binding() -> None:
    before = project.stats().bound  # type: ignore[attr-defined]
    for n in range(1, 6):
        project(np.ones((n, 3)), np.ones((3, 4)), None)
    assert project.stats().bound == before  # type: ignore[attr-defined]


def test_what_alternates_is_seen_whatever_came_before() -> None:
    observed = Observed()
    for value in (np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 3)), np.ones((5, 3), np.float32), np.ones((6, 3), np.float32)):
        observed.see("x", value)
    assert (observed.specs["x"].dtype, str(observed.specs["x"].hint)) == ("float32", "[s0, 3]")
    observed.see("x", np.ones((3, 5), np.float32).T)
    assert (observed.specs["x"].layout, str(observed.specs["x"].hint)) == ("strided", "[s0, 3]")
    observed.see("x", np.ones((7, 3), np.float32).T)
    assert str(observed.specs["x"].hint) == "[s0, s1]"
