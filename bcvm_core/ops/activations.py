"""Activations, which NumPy does not spell: `bcvm_core.ops.relu(x)` and friends.

Compositions of exact primitives in the element type of x (integers stay integers where the
formula allows it), or canonical algorithms (`algorithms.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from . import evaluate
from .elementwise import X, _flops, canonical
from .registry import OpInfo, Param, Spelling

_EXPM1: Final = evaluate.definition("expm1")
_SOFTPLUS: Final = evaluate.definition("softplus")


def _own(name: str, signature: str = "x") -> tuple[Spelling, ...]:
    return (Spelling(f"bcvm_core.ops.{name}", signature),)


def _tensor(x: Any) -> Any:
    return x if isinstance(x, np.ndarray | np.generic) else np.asarray(x)[()]


def _floating(x: Any) -> Any:
    """x as a float tensor: integers become the type that NumPy's float functions give them."""
    x = _tensor(x)
    return x if x.dtype.kind not in "biu" else x.astype(evaluate.float_type(x.dtype))


def _relu(x: Any, *, out: Any = None) -> Any:
    x = _tensor(x)
    return np.maximum(x, x.dtype.type(0), out=out)


def _relu6(x: Any, *, out: Any = None) -> Any:
    x = _tensor(x)
    return np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(6), out=out)


def _leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    x = _floating(x)
    return np.where(x > 0, x, x * x.dtype.type(negative_slope))[()]


def _hardsigmoid(x: Any, *, out: Any = None) -> Any:
    x = _floating(x)
    one = x.dtype.type
    return np.divide(np.minimum(np.maximum(x + one(3), one(0)), one(6)), one(6), out=out)


def _hardswish(x: Any, *, out: Any = None) -> Any:
    x = _floating(x)
    one = x.dtype.type
    return np.divide(x * np.minimum(np.maximum(x + one(3), one(0)), one(6)), one(6), out=out)


def _hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0, *, out: Any = None) -> Any:
    x = _floating(x)
    return np.minimum(np.maximum(x, x.dtype.type(min_val)), x.dtype.type(max_val), out=out)


def _softsign(x: Any, *, out: Any = None) -> Any:
    x = _floating(x)
    return np.divide(x, x.dtype.type(1) + np.absolute(x), out=out)


def _rsqrt(x: Any, *, out: Any = None) -> Any:
    x = _floating(x)
    return np.divide(x.dtype.type(1), np.sqrt(x), out=out)


def _elu(x: Any, alpha: float = 1.0, expm1: Callable[[Any], Any] = _EXPM1) -> Any:
    x = _floating(x)
    # the branch that is thrown away is clamped so that it cannot overflow
    small = expm1(np.minimum(x, x.dtype.type(0)))
    return np.where(x > 0, x, small * x.dtype.type(alpha))[()]


def _gelu(x: Any, approximate: str = "none", *, out: Any = None) -> Any:
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate must be 'none' or 'tanh', not {approximate!r}")
    return evaluate.run("gelu" if approximate == "none" else "gelu_tanh", _tensor(x), out=out)


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0, plain: Callable[[Any], Any] = _SOFTPLUS) -> Any:
    if beta == 1.0 and threshold == 20.0:
        return plain(_tensor(x))
    x = _floating(x)
    scaled = x * x.dtype.type(beta)
    return np.where(scaled > threshold, x, plain(scaled) / x.dtype.type(beta))[()]


def _row(name: str, doc: str, definition: Any, *attrs: Param, signature: str = "x", **kwargs: Any) -> OpInfo:
    return OpInfo(
        name=name,
        family="activations",
        params=(X, *attrs),
        definition=definition,
        doc=doc,
        spellings=_own(name, signature),
        dtype_rule=kwargs.pop("dtype_rule", "float"),
        flops=_flops(kwargs.pop("per_element", 3.0)),
        fuse="elementwise",
        policy=1,
        fp_name=name,
        **kwargs,
    )


ROWS: tuple[OpInfo, ...] = (
    _row("relu", "max(x, 0); NaN stays.", _relu, dtype_rule="same", gradient="g * (x > 0)", per_element=1.0),
    _row("relu6", "min(max(x, 0), 6).", _relu6, dtype_rule="same", gradient="g * ((x > 0) & (x < 6))", per_element=2.0),
    _row(
        "leaky_relu",
        "x above 0, negative_slope * x below.",
        _leaky_relu,
        Param("negative_slope", default=0.01),
        signature="x, negative_slope=0.01",
        gradient="where(x > 0, g, g * negative_slope)",
    ),
    _row(
        "elu",
        "x above 0, alpha * (exp(x) - 1) below.",
        _elu,
        Param("alpha", default=1.0),
        signature="x, alpha=1.0",
        gradient="where(x > 0, g, g * (out + alpha))",
        exact=False,
        per_element=25.0,
    ),
    _row("hardsigmoid", "min(max(x + 3, 0), 6) / 6.", _hardsigmoid, gradient="g * ((x > -3) & (x < 3)) / 6"),
    _row(
        "hardswish",
        "x * min(max(x + 3, 0), 6) / 6.",
        _hardswish,
        gradient="where(x <= -3, 0, where(x < 3, g * (x / 3 + 0.5), g))",
    ),
    _row(
        "hardtanh",
        "x limited to [min_val, max_val].",
        _hardtanh,
        Param("min_val", default=-1.0),
        Param("max_val", default=1.0),
        signature="x, min_val=-1.0, max_val=1.0",
        gradient="g * ((x > min_val) & (x < max_val))",
    ),
    _row("softsign", "x / (1 + |x|).", _softsign, gradient="g / square(1 + absolute(x))"),
    _row("rsqrt", "1 / sqrt(x).", _rsqrt, gradient="g * -0.5 * out / x"),
    _row(
        "gelu",
        "x times the normal distribution function of x; approximate='tanh' for the usual approximation.",
        _gelu,
        Param("approximate", default="none"),
        signature="x, approximate='none'",
        gradient="g * gelu_grad(x)",
        exact=False,
        per_element=40.0,
    ),
    _row(
        "softplus",
        "log(1 + exp(beta * x)) / beta, x itself above the threshold.",
        _softplus,
        Param("beta", default=1.0),
        Param("threshold", default=20.0),
        signature="x, beta=1.0, threshold=20.0",
        gradient="g * sigmoid(x * beta)",
        exact=False,
        per_element=40.0,
    ),
    canonical("sigmoid", "1 / (1 + exp(-x)).", spellings=_own("sigmoid"), policy=1, gradient="g * out * (1 - out)", flops=25),
    canonical("silu", "x * sigmoid(x).", spellings=_own("silu"), policy=1, gradient="g * (sigmoid(x) + out * (1 - sigmoid(x)))", flops=26),
    canonical("logsigmoid", "log(sigmoid(x)).", spellings=_own("logsigmoid"), policy=1, gradient="g * sigmoid(-x)", flops=45),
    canonical("mish", "x * tanh(softplus(x)).", spellings=_own("mish"), policy=1, gradient="g * mish_grad(x)", flops=60),
    canonical("erf", "Error function.", spellings=_own("erf"), policy=3, gradient="g * 1.1283791670955126 * exp(-x * x)", flops=30),
    canonical("erfc", "1 - erf(x), exact in the tail.", spellings=_own("erfc"), gradient="g * -1.1283791670955126 * exp(-x * x)", flops=40),
)
