"""`bcvm.sla`: every call is counted, those over the budget by their site and with their reason."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core.testing import slow_kernel
from bcvm_core.vm.latency import latency
from tests.vm.native_support import warmed

X = np.linspace(-3.0, 3.0, 24, dtype=np.float32).reshape(4, 6)
NEVER_MET, ALWAYS_MET = 1e-6, 60_000.0  # milliseconds


@pytest.fixture(scope="module", autouse=True)
def _stencils() -> None:
    if not bcvm.ready():
        pytest.skip("there are no stencils for this machine")


def fused() -> Callable[..., Any]:
    def f(x: Any) -> Any:
        return np.maximum(x + 1.0, 0) * 2.0

    return bcvm.jit(f)


def product() -> Callable[..., Any]:
    def g(x: Any) -> Any:
        return x @ x.T

    return bcvm.jit(g)


def test_calls_of_machine_code_and_of_python_are_counted() -> None:
    f, g = fused(), product()
    warmed(f, X)
    with bcvm.sla(budget_ms=ALWAYS_MET) as s:
        for _ in range(30):
            f(X)
        for _ in range(12):
            g(X)
    assert (s.calls, s.share) == (42, 1.0)
    assert {site.ops: (site.calls, site.over) for site in s.sites()} == {"add+maximum+multiply": (30, 0), "transposed+matmul": (12, 0)}
    assert s.table() == "100.00% of 42 calls within 60000 ms"


def test_a_budget_that_nothing_meets() -> None:
    f = fused()
    warmed(f, X)
    with bcvm.sla(budget_ms=NEVER_MET) as s:
        for _ in range(30):
            f(X)
    (site,) = s.sites()
    assert (s.share, site.over, site.calls) == (0.0, 30, 30)
    assert site.reasons == {"its kernels took that long": 30}
    assert site.where.startswith("fused.<locals>.f (test_budget.py:")


def test_the_slow_site_is_named_first_and_the_share_is_exact() -> None:
    f, g = fused(), product()
    warmed(f, X)
    for _ in range(3):
        g(X)
    with bcvm.sla(budget_ms=20) as s:
        for _ in range(16):
            f(X)
        with slow_kernel("matmul.blas", 0.05):
            for _ in range(4):
                g(X)
    first = s.sites()[0]
    assert first.ops == "transposed+matmul" and first.over >= 4 and first.longest_ms >= 50
    assert s.share == 1 - sum(site.over for site in s.sites()) / 20
    assert "of 4 over, the longest" in s.table().splitlines()[1]


def test_compile_work_within_a_call_is_its_reason() -> None:
    f = fused()
    with bcvm.sla(budget_ms=NEVER_MET) as s:
        f(X)
    (site,) = s.sites()
    assert site.reasons == {"it bound to operands of new types": 1, "a fused kernel was spliced": 1}


def test_two_reports_at_once_have_their_own_budgets() -> None:
    f = fused()
    warmed(f, X)
    with bcvm.sla(budget_ms=NEVER_MET) as strict:
        f(X)
        with bcvm.sla(budget_ms=ALWAYS_MET) as loose:
            f(X)
        f(X)
    assert (strict.calls, strict.share, loose.calls, loose.share) == (3, 0.0, 1, 1.0)
    assert latency.bound > 1e15


def test_calls_of_several_threads() -> None:
    f = fused()
    warmed(f, X)
    with bcvm.sla(budget_ms=NEVER_MET) as s:
        threads = [threading.Thread(target=lambda: [f(X) for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (s.calls, s.share) == (800, 0.0)


def test_nothing_ran_and_nonsense() -> None:
    with bcvm.sla(budget_ms=1) as s:
        pass
    assert (s.calls, s.share, s.sites()) == (0, 1.0, [])
    json.dumps(s.as_dict())
    with pytest.raises(RuntimeError, match="one block"), s:
        pass
    for budget in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="positive"):
            bcvm.sla(budget)
    assert "calls within" in bcvm.sla(2)._repr_html_()
