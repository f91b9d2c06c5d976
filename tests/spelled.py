"""Calls as users write them: a sample in the words of one spelling."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bcvm_core.ops import registry
from bcvm_core.ops.registry import OpInfo, Spelling

_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv, "FloorDiv": operator.floordiv,
    "Mod": operator.mod, "Pow": operator.pow, "MatMult": operator.matmul, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge, "Eq": operator.eq, "NotEq": operator.ne, "USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert,
    "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor, "LShift": operator.lshift, "RShift": operator.rshift,
    "Subscript": operator.getitem,
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """`function(*args, **kwargs)`; of a method `args[0]` is the receiver."""

    spelling: Spelling
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        return self.function(*self.args, **self.kwargs)

    def bind(self, op: OpInfo) -> registry.BoundCall | None:
        """The same call through the op table."""
        if self.spelling.kind in ("operator", "attribute"):
            return registry.BoundCall(op, self.args, {})
        if self.spelling.kind == "method":
            return registry.bind(op, self.spelling, self.args[1:], self.kwargs, self.args[0])
        return registry.bind(op, self.spelling, self.args, self.kwargs)


def _function(spelling: Spelling) -> Callable[..., Any] | None:
    owner, _, name = spelling.target.rpartition(".")
    if spelling.kind == "operator":
        return _OPERATORS[name]
    if spelling.kind == "attribute":
        return operator.attrgetter(name)
    if spelling.kind == "method":
        return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)
    root: Any = {"numpy": np, "builtins": builtins}.get(owner.partition(".")[0])
    for part in (*owner.split(".")[1:], name):
        root = getattr(root, part, None)
    return root  # type: ignore[no-any-return]


def exists(spelling: Spelling) -> bool:
    """Whether the installed NumPy has the callable."""
    return _function(spelling) is not None


def arguments(
    op: OpInfo, spelling: Spelling, operands: tuple[Any, ...], attrs: dict[str, Any], by_keyword: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """A sample's values in the order and under the names of a spelling; None where it cannot give them all."""
    values = {**dict(zip((p.name for p in op.operands), operands, strict=True)), **attrs}
    if spelling.kind in ("operator", "attribute"):
        return (operands, {}) if not attrs else None
    args: list[Any] = []
    if spelling.kind == "method":
        args.append(values.pop(spelling.rename.get("self", op.params[0].name)))
    found = ast.parse(f"def f({spelling.signature}): pass").body[0].args  # type: ignore[attr-defined]
    optional = {a.arg for a in (found.posonlyargs + found.args)[-len(found.defaults) :]} if found.defaults else set()
    kwargs: dict[str, Any] = {}
    for parameter in found.posonlyargs + found.args:
        name = spelling.rename.get(parameter.arg, parameter.arg)
        if name not in values:
            if parameter.arg not in optional:
                return None
            by_keyword = True  # one is left out: the others can only be named
        elif by_keyword and parameter not in found.posonlyargs and found.vararg is None:
            kwargs[parameter.arg] = values.pop(name)
        elif by_keyword and kwargs:
            return None
        else:
            args.append(values.pop(name))
    if found.vararg is not None:
        args += values.pop(spelling.rename.get(found.vararg.arg, found.vararg.arg), ())
    for parameter, default in zip(found.kwonlyargs, found.kw_defaults, strict=True):
        name = spelling.rename.get(parameter.arg, parameter.arg)
        if name in values:
            kwargs[parameter.arg] = values.pop(name)
        elif default is None:
            return None
    said = all(name in spelling.fixed and _same(value, spelling.fixed[name]) for name, value in values.items())
    return (tuple(args), kwargs) if said else None


def _same(value: Any, fixed: Any) -> bool:
    """Whether an attribute has the value that a spelling fixes; types by their names."""
    return np.dtype(value) == fixed if isinstance(value, type) and isinstance(fixed, str) else bool(value == fixed)


def calls(op: OpInfo, operands: tuple[Any, ...], attrs: dict[str, Any]) -> list[Call]:
    """The sample in every spelling of NumPy's and Python's that can express it, by position and by keyword."""
    made = []
    for spelling in op.spellings:
        if spelling.target.startswith("bcvm_core."):
            continue
        function = _function(spelling)
        if function is None:
            continue
        forms: list[Any] = []
        for by_keyword in (False, True):
            form = arguments(op, spelling, operands, attrs, by_keyword)
            if form is not None and not any(form[1].keys() == other[1].keys() for other in forms):
                forms.append(form)
        made += [Call(spelling, function, *form) for form in forms]
    return made
