"""The interpreter by itself: every opcode, limits, trust, hints, warnings, tracebacks, stepping, damaged programs."""

from __future__ import annotations

import contextlib
import os
import traceback
import warnings
from typing import Any

import numpy as np
import pytest

from bcvm_core.errors import BcvmError, HintError, LimitError, TrustError, VerifyError
from bcvm_core.isa import opcodes, verifier
from bcvm_core.isa.program import Program
from bcvm_core.isa.text import assemble
from bcvm_core.ops import registry
from bcvm_core.vm import interpreter
from bcvm_core.vm.interpreter import Limits, Stepper, run
from bcvm_core.vm.programs import program_of
from bcvm_core.vm.stats import Stats
from tests.isa.strategies import Op, mutants

MUTATIONS = int(os.environ.get("BCVM_MUTATIONS", "1500"))
X = np.arange(6, dtype=np.float32).reshape(2, 3)

EVERYTHING = """
.program everything(x, n)
.locals seen, total
.dims B, C
.const k0 = 1
.const k1 = "last"
.host h0 expr reads(n) writes() line 1:
    range(n)
.host h1 reads(x, seen) writes(total) line 2:
    total = x.shape
    seen.append(total)
.code
NOP
LOAD_TENSOR r0, x, [B, C]
LOAD_VAR r1, n
BUILD_LIST r2
STORE_VAR seen, r2
LOAD_CONST r3, k0
LOAD_ATTR r4, r0, ndim
CALL_OP r5, add, 0x0000, r0, k0
FUSE_START policy_003
ADD_CONST r5, r5, 1
SUB_CONST r5, r5, 1
RSUB_CONST r5, r5, 1
MUL_CONST r5, r5, 2
DIV_CONST r5, r5, 2
RDIV_CONST r5, r5, 2
POW_CONST r5, r5, 2
RPOW_CONST r5, r5, 2
FLOORDIV_CONST r5, r5, 2
MOD_CONST r5, r5, 7
MAX_CONST r5, r5, 1
MIN_CONST r5, r5, 5
FUSE_END
FUSE_ACROSS_DEVICE policy_003, cpu:0
MOVE r6, r5
FUSE_END
TO_DEVICE r6, r6, cpu:0
CALL_HOST r7, h0
GET_ITER r8, r7
label L1:
LOOP_START r9, r8, L2
CALL_HOST _, h1
LOOP_END L1
label L2:
LOOP_START _, _, L4
COND_JUMP r3, L3
LOOP_END L2
label L3:
JUMP L4
label L4:
LOAD_VAR r10, seen
BUILD_TUPLE r11, r10, r4
UNPACK (r12, r13), r11
CHECK r13, r4
BUILD_DICT r14, k1, r12, k0, r13
BUILD_TUPLE r15, r6, r14
RETURN r15
"""


def reference(x: Any, n: int) -> Any:
    y = (1 - ((x + 1) + 1 - 1)) * 2 / 2
    with np.errstate(all="ignore"):
        y = 2 ** ((2 / y) ** 2) // 2 % 7
    return np.minimum(np.maximum(y, 1), 5), {"last": [x.shape] * n, 1: 2}


def test_every_opcode_has_a_handler_and_runs():
    assert set(interpreter.HANDLERS) == {row.name for row in opcodes.TABLE}
    program = assemble(EVERYTHING)
    verifier.verify(program, op_exists=lambda op: any(r.name == op for r in registry.rows()))
    executed: set[str] = set()
    hook = lambda frame: executed.add(frame.program.instructions[frame.pc].opcode)  # noqa: E731
    with np.errstate(all="ignore"):
        value, rest = run(program, (X, 2), globals={}, trusted=True, on_step=hook)
    assert executed == set(interpreter.HANDLERS)
    expected = reference(X, 2)
    np.testing.assert_array_equal(value, expected[0])
    assert rest == expected[1]


