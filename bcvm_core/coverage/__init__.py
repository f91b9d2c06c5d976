"""Which ops there are, at which doors, with which parameters: the data and the reader behind the page "Op coverage".

`FAMILIES` names what public MindSpore model code uses most. A name that a library has at one of the
`DOORS` is spelled in the op table, or `LEFT_NAMES` says why not; a parameter that the library's
callable has is canonical, renamed, or stands in `LEFT_PARAMETERS` with the reason. Calls that use
such a name or parameter run as plain Python. Tests hold this against the installed libraries.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass

from ..ops import public, registry
from ..ops.registry import OpInfo, Spelling
from .reasons import LEFT_NAMES, LEFT_PARAMETERS, UFUNC_PARAMETERS

DOORS = {
    "numpy": "NumPy",
    "numpy.linalg": "NumPy",
    "numpy.ndarray": "ndarray",
    "operator": "operator",
    "builtins": "builtin",
    "math": "builtin",
    "bcvm_core.ops": "bcvm.ops",
    "mindspore.ops": "mindspore.ops",
    "mindspore.numpy": "mindspore.numpy",
    "mindspore.mint": "mint",
    "mindspore.mint.linalg": "mint",
    "mindspore.mint.special": "mint",
    "mindspore.mint.nn.functional": "mint.nn.functional",
    "mindspore.Tensor": "Tensor",
}
"""Owner of a spelling -> its column of the page."""

_FAMILIES = """
shape: reshape | concatenate concat cat | transpose t | stack | split | tile | expand_dims unsqueeze | gather take | strided_slice
| broadcast_to expand expand_as broadcast_arrays | squeeze | view view_as | flatten ravel | permute | swapaxes swapdims | chunk
| repeat_interleave repeat | pad | gather_nd | gather_elements gather_d take_along_axis | index_select | masked_select
| nonzero argwhere flatnonzero | meshgrid | unbind | unstack | narrow | scatter_add | select | triu | tril | roll | flip flipud fliplr
| moveaxis movedim | scatter | scatter_nd | index_add | diagonal diag | hstack vstack dstack column_stack | array_split hsplit vsplit dsplit
| rot90 | clone copy
create: zeros | ones | empty | zeros_like | ones_like | empty_like | arange | full | full_like | eye identity | linspace | one_hot
binary: mul multiply | add | sub subtract | div divide true_divide | pow power float_power | maximum | minimum | floor_divide floor_div
| remainder mod floor_mod fmod | atan2 arctan2 | logaddexp logaddexp2 | hypot | fmax fmin | lerp | xlogy | copysign
unary: sigmoid | log | exp | sqrt | square | abs absolute fabs | sin | cos | tan | tanh | sinh cosh | round rint around | rsqrt
| neg negative | floor | ceil | sign | erf erfc | log2 log10 log1p | expm1 exp2 | atan arctan asin arcsin acos arccos
| asinh arcsinh acosh arccosh atanh arctanh | clamp clip | reciprocal | trunc fix | isnan isinf isfinite | nan_to_num | erfinv
logic: logical_and | logical_or | logical_not | logical_xor | eq equal | ne not_equal | lt less | le less_equal | gt greater
| ge greater_equal | where | masked_fill | all | any | bitwise_and | bitwise_or | bitwise_xor | bitwise_not invert
| bitwise_left_shift left_shift | bitwise_right_shift right_shift | isclose allclose array_equal
reduce: sum nansum | mean nanmean | max | min | prod | argmax | argmin | cumsum | cumprod | cummax cummin | norm | var | std
| amax amin | logsumexp | sort | topk | argsort | unique | count_nonzero | ptp | median | searchsorted | bincount | var_mean std_mean
matmul: matmul mm | bmm | dense linear | einsum | outer | dot | tensordot | mv | inner vdot | addmm | baddbmm addbmm addmv
| trace | kron
nn: conv1d | conv2d | conv3d | batch_norm | layer_norm | group_norm | rms_norm | instance_norm | max_pool2d max_pool1d max_pool3d
| avg_pool2d avg_pool1d avg_pool3d | adaptive_avg_pool2d adaptive_avg_pool1d adaptive_avg_pool3d
| adaptive_max_pool2d adaptive_max_pool1d adaptive_max_pool3d | conv_transpose2d conv2d_transpose conv_transpose1d
| interpolate upsample | embedding | pixel_shuffle | unfold fold | grid_sample | normalize
activations: relu | softmax | gelu | silu | log_softmax | hardswish hswish | leaky_relu | relu6 | elu | selu | celu | softplus | softsign
| hardsigmoid | hardtanh | mish | prelu | glu | logsigmoid | softshrink hardshrink tanhshrink | threshold
losses: cross_entropy | binary_cross_entropy_with_logits bce_with_logits | binary_cross_entropy | mse_loss | l1_loss | smooth_l1_loss
| nll_loss | kl_div | huber_loss | cosine_similarity | cosine_embedding_loss | margin_ranking_loss | hinge_embedding_loss
| soft_margin_loss | triplet_margin_loss | gaussian_nll_loss
random: dropout | dropout2d | normal randn | uniform rand | multinomial | randint | randperm permutation | bernoulli
| standard_normal | rand_like randn_like randint_like
"""


def families() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Group -> its families, each with all the names that libraries give it."""
    groups: dict[str, list[str]] = {}
    for line in _FAMILIES.strip().splitlines():
        if not line.startswith("|"):
            group, _, line = line.partition(":")
            groups[group] = []
        groups[group].append(line)
    return {group: tuple(tuple(part.split()) for part in " ".join(lines).split("|") if part.strip()) for group, lines in groups.items()}


