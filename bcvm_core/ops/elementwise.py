"""The elementwise family: arithmetic, comparisons, logic, bits, rounding, casts, transcendental functions.

Exact rows are NumPy's ufunc itself, called on the original objects, so promotion, errors and
warnings are those of the installed NumPy. Rows with `exact=False` have a canonical algorithm
(`algorithms.py`); their definition is its evaluation with NumPy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import evaluate
from .registry import OpInfo, Param, Spelling

X = Param("x", "tensor")
Y = Param("y", "tensor")
DTYPE = Param("dtype", default=None)


def _spell(ufunc: str, names: str, dtype: bool, aliases: tuple[str, ...] = ()) -> tuple[Spelling, ...]:
    """NumPy's spellings of a ufunc whose positional parameters are `names`."""
    signature = f"{names}, /" + (", *, dtype=None" if dtype else "")
    rename = {"x1": "x", "x2": "y"} if "x1" in names else {}
    return tuple(Spelling(f"numpy.{name}", signature, rename) for name in (ufunc, *aliases))


def _operator(name: str) -> tuple[Spelling, ...]:
    return (Spelling(f"operator.{name}", "x, y", kind="operator"),)


def binary(
    name: str,
    doc: str,
    *,
    ufunc: str | None = None,
    aliases: tuple[str, ...] = (),
    syntax: str | None = None,
    scalar: Callable[..., Any] | None = None,
    dtype_rule: str = "promote",
    gradient: str | None = None,
    flops: float = 1.0,
) -> OpInfo:
    """A row for a NumPy ufunc of two operands; `syntax` is the AST class of the operator that means it."""
    ufunc = ufunc or name
    takes_dtype = dtype_rule in ("promote", "float")
    spellings = _spell(ufunc, "x1, x2", takes_dtype, aliases) + (_operator(syntax) if syntax else ())
    function = getattr(np, ufunc)
    return OpInfo(
        name=name,
        family="elementwise",
        params=(X, Y, DTYPE) if takes_dtype else (X, Y),
        definition=function,
        doc=doc,
        spellings=spellings,
        dtype_rule=dtype_rule,
        flops=_flops(flops),
        fuse="elementwise",
        policy=3,
        gradient=gradient,
        scalar=scalar,
        fp_name=function.__name__,
    )


def unary(
    name: str,
    doc: str,
    *,
    ufunc: str | None = None,
    aliases: tuple[str, ...] = (),
    syntax: str | None = None,
    scalar: Callable[..., Any] | None = None,
    extra: tuple[Spelling, ...] = (),
    dtype_rule: str = "same",
    gradient: str | None = None,
    flops: float = 1.0,
) -> OpInfo:
    """A row for a NumPy ufunc of one operand whose bits are NumPy's."""
    ufunc = ufunc or name
    takes_dtype = dtype_rule in ("same", "float")
    spellings = _spell(ufunc, "x", takes_dtype, aliases) + extra
    if syntax:
        spellings += (Spelling(f"operator.{syntax}", "x", kind="operator"),)
    function = getattr(np, ufunc)
    return OpInfo(
        name=name,
        family="elementwise",
        params=(X, DTYPE) if takes_dtype else (X,),
        definition=function,
        doc=doc,
        spellings=spellings,
        dtype_rule=dtype_rule,
        flops=_flops(flops),
        fuse="elementwise",
        policy=3,
        gradient=gradient,
        scalar=scalar,
        fp_name=function.__name__,
    )


def canonical(
    name: str,
    doc: str,
    *,
    spellings: tuple[Spelling, ...] = (),
    policy: int = 3,
    gradient: str | None = None,
    flops: float = 20.0,
) -> OpInfo:
    """A row for an op with a canonical algorithm called `name`; without spellings it is `numpy.<name>`."""
    return OpInfo(
        name=name,
        family="elementwise",
        params=(X,),
        definition=evaluate.definition(name),
        doc=doc,
        spellings=spellings or _spell(name, "x", False),
        dtype_rule="float",
        flops=_flops(flops),
        fuse="elementwise",
        policy=policy,
        gradient=gradient,
        exact=False,
        fp_name=name,
    )


def _flops(per_element: float) -> Callable[..., float]:
    """FLOPs of an elementwise op from its operands' shapes, by broadcasting."""

    def count(*shapes: tuple[int, ...], **_attrs: Any) -> float:
        total = per_element
        for dim in np.broadcast_shapes(*shapes):
            total *= dim
        return total

    return count


