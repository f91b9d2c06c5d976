"""Back ends that make candidates for a hot kernel: what they are given, what they give, and where they are found.

A back end runs in a process of its own (`process.py`), so it may be slow, hang or crash. It is registered by name with the place where it
is found, `"module:attribute"`, and imported there.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

from ..stencils.graph import NotFusable
from ..stencils.lower import Lowered

CANDIDATES: Final = 3  # of one search; what a back end makes beyond is not looked at


class Job(NamedTuple):
    """A kernel to make candidates for. `repeated`: the inputs (bits) with one element all along; `level`: of the processor."""

    lowered: Lowered
    repeated: int
    inputs: int
    level: str


class Candidate(NamedTuple):
    """An object file for this machine with the function `start(ctx, n, constants)`, position-independent and without undefined symbols.

    It does what spliced code does: reads the pointers of the operands in ctx, fills all `n` elements of the outputs, adds events that
    hardware does not raise to the first word of ctx, and has the bits of the spliced code.
    """

    name: str
    body: bytes


class SearchBackend(Protocol):
    """Makes the candidates."""

    name: str

    def candidates(self, job: Job) -> Iterator[Candidate]:
        """The candidates, best guess first. Raises NotFusable where there are none."""
        ...


class LlvmSearch:
    """Explicit vectors of 128 and of 256 bytes, and of 128 with stores that pass by the caches."""

    name = "llvm"

    def candidates(self, job: Job) -> Iterator[Candidate]:
        from .. import compiler
        from ..stencils import target
        from . import loop

        host = target.by_level(job.level)
        if host is None:
            raise NotFusable(f"no vectors for processors of the level {job.level}")
        for size, streaming in ((128, False), (256, False), (128, True)):
            lanes = size // job.lowered.width
            try:
                text = loop.text(host, job.lowered, job.repeated, job.inputs, lanes, streaming=streaming)
            except NotFusable:
                if streaming:  # outputs of several sizes: two candidates then
                    return
                raise
            yield Candidate(f"{lanes} lanes{', streaming' if streaming else ''}", compiler.compile_ir(text))


_PLACES: dict[str, str] = {"llvm": f"{__name__}:LlvmSearch", "tvm": f"{__package__}.tvm:TvmSearch"}


def register(name: str, place: str) -> None:
    """Make a back end known: `place` is "module:attribute", a class or function that makes one. It is imported when something is hot."""
    if not all(place.partition(":")[::2]):
        raise ValueError(f"{place!r} is not of the form 'module:attribute'")
    _PLACES[name] = place


def place_of(name: str) -> str | None:
    """Where a back end is found."""
    return _PLACES.get(name)


def names() -> list[str]:
    """The back ends that are known."""
    return sorted(_PLACES)


def open_at(place: str) -> Any:
    """The back end at a place. Raises ImportError, AttributeError."""
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)()
