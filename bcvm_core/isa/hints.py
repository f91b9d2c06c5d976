"""Shape hints: constraint templates such as ``[B, *, 64]``."""

from __future__ import annotations

from dataclasses import dataclass

Dim = int | str | None  # fixed size, named dim, or None for the free dim "*"


@dataclass(frozen=True, slots=True)
class ShapeHint:
    """`dims` in order; `any_leading` stands for a leading ``...``.

    A fixed 1 is a singleton that may broadcast. `ANY` (``[...]``) accepts every shape.
    """

    dims: tuple[Dim, ...]
    any_leading: bool = False

    def __str__(self) -> str:
        parts = ["..."] if self.any_leading else []
        parts += ["*" if d is None else str(d) for d in self.dims]
        return "[" + ", ".join(parts) + "]"


ANY = ShapeHint((), any_leading=True)
