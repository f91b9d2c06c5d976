"""stdout and stderr in the order of the writes.

ipykernel buffers the two apart, so that what one cell writes to both comes out in the order of
two timers. Here a write to one sends off what the other holds.
"""

from __future__ import annotations

from typing import ClassVar

from ipykernel.iostream import OutStream


class OrderedStream(OutStream):
    """One of the kernel's two streams."""

    _last_written: ClassVar[OutStream | None] = None

    def write(self, string: str) -> int | None:  # type: ignore[override]
        """Write text; returns the number of characters, like ipykernel's."""
        last = OrderedStream._last_written
        if last is not self:
            OrderedStream._last_written = self
            if last is not None and not last.closed:
                last.flush()  # type: ignore[no-untyped-call]
        return super().write(string)
