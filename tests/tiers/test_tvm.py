"""TVM as a search back end: the same bits as every other way, or refused with the reason. Skipped where TVM is not installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from bcvm_core import config
from bcvm_core.codegen.search import backend, process, worker
from bcvm_core.codegen.stencils import target
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.kernel import FusedKernel
from bcvm_core.codegen.store import cpu_level
from bcvm_core.readiness import ready
from bcvm_core.tiers import hot, recompile

HERE = importlib.util.find_spec("tvm") is not None
F32, F64, I32 = Input("float32"), Input("float64"), Input("int32")
GRAPHS = {
    "sums, products, NaN": FusedGraph((F32, F32), (Node("add", (0, 1)), Node("multiply", (2, 0)), Node("maximum", (3, Const(0)))), (4,)),
    "sigmoid, tanh": FusedGraph((F32, F32), (Node("sigmoid", (0,)), Node("tanh", (1,)), Node("multiply", (2, 3))), (4,)),
    "events": FusedGraph((F32, F32), (Node("exp", (0,)), Node("log", (1,)), Node("divide", (2, 3))), (4,)),
    "float64": FusedGraph((F64, F64), (Node("subtract", (0, 1)), Node("sqrt", (2,)), Node("minimum", (3, Const(0.5)))), (4,)),
    "integers": FusedGraph((I32, F32), (Node("add", (0, Const(3))), Node("multiply", (2, 1))), (3,)),
    "choice": FusedGraph((F32, F32), (Node("less", (0, 1)), Node("where", (2, 0, 1))), (3,)),
}


@pytest.fixture(autouse=True, scope="module")
def _stencils() -> None:
    if target.host() is None or not ready():
        pytest.skip("no stencils for this processor")


def job_of(graph: FusedGraph, repeated: int = 0) -> tuple[FusedKernel, backend.Job]:
    kernel = FusedKernel(graph)
    return kernel, backend.Job(kernel.lowered, repeated, len(kernel.inputs), cpu_level())


def answered(job: backend.Job) -> process.Answer:
    place = backend.place_of("tvm")
    assert place is not None
    return process.answer(place, job)


def test_it_is_known_by_name_and_nothing_imports_it() -> None:
    assert "tvm" in backend.names()
    code = "import sys, bcvm_core, bcvm_core.tiers.recompile; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(HERE, reason="TVM is installed")
def test_without_tvm_the_reason_says_what_to_install() -> None:
    _, job = job_of(GRAPHS["choice"])
    answer = answered(job)
    assert answer.candidates == [] and "pip install 'bcvm[tvm]'" in answer.refused[0][1]


@pytest.mark.skipif(not HERE, reason="needs apache-tvm")
@pytest.mark.parametrize("repeated", [0, 2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_candidate_has_the_bits_and_events_of_the_spliced_code(name: str, repeated: int) -> None:
    kernel, job = job_of(GRAPHS[name], repeated)
    answer = answered(job)
    assert [candidate[0].partition(",")[0] for candidate in answer.candidates] == ["TVM"] * 3, answer.refused
    runners, refused = recompile._candidates(kernel, job, answer)
    assert len(runners) == 3 and refused == []


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (FusedGraph((F32, F32), (Node("add", (0, 1)), Node("tanh", (2,))), (2, 3)), "one after the other"),
        (FusedGraph((Input("float16"),), (Node("tanh", (0,)), Node("sqrt", (1,))), (2,)), "not for f16"),
    ],
)
def test_what_it_is_not_asked_for_is_told(graph: FusedGraph, reason: str) -> None:
    answer = answered(job_of(graph)[1])
    assert answer.candidates == [] and reason in answer.refused[0][1]


@pytest.mark.skipif(not HERE, reason="needs apache-tvm")
def test_a_hot_kernel_runs_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way: setting, worker, comparison, race, exchange."""
    monkeypatch.setattr("bcvm_core.tiers.race.ENOUGH", 10.0)
    hot.forget()
    recompile.figures.worker_cpu_s = 0.0
    kernel = FusedKernel(GRAPHS["sigmoid, tanh"])
    rng = np.random.default_rng(0)
    arrays: list[Any] = [rng.normal(size=1 << 15).astype(np.float32) for _ in range(2)]
    expected = FusedKernel(kernel.graph)(arrays).tobytes()  # type: ignore[union-attr]
    try:
        with config.override(hot_threshold_ms=0.0, recompile=True, search="tvm"):
            hot.watch(kernel, ("sigmoid", "tanh", "multiply"))
            for _ in range(2000):
                assert kernel(arrays).tobytes() == expected  # type: ignore[union-attr]
                assert recompile.wait()
                if kernel.heat is not None and kernel.heat.recompiled:
                    break
        (found,) = kernel.heat.classes.values()  # type: ignore[union-attr]
        assert found.verdict.state == hot.KEPT and "TVM" in found.verdict.reason
        assert kernel(arrays).tobytes() == expected  # type: ignore[union-attr]
    finally:
        worker.shared().stop()
