"""Products by the matrix unit in NumPy, term by term: what `codegen/products/amx.py` says, and how the unit itself adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core.codegen.products import jobs
from bcvm_core.ops import chains

F32 = np.float32
DEPTH, CHUNK = 256, 32
LOW, SPAN = (127 - 51) << 24, 101 << 24


def by_definition(a: Any, b: Any) -> Any:
    """The bits of a b as matrices of these shapes are multiplied here: by the unit or by chains of multiply-adds."""
    return by_unit(a, b) if jobs.unit(a.shape[0], b) else chains.multiply(a, b)


def by_unit(a: Any, b: Any) -> Any:
    """The bits that the matrix unit's code gives."""
    parts, left_out = zip(_split(a), _split(b), strict=True)
    total: Any = None
    with np.errstate(all="ignore"):
        for start in range(0, a.shape[1], DEPTH):
            piece = slice(start, min(start + DEPTH, a.shape[1]))
            made = _piece([p[:, piece] for p in parts[0]], [p[piece] for p in parts[1]])
            total = made if total is None else total + made
            _mend(total, a[:, piece], b[piece], left_out[0][:, piece], left_out[1][piece])
    return total


def _split(x: Any) -> tuple[list[Any], Any]:
    """Three parts of 8 bits each, and which numbers were left out."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    doubled = bits << np.uint32(1)
    plain = doubled - np.uint32(LOW) < SPAN
    kept = np.where(plain, bits, np.uint32(0))
    first = (kept + np.uint32(0x8000) & np.uint32(0xFFFF0000)).view(F32)
    rest = kept.view(F32) - first
    second = (rest.view(np.uint32) & np.uint32(0xFFFF0000)).view(F32)
    return [first, second, rest - second], ~plain & (doubled != 0)


def _piece(a: list[Any], b: list[Any]) -> Any:
    """Two sums over one piece of the depth: of the first parts' products, and of the five smaller ones."""
    large = small = np.zeros((a[0].shape[0], b[0].shape[1]), F32)
    for start in range(0, a[0].shape[1], CHUNK):
        terms = slice(start, start + CHUNK)
        for i in range(3):
            for j in range(3 - i):
                made = _unit(a[i][:, terms], b[j][terms])
                if i == j == 0:
                    large = large + made
                else:
                    small = small + made
    return large + small


def _unit(a: Any, b: Any) -> Any:
    """One instruction: a chain over the even terms and one over the odd ones."""
    chains_of = [np.zeros((a.shape[0], b.shape[1]), F32) for _ in range(2)]
    for k in range(a.shape[1]):
        product = a[:, k, None].astype(np.float64) * b[None, k].astype(np.float64)
        chains_of[k & 1] = (chains_of[k & 1].astype(np.float64) + product).astype(F32)
    return chains_of[0] + chains_of[1]


def _mend(total: Any, a: Any, b: Any, out_a: Any, out_b: Any) -> None:
    """The numbers that were left out, each by multiply-adds of its own, in the order of the depth."""
    for k in np.flatnonzero(out_a.any(0) | out_b.any(1)):
        lanes = out_a[:, k, None] | out_b[None, k]
        total[lanes] = chains._fused32(a[:, k, None], b[None, k], total)[lanes]
