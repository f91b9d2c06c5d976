"""Every function of `mindspore.mint` and `mint.nn.functional` with a call, and what becomes of the call on the CPU.

A line is ``function = call | why not``: a function, a call of it (with `mint`, `F`, and the tensors of
`operands()`), and where BCVM leaves it to MindSpore, the reason. `REFUSED` names the functions whose call
MindSpore 2.10's CPU build does not run. Tests run every call both ways and hold the results against NumPy
in float64; the documentation's table is made from this one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

CALLS = """
abs = mint.abs(x)
acos = mint.acos(u)
acosh = mint.acosh(p + 1)
add = mint.add(x, y, alpha=0.5)
addbmm = mint.addbmm(q, b1, b2, beta=0.5, alpha=2)
addcdiv = mint.addcdiv(x, y, p, value=0.5)
addmm = mint.addmm(q, x, w, beta=0.5, alpha=2)
addmv = mint.addmv(r, x, v, beta=0.5, alpha=2)
addr_ = mint.addr_(x.copy(), r, v)
all = mint.all(m, 1)
allclose = mint.allclose(x, x)
amax = mint.amax(x, 1)
amin = mint.amin(x, (0, 1), True)
any = mint.any(m, 0)
arange = mint.arange(1, 9, 2)
arccos = mint.arccos(u)
arccosh = mint.arccosh(p + 1)
arcsin = mint.arcsin(u)
arcsinh = mint.arcsinh(x)
arctan = mint.arctan(x)
arctan2 = mint.arctan2(x, y)
arctanh = mint.arctanh(u / 2)
argmax = mint.argmax(x, 1)
argmin = mint.argmin(x, dim=0, keepdim=True)
argsort = mint.argsort(x, 1, True)
asin = mint.asin(u)
asinh = mint.asinh(x)
atan = mint.atan(x)
atan2 = mint.atan2(x, y)
atanh = mint.atanh(u / 2)
baddbmm = mint.baddbmm(b3, b1, b2, beta=0.5, alpha=2)
batch_norm_elemt = mint.batch_norm_elemt(im, g4, g4, g4, p4) | a step of synchronised batch normalisation
batch_norm_gather_stats_with_counts = mint.batch_norm_gather_stats_with_counts(im, q, q) | a step of synchronised batch normalisation
batch_norm_stats = mint.batch_norm_stats(im, 1e-5) | a step of synchronised batch normalisation
bernoulli = mint.bernoulli(u)
bincount = mint.bincount(c, minlength=6)
bitwise_and = mint.bitwise_and(i, j)
bitwise_not = mint.bitwise_not(i)
bitwise_or = mint.bitwise_or(i, j)
bitwise_xor = mint.bitwise_xor(i, j)
bmm = mint.bmm(b1, b2)
broadcast_to = mint.broadcast_to(v, (3, 4))
cat = mint.cat((x, y), dim=1)
cdist = mint.cdist(x, y)
ceil = mint.ceil(x)
chunk = mint.chunk(x, 3, dim=1)
clamp = mint.clamp(x, -0.5, 0.5)
clip = mint.clip(x, min=0.0)
clone = mint.clone(x)
concat = mint.concat((x, y))
conv2d = mint.conv2d(im, k, padding=1)
cos = mint.cos(x)
cosh = mint.cosh(x)
count_nonzero = mint.count_nonzero(i, 1)
cross = mint.cross(t3, t3 * 2 + 1, dim=1)
cummax = mint.cummax(x, 1)
cummin = mint.cummin(x, 1)
cumprod = mint.cumprod(x, 1)
cumsum = mint.cumsum(x, 1)
diag = mint.diag(v, 1)
diff = mint.diff(x, 1, 1)
div = mint.div(x, p)
divide = mint.divide(x, p, rounding_mode='floor')
dot = mint.dot(v, v)
dstack = mint.dstack((x, y))
einsum = mint.einsum('ij,kj->ik', x, y)
empty = mint.empty((2, 3))
empty_like = mint.empty_like(x)
eq = mint.eq(i, j)
equal = mint.equal(x, x)
erf = mint.erf(x)
erfc = mint.erfc(x)
erfinv = mint.erfinv(u)
exp = mint.exp(x)
exp2 = mint.exp2(x)
expm1 = mint.expm1(x)
eye = mint.eye(3, 4)
fix = mint.fix(x * 3)
flatten = mint.flatten(im, 1, 2)
flip = mint.flip(x, (0, 1))
float_power = mint.float_power(p, x)
floor = mint.floor(x)
floor_divide = mint.floor_divide(x, p)
fmod = mint.fmod(x, p)
frac = mint.frac(x * 3)
full = mint.full((2, 3), 1.5)
full_like = mint.full_like(x, 2)
gather = mint.gather(x, 1, n4)
gcd = mint.gcd(i, j)
ge = mint.ge(i, j)
greater = mint.greater(x, y)
greater_equal = mint.greater_equal(x, y)
gt = mint.gt(x, y)
histc = mint.histc(x, 4, -1.0, 1.0)
hstack = mint.hstack((x, y))
imag = mint.imag(z)
index_add = mint.index_add(x, 0, e, y[:2])
index_select = mint.index_select(x, 1, e)
inverse = mint.inverse(sq)
isclose = mint.isclose(x, y)
isfinite = mint.isfinite(s)
isinf = mint.isinf(s)
isnan = mint.isnan(s)
isneginf = mint.isneginf(s)
kthvalue = mint.kthvalue(x, 2, 1)
le = mint.le(x, y)
lerp = mint.lerp(x, y, 0.25)
less = mint.less(x, y)
less_equal = mint.less_equal(x, y)
linspace = mint.linspace(0, 1, 5)
log = mint.log(p)
log10 = mint.log10(p)
log1p = mint.log1p(p)
log2 = mint.log2(p)
logaddexp = mint.logaddexp(x, y)
logaddexp2 = mint.logaddexp2(x, y)
logical_and = mint.logical_and(m, m)
logical_not = mint.logical_not(m)
logical_or = mint.logical_or(m, m)
logical_xor = mint.logical_xor(m, m)
logsumexp = mint.logsumexp(x, 1)
lt = mint.lt(x, y)
masked_select = mint.masked_select(x, m)
matmul = mint.matmul(x, w)
max = mint.max(x)
maximum = mint.maximum(x, y)
mean = mint.mean(x, 1)
median = mint.median(x, 1)
meshgrid = mint.meshgrid(v, r)
min = mint.min(x, 1)
minimum = mint.minimum(x, y)
mm = mint.mm(x, w)
mul = mint.mul(x, y)
multinomial = mint.multinomial(p, 3)
mv = mint.mv(x, v)
nan_to_num = mint.nan_to_num(s, nan=0.5, posinf=9.0, neginf=-9.0)
nansum = mint.nansum(s[:2])
narrow = mint.narrow(x, 1, 1, 2)
ne = mint.ne(i, j)
neg = mint.neg(x)
negative = mint.negative(x)
nonzero = mint.nonzero(m)
norm = mint.norm(x)
normal = mint.normal(0.0, 1.0, (2, 3))
not_equal = mint.not_equal(x, y)
ones = mint.ones((2, 3))
ones_like = mint.ones_like(x)
outer = mint.outer(v, r)
permute = mint.permute(im, (0, 2, 3, 1))
polar = mint.polar(p, x)
pow = mint.pow(p, x)
prod = mint.prod(x, 1)
rand = mint.rand(2, 3)
rand_like = mint.rand_like(x)
randint = mint.randint(0, 9, (2, 3))
randint_like = mint.randint_like(x, 0, 9)
randn = mint.randn(2, 3)
randn_like = mint.randn_like(x)
randperm = mint.randperm(9)
ravel = mint.ravel(x)
real = mint.real(z)
reciprocal = mint.reciprocal(p)
remainder = mint.remainder(x, p)
repeat_interleave = mint.repeat_interleave(x, 2, 1)
reshape = mint.reshape(x, (2, 6))
roll = mint.roll(x, 1, 1)
round = mint.round(x * 3)
rsqrt = mint.rsqrt(p)
scatter = mint.scatter(x, 0, n4[:2] % 3, y)
scatter_add = mint.scatter_add(x, 0, n4[:2] % 3, y)
searchsorted = mint.searchsorted(ordered, v)
select = mint.select(x, 1, -1)
sigmoid = mint.sigmoid(x)
sign = mint.sign(x)
sin = mint.sin(x)
sinc = mint.sinc(x)
sinh = mint.sinh(x)
softmax = mint.softmax(x, 1)
sort = mint.sort(x, dim=1)
split = mint.split(x, 2, 1)
sqrt = mint.sqrt(p)
square = mint.square(x)
squeeze = mint.squeeze(x[None], 0)
stack = mint.stack((x, y), 1)
std = mint.std(x, 1)
std_mean = mint.std_mean(x, 1)
sub = mint.sub(x, y)
sum = mint.sum(x, 1)
swapaxes = mint.swapaxes(x, 0, 1)
t = mint.t(x)
take = mint.take(x, e)
tan = mint.tan(x)
tanh = mint.tanh(x)
tile = mint.tile(x, (2, 1))
topk = mint.topk(x, 2, 1)
trace = mint.trace(sq)
transpose = mint.transpose(x, 0, 1)
triangular_solve = mint.triangular_solve(sq, sq)
tril = mint.tril(x, -1)
triu = mint.triu(x, 1)
trunc = mint.trunc(x * 3)
unbind = mint.unbind(x, 1)
unique = mint.unique(c)
unique_consecutive = mint.unique_consecutive(c)
unsqueeze = mint.unsqueeze(x, 1)
var = mint.var(x, 1)
var_mean = mint.var_mean(x, 1)
vdot = mint.vdot(v, v)
where = mint.where(m, x, y)
xlogy = mint.xlogy(x, p)
zeros = mint.zeros((2, 3))
zeros_like = mint.zeros_like(x)
conv_tbc = mint.conv_tbc(seq.transpose(2, 0, 1), k1.transpose(2, 1, 0), g3, 1)
npu_gelu = mint.npu_gelu(x)
"""

FUNCTIONAL_CALLS = """
adaptive_avg_pool1d = F.adaptive_avg_pool1d(seq, 4)
adaptive_avg_pool2d = F.adaptive_avg_pool2d(im, (2, 3))
adaptive_avg_pool3d = F.adaptive_avg_pool3d(vol, 2)
adaptive_max_pool1d = F.adaptive_max_pool1d(seq, 4)
adaptive_max_pool2d = F.adaptive_max_pool2d(im, (2, 3), True)
avg_pool1d = F.avg_pool1d(seq, 3, 2, 1)
avg_pool2d = F.avg_pool2d(im, 2, 2, 1, count_include_pad=False)
avg_pool3d = F.avg_pool3d(vol, 2)
batch_norm = F.batch_norm(im, g4, p4, p4, g4)
binary_cross_entropy = F.binary_cross_entropy(p / 3, p / 4)
binary_cross_entropy_with_logits = F.binary_cross_entropy_with_logits(x, p / 3, pos_weight=v)
conv1d = F.conv1d(seq, k1, padding=1)
conv2d = F.conv2d(im, k, g3, 2, 1)
conv3d = F.conv3d(vol, k3)
conv_transpose2d = F.conv_transpose2d(im, kt, None, 2, 1, 1)
cosine_embedding_loss = F.cosine_embedding_loss(x, y, o, 0.25)
cross_entropy = F.cross_entropy(x, c3)
dropout = F.dropout(x, 0.5)
dropout2d = F.dropout2d(im, 0.5)
elu = F.elu(x, 0.5)
elu_ = F.elu_(x.copy())
embedding = F.embedding(e, y, 1)
flatten = F.flatten(im, 1)
fold = F.fold(cols, (3, 4), 2)
gelu = F.gelu(x)
glu = F.glu(x)
grid_sample = F.grid_sample(im, grid, align_corners=True)
group_norm = F.group_norm(im, 2, g4, g4)
hardtanh = F.hardtanh(x, -0.5, 0.5)
hardtanh_ = F.hardtanh_(x.copy())
interpolate = F.interpolate(im, scale_factor=(2.0, 2.0), mode='bilinear')
kl_div = F.kl_div(x, p, 'sum')
l1_loss = F.l1_loss(x, y)
layer_norm = F.layer_norm(x, (4,), v, v)
leaky_relu = F.leaky_relu(x, 0.2)
linear = F.linear(x, y, r)
log_softmax = F.log_softmax(x, 1)
logsigmoid = F.logsigmoid(x)
max_pool2d = F.max_pool2d(im, 2, 2, 1, 1, True, True)
max_unpool2d = F.max_unpool2d(im[:, :, :3, :3], spots, 2)
mse_loss = F.mse_loss(x, y)
nll_loss = F.nll_loss(x, c3, p4)
normalize = F.normalize(x)
one_hot = F.one_hot(c3, 5)
pad = F.pad(x, (1, 2), 'constant', 1.5)
pixel_shuffle = F.pixel_shuffle(im, 2)
prelu = F.prelu(im, p4)
relu = F.relu(x)
relu6 = F.relu6(x * 9)
relu_ = F.relu_(x.copy())
selu = F.selu(x)
sigmoid = F.sigmoid(x)
sigmoid_ = F.sigmoid_(x.copy())
silu = F.silu(x)
smooth_l1_loss = F.smooth_l1_loss(x, y, beta=0.5)
soft_margin_loss = F.soft_margin_loss(x, sg)
softmax = F.softmax(x, 1)
softplus = F.softplus(x)
softshrink = F.softshrink(x)
hardshrink = F.hardshrink(x)
hardsigmoid = F.hardsigmoid(x)
hardswish = F.hardswish(x)
mish = F.mish(x)
tanh = F.tanh(x)
threshold = F.threshold(x, 0.1, 9.0)
threshold_ = F.threshold_(x.copy(), 0.1, 9.0)
unfold = F.unfold(im, 2)
upsample = F.upsample(im, (7, 3))
"""

LINALG_CALLS = """
inv = mint.linalg.inv(sq)
matrix_norm = mint.linalg.matrix_norm(x)
norm = mint.linalg.norm(x)
qr = mint.linalg.qr(sq)
vector_norm = mint.linalg.vector_norm(x, 3, 1)
"""

SPECIAL_CALLS = """
erfc = mint.special.erfc(x)
exp2 = mint.special.exp2(x)
expm1 = mint.special.expm1(x)
log1p = mint.special.log1p(p)
log_softmax = mint.special.log_softmax(x, 1)
round = mint.special.round(x * 3)
sinc = mint.special.sinc(x)
"""


# The calls that MindSpore's CPU build refuses: no kernel, or an error of its own.
REFUSED = {
    "mint": """
        acos acosh addbmm addcdiv addmm addmv addr_ arange arccos arccosh arcsin arcsinh arctan arctan2 argmax argmin argsort
        asin asinh atan atan2 baddbmm batch_norm_elemt batch_norm_gather_stats_with_counts batch_norm_stats bernoulli
        bincount bitwise_not bitwise_or bitwise_xor clone conv2d count_nonzero cummin cumsum diag dot einsum equal exp2 frac
        full full_like histc index_add index_select inverse isneginf kthvalue linspace log10 log2 logaddexp logaddexp2
        logsumexp median mm multinomial mv norm normal ones_like outer rand rand_like randint randint_like randn randn_like
        randperm repeat_interleave roll scatter scatter_add sort stack std std_mean take topk trace triangular_solve tril
        unique var var_mean vdot zeros_like conv_tbc npu_gelu
    """,
    "mint.nn.functional": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d avg_pool1d avg_pool2d avg_pool3d
        batch_norm conv1d conv2d conv3d conv_transpose2d cosine_embedding_loss cross_entropy dropout dropout2d elu elu_
        embedding fold gelu hardtanh hardtanh_ interpolate kl_div l1_loss layer_norm leaky_relu log_softmax logsigmoid
        max_pool2d max_unpool2d mse_loss normalize one_hot pad relu6 relu_ selu sigmoid_ soft_margin_loss mish threshold
        threshold_ unfold
    """,
    "mint.linalg": """
        inv matrix_norm norm qr vector_norm
    """,
    "mint.special": """
        exp2 log_softmax
    """,
}

