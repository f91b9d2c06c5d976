"""Random ops. The same key gives the same numbers, on every tier and however often a region is replayed.

`key` is a non-negative int or a sequence of them and names a stream of NumPy's Philox generator. A
`numpy.random.Generator` may be passed instead; it changes as it is used, so such a call is left to
Python (Decline) and `host` runs it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Decline
from . import trees
from ._rows import X, own, per_input
from .numerics import float_tensor
from .registry import OpInfo, Param

_KEY = Param("key")


def _stream(key: Any) -> np.random.Generator:
    if isinstance(key, np.random.Generator):
        raise Decline("a generator changes as it is used")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


def _draw_normal(rng: np.random.Generator, shape: Any, mean: Any, std: Any, dtype: Any) -> Any:
    return (rng.standard_normal(shape) * std + mean).astype(dtype)


def _draw_uniform(rng: np.random.Generator, shape: Any, low: Any, high: Any, dtype: Any) -> Any:
    return (rng.random(shape) * (high - low) + low).astype(dtype)


def _normal(*, shape: Any, key: Any, mean: Any = 0.0, std: Any = 1.0, dtype: Any = np.float32) -> Any:
    return _draw_normal(_stream(key), shape, mean, std, dtype)


def _uniform(*, shape: Any, key: Any, low: Any = 0.0, high: Any = 1.0, dtype: Any = np.float32) -> Any:
    return _draw_uniform(_stream(key), shape, low, high, dtype)


def _check_probability(p: Any) -> float:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability must be between 0 and 1, not {p}")
    return float(p)


def _drop(rng: np.random.Generator, x: Any, p: float) -> Any:
    array = float_tensor(x)
    if p == 1.0:
        return np.zeros_like(array)
    wide = array.astype(trees.F32) if array.dtype in (trees.F16, trees.BF16) else array
    kept = rng.random(array.shape) >= p
    return np.where(kept, wide / wide.dtype.type(1.0 - p), wide.dtype.type(0)).astype(array.dtype, copy=False)


def _dropout(x: Any, *, p: Any = 0.5, training: Any = True, key: Any = None) -> Any:
    """`x` itself when nothing is dropped, so that an in-place write to the result reaches the caller's tensor."""
    rate = _check_probability(p)
    if not training or rate == 0.0:
        return x
    if key is None:
        raise Decline("without a key each call draws anew")
    return _drop(_stream(key), x, rate)


def _drop_channels(rng: np.random.Generator, x: Any, p: float) -> Any:
    array = float_tensor(x)
    if array.ndim < 2:
        raise ValueError(f"dropout_channels needs channels on axis 1, not shape {array.shape}")
    shape = array.shape[:2] + (1,) * (array.ndim - 2)
    factor = _drop(rng, np.ones(shape, trees.F64 if array.dtype == trees.F64 else trees.F32), p)
    return (array.astype(factor.dtype, copy=False) * factor).astype(array.dtype, copy=False)


def _dropout_channels(x: Any, *, p: Any = 0.5, training: Any = True, key: Any = None) -> Any:
    """`x` itself when nothing is dropped, as `_dropout`."""
    rate = _check_probability(p)
    if not training or rate == 0.0:
        return x
    if key is None:
        raise Decline("without a key each call draws anew")
    return _drop_channels(_stream(key), x, rate)


def _host_dropout_channels(x: Any, *, p: Any = 0.5, training: Any = True, key: Any = None) -> Any:
    return _drop_channels(np.random.default_rng() if key is None else key, x, _check_probability(p))


def _host_normal(*, shape: Any, key: Any, mean: Any = 0.0, std: Any = 1.0, dtype: Any = np.float32) -> Any:
    return _draw_normal(key, shape, mean, std, dtype)


def _host_uniform(*, shape: Any, key: Any, low: Any = 0.0, high: Any = 1.0, dtype: Any = np.float32) -> Any:
    return _draw_uniform(key, shape, low, high, dtype)


def _host_dropout(x: Any, *, p: Any = 0.5, training: Any = True, key: Any = None) -> Any:
    return _drop(np.random.default_rng() if key is None else key, x, _check_probability(p))


