"""What every site in linked code shares: its owner, when all runs plainly, and the user's warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from .. import config, fpstatus
from ..errors import Decline
from ..frontend import quiet
from ..isa.signature import table as signatures
from ..ops import registry
from ..tiers.select import CallSite
from .stats import Stats

quiet.install()
_FAST_POWERS = (0, 1, 2, -1, 0.5)
_DOUBLES = frozenset({"float64", "pyfloat"})
_BOOLS = frozenset({"bool", "pybool"})
_SHOWWARNING: Any = getattr(warnings, "_showwarning_orig", warnings.showwarning)


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

    def observe(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Inputs of a region, called when their shapes are others than last time."""

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


class EventError(Exception):
    """A floating-point event that only Python can report as the user asked."""


def event_texts(record: fpstatus.Recording, site: CallSite, op: registry.OpInfo, operands: Sequence[Any]) -> list[str] | None:
    """NumPy's warnings for what happened in one op; None where Python must compute and report it."""
    name = _warning_name(site, op, operands)
    if name is None or any(record.mode(kind) != "warn" or kind not in fpstatus.TEXT for kind in record.kinds):
        return None  # the latter: warnings of NumPy's Python code name its own lines
    return [record.text(kind, name) for kind in record.kinds]


def _warning_name(site: CallSite, op: registry.OpInfo, operands: Sequence[Any]) -> str | None:
    """The name NumPy gives an op in floating-point warnings; None where it cannot be told.

    Scalars of one kind are computed by themselves ("scalar add"); with two kinds it depends on their values.
    `x ** 2` is a square, and so on.
    """
    name = op.fp_name or op.name
    if op.family == "reduce":
        return None  # NumPy's are Python code, and its lines are named
    if op.scalar is None or site.syntax is False or not site.signature:
        return name
    if op.name == "pow" and type(operands[-1]) in (int, float) and operands[-1] in _FAST_POWERS:
        return None
    classes = signatures.row(site.signature).operands
    if any(c.layout != "scalar" for c in classes):
        return name
    kinds = {c.dtype for c in classes}
    certain = len(kinds) == 1 or kinds <= _DOUBLES
    return f"scalar {name}" if certain and not kinds & _BOOLS else None


def may_raise() -> bool:
    """May a RuntimeWarning become an exception now? (a filter, or a `warnings.showwarning` of the user's)"""
    if warnings.showwarning is not _SHOWWARNING:
        return True
    return any(action == "error" and issubclass(RuntimeWarning, category) for action, _, category, _, _ in warnings.filters)


def warn_events(owner: SiteOwner, events: list[tuple[str, int]]) -> None:
    """Issue (text, line) as NumPy's warnings, at the user's file and line."""
    seen = owner.globals.setdefault("__warningregistry__", {})
    module = owner.globals.get("__name__") or "<unknown>"
    for text, line in events:
        warnings.warn_explicit(text, RuntimeWarning, owner.filename, line, module, seen)
