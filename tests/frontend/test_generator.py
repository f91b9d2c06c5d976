"""The generator: golden listings from source, where variables live, what goes to the host, marks, cells."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core import ops
from bcvm_core.frontend.naming import mangled, private_class
from bcvm_core.isa import verifier
from bcvm_core.isa.encoding import decode, encode
from bcvm_core.isa.program import Program
from bcvm_core.isa.text import assemble, disassemble
from bcvm_core.ops import registry
from bcvm_core.vm import interpreter
from bcvm_core.vm.programs import program_of, program_of_cell

GOLDEN = Path(__file__).resolve().parent.parent / "isa" / "golden"
X = np.arange(6, dtype=np.float32).reshape(2, 3)
WEIGHT = np.ones((3, 2), np.float32)
Spec = bcvm.TensorSpec


def listing(program: Program) -> list[str]:
    """The instructions and header of a listing without places in the source and numbers of signatures."""
    lines = [re.sub(r"\s*;.*", "", line) for line in disassemble(program).splitlines()]
    lines = [re.sub(r"0x[0-9A-F]{4}", "0x....", re.sub(r"^\s*\d+\s", "", line)) for line in lines]
    return [re.sub(r"\s+", " ", line).strip() for line in lines if line.strip() and not line.startswith(".file")]


def opcodes_of(program: Program) -> list[str]:
    return [i.opcode for i in program.instructions]


def sound(program: Program) -> Program:
    """The program, once it passed the verifier and both written forms."""
    known = {row.name for row in registry.rows()}
    verifier.verify(program, op_exists=known.__contains__)
    assert assemble(disassemble(program)) == program
    assert decode(encode(program)) == program
    return program


# -- golden listings ------------------------------------------------------------------------------


def dynamic_forward(x, cond):
    if cond:
        return ops.relu(x) + 1.0
    else:  # noqa: RET505
        return ops.sigmoid(x) * 2.0


def conv_bias(x, w, bias):
    return ops.conv2d(x, w) + bias


def gpu(*dims: object, layout: str = "NCHW") -> Any:
    return Spec("float16", dims, device="cuda:0", layout=layout)


def test_golden_dynamic_forward():
    program = sound(bcvm.lower(dynamic_forward, Spec("float32", ["B", "C", "H", "W"], layout="NCHW"), Spec("bool", ())))
    assert listing(program) == listing(assemble((GOLDEN / "dynamic_forward.bc").read_text()))


def test_golden_conv_bias():
    image, weight = gpu("B", "C_in", "H", "W"), gpu("C_out", "C_in", "K", "K")
    program = sound(bcvm.lower(conv_bias, image, weight, gpu("C_out", layout="contiguous")))
    assert listing(program) == listing(assemble((GOLDEN / "conv_bias.bc").read_text()))
    refused = bcvm.lower(conv_bias, image, weight, gpu("B", "C_out", layout="contiguous"))
    assert re.search(r"FUSE_START +policy_002 .*\[REJECTED\] shape mismatch: \[B,C_out,H,W\] vs \[B,C_out\]", disassemble(refused))


def test_annotations_give_hints():
    def forward(x: bcvm.Tensor["Batch", "*", "Channel"], w: bcvm.Tensor["Channel", 4]):  # noqa: F821, UP037
        return x @ w

    program = sound(bcvm.lower(forward))
    assert [str(i.operands[2]) for i in program.instructions if i.opcode == "LOAD_TENSOR"] == ["[Batch, *, Channel]", "[Channel, 4]"]
    assert program.dims == ("Batch", "Channel")


def test_examples_give_hints_and_signatures():
    program = sound(bcvm.lower(lambda x, n: np.exp(x * n).sum(axis=0), X, 3))
    assert str(program.instructions[0].operands[2]) == "[2, 3]"
    calls = [i for i in program.instructions if i.opcode == "CALL_OP"]
    assert all(i.operands[2] for i in calls if i.operands[1] != "multiply")


# -- registers and variables ----------------------------------------------------------------------


def accumulate(x, n):
    total = x * 0
    for i in range(n):
        total = total + x * i
    return total


def test_variables_live_in_registers():
    program = sound(program_of(accumulate, {"x": X, "n": 3}))
    assert "STORE_VAR" not in opcodes_of(program)
    assert opcodes_of(program).count("LOAD_VAR") + opcodes_of(program).count("LOAD_TENSOR") == 2


def shared_with_host(x, n):
    total = x * 0
    seen = []
    for i in range(n):
        total = total + i
        seen.append(total)
    return total, seen


def test_variables_that_host_code_touches_live_in_the_frame():
    program = sound(program_of(shared_with_host, {"x": X, "n": 3}))
    stored = {i.operands[0] for i in program.instructions if i.opcode == "STORE_VAR"}
    assert stored == {"total", "seen"}
    assert program.hosts[-1].reads == ("seen", "total") and program.hosts[-1].source == "seen.append(total)"


def test_source_places_are_the_users():
    program = program_of(accumulate, {"x": X, "n": 3})
    first = accumulate.__code__.co_firstlineno
    lines = {i.opcode: i.loc.line - first for i in program.instructions if i.loc is not None}
    assert lines["GET_ITER"] == 2 and lines["CALL_OP"] == 3 and lines["RETURN"] == 4


# -- the host -------------------------------------------------------------------------------------


def mostly_python(names, x):
    # a comment before the block
    text = """two
    lines"""
    for name in names:
        if name == "stop":
            print(name)
    return text, x * 2


def test_host_blocks_are_verbatim():
    program = sound(program_of(mostly_python, {"names": [], "x": X}))
    sources = [h.source for h in program.hosts]
    assert 'for name in names:\n    if name == "stop":\n        print(name)' in sources
    assert '"""two\n    lines"""' in disassemble(program) or "two\n    lines" in program.consts


def nested_work(x, y):
    try:
        a = x * 2
        b = a + y
    except ValueError:
        b = np.exp(x) - 1
    return b, [v * 2 + 1 for v in x]


def test_tensor_work_in_host_code_becomes_nested_programs():
    program = sound(program_of(nested_work, {"x": X, "y": X}))
    sites = [s for h in program.hosts for s in h.sites]
    assert [(s.form, s.targets) for s in sites] == [("run", ("a", "b")), ("run", ("b",)), ("tree", ())]
    assert [p.kind for p in program.nested] == ["region"] * 3
    assert all(p.name == f"nested_work.{k}" for k, p in enumerate(program.nested))


def leaves_from_host(x, items):
    for item in items:
        with np.errstate(all="ignore"):
            if item is None:
                continue
            if item == "stop":
                break
            if item == "return":
                return x
        x = x + item
    return x * 2


def test_statements_that_leave_host_code():
    program = sound(program_of(leaves_from_host, {"x": X, "items": []}))
    assert "UNPACK" in opcodes_of(program)
    for items in ([1, None, 2], [1, "stop", 2], [1, "return", 2], []):
        found = interpreter.run(program, (X, items), globals=globals(), trusted=True)
        np.testing.assert_array_equal(found, leaves_from_host(X, items))


def own_frame(x):
    y = x * 2  # noqa: F841
    return sorted(locals())


def yields(x):
    yield x * 2


async def awaits(x):
    return x * 2


async def yields_async(x):
    yield x * 2


@pytest.mark.parametrize(
    ("function", "kind"), [(own_frame, "function"), (yields, "generator"), (awaits, "coroutine"), (yields_async, "async_generator")]
)
def test_bodies_that_need_a_frame_are_one_block(function, kind):
    program = sound(program_of(function, {"x": X}))
    assert program.kind == kind and opcodes_of(program) == ["CALL_HOST", "RETURN"]
    assert "x * 2" in program.hosts[0].source and program.hosts[0].sites


def test_private_names():
    assert private_class("outer.<locals>.B.f") == "B" and private_class("B.f.<locals>.g") == "B"
    assert private_class("f") is None and private_class("f.<locals>.g") is None
    assert mangled("__w", "_B") == "_B__w" and mangled("__w__", "B") == "__w__" and mangled("w", "B") == "w"


# -- marks ----------------------------------------------------------------------------------------


def policies(function: Any, *args: Any) -> list[tuple[int, list[str]]]:
    """(policy, ops) of each marked region."""
    program = sound(bcvm.lower(function, *args))
    found: list[tuple[int, list[str]]] = []
    inside = False
    for i in program.instructions:
        if i.opcode == "FUSE_START":
            found.append((i.operands[0], []))
            inside = True
        elif i.opcode == "FUSE_END":
            inside = False
        elif inside and (i.opcode == "CALL_OP" or i.row.const_op):
            found[-1][1].append(i.operands[1] if i.opcode == "CALL_OP" else str(i.row.const_op))
    return found


def test_policies_of_regions():
    assert policies(lambda x: np.tanh(ops.relu(x) * 2), X) == [(1, ["relu", "multiply", "tanh"])]
    assert policies(lambda x, w, b: ops.relu(x @ w + b), X, WEIGHT, np.ones(2, "f4")) == [(2, ["matmul", "add", "relu"])]
    assert policies(lambda x, y: np.exp(x + y) * y, X, X) == [(3, ["add", "exp", "multiply"])]
    assert policies(lambda x: ops.softmax(x) * 2, X) == [(4, ["softmax", "multiply"])]
    assert policies(lambda x: x - x.max(), X)[0][0] in (3, 4)
    assert policies(lambda x: x + 1, X) == []
    assert policies(lambda n: (n + 1) * 2, 3) == []


def two_layers(x, w, v):
    h = np.tanh(x @ w + 1)
    return np.tanh(h @ v + 1)


def reads_a_global(x):
    return (x + 1) * GLOBAL + 2


GLOBAL = np.float32(2)


def test_a_product_begins_a_new_region_and_loads_move_out():
    assert [p for p, _ in policies(two_layers, X, WEIGHT, WEIGHT.T)] == [2, 2]
    assert policies(reads_a_global, X) == [(3, ["add", "multiply", "add"])]


def test_writes_end_a_region():
    def work(x, y):
        z = x * 2 + 1
        x += z
        return x * z + 1

    assert [names for _, names in policies(work, X, X)] == [["multiply", "add"], ["multiply", "add"]]


# -- cells ----------------------------------------------------------------------------------------


def run_cell(text: str, space: dict[str, Any]) -> Any:
    program = sound(program_of_cell(text, space))
    assert program.kind == "cell"
    return interpreter.run(program, globals=space, trusted=True)


def test_cells_store_every_name_and_give_their_last_value():
    space: dict[str, Any] = {"np": np, "x": X}
    value = run_cell("y = x * 2\nz = np.exp(y) - y\nfor i in range(3):\n    y = y + i\ny.sum()", space)
    np.testing.assert_array_equal(space["y"], X * 2 + 3)
    assert float(value) == float((X * 2 + 3).sum()) and space["i"] == 2 and "z" in space
    assert run_cell("a = 1", space) is None and space["a"] == 1


def test_cells_define_functions_and_keep_what_ran_before_an_error():
    space: dict[str, Any] = {"np": np, "x": X}
    run_cell("def f(v):\n    return v * 2\nw: int = 3\nimport math\ndel x\nq = f(w)", space)
    assert space["q"] == 6 and "x" not in space and "math" in space and space["__annotations__"] == {"w": int}
    with pytest.raises(NameError, match="name 'missing' is not defined"):
        run_cell("a = w * 2\nb = missing + 1\nc = 3", space)
    assert space["a"] == 6 and "c" not in space


def test_cells_with_loops_that_leave_host_code():
    space: dict[str, Any] = {"np": np, "x": X, "log": []}
    loop = "for i in range(5):\n    try:\n        x = x * i\n        if i == 2: break\n    finally:\n        log.append(i)\n"
    run_cell(loop + "else:\n    log.append('e')", space)
    assert space["log"] == [0, 1, 2]


def test_cells_that_await():
    space: dict[str, Any] = {"np": np, "x": X}
    program = sound(program_of_cell("import asyncio\nawait asyncio.sleep(0)\ny = x * 2", space))
    assert program.kind == "coroutine"
    asyncio.run(interpreter.run(program, globals=space, trusted=True))
    np.testing.assert_array_equal(space["y"], X * 2)