@dataclass(frozen=True, slots=True)
class Entry:
    """One callable (or attribute, or operator): where it belongs, its name, and its overloads in the order in which they are tried."""

    owner: str
    name: str
    kind: str
    overloads: tuple[tuple[OpInfo, Spelling], ...]

    @property
    def target(self) -> str:
        """The dotted name."""
        return f"{self.owner}.{self.name}"


def entries() -> list[Entry]:
    """Everything that is spelled, by the rows and by MindSpore's tables; no library is imported for it."""
    from ..mindspore import spellings

    pairs = [(row, spelling) for row in registry.rows() for spelling in row.spellings if not spelling.target.startswith("bcvm_core.")]
    pairs += public.listed()
    for owner, lines in spellings.tables().items():
        pairs += spellings.chains(lines, owner)
    return [_entry(row, spelling) for row, spelling in pairs]


def _entry(row: OpInfo, spelling: Spelling) -> Entry:
    owner, _, name = spelling.target.rpartition(".")
    return Entry(owner, name, spelling.kind, tuple(_chain(row, spelling)))


def _chain(row: OpInfo, spelling: Spelling) -> Iterator[tuple[OpInfo, Spelling]]:
    link: Spelling | None = spelling
    while link is not None:
        yield (registry.row(link.op) if link.op else row), link
        link = link.otherwise


def supported(entry: Entry) -> set[str]:
    """The parameters of a callable that reach its rows."""
    found = set()
    for row, spelling in entry.overloads:
        known = {p.name for p in row.params} | spelling.extra | spelling.only.keys()
        found |= {name for name in registry.parameter_names(spelling.signature) if spelling.rename.get(name, name) in known}
    return found


def reason_for_name(target: str) -> str | None:
    """Why a callable of a family is spelled nowhere."""
    return _reason(LEFT_NAMES, target)


def reason_for_parameter(target: str, parameter: str, ufunc: bool = False) -> str | None:
    """Why calls that pass this parameter run as plain Python."""
    found = _reason(LEFT_PARAMETERS, f"{target}({parameter})")
    return UFUNC_PARAMETERS.get(parameter) if found is None and ufunc else found


def _reason(table: dict[str, str], key: str) -> str | None:
    exact = table.get(key)
    if exact is not None:
        return exact
    return next((why for pattern, why in table.items() if fnmatch.fnmatchcase(key, pattern)), None)
