"""A run of ops that has no shape of its own: independent ones, each computed by itself.

Ops that follow each other in a program are one segment, whether or not they have to do with each other. Where their operands fit together
that is one kernel; where they don't, each *component* (ops that are joined by the values that pass between them) is a segment with shapes
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..fusion.chains import ROW_OPS
from ..fusion.segments import Segment
from .chains import ChainSite
from .fuse import FusedSite

_MAX_REST: Final = 256


class Parts:
    """The components of a segment at run time, each by a site of its own. Nothing is kept of a call in which one can't be computed."""

    __slots__ = ("sites", "places", "order", "rest", "missed")

    def __init__(self, segment: Segment, uniform: bool, where: tuple[str, str, int] | None = None) -> None:
        """`uniform`, `where`: as for `FusedSite`."""
        components = [part for part in segment.components() if part.outputs]
        self.sites = [(ChainSite if any(op.op in ROW_OPS for op in p.ops) else FusedSite)(p, uniform=uniform) for p in components]
        for site in self.sites:
            site.where = where
        self.places = [tuple(map(segment.inputs.index, part.inputs)) for part in components]
        found = [register for part in components for register in part.outputs]
        self.order = tuple(map(found.index, segment.outputs))
        self.rest = self.missed = 0  # calls not to try; how often in a row it was in vain

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """The segment's outputs; None: run the ops one by one."""
        if self.rest:
            self.rest -= 1
            return None
        found: list[Any] = []
        for site, places in zip(self.sites, self.places, strict=True):
            made = site(*[values[k] for k in places])
            if made is None:
                self.missed += 1
                self.rest = min(_MAX_REST, 1 << self.missed) if self.missed > 2 else 0
                return None
            found += made if type(made) is tuple else (made,)
        self.missed = 0
        return tuple([found[k] for k in self.order])
