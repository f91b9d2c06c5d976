"""What the node tests show, by op type: `python -m tests.onnx_nodes.report` writes it beside this file for the documentation.

`test_onnx_nodes.py` holds the file against a new count.
"""

from __future__ import annotations

import collections
import json
import re
from pathlib import Path
from typing import Any

import onnx

from bcvm_core.ops import registry
from tests.onnx_nodes import nodes, table

FILE = Path(__file__).with_name("measured.json")
SERIES = ".".join(onnx.__version__.split(".")[:2])
Row = dict[str, Any]


def subject(node: nodes.Node, known: dict[str, nodes.Node]) -> str:
    """The op type that a test is about; of an op written out in others, that op."""
    base = known.get(re.sub(r"_expanded(_ver\d+)?$", "", node.name), node)
    return str(base.model.graph.node[0].op_type)


def measure(known: dict[str, nodes.Node]) -> dict[str, Any]:
    """Run every test that is not left out: {"onnx": series, "agree": n, "left_out": n, "types": {op type: row}}."""
    groups: dict[str, list[nodes.Node]] = collections.defaultdict(list)
    for node in known.values():
        groups[subject(node, known)].append(node)
    types = {name: _row(groups[name]) for name in sorted(groups)}
    return {
        "onnx": SERIES,
        "agree": sum(row["agree"] + row["written_out"] for row in types.values()),
        "left_out": sum(sum(row["left_out"].values()) for row in types.values()),
        "types": types,
    }


def _row(group: list[nodes.Node]) -> Row:
    """What the tests of one op type show. The ops are those of the tests of the op itself."""
    reasons = {node.name: nodes.reason_against(node) for node in group}
    running = [node for node in group if reasons[node.name] is None]
    own = [node for node in running if not node.expanded]
    before = [jitted.stats().snapshot() for jitted in table.JITTED]
    for node in own:
        nodes.check(node)
    ops = {name for jitted, earlier in zip(table.JITTED, before, strict=True) for name in jitted.stats().since(earlier).ops}
    for node in running:
        if node.expanded:
            nodes.check(node)
    return {
        "agree": len(own),
        "written_out": len(running) - len(own),
        "left_out": dict(collections.Counter(reason for reason in reasons.values() if reason is not None)),
        "ops": sorted(filter(_gives_tensors, ops)),
    }


def _gives_tensors(name: str) -> bool:
    return registry.row(name).result != "python"


def as_text(measured: dict[str, Any]) -> str:
    """The text of the file: a line for each op type."""
    lines = [f'"{name}": {json.dumps(row, sort_keys=True)}' for name, row in measured["types"].items()]
    head = json.dumps({name: value for name, value in measured.items() if name != "types"})[:-1]
    return head + ', "types": {\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    FILE.write_text(as_text(measure(nodes.collect())), encoding="utf-8")
