"""Generated functions and the list of constructs: the interpreter agrees with plain Python and, to the last bit, with the linked form."""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from bcvm_core.isa import verifier
from bcvm_core.isa.encoding import decode, encode
from bcvm_core.isa.text import assemble, disassemble
from bcvm_core.jit import jit
from bcvm_core.ops import registry
from bcvm_core.vm import interpreter
from bcvm_core.vm.programs import parameter_names, program_of

from .constructs import SAMPLES, Sample
from .generated import Generated, functions
from .test_generated import build, comparable
from .test_linked import outcome

EXAMPLES = int(os.environ.get("BCVM_EXAMPLES", "60"))

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")


def interpreted(function: types.FunctionType, example: tuple[Any, ...] = ()) -> Callable[..., Any]:
    """`function` run by the interpreter, from a program that passed the verifier and both written forms."""
    names = parameter_names(function)
    program = program_of(function, dict(zip(names, example, strict=False)))
    known = {row.name for row in registry.rows()}
    verifier.verify(program, op_exists=known.__contains__)
    assert assemble(disassemble(program)) == decode(encode(program)) == program
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    defaults = dict(zip(reversed(names[: function.__code__.co_argcount]), reversed(function.__defaults__ or ()), strict=False))
    packed = {names[-1]: {}} if function.__code__.co_flags & 8 else {}

    def call(*args: Any) -> Any:
        positional = function.__code__.co_argcount
        given = dict(zip(names, args[:positional], strict=False))
        if function.__code__.co_flags & 4:
            packed[names[positional]] = args[positional:]
        full = {**defaults, **(function.__kwdefaults__ or {}), **packed, **given}
        return interpreter.run(program, full, globals=function.__globals__, closure=closure, trusted=True)

    return call


def seen(result: Any) -> Any:
    """An outcome without frames: what was raised, with its message, and the arguments."""
    return comparable(result)


@given(functions())
@settings(max_examples=EXAMPLES)
def test_interpreter_is_plain_python(generated: Generated) -> None:
    plain = build(generated)
    for example in ((), generated.arguments):
        call = interpreted(plain, example)
        for _ in range(2):
            assert seen(outcome(call, generated.arguments)) == seen(outcome(plain, generated.arguments)), str(generated)


@given(functions(exact=False))
@settings(max_examples=EXAMPLES)
def test_interpreter_and_linked_form_give_the_same_bits(generated: Generated) -> None:
    plain = build(generated)
    call, linked = interpreted(plain), jit(plain)
    with np.errstate(all="ignore"):  # where a warning may become an error the linked form leaves the op to NumPy
        for _ in range(2):
            assert seen(outcome(call, generated.arguments)) == seen(outcome(linked, generated.arguments)), str(generated)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_constructs(sample: Sample) -> None:
    for example in ((), sample.arguments[0]):
        call = interpreted(sample.function, example)
        for _ in range(2):
            for arguments in sample.arguments:
                plain = seen(outcome(sample.drive(sample.function), arguments))
                assert seen(outcome(sample.drive(call), arguments)) == plain


def host_work(x: Any, functions_: Any) -> Any:
    with np.errstate(all="ignore"):
        first = [np.exp(v) * 2 for v in x]
        second = np.tanh(list(x)[0])
        third = [f(x) for f in functions_]
    return first, second, third, functions_[0](x + 1).sum()


def test_ops_in_host_code_run_the_same_kernels() -> None:
    x = np.linspace(-3, 3, 40, dtype=np.float32).reshape(4, 10)
    arguments = (x, (np.exp, np.tanh, np.sin))
    assert outcome(interpreted(host_work), arguments) == outcome(jit(host_work), arguments)
