"""Functions that have run until something stands in the place of their region."""

from __future__ import annotations

from typing import Any

from bcvm_core.jit import linker_of
from bcvm_core.vm.region import Region


def region_of(function: Any) -> Region:
    """The one region of a jitted function."""
    (site,) = [s for s in linker_of(function).table.live if isinstance(s, Region)]  # type: ignore[union-attr]
    return site


def warmed(function: Any, *args: Any, calls: int = 3) -> Region:
    """The function's region after some calls; a native form stands in its place."""
    for _ in range(calls):
        function(*args)
    region = region_of(function)
    assert region.native is not None, region.last_reason
    return region
