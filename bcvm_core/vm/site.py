"""What every site in linked code shares: its owner, when all runs plainly, and the user's warnings."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from .. import config
from ..errors import Decline
from ..isa.signature import table as signatures
from ..ops import registry
from ..tiers.select import CallSite
from .stats import Stats


class NoTensorError(Decline):
    """A region met no tensor; or (`personality`) tensors of another library than it was bound for."""

    def __init__(self, personality: str | None) -> None:
        self.personality = personality
        super().__init__("no operand is a tensor")


class SiteOwner:
    """What sites need to know of the function or cell they stand in. The linker subclasses it."""

    name = "<cell>"
    filename = "<cell>"
    strict = False

    def __init__(self) -> None:
        self.stats = Stats()
        self.globals: dict[str, Any] = {}

    def forget_attribute(self, name: str) -> None:
        """Reading attribute `name` may run user code: form the regions again without it."""

    def callable_rebound(self, site: Any) -> None:
        """A callee named in the region is no longer the op it was: form the regions again."""

    def site_is_dead(self, site: Any) -> None:
        """A site has met no tensor for a while: take it out."""


def idle() -> bool:
    """Must everything run as plain Python now? (switched off, or a debugger or coverage tool wants exact lines)"""
    knobs = config.current
    return not knobs.enabled or sys.gettrace() is not None or knobs.force_tier == "plain"


def warning_name(site: CallSite, op: registry.OpInfo) -> str:
    """The name NumPy gives an op in floating-point warnings."""
    name = op.fp_name or op.name
    if op.scalar is None or site.syntax is False or not site.signature:
        return name
    operands = signatures.row(site.signature).operands
    return f"scalar {name}" if all(c.layout == "scalar" for c in operands) else name


def warn_events(owner: SiteOwner, events: list[tuple[str, int]]) -> None:
    """Issue (text, line) as NumPy's warnings, at the user's file and line."""
    seen = owner.globals.setdefault("__warningregistry__", {})
    module = owner.globals.get("__name__") or "<unknown>"
    for text, line in events:
        warnings.warn_explicit(text, RuntimeWarning, owner.filename, line, module, seen)