def _power_operator(x: Any, y: Any, /, *, out: Any = None) -> Any:
    """`x ** y`: unlike `numpy.power` the operator has short cuts (squares, roots) that change bits."""
    return operator.pow(x, y) if out is None else operator.ipow(out, y)  # type: ignore[no-untyped-call]


def _round(x: Any, decimals: int = 0, *, out: Any = None) -> Any:
    return np.round(x, decimals, out=out)


_NEW_CLIP = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
_CLIP_OTHERWISE = Spelling("numpy.clip", "a, *, out=None, min=None, max=None", {"a": "x", "min": "a_min", "max": "a_max"}, op="clip")
_CLIP = Spelling(  # both bounds by one pair of names, or those there are by the other
    "numpy.clip",
    "a, a_min, a_max, out=None" if _NEW_CLIP else "a, a_min, a_max",
    {"a": "x"},
    otherwise=_CLIP_OTHERWISE if _NEW_CLIP else None,
)


def _clip(x: Any, a_min: Any = None, a_max: Any = None, *, out: Any = None) -> Any:
    return np.clip(x, a_min, a_max, out=out)


def _clip_method(x: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Any:  # noqa: A002
    return x.clip(min, max, out=out)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition, x, y)


def _astype(x: Any, dtype: Any, order: str = "K", casting: str = "unsafe", *, copy: bool = True) -> Any:
    return x.astype(dtype, order=order, casting=casting, copy=copy)


def _cast(x: Any, dtype: Any) -> Any:
    return (x if hasattr(x, "astype") else np.asarray(x)).astype(dtype)


