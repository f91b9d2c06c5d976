"""The samples of the one list as lines of compiled functions, in both forms of execution: the bits of the definition, nothing handed back.

Every op is written in one spelling of NumPy's, else as the function of `bcvm.ops`; what the function is given first it is
given again, so that the second run finds what the first one bound.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core import testing
from bcvm_core.ops import public, registry
from bcvm_core.ops.registry import OpInfo, Spelling
from tests import sample_forms as forms
from tests import spelled
from tests.sample_checks import ROWS, outcome
from tests.sample_values import Sample
from tests.samples import copied

PLAIN = (bool, int, float, str, type(None))
ALSO_TAKEN_APART = "tuple list len int float bool min_of max_of slice range tolist item".split()
"""Ops on Python values, which Python may run itself."""


def written(op: OpInfo) -> Spelling | None:
    """The spelling of the function: NumPy's if there is one."""
    names = [s for s in op.spellings if s.target.startswith(("numpy.", "builtins.")) and spelled.exists(s)]
    names += [s for row, s in public.listed() if row is op]
    return next((s for s in names if s.kind in ("function", "method")), None)


def as_function(op: OpInfo, spelling: Spelling, sample: Sample) -> tuple[Callable[..., Any], list[Any]] | None:
    """`def f(p0, p1): r = np.name(p0, p1, axis=1); return r`, and what to call it with."""
    form = spelled.arguments(op, spelling, *sample)
    if form is None:
        return None
    given: list[Any] = []

    def place(value: Any) -> str:
        if type(value) in PLAIN or (type(value) is tuple and all(type(v) in PLAIN for v in value)):
            return repr(value)
        if type(value) is list and any(isinstance(v, np.ndarray) for v in value):
            return f"[{', '.join(map(place, value))}]"
        given.append(value)
        return f"p{len(given) - 1}"

    args = [place(value) for value in form[0]]
    words = [f"{name}={place(value)}" for name, value in form[1].items()]
    name = spelling.target.replace("numpy.ndarray.", "", 1) if spelling.kind == "method" else spelling.target.replace("numpy.", "np.", 1)
    name = name.replace("bcvm_core.", "bcvm.").replace("builtins.", "")
    call = f"{args.pop(0)}.{name}" if spelling.kind == "method" else name
    text = f"def f({', '.join(f'p{i}' for i in range(len(given)))}):\n    r = {call}({', '.join(args + words)})\n    return r\n"
    file = f"<sample {spelling.target} {len(linecache.cache)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"np": np, "bcvm": bcvm}
    exec(compile(text, file, "exec"), scope)
    return scope["f"], given


@pytest.mark.parametrize("op", [op for op in ROWS if written(op) is not None], ids=lambda op: op.name)
def test_lines_of_functions(op: OpInfo) -> None:
    spelling = written(op)
    assert spelling is not None
    ran = 0
    for sample in forms.every(op)[:4]:
        made = as_function(op, spelling, sample)
        if made is None:
            continue
        function, given = made
        expected = outcome(op.definition, *copied(sample[0]), **copied(sample[1]))
        for tier in ("linked", "interpreter"):
            with testing.force_tier(tier):
                compiled = bcvm.jit(function)
                for _ in range(2):
                    testing.assert_same_bits(outcome(compiled, *copied(given)), expected)
                if op.name not in ALSO_TAKEN_APART and any(isinstance(v, np.ndarray) for v in given):
                    stats = compiled.stats()
                    ran += stats.call_op
                    assert stats.call_host == 0 and stats.replays == 0, (tier, stats, stats.reasons)
    assert ran or op.name in ALSO_TAKEN_APART or op.family in ("create", "random"), "no sample ran"


def test_every_op_is_written_somewhere() -> None:
    unwritten = {op.name for op in ROWS if written(op) is None}
    assert unwritten <= {op.name for op in registry.rows() if all(s.kind in ("attribute", "operator") for s in op.spellings)}
