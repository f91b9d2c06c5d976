"""Makes the public function of an op from its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Decline
from . import random, registry
from .registry import REQUIRED, OpInfo, Param, Spelling

_PREFIX = "bcvm_core.ops."


def _listed() -> dict[str, tuple[OpInfo, Spelling]]:
    """Name -> row and spelling: the rows' own spellings, then every other op that stands for a NumPy function."""
    found: dict[str, tuple[OpInfo, Spelling]] = {}
    for op in registry.rows():
        for spelling in op.spellings:
            if spelling.target.startswith(_PREFIX):
                found[spelling.target.removeprefix(_PREFIX)] = (op, spelling)
    for op in registry.rows():
        if op.name not in found and any(s.target.startswith("numpy.") and s.kind == "function" for s in op.spellings):
            spelling = Spelling(_PREFIX + op.name, _signature(op), {})
            registry.add_spelling(op, spelling)
            found[op.name] = (op, spelling)
    return found


def _sequence(op: OpInfo) -> Param | None:
    """The parameter that collects a variable number of positional arguments, when the op's functions have one."""
    for spelling in op.spellings:
        star = spelling.signature.partition("*")[2].partition(",")[0]
        if spelling.kind == "function" and star and star.isidentifier():
            canonical = spelling.rename.get(star, star)
            return next((p for p in op.params if p.name == canonical), None)
    return None


def _signature(op: OpInfo) -> str:
    """The canonical parameters as a parameter list; a defaulted value is written as a name that `function` binds."""
    star = _sequence(op)
    parts = [f"*{p.name}" if p is star else p.name if p.default is REQUIRED else f"{p.name}=_default_{p.name}" for p in op.params]
    return ", ".join(parts)


def names() -> list[str]:
    """All public functions, sorted."""
    return sorted(_TABLE)


def listed() -> list[tuple[OpInfo, Spelling]]:
    """Row and spelling of every public function."""
    return list(_TABLE.values())


def function(name: str) -> Callable[..., Any] | None:
    """The public function `name`, new at each call; None when there is none."""
    found = _TABLE.get(name)
    if found is None:
        return None
    op, _ = found
    star = _sequence(op)
    scope: dict[str, Any] = {f"_default_{p.name}": p.default for p in op.params if p.default is not REQUIRED}
    scope.update(_op=op, _run=_run, _REQUIRED=REQUIRED)
    operands = "".join(f"{p.name}, " for p in op.operands)
    lines = [f"def {name}({_signature(op)}):", f"    {op.doc!r}", "    attrs = {}"]
    for p in op.params:
        if p in op.operands:
            continue
        if p is star or p.default is REQUIRED:
            lines.append(f"    attrs[{p.name!r}] = {p.name}")
        else:
            lines.append(f"    if {p.name} is not _default_{p.name}: attrs[{p.name!r}] = {p.name}")
    lines.append(f"    return _run(_op, ({operands}), attrs)")
    exec(compile("\n".join(lines), f"<bcvm.ops.{name}>", "exec"), scope)
    made: Callable[..., Any] = scope[name]
    made.__module__ = "bcvm_core.ops"
    made.__qualname__ = name
    return made


def _run(op: OpInfo, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    try:
        return registry.executor(op, operands, attrs)
    except Decline:
        return _on_host(op, operands, attrs)


def _on_host(op: OpInfo, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """What Python itself would run: NumPy's function, with its warnings, subclasses and state."""
    if op.name in random.HOST:
        return random.HOST[op.name](*operands, **attrs)
    for spelling in op.spellings:
        if spelling.target.startswith("numpy.") and spelling.kind == "function":
            back = {canonical: name for name, canonical in spelling.rename.items()}
            target: Any = np
            for part in spelling.target.split(".")[1:]:
                target = getattr(target, part, None)
            if target is not None:
                return target(*operands, **{back.get(name, name): value for name, value in attrs.items()})
    return op.definition(*operands, **attrs)


_TABLE = _listed()
