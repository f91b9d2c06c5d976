"""Random graphs: fused code gives the bits of its ops run one by one, however many values are alive."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcvm_core.codegen.stencils import offsets as c
from bcvm_core.codegen.stencils import target, trace
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node, NotFusable
from bcvm_core.codegen.stencils.kernel import FusedKernel, kernel_for
from bcvm_core.codegen.stencils.loops import constant_bits
from bcvm_core.codegen.stencils.lower import Constant, Loaded, Lowered, lower
from tests.codegen.stencils import slots
from tests.codegen.stencils.data import agrees, numbers, one_by_one, same

EXAMPLES = int(os.environ.get("BCVM_TEST_GRAPHS", "120"))
UNARY = ("negative", "absolute", "relu", "square", "sqrt", "exp", "tanh", "sigmoid", "sign", "isnan", "logical_not", "floor", "log1p")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "less", "equal", "greater_equal", "logical_and", "copysign")
INTEGER = ("bitwise_and", "bitwise_xor", "left_shift", "right_shift", "floor_divide", "remainder")
TYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "int16", "bool")
NUMBERS = (2, 0.5, -1.0, 0, 3.25, 1)


@st.composite
def graphs(draw: Any) -> FusedGraph:
    inputs = tuple(Input(draw(st.sampled_from(TYPES))) for _ in range(draw(st.integers(1, 4))))
    count = len(inputs)
    nodes: list[Node] = []
    for _ in range(draw(st.integers(1, 14))):
        values = st.integers(0, count + len(nodes) - 1)
        kind = draw(st.integers(0, 9))
        if kind < 4:
            node = Node(draw(st.sampled_from(UNARY)), (draw(values),))
        elif kind < 7:
            node = Node(draw(st.sampled_from(BINARY)), (draw(values), draw(values)))
        elif kind == 7:
            node = Node(draw(st.sampled_from(BINARY[:6])), (draw(values), Const(draw(st.sampled_from(NUMBERS)))))
        elif kind == 8:
            node = Node(draw(st.sampled_from(INTEGER)), (draw(values), draw(values)))
        else:
            node = Node("where", (draw(values), draw(values), draw(values)))
        nodes.append(node)
        if refused(FusedGraph(inputs, tuple(nodes), (count + len(nodes) - 1,))):
            nodes.pop()
    if not nodes:
        nodes.append(Node("positive" if inputs[0].dtype != "bool" else "logical_not", (0,)))
    last = count + len(nodes) - 1
    outputs = draw(st.lists(st.integers(0, last), max_size=3)) + [last]
    return FusedGraph(inputs, tuple(nodes), tuple(dict.fromkeys(outputs)))


def refused(graph: FusedGraph) -> bool:
    try:
        lower(graph)
    except NotFusable:
        return True
    return False


def compare(kernel: FusedKernel, arrays: list[Any]) -> None:
    """Where no event is reported every bit agrees; where one happened, one is reported."""
    slots.assert_as_described(kernel)
    expected, kinds = one_by_one(kernel.graph, arrays)
    done = kernel.outcome(arrays)
    assert done is not None
    made, word, status = done
    if kinds - {"underflow"}:
        assert word or status & c.HARD, kinds
    if not word and not status & c.HARD:
        assert agrees(kernel.graph, arrays, made, expected)
    else:  # element by element, so that one event does not hide the others
        for at in range(0, arrays[0].size, 7):
            compare_one(kernel, [x[at : at + 1] for x in arrays])


def compare_one(kernel: FusedKernel, arrays: list[Any]) -> None:
    done = kernel.outcome(arrays)
    assert done is not None
    if not done[1] and not done[2] & c.HARD:
        assert agrees(kernel.graph, arrays, done[0], one_by_one(kernel.graph, arrays)[0])


@settings(max_examples=EXAMPLES)
@given(graphs(), st.integers(0, 1000), st.integers(1, 90))
def test_random_graphs(graph: FusedGraph, seed: int, length: int) -> None:
    kernel = kernel_for(graph)
    compare(kernel, [numbers(x.dtype, length, seed + k) for k, x in enumerate(graph.inputs)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "float16"])
@pytest.mark.parametrize("width", [5, 9, 40])
def test_many_values_alive(width: int, dtype: str) -> None:
    """More values than slots: `width` sums that are all wanted again in the opposite order."""
    nodes = [Node("add", (0, Const(k % 7))) for k in range(width)]
    value = width  # the last sum
    for k in range(width - 1, 0, -1):
        nodes.append(Node("subtract" if k % 2 else "maximum", (value, k)))
        value = len(nodes)
    nodes.append(Node("multiply", (value, 0)))
    graph = FusedGraph((Input(dtype),), tuple(nodes), (len(nodes), width // 2, 1))
    kernel = kernel_for(graph)
    compare(
        kernel,
        [numbers(dtype, 77, 3) % numbers(dtype, 77, 4).dtype.type(50)] if dtype == "int16" else [np.linspace(-3, 3, 77).astype(dtype)],
    )
    host = target.host()
    assert host is not None
    body = slots.allocate(kernel.lowered, (False,), host.slots, host.slot_bytes)
    spilled = sum(name.startswith("spill") for name, _, _ in body.stencils)
    assert (spilled > 0) == (width > host.slots), spilled


def test_many_inputs_and_fixed_registers() -> None:
    """Primitives that want the first slots, while everything else is in use too."""
    inputs = tuple(Input("float32") for _ in range(12))
    nodes: list[Node] = []
    value = 0
    for k in range(1, 12):
        nodes += [Node("less", (value, k)), Node("where", (11 + len(nodes) + 1, k, value)), Node("tanh", (11 + len(nodes) + 2,))]
        value = 11 + len(nodes)
        nodes.append(Node("add", (value, (k + 5) % 12)))
        value = 11 + len(nodes)
    graph = FusedGraph(inputs, tuple(nodes), (value, 14, 20))
    compare(kernel_for(graph), [numbers("float32", 70, k) for k in range(12)])


def test_one_operand_twice() -> None:
    for op in ("add", "subtract", "multiply", "maximum", "less", "copysign", "logical_and"):
        for dtype in ("float32", "int8", "float64"):
            graph = FusedGraph((Input(dtype),), (Node(op, (0, 0)), Node("where", (1, 1, 1))), (2, 1))
            if not refused(graph):
                compare(kernel_for(graph), [numbers(dtype, 50, 1)])


@pytest.mark.parametrize("dtype", ["bool", "float32", "int64"])
def test_one_operand_thrice_beside_others(dtype: str) -> None:
    """The copies of it are in use while others are moved out of their way."""
    for others in range(5):
        inputs = (*(Input(dtype),) * others, Input(dtype))
        graph = FusedGraph(inputs, (Node("where", (others,) * 3),), (*range(others), others + 1))
        kernel, arrays = kernel_for(graph), [numbers(dtype, 80, k) for k in range(others + 1)]
        done = kernel.outcome(arrays)
        assert done is not None
        for actual, wanted in zip(done[0], one_by_one(graph, arrays)[0], strict=True):
            assert same(actual, wanted).all()


def test_equal_steps_are_computed_once_and_dead_ones_not_at_all() -> None:
    graph = FusedGraph(
        (Input("float32"),),
        (Node("tanh", (0,)), Node("tanh", (0,)), Node("negative", (0,)), Node("add", (1, 2))),
        (4,),
    )
    values = lower(graph).values
    assert len(values) == 3  # the input, one tanh, the sum
    assert lower(graph).stores[0][0] == 2


def test_dead_ops_are_kept_for_their_events() -> None:
    graph = FusedGraph((Input("float32"),), (Node("sqrt", (0,)), Node("negative", (0,))), (2,))
    kernel = kernel_for(graph)
    assert kernel.entry(np.ones(9, np.float32)) is not None
    assert kernel.entry(-np.ones(9, np.float32)) is None


def test_outputs_that_are_inputs_or_equal() -> None:
    graph = FusedGraph((Input("float32"), Input("float32")), (Node("add", (0, 1)),), (1, 2, 2, 0))
    compare(kernel_for(graph), [numbers("float32", 40, 1), numbers("float32", 40, 2)])


def test_constants_do_not_make_new_code() -> None:
    """Constants are data: the same code serves both (its bytes are equal)."""
    bodies = []
    for constant in (1.5, -7.25):
        graph = FusedGraph((Input("float32"),), (Node("multiply", (0, Const(constant))), Node("add", (1, Const(constant + 1)))), (2,))
        host = target.host()
        assert host is not None
        bodies.append(slots.allocate(lower(graph), (False,), host.slots, host.slot_bytes))
    assert bodies[0] == bodies[1]


def test_an_input_is_never_taken_for_a_constant() -> None:
    """Both are "number 0 of type i32" somewhere."""
    for dtype in ("int32", "int64", "int8"):
        taken = FusedGraph((Input(dtype),), (Node("where", (0, Const(3), 0)), Node("where", (0, 0, Const(3)))), (1, 2))
        compare(kernel_for(taken), [numbers(dtype, 60, 2)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "bool", "float16"])
def test_whole_numbers_as_constants(dtype: str) -> None:
    """The short ways give the bits that NumPy's conversion gives, and refuse what it does not take."""
    t = np.dtype(dtype)
    for power in (0, 1, 7, 8, 15, 16, 24, 25, 31, 32, 53, 54, 63, 64):
        for value in (2**power - 1, 2**power, 2**power + 1, -(2**power) + 1, -(2**power), -(2**power) - 1):
            with np.errstate(all="ignore"):
                fits = dtype == "float16" or t.kind in "fb" or np.iinfo(t).min <= value <= np.iinfo(t).max
                wanted = np.asarray(value).astype(t) if -(2**63) <= value < 2**64 else None
            if not fits or wanted is None or (t.kind == "f" and not np.isfinite(wanted)):
                if t.kind in "iu":
                    with pytest.raises(NotFusable):
                        constant_bits(value, dtype)
                continue
            if dtype == "float16":
                wanted = wanted.astype(np.float32)
            assert constant_bits(value, dtype) == int.from_bytes(wanted.tobytes(), "little"), value


