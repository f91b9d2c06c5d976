"""Resize: `ops.interpolate` where its modes are ONNX's, else a matrix of weights for each axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core import ops
from tests.onnx_nodes.table import op, part

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
ROUNDING = {
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "floor": lambda p: np.floor(p),
    "ceil": lambda p: np.ceil(p),
}


@op("Resize")
def resize(
    x: Any,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Any = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Any:
    axes = list(range(x.ndim)) if axes is None else axes
    old = [x.shape[a] for a in axes]
    factors, new = new_sizes(old, scales, sizes, keep_aspect_ratio_policy)
    common = cubic_coeff_a == -0.75 and not exclude_outside and not antialias
    whole = all(f * o == n for f, o, n in zip(factors, old, new, strict=True))  # else ONNX aligns corners outside the result
    common = common and (whole or coordinate_transformation_mode != "align_corners")
    name = interpolation(x.ndim - 2, mode, coordinate_transformation_mode, nearest_mode) if common else None
    if name is not None and axes == list(range(x.ndim)) and new[:2] == old[:2]:
        align = coordinate_transformation_mode == "align_corners"
        if sizes is None:
            return ops.interpolate(x, mode=name, align_corners=align, scale_factor=tuple(factors[2:]))
        return ops.interpolate(x, tuple(new[2:]), mode=name, align_corners=align)
    y, count = x, len(axes)
    for i, axis in enumerate(axes):
        if old[i] == new[i] and roi is None:
            continue
        region = (0.0, 1.0) if roi is None else (float(roi[i]), float(roi[i + count]))
        p = positions(old[i], new[i], factors[i], coordinate_transformation_mode, region)
        m = weights(p, old[i], factors[i], mode, ROUNDING[nearest_mode], cubic_coeff_a, exclude_outside, antialias)
        y = np.moveaxis(np.tensordot(m, y, axes=(1, axis)), 0, axis)
        if coordinate_transformation_mode == "tf_crop_and_resize":
            outside = (p < 0) | (p > old[i] - 1)
            y = np.where(outside.reshape([-1 if a == axis else 1 for a in range(x.ndim)]), extrapolation_value, y)
    return y.astype(x.dtype)


@op("Upsample")
def upsample(x: Any, scales: Any, mode: str = "nearest") -> Any:
    return ops.interpolate(x, mode="nearest" if mode == "nearest" else LINEAR[x.ndim - 2], scale_factor=tuple(scales.tolist()[2:]))


def new_sizes(old: list[int], scales: Any, sizes: Any, policy: str) -> tuple[list[float], list[int]]:
    """Factors and lengths of the axes."""
    if sizes is None:
        factors = scales.tolist()
        return factors, [int(n * f) for n, f in zip(old, factors, strict=True)]
    new = sizes.tolist()
    factors = [n / o for n, o in zip(new, old, strict=True)]
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors, new = [factor] * len(old), [int(factor * n + 0.5) for n in old]
    return factors, new


def interpolation(rank: int, mode: str, transform: str, nearest: str) -> str | None:
    """The mode of `ops.interpolate` that means the same, if there is one."""
    if mode == "nearest":
        return "nearest" if (transform, nearest) == ("asymmetric", "floor") else None
    if transform not in ("half_pixel", "align_corners"):
        return None
    return LINEAR[rank] if mode == "linear" else "bicubic" if rank == 2 else None


@part
def positions(old: int, new: int, factor: float, transform: str, region: tuple[float, float]) -> Any:
    """Where the new elements lie among the old ones."""
    i = np.arange(new)
    if transform == "align_corners":
        return i * ((old - 1) / (old * factor - 1)) if new > 1 else np.zeros(1)
    if transform == "asymmetric":
        return i / factor
    if transform == "tf_crop_and_resize":
        start, end = region
        if new == 1:
            return np.full(1, 0.5 * (start + end) * (old - 1))
        return start * (old - 1) + i * (end - start) * (old - 1) / (new - 1)
    if transform == "pytorch_half_pixel" and new == 1:
        return np.zeros(1)
    p = (i + 0.5) / factor - 0.5
    if transform == "half_pixel_symmetric":
        p = p + old / 2 * (1 - new / (factor * old))
    return p


@part
def weights(p: Any, old: int, factor: float, mode: str, rounding: Any, a: float, exclude: int, antialias: int) -> Any:
    """The matrix (new, old) that the axis is multiplied with."""
    if mode == "nearest":
        return ops.one_hot(np.clip(rounding(p), 0, old - 1).astype(np.int64), old, dtype=np.float64)
    narrow = min(factor, 1.0) if antialias else 1.0
    reach = int(np.ceil((1 if mode == "linear" else 2) / narrow)) + 1
    d = np.abs(p[:, None] - np.arange(-reach, old + reach)) * narrow
    if mode == "linear":
        m = np.maximum(1 - d, 0)
    else:
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        m = np.where(d < 1, near, np.where(d < 2, far, 0))
    inner = m[:, reach : reach + old].copy()
    if not exclude:
        inner[:, 0] += m[:, :reach].sum(axis=1)
        inner[:, -1] += m[:, reach + old :].sum(axis=1)
    return inner / np.sum(inner, axis=1, keepdims=True)
