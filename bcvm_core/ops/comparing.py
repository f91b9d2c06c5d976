"""NumPy's own comparisons with a tolerance, and `fix`: its functions as they are, on the original objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._rows import X, numpy
from .elementwise import Y
from .registry import OpInfo, Param, Spelling

_TOLERANCES = (Param("rtol", default=1e-5), Param("atol", default=1e-8), Param("equal_nan", default=False))
_CLOSE = "a, b, rtol=1e-05, atol=1e-08, equal_nan=False"


def _row(name: str, doc: str, params: tuple[Param, ...], spelling: Spelling, **fields: Any) -> OpInfo:
    function: Callable[..., Any] = getattr(np, name)

    def definition(*operands: Any, **attrs: Any) -> Any:
        return function(*operands, **attrs)

    definition.__name__ = definition.__qualname__ = name
    return OpInfo(name, "elementwise", params, definition, doc, (spelling,), **fields)


ROWS: tuple[OpInfo, ...] = (
    _row("isclose", "True where |x - y| <= atol + rtol * |y|, as NumPy's: in the operands' own type.", (X, Y, *_TOLERANCES),
         numpy("isclose", _CLOSE, a="x", b="y"), dtype_rule="bool"),
    _row("allclose", "Whether all elements are close by NumPy's `isclose`, as a Python bool.", (X, Y, *_TOLERANCES),
         numpy("allclose", _CLOSE, a="x", b="y"), dtype_rule="other", shape_rule="other", result="python"),
    _row("fix", "Round towards zero; numpy.fix.", (X,), numpy("fix", "x, out=None"), dtype_rule="same"),
)  # fmt: skip