def _counts(probabilities: Any) -> Any:
    weights = np.asarray(probabilities, np.float64)
    if weights.ndim not in (1, 2) or not weights.size:
        raise ValueError(f"multinomial needs weights in one or two axes, not of shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any() or not (weights.sum(-1) > 0).all():
        raise ValueError("multinomial needs weights that are finite, not negative, and not all zero")
    return weights


def _draw_multinomial(rng: np.random.Generator, x: Any, count: Any, replacement: Any) -> Any:
    """With replacement by the inverse of the distribution; without by the largest of log(weight) + Gumbel noise."""
    weights = _counts(x)
    rows = weights.reshape(-1, weights.shape[-1])
    if replacement:
        totals = np.cumsum(rows, axis=1)
        drawn = rng.random((len(rows), count)) * totals[:, -1:]
        index = np.stack([np.searchsorted(t, d, side="right") for t, d in zip(totals, drawn, strict=True)])
        index = np.minimum(index, rows.shape[1] - 1)
    else:
        if count > (rows > 0).sum(axis=1).min():
            raise ValueError(f"multinomial: {count} different classes of {(rows > 0).sum(axis=1).min()}")
        with np.errstate(divide="ignore"):
            keys = np.log(rows) + rng.gumbel(size=rows.shape)
        index = np.argsort(-keys, axis=1, kind="stable")[:, :count]
    return index.reshape(*weights.shape[:-1], count).astype(np.int64)


def _multinomial(x: Any, *, num_samples: Any, key: Any, replacement: Any = False) -> Any:
    return _draw_multinomial(_stream(key), x, num_samples, replacement)


def _bernoulli(x: Any, *, key: Any) -> Any:
    return _draw_bernoulli(_stream(key), x)


def _draw_bernoulli(rng: np.random.Generator, x: Any) -> Any:
    array = float_tensor(x)
    if array.size and not ((array >= 0) & (array <= 1)).all():
        raise ValueError("bernoulli needs probabilities between 0 and 1")
    return (rng.random(array.shape) < array.astype(np.float64)).astype(array.dtype)


def _randint(*, low: Any, high: Any, shape: Any, key: Any, dtype: Any = np.int64) -> Any:
    return _stream(key).integers(low, high, shape).astype(dtype)


def _permutation(*, n: Any, key: Any, dtype: Any = np.int64) -> Any:
    return _stream(key).permutation(n).astype(dtype)


def _host_multinomial(x: Any, *, num_samples: Any, key: Any, replacement: Any = False) -> Any:
    return _draw_multinomial(key, x, num_samples, replacement)


def _host_bernoulli(x: Any, *, key: Any) -> Any:
    return _draw_bernoulli(key, x)


def _host_randint(*, low: Any, high: Any, shape: Any, key: Any, dtype: Any = np.int64) -> Any:
    return key.integers(low, high, shape).astype(dtype)


def _host_permutation(*, n: Any, key: Any, dtype: Any = np.int64) -> Any:
    return key.permutation(n).astype(dtype)


# What the public functions run when the definition declines.
HOST: dict[str, Callable[..., Any]] = {
    "normal": _host_normal,
    "uniform": _host_uniform,
    "dropout": _host_dropout,
    "dropout_channels": _host_dropout_channels,
    "multinomial": _host_multinomial,
    "bernoulli": _host_bernoulli,
    "randint": _host_randint,
    "permutation": _host_permutation,
}


def _shape_flops(*shapes: tuple[int, ...], shape: Any = (), **_attrs: Any) -> float:
    return 10.0 * float(np.prod(shape))


ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        name="normal",
        family="random",
        params=(Param("shape"), _KEY, Param("mean", default=0.0), Param("std", default=1.0), Param("dtype", default=np.float32)),
        definition=_normal,
        doc="Normally distributed numbers from the stream that `key` names.",
        spellings=(own("normal", "shape, key, mean=0.0, std=1.0, dtype=float32"),),
        shape_rule="create",
        dtype_rule="attr",
        flops=_shape_flops,
    ),
    OpInfo(
        name="uniform",
        family="random",
        params=(Param("shape"), _KEY, Param("low", default=0.0), Param("high", default=1.0), Param("dtype", default=np.float32)),
        definition=_uniform,
        doc="Numbers uniform in [low, high) from the stream that `key` names.",
        spellings=(own("uniform", "shape, key, low=0.0, high=1.0, dtype=float32"),),
        shape_rule="create",
        dtype_rule="attr",
        flops=_shape_flops,
    ),
    OpInfo(
        name="dropout",
        family="random",
        params=(X, Param("p", default=0.5), Param("training", default=True), Param("key", default=None)),
        definition=_dropout,
        doc="Elements set to 0 with probability p, the others divided by 1 - p; the tensor itself when not training or p is 0.",
        spellings=(own("dropout", "x, p=0.5, training=True, key=None"),),
        shape_rule="same",
        dtype_rule="same",
        flops=per_input(2.0),
        gradient="g * mask / (1 - p)",
    ),
    OpInfo(
        name="dropout_channels",
        family="random",
        params=(X, Param("p", default=0.5), Param("training", default=True), Param("key", default=None)),
        definition=_dropout_channels,
        doc="Whole channels (axis 1) set to 0 with probability p, the others divided by 1 - p.",
        spellings=(own("dropout_channels", "x, p=0.5, training=True, key=None"),),
        shape_rule="same",
        dtype_rule="same",
        flops=per_input(1.0),
        gradient="g * mask / (1 - p)",
    ),
    OpInfo(
        name="multinomial",
        family="random",
        params=(X, Param("num_samples"), _KEY, Param("replacement", default=False)),
        definition=_multinomial,
        doc="Indices drawn with the weights of x, one row of indices for each row of weights.",
        spellings=(own("multinomial", "x, num_samples, key, replacement=False"),),
        shape_rule="other",
        dtype_rule="index",
        flops=per_input(10.0),
    ),
    OpInfo(
        name="bernoulli",
        family="random",
        params=(X, _KEY),
        definition=_bernoulli,
        doc="1 with the probability that x says, else 0.",
        spellings=(own("bernoulli", "x, key"),),
        shape_rule="same",
        dtype_rule="same",
        flops=per_input(2.0),
    ),
    OpInfo(
        name="randint",
        family="random",
        params=(Param("low"), Param("high"), Param("shape"), _KEY, Param("dtype", default=np.int64)),
        definition=_randint,
        doc="Integers uniform in [low, high).",
        spellings=(own("randint", "low, high, shape, key, dtype=int64"),),
        shape_rule="create",
        dtype_rule="attr",
        flops=_shape_flops,
    ),
    OpInfo(
        name="permutation",
        family="random",
        params=(Param("n"), _KEY, Param("dtype", default=np.int64)),
        definition=_permutation,
        doc="The numbers below n in a random order.",
        spellings=(own("permutation", "n, key, dtype=int64"),),
        shape_rule="create",
        dtype_rule="attr",
        flops=_shape_flops,
    ),
)
