"""Functions with reductions and norms among elementwise ops, and what they are checked against."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import bcvm_core as bcvm
from bcvm_core import ops
from bcvm_core.codegen import loops
from bcvm_core.jit import linker_of
from bcvm_core.tiers.chains import ChainSite
from bcvm_core.vm.region import Region, RegionRunner

DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def scaled_softmax(x: Any, s: Any, m: Any) -> Any:
    return ops.softmax(x * s + m)


def squared_distance(x: Any, y: Any) -> Any:
    return np.sum((x - y) ** 2)


def relu_mean(x: Any, b: Any) -> Any:
    return np.mean(np.maximum(x + b, 0), axis=-1)


def residual_norm(x: Any, y: Any, w: Any, b: Any) -> Any:
    return ops.layer_norm(x + y, weight=w, bias=b)


def root_norm(x: Any, w: Any) -> Any:
    return ops.rms_norm(x * 2, weight=w) + x


def norm_written_out(x: Any, w: Any, b: Any) -> Any:
    return (x - np.mean(x, -1, keepdims=True)) / np.sqrt(np.var(x, -1, keepdims=True) + 1e-5) * w + b


def less_logsumexp(x: Any) -> Any:
    return x - ops.logsumexp(x, axis=-1, keepdims=True)


def softmax_written_out(x: Any) -> Any:
    return np.exp(x - x.max(-1, keepdims=True)) / np.sum(np.exp(x - x.max(-1, keepdims=True)), -1, keepdims=True)


def centred(x: Any) -> Any:
    return x - x.mean()


def length(x: Any) -> Any:
    return np.sqrt(np.sum(x * x, axis=-1))


def largest_product(x: Any, c: Any) -> Any:
    return np.max(x * c, axis=-1, keepdims=True)


def two_results(x: Any, y: Any) -> Any:
    z = x * y
    return np.sum(z, axis=-1), np.min(z, axis=-1)


def deviation(x: Any) -> Any:
    return np.std(np.abs(x), axis=-1, ddof=1) * 2


def last_two(x: Any, y: Any) -> Any:
    return np.sum(np.abs(x - y), axis=(-2, -1))


def some_above(x: Any, y: Any) -> Any:
    return np.any(x > y + 3, axis=-1)


def all_close(x: Any, y: Any) -> Any:
    return np.all(np.abs(x - y) < 100)


Operands = Callable[[tuple[int, ...], Callable[[tuple[int, ...]], Any]], tuple[Any, ...]]
FORMS: dict[str, tuple[Callable[..., Any], Operands]] = {
    f.__name__: (f, operands)
    for f, operands in (
        (scaled_softmax, lambda s, a: (a(s), a(s[-1:]), a((*s[:1], *(1 for _ in s[1:-1]), s[-1])))),
        (squared_distance, lambda s, a: (a(s), a(s))),
        (relu_mean, lambda s, a: (a(s), a(s[-1:]))),
        (residual_norm, lambda s, a: (a(s), a(s), a(s[-1:]), a(s[-1:]))),
        (root_norm, lambda s, a: (a(s), a(s[-1:]))),
        (norm_written_out, lambda s, a: (a(s), a(s[-1:]), a(s[-1:]))),
        (less_logsumexp, lambda s, a: (a(s),)),
        (softmax_written_out, lambda s, a: (a(s),)),
        (centred, lambda s, a: (a(s),)),
        (length, lambda s, a: (a(s),)),
        (largest_product, lambda s, a: (a(s), a((*s[:-1], 1)))),
        (two_results, lambda s, a: (a(s), a(s))),
        (deviation, lambda s, a: (a(s),)),
        (last_two, lambda s, a: (a(s), a(s))),
        (some_above, lambda s, a: (a(s), a(s))),
        (all_close, lambda s, a: (a(s), a(s))),
    )
}


def chain_of(function: Any) -> ChainSite:
    """The one chain of a jitted function."""
    regions = [s for s in linker_of(function).table.live if isinstance(s, Region)]  # type: ignore[union-attr]
    plans = [p for region in regions for p in region.plans.values() if isinstance(p, RegionRunner)]
    (site,) = [site for plan in plans for site in plan.chains.values()]
    return site


def warmed(function: Callable[..., Any], *args: Any) -> Any:
    """The function, jitted, once its chain has run for operands like these."""
    jitted = bcvm.jit(function)
    for _ in range(100):
        jitted(*args)
        site = chain_of(jitted)
        if site.calls:
            return jitted
        if None in site.chains.values():
            raise AssertionError(bcvm.explain(jitted))
        loops.wait(120)
        time.sleep(0.06)
    raise AssertionError(bcvm.explain(jitted))


def one_by_one(function: Callable[..., Any], *args: Any) -> Any:
    """What the ops give without being fused."""
    with bcvm.override(fuse=False):
        return bcvm.jit(function)(*args)


def same_bits(a: Any, b: Any) -> None:
    """Equal to the last bit; a NaN is a NaN."""
    if isinstance(a, tuple):
        assert isinstance(b, tuple) and len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same_bits(x, y)
        return
    assert type(a) is type(b)
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    wide = np.float32 if a.dtype == ml_dtypes.bfloat16 else a.dtype
    missing = np.isnan(a.astype(wide))
    np.testing.assert_array_equal(missing, np.isnan(b.astype(wide)))
    np.testing.assert_array_equal(a[~missing].view(f"u{a.dtype.itemsize}"), b[~missing].view(f"u{a.dtype.itemsize}"))