def test_arguments_by_name_and_in_order():
    program = assemble(".program f(a, b)\nLOAD_VAR r0, a\nLOAD_VAR r1, b\nCALL_OP r2, subtract, 0x0000, r0, r1\nRETURN r2")
    assert run(program, (5, 3)) == run(program, {"b": 3, "a": 5}) == 2
    for wrong in ((1,), (1, 2, 3), {"a": 1}, {"a": 1, "b": 2, "c": 3}):
        with pytest.raises(TypeError, match=r"f\(a, b\)"):
            run(program, wrong)


# -- trust and limits -----------------------------------------------------------------------------


def test_host_code_needs_trust_before_anything_runs():
    steps: list[int] = []
    for text in (EVERYTHING, ".program f()\n.host h0 expr reads() writes() line 1:\n    1\n.code\nNOP\nCALL_HOST r0, h0\nRETURN r0"):
        program = assemble(text)
        with pytest.raises(TrustError, match="trusted=True") as caught:
            run(program, (X, 1)[: len(program.params)], globals={}, on_step=lambda frame: steps.append(frame.pc))
        assert caught.value.where.pc is not None
    assert not steps


class Plain:
    def __init__(self, gone):
        self.gone = gone


def test_attributes_that_run_code_need_trust():
    class Tricky:
        ran = False

        @property
        def gone(self):
            Tricky.ran = True
            return 1

    program = assemble(".program f(x)\nLOAD_VAR r0, x\nLOAD_ATTR r1, r0, gone\nRETURN r1")
    with pytest.raises(TrustError, match="gone"):
        run(program, (Tricky(),))
    assert not Tricky.ran
    assert run(program, (Tricky(),), trusted=True) == 1
    assert run(program, (Plain(3),)) == 3


ENDLESS = ".program f()\nlabel L0:\nLOOP_START _, _, L1\nLOOP_END L0\nlabel L1:\nRETURN"


def test_step_limit():
    with pytest.raises(LimitError, match="more than 100 steps") as caught:
        run(assemble(ENDLESS), limits=Limits(max_steps=100))
    assert caught.value.where.pc in (0, 1)


@pytest.mark.parametrize(
    "code",
    [
        ".const k0 = (100000, 100000)\nCALL_OP r0, zeros, 0x0000, k0\nRETURN r0",
        ".const k0 = 10000000000\nCALL_OP r0, arange, 0x0000, k0\nRETURN r0",
        ".const k0 = 10\n.const k1 = 100000000000\nCALL_OP r0, power, 0x0000, k0, k1\nRETURN r0",
        ".const k0 = 10\n.const k1 = 100000000000\nCALL_OP r0, pow, 0x0000, k0, k1\nRETURN r0",
        ".const k0 = 1\n.const k1 = 100000000000\nCALL_OP r0, left_shift, 0x0000, k0, k1\nRETURN r0",
        '.const k0 = "abc"\n.const k1 = 100000000000\nCALL_OP r0, multiply, 0x0000, k0, k1\nRETURN r0',
        ".const k0 = 2\nLOAD_CONST r0, k0\nlabel L0:\nLOOP_START _, _, L1\nCALL_OP r0, multiply, 0x0000, r0, r0\nLOOP_END L0\n"
        "label L1:\nRETURN",
        ".const k0 = (3000, 1)\n.const k1 = (1, 3000)\nCALL_OP r0, ones, 0x0000, k0\nCALL_OP r1, ones, 0x0000, k1\n"
        "CALL_OP r2, add, 0x0000, r0, r1\nRETURN r2",
        ".const k0 = (3000, 1)\n.const k1 = (1, 3000)\nCALL_OP r0, ones, 0x0000, k0\nCALL_OP r1, ones, 0x0000, k1\n"
        "CALL_OP r2, matmul, 0x0000, r0, r1\nRETURN r2",
    ],
)
def test_memory_limit_is_checked_before_the_op(code):
    with pytest.raises(LimitError, match="max_bytes"):
        run(assemble(f".program f()\n{code}"), limits=Limits(max_steps=10_000, max_bytes=1_000_000))


