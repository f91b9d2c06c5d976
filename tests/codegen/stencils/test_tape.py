"""The fallback without machine code: chosen where there are no stencils, the same bits and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcvm_core import config, doctor
from bcvm_core.codegen import loops
from bcvm_core.codegen.stencils import arena, kernel, library, target
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node, NotFusable
from bcvm_core.codegen.stencils.kernel import FusedKernel, engine, kernel_for
from bcvm_core.codegen.stencils.tape import BLOCK, TapeKernel, parts
from bcvm_core.testing import assert_same_bits
from tests.codegen.stencils.data import numbers, one_by_one, ordinary
from tests.codegen.stencils.test_graphs import compare, graphs
from tests.codegen.stencils.test_kernels import CHAIN, SHAPES
from tests.ops.elementwise_arguments import layouts


@pytest.fixture(autouse=True)
def _tape() -> Iterator[None]:
    with config.override(fusion_engine="tape"):
        yield


@settings(max_examples=40)
@given(graphs(), st.integers(0, 1000), st.integers(1, 90))
def test_random_graphs(graph: FusedGraph, seed: int, length: int) -> None:
    made = kernel_for(graph)
    assert isinstance(made, TapeKernel)
    compare(made, [numbers(x.dtype, length, seed + k) for k, x in enumerate(graph.inputs)])


def test_it_agrees_with_the_stencils() -> None:
    x, y = ordinary("float32", 3 * BLOCK + 77, 1), ordinary("float32", 3 * BLOCK + 77, 2)
    assert_same_bits(list(kernel_for(CHAIN).entry(x, y)), list(FusedKernel(CHAIN).entry(x, y)))


@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_broadcasting(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    x = ordinary("float32", int(np.prod(first)), 1).reshape(first)
    y = ordinary("float32", int(np.prod(second)), 2).reshape(second)
    for a, b in ((x, y), (np.asfortranarray(x), y), (x[::-1], y[::-1])):
        wanted, _ = one_by_one(CHAIN, [a, b])
        made = kernel_for(CHAIN).call(a, b)
        assert_same_bits(list(made), wanted)
        assert [m.strides for m in made] == [w.strides for w in wanted]


def test_layouts() -> None:
    for x in layouts(ordinary("float32", 240, 1)).values():
        if x.size and x.ndim:
            made, wanted = kernel_for(CHAIN).call(x, x), one_by_one(CHAIN, [x, x])[0]
            assert_same_bits(list(made), wanted)
            assert [m.strides for m in made] == [w.strides for w in wanted]


@pytest.mark.parametrize("shape", [(1,), (BLOCK,), (BLOCK + 1,), (5, BLOCK), (3, 2 * BLOCK + 1), (70, 3, 500), (2, 2, 3, 9000), (40000, 2)])
def test_parts_cover_everything_once(shape: tuple[int, ...]) -> None:
    seen = np.zeros(shape, np.int8)
    for part in parts(shape, BLOCK):
        assert seen[part].size <= BLOCK
        seen[part] += 1
    assert (seen == 1).all()


def test_events_send_the_call_back() -> None:
    made = kernel_for(FusedGraph((Input("float32"),), (Node("divide", (Const(1.0), 0)),), (1,)))
    x = np.ones(3 * BLOCK, np.float32)
    assert made.entry(x) is not None
    x[-1] = 0
    assert made.entry(x) is None
    with np.errstate(divide="ignore"):
        assert made.entry(x) is not None  # nobody wants to hear of it


def test_outputs_may_overlap_inputs() -> None:
    made = kernel_for(CHAIN)
    memory = ordinary("float32", 3 * BLOCK, 1)
    x, y = memory[: 2 * BLOCK], memory[BLOCK:]
    wanted = one_by_one(CHAIN, [x.copy(), y.copy()])[0]
    assert made((x, y), [x, np.empty(2 * BLOCK, np.float32)]) is not None
    assert_same_bits(x, wanted[0])


def test_what_does_not_fit_is_left_to_python() -> None:
    made = kernel_for(CHAIN)
    x = ordinary("float32", 6, 1)
    for arrays in ((x, x.astype(np.float64)), (x, x[:4]), (x,), (x, 1.0), (x[:0], x[:0]), (np.array(1, np.float32),) * 2):
        assert made.call(*arrays) is None
    with pytest.raises(NotFusable, match="arctan2"):
        kernel_for(FusedGraph((Input("float32"), Input("float32")), (Node("arctan2", (0, 1)),), (2,)))


# -- what chooses it -----------------------------------------------------------------------------


def _line() -> Any:
    return next(f for f in doctor.examine() if f.name == "fused kernels")


def test_the_knob() -> None:
    assert engine() == ("tape", "asked for by BCVM_FUSION_ENGINE")
    assert _line().state == doctor.NOTE
    with config.override(fusion_engine="auto"):
        assert engine() == ("stencils", "")
        assert type(kernel_for(CHAIN)) is FusedKernel
        assert _line().state == doctor.OK
        with config.override(use_llvm=False):
            assert engine()[0] == "tape"
            assert isinstance(kernel_for(CHAIN), TapeKernel)


def test_barred_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def barred(self: Any, descriptor: int, address: int | None, protection: int) -> int:
        raise arena.ArenaError("executable memory is barred (errno 13)")

    monkeypatch.setattr(arena.Arena, "_map", barred)
    monkeypatch.setattr(arena, "_shared", [])
    with config.override(fusion_engine="auto"):
        loops.forget()
        assert engine() == ("tape", "executable memory is barred (errno 13)")
        x = ordinary("float32", BLOCK + 50, 1)
        assert kernel_for(CHAIN).entry(x[:50], x[:50]) is None  # nothing to gain
        assert_same_bits(list(kernel_for(CHAIN).entry(x, x)), one_by_one(CHAIN, [x, x])[0])
        assert "barred" in _line().detail
    loops.forget()


def test_other_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "host", lambda: None)
    with config.override(fusion_engine="auto"):
        loops.forget()
        assert engine()[0] == "tape"
        assert isinstance(kernel_for(CHAIN), TapeKernel)
    loops.forget()


def test_no_compiler_and_nothing_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(library, "compiler_is_there", lambda: False)
    monkeypatch.setattr(loops, "compiler_is_there", lambda: False)
    with config.override(fusion_engine="auto", cache_dir=str(tmp_path)):
        loops.forget()
        assert "llvmlite" in kernel.engine()[1]
        assert isinstance(kernel_for(CHAIN), TapeKernel)
    loops.forget()
