"""Gathering, scattering, sampling, and rearranging blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcvm_core import ops
from tests.onnx_nodes.table import op, part, simple

SAMPLING = {"linear": "bilinear", "cubic": "bicubic"}

simple(
    {
        "AffineGrid": lambda theta, size, align_corners=0: ops.affine_grid(theta, tuple(size.tolist()), bool(align_corners)),
        "DepthToSpace": lambda x, blocksize, mode="DCR": (
            ops.depth_to_space(x, blocksize) if mode == "DCR" else ops.pixel_shuffle(x, blocksize)
        ),
        "ReverseSequence": lambda x, lengths, batch_axis=1, time_axis=0: ops.reverse_sequence(x, lengths, time_axis, batch_axis),
        "SpaceToDepth": lambda x, blocksize, mode="DCR": (
            ops.space_to_depth(x, blocksize) if mode == "DCR" else ops.pixel_unshuffle(x, blocksize)
        ),
        "Scatter": lambda x, indices, updates, axis=0: ops.scatter(x, indices, updates, axis),
    }
)


@op("GatherND")
def gather_nd(x: Any, indices: Any, batch_dims: int = 0) -> Any:
    if batch_dims == 0:
        return ops.gather_nd(x, indices)
    lead = x.shape[:batch_dims]
    rows, places = x.reshape(-1, *x.shape[batch_dims:]), indices.reshape(-1, *indices.shape[batch_dims:])
    found = np.stack([ops.gather_nd(row, place) for row, place in zip(rows, places, strict=True)])
    return found.reshape(*lead, *found.shape[1:])


@op("ScatterElements")
def scatter_elements(x: Any, indices: Any, updates: Any, axis: int = 0, reduction: str = "none") -> Any:
    reduce = {"none": None, "mul": "multiply"}.get(reduction, reduction)
    return ops.scatter(x, np.where(indices < 0, indices + x.shape[axis], indices), updates, axis, reduce)


@op("ScatterND")
def scatter_nd(x: Any, indices: Any, updates: Any, reduction: str = "none") -> Any:
    return ops.tensor_scatter(x, indices, updates, mode="update" if reduction == "none" else reduction)


@op("TensorScatter")
def tensor_scatter(cache: Any, update: Any, starts: Any = None, axis: int = -2, mode: str = "linear") -> Any:
    result = cache.copy()
    length, count = cache.shape[axis], update.shape[axis]
    for i in range(len(cache)):
        places = np.arange(count) + (0 if starts is None else starts[i])
        if mode == "circular":
            places = places % length
        rows = np.swapaxes(result[i], axis, 0)
        rows[places] = np.swapaxes(update[i], axis, 0)
    return result


@op("Unique")
def unique(x: Any, axis: int | None = None, sorted: int = 1) -> Any:
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values, first, counts = np.take(values, order, axis=axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, first, inverse, counts


@op("CenterCropPad")
def center_crop_pad(x: Any, shape: Any, axes: Any = None) -> Any:
    for axis, wanted in zip(range(x.ndim) if axes is None else axes, shape.tolist(), strict=True):
        have = x.shape[axis]
        if have > wanted:
            x = ops.narrow(x, axis, (have - wanted) // 2, wanted)
        else:
            width = [(0, 0)] * x.ndim
            width[axis] = ((wanted - have) // 2, wanted - have - (wanted - have) // 2)
            x = np.pad(x, width)
    return x


@op("GridSample")
def grid_sample(x: Any, grid: Any, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0) -> Any:
    return ops.grid_sample(x, grid, SAMPLING.get(mode, mode), padding_mode, bool(align_corners))


@op("DeformConv")
def deform_conv(
    x: Any,
    w: Any,
    offset: Any,
    b: Any = None,
    mask: Any = None,
    kernel_shape: Any = None,
    pads: Any = (0, 0, 0, 0),
    strides: Any = (1, 1),
    dilations: Any = (1, 1),
    group: int = 1,
    offset_group: int = 1,
) -> Any:
    n, channels, height, width = x.shape
    kh, kw = w.shape[2:]
    out_h, out_w = offset.shape[2:]
    moved = offset.reshape(n, offset_group, kh, kw, 2, out_h, out_w)
    rows = np.arange(out_h).reshape(1, 1, -1, 1) * strides[0] - pads[0] + np.arange(kh).reshape(-1, 1, 1, 1) * dilations[0]
    columns = np.arange(out_w) * strides[1] - pads[1] + np.arange(kw).reshape(1, -1, 1, 1) * dilations[1]
    y, each = 0, channels // offset_group
    for g in range(offset_group):
        grid = np.stack([scaled(columns + moved[:, g, :, :, 1], width), scaled(rows + moved[:, g, :, :, 0], height)], axis=-1)
        found = ops.grid_sample(x[:, g * each : (g + 1) * each], grid.reshape(n, -1, out_w, 2), align_corners=True)
        found = found.reshape(n, each, kh, kw, out_h, out_w)
        if mask is not None:
            found = found * mask.reshape(n, offset_group, 1, kh, kw, out_h, out_w)[:, g]
        y = y + np.einsum("ncijhw,ocij->nohw", found, w[:, g * each : (g + 1) * each])
    return y if b is None else y + b.reshape(-1, 1, 1)


@part
def scaled(position: Any, size: int) -> Any:
    """Positions among pixels as grid_sample counts with align_corners."""
    return (position * (2 / (size - 1)) - 1).astype(np.float32)


@op("NonMaxSuppression")
def non_max_suppression(
    boxes: Any, scores: Any, limit: Any = None, overlap: Any = None, threshold: Any = None, center_point_box: int = 0
) -> Any:
    limit = 0 if limit is None else int(limit[0])
    overlap = 0.0 if overlap is None else float(overlap[0])
    chosen = []
    for batch in range(scores.shape[0]):
        low, high = corners(boxes[batch], center_point_box)
        for label in range(scores.shape[1]):
            order = np.argsort(-scores[batch, label], kind="stable")
            if threshold is not None:
                order = order[scores[batch, label][order] > threshold[0]]
            kept = 0
            while len(order) and kept < limit:
                best = order[0]
                chosen.append([batch, label, int(best)])
                kept += 1
                order = order[overlaps(low, high, best)[order] <= overlap]
    return np.array(chosen, dtype=np.int64).reshape(-1, 3)


@part
def corners(boxes: Any, center_point_box: int) -> Any:
    """The lower and the upper corner of every box."""
    if center_point_box:
        return boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    return np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])


@part
def overlaps(low: Any, high: Any, best: Any) -> Any:
    """Intersection over union with one box; 1 for the box itself."""
    sides = np.maximum(np.minimum(high, high[best]) - np.maximum(low, low[best]), 0)
    areas = np.prod(high - low, axis=1)
    shared = np.prod(sides, axis=1)
    ratio = shared / (areas + areas[best] - shared)
    ratio[best] = 1.0
    return ratio
