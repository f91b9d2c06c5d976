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

from bcvm_core.jit import jit, linker_of

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


def close(a: Any, b: Any) -> bool:
    """Equal in kind, and in value up to the accuracy of canonical algorithms against NumPy's."""
    if isinstance(a, np.ndarray | np.generic):
        if type(a) is not type(b) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.kind != "f":
            return bool(np.array_equal(a, b)) or a.size == 0
        eps = np.finfo(a.dtype).eps
        return bool(np.allclose(np.float64(a), np.float64(b), rtol=float(64 * eps), atol=float(64 * eps), equal_nan=True))
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(close(p, q) for p, q in zip(a, b, strict=True))
    return type(a) is type(b)
