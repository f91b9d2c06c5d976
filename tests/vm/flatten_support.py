"""Plain Python objects as model parts, for the tests of flattening: a `Part` is called like a Cell, its parts are in `parts`."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from bcvm_core.isa.constants import identical
from bcvm_core.vm.flatten.reads import Reads
from bcvm_core.vm.flatten.site import MISS, FlatSite
from bcvm_core.vm.flatten.values import UnflattenableError
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
    running = contextlib.nullcontext

    def take(self, operands: tuple[Any, ...], originals: dict[int, Any]) -> tuple[Any, ...]:
        return operands

    def give(self, result: Any, originals: dict[int, Any]) -> Any:
        return result

    def fused(self, kernel: Any, rows: bool = False) -> Any:
        return kernel

    def step(self, site: Any) -> Any:
        return site

    def join(self, group: Any, steps: Any) -> Any:
        return None

    def class_of(self, value: Any, settled: bool) -> type:
        if not settled:
            raise UnflattenableError("the class of an array")
        return type(value)

    def has_own(self, value: Any, name: str, reads: Reads) -> bool:
        return True

    def is_module(self, value: Any) -> bool:
        return isinstance(value, Part)

    def entry(self, module: Any, reads: Reads) -> str:
        return "forward"

    def stores(self, module: Any, reads: Reads) -> list[dict[str, Any]]:
        return []

    def getter(self, module: Any) -> Any:
        return None

    def parts(self, module: Any, reads: Reads) -> dict[str, Any] | None:
        return reads.attribute(module, "parts") if isinstance(module, Parts) else None

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
    return identical(one, other)


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


class Body(Part):
    """Any function of (self, x, ...) as a part."""

    def __init__(self, function: Any, **attributes: Any) -> None:
        self.function = function
        self.__dict__.update(attributes)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def shape_of(value: Any, names: dict[int, str]) -> Any:
    """What can be seen of a result beside its numbers: which objects in it are one, and which are known outside."""
    if isinstance(value, list | tuple | dict | np.ndarray):
        known = names.get(id(value))
        if known is not None and not (isinstance(value, tuple) and known.startswith("new")):
            return known
        names[id(value)] = f"new{len(names)}"
    if isinstance(value, dict):
        return {k: shape_of(v, names) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [type(value), *(shape_of(v, names) for v in value)]
    return type(value)


def outcome(call: Callable[[], Any], known: dict[int, str]) -> tuple[Any, Any]:
    """The result (or the exception) and its shape."""
    try:
        value = call()
    except Exception as error:
        return (type(error), str(error)), None
    if value is MISS:
        return MISS, None
    return value, shape_of(value, dict(known))


def outside(part: Any, args: tuple[Any, ...]) -> dict[int, str]:
    """Names of the objects that exist before the call."""
    found: dict[int, str] = {}
    pending: list[tuple[str, Any]] = [("arg", args), *((f"self.{k}", v) for k, v in vars(part).items())]
    while pending:
        name, value = pending.pop()
        if isinstance(value, list | tuple | dict | np.ndarray) and id(value) not in found:
            found[id(value)] = name
        if isinstance(value, list | tuple):
            pending += [(f"{name}.{i}", v) for i, v in enumerate(value)]
        elif isinstance(value, dict):
            pending += [(f"{name}.{k}", v) for k, v in value.items()]
    found.pop(id(args), None)
    return found


def agree(part: Any, *calls: tuple[Any, ...], flat: Flat | None = None) -> Flat:
    """Every call under flattening, twice, gives what Python gives, or is left to Python."""
    flat = flat or Flat(part)
    for args in calls:
        for _ in range(2):
            known = outside(part, args)
            expected, shape = outcome(lambda args=args: part(*args), known)  # type: ignore[misc]
            found, found_shape = outcome(lambda args=args: flat.site(part, args, {}), known)  # type: ignore[misc]
            if found is not MISS:
                assert same(found, expected), f"{found!r} is not {expected!r}"
                assert found_shape == shape
    return flat
