"""What every site in linked code shares: its owner, when all runs plainly, and the user's warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config, fpstatus
from ..errors import Decline
from ..frontend import quiet
from ..ops import registry
from ..tiers.select import CallSite
from .stats import Stats

quiet.install()
_NUMBERS = frozenset({bool, int, float, complex, np.ndarray})
_FAST_POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal"}
_ERRSTATE_NAMES = {"divide": "divide", "overflow": "over", "underflow": "under", "invalid": "invalid"}
_WARN_ONLY = frozenset({"warn", "ignore"})
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

    def region_ran(self, values: Sequence[Any]) -> None:
        """A region has run with these inputs: others may be prepared for such."""

    def forget_attribute(self, name: str) -> None:
        """Reading attribute `name` may run user code: form the regions again without it."""

    def callable_rebound(self, site: Any) -> None:
        """A callee named in the region is no longer the op it was: form the regions again."""

    def site_is_native(self, site: Any) -> None:
        """Machine code can stand in a site's place."""

    def site_is_dead(self, site: Any) -> None:
        """A site has met no tensor for a while: take it out."""


def leave_to_python() -> Callable[..., None]:
    """A site that never runs."""
    return _none


def _none(*_args: Any) -> None:
    return None


def idle() -> bool:
    """Must everything run as plain Python now? (switched off, or a debugger or coverage tool wants exact lines)"""
    knobs = config.current
    return not knobs.enabled or sys.gettrace() is not None or knobs.force_tier == "plain"


class EventError(Exception):
    """A floating-point event that only Python can report as the user asked."""


def event_texts(record: fpstatus.Recording, site: CallSite, op: registry.OpInfo, operands: Sequence[Any]) -> list[str] | None:
    """NumPy's warnings for what happened in one op; None where Python must compute and report it."""
    if any(record.mode(kind) != "warn" for kind in record.kinds):
        return None
    operator = op.scalar if site.syntax and op.exact and all(type(x) in _NUMBERS or isinstance(x, np.generic) for x in operands) else None
    name = op.fp_name or op.name
    if op.name == "pow" and site.syntax and type(operands[-1]) in (int, float):
        name = _FAST_POWERS.get(operands[-1], name)  # for targets that have been written already
    return [_asked(operator, operands, kind) or record.text(kind, name) for kind in record.kinds]


def _asked(operator: Callable[..., Any] | None, operands: Sequence[Any], kind: str) -> str | None:
    """NumPy's own words. It names `x ** 2` "square", and scalars depend on their kinds and values ("add", "scalar add")."""
    if operator is None or kind not in _ERRSTATE_NAMES:
        return None
    modes: dict[str, Any] = {name: "raise" if known == kind else "ignore" for known, name in _ERRSTATE_NAMES.items()}
    with np.errstate(**modes):
        try:
            operator(*operands)
        except FloatingPointError as error:
            return str(error)
        except Exception:  # of the op itself: Python will raise it
            return None
    return None


def may_raise() -> bool:
    """May a RuntimeWarning become an exception now? (a filter, or a `warnings.showwarning` of the user's)"""
    if warnings.showwarning is not _SHOWWARNING:
        return True
    for action, message, category, module, line in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if action == "error":
                return True
            if message is None and module is None and not line:
                return False
    return False


def warn_events(owner: SiteOwner, events: list[tuple[str, int]]) -> None:
    """Issue (text, line) as NumPy's warnings, at the user's file and line."""
    seen = owner.globals.setdefault("__warningregistry__", {})
    module = owner.globals.get("__name__") or "<unknown>"
    for text, line in events:
        warnings.warn_explicit(text, RuntimeWarning, owner.filename, line, module, seen)


def hold_store(target: Any, value: Any) -> None:
    """Raises Decline where reporting a store may end in an exception: after the store nothing can be replayed."""
    if type(target) is not np.ndarray or _casts_silently(value, target.dtype):
        return
    if may_raise() or not _WARN_ONLY.issuperset(fpstatus.modes().values()):
        raise Decline("a store that casts, where its warnings may become exceptions")


def _casts_silently(value: Any, dtype: np.dtype[Any]) -> bool:
    """Can no warning come from storing `value` in an array of `dtype`?"""
    kind = getattr(value, "dtype", None)
    if kind is None:
        return type(value) is bool or (type(value) in (int, float) and dtype == np.float64)
    return bool(np.can_cast(kind, dtype, "safe"))
