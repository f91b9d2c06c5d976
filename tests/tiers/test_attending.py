"""Attention as the machine model decides: carried out, recorded with its times, and of the same bits in every tier."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core import config, ops
from bcvm_core.codegen.attention import entry
from bcvm_core.codegen.stencils import target
from bcvm_core.fusion import decisions, machines
from bcvm_core.ops import heads
from bcvm_core.tiers import attending
from bcvm_core.tiers.select import CallSite

pytestmark = pytest.mark.skipif(target.host() is None, reason="there is no kernel for this processor")


def operands(batch: int, length: int) -> list[Any]:
    rng = np.random.default_rng(batch + length)
    return [rng.standard_normal((batch, 12, length, 64)).astype(np.float32) for _ in range(3)]


@pytest.fixture
def afresh() -> Any:
    """No call was met before."""
    for known in (attending._known, attending._classes, heads.attention.direct.known):  # type: ignore[attr-defined]
        known.clear()  # type: ignore[attr-defined]
    decisions.clear()


@pytest.mark.parametrize(
    ("cores", "batch", "length", "chosen"),
    [
        (32, 1, 16, "one kernel"),
        (32, 1, 100, "one kernel"),
        (32, 1, 128, "qk^T | softmax, pv"),
        (32, 16, 16, "one kernel"),
        (32, 16, 128, "one kernel"),
        (2, 1, 128, "one kernel"),
        (2, 16, 128, "one kernel"),
    ],
)
def test_batch_one_splits_where_it_has_too_few_blocks(
    cores: int, batch: int, length: int, chosen: str, afresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, halves = operands(batch, length), []
    attend = entry.attend
    monkeypatch.setattr(attending, "usable", lambda: machines.InForce(machines.nominal(cores), "nominal"))
    monkeypatch.setattr(entry, "attend", lambda *a: halves.append(a[-1]) or attend(*a))
    for _ in range(3):
        result = ops.attention(*given)
    assert halves == [chosen != "one kernel"] * 3
    text = bcvm.explain()
    first, *rest = text.splitlines()
    assert first.startswith(f"qk^T, softmax, pv on float32[{batch}, 12, {length}, 64]")
    assert f": {chosen}, predicted " in first and "(best of 3)" in first
    assert "no kernel acts" not in text and "nominal figures" in text
    assert sum("[REJECTED]" in line for line in rest) == 3
    (record,) = decisions.latest()
    assert record.measured.calls == 3 and record.measured.best_ns > 0
    for known in (attending._known, attending._classes, heads.attention.direct.known):  # type: ignore[attr-defined]
        known.clear()  # type: ignore[attr-defined]
    monkeypatch.setattr(attending, "usable", lambda: machines.InForce(machines.nominal(1), "nominal"))
    assert ops.attention(*given).tobytes() == result.tobytes()


def test_small_calls_are_one_kernel_in_one_thread(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attending, "usable", lambda: machines.InForce(machines.nominal(32), "nominal"))
    ops.attention(*operands(1, 100))
    text = bcvm.explain()
    assert "qk^T | softmax, pv: predicted" in text and "[REJECTED] small: one kernel" in text
    assert "32 threads" not in text and "saturation" not in text


def test_sizes_of_a_class_share_a_decision(afresh: None) -> None:
    for length in (33, 40, 63):
        ops.attention(*operands(2, length))
    assert [record.measured.calls for record in decisions.latest()] == [3]
    ops.attention(*operands(2, 64))
    assert [record.measured.calls for record in decisions.latest()] == [3, 1]


def test_the_same_bits_in_every_tier() -> None:
    given = operands(1, 50)

    def function(q: Any, k: Any, v: Any) -> Any:
        return bcvm.ops.attention(q * 2.0, k, v, causal=True) + 1.0

    wanted = function(*given).tobytes()
    assert CallSite("attention")(given[0] * np.float32(2), *given[1:], causal=True).tobytes() == (
        ops.attention(given[0] * np.float32(2), *given[1:], causal=True).tobytes()
    )
    for changes in ({}, {"force_tier": "interpreter"}, {"force_tier": "linked"}, {"fusion_engine": "tape"}, {"fuse": False}):
        with config.override(**changes):
            made = bcvm.jit(function)
            for _ in range(3):
                assert made(*given).tobytes() == wanted


def test_the_first_call_on_a_machine_has_the_bits_of_the_others(tmp_path: Any) -> None:
    text = (
        "import hashlib, numpy as np, bcvm_core as bcvm\n"
        "x = np.random.default_rng(0).standard_normal((2, 4, 70, 20)).astype(np.float32)\n"
        "for _ in range(2): print(hashlib.sha256(bcvm.ops.attention(x, x, x).tobytes()).hexdigest())\n"
    )
    environment = {**os.environ, "BCVM_CACHE_DIR": str(tmp_path)}
    found: list[str] = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, timeout=120, check=True)
        found += done.stdout.split()
    assert len(found) == 4 and len(set(found)) == 1
    assert list(tmp_path.glob("kernels/*/attention_float32.obj"))
