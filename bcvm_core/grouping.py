"""Sizes in groups: where something must be made per size, one for a whole group of sizes does.

Rules are global, or hold for the length of a call or block (`bcvm.clamp_batch_size`). Nothing here pads anything: those who make
versions per size ask for the size of the group and see to it that nobody can tell.
"""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import NamedTuple

from . import locks


class Rule(NamedTuple):
    """Sizes of axis `dim` from `least` to `most` in groups: `least` itself, then the multiples of `step` up to `most`."""

    least: int
    most: int
    step: int
    dim: int = 0

    def group(self, size: int) -> int:
        """The largest size of the group of `size`; sizes beyond `most`, and nothing at all, stand for themselves."""
        if size <= 0 or size > self.most:
            return size
        if size <= self.least:
            return self.least
        return min(self.most, -(-size // self.step) * self.step)

    def __str__(self) -> str:
        return f"clamp_batch_size(min={self.least}, max={self.most}, step={self.step}, dim={self.dim})"


_everywhere: tuple[Rule, ...] = ()
_here: contextvars.ContextVar[tuple[Rule, ...]] = contextvars.ContextVar("bcvm_groups", default=())
_lock = locks.lock()
notes: dict[tuple[str, str], int] = {}
"""(op, what became of it) -> calls, of those that may have a version per size. Threads may lose a count in a race."""


def rules() -> tuple[Rule, ...]:
    """The rules that hold now; of one axis the innermost."""
    here = _here.get()
    if not here:
        return _everywhere
    return (*here, *(rule for rule in _everywhere if all(rule.dim != own.dim for own in here)))


def add(rule: Rule) -> None:
    """Let a rule hold everywhere; it takes the place of one for the same axis."""
    global _everywhere
    with _lock:
        _everywhere = (*(known for known in _everywhere if known.dim != rule.dim), rule)


def remove(rule: Rule) -> None:
    """Undo `add`."""
    global _everywhere
    with _lock:
        _everywhere = tuple(known for known in _everywhere if known is not rule)


def enter(rule: Rule) -> contextvars.Token[tuple[Rule, ...]]:
    """Let a rule hold in this context until `leave`."""
    return _here.set((rule, *(known for known in _here.get() if known.dim != rule.dim)))


def leave(token: contextvars.Token[tuple[Rule, ...]]) -> None:
    """Undo `enter`."""
    _here.reset(token)


def grouped(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape with each size in place of which its group stands."""
    found = rules()
    if not found:
        return tuple(shape)
    sizes = list(shape)
    for rule in found:
        if -len(sizes) <= rule.dim < len(sizes):
            sizes[rule.dim] = rule.group(sizes[rule.dim])
    return tuple(sizes)


def note(op: str, what: str) -> None:
    """One more call of which this became."""
    key = (op, what)
    notes[key] = notes.get(key, 0) + 1


def lines() -> list[str]:
    """The rules that hold now and what they have done, for people."""
    found = [
        f"{rule}: one version per group where a version depends on a size; what takes any size runs at its true size" for rule in rules()
    ]
    return [*found, *(f"  {op}: {what} ({count} calls)" for (op, what), count in sorted(notes.items()))] if found else []