_ARITHMETIC = (
    binary("add", "Sum of two tensors.", syntax="Add", scalar=operator.add, gradient="g; g"),
    binary("subtract", "Difference of two tensors.", syntax="Sub", scalar=operator.sub, gradient="g; -g"),
    binary("multiply", "Product of two tensors.", syntax="Mult", scalar=operator.mul, gradient="g * y; g * x"),
    binary(
        "divide",
        "True quotient; integers give floats.",
        aliases=("true_divide",),
        syntax="Div",
        scalar=operator.truediv,
        dtype_rule="float",
        gradient="g / y; -g * x / (y * y)",
    ),
    binary("floor_divide", "Largest integer not above the quotient.", syntax="FloorDiv", scalar=operator.floordiv),
    binary(
        "remainder",
        "Remainder with the sign of the divisor.",
        aliases=("mod",),
        syntax="Mod",
        scalar=operator.mod,
        gradient="g; -g * floor_divide(x, y)",
    ),
    binary("fmod", "Remainder with the sign of the dividend, as in C.", gradient="g; -g * trunc(x / y)"),
    binary("power", "numpy.power: `x` raised to `y`.", gradient="g * y * power(x, y - 1); g * out * log(x)", flops=20),
    OpInfo(
        name="pow",
        family="elementwise",
        params=(X, Y),
        definition=_power_operator,
        doc="The operator `**`, with Python's and NumPy's short cuts for squares and roots.",
        spellings=_operator("Pow"),
        flops=_flops(20.0),
        fuse="elementwise",
        policy=3,
        gradient="g * y * power(x, y - 1); g * out * log(x)",
        scalar=operator.pow,
        fp_name="power",
    ),
    binary("maximum", "Larger of two; NaN wins.", gradient="g * (x >= y); g * (x < y)"),
    binary("minimum", "Smaller of two; NaN wins.", gradient="g * (x <= y); g * (x > y)"),
    binary("fmax", "Larger of two; a number wins over NaN.", gradient="g * (x >= y); g * (x < y)"),
    binary("fmin", "Smaller of two; a number wins over NaN.", gradient="g * (x <= y); g * (x > y)"),
    binary(
        "arctan2",
        "Angle of the point (y, x).",
        dtype_rule="float",
        gradient="g * y / (x * x + y * y); -g * x / (x * x + y * y)",
        flops=25,
    ),
    binary("hypot", "Length of the vector (x, y).", dtype_rule="float", gradient="g * x / out; g * y / out", flops=10),
    binary("copysign", "Magnitude of x, sign of y.", dtype_rule="float"),
    binary(
        "logaddexp",
        "log(exp(x) + exp(y)) without overflow.",
        dtype_rule="float",
        gradient="g * exp(x - out); g * exp(y - out)",
        flops=40,
    ),
    unary("negative", "-x.", syntax="USub", scalar=operator.neg, gradient="-g"),
    unary("positive", "+x (a copy).", syntax="UAdd", scalar=operator.pos, gradient="g"),
    unary("absolute", "Magnitude.", aliases=("abs",), dtype_rule="same", gradient="g * sign(x)"),
    OpInfo(
        name="abs",
        family="elementwise",
        params=(X,),
        definition=operator.abs,
        doc="The builtin `abs`.",
        spellings=(Spelling("builtins.abs", "x, /"),),
        dtype_rule="same",
        fuse="elementwise",
        policy=3,
        gradient="g * sign(x)",
        scalar=operator.abs,
        fp_name="absolute",
    ),
    unary("fabs", "Magnitude as a float.", dtype_rule="float", gradient="g * sign(x)"),
    unary("sign", "-1, 0 or 1; NaN stays."),
    unary("square", "x * x.", gradient="2 * g * x"),
    unary("sqrt", "Square root.", dtype_rule="float", gradient="g / (2 * out)", flops=4),
    unary("cbrt", "Cube root.", dtype_rule="float", gradient="g / (3 * out * out)", flops=20),
    unary("reciprocal", "1 / x in the type of x.", gradient="-g * out * out"),
    unary("floor", "Round down."),
    unary("ceil", "Round up."),
    unary("trunc", "Round towards zero."),
    unary("rint", "Round to nearest, ties to even.", dtype_rule="float"),
    unary("degrees", "Radians to degrees.", dtype_rule="float"),
    unary("radians", "Degrees to radians.", dtype_rule="float"),
    unary("rad2deg", "Radians to degrees (its own function in NumPy).", dtype_rule="float"),
    unary("deg2rad", "Degrees to radians (its own function in NumPy).", dtype_rule="float"),
    unary("signbit", "True where the sign bit is set.", dtype_rule="bool"),
    OpInfo(
        name="round",
        family="elementwise",
        params=(X, Param("decimals", default=0)),
        definition=_round,
        doc="Round to a number of decimals, ties to even.",
        spellings=(
            Spelling("numpy.round", "a, decimals=0", {"a": "x"}),
            Spelling("numpy.around", "a, decimals=0", {"a": "x"}),
            Spelling("numpy.ndarray.round", "decimals=0", kind="method"),
        ),
        dtype_rule="same",
        flops=_flops(3.0),
        fuse="elementwise",
        policy=3,
        fp_name="rint",
    ),
    OpInfo(
        name="clip",
        family="elementwise",
        params=(X, Param("a_min", "tensor", None), Param("a_max", "tensor", None)),
        definition=_clip,
        doc="Limit values to [a_min, a_max]; NaN stays.",
        spellings=(_CLIP,),
        flops=_flops(2.0),
        fuse="elementwise",
        policy=3,
        gradient="g * ((x >= a_min) & (x <= a_max))",
    ),
    OpInfo(
        name="clip_method",
        family="elementwise",
        params=(X, Param("min", "tensor", None), Param("max", "tensor", None)),
        definition=_clip_method,
        doc="The method `x.clip(min, max)`.",
        spellings=(Spelling("numpy.ndarray.clip", "min=None, max=None", kind="method"),),
        flops=_flops(2.0),
        fuse="elementwise",
        policy=3,
        gradient="g * ((x >= min) & (x <= max))",
        fp_name="clip",
    ),
)

_COMPARE = tuple(
    binary(name, doc, syntax=syntax, scalar=function, dtype_rule="bool")
    for name, doc, syntax, function in (
        ("equal", "x == y.", "Eq", operator.eq),
        ("not_equal", "x != y.", "NotEq", operator.ne),
        ("less", "x < y.", "Lt", operator.lt),
        ("less_equal", "x <= y.", "LtE", operator.le),
        ("greater", "x > y.", "Gt", operator.gt),
        ("greater_equal", "x >= y.", "GtE", operator.ge),
    )
)

