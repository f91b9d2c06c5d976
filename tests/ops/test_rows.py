"""Every row of the op table is complete and agrees with the installed NumPy about names and signatures."""

from __future__ import annotations

import ast
import importlib
import inspect

import numpy as np
import pytest

import bcvm_core.ops
from bcvm_core.ops import registry
from bcvm_core.ops.registry import REQUIRED, OpInfo, Spelling

ROWS = registry.rows()
SHAPE_RULES = {"elementwise", "reduce", "matmul", "conv", "view", "same", "create", "other"}
DTYPE_RULES = {"promote", "bool", "float", "same", "attr", "index", "other"}
FUSE = {"elementwise", "reduce", "matmul", "conv", "view", "none"}


def spellings(op: OpInfo) -> list[Spelling]:
    found = []
    for spelling in op.spellings:
        link: Spelling | None = spelling
        while link is not None:
            found.append(link)
            link = link.otherwise
    return found


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_row_is_complete(op: OpInfo) -> None:
    assert op.name.isidentifier()
    assert op.doc.strip().endswith(".") and op.doc[0] != " "
    assert op.shape_rule in SHAPE_RULES and op.dtype_rule in DTYPE_RULES and op.fuse in FUSE
    assert op.result in {"tensor", "python", "any"} and 0 <= op.policy <= 5
    assert callable(op.definition)
    assert len({p.name for p in op.params}) == len(op.params)
    assert all(p.role in {"tensor", "tensors", "attr"} for p in op.params)
    assert op.spellings or op.name == "setitem", "a row nobody can write"
    assert op.flops is None or callable(op.flops)


def test_names_and_spellings_are_unique() -> None:
    assert len({op.name for op in ROWS}) == len(ROWS)
    targets = [(s.target, s.kind) for op in ROWS for s in op.spellings]
    assert len(set(targets)) == len(targets)


def parameters(text: str) -> tuple[list[str], set[str], str | None]:
    args = ast.parse(f"def f({text}): pass").body[0].args  # type: ignore[attr-defined]
    positional = [a.arg for a in args.posonlyargs + args.args]
    required = set(positional[: len(positional) - len(args.defaults)])
    return positional, required, args.vararg.arg if args.vararg else None


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_spellings_name_canonical_parameters(op: OpInfo) -> None:
    known = {p.name for p in op.params}
    for spelling in spellings(op):
        if spelling.kind in ("operator", "attribute"):
            continue
        row = registry.row(spelling.op) if spelling.op else op
        known = {p.name for p in row.params}
        assert set(spelling.rename.values()) <= known, spelling
        positional, required, star = parameters(spelling.signature)
        given = [spelling.rename.get(name, name) for name in (*positional, *([star] if star else []))]
        if spelling.kind == "method":
            given.insert(0, row.params[0].name)
        operands = {p.name for p in row.operands}
        assert operands <= set(given), f"{spelling.target} cannot give {operands - set(given)}"
        for name in required:
            assert spelling.rename.get(name, name) in known, f"{spelling.target}: required {name} is not canonical"


def numpy_callable(target: str) -> object | None:
    module, _, name = target.rpartition(".")
    return getattr(importlib.import_module(module), name, None)


FUNCTIONS = [(op, s) for op in ROWS for s in op.spellings if s.kind == "function" and s.target.startswith("numpy.")]


@pytest.mark.parametrize("op, spelling", FUNCTIONS, ids=lambda v: getattr(v, "target", ""))
def test_signatures_are_those_of_numpy(op: OpInfo, spelling: Spelling) -> None:
    function = numpy_callable(spelling.target)
    if function is None:
        pytest.skip("not in this NumPy")
    assert registry.by_callable(function) is not None
    if isinstance(function, np.ufunc):
        return
    try:
        real = inspect.signature(function)  # type: ignore[arg-type]
    except ValueError:
        return
    positional, required, star = parameters(spelling.signature)
    kinds = inspect.Parameter
    ours = [] if star else positional
    theirs = [p.name for p in real.parameters.values() if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    if star is None:
        assert ours == theirs[: len(ours)], f"{spelling.target}: {real}"
        missing = theirs[len(ours) :]
        assert not missing or spelling.target in ("numpy.clip", "numpy.round", "numpy.around"), f"{spelling.target} lacks {missing}"
    needed = {
        p.name for p in real.parameters.values() if p.default is kinds.empty and p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    }
    # where: only the form with three arguments is an op. clip: NumPy 1.26 needs both limits, NumPy 2 none.
    if star is None and spelling.target not in ("numpy.where", "numpy.clip"):
        assert needed <= set(positional) and needed == required, f"{spelling.target}: {real}"


METHODS = [s for op in ROWS for s in op.spellings if s.kind in ("method", "attribute") and s.target.startswith("numpy.ndarray.")]


@pytest.mark.parametrize("spelling", METHODS, ids=lambda s: s.target)
def test_methods_exist(spelling: Spelling) -> None:
    name = spelling.target.rpartition(".")[2]
    assert hasattr(np.ndarray, name)
    found = registry.by_method(name) if spelling.kind == "method" else registry.by_attribute(name)
    assert found is not None


@pytest.mark.parametrize("name", dir(bcvm_core.ops))
def test_public_functions(name: str) -> None:
    function = getattr(bcvm_core.ops, name)
    assert getattr(bcvm_core.ops, name) is function, "one object, known by identity"
    found = registry.by_callable(function)
    assert found is not None
    op, spelling = found
    assert spelling.target == f"bcvm_core.ops.{name}"
    assert function.__doc__ == op.doc and function.__name__ == name
    signature = inspect.signature(function)
    assert list(signature.parameters) == [p.name for p in op.params]
    for p in op.params:
        default = signature.parameters[p.name].default
        assert default is inspect.Parameter.empty or default is p.default or p.default is REQUIRED
    positional, _, star = parameters(spelling.signature)
    names = [n for n, p in signature.parameters.items() if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    if star is None:
        assert positional == names, "the spelling's parameters are the function's"


def test_public_namespace() -> None:
    with pytest.raises(AttributeError, match="no_such_op"):
        bcvm_core.ops.no_such_op  # noqa: B018
    for name in "relu softmax conv2d layer_norm attention exp matmul sum cross_entropy embedding max_pool2d one_hot".split():
        assert name in dir(bcvm_core.ops)
