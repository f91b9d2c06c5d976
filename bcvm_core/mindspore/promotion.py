"""MindSpore's element-type rules, read off MindSpore 2.10 for every pair of types (tests compare them again).

The lattice: bool below everything; integers widen (uint8 with int8 gives int16, uint16 and wider
unsigned types mix with nothing but bool and themselves); floats beat integers and keep their width,
float16 with bfloat16 gives float32; complex beats floats. A Python int keeps the tensor's type (a
bool tensor becomes int64), a Python float is a float32 number: it keeps float and complex tensors
and turns integers into float32. Values never matter. In products, quotients and (on the right) fmod
a 0-d tensor of the wider type of its kind takes the other operand's type; elsewhere 0-d tensors are
like others.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ops.registry import OpInfo

_SIGNED = ("bool", "int8", "int16", "int32", "int64")
_FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
_ALONE = frozenset(("uint16", "uint32", "uint64"))
_TABLE: dict[tuple[str, str], str | None] = {}


def _meet(a: str, b: str) -> str | None:
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    if a in _ALONE or b in _ALONE:
        return None
    if a in _FLOATS and b in _FLOATS:
        pair = {a, b}
        if pair == {"float16", "bfloat16"}:
            return "float32"
        if pair == {"float64", "complex64"}:
            return "complex128"
        return max(a, b, key=_FLOATS.index)
    if a in _FLOATS or b in _FLOATS:
        return a if a in _FLOATS else b
    if "uint8" in (a, b):
        other = b if a == "uint8" else a
        return "int16" if other == "int8" else other
    return max(a, b, key=_SIGNED.index)


def promote(a: str, b: str) -> str | None:
    """The type in which MindSpore combines two tensors' types; None where it refuses."""
    key = (a, b)
    if key not in _TABLE:
        _TABLE[key] = _meet(a, b)
    return _TABLE[key]


def gives_way(weak: str, other: str) -> bool:
    """Whether a 0-d operand of type `weak` takes the type `other` in a product: both integers or both floats, `weak` the wider."""
    kinds = {_kind(weak), _kind(other)}
    return weak != other and promote(weak, other) == weak and kinds in ({"int"}, {"float"})


def _kind(dtype: str) -> str:
    if is_float(dtype):
        return "float"
    return "int" if dtype in _SIGNED[1:] or dtype == "uint8" else ""


def with_scalar(dtype: str, scalar: type) -> str | None:
    """The type in which MindSpore combines a tensor with a Python number of type `scalar`; None where it refuses."""
    if scalar is bool:
        return dtype
    if dtype in _ALONE or scalar is complex:
        return None
    if scalar is int:
        return "int64" if dtype == "bool" else dtype
    return dtype if dtype in _FLOATS else "float32"


def is_float(dtype: str) -> bool:
    """Real floating-point types."""
    return dtype in _FLOATS[:4]


def is_complex(dtype: str) -> bool:
    """Complex types."""
    return dtype in _FLOATS[4:]


def as_float(dtype: str) -> str:
    """The type of a function that computes in floats: integers and bool become float32."""
    return dtype if dtype in _FLOATS else "float32"


def sum_type(dtype: str) -> str:
    """The type of a sum or product: small integers and bool accumulate in int64."""
    return "int64" if dtype in _SIGNED or dtype == "uint8" else dtype


@dataclass(frozen=True, slots=True)
class Rule:
    """How an op treats element types.

    operands  "promote"  tensors and scalars meet in the lattice
              "float"    the same, and integers become float32
              "equal"    all tensors must have one type already
              "equal_float"  the same, and it must be a real float
              "any"      each operand keeps its type
    result    "operands" (the type of the operands after the step above), "bool", "int64", "int32",
              "keep" (whatever comes out)
    complex   whether complex operands are taken; else they are left to MindSpore
    apart     whether complex and real tensors do not meet
    weak      operands ("both", "second") whose type gives way when they are 0-d and the other is not
    """

    operands: str
    result: str = "operands"
    complex: bool = False
    weak: str = ""
    apart: bool = False


