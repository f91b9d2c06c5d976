"""What the words of a listing mean: opcodes, ops of the table, fusion policies."""

from __future__ import annotations

import re
from typing import Final

from .errors import BcvmError
from .fusion import policies
from .isa import opcodes
from .ops import registry

_POLICY: Final = re.compile(r"policy_(\d+)")


def meaning(word: str) -> str:
    """What an opcode, an op's name or `policy_NNN` means, in a sentence; "" for other words."""
    policy = _POLICY.fullmatch(word)
    if policy is not None:
        return _of_policy(int(policy[1]))
    if word in opcodes.BY_NAME:
        return opcodes.BY_NAME[word].doc
    try:
        return registry.row(word).doc
    except (BcvmError, KeyError):
        return ""


def _of_policy(number: int) -> str:
    try:
        policy = policies.get(number)
    except BcvmError:  # a user's, and removed since
        return "a fusion policy that is not registered any more"
    return f"fusion policy {policy.name!r}: {policy.description}"