def test_containers_that_stand_for_too_much():
    doubled = "LOAD_CONST r0, k0\nlabel L0:\nLOOP_START _, _, L1\nBUILD_TUPLE r0, r0, r0\nLOOP_END L0\nlabel L1:\nRETURN"
    itself = "BUILD_LIST r0, k0\nCALL_OP r1, setitem, 0x0000, r0, k0, r0\nRETURN r0"
    for code, match in ((doubled, "reaches more than"), (itself, "hold itself")):
        with pytest.raises(LimitError, match=match):
            run(assemble(f".program f()\n.const k0 = 0\n{code}"), limits=Limits(max_steps=10_000, max_bytes=1_000_000))


def test_memory_held_by_registers():
    many = "".join(f"CALL_OP r{i}, zeros, 0x0000, k0\n" for i in range(5))
    with pytest.raises(LimitError, match="registers hold"):
        run(assemble(f".program f()\n.const k0 = (300, 100)\n{many}RETURN r0"), limits=Limits(max_bytes=1_000_000))


def test_limits_do_not_disturb_what_fits():
    program = program_of(small_work, {"x": X})
    assert float(run(program, (X,), globals=globals(), trusted=True, limits=Limits(1000, 100_000))) == float(small_work(X))


def small_work(x):
    y = x.reshape(3, 2)
    for i in range(3):
        y = y @ np.ones((2, 2), np.float32) * i
    return y.sum()


# -- hints ----------------------------------------------------------------------------------------


def test_hints_bind_dims_across_parameters():
    loads = "LOAD_TENSOR r0, x, [B, C]\nLOAD_TENSOR r1, w, [C, *]"
    program = assemble(f".program f(x, w)\n.dims B, C\n{loads}\nCALL_OP r2, matmul, 0x0000, r0, r1\nRETURN r2")
    np.testing.assert_array_equal(run(program, (X, X.T)), X @ X.T)
    with pytest.raises(HintError, match=r"f: w does not fit \[C, \*\]: dim 0 is 2 but C = 3"):
        run(program, (X, X))
    with pytest.raises(HintError, match="x does not fit .* rank 1"):
        run(program, (X[0], X))
    with pytest.raises(HintError, match="it is a list"):
        run(program, ([1], X))


def test_scalars_fit_empty_and_any_hints():
    program = assemble(".program f(x, y)\nLOAD_TENSOR r0, x, []\nLOAD_TENSOR r1, y, [...]\nBUILD_TUPLE r2, r0, r1\nRETURN r2")
    assert run(program, (True, "anything")) == (True, "anything")
    assert run(program, (np.float32(1), [1])) == (1, [1])


# -- warnings and tracebacks ----------------------------------------------------------------------


def overflows(x):
    y = x * 2
    z = np.multiply(y, 3e38)
    return z / 0


def test_floating_point_warnings_are_the_users():
    program = program_of(overflows, {"x": X})
    first = overflows.__code__.co_firstlineno
    space: dict[str, Any] = {"np": np, "__name__": __name__}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(program, (X,), globals=space, trusted=True)
        mine = [(str(w.message), w.filename, w.lineno) for w in seen]
        seen.clear()
        overflows(X)
        plain = [(str(w.message), w.filename, w.lineno) for w in seen]
    assert mine == plain
    assert [line for _, _, line in mine] == [first + 2] + [first + 3] * (len(mine) - 1)


@pytest.mark.parametrize("mode", ["raise", "call", "log"])
def test_other_error_modes(mode):
    program = program_of(overflows, {"x": X})
    calls: list[Any] = []

    class Log:
        def __call__(self, *args: Any) -> None:
            calls.append(args)

        def write(self, text: str) -> None:
            calls.append(text)

    def outcome(function: Any) -> Any:
        calls.clear()
        with np.errstate(all=mode, call=Log()):
            try:
                function()
            except FloatingPointError as error:
                return str(error), list(calls)
        return None, list(calls)

    assert outcome(lambda: run(program, (X,), globals=globals(), trusted=True)) == outcome(lambda: overflows(X))


def fails(x, y):
    a = x * 2
    b = a + 1
    c = (b * 2 - a) + (
        y  # noqa: E702
        * 3
    )
    return c, b


def fails_in_host(x):
    try:
        y = x + 1
    finally:
        y = undefined_function(y)  # noqa: F821
    return y


def fails_on_a_name(x):
    a = x + 1
    return a + undefined_name  # noqa: F821


