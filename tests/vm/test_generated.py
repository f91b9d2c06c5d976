"""Generated functions: linked form, interpreter and plain Python agree."""

from __future__ import annotations

import itertools
import linecache
import os
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from bcvm_core.isa.verifier import verify
from bcvm_core.jit import jit, linker_of
from bcvm_core.ops import registry
from bcvm_core.vm import interpreter
from bcvm_core.vm.programs import program_of

from .constructs import copied
from .generated import Generated, functions
from .test_linked import outcome

EXAMPLES = int(os.environ.get("BCVM_EXAMPLES", "150"))
_numbers = itertools.count()

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")


def build(generated: Generated) -> Any:
    """The function, with its source where tracebacks and the front end look for it."""
    filename = f"<generated {next(_numbers)}>"
    linecache.cache[filename] = (len(generated.source), None, generated.source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"np": np, "__name__": "generated"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(generated.source, filename, "exec"), namespace)
    return namespace["f"]


def comparable(result: Any) -> Any:
    """An outcome without what liveness may leave out: locals that nobody reads any more."""
    if result[0] == "value":
        return result
    return result[0], result[1].rstrip().splitlines()[-1], result[3]


@given(functions())
@settings(max_examples=EXAMPLES)
def test_linked_is_plain_python(generated: Generated) -> None:
    plain = build(generated)
    linked = jit(plain)
    assert linker_of(linked) is not None
    for _ in range(2):
        assert comparable(outcome(linked, generated.arguments)) == comparable(outcome(plain, generated.arguments)), str(generated)


def alike(a: Any, b: Any) -> bool:
    """Equal in kind; floats of any size, since errors of inexact ops may be amplified by what follows."""
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(alike(p, q) for p, q in zip(a, b, strict=True))
    return type(a) is type(b)


@given(functions(exact=False))
@settings(max_examples=EXAMPLES)
def test_results_are_of_the_kind_of_plain_python(generated: Generated) -> None:
    plain = build(generated)
    arguments = copied(generated.arguments)
    try:
        expected = plain(*arguments)
    except Exception as error:
        with pytest.raises(type(error)):
            jit(plain)(*copied(generated.arguments))
        return
    found_arguments = copied(generated.arguments)
    found = jit(plain)(*found_arguments)
    assert alike(found, expected), str(generated)
    assert alike(found_arguments, arguments), str(generated)


def interpreted(function: Any) -> Any:
    """`function` run by the interpreter from its verified Program."""
    program = program_of(function)
    verify(program, op_exists=lambda op: any(row.name == op for row in registry.rows()))
    return lambda *args: interpreter.run(program, args, globals=function.__globals__, trusted=True)


@given(functions(exact=False))
@settings(max_examples=EXAMPLES)
def test_interpreter_and_linked_form_give_the_same_bits(generated: Generated) -> None:
    plain = build(generated)
    with np.errstate(all="ignore"):  # where a warning may become an error, Python does a whole region, or the one op
        linked, stepped = outcome(jit(plain), generated.arguments), outcome(interpreted(plain), generated.arguments)
    assert linked[0] == stepped[0], str(generated)
    if linked[0] == "value":
        assert linked == stepped, str(generated)
    else:
        assert comparable(linked) == comparable(stepped), str(generated)
