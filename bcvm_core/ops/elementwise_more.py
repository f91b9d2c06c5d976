"""More of the elementwise family: NumPy's rarer functions, and what networks need that NumPy does not spell.

Rows named after a NumPy function call it. The others compute in the accumulation type of their
operands (float32 for 16-bit floats), round once, and set no floating-point flags.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from . import trees
from ._rows import moves_only, numpy, numpy_call, own
from .comparing import ROWS as _COMPARING
from .elementwise import X, Y, binary
from .linalg import product_type
from .numerics import canonical, float_tensor, open_up, quiet
from .registry import OpInfo, Param, Spelling

_Array = np.ndarray[Any, Any]
_HALF_ROOT_PI: Final = math.sqrt(math.pi) / 2


def wide_operands(*operands: Any) -> tuple[np.dtype[Any], list[_Array]]:
    """The type of a result of these tensors and numbers, and all of them in one accumulation type.

    Python numbers do not widen tensors. Raises TypeError for complex numbers.
    """
    tensors = [float_tensor(value) for value in operands if not isinstance(value, bool | int | float)]
    result = product_type(*tensors) if tensors else trees.F64
    kind = trees.accumulator(result)
    assert kind is not None
    return result, [trees.array(value).astype(kind, copy=False) for value in operands]


def rounded(values: Any, result: np.dtype[Any]) -> Any:
    """Values in the result's type; a scalar when 0-d."""
    return trees.array(values).astype(result, copy=False)[()]


@quiet
def _lerp(x: Any, end: Any, weight: Any) -> Any:
    """From the nearer end, so that weights 0 and 1 give the ends exactly."""
    result, (a, b, w) = wide_operands(x, end, weight)
    span = b - a
    return rounded(np.where(np.absolute(w) < 0.5, a + w * span, b - span * (1 - w)), result)


