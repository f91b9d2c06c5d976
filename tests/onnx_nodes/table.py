"""The table ONNX op type -> the BCVM expression of it, filled by the files `expressed_*.py`.

An expression is a function of a node's inputs (by position, None where an optional one is left out)
and attributes (by keyword; the defaults are ONNX's). It gives the output, or a tuple of them. It is
written as a user of NumPy and `bcvm.ops` would, and runs under `bcvm.jit(strict=True)`: what the op
table knows may not run on the host. A parameter `opset` gets the version of the model's operator
set, `outputs` the number of outputs that the node asks for, `graph` a function that runs a subgraph.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import bcvm_core as bcvm

Expression = Callable[..., Any]

OPS: dict[str, Expression] = {}
EXTRAS: dict[str, frozenset[str]] = {}  # of opset, outputs, graph: what an expression asks for
JITTED: list[Any] = []  # everything that runs through the VM here, with its counters


def part(function: Expression) -> Expression:
    """A piece that expressions share; runs through the VM as they do."""
    jitted = bcvm.jit(strict=True)(function)
    JITTED.append(jitted)
    return jitted


def _add(name: str, function: Expression) -> None:
    if name in OPS:
        raise ValueError(f"{name} is expressed twice")
    OPS[name] = function
    EXTRAS[name] = frozenset({"opset", "outputs", "graph"} & inspect.signature(function).parameters.keys())


def op(name: str) -> Callable[[Expression], Expression]:
    """Decorator: this function expresses the op type `name`."""

    def add(function: Expression) -> Expression:
        jitted = part(function)
        _add(name, jitted)
        return jitted

    return add


def simple(expressions: Mapping[str, Expression]) -> None:
    """Add expressions of one line each."""
    for name, function in expressions.items():
        _add(name, part(function))


def load() -> None:
    """Import the files that fill the table."""
    for path in sorted(Path(__file__).parent.glob("expressed_*.py")):
        importlib.import_module(f"tests.onnx_nodes.{path.stem}")
