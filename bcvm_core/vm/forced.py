"""Regions run by the reference interpreter, when `config.force_tier` asks for it (tests compare the forms)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ops import registry

if TYPE_CHECKING:
    from .region import Region


def interpret_region(region: Region, inputs: tuple[Any, ...]) -> Any:
    """What the region's plan would give, instruction by instruction; None: Python does it."""
    from .interpreter import execution  # the interpreter runs host code, which holds regions

    code = region.code
    personalities = {registry.personality_of(type(v)) for v in inputs} - {None}
    if not code.callables and not personalities:
        return None
    if "mindspore" not in personalities and any(map(registry.is_bound_to_library, code.callable_values)):
        region.owner.stats.count_host(code.ops, "no tensor of the function's library")
        return None
    run = execution(region.owner.globals, stats=region.owner.stats)
    result = run.site(code.program, inputs)
    if result is None:
        region.owner.stats.count_host(code.ops, "left to Python by the interpreter")
        return None
    region._hits += 1
    if region.key[0] == "tree":
        return result
    (value,) = result
    return value[0] if not code.value and len(code.outputs) == 1 else value
