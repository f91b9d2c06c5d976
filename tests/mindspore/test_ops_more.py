"""More of `mindspore.ops` and Tensor methods: the same types, shapes and numbers as MindSpore's own kernels."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import array, by_mindspore, by_site, tensor, type_name

from bcvm_core.mindspore import mint_table

pytestmark = pytest.mark.mindspore

CALLS = """
ops.zeros((2, 3)) | ops.zeros(3, ms.int32) | ops.ones((2, 3), ms.float16)
ops.arange(5) | ops.arange(1, 9, 2) | ops.arange(0.0, 1.0, 0.25) | ops.arange(3, dtype=ms.float32)
ops.gather_nd(x, pairs) | ops.gather_nd(im, pairs) | x.gather_nd(pairs) | ops.scatter_nd(pairs, v[:2], (3, 4))
ops.tensor_scatter_add(x, pairs, v[:2]) | ops.tensor_scatter_max(x, pairs, v[:2]) | ops.tensor_scatter_min(x, pairs, v[:2])
ops.narrow(x, 1, 1, 2) | x.narrow(0, 1, 2) | ops.masked_select(x, m) | x.masked_select(m)
ops.topk(x, 2) | ops.topk(x, 2, dim=0) | x.topk(2) | ops.cummax(x, 1) | ops.cummin(x, 0) | ops.vstack((x, y))
ops.var_mean(x, 1) | ops.std_mean(x, 1, 1)
ops.addmm(q, x, w, beta=0.5, alpha=2) | ops.addbmm(q, b1, b2) | ops.baddbmm(b3, b1, b2) | q.addmm(x, w) | b3.baddbmm(b1, b2)
ops.cdist(x, y) | ops.inverse(sq)
ops.lerp(x, y, 0.25) | ops.lerp(x, y, p) | x.lerp(y, 0.25) | ops.addcmul(x, y, p)
ops.addcdiv(x, y, p) | ops.xlogy(x, p) | x.xlogy(p) | ops.logaddexp2(x, y) | ops.erfinv(u) | u.erfinv() | ops.isclose(x, x)
s.isneginf()
ops.selu(x) | ops.celu(x, 1.5) | ops.glu(x) | ops.tanhshrink(x) | ops.threshold(x, 0.1, 9.0) | ops.logit(u / 2, 1e-5)
ops.softshrink(x) | ops.hardshrink(x) | ops.prelu(im, p4)
ops.interpolate(im, (12, 12), mode='bilinear') | ops.interpolate(im, (3, 9), mode='nearest')
ops.interpolate(im, (9, 4), None, 'bilinear', True)
ops.avg_pool1d(seq, 3, 2) | ops.adaptive_avg_pool1d(seq, 3) | ops.pixel_shuffle(im, 2) | ops.pixel_unshuffle(im, 2)
ops.channel_shuffle(im, 2)
ops.unfold(im, 2)
ops.grid_sample(im, grid) | ops.grid_sample(im, grid, 'nearest', 'border', True) | ops.grid_sample(im, grid, padding_mode='reflection')
ops.grid_sample(boxes, grid3, align_corners=True) | ops.grid_sample(boxes, grid3, 'nearest')
ops.affine_grid(theta, (2, 1, 3, 4)) | ops.affine_grid(theta, (2, 1, 3, 4), True) | ops.affine_grid(theta3, (2, 1, 2, 3, 4))
ops.kl_div(x, p) | ops.kl_div(x, p, 'sum') | ops.nll_loss(x, c3i) | ops.nll_loss(x, c3i, p4, reduction='sum')
ops.huber_loss(x, y) | ops.huber_loss(x, y, 'none', 0.5) | ops.cosine_embedding_loss(x, y, oi, 0.25)
ops.margin_ranking_loss(v, p4, sg[0], 0.5) | ops.hinge_embedding_loss(x, sg)
ops.gaussian_nll_loss(x, y, p) | ops.cosine_similarity(x, y)
ops.t(x) | x.t() | mint.t(v) | ops.expand_as(v, x) | v.expand_as(x) | ops.view_as(x, w[:3, :4].reshape(4, 3))
x.view_as(w[:3, :4].reshape(4, 3))
ops.flatten(x) | ops.flatten(im) | ops.flatten(im, start_dim=2) | ops.flatten(im, 'C', start_dim=1, end_dim=2) | ops.flatten(v)
x.flatten()
im.flatten(1) | im.flatten(1, 2) | im.flatten(start_dim=2) | im.flatten(order='C', start_dim=1) | ops.argwhere(m) | m.argwhere()
m.nonzero()
ops.flipud(x) | x.flipud() | ops.fliplr(x) | x.fliplr() | ops.diag(v) | v.diag() | ops.column_stack((v, v))
ops.rot90(x, 1, (0, 1)) | x.rot90(3, [0, 1])
ops.hsplit(x, 2) | x.hsplit(2) | x.hsplit([1]) | ops.vsplit(x, 3) | x.vsplit(3) | ops.dsplit(im, 2) | im.dsplit(3)
ops.float_power(p, x) | ops.float_power(p, 2) | p.float_power(x) | ops.arcsin(u) | ops.arccos(u) | ops.arctan(x)
ops.arcsinh(x) | ops.arccosh(p + 1)
u.arcsin() | u.arccos() | x.arctan() | x.arcsinh() | (p + 1).arccosh() | (u / 2).arctanh() | x.logaddexp(y) | x.logaddexp2(y)
x.hypot(y) | x.fmax(y)
x.copysign(y) | s.nan_to_num() | s.nan_to_num(0.5) | s.nan_to_num(posinf=2.0, neginf=-3.0) | x.equal(x) | x.allclose(x)
x.isclose(x2=x)
ops.bitwise_left_shift(i, j) | ops.bitwise_right_shift(i, 1) | i.bitwise_left_shift(j) | i.bitwise_right_shift(j) | i.invert()
x.hardshrink(0.25)
ops.nansum(x) | ops.nansum(x, 1, True) | x.nansum() | x.nansum(axis=0) | ops.nanmean(s[:2]) | ops.nanmean(x, 1)
x.nanmean(0, True)
ops.nanmean(s[1:2]) | mint.nansum(x, dtype=ms.float64)
ops.max(x, 1) | ops.max(x, 0, True) | ops.min(x, axis=1) | x.max(0) | x.max(1, True) | x.max(dim=0) | x.min(dim=1, keepdim=True)
x.min(0)
x.max(axis=0, initial=0.25) | x.max(axis=1, initial=0.25, where=m) | x.amax(0, initial=0.0) | ops.amin(x, 1, initial=-9.0)
x.amin(0, initial=3, where=m) | x.max(axis=1, keepdims=True, initial=0.0) | x.sum(axis=0, initial=3) | x.sum(1, None, True, 0.5)
ops.unique(c) | ops.unique(x) | ops.unique(i) | ops.bincount(c) | ops.bincount(c, minlength=9) | c.bincount() | ops.trace(sq)
sq.trace() | x.trace(1) | x.trace(0, 1, 0)
ops.dot(x, w) | ops.dot(b1, w) | x.dot(w) | ops.mv(x, v) | ops.inner(x, y) | x.inner(y) | ops.inner(v, v) | ops.kron(x, q)
ops.addmv(r, x, v, beta=0.5, alpha=2)
r.addmv(x, v) | ops.upsample(im, (9, 12)) | ops.upsample(im, (9, 7), None, 'bilinear') | ops.binary_cross_entropy(u, u)
ops.binary_cross_entropy(u, u, p, 'sum')
ops.dropout(x, 0.5, False) | ops.dropout2d(im, 0.5, False) | ops.dropout(x, training=False, seed=None)
x.gather(1, n4) | x.gather(e, 1) | x.gather(dim=1, index=n4) | x.gather(input_indices=e, axis=0) | x.take(e) | x.take(e, 1)
x.take(c * 9) | x.take(c, axis=1, mode='wrap')
x.select(1, 2) | x.scatter(1, n4, y[:, :2]) | x.scatter(axis=1, index=n4, src=y[:, 2:]) | x.scatter(1, n4, 2.5)
x.scatter_add(pairs, v[:2])
x.cummax(1) | x.cummin(0) | x.sort() | x.sort(0) | x.sort(axis=0, descending=True) | x.sort(dim=1, descending=True)
x.argsort(descending=True) | x.argsort(0, True)
x.argsort(dim=1, descending=True) | ops.argsort(x, 1, True) | ops.sort(x, 0, True) | ops.sort(x, 1) | ops.argsort(i)
x.median() | x.median(0) | x.median(axis=1, keepdims=True) | x.count_nonzero() | i.count_nonzero(axis=1)
i.count_nonzero(axis=0, keep_dims=True, dtype=ms.int64)
ops.count_nonzero(i, 1, dtype=ms.int64) | ordered.searchsorted(v) | ordered.searchsorted(v, side='right')
mint.searchsorted(ordered, v[:1], out_int32=True)
im.unfold(2) | x.add(y, alpha=2) | x.sub(y, alpha=0.5) | x.subtract(y, alpha=2) | ops.subtract(x, y, alpha=2)
x.div(p, rounding_mode='floor') | x.div(p, rounding_mode='trunc')
x.divide(p, rounding_mode=None) | x.true_divide(p) | x.remainder(divisor=p) | m.logical_and(y=m) | m.logical_or(y=m)
x.multiply(value=y) | x.sub(y=y)
x.softmax(1, dtype=ms.float16) | ops.softmax(x, 1, dtype=ms.float64) | ops.softmax(i, 1, dtype=ms.float32)
mint.softmax(x, 1, dtype=ms.float64)
x.to(ms.float16, False, True) | x.to(i) | x.to(other=x) | x.unsqueeze(axis=1) | x.where(m, other=y)
ops.norm(x, dtype=ms.float64) | x.norm(dtype=ms.float16)
ops.gather(x, e, 1, 0) | ops.nll_loss(x, c3i, label_smoothing=0.0) | ops.relu(x, False) | ops.relu(x, inplace=False)
ops.batch_norm(im, g4, p4, p4, g4, False) | ops.batch_norm(im, g4, p4, p4, g4, training=False, momentum=0.9)
ops.conv2d(im, k, g3, 1, 'same') | ops.conv2d(im, k, None, 2, 'pad', 1) | ops.conv2d(im, k, pad_mode='valid')
ops.conv1d(seq, k1, pad_mode='same')
ops.conv2d(im, k, None, 1, 'pad', (1, 2)) | ops.conv1d(seq, k1, None, 2, 'pad', 1)
ops.strided_slice(im, (0, 1, 0, 1), (2, 4, 6, 6), (1, 2, 1, 3)) | ops.strided_slice(x, (0, 1), (1, 4), (1, 1), shrink_axis_mask=1)
ops.strided_slice(x, (2, 3), (0, 0), (-1, -2), end_mask=2)
ops.interpolate(im, (9, 9), None, 'bilinear', None, None)
"""
EACH = [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" | ")]


def operands() -> dict[str, Any]:
    more = {"pairs": np.array([[0, 1], [1, 3]]), "rows": np.array([[2, 0, 1, 1], [0, 2, 1, 1]]), "c3i": np.array([1, 3, 0], np.int32)}
    rng = np.random.default_rng(8)
    shapes = {"theta": (2, 2, 3), "theta3": (2, 3, 4), "boxes": (2, 2, 3, 4, 5), "grid3": (2, 2, 3, 2, 3)}
    more |= {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    more["oi"] = np.array([1, -1, 1], np.int32)
    return {name: tensor(value, value.dtype) for name, value in {**mint_table.operands(), **more}.items()} | {"tensor": tensor, "ms": ms}


@pytest.mark.parametrize("call", EACH)
def test_the_same_as_mindspore(call: str) -> None:
    ours, theirs = by_site(call, **operands()), by_mindspore(call, **operands())
    assert type_name(ours) == type_name(theirs)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (array(ours), array(theirs))), strict=True):
        assert np.shape(a) == np.shape(b)
        narrow = np.asarray(b).dtype == np.float16
        np.testing.assert_allclose(a, b, rtol=1e-3 if narrow else 2e-5, atol=3e-6)
