"""Plain Python objects as model parts, for the tests of flattening: a `Part` is called like a Cell, its parts are in `parts`."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import numpy as np

from bcvm_core.vm.flatten.reads import Reads
from bcvm_core.vm.flatten.site import MISS, FlatSite
from bcvm_core.vm.stats import Stats


class Part:
    """A model part: `forward` is what a call runs."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)  # type: ignore[attr-defined]


class Parts(Part):
    """A container of parts."""

    def __init__(self, *parts: Any) -> None:
        self.parts = {str(i): part for i, part in enumerate(parts)}

    def __iter__(self) -> Any:
        return iter(self.parts.values())

    def __getitem__(self, index: int) -> Any:
        return list(self.parts.values())[index]


class Library:
    """`vm.flatten.objects.Library` for parts."""

    personality = "numpy"
    reports_events = True
    running = contextlib.nullcontext

    def take(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        return operands

    def give(self, result: Any) -> Any:
        return result

    def fused(self, kernel: Any) -> Any:
        return kernel

    def stands_for(self, tp: type) -> type:
        return tp

    def is_module(self, value: Any) -> bool:
        return isinstance(value, Part)

    def entry(self, module: Any, reads: Reads) -> str:
        return "forward"

    def stores(self, module: Any) -> list[dict[str, Any]]:
        return []

    def parts(self, module: Any) -> dict[str, Any] | None:
        return module.parts if isinstance(module, Parts) else None

    def is_pure(self, function: Any) -> bool:
        return False

    def inlines(self, function: types.FunctionType) -> bool:
        return True


def same(one: Any, other: Any) -> bool:
    """Equal in type, structure and bits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    if isinstance(one, np.ndarray | np.generic):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return bool(one == other)


class Flat:
    """A part under flattening, compared with itself in plain Python at every call."""

    def __init__(self, part: Any) -> None:
        self.part = part
        self.stats = Stats()
        self.site = FlatSite(part, Library(), self.stats, type(part).__name__)  # type: ignore[arg-type]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The flat result, which must be there and be Python's."""
        found = self.site(self.part, args, kwargs)
        assert found is not MISS, self.site.last_reason
        assert same(found, self.part(*args, **kwargs))
        return found

    def misses(self, *args: Any, **kwargs: Any) -> str:
        """The call is left to Python; why."""
        assert self.site(self.part, args, kwargs) is MISS
        return self.site.last_reason

    @property
    def paths(self) -> int:
        return len(self.site.programs)
