"""Errors of reductions and norms of float32 against float64, beside NumPy's way: `python -m tests.codegen.accuracy` prints the table.

An error is the root of the mean square over all results of several draws, each relative to what the result should be accurate to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bcvm_core import ops

Formula = Callable[[Any], Any]
DRAWS = 5


@dataclass(frozen=True)
class Case:
    """An op: ours, NumPy's way in the type of its operand, and what an error is relative to (of the operand and the true result)."""

    ours: Formula
    numpy: Formula
    scale: Callable[[Any, Any], Any]


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _log_softmax(x: Any) -> Any:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _layer_norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(1e-5))


def _rms_norm(x: Any) -> Any:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + x.dtype.type(1e-6))


def _logsumexp(x: Any) -> Any:
    most = x.max(-1, keepdims=True)
    return np.log(np.exp(x - most).sum(-1)) + most[..., 0]


def _group_norm(x: Any) -> Any:
    return _layer_norm(x.reshape(x.shape[0], 4, -1)).reshape(x.shape)


def _near_one(x: Any) -> Any:
    """Factors whose product stays a number."""
    return 1 + x / x.dtype.type(16 * np.abs(x).max())


def _targets(x: Any) -> Any:
    return np.arange(x.shape[0]) % x.shape[-1]


def _cross_entropy(x: Any) -> Any:
    return -np.take_along_axis(_log_softmax(x), _targets(x)[:, None], -1)[:, 0]


def _relative(_x: Any, true: Any) -> Any:
    return np.maximum(np.abs(true), 1e-30)


def _at_least_one(_x: Any, true: Any) -> Any:
    return np.maximum(np.abs(true), 1)


CASES: dict[str, Case] = {
    "sum": Case(lambda x: ops.sum(x, axis=-1), lambda x: x.sum(-1), lambda x, _: np.abs(x).sum(-1)),
    "mean": Case(lambda x: ops.mean(x, axis=-1), lambda x: x.mean(-1), lambda x, _: np.abs(x).mean(-1)),
    "sum over axis 0": Case(lambda x: ops.sum(x, axis=0), lambda x: x.sum(0), lambda x, _: np.abs(x).sum(0)),
    "prod": Case(lambda x: ops.prod(_near_one(x), axis=-1), lambda x: _near_one(x).prod(-1), _relative),
    "var": Case(lambda x: ops.var(x, axis=-1), lambda x: x.var(-1), _relative),
    "std": Case(lambda x: ops.std(x, axis=-1), lambda x: x.std(-1), _relative),
    "norm": Case(lambda x: ops.norm(x, axis=-1), lambda x: np.linalg.norm(x, axis=-1), _relative),
    "cumsum": Case(lambda x: ops.cumsum(x, axis=-1), lambda x: x.cumsum(-1), lambda x, _: np.abs(x).cumsum(-1)),
    "logsumexp": Case(lambda x: ops.logsumexp(x, axis=-1), _logsumexp, _relative),
    "softmax": Case(ops.softmax, _softmax, _relative),
    "softmax over axis 0": Case(lambda x: ops.softmax(x, axis=0), lambda x: _softmax(x.T).T, _relative),
    "log_softmax": Case(ops.log_softmax, _log_softmax, _at_least_one),
    "cross_entropy": Case(lambda x: ops.cross_entropy(x, _targets(x), reduction="none"), _cross_entropy, _at_least_one),
    "layer_norm": Case(ops.layer_norm, _layer_norm, _at_least_one),
    "rms_norm": Case(ops.rms_norm, _rms_norm, _relative),
    "group_norm": Case(lambda x: ops.group_norm(x, 4), _group_norm, _at_least_one),
}

Draw = Callable[[np.random.Generator], Any]
INPUTS: dict[str, Draw] = {
    "(256, 1000)": lambda rng: rng.standard_normal((256, 1000)),
    "(4096, 64)": lambda rng: rng.standard_normal((4096, 64)),
    "(32, 32000)": lambda rng: rng.standard_normal((32, 32000)),
    "mean 1e4, deviation 1": lambda rng: rng.standard_normal((256, 1000)) + 1e4,
    "positive": lambda rng: rng.random((256, 1000)) + 1e-3,
    "a scale per row": lambda rng: rng.standard_normal((256, 1000)) * np.exp2(rng.uniform(-10, 10, (256, 1))),
}
NOT_LONG = ("prod", "sum over axis 0", "softmax over axis 0", "group_norm", "cross_entropy")
LONG: Draw = lambda rng: rng.random((1, 10**7))  # noqa: E731


def errors(case: Case, draw: Draw, draws: int = DRAWS) -> tuple[float, float]:
    """(ours, NumPy's)."""
    squares: tuple[list[Any], list[Any]] = ([], [])
    for seed in range(draws):
        x = draw(np.random.default_rng(seed)).astype(np.float32)
        true = case.numpy(x.astype(np.float64))
        for found, formula in zip(squares, (case.ours, case.numpy), strict=True):
            found.append(np.square((formula(x).astype(np.float64) - true) / case.scale(x.astype(np.float64), true)).mean())
    ours, theirs = (float(np.sqrt(np.mean(s))) for s in squares)
    return ours, theirs


def table() -> Iterator[str]:
    """Lines of the table: ours in units of 2**-24 with the ratio to NumPy's."""
    names = [*INPUTS, "1e7 in a row"]
    yield "| float32 | " + " | ".join(names) + " |"
    yield "| --- |" + " --- |" * len(names)
    for op, case in CASES.items():
        cells = []
        for name, draw in (*INPUTS.items(), ("1e7 in a row", LONG)):
            if name == "1e7 in a row" and op in NOT_LONG:
                cells.append("")
                continue
            ours, theirs = errors(case, draw, 2 if name == "1e7 in a row" else DRAWS)
            cells.append(f"{ours * 2**24:.2g} ({ours / theirs:.2f})" if theirs else f"{ours * 2**24:.2g} (-)")
        yield f"| {op} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    from bcvm_core.codegen import loops

    for case in CASES.values():  # so that kernels are made
        errors(case, INPUTS["(4096, 64)"], 1)
    assert loops.wait(120)
    for line in table():
        print(line, flush=True)
