"""The reference of every op: NumPy where NumPy spells it, else a formula or a loop in float64, written without the op table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bcvm_core.ops.registry import OpInfo
from tests import spelled

from .formulas import FORMULAS
from .networks import NETWORKS
from .places import PLACES
from .windows import WINDOWS

OWN: dict[str, Callable[..., Any]] = {**FORMULAS, **PLACES, **NETWORKS, **WINDOWS}
"""Ops that NumPy does not spell."""

RANDOM = "normal uniform dropout dropout_channels multinomial bernoulli randint permutation".split()
"""Ops whose numbers only BCVM can say: `test_random.py` has their distributions and keys."""


def reference(op: OpInfo) -> Callable[..., Any] | None:
    """The function that says what the op gives, by the registry's calling convention; None for random ops."""
    if op.name in OWN:
        return OWN[op.name]
    if op.name in RANDOM:
        return None
    return lambda *operands, **attrs: _by_numpy(op, operands, attrs)


def _by_numpy(op: OpInfo, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    written = spelled.calls(op, operands, attrs)
    assert written, f"{op.name}: no spelling of NumPy's takes this sample"
    return written[0].run()
