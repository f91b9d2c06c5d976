"""What the words of a listing mean: opcodes, ops of the table, fusion policies."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bcvm_core.errors import BcvmError
from bcvm_core.fusion import policies
from bcvm_core.isa import opcodes
from bcvm_core.ops import registry

from .protocol import Unit

_POLICY = re.compile(r"\bpolicy_(\d+)\b")


def glossary(units: Sequence[Unit]) -> dict[str, str]:
    """Word -> its meaning, for every word of the units that has one, in alphabetical order."""
    listed = [instruction for unit in units for instruction in unit["instructions"]]
    found = {name: opcodes.BY_NAME[name].doc for name in {i["opcode"] for i in listed} if name in opcodes.BY_NAME}
    found |= {name: registry.row(name).doc for name in {i["op"] for i in listed if i["op"]}}
    found |= {name: meaning for i in listed for name, meaning in _policies(i["operands"])}
    return dict(sorted(found.items()))


def _policies(operands: str) -> list[tuple[str, str]]:
    return [(match[0], _policy(int(match[1]))) for match in _POLICY.finditer(operands)]


def _policy(number: int) -> str:
    try:
        policy = policies.get(number)
    except BcvmError:  # a user's, and removed since
        return "a fusion policy that is not registered any more"
    return f"fusion policy {policy.name!r}: {policy.description}"
