"""Calls in MindSpore's spelling, run by MindSpore itself and by BCVM's call sites."""

from __future__ import annotations

import ast
from typing import Any

import mindspore as ms
import ml_dtypes
import numpy as np
from mindspore import mint, ops
from mindspore.mint.nn import functional as F

import bcvm_core.mindspore as door
from bcvm_core.ops import registry
from bcvm_core.tiers.select import CallSite

door.install()
MODULES = {"ms": ms, "ops": ops, "mint": mint, "F": F, "np": np}


def tensor(values: Any, dtype: Any = np.float32) -> Any:
    """A MindSpore tensor; lists and arrays alike."""
    with np.errstate(all="ignore"):
        return ms.Tensor.from_numpy(np.array(values, dtype))


def array(value: Any) -> Any:
    """The elements of a MindSpore result as NumPy's; bfloat16 as float32."""
    if isinstance(value, tuple | list):
        return tuple(array(v) for v in value)
    if not isinstance(value, ms.Tensor):
        return value
    return value.astype(ms.float32).asnumpy() if value.dtype == ms.bfloat16 else value.asnumpy()


def numpy_type(name: str) -> Any:
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


def type_name(value: Any) -> Any:
    """`float32` and the like; a tuple for several results."""
    if isinstance(value, tuple | list):
        return tuple(type_name(v) for v in value)
    return str(value.dtype).lower().removeprefix("mindspore.") if isinstance(value, ms.Tensor) else type(value).__name__


def by_mindspore(text: str, **names: Any) -> Any:
    return eval(text, {**MODULES, **names})


def by_site(text: str, **names: Any) -> Any:
    """Evaluate one call (or attribute, or operator) with its op run by a CallSite; fails when no row is spelled so."""
    scope = {**MODULES, **names}
    node = ast.parse(text, mode="eval").body

    def value(part: ast.expr) -> Any:
        return eval(compile(ast.Expression(part), text, "eval"), scope)

    if isinstance(node, ast.BinOp):
        return CallSite(_row(node.op))(value(node.left), value(node.right))
    if isinstance(node, ast.Compare):
        return CallSite(_row(node.ops[0]))(value(node.left), value(node.comparators[0]))
    if isinstance(node, ast.UnaryOp):
        return CallSite(_row(node.op))(value(node.operand))
    if isinstance(node, ast.Subscript):
        return CallSite("getitem")(value(node.value), eval(f"np.s_{text[len(ast.unparse(node.value)) :]}", scope))
    if isinstance(node, ast.Attribute):
        found = registry.attribute_spelling_for(type(value(node.value)), node.attr)
        assert found is not None, text
        return CallSite(found[0])(value(node.value))
    assert isinstance(node, ast.Call), text
    args = [value(a) for a in node.args]
    keywords = {k.arg: value(k.value) for k in node.keywords if k.arg}
    receiver: Any = registry.REQUIRED
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if owner is not None and isinstance(value(owner), ms.Tensor):
        receiver = value(owner)
        found = registry.method_spelling_for(type(receiver), node.func.attr)  # type: ignore[attr-defined]
    else:
        found = registry.by_callable(value(node.func))
    assert found is not None, f"{text}: no row"
    bound = registry.bind(*found, args, keywords, receiver)
    assert bound is not None, f"{text}: does not bind"
    attrs = {name: value for name, value in bound.attrs.items() if value != ()}
    return CallSite(bound.op, syntax=False)(*bound.operands, **attrs)


def _row(node: ast.AST) -> registry.OpInfo:
    found = registry.by_operator(type(node).__name__)
    assert found is not None
    return found
