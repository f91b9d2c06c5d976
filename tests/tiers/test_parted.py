"""Runs of independent ops whose shapes don't fit together: each component by itself, with the bits of its ops."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core import config, ops
from bcvm_core.codegen import loader, loops
from bcvm_core.codegen.stencils.library import is_ready
from bcvm_core.codegen.stencils.target import host
from bcvm_core.fusion.segments import Segment, SegmentOp
from bcvm_core.tiers.chains import ChainSite

pytestmark = pytest.mark.skipif(host() is None or bool(loader.obstacle()), reason="no fused kernels here")


def data(shape: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def three(a: Any, b: Any, c: Any) -> Any:
    x = (a + 1) * 2
    y = (b - x.dtype.type(1)) * 3
    z = ops.silu(c * 0.5) + c
    return x, y, z


def crossed(a: Any, b: Any) -> Any:
    x = a + 1
    y = b * 2
    x = x * x
    y = y - 3
    return x, y


def with_rows(a: Any, b: Any, w: Any, v: Any) -> Any:
    x = ops.softmax(a * 2 + w)
    y = ops.softmax(b * 3 + v)
    return x, y


def rows_and_elements(a: Any, b: Any) -> Any:
    x = ops.softmax(a * 2)
    y = (b + 1) * b
    return x, y


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (three, (data((64, 64)), data((32, 16), 1), data((8, 8, 8), 2))),
    (crossed, (data((5, 7)), data((40,), 1))),
    (with_rows, (data((64, 64)), data((32, 16), 1), data((64, 64), 2), data((16,), 3))),
    (rows_and_elements, (data((9, 33)), data((4, 2, 3), 1))),
]


def settle(f: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call until kernels are there."""
    deadline = time.monotonic() + 60
    while not is_ready() and time.monotonic() < deadline:
        f(*arguments)
        time.sleep(0.05)
    for _ in range(4):
        f(*arguments)
        loops.wait(60)
    return f(*arguments)


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_each_component_is_a_kernel_with_the_bits_of_its_ops(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    jitted = bcvm.jit(function)
    found = settle(jitted, arguments)
    with config.override(fuse=False):
        expected = bcvm.jit(function)(*arguments)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)
    told = bcvm.explain(jitted)
    assert "spliced at first use" in str(told) or "rows" in str(told), told


def test_operands_that_fit_together_stay_one_kernel() -> None:
    jitted = bcvm.jit(crossed)
    a, b = data((5, 7)), data((5, 7), 1)
    settle(jitted, (a, b))
    told = str(bcvm.explain(jitted))
    assert "add, multiply, multiply, subtract as one kernel" in told
    assert told.count("as one kernel") == 1


def test_new_sizes_that_clash_go_to_the_parts_at_once_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted, plain = bcvm.jit(rows_and_elements), bcvm.jit(rows_and_elements)
    settle(jitted, (data((4, 33)), data((4, 7), 1)))
    looks: list[Any] = []
    look = ChainSite._chain_for
    monkeypatch.setattr(ChainSite, "_chain_for", lambda self, key, values: looks.append(key) or look(self, key, values))

    def check(a: Any, b: Any) -> int:
        before = sum(len(key) == 2 for key in looks)  # of both inputs
        found = jitted(a, b)
        with config.override(fuse=False):
            expected = plain(a, b)
        assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]
        return sum(len(key) == 2 for key in looks) - before

    assert [check(data((n, 33)), data((n, 6 + n))) for n in range(3, 12)] == [0] * 9
    assert check(data((5, 33)), data((5, 33))) == 1, "these fit"
    assert check(data((5, 33)), data((1, 33))) == 1, "and these broadcast, which takes a look"
    assert check(data((5, 33)), data((33,))) == 1
    assert check(data((6, 33)), data((6, 4))) == 0


def segment(*ops_: tuple[str, tuple[int, ...], int], outputs: tuple[int, ...]) -> Segment:
    made = tuple(SegmentOp(pc, name, operands, (), dest) for pc, (name, operands, dest) in enumerate(ops_))
    inside = {op.dest for op in made}
    inputs = dict.fromkeys(p for op in made for p in op.operands if isinstance(p, int) and p not in inside)
    return Segment(made, tuple(inputs), outputs)


def test_components_follow_values_not_inputs() -> None:
    whole = segment(("add", (0, 1), 10), ("exp", (0,), 11), ("multiply", (10, 2), 12), ("tanh", (11,), 13), outputs=(13, 12))
    first, second = whole.components()
    assert (first.names, first.inputs, first.outputs) == (("add", "multiply"), (0, 1, 2), (12,))
    assert (second.names, second.inputs, second.outputs) == (("exp", "tanh"), (0,), (13,))


def test_components_that_meet_later_are_one() -> None:
    whole = segment(("exp", (0,), 10), ("tanh", (1,), 11), ("abs", (2,), 12), ("add", (10, 12), 13), ("add", (13, 11), 14), outputs=(14,))
    assert [part.names for part in whole.components()] == [whole.names]


def test_a_component_that_cannot_be_computed_leaves_all_to_the_ops() -> None:
    jitted = bcvm.jit(crossed)
    a, b = data((5, 7)), np.float32(3)
    for _ in range(5):
        x, y = jitted(a, b)
        np.testing.assert_array_equal(x, (a + 1) * (a + 1))
        assert y == b * 2 - 3
