"""The words of a listing that have a meaning to be looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bcvm_core.glossary import meaning

from .protocol import Unit

_POLICY = re.compile(r"\bpolicy_\d+\b")


def glossary(units: Sequence[Unit]) -> dict[str, str]:
    """Word -> its meaning without marks of a markup, for every word of the units that has one, in alphabetical order."""
    listed = [instruction for unit in units for instruction in unit["instructions"]]
    words = {word for i in listed for word in (i["opcode"], i["op"], *_POLICY.findall(i["operands"]))}
    return {word: text.replace("`", "") for word, text in ((word, meaning(word)) for word in sorted(words)) if text}
