"""Data of every type for tests of fused code, and the truth: ops run one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bcvm_core import fpstatus
from bcvm_core.codegen.stencils.graph import Const, FusedGraph
from bcvm_core.dtypes import BY_NAME, TABLE
from bcvm_core.ops import registry

REAL = tuple(row.name for row in TABLE if row.kind != "complex")
FLOATS = ("float16", "bfloat16", "float32", "float64")
_LIMITS = {  # largest, smallest normal, smallest
    "float16": (65504.0, 6.104e-5, 6e-8),
    "bfloat16": (3.38e38, 1.18e-38, 9.2e-41),
    "float32": (3.4028235e38, 1.1754944e-38, 1.4e-45),
    "float64": (1.7976931348623157e308, 2.2250738585072014e-308, 5e-324),
}
_EDGES = (0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1.5, 2, 2.5, -2.5, 3, 100, -100, 88, -88, 89, -104, 710, -746, 1e6, 3e6)


def numbers(dtype: str, count: int, seed: int) -> Any:
    """A third special values, the rest of all magnitudes."""
    rng = np.random.default_rng(seed)
    kind = BY_NAME[dtype].numpy
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if "int" in dtype:
        return _integers(rng, kind, count)
    plain = rng.standard_normal(count) * np.exp(rng.uniform(-4, 4, count))
    wide = rng.standard_normal(count) * 10.0 ** rng.uniform(-45, 38, count)
    big, small, tiny = _LIMITS[dtype]
    edges = np.array([*_EDGES, big, -big, small, -small, tiny, -tiny])
    with np.errstate(all="ignore"):
        values = np.where(rng.random(count) < 0.6, plain, wide)
        return np.where(rng.random(count) < 0.35, edges[rng.integers(0, len(edges), count)], values).astype(kind)


def _integers(rng: Any, kind: Any, count: int) -> Any:
    info = np.iinfo(kind)
    ends = [info.max, info.min, info.max - 1, info.min + 1, 0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64]
    edges = np.array([v for v in ends if info.min <= v <= info.max], kind)
    values = rng.integers(info.min, info.max, count, dtype=kind, endpoint=True)
    small = rng.integers(max(-9, info.min), 9, count).astype(kind)
    values = np.where(rng.random(count) < 0.5, values, small)
    return np.where(rng.random(count) < 0.35, edges[rng.integers(0, len(edges), count)], values)


def ordinary(dtype: str, count: int, seed: int) -> Any:
    """Numbers with which nothing happens: between 1/2 and 2, or 1 to 5, or True."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.ones(count, bool)
    if "int" in dtype:
        return rng.integers(1, 6, count).astype(BY_NAME[dtype].numpy)
    return rng.uniform(0.5, 2.0, count).astype(BY_NAME[dtype].numpy)


_COMMUTATIVE = frozenset({"add", "multiply"})


def one_by_one(graph: FusedGraph, arrays: Any, swapped: bool = False) -> tuple[list[Any], set[str]]:
    """(outputs, floating-point events) of a graph, each op by its row's definition; `swapped`: with commuted operands."""
    values = list(arrays)
    with np.errstate(all="warn"), fpstatus.recording() as record:
        for node in graph.nodes:
            operands = [x.value if isinstance(x, Const) else values[x] for x in node.operands]
            if swapped and node.op in _COMMUTATIVE:
                operands.reverse()
            values.append(registry.row(node.op).definition(*operands, **dict(node.attrs)))
    return [np.asarray(values[k]) for k in graph.outputs], set(record.kinds)


def same(a: Any, b: Any) -> Any:
    """Elementwise: the same bits."""
    assert a.dtype == b.dtype, (a.dtype, b.dtype)
    assert a.shape == b.shape, (a.shape, b.shape)
    unsigned = f"u{a.dtype.itemsize}"
    return np.ascontiguousarray(a).view(unsigned) == np.ascontiguousarray(b).view(unsigned)


def agrees(graph: FusedGraph, arrays: Any, made: list[Any], expected: list[Any]) -> bool:
    """Whether all bits agree that NumPy settles.

    Which of two NaNs an addition gives is not settled: NumPy's loops take the first or the second, by their length and type. What comes
    out otherwise when operands are swapped (the sign of a NaN, and what `copysign` makes of it) may be either, but NaN where it is one.
    """
    if all(same(a, b).all() for a, b in zip(made, expected, strict=True)):
        return True
    others = one_by_one(graph, arrays, swapped=True)[0]
    return all(_agrees(*three) for three in zip(made, expected, others, strict=True))


def _agrees(made: Any, expected: Any, other: Any) -> bool:
    with np.errstate(all="ignore"):
        nan, nowhere = made != made, (expected != expected) != (other != other)
        either = ~same(expected, other) & ((nan == (expected != expected)) | nowhere)
    return bool((same(made, expected) | either).all())


def elementwise_rows() -> Iterator[Any]:
    """The rows that may be fused by themselves."""
    for row in registry.rows():
        if row.fuse == "elementwise" and row.shape_rule == "elementwise" and not row.writes:
            yield row
