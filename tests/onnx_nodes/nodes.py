"""The node tests of the installed `onnx` package, and how one of them runs: node by node, each by its BCVM expression."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from bcvm_core import dtypes
from tests.onnx_nodes import exclusions
from tests.onnx_nodes.element_types import NotOurs
from tests.onnx_nodes.table import EXTRAS, OPS, load

load()
RTOL, ATOL = 1e-5, 1e-7
ONNX_RTOL = 1e-3


@dataclass(frozen=True)
class Node:
    """One node test: a model, the inputs and the recorded outputs."""

    name: str
    model: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def op_types(self) -> frozenset[str]:
        """The op types of the model's own nodes."""
        return frozenset(node.op_type for node in self.model.graph.node)

    @property
    def expanded(self) -> bool:
        """Whether this is an op written out in other ops, as ONNX defines it."""
        return "_expanded" in self.name


@contextlib.contextmanager
def _numpy_state_kept() -> Iterator[None]:
    """ONNX makes its inputs with NumPy's global generator, which it seeds."""
    state = np.random.get_state()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(state)


def collect() -> dict[str, Node]:
    """All node tests by name, in ONNX's order."""
    with _numpy_state_kept():
        cases = collect_testcases(None)
    return {case.name: Node(case.name, case.model, *map(tuple, case.data_sets[0])) for case in cases}


def value_of(value: Any) -> Any:
    """A recorded value as an array. Raises NotOurs for what is no tensor of BCVM's element types."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if value is None or isinstance(value, list | dict):
        raise NotOurs(exclusions.NO_TENSOR)
    array = np.asarray(value)
    if dtypes.name_of(array.dtype) is None:
        raise NotOurs(exclusions.ELEMENT_TYPES[array.dtype.name])
    return array


def reason_against(node: Node) -> str | None:
    """Why a node test is left out, or None: it must agree."""
    for op_type in sorted(node.op_types):
        if op_type in exclusions.TYPES:
            return exclusions.TYPES[op_type]
    if node.name in exclusions.TESTS:
        return exclusions.TESTS[node.name]
    try:
        for value in (*node.inputs, *node.outputs):
            value_of(value)
    except NotOurs as reason:
        return str(reason)
    return None


def check(node: Node) -> None:
    """Run a node test and compare every output."""
    outputs = run(node)
    assert len(outputs) == len(node.outputs)
    for actual, recorded in zip(outputs, node.outputs, strict=True):
        atol = ATOL if node.name not in exclusions.NOISY else 1e-6 * float(np.abs(recorded).max())
        assert_agrees(actual, recorded, ONNX_RTOL if node.name in exclusions.COARSE else None, atol)


def _attribute(attribute: Any) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return value_of(value)
    return value


def run(node: Node) -> list[Any]:
    """The outputs of a node test by BCVM. Raises NotOurs, KeyError for an op type without expression, or what an expression raises."""
    graph = node.model.graph
    names = [i.name for i in graph.input]
    values = dict(zip(names, map(value_of, node.inputs), strict=True))
    opset = max((o.version for o in node.model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    with np.errstate(all="ignore"):  # an event that Python must report is replayed by Python
        run_graph(graph, values, opset)
    return [values[output.name] for output in graph.output]


def run_graph(graph: Any, values: dict[str, Any], opset: int) -> None:
    """Run the nodes of a graph over named values, which the results are added to."""

    def inner(subgraph: Any, *inputs: Any) -> list[Any]:
        """The outputs of a subgraph, which sees the values around it."""
        names = [i.name for i in subgraph.input]
        known = {**values, **{t.name: value_of(t) for t in subgraph.initializer}, **dict(zip(names, inputs, strict=True))}
        run_graph(subgraph, known, opset)
        return [known[output.name] for output in subgraph.output]

    for step in graph.node:
        found = OPS[step.op_type]
        attributes = {a.name: _attribute(a) for a in step.attribute}
        extras = {"opset": opset, "outputs": len(step.output), "graph": inner}
        attributes.update({name: extras[name] for name in EXTRAS[step.op_type]})
        result = found(*(values[name] if name else None for name in step.input), **attributes)
        results = result if isinstance(result, tuple) else (result,)
        for name, value in zip(step.output, results, strict=False):
            values[name] = value


def assert_agrees(actual: Any, recorded: Any, rtol: float | None = None, atol: float = ATOL) -> None:
    """Same element type, shape and numbers: exactly, or for floats within `rtol` (None: that of the type) and `atol`."""
    expected = value_of(recorded)
    assert isinstance(actual, np.ndarray | np.generic), f"no tensor: {type(actual).__name__}"
    assert actual.dtype == expected.dtype, f"{actual.dtype} instead of {expected.dtype}"
    assert actual.shape == expected.shape, f"shape {actual.shape} instead of {expected.shape}"
    if dtypes.BY_NUMPY[expected.dtype].kind not in ("float", "complex"):
        np.testing.assert_array_equal(actual, expected)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    within = tolerance(expected.dtype) if rtol is None else rtol
    np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=within, atol=atol)


def tolerance(dtype: Any) -> float:
    """The relative tolerance for an element type."""
    return ONNX_RTOL if dtype.itemsize == 2 else RTOL