TABLES = {"mint": CALLS, "mint.nn.functional": FUNCTIONAL_CALLS, "mint.linalg": LINALG_CALLS, "mint.special": SPECIAL_CALLS}


def operands() -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that the calls name; float32 where nothing else is said."""
    rng = np.random.default_rng(20)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    def positive(*shape: int) -> Any:
        return rng.uniform(0.2, 2.0, shape).astype(np.float32)

    integers = rng.integers(0, 9, (2, 3, 4))
    return {
        "x": normal(3, 4), "y": normal(3, 4), "p": positive(3, 4), "u": positive(3, 4) / np.float32(2.5), "w": normal(4, 5),
        "q": normal(3, 5), "r": normal(3), "v": normal(4), "i": integers[0], "j": integers[1], "m": normal(3, 4) > 0,
        "c": np.array([1, 1, 4, 0, 0, 0, 1]), "c3": np.array([1, 3, 0]), "e": np.array([2, 0]), "n4": np.array([[3, 0], [1, 1], [2, 3]]),
        "o": np.array([1, -1, 1]), "sg": np.where(normal(3, 4) > 0, 1, -1).astype(np.float32), "t3": normal(2, 3, 2),
        "b1": normal(2, 3, 4), "b2": normal(2, 4, 5), "b3": normal(2, 3, 5), "sq": normal(3, 3) + 3 * np.eye(3, dtype=np.float32),
        "s": np.array([1, np.nan, np.inf, -np.inf, -0.0], np.float32), "z": (normal(3) + 1j * normal(3)).astype(np.complex64),
        "ordered": np.sort(normal(6)), "im": normal(2, 4, 6, 6), "seq": normal(2, 4, 9), "vol": normal(2, 2, 4, 4, 4),
        "k": normal(3, 4, 3, 3),
        "k1": normal(3, 4, 3), "k3": normal(3, 2, 2, 2, 2), "kt": normal(4, 3, 3, 3), "g3": normal(3), "g4": normal(4), "p4": positive(4),
        "cols": normal(2, 8, 6), "grid": (rng.random((2, 3, 5, 2)) * 2 - 1).astype(np.float32),
        "spots": np.broadcast_to((np.arange(3)[:, None] * 12 + np.arange(3) * 2), (2, 4, 3, 3)).copy(),
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One function: `module` below mindspore, `call` as a user writes it, `why` BCVM does not run it ("": it does)."""

    module: str
    name: str
    call: str
    why: str
    refused: bool  # MindSpore's own CPU build does not run the call


def entries() -> list[Entry]:
    """All lines of the table."""
    found = []
    for module, calls in TABLES.items():
        refused = set(REFUSED[module].split())
        for line in calls.strip().splitlines():
            name, call, why = re.fullmatch(r"(\w+) = (.+?)(?: \| (.+))?", line).groups()  # type: ignore[union-attr]
            found.append(Entry(module, name, call, why or "", name in refused))
    return found


def as_markdown() -> str:
    """The table for the documentation, with its sums."""
    every = entries()
    runs, gained = sum(not e.why for e in every), sum(e.refused and not e.why for e in every)
    out = [
        f"{len(every)} functions: {runs} run in BCVM, {gained} of them without a CPU kernel in MindSpore's own build.",
        "",
        "| function | call | BCVM | MindSpore 2.10, CPU |",
        "| --- | --- | --- | --- |",
    ]
    for e in every:
        ours = "runs" if not e.why else e.why
        out.append(f"| `{e.module}.{e.name}` | `{e.call}` | {ours} | {'no kernel' if e.refused else 'runs'} |")
    return "\n".join(out)
