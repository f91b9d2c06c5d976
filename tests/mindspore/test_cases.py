"""The recorded cases in MindSpore's spelling: the recorded values (or MindSpore's where its rules differ), run by CALL_OP."""

from __future__ import annotations

import linecache
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from cases.records import Recorder, assert_matches, load, tolerance
from door_cases import PROGRAMS
from door_support import array, tensor
from mindspore import mint, ops

from bcvm_core.events import Lowered, bus

pytestmark = [pytest.mark.mindspore, pytest.mark.filterwarnings("ignore::SyntaxWarning")]
CASES = {case.id: case for case in load() if case.kind in "acdi"}


def run(name: str, recorder: Recorder) -> Any:
    source = PROGRAMS[name].source
    filename = f"<mindspore case {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"np": np, "ms": ms, "ops": ops, "mint": mint, "T": tensor, "jit": recorder, "__name__": f"case_{name}"}
    exec(compile(source, filename, "exec"), namespace)
    return namespace["out"]


def plain(value: Any) -> Any:
    """MindSpore tensors as arrays, however deep."""
    if isinstance(value, list | tuple):
        return type(value)(plain(v) for v in value)
    return array(value)


def test_every_case_has_a_mindspore_form() -> None:
    assert sorted(CASES) == sorted(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_share(name: str) -> None:
    recorder = Recorder()
    out = plain(run(name, recorder))
    case, wanted = CASES[name], PROGRAMS[name].wanted
    if wanted is None:
        assert_matches(out, case.expected_data, *tolerance(case.tol))
    else:
        assert [v.tolist() if isinstance(v, np.ndarray) else v for v in out] == eval(wanted, {"inf": np.inf})
    stats = recorder.stats()
    assert stats.call_op > 0, "nothing ran through the VM"
    assert stats.share() >= 0.95, f"{stats!r} {stats.reasons}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_strict_passes(name: str) -> None:
    plain(run(name, Recorder(strict=True)))


def test_new_shapes_compile_nothing() -> None:
    """Case c83: nine sizes twice, then a broadcast; at most three compiles, none in the second pass."""
    source = "def f(x, a): return mint.maximum(2 * x + a, a - x).sum(-1)\n"
    linecache.cache["<c83>"] = (len(source), None, source.splitlines(keepends=True), "<c83>")
    scope: dict[str, Any] = {"mint": mint}
    exec(compile(source, "<c83>", "exec"), scope)
    recorder = Recorder()
    f = recorder(scope["f"])
    compiled: list[Any] = []
    remove = bus.subscribe(lambda event: compiled.append(event) if isinstance(event, Lowered) else None)
    try:
        counts = []
        for _ in range(2):
            for i in range(1, 10):
                result = f(tensor(np.full((i, 3, 4), 1.0)), tensor(np.full((i, 3, 4), 2.0)))
                assert result.shape == (i, 3) and (array(result) == 16.0).all()
            counts.append(len(compiled))
        result = f(tensor(np.full((1, 3, 4), 1.0)), tensor(np.full((5, 3, 4), 2.0)))
        assert result.shape == (5, 3) and (array(result) == 16.0).all()
    finally:
        remove()
    assert counts[0] <= 3 and counts[1] == counts[0]
    assert recorder.stats().share() == 1.0