@quiet
def _addcmul(x: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    result, (a, b, c) = wide_operands(x, tensor1, tensor2)
    return rounded(a + a.dtype.type(value) * (b * c), result)


@quiet
def _addcdiv(x: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    result, (a, b, c) = wide_operands(x, tensor1, tensor2)
    return rounded(a + a.dtype.type(value) * (b / c), result)


@quiet
def _xlogy(x: Any, y: Any) -> Any:
    """0 where x is 0, whatever y is; NaN where y is NaN."""
    result, (a, b) = wide_operands(x, y)
    a, b = np.broadcast_arrays(a, b)
    return rounded(np.where((a == 0) & ~np.isnan(b), a.dtype.type(0), a * canonical("log", b)), result)


@quiet
def _frac(x: Any) -> Any:
    array = trees.tensor(x)
    return array - np.trunc(array)


@quiet
def _logit(x: Any, *, eps: Any = None) -> Any:
    array, p = open_up(x)
    kind = p.dtype.type
    if eps is not None:
        p = np.minimum(np.maximum(p, kind(eps)), kind(1.0 - eps))
    return rounded(canonical("log", p / (kind(1) - p)), array.dtype)


def _erfinv_start(x: _Array, rest: _Array) -> _Array:
    """Within 1% of the inverse: Winitzki's formula; `rest` is 1 - |x|."""
    log = canonical("log", rest * (2.0 - rest))
    half = 4.3307467508 + 0.5 * log
    near = x * _HALF_ROOT_PI
    far = np.sqrt(np.sqrt(half * half - log * 6.8027210884) - half)
    return np.where(np.absolute(x) < 0.1, near, far)


@quiet
def _erfinv(x: Any) -> Any:
    """Three steps of Newton's method on erf (below 0.5) or erfc (above, where 1 - |x| is exact), in float64."""
    array = float_tensor(x)
    wide = array.astype(trees.F64, copy=False)
    a = np.absolute(wide)
    rest = 1.0 - a
    inside = a < 1.0
    y = np.where(inside, np.absolute(_erfinv_start(a, np.where(inside, rest, 0.5))), 0.0)
    for _ in range(3):
        error = np.where(a < 0.5, canonical("erf", y) - a, rest - canonical("erfc", y))
        step = error * _HALF_ROOT_PI * canonical("exp", y * y)
        y = y - step / (1.0 + y * step)  # Halley's correction
    y = np.where(wide == 0.0, a, y)
    y = np.where(a == 1.0, np.inf, y)
    y = np.where((a > 1.0) | np.isnan(a), np.nan, y)
    return rounded(np.copysign(y, wide), array.dtype)


@quiet
def _sinc(x: Any) -> Any:
    array, values = open_up(x)
    angle = values * values.dtype.type(math.pi)
    safe = np.where(values == 0, values.dtype.type(1), angle)
    return rounded(np.where(values == 0, values.dtype.type(1), canonical("sin", safe) / safe), array.dtype)


@quiet
def _polar(x: Any, angle: Any) -> Any:
    """Complex numbers by magnitude and angle."""
    a, b = np.broadcast_arrays(float_tensor(x), float_tensor(angle))
    wide = product_type(a, b) if product_type(a, b) in (trees.F32, trees.F64) else trees.F32
    result = np.empty(a.shape, trees.C64 if wide == trees.F32 else trees.C128)
    result.real = a * canonical("cos", b.astype(wide, copy=False))
    result.imag = a * canonical("sin", b.astype(wide, copy=False))
    return result[()]


@quiet
def _is_close(x: Any, y: Any, *, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
    _, (a, b) = wide_operands(x, y)
    a, b = a.astype(trees.F64, copy=False), b.astype(trees.F64, copy=False)
    near = (np.absolute(a - b) <= atol + rtol * np.absolute(b)) & np.isfinite(a) & np.isfinite(b)
    near = near | (a == b)
    return (near | (np.isnan(a) & np.isnan(b)) if equal_nan else near)[()]


def _all_close(x: Any, y: Any, *, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> bool:
    return bool(np.all(_is_close(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def _array_equal(x: Any, y: Any, *, equal_nan: Any = False) -> Any:
    return np.array_equal(x, y, equal_nan)


def _divide_rounded(x: Any, y: Any, *, rounding_mode: Any = None) -> Any:
    """Integers rounded down or towards 0 stay integers."""
    if rounding_mode is None:
        return np.true_divide(x, y)
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    if rounding_mode != "trunc":
        raise ValueError(f'rounding_mode must be None, "floor" or "trunc", not {rounding_mode!r}')
    if np.result_type(x, y).kind in "iu":
        quotient, rest = np.divmod(x, y)
        return quotient + ((quotient < 0) & (rest != 0))
    return np.trunc(np.true_divide(x, y))


def _scaled(ufunc: np.ufunc) -> Callable[..., Any]:
    def definition(x: Any, y: Any, *, alpha: Any = 1) -> Any:
        if isinstance(alpha, float) and np.asarray(y).dtype.kind in "iu":
            raise TypeError("an alpha that is no integer needs floating-point tensors")
        return ufunc(x, y if alpha == 1 else np.multiply(y, np.asarray(y).dtype.type(alpha)))

    return definition


def _sided_infinity(sign: int) -> Callable[[Any], Any]:
    def definition(x: Any) -> Any:
        array = trees.tensor(x)
        if array.dtype.kind in "biu":
            return np.zeros(array.shape, np.bool_)[()]
        if trees.accumulator(array.dtype) is None or array.dtype.kind == "c":
            raise TypeError(f"the sign of an infinity needs a real tensor, not one of {array.dtype}")
        return (array == array.dtype.type(sign * np.inf))[()]

    definition.__name__ = definition.__qualname__ = "isposinf" if sign > 0 else "isneginf"
    return definition


def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """`value` in the type of `x`, so that the type never changes."""
    array, chosen = trees.tensor(x), trees.tensor(mask)
    if chosen.dtype != np.bool_:
        raise TypeError(f"a mask of bool was expected, not of {chosen.dtype}")
    with np.errstate(all="ignore"):
        fill = trees.array(value).astype(array.dtype)
    return np.where(chosen, fill, array)


def _elementwise(per_element: float) -> Callable[..., float]:
    def flops(*shapes: tuple[int, ...], **_attrs: Any) -> float:
        return per_element * math.prod(np.broadcast_shapes(*shapes))

    return flops


def _row(
    name: str, definition: Callable[..., Any], doc: str, params: tuple[Param, ...], spellings: tuple[Spelling, ...] = (), **rest: Any
) -> OpInfo:
    signature = ", ".join(p.name if not isinstance(p.default, int | float | type(None)) else f"{p.name}={p.default}" for p in params)
    fields: dict[str, Any] = {"dtype_rule": "float", "exact": False, "fp_name": name, "fuse": "elementwise", "policy": 3, **rest}
    return OpInfo(
        name=name,
        family="elementwise",
        params=params,
        definition=definition,
        doc=doc,
        spellings=spellings or (own(name, signature),),
        flops=_elementwise(fields.pop("cost", 4.0)),
        **fields,
    )


_PAIR = (Param("rtol", default=1e-5), Param("atol", default=1e-8), Param("equal_nan", default=False))
_VALUE = Param("value", default=1)
_TENSORS = (Param("tensor1", "tensor"), Param("tensor2", "tensor"))

_NUMPYS = (
    binary("logaddexp2", "log2(2 ** x + 2 ** y) without overflow.", dtype_rule="float", flops=40),
    binary("float_power", "x raised to y, in float64 at least.", flops=20),
    binary("gcd", "Greatest common divisor.", flops=20),
    binary("lcm", "Least common multiple.", flops=20),
    binary("heaviside", "0 below 0, 1 above, y at 0.", dtype_rule="float"),
    _row(
        "nan_to_num",
        numpy_call(np.nan_to_num),
        "NaN and infinities replaced by numbers.",
        (X, *(Param(name, default=value) for name, value in (("copy", True), ("nan", 0.0), ("posinf", None), ("neginf", None)))),
        (numpy("nan_to_num", "x, copy=True, nan=0.0, posinf=None, neginf=None"),),
        dtype_rule="same",
        exact=True,
        gradient="g * isfinite(x)",
    ),
)

_OWN = (
    _row(
        "lerp",
        _lerp,
        "x + weight * (end - x).",
        (X, Param("end", "tensor"), Param("weight", "tensor")),
        gradient="g * (1 - weight); g * weight; g * (end - x)",
    ),
    _row(
        "addcmul",
        _addcmul,
        "x + value * tensor1 * tensor2.",
        (X, *_TENSORS, _VALUE),
        gradient="g; g * value * tensor2; g * value * tensor1",
    ),
    _row(
        "addcdiv",
        _addcdiv,
        "x + value * tensor1 / tensor2.",
        (X, *_TENSORS, _VALUE),
        gradient="g; g * value / tensor2; -g * value * tensor1 / (tensor2 * tensor2)",
    ),
    _row("xlogy", _xlogy, "x * log(y), and 0 where x is 0.", (X, Y), gradient="g * log(y); g * x / y", cost=22.0),
    _row("frac", _frac, "x without its integer part; the sign stays.", (X,), dtype_rule="same", gradient="g", cost=2.0),
    _row("logit", _logit, "log(x / (1 - x)), x limited to [eps, 1 - eps].", (X, Param("eps", default=None)), gradient="g / (x * (1 - x))"),
    _row("erfinv", _erfinv, "The inverse of erf.", (X,), gradient="g * 0.886226925452758 * exp(out * out)", cost=200.0),
    _row("sinc", _sinc, "sin(pi x) / (pi x), 1 at 0.", (X,), gradient="g * (cos(pi * x) - out) / x", cost=25.0),
    _row("polar", _polar, "Complex numbers by magnitude and angle.", (X, Param("angle", "tensor")), dtype_rule="other", cost=45.0),
    _row(
        "is_close",
        _is_close,
        "True where |x - y| <= atol + rtol * |y|.",
        (X, Y, *_PAIR),
        (own("is_close", "x, y, rtol=1e-05, atol=1e-08, equal_nan=False"),),
        dtype_rule="bool",
        exact=True,
    ),
    _row(
        "all_close",
        _all_close,
        "Whether all elements are close, as a Python bool.",
        (X, Y, *_PAIR),
        (own("all_close", "x, y, rtol=1e-05, atol=1e-08, equal_nan=False"),),
        dtype_rule="other",
        shape_rule="other",
        result="python",
        exact=True,
        fuse="none",
        policy=0,
    ),
    _row(
        "array_equal",
        _array_equal,
        "Whether shapes and all elements are equal, as a Python bool.",
        (X, Y, Param("equal_nan", default=False)),
        (numpy("array_equal", "a1, a2, equal_nan=False", a1="x", a2="y"),),
        dtype_rule="other",
        shape_rule="other",
        result="python",
        exact=True,
        fuse="none",
        policy=0,
    ),
    _row(
        "divide_rounded",
        _divide_rounded,
        'The quotient, as it is, or rounded: "floor" or "trunc".',
        (X, Y, Param("rounding_mode", default=None)),
        (own("divide_rounded", "x, y, rounding_mode=None"),),
        dtype_rule="other",
        exact=True,
        fp_name="divide",
    ),
    *(
        _row(
            f"{name}_scaled",
            _scaled(getattr(np, name)),
            f"x {sign} alpha * y.",
            (X, Y, Param("alpha", default=1)),
            dtype_rule="promote",
            exact=True,
            gradient=f"g; {sign}alpha * g",
            fp_name=name,
            cost=2.0,
        )
        for name, sign in (("add", "+"), ("subtract", "-"))
    ),
    _row("is_neg_inf", _sided_infinity(-1), "True where -inf.", (X,), dtype_rule="bool", exact=True, cost=1.0),
    _row("is_pos_inf", _sided_infinity(1), "True where +inf.", (X,), dtype_rule="bool", exact=True, cost=1.0),
    _row(
        "masked_fill",
        _masked_fill,
        "`value` where the mask is True, else x; the type is that of x.",
        (X, Param("mask", "tensor"), Param("value", "tensor")),
        dtype_rule="same",
        exact=True,
        gradient="where(mask, 0, g); ; sum(g where mask)",
        cost=1.0,
    ),
)

_PARTS = tuple(
    OpInfo(
        name=f"{name}_part",
        family="elementwise",
        params=(X,),
        definition=numpy_call(getattr(np, name)),
        doc=doc,
        spellings=(numpy(name, "val", val="x"),),
        shape_rule="view",
        dtype_rule="other",
        flops=moves_only,
        fuse="view",
    )
    for name, doc in (("real", "The real parts; numpy.real."), ("imag", "The imaginary parts; numpy.imag."))
)

ROWS: tuple[OpInfo, ...] = _NUMPYS + _OWN + _PARTS + _COMPARING