def test_an_operand_twice_while_all_slots_are_taken() -> None:
    """The second copy of an operand belongs to no value; nothing may be moved over it."""
    rng = np.random.default_rng(0)
    pairs = ("bitwise_xor", "logical_and", "bitwise_or")
    arrays = [rng.random(100) < 0.5 for _ in range(3)]
    for _ in range(300):
        nodes: list[Node] = []
        for k in range(3, 3 + int(rng.integers(4, 12))):
            a, b = (int(rng.integers(0, k)) for _ in range(2))
            choice = int(rng.integers(0, 6))
            nodes.append(Node(pairs[choice], (a, b)) if choice < 3 else Node("where", ((a, a, b), (a, b, a), (a, b, b))[choice - 3]))
        compare(kernel_for(FusedGraph((Input("bool"),) * 3, tuple(nodes), tuple(range(len(nodes), len(nodes) + 3)))), arrays)


def test_graphs_that_differ_in_constants_share_code() -> None:
    def made(constant: float) -> FusedKernel:
        return kernel_for(FusedGraph((Input("float32"),), (Node("multiply", (0, Const(constant))), Node("exp", (1,))), (2,)))

    first, second = made(0.5), made(-0.25)
    assert first.code(0) is second.code(0)
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    for kernel in (first, second):
        compare(kernel, [x])
    del first
    compare(second, [x])


