"""ONNX's own node tests: inputs and outputs that others recorded, for every op type that can be expressed in BCVM.

All of them agree, or stand in `exclusions.py` with the reason.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the node tests come with the package onnx, which is not installed (or has no wheel for this Python)")

from bcvm_core import testing
from bcvm_core.tiers.pool import pool
from tests.onnx_nodes import exclusions, nodes, report, table

NODES = nodes.collect()
REASONS = {name: nodes.reason_against(node) for name, node in NODES.items()}
INCLUDED = [name for name, reason in REASONS.items() if reason is None]


@pytest.mark.parametrize("name", INCLUDED)
def test_agrees(name: str) -> None:
    nodes.check(NODES[name])


def test_every_op_type_is_expressed_or_excluded() -> None:
    met = {op_type for node in NODES.values() for op_type in node.op_types}
    assert met - table.OPS.keys() - exclusions.TYPES.keys() == set()
    assert table.OPS.keys() & exclusions.TYPES.keys() == set()


def test_no_exclusion_is_stale() -> None:
    """Every entry leaves out something, and what it leaves out does not agree."""
    met = {op_type for node in NODES.values() for op_type in node.op_types}
    assert exclusions.TYPES.keys() - met == set()
    assert exclusions.TESTS.keys() - NODES.keys() == set()
    assert exclusions.ELEMENT_TYPES.keys() and set(exclusions.ELEMENT_TYPES.values()) - set(REASONS.values()) == set()
    for name in exclusions.TESTS:
        with pytest.raises(Exception):  # noqa: B017 - whatever it is: it does not agree
            nodes.check(NODES[name])
    noisy = exclusions.NOISY if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else {}
    assert exclusions.NOISY.keys() <= NODES.keys()
    for name in (*exclusions.COARSE, *noisy):
        node = NODES[name]
        with pytest.raises(AssertionError):
            for actual, recorded in zip(nodes.run(node), node.outputs, strict=True):
                nodes.assert_agrees(actual, recorded)


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """The report of a run of everything that is not left out, from counters at zero."""
    for jitted in table.JITTED:
        jitted.stats().reset()
    return report.measure(NODES)


def test_nothing_is_left_to_python(measured: dict[str, Any], record_property: Callable[[str, object], None]) -> None:
    """Every callable of the op table ran by CALL_OP, and each op type has some; the counts of what ran are in the report."""
    counters = [jitted.stats() for jitted in table.JITTED]
    assert sum(c.call_host for c in counters) == 0
    assert sum(c.replays for c in counters) == 0
    used = {op_type for name in INCLUDED for op_type in NODES[name].op_types}
    assert used == table.OPS.keys(), "every expression is met"
    agreeing = [name for name, row in measured["types"].items() if row["agree"]]
    assert [name for name in agreeing if not measured["types"][name]["ops"]] == []
    assert measured["agree"] == len(INCLUDED)
    record_property("onnx op types", len(agreeing))
    record_property("onnx node tests", len(INCLUDED))


def test_the_table_of_the_documentation_is_what_runs_show(measured: dict[str, Any]) -> None:
    recorded = json.loads(report.FILE.read_text(encoding="utf-8"))
    if recorded["onnx"] != report.SERIES:
        pytest.skip(f"the table is of onnx {recorded['onnx']}")
    assert measured == recorded, "run `python -m tests.onnx_nodes.report`"


def test_a_wrong_result_is_seen() -> None:
    node = NODES["test_relu"]
    recorded = np.asarray(node.outputs[0])
    wrong = recorded.copy()
    wrong[0, 0, 0] += 1e-4
    for changed in (wrong, recorded.astype(np.float64), recorded[..., None]):
        with pytest.raises(AssertionError):
            nodes.assert_agrees(changed, recorded)


def test_a_wrong_kernel_is_seen() -> None:
    """The results come from the kernels of the pool."""
    for op, name in (("relu", "test_relu"), ("matmul", "test_matmul_2d"), ("sum", "test_reduce_sum_default_axes_keepdims_random")):
        with contextlib.ExitStack() as stack:
            for entry in pool.kernels(op):
                stack.enter_context(testing.corrupt_kernel(entry.name, "zero"))
            with pytest.raises(AssertionError):
                nodes.check(NODES[name])
        nodes.check(NODES[name])
