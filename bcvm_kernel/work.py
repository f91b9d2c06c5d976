"""First-time work: what a cell waits for once and never again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bcvm_core.events import Lowered, Selected, Spliced, bus


class FirstTimeWork:
    """Adds up, in microseconds, what was done for the first time since `start`.

    `cells_us`: source of cells lowered (measured by the hooks); `functions_us`: functions lowered;
    `kernels_us`: kernels selected, and made or loaded, for operands of a new signature.
    """

    def __init__(self) -> None:
        self.cells_us = 0.0
        self.functions_us = 0.0
        self.kernels_us = 0.0
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Begin to listen to the core."""
        if self._unsubscribe is None:
            self._unsubscribe = bus.subscribe(self._on_event, Lowered, Selected, Spliced)

    def stop(self) -> None:
        """Stop listening."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _on_event(self, event: Any) -> None:
        if isinstance(event, Lowered):
            self.functions_us += event.duration_us
        elif isinstance(event, Selected | Spliced) and not getattr(event, "prepared", False):
            self.kernels_us += event.duration_us

    @property
    def total_us(self) -> float:
        """All of it."""
        return self.cells_us + self.functions_us + self.kernels_us

    def parts(self) -> str:
        """Where it went, in words."""
        parts = {"lowering cells": self.cells_us, "lowering functions": self.functions_us, "choosing and loading kernels": self.kernels_us}
        return ", ".join(f"{name} {duration(us)}" for name, us in parts.items())


def duration(us: float) -> str:
    """A duration with three digits and a unit that suits it."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"
