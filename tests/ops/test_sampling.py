"""grid_sample and affine_grid against loops over single elements in plain Python; scatters that keep the largest or smallest."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import bcvm_core as bcvm
import bcvm_core.ops as ops

RNG = np.random.default_rng(11)
IMAGES = RNG.standard_normal((2, 3, 4, 5))
VOLUMES = RNG.standard_normal((2, 2, 3, 4, 5))
MODES = ("nearest", "bilinear", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def inside(place: float, size: int, padding: str, align: bool) -> float:
    """A position brought into [0, size - 1] as the padding says; zeros leave it outside."""
    if padding == "zeros":
        return place
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        while high > low and not low <= place <= high:
            place = 2 * low - place if place < low else 2 * high - place
    return min(max(place, 0.0), size - 1.0)


def cubic(d: float) -> float:
    a, d = -0.75, abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def along(coordinate: float, size: int, mode: str, padding: str, align: bool) -> list[tuple[int, float]]:
    """The elements of one axis that a coordinate reads, with their weights."""
    place = (coordinate + 1) / 2 * (size - 1) if align else ((coordinate + 1) * size - 1) / 2
    if mode == "bicubic":
        low = math.floor(place)
        return [(int(inside(low + i, size, padding, align)), cubic(place - low - i)) for i in (-1, 0, 1, 2)]
    place = inside(place, size, padding, align)
    if mode == "nearest":
        return [(round(place), 1.0)]
    low = math.floor(place)
    return [(low, low + 1 - place), (low + 1, place - low)]


def sampled(x: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    sizes = x.shape[2:]
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n, *where in itertools.product(*map(range, grid.shape[:-1])):
        coordinates = grid[(n, *where)][::-1].tolist()
        reads = [along(c, size, mode, padding, align) for c, size in zip(coordinates, sizes, strict=True)]
        for chosen in itertools.product(*reads):
            places = [p for p, _ in chosen]
            if all(0 <= p < size for p, size in zip(places, sizes, strict=True)):
                result[(n, slice(None), *where)] += x[(n, slice(None), *places)] * math.prod(w for _, w in chosen)
    return result


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_images(mode: str, padding: str, align: bool) -> None:
    grid = RNG.uniform(-2.5, 2.5, (2, 4, 6, 2))
    grid[0, 0, :3] = [[-1, -1], [1, 1], [0.123, -1]]
    expected = sampled(IMAGES, grid, mode, padding, align)
    np.testing.assert_allclose(ops.grid_sample(IMAGES, grid, mode, padding, align), expected, rtol=1e-12, atol=1e-12)
    narrow = ops.grid_sample(IMAGES.astype(np.float32), grid.astype(np.float32), mode, padding, align)
    assert narrow.dtype == np.float32
    again = sampled(IMAGES.astype(np.float32), grid.astype(np.float32), mode, padding, align)
    np.testing.assert_allclose(narrow, again, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES[:2])
def test_volumes(mode: str, padding: str, align: bool) -> None:
    grid = RNG.uniform(-2, 2, (2, 2, 3, 2, 3))
    expected = sampled(VOLUMES, grid, mode, padding, align)
    np.testing.assert_allclose(ops.grid_sample(VOLUMES, grid, mode, padding, align), expected, rtol=1e-12, atol=1e-12)
    one = VOLUMES[:, :, :1, :1, :1]
    np.testing.assert_allclose(ops.grid_sample(one, grid, mode, padding, align), sampled(one, grid, mode, padding, align), atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_special_positions_and_elements(mode: str) -> None:
    grid = np.array([[[[np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf], [1e30, 0.0]]]])
    assert not ops.grid_sample(IMAGES[:1], grid, mode).any(), "far outside there are zeros"
    spoilt = IMAGES[:1].copy()
    spoilt[0, 0, 3, 4] = np.nan
    corner = ops.grid_sample(spoilt, np.array([[[[1.0, 1.0], [-1.0, -1.0]]]]), mode, align_corners=True)
    assert np.isnan(corner[0, 0, 0, 0]) and not np.isnan(corner[0, 1]).any()
    assert not np.isnan(corner[0, 0, 0, 1])
    assert ops.grid_sample(IMAGES, np.zeros((2, 0, 3, 2)), mode).shape == (2, 3, 0, 3)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        assert ops.grid_sample(IMAGES.astype(dtype), grid.repeat(2, 0), mode).dtype == dtype


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(2, 1, 3, 4), (2, 5, 1, 3), (2, 1, 2, 3, 4), (2, 1, 4, 1, 1)])
def test_affine_grid(size: tuple[int, ...], align: bool) -> None:
    rank = len(size) - 2
    theta = RNG.standard_normal((2, rank, rank + 1))
    expected = np.zeros((2, *size[2:], rank))
    for n, *place in itertools.product(range(2), *map(range, size[2:])):
        at = [(2 * i / (s - 1) - 1 if s > 1 else 0.0) if align else (2 * i + 1) / s - 1 for i, s in zip(place, size[2:], strict=True)]
        expected[(n, *place)] = theta[n] @ [*at[::-1], 1.0]
    np.testing.assert_allclose(ops.affine_grid(theta, size, align), expected, rtol=1e-13, atol=1e-13)
    narrow = ops.affine_grid(theta.astype(np.float16), size=list(size), align_corners=align)
    assert narrow.dtype == np.float16 and narrow.shape == expected.shape
    np.testing.assert_allclose(narrow, expected, rtol=2e-3, atol=3e-3)


def test_the_identity_map_gives_the_image_back() -> None:
    for images in (IMAGES, VOLUMES):
        rank = images.ndim - 2
        theta = np.tile(np.eye(rank, rank + 1), (2, 1, 1))
        for align in (False, True):
            grid = ops.affine_grid(theta, images.shape, align)
            np.testing.assert_allclose(ops.grid_sample(images, grid, align_corners=align), images, atol=1e-12)


@bcvm.jit(strict=True)
def warped(x: Any, theta: Any) -> Any:
    return ops.grid_sample(x, ops.affine_grid(theta, x.shape), padding_mode="border") * 2


def test_they_run_through_the_vm() -> None:
    theta = np.tile(np.eye(2, 3), (2, 1, 1))
    np.testing.assert_allclose(warped(IMAGES, theta), IMAGES * 2, atol=1e-12)
    assert {"affine_grid", "grid_sample", "multiply"} <= set(warped.stats().ops)


WRONG = [
    lambda: ops.grid_sample(VOLUMES, np.zeros((2, 1, 1, 1, 3)), "bicubic"),
    lambda: ops.grid_sample(VOLUMES, np.zeros((2, 1, 1, 1, 2))),
    lambda: ops.grid_sample(IMAGES, np.zeros((1, 1, 1, 2))),
    lambda: ops.grid_sample(IMAGES, np.zeros((2, 1, 1, 2)), padding_mode="wrap"),
    lambda: ops.affine_grid(np.zeros((2, 2, 3)), (2, 1, 3)),
    lambda: ops.affine_grid(np.zeros((2, 2, 3)), (3, 1, 3, 3)),
    lambda: ops.affine_grid(np.zeros((2, 2, 3)), (2, 1, 0, 3)),
    lambda: ops.affine_grid(np.zeros((2, 3, 4)), (2, 1, 3, 3)),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_are_refused(number: int) -> None:
    with pytest.raises(ValueError):
        WRONG[number]()


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8])
@pytest.mark.parametrize(("reduce", "better"), [("max", max), ("min", min)])
def test_scatter_keeps_the_largest_or_smallest(reduce: str, better: Any, dtype: Any) -> None:
    x, index = np.arange(12).reshape(3, 4).astype(dtype), np.array([[2, 0, 1, 1], [2, 2, 1, 0]])
    src = np.array([[5, 9, 1, 0], [7, 3, 8, 2]]).astype(dtype)
    expected = x.copy()
    for i, j in itertools.product(range(2), range(4)):
        expected[index[i, j], j] = better(expected[index[i, j], j], src[i, j])
    found = ops.scatter(x, index, src, 0, reduce)
    assert found.dtype == dtype and (found == expected).all()


def test_scatter_lets_nan_win() -> None:
    found = ops.scatter(np.zeros(3), np.array([1, 1, 2]), np.array([np.nan, 5.0, -1.0]), 0, "max")
    assert np.isnan(found[1]) and found[2] == 0