@pytest.mark.parametrize(("function", "args"), [(fails, (X, np.ones((5, 5)))), (fails_in_host, (X,)), (fails_on_a_name, (X,))])
def test_tracebacks_show_the_users_lines_only(function, args):
    def entries(call: Any) -> tuple[list[tuple[str, int | None, str]], str]:
        try:
            call()
        except Exception as error:
            found = [(e.name, e.lineno, e.filename) for e in traceback.extract_tb(error.__traceback__) if e.name == function.__name__]
            others = [e.filename for e in traceback.extract_tb(error.__traceback__)[2:]]
            assert not any("bcvm_core/vm" in name for name in others[1:]), others
            return found, str(error)
        raise AssertionError("no error")

    program = program_of(function)
    assert entries(lambda: run(program, args, globals=globals(), trusted=True)) == entries(lambda: function(*args))


# -- stepping and counting ------------------------------------------------------------------------


def test_stepping_shows_the_state():
    program = program_of(small_work, {"x": X})
    stepper = Stepper(program, (X,), globals=globals(), trusted=True)
    assert stepper.pc == 0 and not stepper.done and stepper.instruction is program.instructions[0]
    places = list(stepper)
    assert places[0] == 0 and len(places) > len(program.instructions)
    assert stepper.done and stepper.instruction is None and not stepper.step()
    assert float(stepper.result) == float(small_work(X))
    assert set(stepper.variables()) >= {"x"}


def test_a_stepper_is_done_once_it_raised():
    stepper = Stepper(program_of(fails), (X, np.ones((5, 5))), globals=globals(), trusted=True)
    with pytest.raises(ValueError, match="broadcast"):
        for _ in stepper:
            pass
    assert stepper.done and not stepper.step()


def test_executions_are_counted():
    stats = Stats()
    run(program_of(small_work, {"x": X}), (X,), globals=globals(), trusted=True, stats=stats)
    assert stats.ops["matmul"].call_op == 3
    assert stats.ops["sum"].call_op == 1 and stats.call_host == 0


# -- damaged programs -----------------------------------------------------------------------------


def known_ops() -> tuple[Op, ...]:
    if not registry.rows():
        registry.load_families()
    return tuple(Op(r.name, len(r.operands) or 1, tuple(p.name for p in r.params if p.role == "attr")[:2]) for r in registry.rows())


def arguments_for(program: Program, seed: int) -> dict[str, Any]:
    choices = (X, np.float32(2), 3, X.T, [1, 2], X > 2, X.astype(np.int32), "text", None, 0.5)
    return {name: choices[(seed + i) % len(choices)] for i, name in enumerate(program.params)}


ALLOWED = (ArithmeticError, BcvmError, TypeError, ValueError, LookupError, AttributeError, NameError, RecursionError, NotImplementedError)


def test_damaged_programs_are_refused_or_run_under_limits():
    ran = 0
    ops = known_ops()
    names = {op.name for op in ops}
    for number, mutant in enumerate(mutants(seed=23, count=MUTATIONS, ops=ops, hosts=False)):
        if mutant.error is not None:
            continue
        program = mutant.program
        try:
            verifier.verify(program, op_exists=names.__contains__, signatures=program.notes["signatures"])
        except VerifyError as error:
            assert error.where is not None and error.where.pc is not None
            continue
        ran += 1
        with warnings.catch_warnings(), contextlib.suppress(*ALLOWED):
            warnings.simplefilter("ignore")
            run(program, arguments_for(program, number), globals={}, limits=Limits(max_steps=500, max_bytes=1_000_000))
    assert ran > MUTATIONS // 20


@pytest.mark.parametrize(("value", "held"), [(2, True), (3, False), (2.0, False), (True, False)])
def test_check_holds_a_program_to_its_path(value: Any, held: bool) -> None:
    program = assemble(".program f(n)\n.kind region\n.const k0 = 2\nLOAD_VAR r0, n\nCHECK r0, k0\nRETURN r0")
    if held:
        assert run(program, (value,)) == value
    else:
        with pytest.raises(BcvmError, match="takes another path"):
            run(program, (value,))
