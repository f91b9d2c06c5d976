"""Scenarios with Cells: what a user does with a model and sees, run once by MindSpore alone and once with BCVM enabled.

Numbers are compared to 2e-5 of their tensor's size: MindSpore's own float32 exp and tanh are off by up to 1e-5.

A scenario is a function of a `Log`. It builds its own models with fixed weights, calls them, changes them, and notes what it sees.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn

SCENARIOS: dict[str, Scenario] = {}


@dataclass(frozen=True)
class Scenario:
    """`share`: least part of the ops that BCVM must have run itself; 0: MindSpore may have to run all of it."""

    function: Callable[[Log], None]
    share: float
    tolerance: float


def scenario(share: float = 0.95, tolerance: float = 2e-5) -> Callable[[Callable[[Log], None]], Callable[[Log], None]]:
    """Register a scenario under its name."""

    def register(function: Callable[[Log], None]) -> Callable[[Log], None]:
        SCENARIOS[function.__name__] = Scenario(function, share, tolerance)
        return function

    return register


class Log:
    """What a scenario saw, in order."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def __call__(self, *values: Any) -> None:
        """Note values; tensors as they are now."""
        self.entries.append(snapshot(values))

    def thrice(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Note three calls: the first one binds, the others run what was bound."""
        for _ in range(3):
            self(function(*args, **kwargs))

    def error(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Note the exception of a call: type, text, and the lines of the scenario's own file in its traceback."""
        try:
            self("no error", function(*args, **kwargs))
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            here = [f"{f.name}:{f.lineno} {f.line}" for f in frames if f.filename.rpartition("/")[2].startswith("cells_")]
            self(type(error), str(error), here[1:], type(error.__cause__))


@dataclass(frozen=True)
class Seen:
    """A tensor as it was when it was noted."""

    kind: type
    dtype: str
    values: Any


def snapshot(value: Any) -> Any:
    """A copy that later changes do not reach."""
    if isinstance(value, ms.Tensor):
        numbers = value.astype(ms.float32).asnumpy() if value.dtype == ms.bfloat16 else value.asnumpy()
        return Seen(type(value), str(value.dtype), np.array(numbers))
    if isinstance(value, np.ndarray):
        return Seen(type(value), str(value.dtype), value.copy())
    if isinstance(value, tuple | list):
        return [type(value), *(snapshot(v) for v in value)]
    if isinstance(value, dict):
        return {k: snapshot(v) for k, v in value.items()}
    return value


def assert_same(plain: Any, ours: Any, tolerance: float, where: str = "") -> None:
    """Both logs agree: structure, types and shapes exactly, numbers to the tolerance (NaN and infinities in the same places)."""
    assert type(plain) is type(ours), f"{where}: {plain!r} and {ours!r}"
    if isinstance(plain, Seen):
        assert (plain.kind, plain.dtype, plain.values.shape) == (ours.kind, ours.dtype, ours.values.shape), where
        loose = 2e-3 if plain.dtype in ("Float16", "BFloat16") else tolerance
        scale = float(np.max(np.abs(plain.values[np.isfinite(plain.values)]), initial=0.0)) if plain.values.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(
            ours.values.astype(np.float64), plain.values.astype(np.float64), rtol=loose, atol=loose * scale, err_msg=where
        )
    elif isinstance(plain, list):
        assert len(plain) == len(ours), where
        for i, pair in enumerate(zip(plain, ours, strict=True)):
            assert_same(*pair, tolerance, f"{where}[{i}]")
    elif isinstance(plain, dict):
        assert list(plain) == list(ours), where
        for key in plain:
            assert_same(plain[key], ours[key], tolerance, f"{where}[{key!r}]")
    else:
        assert plain == ours or plain != plain and ours != ours, f"{where}: {plain!r} and {ours!r}"


def tensor(*shape: int, seed: int = 1, dtype: Any = np.float32) -> Any:
    """Normal numbers, the same in every run."""
    return ms.Tensor.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def parameter(*shape: int, seed: int = 2, **kwargs: Any) -> Any:
    """A Parameter of such numbers."""
    return ms.Parameter(tensor(*shape, seed=seed), **kwargs)


def dense(inputs: int, outputs: int, seed: int = 3, **kwargs: Any) -> Any:
    """A Dense layer with fixed weights."""
    return weighted(nn.Dense(inputs, outputs, **kwargs), seed)


def weighted(cell: Any, seed: int = 3) -> Any:
    """The Cell, every weight in it set to fixed numbers that neither grow nor shrink what flows through, in inference."""
    for i, p in enumerate(cell.get_parameters()):
        values = tensor(*p.shape, seed=seed * 100 + i) / max(1, math.prod(p.shape[1:])) ** 0.5
        p.set_data(values.abs() + 0.5 if p.name.endswith("moving_variance") else values)
    return cell.set_train(False)
