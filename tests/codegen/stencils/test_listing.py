"""Spliced code taken apart again: every byte once, every stencil with its node, every hole with what stands in it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from bcvm_core.codegen.stencils import listing
from bcvm_core.codegen.stencils import offsets as c
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
from bcvm_core.codegen.stencils.kernel import kernel_for
from bcvm_core.codegen.stencils.lower import lower, makers
from tests.codegen.stencils.data import REAL
from tests.codegen.stencils.test_kernels import CHAIN, chain

MANY = FusedGraph(  # more values at once than there are slots
    tuple(Input("float32") for _ in range(7)),
    tuple(Node("multiply", (k, Const(float(k + 2)))) for k in range(7))
    + tuple(Node("add", (7 + k, 14 + k - 1 if k else 8)) for k in range(7)),
    (20, 7, 9),
)


@pytest.mark.parametrize(
    "graph", [CHAIN, MANY, chain("float64"), chain("float16"), chain("int8")], ids=["chain", "many", "f64", "f16", "i8"]
)
def test_the_pieces_are_the_code(graph: FusedGraph) -> None:
    kernel = kernel_for(graph)
    code = kernel.codes[0]
    found = listing.pieces(kernel, 0)
    assert b"".join(p.code for p in found) == ctypes.string_at(code.address, code.size)
    at = 0
    for piece in found:
        assert piece.at == at
        at += len(piece.code)
        plain, holes = kernel._splicer.blob.stencils[piece.stencil]
        filled = {offset + k for offset, _, _ in holes for k in range(4)}
        assert all(a == b for k, (a, b) in enumerate(zip(plain, piece.code, strict=True)) if k not in filled)


@pytest.mark.parametrize("dtype", REAL)
def test_every_node_has_stencils_in_loop_and_tail(dtype: str) -> None:
    kernel = kernel_for(chain(dtype))
    found = listing.pieces(kernel, 0)
    for part in ("loop", "tail"):
        assert {p.node for p in found if p.part == part} == {0, 1, 2}
    assert {p.node for p in found if p.part == "frame"} == {listing.FRAME}
    assert [p.stencil for p in found if p.part == "frame"] == ["start", "loop_begin", "loop_end", "tail_begin", "finish"]


def test_holes_hold_what_they_are_said_to_hold() -> None:
    kernel = kernel_for(CHAIN)
    found = listing.pieces(kernel, 0)
    holes = [(p, hole) for p in found for hole in p.holes]
    inputs = [(hole.value, hole.input) for _, hole in holes if hole.input is not None]
    assert {k for _, k in inputs} == {0, 1} and all(value == c.POINTERS + 8 * k for value, k in inputs)
    twos = [(p, hole) for p, hole in holes if "2 (f32, 0x40000000)" in hole.meaning]
    assert {p.node for p, _ in twos} == {2} and {p.part for p, _ in twos} == {"loop", "tail"}
    assert all(kernel.lowered.constants[hole.value // 8] == 0x40000000 for _, hole in twos)
    ends = [(p, hole) for p, hole in holes if hole.meaning.startswith("the loop, +0x")]
    begin = next(p.at for p in found if p.part == "loop")
    assert [(p.stencil, p.at + hole.offset + 4 + hole.value) for p, hole in ends] == [("loop_end", begin)]


def test_values_that_do_not_fit_are_kept_and_brought_back() -> None:
    words = [p.what for p in listing.pieces(kernel_for(MANY), 0)]
    assert any(w.startswith("keep slot") for w in words) and any(w.startswith("bring slot") for w in words)


def test_an_equal_value_belongs_to_the_node_that_was_first() -> None:
    graph = FusedGraph((Input("float32"),), (Node("exp", (0,)), Node("exp", (0,)), Node("add", (1, 2))), (3,))
    owners = makers(graph)
    assert len(owners) == len(lower(graph).values) and set(owners) == {-1, 0, 2}


def test_code_for_repeated_inputs_is_listed_by_its_own_stencils() -> None:
    kernel = kernel_for(CHAIN)
    kernel(((np.ones((4, 8), np.float32)), np.ones((4, 1), np.float32)))
    repeated = next(mask for mask in kernel.codes if mask)
    assert any(p.stencil.startswith("lds.f32") for p in listing.pieces(kernel, repeated))
    assert not any(p.stencil.startswith("lds.f32") for p in listing.pieces(kernel, 0))
