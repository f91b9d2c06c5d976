"""Signals: Fourier transforms as products, windows, mel weights; regions of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.onnx_nodes.element_types import numpy_type
from tests.onnx_nodes.table import op, part, simple


@part
def angles(size: Any, periodic: int) -> Any:
    """2 pi n / N of a window."""
    count = int(size)
    return 2 * np.pi * np.arange(count) / (count if periodic else count - 1)


simple(
    {
        "HannWindow": lambda size, output_datatype=1, periodic=1: (0.5 - 0.5 * np.cos(angles(size, periodic))).astype(
            numpy_type(output_datatype)
        ),
        "HammingWindow": lambda size, output_datatype=1, periodic=1: (25 / 46 - 21 / 46 * np.cos(angles(size, periodic))).astype(
            numpy_type(output_datatype)
        ),
        "BlackmanWindow": lambda size, output_datatype=1, periodic=1: (
            0.42 - 0.5 * np.cos(angles(size, periodic)) + 0.08 * np.cos(2 * angles(size, periodic))
        ).astype(numpy_type(output_datatype)),
        "Binarizer": lambda x, threshold=0.0: np.where(x > threshold, 1, 0).astype(x.dtype),
        "ArrayFeatureExtractor": lambda x, places: np.take(x, places, axis=-1),
    }
)


@part
def transformed(z: Any, axis: int, count: int, inverse: int) -> Any:
    """The discrete Fourier transform of complex numbers along an axis, cut or filled up with zeros to `count`."""
    have = z.shape[axis]
    z = np.take(z, range(min(have, count)), axis=axis)
    width = [(0, 0)] * z.ndim
    width[axis] = (0, max(count - have, 0))
    places = np.arange(count)
    turns = np.exp((2j if inverse else -2j) * np.pi * places[:, None] * places / count)
    y = np.moveaxis(np.tensordot(turns, np.pad(z, width), axes=(1, axis)), 0, axis)
    return y / count if inverse else y


@op("DFT")
def dft(x: Any, length: Any = None, at: Any = None, axis: int | None = None, inverse: int = 0, onesided: int = 0, opset: int = 20) -> Any:
    axis = int(at) if at is not None else axis if axis is not None else (1 if opset < 20 else -2)
    axis = axis % x.ndim
    z = x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0].astype(np.complex128)
    half = x.shape[axis] if length is None else int(length)
    if inverse and onesided:
        count = 2 * (half - 1) if length is None else half
        inner = np.take(z, range(1, (count + 1) // 2), axis=axis)
        z = np.concatenate([z, np.conjugate(np.flip(inner, axis))], axis=axis)
        return np.real(transformed(z, axis, count, 1))[..., None].astype(x.dtype)
    y = transformed(z, axis, half, inverse)
    if onesided:
        y = np.take(y, range(half // 2 + 1), axis=axis)
    return np.stack([y.real, y.imag], axis=-1).astype(x.dtype)


@op("STFT")
def stft(x: Any, step: Any, window: Any = None, length: Any = None, onesided: int = 1) -> Any:
    count = window.shape[0] if length is None else int(length)
    starts = np.arange(0, x.shape[1] - count + 1, int(step))
    frames = x[:, starts[:, None] + np.arange(count), 0]
    if window is not None:
        frames = frames * window
    y = transformed(frames.astype(np.complex128), 2, count, 0)
    if onesided:
        y = y[:, :, : count // 2 + 1]
    return np.stack([y.real, y.imag], axis=-1).astype(x.dtype)


@op("MelWeightMatrix")
def mel_weights(bins: Any, length: Any, rate: Any, lower: Any, upper: Any, output_datatype: int = 1) -> Any:
    count = int(bins)
    low, high = 2595 * np.log10(1 + lower / 700), 2595 * np.log10(1 + upper / 700)
    mels = np.arange(count + 2) * ((high - low) / (count + 2)) + low
    edges = ((int(length) + 1) * (700 * (np.power(10.0, mels / 2595) - 1)) // int(rate)).astype(np.int64)
    start, centre, end = edges[:-2], edges[1:-1], edges[2:]
    j = np.arange(int(length) // 2 + 1)[:, None]
    rising = np.where((j >= start) & (j <= centre), (j - start) / np.maximum(centre - start, 1), 0.0)
    rising = np.where((centre == start) & (j == centre), 1.0, rising)
    falling = np.where((j >= centre) & (j < end) & (end > centre), (end - j) / np.maximum(end - centre, 1), rising)
    return falling.astype(numpy_type(output_datatype))


@op("RoiAlign")
def roi_align(
    x: Any,
    rois: Any,
    batches: Any,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:
    half = coordinate_transformation_mode == "half_pixel"
    found = []
    for roi, batch in zip(rois, batches, strict=True):
        corners = roi * spatial_scale - (0.5 if half else 0.0)
        sides = corners[2:] - corners[:2] if half else np.maximum(corners[2:] - corners[:2], 1.0)
        columns = samples(corners[0], sides[0], output_width, sampling_ratio)
        rows = samples(corners[1], sides[1], output_height, sampling_ratio)
        corner_terms = terms(x[batch], rows, columns)
        if mode == "avg":
            found.append(sum(corner_terms).mean(axis=(2, 4)))
        else:
            found.append(np.max(np.stack(corner_terms), axis=(0, 3, 5)))
    return np.stack(found).astype(x.dtype)


@part
def samples(start: Any, side: Any, count: int, ratio: int) -> Any:
    """Where each of `count` cells along one side is sampled: (count, samples)."""
    each = ratio if ratio > 0 else int(np.ceil(side / count))
    cell = side / count
    return start + np.arange(count)[:, None] * cell + (np.arange(each) + 0.5) * cell / each


@part
def terms(image: Any, rows: Any, columns: Any) -> Any:
    """The four weighted neighbours of every sample: (channels, rows, samples, columns, samples) each."""
    vertical, horizontal = neighbours(rows, image.shape[1]), neighbours(columns, image.shape[2])
    found = []
    for row, down in vertical:
        for column, right in horizontal:
            weight = down[:, :, None, None] * right
            found.append(image[:, row[:, :, None, None], column] * weight)
    return found


@part
def neighbours(place: Any, size: int) -> Any:
    """The elements on both sides of a place with their weights; none far outside."""
    inside = (place >= -1) & (place <= size)
    place = np.clip(place, 0, size - 1)
    low = np.floor(place).astype(np.int64)
    part_high = place - low
    return (low, np.where(inside, 1 - part_high, 0)), (np.minimum(low + 1, size - 1), np.where(inside, part_high, 0))
