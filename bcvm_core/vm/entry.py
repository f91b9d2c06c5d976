"""The first statement of an annotated function: its arguments' shapes against their hints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import HintError, Where
from ..isa.hints import ShapeHint


class EntryCheck:
    """Called with the annotated arguments in order. Raises HintError at the first violated hint."""

    def __init__(self, name: str, filename: str, line: int, hints: Mapping[str, ShapeHint]) -> None:
        self.name = name
        self.where = Where(filename=filename, line=line)
        self.hints = dict(hints)

    def __call__(self, *values: Any) -> None:
        bindings: dict[str, int] = {}
        for (parameter, hint), value in zip(self.hints.items(), values, strict=True):
            shape = getattr(value, "shape", None)
            if not isinstance(shape, tuple):
                if isinstance(value, int | float | complex):
                    shape = ()
                else:
                    continue  # not a tensor: Python's own business
            reason = hint.match(tuple(shape), bindings)
            if reason is not None:
                raise HintError(
                    f"{self.name}: argument {parameter!r} has shape {tuple(shape)}, which breaks its hint {hint}: {reason}",
                    where=self.where,
                    fix="pass a tensor of that shape, or widen the annotation (`*` is free, `...` stands for any leading dims)",
                )