def test_graphs_with_inputs_that_nobody_reads_have_code_of_their_own() -> None:
    """The same steps on the first input, but the pointers of the outputs lie elsewhere."""
    kernels = [kernel_for(FusedGraph((Input("float32"),) * count, (Node("exp", (0,)),), (count,))) for count in (2, 1, 3)]
    arrays = [np.linspace(-3, 3, 50, dtype=np.float32) + k for k in range(3)]
    kept = [x.copy() for x in arrays]
    for kernel in kernels:
        compare(kernel, arrays[: len(kernel.inputs)])
    assert [x.tobytes() for x in arrays] == [x.tobytes() for x in kept]
    assert len({kernel.code(0).address for kernel in kernels}) == 3


def test_a_lowered_input_is_no_constant() -> None:
    """Both are "number 1 of type i32" somewhere."""
    lowered = Lowered((Loaded(0, "i32"), Loaded(1, "i32")), (), (), 4, ())
    assert lowered != Lowered((Loaded(0, "i32"), Constant(1, "i32")), (), (), 4, ())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("first", [1, -1])
def test_a_number_is_promoted_by_its_own_size(dtype: str, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """127, 128 and 255 are of one smallest type, but int8 takes only the first: what was met earlier decides nothing."""
    monkeypatch.setattr(trace, "_expansions", {})
    edges = [2**power + step for power in (0, 7, 8, 15, 16, 31, 32, 63) for step in (-1, 0, 1) if 2**power + step < 2**64]
    x = np.arange(9).astype(dtype)
    for value in sorted({v for edge in edges for v in (edge, -edge) if v >= -(2**63)})[::first]:
        graph = FusedGraph((Input(dtype),), (Node("multiply", (0, Const(value))), Node("negative", (1,))), (2,))
        try:
            expected = np.negative(np.multiply(x, value))
            kernel = kernel_for(graph)
        except (NotFusable, TypeError, OverflowError):
            continue
        made = kernel([x])
        assert (made.dtype, made.tobytes()) == (expected.dtype, expected.tobytes()), value