ARITHMETIC = Rule("promote", complex=True)
PRODUCTS = Rule("promote", complex=True, weak="both", apart=True)
QUOTIENT = Rule("float", complex=True, weak="both", apart=True)
C_REMAINDER = Rule("promote", weak="second")
ROUNDED_QUOTIENT = Rule("promote", weak="both")
DOUBLE = Rule("promote", "float64")
ORDERED = Rule("promote")  # no complex numbers
FLOAT_ARITHMETIC = Rule("float", complex=True)
FLOAT = Rule("float")
COMPARE = Rule("promote", "bool")
EQUALITY = Rule("promote", "bool", complex=True)
TRUTH = Rule("any", "bool", complex=True)
REAL_TRUTH = Rule("any", "bool")
MOVE = Rule("any", "keep", complex=True)
REAL_MOVE = Rule("any", "keep")
JOIN = Rule("equal", complex=True)
PRODUCT = Rule("equal")
NETWORK = Rule("equal_float")
INDEX = Rule("any", "int64")

_BY_RULE: dict[Rule, str] = {
    ARITHMETIC: "add add_scaled subtract subtract_scaled where negative square positive",
    PRODUCTS: "multiply",
    QUOTIENT: "divide",
    C_REMAINDER: "fmod",
    ROUNDED_QUOTIENT: "divide_rounded",
    DOUBLE: "float_power",
    ORDERED: (
        "floor_divide remainder power pow maximum minimum fmax fmin bitwise_and bitwise_or bitwise_xor abs absolute sign "
        "floor ceil trunc rint round clip clip_method relu relu6 max min ptp gcd lcm frac threshold squared_difference"
    ),
    FLOAT_ARITHMETIC: "reciprocal",
    FLOAT: (
        "arctan2 hypot copysign logaddexp fabs sqrt cbrt degrees radians exp exp2 expm1 log log2 log10 log1p sin cos tanh tan "
        "arcsin arccos arctan sinh cosh arcsinh arccosh arctanh rsqrt softsign elu gelu softplus sigmoid silu logsigmoid mish erf "
        "erfc logaddexp2 erfinv sinc logit xlogy divide_no_nan lerp addcmul addcdiv"
    ),
    COMPARE: "less less_equal greater greater_equal is_close",
    EQUALITY: "equal not_equal",
    TRUTH: "logical_and logical_or logical_xor logical_not isnan signbit is_neg_inf is_pos_inf any all",
    REAL_TRUTH: "isinf isfinite",
    REAL_MOVE: "triu tril channel_shuffle diff",
    MOVE: "real_part imag_part fold unfold pixel_shuffle pixel_unshuffle",
    JOIN: "concatenate stack vstack hstack dstack column_stack add_all",
    PRODUCT: "bias_add matmul dot inner outer bmm linear vdot tensordot kron addmm addmv addr addbmm baddbmm",
    NETWORK: (
        "leaky_relu hardsigmoid hardswish hardtanh softmax log_softmax logsumexp layer_norm group_norm batch_norm "
        "rms_norm conv1d conv2d avg_pool2d adaptive_avg_pool2d attention interpolate mse_loss "
        "l1_loss smooth_l1_loss binary_cross_entropy bce_with_logits trace nansum "
        "prelu selu celu glu softshrink hardshrink tanhshrink conv3d conv_transpose1d conv_transpose2d instance_norm grid_sample "
        "avg_pool1d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool3d normalize cosine_similarity pairwise_distance cdist "
        "kl_div huber_loss soft_margin_loss hinge_embedding_loss triplet_margin_loss poisson_nll_loss gaussian_nll_loss histc inverse "
        "affine_grid lp_pool1d lp_pool2d lp_pool3d det solve cholesky qr conv2d_input l2_normalize "
        "conv_transpose3d conv_tbc fast_gelu local_response_norm softmax_cross_entropy l2_loss"
    ),
    INDEX: "argwhere",
}
RULES: dict[str, Rule] = {name: rule for rule, names in _BY_RULE.items() for name in names.split()}
"""Rules by op; ops without one follow from their row (`rule_of`)."""


def rule_of(op: OpInfo) -> Rule | None:
    """The rule of an op; None: MindSpore's types for it are not known, it is left to MindSpore."""
    found = RULES.get(op.name)
    if found is None and op.family == "shape" and op.dtype_rule == "same" and op.shape_rule in ("view", "same", "other"):
        return MOVE
    return found
