"""What the calls of `mint_table` come to in NumPy: float64 expressions and naive loops, written without the op table.

An entry is an expression over the operands (floats widened to float64). `...` stands for "random": only shape and
type can be said, by the function that follows in `RANDOM`.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def erf(x: Any) -> Any:
    return np.vectorize(math.erf)(x)


def inverse_of(function: Any, y: Any) -> Any:
    """The x between -9 and 9 with function(x) = y, by bisection."""
    low, high = np.full(np.shape(y), -9.0), np.full(np.shape(y), 9.0)
    for _ in range(200):
        middle = (low + high) / 2
        below = function(middle) < y
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gelu(x: Any) -> Any:
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def conv(x: Array, w: Array, bias: Any = 0.0, stride: int = 1, padding: int = 0) -> Array:
    """Cross-correlation over any number of axes, one output element after the other."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * rank)
    out = [(n - k) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *out))
    for n, o, *place in product(range(x.shape[0]), range(w.shape[0]), *map(range, out)):
        window = x[(n, slice(None), *(slice(p * stride, p * stride + k) for p, k in zip(place, w.shape[2:], strict=True)))]
        result[(n, o, *place)] = (window * w[o]).sum()
    return result + np.reshape(bias, [-1] + [1] * rank)


def conv_transpose(x: Array, w: Array, stride: int, padding: int, more: int) -> Array:
    """Each input element times the kernel, added up."""
    size = [(n - 1) * stride + k + more for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    result = np.zeros((x.shape[0], w.shape[1], *size))
    for n, c, i, j in product(*map(range, x.shape)):
        result[n, :, i * stride : i * stride + w.shape[2], j * stride : j * stride + w.shape[3]] += x[n, c, i, j] * w[c]
    return result[:, :, padding : size[0] - padding, padding : size[1] - padding]


def pool(x: Array, rank: int, kernel: int, stride: int, padding: int, function: Any, ceil: bool = False) -> Array:
    """`function` of the part of each window that lies inside the tensor."""
    size = x.shape[-rank:]
    count = [(math.ceil if ceil else math.floor)((n + 2 * padding - kernel) / stride) + 1 for n in size]
    count = [c - 1 if (c - 1) * stride >= n + padding else c for c, n in zip(count, size, strict=True)]
    result = np.zeros((*x.shape[:-rank], *count))
    for lead in product(*map(range, x.shape[:-rank])):
        for place in product(*map(range, count)):
            cut = tuple(slice(max(p * stride - padding, 0), p * stride - padding + kernel) for p in place)
            result[(*lead, *place)] = function(x[lead][cut])
    return result


def adaptive(x: Array, out: tuple[int, ...], function: Any) -> Array:
    rank = len(out)
    result = np.zeros((*x.shape[:-rank], *out))
    for lead in product(*map(range, x.shape[:-rank])):
        for place in product(*map(range, out)):
            each = zip(place, out, x.shape[-rank:], strict=True)
            cut = tuple(slice(math.floor(i * n / o), math.ceil((i + 1) * n / o)) for i, o, n in each)
            result[(*lead, *place)] = function(x[lead][cut])
    return result


def place_of_largest(x: Array, result: Array) -> Array:
    """For each result, where its plane holds that number."""
    flat = x.reshape(*x.shape[:-2], -1)
    found = np.zeros(result.shape, int)
    for where in product(*map(range, result.shape)):
        found[where] = np.flatnonzero(flat[where[:-2]] == result[where])[0]
    return found


def norm_over(x: Array, axes: Any, eps: float = 1e-5) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def channels(v: Array) -> Array:
    return v[:, None, None]


def scatter(x: Array, index: Array, src: Array, add: bool) -> Array:
    """Along axis 0."""
    result = x.copy()
    for i, j in product(*map(range, index.shape)):
        result[index[i, j], j] = src[i, j] + (result[index[i, j], j] if add else 0)
    return result


def bilinear(x: Array, size: tuple[int, int], scale: float) -> Array:
    result = np.zeros((*x.shape[:2], *size))
    for i, j in product(range(size[0]), range(size[1])):
        row, column = (max((n + 0.5) / scale - 0.5, 0) for n in (i, j))
        top, left = int(row), int(column)
        below, right = min(top + 1, x.shape[2] - 1), min(left + 1, x.shape[3] - 1)
        a, b = row - top, column - left
        upper = x[:, :, top, left] * (1 - b) + x[:, :, top, right] * b
        result[:, :, i, j] = upper * (1 - a) + (x[:, :, below, left] * (1 - b) + x[:, :, below, right] * b) * a
    return result


def sampled(x: Array, grid: Array) -> Array:
    """Bilinear, zeros outside, corners aligned."""
    height, width = x.shape[2:]
    result = np.zeros((x.shape[0], x.shape[1], *grid.shape[1:3]))
    for n, i, j in product(*map(range, grid.shape[:3])):
        column, row = (grid[n, i, j, 0] + 1) / 2 * (width - 1), (grid[n, i, j, 1] + 1) / 2 * (height - 1)
        for r, c in product((math.floor(row), math.floor(row) + 1), (math.floor(column), math.floor(column) + 1)):
            if 0 <= r < height and 0 <= c < width:
                result[n, :, i, j] += x[n, :, r, c] * (1 - abs(row - r)) * (1 - abs(column - c))
    return result


def columns(x: Array, kernel: int) -> Array:
    height, width = (n - kernel + 1 for n in x.shape[2:])
    parts = [x[:, :, i : i + kernel, j : j + kernel].reshape(x.shape[0], -1) for i, j in product(range(height), range(width))]
    return np.stack(parts, -1)


def folded(x: Array, size: tuple[int, int], kernel: int) -> Array:
    result = np.zeros((x.shape[0], x.shape[1] // kernel**2, *size))
    width = size[1] - kernel + 1
    for k in range(x.shape[2]):
        i, j = divmod(k, width)
        result[:, :, i : i + kernel, j : j + kernel] += x[:, :, k].reshape(x.shape[0], -1, kernel, kernel)
    return result


def cosine(x: Array, y: Array) -> Array:
    return (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))


def running(function: Any, x: Array) -> Any:
    values = function.accumulate(x, axis=1)
    index = np.zeros(x.shape, int)
    for i, j in product(*map(range, x.shape)):
        index[i, j] = max(k for k in range(j + 1) if x[i, k] == values[i, j])
    return values, index


def unpooled(x: Array, spots: Array, size: tuple[int, int]) -> Array:
    result = np.zeros((*x.shape[:2], math.prod(size)))
    for n, c, i, j in product(*map(range, x.shape)):
        result[n, c, spots[n, c, i, j]] = x[n, c, i, j]
    return result.reshape(*x.shape[:2], *size)


def shuffled(x: Array, r: int) -> Array:
    n, c, height, width = x.shape
    result = np.zeros((n, c // r**2, height * r, width * r))
    for k, i, j in product(range(c), range(height), range(width)):
        result[:, k // r**2, i * r + k % r**2 // r, j * r + k % r] = x[:, k, i, j]
    return result


def log_softmax(x: Array) -> Array:
    return np.log(softmax(x, 1))


def cross_entropy_of(logs: Array, goal: Array, weight: Any = None) -> Any:
    w = np.ones(logs.shape[1]) if weight is None else weight
    return sum(-logs[n, g] * w[g] for n, g in enumerate(goal)) / w[goal].sum()


def split_at(x: Array, size: int, axis: int) -> list[Array]:
    return np.split(x, range(size, x.shape[axis], size), axis)


# Where the expression is the call's own, with NumPy in place of `mint`.
SAME = """
abs acosh:arccosh acos:arccos arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin:arcsin asinh:arcsinh atan:arctan atan2:arctan2
atanh:arctanh allclose arange bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to ceil cos cosh eye exp exp2 expm1
fix float_power floor floor_divide fmod full full_like gcd greater greater_equal isclose isfinite isinf isnan isneginf less
less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum nan_to_num negative
not_equal ones ones_like outer ravel real imag reciprocal reshape round sign sin sinc sinh sqrt square squeeze stack swapaxes tan tanh
tile trace tril triu trunc vdot where zeros zeros_like searchsorted dot matmul take bincount dstack hstack einsum linspace
"""

MINT = {
    "add": "x + 0.5 * y", "addbmm": "0.5 * q + 2 * sum(b1[k] @ b2[k] for k in range(2))", "addcdiv": "x + 0.5 * y / p",
    "addmm": "0.5 * q + 2 * (x @ w)", "addmv": "0.5 * r + 2 * (x @ v)", "addr_": "x + np.outer(r, v)", "all": "m.all(1)",
    "amax": "x.max(1)", "amin": "x.min((0, 1), keepdims=True)", "any": "m.any(0)", "argmax": "x.argmax(1)",
    "argmin": "x.argmin(0)[None]", "argsort": "np.argsort(-x, 1)", "baddbmm": "0.5 * b3 + 2 * (b1 @ b2)", "bmm": "b1 @ b2",
    "cat": "np.concatenate((x, y), 1)", "cdist": "np.sqrt(((x[:, None] - y) ** 2).sum(-1))", "chunk": "split_at(x, 2, 1)",
    "clamp": "np.clip(x, -0.5, 0.5)", "clip": "np.maximum(x, 0)", "clone": "x", "concat": "np.concatenate((x, y))",
    "conv2d": "conv(im, k, padding=1)", "conv_tbc": "conv(seq, k1, g3, 1, 1).transpose(2, 0, 1)",
    "count_nonzero": "(i != 0).sum(1)", "cross": "np.cross(t3, t3 * 2 + 1, axis=1)",
    "cummax": "running(np.maximum, x)", "cummin": "running(np.minimum, x)", "cumprod": "np.cumprod(x, 1)", "cumsum": "np.cumsum(x, 1)",
    "diag": "np.diag(v, 1)", "diff": "np.diff(x, 1, 1)", "div": "x / p", "divide": "np.floor(x / p)", "empty": "...", "empty_like": "...",
    "eq": "i == j", "equal": "True", "erf": "erf(x)", "erfc": "1 - erf(x)", "erfinv": "inverse_of(erf, u)",
    "flatten": "im.reshape(2, 24, 6)", "flip": "x[::-1, ::-1]", "frac": "x * 3 - np.trunc(x * 3)", "gather": "np.take_along_axis(x, n4, 1)",
    "ge": "i >= j", "gt": "x > y", "histc": "np.histogram(x, 4, (-1, 1))[0]", "index_add": "x + np.stack([y[1], 0 * y[0], y[0]])",
    "index_select": "x[:, e]", "inverse": "np.linalg.inv(sq)", "kthvalue": "(np.sort(x, 1)[:, 1], np.argsort(x, 1)[:, 1])", "le": "x <= y",
    "lerp": "x + 0.25 * (y - x)", "logsumexp": "np.log(np.exp(x).sum(1))", "lt": "x < y", "masked_select": "x[m]", "max": "x.max()",
    "mean": "x.mean(1)", "median": "(np.sort(x, 1)[:, 1], np.argsort(x, 1)[:, 1])", "meshgrid": "np.meshgrid(v, r, indexing='ij')",
    "min": "(x.min(1), x.argmin(1))", "mm": "x @ w", "mul": "x * y", "mv": "x @ v", "nansum": "1.0", "narrow": "x[:, 1:3]", "ne": "i != j",
    "neg": "-x", "nonzero": "np.argwhere(m)", "norm": "np.sqrt((x * x).sum())", "npu_gelu": "gelu(x)",
    "permute": "im.transpose(0, 2, 3, 1)", "polar": "p * np.exp(1j * x)", "pow": "p ** x", "prod": "x.prod(1)",
    "remainder": "x - p * np.floor(x / p)",
    "repeat_interleave": "np.repeat(x, 2, 1)", "roll": "np.roll(x, 1, 1)", "rsqrt": "1 / np.sqrt(p)",
    "scatter": "scatter(x, n4[:2] % 3, y, False)", "scatter_add": "scatter(x, n4[:2] % 3, y, True)", "select": "x[:, -1]",
    "sigmoid": "sigmoid(x)", "softmax": "softmax(x, 1)", "sort": "(np.sort(x, 1), np.argsort(x, 1))", "split": "split_at(x, 2, 1)",
    "std": "x.std(1, ddof=1)", "std_mean": "(x.std(1, ddof=1), x.mean(1))", "sub": "x - y", "sum": "x.sum(1)", "t": "x.T",
    "topk": "(-np.sort(-x, 1)[:, :2], np.argsort(-x, 1)[:, :2])", "transpose": "x.T",
    "triangular_solve": "(np.linalg.inv(np.triu(sq)) @ sq, sq)", "unbind": "[x[:, i] for i in range(4)]", "unique": "np.unique(c)",
    "unique_consecutive": "np.array([1, 4, 0, 1])", "unsqueeze": "x[:, None]", "var": "x.var(1, ddof=1)",
    "var_mean": "(x.var(1, ddof=1), x.mean(1))", "xlogy": "x * np.log(p)",
    **dict.fromkeys("bernoulli multinomial normal rand rand_like randint randint_like randn randn_like randperm".split(), "..."),
}  # fmt: skip

FUNCTIONAL = {
    "adaptive_avg_pool1d": "adaptive(seq, (4,), np.mean)", "adaptive_avg_pool2d": "adaptive(im, (2, 3), np.mean)",
    "adaptive_avg_pool3d": "adaptive(vol, (2, 2, 2), np.mean)", "adaptive_max_pool1d": "adaptive(seq, (4,), np.max)",
    "adaptive_max_pool2d": "(adaptive(im, (2, 3), np.max), place_of_largest(im, adaptive(im, (2, 3), np.max)))",
    "avg_pool1d": "pool(np.pad(seq, [(0, 0), (0, 0), (1, 1)]), 1, 3, 2, 0, np.mean)", "avg_pool2d": "pool(im, 2, 2, 2, 1, np.mean)",
    "avg_pool3d": "pool(vol, 3, 2, 2, 0, np.mean)",
    "batch_norm": "(im - channels(g4)) / np.sqrt(channels(p4) + 1e-5) * channels(p4) + channels(g4)",
    "binary_cross_entropy": "-(p / 4 * np.log(p / 3) + (1 - p / 4) * np.log(1 - p / 3)).mean()",
    "binary_cross_entropy_with_logits": "-(v * p / 3 * np.log(sigmoid(x)) + (1 - p / 3) * np.log(sigmoid(-x))).mean()",
    "conv1d": "conv(seq, k1, padding=1)", "conv2d": "conv(im, k, g3, 2, 1)", "conv3d": "conv(vol, k3)",
    "conv_transpose2d": "conv_transpose(im, kt, 2, 1, 1)",
    "cosine_embedding_loss": "np.where(o == 1, 1 - cosine(x, y), np.maximum(cosine(x, y) - 0.25, 0)).mean()",
    "cross_entropy": "cross_entropy_of(log_softmax(x), c3)", "dropout": "...", "dropout2d": "...",
    "elu": "np.where(x > 0, x, np.expm1(x) / 2)",
    "elu_": "np.where(x > 0, x, np.expm1(x))", "embedding": "y[e]", "flatten": "im.reshape(2, -1)", "fold": "folded(cols, (3, 4), 2)",
    "gelu": "gelu(x)", "glu": "x[:, :2] * sigmoid(x[:, 2:])", "grid_sample": "sampled(im, grid)",
    "group_norm": "norm_over(im.reshape(2, 2, -1), 2).reshape(im.shape) * channels(g4) + channels(g4)",
    "hardshrink": "np.where(abs(x) > 0.5, x, 0)", "hardsigmoid": "np.clip(x + 3, 0, 6) / 6", "hardswish": "x * np.clip(x + 3, 0, 6) / 6",
    "hardtanh": "np.clip(x, -0.5, 0.5)", "hardtanh_": "np.clip(x, -1, 1)", "interpolate": "bilinear(im, (12, 12), 2.0)",
    "kl_div": "(p * (np.log(p) - x)).sum()", "l1_loss": "abs(x - y).mean()", "layer_norm": "norm_over(x, 1) * v + v",
    "leaky_relu": "np.where(x > 0, x, 0.2 * x)", "linear": "x @ y.T + r", "log_softmax": "log_softmax(x)",
    "logsigmoid": "np.log(sigmoid(x))",
    "max_pool2d": "(pool(im, 2, 2, 2, 1, np.max, True), place_of_largest(im, pool(im, 2, 2, 2, 1, np.max, True)))",
    "max_unpool2d": "unpooled(im[:, :, :3, :3], spots, (6, 6))", "mish": "x * np.tanh(np.log1p(np.exp(x)))",
    "mse_loss": "((x - y) ** 2).mean()",
    "nll_loss": "cross_entropy_of(x, c3, p4)", "normalize": "x / np.sqrt((x * x).sum(1, keepdims=True))", "one_hot": "np.eye(5)[c3]",
    "pad": "np.pad(x, [(0, 0), (1, 2)], constant_values=1.5)", "pixel_shuffle": "shuffled(im, 2)",
    "prelu": "np.where(im > 0, im, im * channels(p4))", "relu": "np.maximum(x, 0)", "relu6": "np.clip(x * 9, 0, 6)",
    "relu_": "np.maximum(x, 0)",
    "selu": "1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))", "sigmoid": "sigmoid(x)", "sigmoid_": "sigmoid(x)",
    "silu": "x * sigmoid(x)", "smooth_l1_loss": "np.where(abs(x - y) < 0.5, (x - y) ** 2, abs(x - y) - 0.25).mean()",
    "soft_margin_loss": "np.log(1 + np.exp(-sg * x)).mean()", "softmax": "softmax(x, 1)", "softplus": "np.log1p(np.exp(x))",
    "softshrink": "np.sign(x) * np.maximum(abs(x) - 0.5, 0)", "tanh": "np.tanh(x)", "threshold": "np.where(x > 0.1, x, 9)",
    "threshold_": "np.where(x > 0.1, x, 9)", "unfold": "columns(im, 2)",
    "upsample": "im[:, :, [i * 6 // 7 for i in range(7)]][:, :, :, [i * 6 // 3 for i in range(3)]]",
}  # fmt: skip

LINALG = {
    "inv": "np.linalg.inv(sq)", "matrix_norm": "np.sqrt((x * x).sum())", "norm": "np.sqrt((x * x).sum())", "qr": "np.linalg.qr(sq)",
    "vector_norm": "(abs(x) ** 3).sum(1) ** (1 / 3)",
}  # fmt: skip

SPECIAL = {
    "erfc": "1 - erf(x)", "exp2": "2 ** x", "expm1": "np.expm1(x)", "log1p": "np.log1p(p)", "log_softmax": "log_softmax(x)",
    "round": "np.round(x * 3)", "sinc": "np.sinc(x)",
}  # fmt: skip


def expression(module: str, name: str, call: str) -> str:
    """The reference of one line of the table."""
    for entry in SAME.split() if module == "mint" else ():
        ours, _, numpys = entry.partition(":")
        if ours == name:
            return call.replace(f"mint.{name}", f"np.{numpys or name}")
    return {"mint": MINT, "mint.nn.functional": FUNCTIONAL, "mint.linalg": LINALG, "mint.special": SPECIAL}[module][name]


def reference(module: str, name: str, call: str, operands: dict[str, Array]) -> Any:
    """The value of the reference, in float64; Ellipsis where the call is random."""
    scope = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in operands.items()}
    return eval(expression(module, name, call), {**globals(), **scope})
