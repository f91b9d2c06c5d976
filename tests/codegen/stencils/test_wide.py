"""Wide loops of LLVM against spliced kernels: the same bits and events for every kind of op, length and alignment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from bcvm_core.codegen import compiler, loader
from bcvm_core.codegen.search import backend, loop
from bcvm_core.codegen.search.process import tried
from bcvm_core.codegen.stencils import kernel as kernels
from bcvm_core.codegen.stencils import target
from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node, NotFusable
from bcvm_core.codegen.store import cpu_level
from bcvm_core.tiers.recompile import differs

F32, F64 = Input("float32"), Input("float64")


def graph(*nodes: Node, inputs: tuple[Input, ...] = (F32, F32), outputs: tuple[int, ...] = ()) -> FusedGraph:
    return FusedGraph(inputs, nodes, outputs or (len(inputs) + len(nodes) - 1,))


def typed(name: str, *nodes: Node, count: int = 2) -> FusedGraph:
    return graph(*nodes, inputs=(Input(name),) * count)


CHAIN = (Node("add", (0, 1)), Node("maximum", (2, Const(0))), Node("multiply", (3, 1)))
GRAPHS = {
    "chain": graph(*CHAIN),
    "gate": graph(
        Node("add", (0, 1)),
        Node("maximum", (2, Const(0))),
        Node("multiply", (3, Const(2))),
        Node("add", (4, Const(1))),
        Node("sigmoid", (5,)),
        Node("tanh", (2,)),
        Node("multiply", (6, 7)),
    ),
    "two outputs": graph(*CHAIN, outputs=(2, 4)),
    "outputs of two sizes": graph(Node("add", (0, 1)), Node("less", (2, Const(0.5))), outputs=(2, 3)),
    "one element": graph(*CHAIN, inputs=(F32, Input("float32", "scalar"))),
    "a column": graph(*CHAIN, inputs=(Input("float32", "column"), F32)),
    "negated": graph(Node("negative", (0,)), Node("add", (2, 1)), Node("negative", (3,)), Node("multiply", (4, 2))),
    "products of NaN": graph(Node("multiply", (0, 1)), Node("add", (2, 0)), Node("multiply", (3, 1)), Node("subtract", (4, 2))),
    "log": graph(Node("log", (0,)), Node("divide", (2, 1))),
    "exp": graph(Node("exp", (0,)), Node("add", (2, 1)), Node("sqrt", (3,))),
    "sin, cos": graph(Node("sin", (0,)), Node("cos", (1,)), Node("add", (2, 3))),
    "erf": graph(Node("erf", (0,)), Node("multiply", (2, 1))),
    "where": graph(Node("less", (0, 1)), Node("where", (2, 0, 1)), Node("add", (3, Const(1.5)))),
    "rounding": graph(Node("floor", (0,)), Node("rint", (1,)), Node("subtract", (2, 3)), Node("sign", (4,))),
    "float64": typed("float64", Node("add", (0, 1)), Node("exp", (2,)), Node("multiply", (3, Const(0.1)))),
    "float64 trunc": typed("float64", Node("trunc", (0,)), Node("tanh", (1,)), Node("divide", (2, 3))),
    "float16": typed("float16", *CHAIN),
    "bfloat16": typed("bfloat16", *CHAIN),
    "int32": typed("int32", Node("multiply", (0, 1)), Node("add", (2, Const(3))), Node("maximum", (3, 0))),
    "int8": typed("int8", Node("subtract", (0, 1)), Node("floor_divide", (2, 1))),
    "int64": typed("int64", Node("remainder", (0, 1)), Node("negative", (2,))),
    "uint16": typed("uint16", Node("left_shift", (0, 1)), Node("bitwise_xor", (2, 0))),
    "bool": typed("bool", Node("logical_and", (0, 1)), Node("logical_not", (2,))),
    "mixed": graph(Node("add", (0, 1)), Node("multiply", (2, 2)), inputs=(F32, F64)),
    "integers and floats": graph(Node("multiply", (0, 1)), Node("add", (2, 0)), inputs=(F64, Input("int32"))),
    "many values": graph(
        *(Node("multiply", (k, 1)) for k in range(10)),
        *(Node("add", (2 + k, 12 + max(0, k - 1) if k else 3)) for k in range(10)),
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_candidates_do_what_the_spliced_kernel_does(name: str) -> None:
    kernel = kernels.FusedKernel(GRAPHS[name])
    (mask,) = kernel.codes
    job = backend.Job(kernel.lowered, mask, len(kernel.inputs), cpu_level())
    made = list(backend.LlvmSearch().candidates(job))
    assert len(made) == (2 if name == "outputs of two sizes" else 3)
    for candidate in made:
        assert tried(candidate.body, job) == ""
        image, functions = loader.assembled(candidate.body)
        code = kernels.Placed(image, functions["start"], kernel.code(mask).context_bytes)
        assert differs(kernel, job, code) == "", candidate.name


def test_names_say_how_wide_they_are() -> None:
    for inputs, expected in (
        ((F32, F32), ["32 lanes", "64 lanes", "32 lanes, streaming"]),
        ((F64, F64), ["16 lanes", "32 lanes", "16 lanes, streaming"]),
    ):
        kernel = kernels.FusedKernel(graph(Node("add", (0, 1)), inputs=inputs))
        job = backend.Job(kernel.lowered, 0, 2, cpu_level())
        assert [c.name for c in backend.LlvmSearch().candidates(job)] == expected


def test_streaming_stores_are_in_the_code() -> None:
    kernel = kernels.FusedKernel(GRAPHS["chain"])
    host = target.host()
    assert host is not None
    plain, streaming = (compiler.assembly(loop.text(host, kernel.lowered, 0, 2, 32, streaming=s)) for s in (False, True))
    assert "vmovntps" in streaming and "sfence" in streaming
    assert "vmovntps" not in plain


def test_results_that_only_raise_events_have_no_wide_loop() -> None:
    kernel = kernels.FusedKernel(graph(Node("divide", (0, 1)), Node("add", (0, 1)), outputs=(3,)))
    host = target.host()
    assert host is not None
    with pytest.raises(NotFusable, match="nobody reads a result of div"):
        loop.text(host, kernel.lowered, 0, 2, 32)


def test_an_object_is_the_same_wherever_it_lies() -> None:
    kernel = kernels.FusedKernel(GRAPHS["gate"])
    host = target.host()
    assert host is not None
    image, functions = loader.assembled(compiler.compile_ir(loop.text(host, kernel.lowered, 0, 2, 32)))
    one, two = (kernels.Placed(image, functions["start"], 256) for _ in range(2))
    assert one.address != two.address and one.size == len(image)
    job = backend.Job(kernel.lowered, 0, 2, cpu_level())
    assert differs(kernel, job, two) == ""


_NARROWER = """
from bcvm_core.codegen import store
store.cpu_level = lambda: "x86-64-v3"
import bcvm_core as bcvm
assert bcvm.ready()
from bcvm_core.codegen.stencils import target
assert target.host().level == "x86-64-v3"
from tests.codegen.stencils import test_wide
for name in ("chain", "two outputs", "negated", "products of NaN", "gate", "float64", "many values", "float16", "int8"):
    test_wide.test_candidates_do_what_the_spliced_kernel_does(name)
print("same")
"""


@pytest.mark.skipif(cpu_level() != "x86-64-v4", reason="this processor runs one level of code only")
def test_registers_of_256_bits_have_the_same_bits(tmp_path: Path) -> None:
    """With 16 registers values go through memory, where LLVM would exchange operands to read one from there."""
    environment = {**os.environ, "BCVM_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _NARROWER], capture_output=True, text=True, timeout=170, env=environment)
    assert done.stdout.strip() == "same", done.stderr
