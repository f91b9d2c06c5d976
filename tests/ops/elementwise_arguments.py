"""Arguments on which algorithms are tested: whole ranges, neighbourhoods of thresholds, special values."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 0.55, 0.75, 1.0625, 22.0, 20.0, 28.0, 40.0, 88.7, 88.73, -87.3, -103.9, 128.0, -126.0, -150.0)
EDGES += (
    709.7,
    709.79,
    -708.4,
    -745.1,
    -746.0,
    1024.0,
    -1074.5,
    1048576.0,
    1048577.0,
    3e4,
    1e22,
    1.5707964,
    3.1415927,
    1e-40,
    1e-310,
    3e38,
)
COUNT = int(os.environ.get("BCVM_TEST_SAMPLES", "20000"))


def special(dtype: Any) -> Any:
    """Special values and the neighbours of thresholds."""
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        edges = np.array(EDGES).astype(dtype)
        edges = np.concatenate([edges, -edges, np.nextafter(edges, info.max), np.nextafter(edges, info.min)])
        ends = np.array(
            [np.inf, -np.inf, info.max, info.min, info.tiny, -info.tiny, info.smallest_subnormal, -info.smallest_subnormal], dtype
        )
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    quiet = np.array([np.nan, -np.nan], dtype)
    payload = (quiet.view(unsigned) + unsigned.type(12345)).view(dtype)
    return np.concatenate([edges, ends, quiet, payload])


def wide(dtype: Any, seed: int = 1, count: int = COUNT) -> Any:
    """All magnitudes alike: random bit patterns, plus the ranges in which functions do something."""
    rng = np.random.default_rng(seed)
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    patterns = rng.integers(0, np.iinfo(unsigned).max, count, dtype=unsigned, endpoint=True).view(dtype)
    parts = [patterns] + [rng.uniform(-span, span, count).astype(dtype) for span in (1, 12, 110, 760)]
    small = np.exp(rng.uniform(-40, 2, count)) * rng.choice([-1.0, 1.0], count)
    return np.concatenate([*parts, small.astype(dtype)])


def layouts(x: Any) -> dict[str, Any]:
    """The same kind of data in every layout NumPy has."""
    n = x.size // 24 * 24
    cube = x[:n].reshape(2, 3, -1)
    return {
        "dense": cube,
        "fortran": np.asfortranarray(cube),
        "permuted": cube.transpose(1, 2, 0),
        "reversed": x[::-1],
        "stepped": x[1::3],
        "stepped back": x[::-2],
        "columns": x[:n].reshape(-1, 24)[:, 3:17:2],
        "rows backwards": cube[:, ::-1],
        "broadcast": np.broadcast_to(x[:5], (4, 5)),
        "empty": x[:0].reshape(0, 3),
        "one": x[:1],
        "scalar array": x[:1].reshape(()),
        "odd": x[:37],
    }
