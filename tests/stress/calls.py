"""The calls of the stress test: a number names a function and operands of random sizes, the same in every process.

What each must give is computed beforehand (`expected`): by the definitions of the ops, in NumPy, where they say the bits, and by a process
that nobody disturbs where machine code has an order of its own (products, attention); both beside the formula in float64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

import bcvm_core as bcvm
from bcvm_core import config, ops
from bcvm_core.jit import jit

Function = Callable[..., Any]


def relu_chain(x: Any, b: Any) -> Any:
    return np.maximum(x + b, 0) * 2 + 1


def gates(x: Any, b: Any) -> Any:
    return ops.sigmoid(x + b) * np.tanh(x - 1)


def logs(x: Any, b: Any) -> Any:
    return np.exp(x * 0.5) - np.log(np.abs(b) + 1)


def distance(x: Any, b: Any) -> Any:
    return np.sqrt(np.square(x - b) + 1) / 3


def choice(x: Any, b: Any) -> Any:
    return np.where(x > b, x, b * 0.5)


def mixed(x: Any, b: Any) -> Any:
    y = x * b
    return y.astype(np.float32) + 1, np.minimum(y, 2)


def total(x: Any, b: Any) -> Any:
    return (x + b).sum(-1), np.mean(x)


def spread(x: Any, b: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * b


def softmax_of(x: Any, b: Any) -> Any:
    return ops.softmax(x * 0.5 + b)


def softmax_written_out(x: Any, b: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) + b


def norm(x: Any, b: Any) -> Any:
    return ops.layer_norm(x + 1, weight=b, bias=b)


def root_norm(x: Any, b: Any) -> Any:
    return ops.rms_norm(x, weight=b) + x


def columns(x: Any, b: Any) -> Any:
    return np.sum(x, axis=0) + b, np.max(x, axis=0)


def branch(x: Any, b: Any) -> Any:
    return np.tanh(x) * 2 if x.shape[0] % 2 else ops.gelu(x) + b


def layer(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def scores(x: Any, w: Any, b: Any) -> Any:
    return ops.softmax(x @ w + b)


def linear(x: Any, w: Any, b: Any) -> Any:
    return ops.gelu(ops.linear(x, w.T.copy(), bias=b)) * 2


def attended(q: Any, k: Any, v: Any) -> Any:
    return ops.attention(q, k, v, causal=True) + 1


def attended_twice(q: Any, k: Any, v: Any) -> Any:
    return ops.attention(ops.attention(q, k, v) * 0.5, k, v)


POINTWISE: tuple[Function, ...] = (
    *(relu_chain, gates, logs, distance, choice, mixed, total, spread, softmax_of, softmax_written_out, norm, root_norm, columns, branch),
)
PRODUCTS: tuple[Function, ...] = (layer, scores, linear)
ATTENTION: tuple[Function, ...] = (attended, attended_twice)
FUNCTIONS = POINTWISE * 2 + PRODUCTS * 2 + ATTENTION * 2
_FLOATS = (np.float32, np.float32, np.float64, np.float16)
_TOLERANCE = {"float16": 0.05, "float32": 1e-4, "float64": 1e-9}


def call(number: int) -> tuple[Function, tuple[Any, ...]]:
    """The function and the operands of a number."""
    rng = np.random.default_rng(number)
    function = FUNCTIONS[number % len(FUNCTIONS)]

    def array(*shape: int, dtype: Any = np.float32) -> Any:
        return rng.normal(0, 2, shape).astype(dtype)

    if function in ATTENTION:
        heads, n, m, d = (int(k) for k in rng.integers(1, (4, 60, 80, 40)))
        return function, (array(heads, max(n, m), d), array(heads, max(n, m), d), array(heads, max(n, m), d))
    if function in PRODUCTS:
        rows, inner, width = (int(k) for k in rng.integers(1, (90, 70, 70)))
        return function, (array(rows, inner), array(inner, width), array(width))
    rows, width = (int(k) for k in rng.integers(1, (300, 2000) if rng.random() < 0.1 else (40, 200)))
    dtype = _FLOATS[int(rng.integers(len(_FLOATS)))]
    shape = (rows, width) if rng.random() < 0.7 else (int(rng.integers(1, 4)), rows, width)
    x, b = array(*shape, dtype=dtype), array(width, dtype=dtype)
    if number % 7 == 0:
        x.flat[:: 1 + x.size // 5] = np.array([np.inf, -np.inf, np.nan, -0.0], dtype)[number % 4]
    if number % 11 == 0:
        x = np.repeat(x, 2, axis=-1)[..., ::2]
    return function, (x, b)


def digest(result: Any) -> str:
    """The bits of a result in a few letters, every NaN alike: which one comes out is nowhere settled."""
    found = hashlib.sha256()
    for part in result if isinstance(result, tuple) else (result,):
        part = np.asarray(part)
        plain = np.where(np.isnan(part), np.array(np.nan, part.dtype), part)
        found.update(f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(plain).tobytes())
    return found.hexdigest()[:16]


def _near(function: Function, result: Any, operands: tuple[Any, ...]) -> bool:
    """Whether a result is that of the formula in float64, as far as its type goes."""
    if not np.isfinite(operands[0]).all():
        return True  # where infinities meet, rounding decides what comes of it
    exact = function(*(x.astype(np.float64) for x in operands))
    t = _TOLERANCE[operands[0].dtype.name]
    pairs = zip(result, exact, strict=True) if isinstance(result, tuple) else [(result, exact)]
    return all(np.allclose(np.asarray(y, np.float64), z, rtol=t, atol=30 * t) for y, z in pairs)


def expected(count: int, base: int = 0) -> list[str]:
    """Digests of `count` calls from number `base` on. AssertionError where a result is not the formula's, or bits depend on the way."""
    assert bcvm.ready()
    fused: dict[Function, Any] = {}
    found = []
    with np.errstate(all="ignore"):
        for number in range(base, base + count):
            function, operands = call(number)
            jitted = fused.setdefault(function, jit(function))
            result = jitted(*operands)
            with config.override(use_llvm=False, fuse=False):
                assert _near(function, result, operands), f"call {number}: {function.__name__}"
                if function in POINTWISE:
                    defined = jit(function)(*operands)
                    assert digest(defined) == digest(result), f"call {number}: {function.__name__} has not the bits of the definitions"
            found.append(digest(result))
    return found
