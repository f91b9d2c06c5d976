"""More activations: thresholds, exponential units, gated units. Computed in the accumulation type and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from . import trees
from ._rows import X, own, per_input
from .elementwise_more import rounded, wide_operands
from .numerics import canonical, open_up, quiet
from .registry import OpInfo, Param

SELU_ALPHA: Final = 1.6732632423543772848170429916717
SELU_SCALE: Final = 1.0507009873554804934193349852946


def _prelu(x: Any, weight: Any) -> Any:
    """One slope, or one for each channel (axis 1)."""
    array, slopes = trees.tensor(x), trees.tensor(weight)
    if slopes.size != 1:
        channels = array.shape[1] if array.ndim > 1 else array.size if array.ndim else 1
        if slopes.shape != (channels,):
            raise ValueError(f"prelu: one slope or {channels} were expected, not {slopes.shape}")
        slopes = slopes.reshape([-1] + [1] * (array.ndim - 2)) if array.ndim > 1 else slopes
    elif slopes.ndim:
        slopes = slopes.reshape(())
    result, (a, w) = wide_operands(array, slopes)
    with np.errstate(all="ignore"):
        return rounded(np.where(a > 0, a, a * w), result)


def _exponential(values: Any, alpha: Any, scale: Any = None) -> Any:
    """x above 0, alpha * (exp(x * scale) - 1) below; the branch that is thrown away cannot overflow."""
    below = np.minimum(values, values.dtype.type(0))
    small = canonical("expm1", below if scale is None else below / values.dtype.type(scale)) * values.dtype.type(alpha)
    return np.where(values > 0, values, small)


@quiet
def _selu(x: Any) -> Any:
    array, values = open_up(x)
    return rounded(_exponential(values, SELU_ALPHA) * values.dtype.type(SELU_SCALE), array.dtype)


@quiet
def _celu(x: Any, *, alpha: Any = 1.0) -> Any:
    array, values = open_up(x)
    return rounded(_exponential(values, alpha, alpha), array.dtype)


@quiet
def _glu(x: Any, *, axis: Any = -1) -> Any:
    array, values = open_up(x)
    if array.ndim == 0 or array.shape[trees.axis_of(axis, array)] % 2:
        raise ValueError(f"glu: axis {axis} of shape {array.shape} has no two halves")
    a, b = np.split(values, 2, axis=axis)
    return (a * canonical("sigmoid", b)).astype(array.dtype, copy=False)


@quiet
def _softshrink(x: Any, *, lambd: Any = 0.5) -> Any:
    array, values = open_up(x)
    edge = values.dtype.type(lambd)
    inner = np.where(np.isnan(values), values, values.dtype.type(0))
    return rounded(np.where(values > edge, values - edge, np.where(values < -edge, values + edge, inner)), array.dtype)


@quiet
def _hardshrink(x: Any, *, lambd: Any = 0.5) -> Any:
    array, values = open_up(x)
    edge = values.dtype.type(lambd)
    return rounded(np.where((values >= -edge) & (values <= edge), values.dtype.type(0), values), array.dtype)


@quiet
def _tanhshrink(x: Any) -> Any:
    array, values = open_up(x)
    return rounded(values - canonical("tanh", values), array.dtype)


@quiet
def _threshold(x: Any, threshold: Any, value: Any) -> Any:
    array = trees.tensor(x)
    with np.errstate(all="ignore"):
        edge, other = (np.asarray(number).astype(array.dtype) for number in (threshold, value))
    return np.where(array <= edge, other, array)[()]


def _row(name: str, definition: Callable[..., Any], doc: str, gradient: str, *params: Param, **rest: Any) -> OpInfo:
    signature = ", ".join(["x", *(p.name if p.role != "attr" or not _given(p) else f"{p.name}={p.default}" for p in params)])
    fields: dict[str, Any] = {"dtype_rule": "float", "fuse": "elementwise", "policy": 1, "exact": False, **rest}
    return OpInfo(
        name=name,
        family="activations",
        params=(X, *params),
        definition=definition,
        doc=doc,
        spellings=(own(name, signature),),
        flops=per_input(fields.pop("cost", 3.0)),
        gradient=gradient,
        fp_name=name,
        **fields,
    )


def _given(param: Param) -> bool:
    return isinstance(param.default, int | float)


_LAMBD = Param("lambd", default=0.5)

ROWS: tuple[OpInfo, ...] = (
    _row(
        "prelu",
        _prelu,
        "x above 0, weight * x below; one weight or one per channel (axis 1).",
        "where(x > 0, g, g * weight); sum(where(x > 0, 0, g * x))",
        Param("weight", "tensor"),
        shape_rule="same",
        exact=True,
    ),
    _row("selu", _selu, "The self-normalising exponential unit.", "where(x > 0, g * scale, g * (out + scale * alpha))", cost=26.0),
    _row(
        "celu",
        _celu,
        "x above 0, alpha * (exp(x / alpha) - 1) below.",
        "where(x > 0, g, g * exp(x / alpha))",
        Param("alpha", default=1.0),
        cost=26.0,
    ),
    _row(
        "glu",
        _glu,
        "The first half along an axis times the sigmoid of the second.",
        "concatenate(g * sigmoid(b), g * a * sigmoid(b) * (1 - sigmoid(b)))",
        Param("axis", default=-1),
        shape_rule="other",
        fuse="none",
        policy=0,
        cost=14.0,
    ),
    _row("softshrink", _softshrink, "x moved towards 0 by lambd; 0 within it.", "g * (absolute(x) > lambd)", _LAMBD, exact=True),
    _row("hardshrink", _hardshrink, "0 within lambd of 0, else x.", "g * (absolute(x) > lambd)", _LAMBD, exact=True),
    _row("tanhshrink", _tanhshrink, "x - tanh(x).", "g * tanh(x) * tanh(x)", cost=21.0),
    _row(
        "threshold",
        _threshold,
        "x above the threshold, else `value`.",
        "g * (x > threshold)",
        Param("threshold"),
        Param("value"),
        dtype_rule="same",
        exact=True,
    ),
)
