"""How MindSpore spells the ops: the tables of `ops`, `mint` and Tensor, made into registry spellings.

A line of a table is ``row = name(parameters)``. The parameters are the callable's own, in Python's
syntax; ``canonical:own`` renames one, ``(name)`` in front of a method's line renames its receiver.
Defaults that differ from the row's are passed along; ``; name=literal, ...`` at the end of a line
gives further attributes: `dialect` tells the adapter whose rules hold where they differ within
MindSpore. Several lines for one name are overloads, tried in order. Lines for rows or callables
that are not there (an op BCVM does not have yet, another release of MindSpore) are passed over.

Parameters that the row does not have: those named in `only='...'` are taken with their default value
and no other, those named in `also='...'` go to the row's handler as they are.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..errors import UnknownOpError
from ..ops import registry
from ..ops.registry import REQUIRED, OpInfo, Spelling

_LINE = re.compile(r"(?P<row>\w+) = (?:\((?P<receiver>\w+)\)\.)?(?P<name>\w+)(?:\((?P<parameters>.*)\))?(?:; (?P<fixed>.+))?$")
_RENAMED = re.compile(r"\b(\w+):(\w+)")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table. `parameters` is None for attributes, `receiver` for lines that don't name it."""

    row: str
    name: str
    parameters: str | None
    receiver: str | None
    fixed: str


def parse(table: str) -> list[Line]:
    """The lines of a table; raises ValueError for one that does not parse."""
    lines = []
    for text in filter(None, (line.partition("#")[0].strip() for line in table.splitlines())):
        match = _LINE.fullmatch(text)
        if match is None:
            raise ValueError(f"not a line of a spelling table: {text}")
        lines.append(Line(match["row"], match["name"], match["parameters"], match["receiver"], match["fixed"] or ""))
    return lines


def _defaults(signature: str) -> dict[str, Any]:
    """Parameter -> default, where the default is a literal."""
    arguments = ast.parse(f"def f({signature}): pass").body[0].args  # type: ignore[attr-defined]
    positional = arguments.posonlyargs + arguments.args
    pairs = list(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return {a.arg: ast.literal_eval(d) for a, d in pairs}


def _literals(text: str) -> dict[str, Any]:
    """`name=literal, ...` as a dict."""
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg is not None}


def spelling(line: Line, op: OpInfo, owner: str, otherwise: Spelling | None = None) -> Spelling:
    """The registry's form of a line. `owner` is the module or class the name belongs to."""
    target = f"{owner}.{line.name}"
    if line.parameters is None:
        return Spelling(target, kind="attribute")
    rename = {own: canonical for canonical, own in _RENAMED.findall(line.parameters)}
    signature = _RENAMED.sub(r"\2", line.parameters)
    row_defaults = {p.name: p.default for p in op.params}
    fixed = _literals(line.fixed)
    defaults = _defaults(signature)
    only = {own: defaults[own] for own in fixed.pop("only", "").split()}
    extra = frozenset(fixed.pop("also", "").split())
    for own, default in defaults.items():
        name = rename.get(own, own)
        theirs = row_defaults.get(name, REQUIRED)
        if name in row_defaults and default is not None and (theirs is REQUIRED or theirs != default):
            fixed[name] = default
    if line.receiver:
        rename["self"] = line.receiver
    kind = "method" if owner == "mindspore.Tensor" else "function"
    return Spelling(target, signature, rename, kind, fixed, extra, only, line.row, otherwise)


def chains(lines: Iterable[Line], owner: str) -> list[tuple[OpInfo, Spelling]]:
    """One spelling per name, overloads chained in the order of their lines."""
    by_name: dict[str, list[tuple[Line, OpInfo]]] = {}
    for line in lines:
        try:
            op = registry.row(line.row)
        except UnknownOpError:
            continue
        by_name.setdefault(line.name, []).append((line, op))
    found = []
    for overloads in by_name.values():
        later: Spelling | None = None
        for line, op in reversed(overloads):
            later = spelling(line, op, owner, later)
        assert later is not None
        found.append((overloads[0][1], later))
    return found


def _there(target: str) -> bool:
    module, _, name = target.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), name)
    except ImportError:
        return False


def register() -> None:
    """Add MindSpore's spellings to the registry."""
    for owner, lines in tables().items():
        for op, entry in chains(lines, owner):
            if entry.kind != "function" or _there(entry.target):
                registry.add_spelling(op, entry)


def tables() -> dict[str, list[Line]]:
    """The lines of all tables by owner; overloads of one name may stand in several."""
    from . import (
        spellings_layers,
        spellings_mint,
        spellings_more,
        spellings_names,
        spellings_numpy,
        spellings_ops,
        spellings_ops_more,
        spellings_tensor,
    )

    first = spellings_ops, spellings_mint, spellings_tensor, spellings_more
    modules = *first, spellings_ops_more, spellings_names, spellings_numpy, spellings_layers
    found: dict[str, list[Line]] = {}
    for module in modules:
        for owner, table in module.TABLES.items():
            found.setdefault(owner, []).extend(parse(table))
    return found
