"""What stencils are compiled for: one row per x86-64 level, with the registers that carry values.

A *slot* is a few vector registers: chains that processors run side by side. A step of a kernel
treats `lanes` elements: as many as fill a slot with the widest type of the kernel (4 or 8 bytes),
so there are two families of stencils.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from .. import loader, store


@dataclass(frozen=True, slots=True)
class Target:
    """One processor level: `slots` values are carried from stencil to stencil, in `registers` each."""

    level: str
    register_bytes: int
    registers: int
    slots: int
    convention: str  # passes all slots in registers and lets every stencil use the others
    features: str

    @property
    def slot_bytes(self) -> int:
        """Size of a value in registers."""
        return self.registers * self.register_bytes

    @property
    def total(self) -> int:
        """Registers that carry values."""
        return self.registers * self.slots

    def lanes(self, width: int) -> int:
        """Elements per step when the widest element type of a kernel has `width` (4 or 8) bytes."""
        return self.slot_bytes // width


_TARGETS: Final = {
    "x86-64-v4": Target("x86-64-v4", 64, 4, 4, "x86_regcallcc", "-prefer-256-bit,-vzeroupper"),
    "x86-64-v3": Target("x86-64-v3", 32, 2, 4, "preserve_nonecc", "-vzeroupper"),
}
WIDTHS: Final = (4, 8)


def by_level(level: str) -> Target | None:
    """The row of a level, None when no stencils are made for it."""
    return _TARGETS.get(level)


@functools.cache
def host() -> Target | None:
    """The best row for this machine; None on other processors and systems."""
    return by_level(store.cpu_level()) if loader.SUPPORTED else None