_LOGIC = (
    binary("logical_and", "Truth of both.", dtype_rule="bool"),
    binary("logical_or", "Truth of either.", dtype_rule="bool"),
    binary("logical_xor", "Truth of exactly one.", dtype_rule="bool"),
    unary("logical_not", "Truth of neither.", dtype_rule="bool"),
    binary("bitwise_and", "Bits set in both.", syntax="BitAnd", scalar=operator.and_),
    binary("bitwise_or", "Bits set in either.", syntax="BitOr", scalar=operator.or_),
    binary("bitwise_xor", "Bits set in exactly one.", syntax="BitXor", scalar=operator.xor),
    unary("invert", "All bits flipped.", aliases=("bitwise_not",), syntax="Invert", scalar=operator.invert),
    binary("left_shift", "Bits moved up.", syntax="LShift", scalar=operator.lshift),
    binary("right_shift", "Bits moved down.", syntax="RShift", scalar=operator.rshift),
    unary("isnan", "True where NaN.", dtype_rule="bool"),
    unary("isinf", "True where infinite.", dtype_rule="bool"),
    unary("isfinite", "True where neither infinite nor NaN.", dtype_rule="bool"),
)

_CHOICE = (
    OpInfo(
        name="where",
        family="elementwise",
        params=(Param("condition", "tensor"), X, Y),
        definition=_where,
        doc="x where the condition holds, else y.",
        spellings=(Spelling("numpy.where", "condition, x, y, /"),),
        flops=_flops(1.0),
        fuse="elementwise",
        policy=3,
        gradient="; where(condition, g, 0); where(condition, 0, g)",
    ),
    OpInfo(
        name="astype",
        family="elementwise",
        params=(X, Param("dtype"), Param("order", default="K"), Param("casting", default="unsafe"), Param("copy", default=True)),
        definition=_astype,
        doc="The method `x.astype(dtype)`.",
        spellings=(Spelling("numpy.ndarray.astype", "dtype, order='K', casting='unsafe', *, copy=True", kind="method"),),
        dtype_rule="attr",
        fuse="elementwise",
        policy=3,
        gradient="cast(g, x.dtype)",
        fp_name="cast",
    ),
    OpInfo(
        name="cast",
        family="elementwise",
        params=(X, Param("dtype")),
        definition=_cast,
        doc="A copy of x with another element type.",
        spellings=(Spelling("bcvm_core.ops.cast", "x, dtype"),),
        dtype_rule="attr",
        fuse="elementwise",
        policy=3,
        gradient="cast(g, x.dtype)",
        fp_name="cast",
    ),
)

_TRANSCENDENTAL = (
    canonical("exp", "e to the power x.", gradient="g * out"),
    canonical("exp2", "2 to the power x.", gradient="g * out * 0.6931471805599453"),
    canonical("expm1", "exp(x) - 1, exact near 0.", gradient="g * (out + 1)"),
    canonical("log", "Natural logarithm.", gradient="g / x"),
    canonical("log2", "Logarithm to base 2.", gradient="g * 1.4426950408889634 / x"),
    canonical("log10", "Logarithm to base 10.", gradient="g * 0.4342944819032518 / x"),
    canonical("log1p", "log(1 + x), exact near 0.", gradient="g / (1 + x)"),
    canonical("sin", "Sine of an angle in radians.", gradient="g * cos(x)"),
    canonical("cos", "Cosine of an angle in radians.", gradient="-g * sin(x)"),
    canonical("tanh", "Hyperbolic tangent.", policy=1, gradient="g * (1 - out * out)"),
    unary("tan", "Tangent.", dtype_rule="float", gradient="g * (1 + out * out)", flops=25),
    unary("arcsin", "Inverse sine.", dtype_rule="float", gradient="g / sqrt(1 - x * x)", flops=25),
    unary("arccos", "Inverse cosine.", dtype_rule="float", gradient="-g / sqrt(1 - x * x)", flops=25),
    unary("arctan", "Inverse tangent.", dtype_rule="float", gradient="g / (1 + x * x)", flops=25),
    unary("sinh", "Hyperbolic sine.", dtype_rule="float", gradient="g * cosh(x)", flops=25),
    unary("cosh", "Hyperbolic cosine.", dtype_rule="float", gradient="g * sinh(x)", flops=25),
    unary("arcsinh", "Inverse hyperbolic sine.", dtype_rule="float", gradient="g / sqrt(x * x + 1)", flops=25),
    unary("arccosh", "Inverse hyperbolic cosine.", dtype_rule="float", gradient="g / sqrt(x * x - 1)", flops=25),
    unary("arctanh", "Inverse hyperbolic tangent.", dtype_rule="float", gradient="g / (1 - x * x)", flops=25),
)

ROWS: tuple[OpInfo, ...] = _ARITHMETIC + _COMPARE + _LOGIC + _CHOICE + _TRANSCENDENTAL
