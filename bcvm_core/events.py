"""What happened, as frozen records, and the bus that carries them to whoever listens.

With no listener an emit site costs one attribute test (``if bus.active:``); records are
only built after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Lowered:
    """A function or cell became a Program."""

    name: str
    filename: str
    regions: int
    duration_us: float


@dataclass(frozen=True, slots=True)
class Bound:
    """A region met operands of new types and chose its kernels."""

    region: str
    signatures: tuple[int, ...]
    shape_hint: str
    duration_us: float


@dataclass(frozen=True, slots=True)
class Selected:
    """A kernel was selected for a signature; `reason` is the path through the selection program."""

    op: str
    signature: int
    kernel: str
    reason: str
    duration_us: float
    again: bool = False  # for the signature that the site ran before: measuring began, or the pool changed
    shapes: str = ""


@dataclass(frozen=True, slots=True)
class Spliced:
    """A fused kernel was made for a pattern of operands; `prepared`: before any of it came."""

    ops: tuple[str, ...]
    pattern: int
    operands: str
    prepared: bool
    duration_us: float
    shapes: str = ""


@dataclass(frozen=True, slots=True)
class Recompiled:
    """Tier 3 looked for a better version of a kernel; `kept`: it found one that was worth it. `reason`: why, or why not.

    `elements`: the most of the class of sizes that it was for; `candidate`: the one that is kept.
    """

    ops: tuple[str, ...]
    kept: bool
    reason: str
    duration_us: float
    elements: int = 0
    candidate: str = ""


@dataclass(frozen=True, slots=True)
class FellBack:
    """Calls run op by op since a compile is late, or was given up."""

    ops: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class HandedBack:
    """A region gave one execution back to Python."""

    region: str
    reason: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """The code cache let a kernel go, and why. `name`: by which people call it; `hits`: the calls that it did."""

    ops: tuple[str, ...]
    name: str
    reason: str
    hits: int
    code_bytes: int


@dataclass(frozen=True, slots=True)
class CellStarted:
    """A cell is about to run through the VM. `number` counts the cells of its session."""

    number: int


@dataclass(frozen=True, slots=True)
class CellFinished:
    """The cell is over, whatever became of it."""

    number: int


Event = Lowered | Bound | Selected | Spliced | Recompiled | FellBack | HandedBack | Evicted | CellStarted | CellFinished
Listener = Callable[[Any], None]


class Bus:
    """Delivers records to listeners; a listener that raises is dropped, the program goes on."""

    __slots__ = ("_listeners", "active")

    def __init__(self) -> None:
        self._listeners: tuple[tuple[Listener, tuple[type, ...]], ...] = ()
        self.active = False

    def subscribe(self, listener: Listener, *kinds: type) -> Callable[[], None]:
        """Add `listener`, for records of some kinds or of all; the returned function removes it."""
        self._listeners = (*self._listeners, (listener, kinds))
        self.active = True
        return lambda: self._remove(listener)

    def _remove(self, listener: Listener) -> None:
        self._listeners = tuple(pair for pair in self._listeners if pair[0] is not listener)
        self.active = bool(self._listeners)

    def emit(self, event: Event) -> None:
        for listener, kinds in self._listeners:
            if kinds and type(event) not in kinds:
                continue
            try:
                listener(event)
            except Exception:
                self._remove(listener)


bus = Bus()
